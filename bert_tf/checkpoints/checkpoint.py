"""Checkpoint: the content of a checkpoint of any format."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.segments import SEGMENTS
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.errors import UserError
from bert_tf.heads.tags import Tags
from bert_tf.text.host_tokenizer import HostTokenizer, create_host_tokenizer
from bert_tf.text.vocabulary import has_capitals, settings_of, with_settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The content of a checkpoint of any format, or the start of a model; None for anything missing from its files.

    Attributes:
        config: the configuration of the encoder.
        weights: {canonical name: float32 array}; {} for a model that starts from random ones.
        vocabulary: the tokens; the index is the id.
        lower_case: whether the tokenizer lower-cases.
        special_tokens: those that the tokenizer recognizes in texts; () for none, as in google-research/bert.
        added_tokens: special tokens in the vocabulary in addition to the five, according to its files.
        labels: names of the outputs of the head, in their order.
        kind: the kind of its head, a name in `bert_tf.heads`.
        answers: prediction settings of its head, as recorded by a run or an export: content of about.json and, in
            "host", the `host_settings` of the head; {} if nothing records them.
        max_seq_length: tokens after which texts and pairs are truncated, if its files specify fewer than its positions.
        sentence_vectors: settings for text embeddings, such as the pooling.
        segments_differ: a message about the segments of pairs, if versions of transformers assign different ones.
        left_out: a message for each head of the file that this package would compute differently, with the reason.
        new_head: the number of outputs if the head is new; 0: the weights include the head.
        model: the Keras model that `pretrained.load` made of it, whose variables then have the weights; `model.encoder`
            is its encoder.
        report: the report on loading weights into that model.
    """

    config: BertConfig
    weights: "dict[str, np.ndarray]" = dataclasses.field(default_factory=dict)
    vocabulary: list[str] | None = None
    lower_case: bool | None = None
    special_tokens: tuple[str, ...] = ()
    added_tokens: tuple[str, ...] = ()
    labels: list[str] | None = None
    kind: str | None = None
    answers: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    max_seq_length: int | None = None
    sentence_vectors: SentenceVectors | None = None
    segments_differ: str = ""
    left_out: tuple[str, ...] = ()
    new_head: int = 0
    model: Any = dataclasses.field(default=None, compare=False)
    report: Any = dataclasses.field(default=None, compare=False)

    def check_vocabulary(self, path: object) -> None:
        """Raises UserError, which names the path, if it has no vocabulary and thus no tokenizer."""
        if self.vocabulary is None:
            raise UserError(f"{path} has no vocab.txt, so it cannot tokenize strings.")

    @functools.cached_property
    def host_tokenizer(self) -> HostTokenizer:
        """Its tokenizer without TensorFlow; requires a vocabulary. `tokenizer_of` makes that for pipelines."""
        return create_host_tokenizer(
            self.vocabulary or (), self.lowers_case, special_tokens_in_strings=self.special_tokens
        )

    def with_segments(self, segments: str) -> "Checkpoint":
        """The same checkpoint with "one" segment for both texts of a pair, or "two"; UserError for other values."""
        if segments not in SEGMENTS:
            raise UserError(f"segments is {segments!r}; expected one of {', '.join(SEGMENTS)}.")
        config, tokens = self.config, self.vocabulary
        if "cls_has_segment" in config.settings:
            own = {**config.settings, "cls_has_segment": segments == "two"}
            config = dataclasses.replace(config, settings=own)
        if tokens is not None:
            settings = dataclasses.replace(settings_of(tokens), one_segment=segments == "one")
            tokens = with_settings(tokens, settings)
        return dataclasses.replace(self, config=config, vocabulary=tokens, segments_differ="")

    @property
    def reads_segments(self) -> bool:
        """Returns whether segment ids change the output of the encoder."""
        has_table = "encoder/embeddings/segment_table" in self.weights and self.config.type_vocab_size > 1
        return has_table or "cls_has_segment" in self.config.settings

    @property
    def why_headless(self) -> str:
        """Reason for a missing head, to follow "has no head" in an error; "" if none is known."""
        has_next = self.report is not None and "next_sentence/kernel" in self.report.unused
        reasons = [*self.left_out, *(["its next sentence head is used in pre-training only"] if has_next else [])]
        return f" ({'; '.join(reasons)})" if reasons else ""

    @property
    def lowers_case(self) -> bool:
        """Returns whether the tokenizer lower-cases: as in its files, or else if no token has a capital letter."""
        return self.lower_case if self.lower_case is not None else not has_capitals(self.vocabulary or ())

    @property
    def reads_mean(self) -> bool:
        """Returns whether its head for whole texts reads the mean of their tokens, without a pooler."""
        is_of_texts = "classifier/kernel" in self.weights and self.kind != Tags.kind
        return is_of_texts and self.config.pooling == "mean"


def check_rows_for_tokens(checkpoint: Checkpoint, path: object) -> None:
    """Raises UserError for a vocabulary longer than the token table of its model."""
    count, rows = len(checkpoint.vocabulary or ()), checkpoint.config.vocab_size
    if count > rows:
        raise UserError(
            f"The vocabulary of {path} has {count} tokens, but its model has embeddings for {rows} (vocab_size): pass "
            "the vocabulary that belongs to it, or resize the embeddings in the tool that added the tokens."
        )
