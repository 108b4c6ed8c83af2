"""Chooses the tokenizer for a vocabulary."""

from collections.abc import Sequence
from typing import Any

from bert_tf.text import vocabulary as vocabularies
from bert_tf.text.byte_bpe import BertByteBpeTokenizer, ByteBpeTokenizer
from bert_tf.text.library_tokenizer import LibraryTokenizer
from bert_tf.text.sentencepiece import DebertaTokenizer, SentencePieceTokenizer, XlmRobertaTokenizer, XlnetTokenizer
from bert_tf.text.tokenizer import MpnetTokenizer, Tokenizer

KINDS: dict[str, type[Tokenizer]] = {
    vocabularies.WORDPIECE: Tokenizer,
    vocabularies.BYTE_BPE: ByteBpeTokenizer,
    vocabularies.BERT_BYTE_BPE: BertByteBpeTokenizer,
    vocabularies.SENTENCEPIECE: SentencePieceTokenizer,
    vocabularies.MPNET: MpnetTokenizer,
    vocabularies.XLM_ROBERTA: XlmRobertaTokenizer,
    vocabularies.DEBERTA_V2: DebertaTokenizer,
    vocabularies.XLNET: XlnetTokenizer,
    vocabularies.LIBRARY: LibraryTokenizer,
}


def create(
    vocabulary: Sequence[str], lower_case: bool = True, *, special_tokens_in_strings: bool | Sequence[str] = False
) -> Tokenizer:
    """The tokenizer for a vocabulary: WordPiece for a plain list, else the tokenizer of its kind.

    lower_case: whether it lower-cases; byte-level BPE never does. special_tokens_in_strings: see Tokenizer.
    """
    kind = KINDS[vocabularies.kind_of(vocabulary)]
    return kind(vocabulary, lower_case, special_tokens_in_strings=special_tokens_in_strings)


def of(checkpoint: Any) -> Tokenizer:
    """The tokenizer of a `checkpoints.checkpoint.Checkpoint` with a vocabulary."""
    special = checkpoint.special_tokens
    return create(checkpoint.vocabulary, checkpoint.lowers_case, special_tokens_in_strings=special)


def from_file(
    vocab_file: str, lower_case: bool = True, *, special_tokens_in_strings: bool | Sequence[str] = False
) -> Tokenizer:
    """The tokenizer for a vocab.txt with the rules next to it. Raises UserError if `vocabulary.read` does."""
    return create(vocabularies.read(vocab_file), lower_case, special_tokens_in_strings=special_tokens_in_strings)
