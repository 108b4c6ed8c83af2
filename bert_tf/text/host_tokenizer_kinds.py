"""Chooses the tokenizer without TensorFlow for a vocabulary."""

from collections.abc import Sequence

from bert_tf.text import host_library, host_subwords, host_tokenizer
from bert_tf.text import vocabulary as vocabularies
from bert_tf.text.host_tokenizer import HostTokenizer

KINDS: dict[str, type[HostTokenizer]] = {
    vocabularies.WORDPIECE: host_tokenizer.WordPiece,
    vocabularies.BYTE_BPE: host_subwords.ByteBpe,
    vocabularies.BERT_BYTE_BPE: host_subwords.BertByteBpe,
    vocabularies.SENTENCEPIECE: host_subwords.Albert,
    vocabularies.MPNET: host_tokenizer.Mpnet,
    vocabularies.XLM_ROBERTA: host_subwords.XlmRoberta,
    vocabularies.DEBERTA_V2: host_subwords.Deberta,
    vocabularies.XLNET: host_subwords.Xlnet,
    vocabularies.LIBRARY: host_library.LibraryTokenizer,
}


def create(
    vocabulary: Sequence[str], lower_case: bool = True, *, special_tokens_in_strings: bool | Sequence[str] = False
) -> HostTokenizer:
    """The tokenizer for a vocabulary and its kind; same arguments as `tokenizer_kinds.create`."""
    kind = KINDS[vocabularies.kind_of(vocabulary)]
    return kind(vocabulary, lower_case, special_tokens_in_strings=special_tokens_in_strings)
