"""`adamw` with bias correction, which makes fine-tuning on few examples more stable (Mosbach et al. 2020)."""

import functools

from bert_tf.training.optimizers.adamw import AdamWeightDecay

create = functools.partial(AdamWeightDecay, bias_correction=True)
