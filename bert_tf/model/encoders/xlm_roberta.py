"""XLM-RoBERTa: RoBERTa in a hundred languages, with SentencePiece (Conneau et al. 2020).

transformers: `XLMRobertaModel`.
"""

from bert_tf.model.encoders.roberta import Encoder as Encoder
