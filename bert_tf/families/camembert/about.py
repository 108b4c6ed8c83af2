"""CamemBERT: RoBERTa in French, with SentencePiece (Martin et al. 2020; transformers `CamembertModel`)."""

import dataclasses

from bert_tf.families.roberta import about as roberta

TRAITS = dataclasses.replace(roberta.TRAITS, tokenizer="xlm_roberta")
HUGGINGFACE = dataclasses.replace(
    roberta.HUGGINGFACE, model_type="camembert", classes="Camembert", defaults={"vocab_size": 30522}
)
