"""CamemBERT: RoBERTa in French, with SentencePiece (Martin et al. 2020).

transformers: `CamembertModel`.
"""

from bert_tf.model.encoders.roberta import Encoder as Encoder
