"""Strings to ids and back: the original BERT tokenizer as TensorFlow ops, and pack(): [CLS] a [SEP] b [SEP].

B texts, L = max_seq_length positions, V vocabulary. A "word" is the text between spaces and punctuation.

Two stock tensorflow-text kernels do the work, driven by the tables of `bert_tf.text.normalizer`. Four cases do not fit
into a character table; each is handled where it occurs:

  final sigma                   the one rule of `str.lower` with a context        -> `wordpiece._with_final_sigma`
  a word above 200 characters   the limit of the kernel is in bytes               -> `ExactWordpiece._retry_long_words`
  several tokens per character  the kernel maps the starts of characters only     -> `wordpiece._ends_of_characters`
  order of combining marks      NFD reorders them; matters only for marks that are not Mn, and these are not in any BERT
                                vocabulary (their word is [UNK] in any order)     -> refused if one ever is
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.errors import UserError
from bert_tf.runtime.lazy import tf
from bert_tf.text import special_tokens
from bert_tf.text import vocabulary as vocabularies
from bert_tf.text.added_tokens import AddedTokenSplit, AddedTokenSplitter
from bert_tf.text.any_tokenizer import AnyTokenizer
from bert_tf.text.host_tokenizer import HostTokenizer, create_host_tokenizer
from bert_tf.text.table_tokenizer import TableTokenizer
from bert_tf.text.tokenizer_kinds import KINDS, class_of
from bert_tf.text.tokenizer_settings import AddedToken, TokenizerSettings
from bert_tf.text.truncation import LONGEST_FIRST, TRUNCATIONS
from bert_tf.text.wordpiece import ExactWordpiece

TEXTS_AT_ONCE = 1 << 14  # split together on the host


class Tokenizer(AnyTokenizer):
    """Splits texts into WordPiece ids exactly as google-research/bert `tokenization.py` does (`FullTokenizer`).

    tokenizer(["The foxes ran."])  ->  ids of  the fox ##es ran .

    Stock TensorFlow and tensorflow-text ops only: works eagerly, in `Dataset.map` and inside a SavedModel. Contains no
    variable, table or asset.

    Subclasses split texts in other ways; `create_tokenizer` chooses the one for a vocabulary. For arguments and other
    attributes see AnyTokenizer.

    in_graph: whether it consists of TensorFlow operations, so that a SavedModel can contain it.

    Raises:
        UserError: one of the five special tokens is missing, or a token cannot be treated exactly (when first used).
    """

    in_graph = True

    def _set_up(self) -> None:
        if self.kind.model != "WordPiece":  # its rules may be incomplete
            _ = self.host

    @functools.cached_property
    def is_continuation(self) -> np.ndarray:
        """Which tokens continue a word, bool [V]."""
        return np.array([self.marks.continues(token) for token in self.vocabulary])

    @functools.cached_property
    def _splitter(self) -> Any:
        """Splits texts and finds added tokens in them; starts TensorFlow."""
        with tf.init_scope(), tf.device("CPU:0"):  # eager: captured once, even when built inside a trace
            return self._recognizing(self._new_splitter())

    @functools.cached_property
    def _tokens(self) -> tf.Tensor:
        """The vocabulary, string [V]."""
        with tf.init_scope(), tf.device("CPU:0"):
            return tf.constant(self.vocabulary)

    @staticmethod
    def from_file(
        vocab_file: str, lower_case: bool = True, *, special_tokens_in_strings: bool | Sequence[str] = False
    ) -> Tokenizer:
        """The tokenizer for a `vocab.txt` (one token per line, line number = id) with the rules next to it.

        Raises UserError if `vocabulary.read` does.
        """
        vocabulary = vocabularies.read(vocab_file)
        return create_tokenizer(vocabulary, lower_case, special_tokens_in_strings=special_tokens_in_strings)

    def __call__(
        self, texts: tf.Tensor | Sequence[str] | Sequence[Sequence[str]], *, is_split_into_words: bool = False
    ) -> tf.RaggedTensor:
        """Splits texts into ids. Bytes that are not UTF-8 are dropped.

        Args:
            texts: string [B] or a list of str; if split into words, ragged string [B, (words)] or lists of str.
            is_split_into_words: whether the texts are lists of words. For the tokens per word, see `tokenize_words`.

        Returns:
            Ragged int32 [B, (tokens)].
        """
        if is_split_into_words:
            return self.tokenize_words(texts).merge_dims(1, 2)
        ids: tf.RaggedTensor = self._splitter.tokenize(_as_batch(texts))
        return ids

    def on_host(self, texts: Sequence[str], *, inside_text: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """The ids of B texts, one after the other, int32 [T], and the tokens of each, int32 [B]; without TensorFlow.

        inside_text: whether they are words or sentences inside a text, see the method of that name.
        """
        split = self._table or functools.partial(self.host.flat_ids, inside_text=inside_text)
        parts = [split(texts[first : first + TEXTS_AT_ONCE]) for first in range(0, len(texts), TEXTS_AT_ONCE)]
        columns = zip([np.zeros(0, np.int32)] * 2, *parts, strict=True)
        ids, counts = (np.concatenate(column).astype(np.int32, copy=False) for column in columns)
        return ids, counts

    @functools.cached_property
    def _table(self) -> TableTokenizer | None:
        return TableTokenizer.of(self.vocabulary, self.lower_case, self.special_tokens)

    @functools.cached_property
    def host(self) -> HostTokenizer:
        """The same tokenizer on the host."""
        return create_host_tokenizer(self.vocabulary, self.lower_case, special_tokens_in_strings=self.special_tokens)

    def inside_text(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Ids of words or sentences inside a text: string [B] -> ragged int32 [B, (tokens)]."""
        return self(texts)

    def ids_with_masks(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Like `tokenizer(texts)`, but every tokenizer recognizes the mask, by its own name or as [MASK]."""
        if self.mask_token != special_tokens.MASK:
            texts = tf.strings.regex_replace(texts, re.escape(special_tokens.MASK), self.mask_token)
        if self.mask_token in self.special_tokens:
            return self(texts)
        mask = special_tokens.unrecognized_mask(self.vocabulary)
        ids: tf.RaggedTensor = AddedTokenSplitter(self._splitter, [mask], [self.mask_id]).tokenize(_as_batch(texts))
        return ids

    def tokenize_words(self, words: tf.RaggedTensor | Sequence[Sequence[str]]) -> tf.RaggedTensor:
        """Ragged string [B, (words)] or lists of str -> ids of each word: ragged int32 [B, (words), (tokens)]."""
        if not isinstance(words, tf.RaggedTensor):
            check_unicode(words)
            words = tf.ragged.constant(words, tf.string, ragged_rank=1)
        return words.with_values(self.inside_text(words.values))

    def with_offsets(
        self, texts: tf.Tensor | Sequence[str], unit: str = "character"
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Ids, and the offsets of each token in the original text.

        `text[start:end]` normalizes to the token; it may end in deleted characters (the accents of a decomposed
        letter). If one character (a Hangul syllable) becomes several tokens, all have its offsets.

        Args:
            texts: string [B], or a list of str.
            unit: "character" counts code points as `str` does (lead bytes, if the text is not UTF-8), "byte" bytes.

        Returns:
            ids (int32), starts, ends (int64): ragged [B, (tokens)].
        """
        if unit not in ("character", "byte"):
            raise UserError(f'unit={unit!r} is not a unit of offsets; expected "character" or "byte".')
        offsets: tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor] = self._splitter.tokenize_with_offsets(
            _as_batch(texts), in_characters=unit == "character"
        )
        return offsets

    def ids_to_tokens(self, ids: Any) -> Any:
        """ids: integers of any shape, ragged too -> the tokens, string of the same shape."""
        return tf.gather(self._tokens, ids)

    def detokenize(self, ids: Any) -> str | list[str]:
        """Rows of ids (list of lists, array or ragged [B, (tokens)]) -> list of B readable str.

        Tokens are joined by spaces and ## tokens to the token before; [PAD] is dropped. One row of ids returns one str.
        """
        rows = ids.to_list() if isinstance(ids, tf.RaggedTensor) else [np.asarray(row).tolist() for row in ids]
        if rows and not isinstance(rows[0], list):
            return self._join(rows)
        return [self._join(row) for row in rows]

    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text, without [CLS] and [SEP]."""
        return [self.vocabulary[number] for number in self([text])[0].numpy()]

    def encode(self, text: str, pair: str | None = None) -> list[int]:
        """The ids of a text or a pair as model input: [CLS] a [SEP] b [SEP], neither truncated nor padded."""
        first, *second = self([text] if pair is None else [text, pair]).to_list()
        row = [self.cls_id, *first, self.sep_id]
        return row + [self.sep_id] * (self.separators - 1) + second[0] + [self.sep_id] if second else row

    def decode(self, ids: Sequence[int]) -> str:
        """The text of a row of ids as by `detokenize`, without [CLS], [SEP] and [PAD]."""
        return self._join([int(number) for number in ids if number not in (self.cls_id, self.sep_id, self.pad_id)])

    def continues_word(self, ids: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """Returns whether each token continues the word of the token before; punctuation counts as words: bool [P].

        ids, starts, ends: flat tokens of consecutive texts [P], as returned by `with_offsets`.
        """
        return tf.gather(tf.constant(self.is_continuation), ids)

    def _new_splitter(self) -> Any:
        """An object that splits texts, with the methods `tokenize` and `tokenize_with_offsets` of ExactWordpiece."""
        return ExactWordpiece(self.vocabulary, lower_case=self.lower_case, settings=self.settings)

    def _recognizing(self, splitter: Any) -> Any:
        """The splitter that also finds the added tokens."""
        if normalized := [token for token in self._found if token.normalized]:
            splitter = self._with_normalized(splitter, normalized, [self.ids[token.content] for token in normalized])
        if others := [token for token in self._found if not token.normalized]:
            splitter = AddedTokenSplitter(splitter, others, [self.ids[token.content] for token in others])
        return splitter

    def _with_normalized(self, splitter: Any, tokens: Sequence[AddedToken], ids: Sequence[int]) -> Any:
        """The splitter that also finds these tokens in normalized texts."""
        normal = splitter.normal([token.content for token in tokens])
        found = {text: (token, number) for text, token, number in reversed(list(zip(normal, tokens, ids, strict=True)))}
        renamed = [dataclasses.replace(token, content=text) for text, (token, _) in found.items() if text.strip()]
        numbers = [number for text, (_, number) in found.items() if text.strip()]
        splits = self.settings.split_ideographs and self.kind.model == "WordPiece"
        if renamed:
            splitter.added = AddedTokenSplit(renamed, numbers, without_ideographs=splits)
        return splitter

    def _join(self, row: Sequence[int]) -> str:
        return self.marks.joined(self.vocabulary[i] for i in row if i != self.pad_id)


def create_tokenizer(
    vocabulary: Sequence[str], lower_case: bool = True, *, special_tokens_in_strings: bool | Sequence[str] = False
) -> Tokenizer:
    """The tokenizer for a vocabulary and its kind: WordPiece for a plain list. For arguments see AnyTokenizer."""
    kind: type[Tokenizer] = class_of(KINDS[vocabularies.kind_of(vocabulary)].graph)
    return kind(vocabulary, lower_case, special_tokens_in_strings=special_tokens_in_strings)


def tokenizer_of(checkpoint: Any) -> Tokenizer:
    """The tokenizer of a `checkpoints.checkpoint.Checkpoint` with a vocabulary."""
    special = checkpoint.special_tokens
    return create_tokenizer(checkpoint.vocabulary, checkpoint.lowers_case, special_tokens_in_strings=special)


def pack(
    tokenizer: Tokenizer, segments: Sequence[Any], max_seq_length: int, *, truncation: str = LONGEST_FIRST
) -> dict[str, tf.Tensor]:
    """Joins segments into fixed-length model inputs: [CLS] first [SEP] second [SEP] ...

    `pack(tokenizer, [["the fox"], ["ran"]], 8)`  ->  `[CLS] the fox [SEP] ran [SEP] [PAD] [PAD]`

    Args:
        tokenizer: splits the segments that are texts.
        segments: each string [B], a list of str, or ragged ids [B, (tokens)]; or string tensors [] for single rows, as
            in a dataset before `.batch`. BERT has two segment types; more segments need a model with a larger
            type_vocab_size.
        max_seq_length: L, [CLS] and [SEP] included.
        truncation: the segment that loses tokens at its end. "longest_first": the longest, see `truncated_lengths`.
            "only_first", "only_second": that segment; if the others already fill the sequence, they are truncated, the
            longest first.

    Returns:
        "token_ids" and "segment_ids" int32 [B, L] (0 up to the first [SEP], 1 up to the second, ..., then 0; all 0 for
        a tokenizer with one segment) and "lengths" int32 [B], the number of positions in use.
    """
    room = max_seq_length - tokenizer.special_count(len(segments))
    if not segments or room < 1:
        raise UserError(
            f"pack got {len(segments)} segments and max_seq_length={max_seq_length}; pass one segment and at least 3, "
            "two segments and at least 4, and so on."
        )
    if any(isinstance(segment, str | bytes) for segment in segments):
        raise UserError("pack takes a list of texts for each segment: pack(tokenizer, [[text]], max_seq_length).")
    if all(tf.is_tensor(segment) and segment.shape.rank == 0 for segment in segments):
        rows = pack(tokenizer, [segment[None] for segment in segments], max_seq_length, truncation=truncation)
        return {name: value[0] for name, value in rows.items()}
    segments = [s if isinstance(s, tf.RaggedTensor) and s.dtype != tf.string else tokenizer(s) for s in segments]
    lengths_before = [tf.cast(segment.row_lengths(), tf.int32) for segment in segments]
    sizes = _sizes(lengths_before, room, truncation, tokenizer.settings)
    positions = tf.range(max_seq_length)[None, :]  # [1, L]
    batch = tf.shape(sizes[0])[0]
    token_ids = tf.where(tf.equal(positions, 0), tokenizer.cls_id, tf.fill([batch, max_seq_length], tokenizer.pad_id))
    segment_ids = tf.zeros_like(token_ids)  # [B, L]
    lengths = tf.ones_like(sizes[0])  # [B]
    for number, (segment, size) in enumerate(zip(segments, sizes, strict=True)):
        offset = positions - lengths[:, None]  # [B, L], position inside this segment
        inside = (offset >= 0) & (offset < size[:, None])
        closings = tokenizer.separators if number < len(segments) - 1 else 1
        closing = (offset >= size[:, None]) & (offset < size[:, None] + closings)
        values = tf.concat([tf.cast(segment.values, tf.int32), [tokenizer.pad_id]], 0)  # never empty
        source = tf.where(inside, tf.cast(segment.row_starts(), tf.int32)[:, None] + offset, 0)
        token_ids = tf.where(inside, tf.gather(values, source), tf.where(closing, tokenizer.sep_id, token_ids))
        if not tokenizer.settings.one_segment:
            segment_ids = tf.where(inside | closing, number, segment_ids)
        lengths += size + closings
    return {"token_ids": token_ids, "segment_ids": segment_ids, "lengths": lengths}


def _sizes(lengths: Sequence[tf.Tensor], room: int, truncation: str, settings: TokenizerSettings) -> list[tf.Tensor]:
    """The lengths of segments, int32 [B] each, after a truncation of `pack`."""
    if truncation not in TRUNCATIONS:
        raise UserError(f"truncation={truncation} is unknown; expected one of {', '.join(TRUNCATIONS)}.")
    chosen = TRUNCATIONS[truncation]
    if chosen is None or len(lengths) == 1:
        return truncated_lengths(lengths, room, settings)
    others = truncated_lengths([each for number, each in enumerate(lengths) if number != chosen], room, settings)
    size = tf.minimum(lengths[chosen], room - tf.add_n(others))
    return [*others[:chosen], size, *others[chosen:]]


def truncated_lengths(
    lengths: Sequence[tf.Tensor], room: int | tf.Tensor, settings: TokenizerSettings
) -> list[tf.Tensor]:
    """The lengths of segments, int32 [B] each, after truncating the longest first, the last one on a tie.

    Same as `_truncate_seq_pair` in google-research/bert `run_classifier.py`. With `settings.odd_to_longer`, same as
    `LongestFirst` in Hugging Face's `tokenizers`: if both texts of a pair lose tokens and the room is odd, the longer
    one gets the odd token, the second on a tie.
    """
    if len(lengths) == 1:
        return [tf.minimum(lengths[0], room)]
    if len(lengths) > 2:
        return _truncated_lengths_of_many(lengths, room)
    first, second = lengths
    odd = tf.cast(first > second, tf.int32) if settings.odd_to_longer else 1  # the odd token for the first text
    return [
        tf.minimum(first, tf.maximum(room - second, (room + odd) // 2)),
        tf.minimum(second, tf.maximum(room - first, (room + 1 - odd) // 2)),
    ]


def _truncated_lengths_of_many(lengths: Sequence[tf.Tensor], room: int | tf.Tensor) -> list[tf.Tensor]:
    """`truncated_lengths` of S segments: truncates all to one length; the first ones get the remaining tokens."""
    ordered = tf.sort(tf.stack(lengths, 1), axis=1)  # [B, S]
    sums = tf.cumsum(ordered, axis=1, exclusive=True)  # tokens of the shorter segments
    sharing = tf.range(len(lengths), 0, -1)[None, :]  # segments of at least this length
    share = (room - sums) // sharing  # length of each of them, if the shorter ones are kept whole
    is_cut = share < ordered
    first_cut = tf.argmax(is_cut, axis=1, output_type=tf.int32)[:, None]
    cap, left = (
        tf.where(tf.reduce_any(is_cut, 1), tf.gather(values, first_cut, batch_dims=1)[:, 0], tf.int32.max)
        for values in (share, (room - sums) % sharing)
    )
    sizes, rank = [], tf.zeros_like(cap)
    for length in lengths:
        is_longer = length > cap
        sizes.append(tf.where(is_longer, cap + tf.cast(rank < left, tf.int32), length))
        rank += tf.cast(is_longer, tf.int32)
    return sizes


def _as_batch(texts: Any) -> tf.Tensor:
    """Any batch of strings -> string [B]."""
    if isinstance(texts, str | bytes):
        raise UserError("Got a single string; expected a batch of texts. Put it into a list: [text].")
    try:
        return tf.ensure_shape(tf.convert_to_tensor(texts, tf.string), [None])
    except ValueError:
        check_unicode(texts)
        raise


def check_unicode(texts: Any) -> None:
    """Raises UserError for a text (also in lists) with half a surrogate pair, which tensors cannot store."""
    if isinstance(texts, str):
        try:
            texts.encode()
        except UnicodeEncodeError:
            raise UserError(f"A text is not Unicode: it contains half a surrogate pair ({texts[:40]!r}).") from None
    elif isinstance(texts, list | tuple):
        for text in texts:
            check_unicode(text)
