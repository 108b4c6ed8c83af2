"""CamemBERT."""

import dataclasses

from bert_tf.checkpoints.huggingface_layouts import roberta

LAYOUT = dataclasses.replace(
    roberta.LAYOUT, model_type="camembert", classes="Camembert", defaults={"vocab_size": 30522}
)
