"""XLM-RoBERTa: RoBERTa in a hundred languages, with SentencePiece (Conneau et al. 2020).

transformers: `XLMRobertaModel`.
"""

import dataclasses

from bert_tf.families.roberta import about as roberta

TRAITS = dataclasses.replace(roberta.TRAITS, tokenizer="xlm_roberta")
HUGGINGFACE = dataclasses.replace(
    roberta.HUGGINGFACE, model_type="xlm-roberta", classes="XLMRoberta", defaults={"vocab_size": 30522}
)
KERAS_HUB = dataclasses.replace(roberta.KERAS_HUB, classes="XLMRoberta", has_embedder=True)
