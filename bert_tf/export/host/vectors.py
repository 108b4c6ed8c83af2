"""Texts to embeddings of texts, words or tokens, in NumPy.

n tokens in a text, K vectors per token, one for each layer, E dimensions of a vector.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.config.sentence_vectors import VectorLayer
from bert_tf.data.host_windows import segment_windows
from bert_tf.export.host import Numbers, Row, rows
from bert_tf.heads.vectors.text_vectors import TextVectors, words_of
from bert_tf.heads.vectors.vector_choice import EPSILON, SMALLEST
from bert_tf.runtime import json_values
from bert_tf.text.host_tokenizer import Tokens

BAR = " ||| "  # between the texts of a pair
BLANKS = " \t\n\r\f"  # `\s` of RE2
NO_OFFSET = -1  # start and end of [CLS] and [SEP], which are in no text
ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "identity": lambda x: x,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


class Read(NamedTuple):
    """A text: its parts, rows and tokens, and the row and position that show each token with most context.

    segments: the part of each token.
    """

    parts: list[str]
    rows: int
    places: list[tuple[int, int]]
    tokens: Tokens
    segments: list[int]


class Stages:
    """See `export.host`. settings: see `VectorChoice.host_settings`."""

    inputs: dict[str, int | None] = {"text": None}
    outputs = ("vectors",)

    def __init__(self, settings: dict[str, Any], about: dict[str, Any], tokenizer: Any) -> None:
        self._tokenizer, self._settings = tokenizer, settings
        self._after = [
            VectorLayer(**{**x, "arrays": json_values.arrays_from_json(x["arrays"])}) for x in settings["after"]
        ]
        self._skipped = 0  # leading tokens of a text to exclude from pooling, including [CLS]
        if settings["prompt"] and not settings["include_prompt"] and settings["pooling"] != "pooled":
            size = len(tokenizer(settings["prompt"])) + tokenizer.special_count(1)
            self._skipped = min(size, settings["max_seq_length"]) - 1

    def read(self, examples: Sequence[Sequence[str]]) -> tuple[list[Row], list[Read]]:
        """Rows for texts and pairs, "first ||| second" being a pair."""
        found, texts = [], []
        for parts in examples:
            is_split = len(parts) == 1 and self._settings.get("splits_pairs", True)
            own, read = self._read(split_pair(parts[0]) if is_split else list(parts))
            found += own
            texts.append(read)
        return found, texts

    def _read(self, parts: list[str]) -> tuple[list[Row], Read]:
        length, tokenizer = self._settings["max_seq_length"], self._tokenizer
        segments = [tokenizer.with_offsets(text) for text in (self._settings["prompt"] + parts[0], *parts[1:])]
        room = max(length - tokenizer.special_count(len(segments)), 0)
        plan = segment_windows([len(each.ids) for each in segments], room, self._settings["stride"], tokenizer.settings)
        found = []
        for number in range(max(each.number for each in plan)):
            whole = zip(segments, plan, strict=True)
            found.append(rows.pack(tokenizer, [part.ids[each.part(number)] for part, each in whole], length))
        places, offset = [(0, 0)], 1
        framed, numbers = [Tokens([tokenizer.cls_id], [NO_OFFSET], [NO_OFFSET])], [0]
        for number, each in enumerate(plan):
            places += [(window, offset + position) for window, position in map(each.best, range(each.length))]
            closings = tokenizer.separators if number < len(plan) - 1 else 1
            places += [(each.number - 1, offset + each.size + closing) for closing in range(closings)]
            offset += each.size + closings
            framed.append(Tokens(*(column[: each.length] for column in segments[number])))
            framed.append(Tokens([tokenizer.sep_id] * closings, [NO_OFFSET] * closings, [NO_OFFSET] * closings))
            numbers += [number] * (each.length + 1) + [0] * (closings - 1)
        return found, Read(parts, len(found), places, Tokens.joined(framed), numbers)

    def answer(self, numbers: Numbers, texts: Sequence[Read]) -> dict[str, np.ndarray]:
        """The outputs of the signature: [B, E], or [B, K, E] for several layers."""
        vectors = np.stack([each.vectors[0] for each in self.vectors(numbers, texts)])
        return {"vectors": vectors[:, 0] if vectors.shape[1] == 1 else vectors}

    def vectors(self, numbers: Numbers, texts: Sequence[Read]) -> list[TextVectors]:
        """The vectors for each text, its words or its tokens."""
        found, first = [], 0
        for read in texts:
            if self._settings["unit"] == "sentence" and self._settings["pooling"] == "pooled":
                states = numbers["pooled"][first][None]
            else:
                own = numbers["tokens"][first : first + read.rows]
                states = own[0] if read.rows == 1 else np.stack([own[row][position] for row, position in read.places])
            found.append(self._of_unit(states.reshape(len(states), -1, states.shape[-1]), read))
            first += read.rows
        return found

    def _of_unit(self, states: np.ndarray, read: Read) -> TextVectors:
        """States of a text's tokens [n, K, E] -> its vectors."""
        unit = self._settings["unit"]
        ids, starts, ends, segments = (np.array(column, np.int32) for column in (*read.tokens, read.segments))
        finish = _unit if self._settings["is_normalized_last"] else np.asarray
        if unit == "sentence":
            vector = _through_layers(self._pooled(states), self._after)[..., : self._settings["truncate_dim"]]
            return TextVectors(finish(vector)[None])
        if unit == "token":
            names = np.array(self._tokenizer.vocabulary, object)[ids]
            return TextVectors(finish(states), names, starts, ends, segments)
        in_text = starts != NO_OFFSET
        begins = in_text & ~self._tokenizer.continues_word(read.tokens)
        if self._settings["words"] == "spaces":
            is_white = np.array([not self._tokenizer.surface(self._tokenizer.vocabulary[number]) for number in ids])
            begins &= (starts > np.roll(ends, 1)) | is_white | np.roll(is_white, 1)
        firsts = np.flatnonzero(begins)
        lasts = np.flatnonzero(in_text & np.append(begins | ~in_text, True)[1:])  # before a word, or [SEP]
        vectors = states[firsts]
        if self._settings["word_vectors"] == "mean" and firsts.size:
            places = np.flatnonzero(begins[in_text])
            counts = np.diff(places, append=in_text.sum())[:, None, None].astype(np.float32)
            vectors = np.add.reduceat(states[in_text], places) / counts
        offsets = starts[firsts], ends[lasts], segments[firsts]
        return words_of(read.parts, finish(vectors), *offsets)

    def _pooled(self, tokens: np.ndarray) -> np.ndarray:
        """Tokens [n, K, E] -> one vector with all poolings for each layer, [K, E]."""
        if self._settings["pooling"] == "pooled":
            return tokens[0]
        skipped = min(self._skipped, len(tokens) - 1)
        pools = self._settings["pooling"].replace("mean_max", "mean+max").split("+")
        return np.concatenate([_pooled(tokens[skipped:], name, skipped) for name in pools], -1)


def split_pair(text: str) -> list[str]:
    """The text, or the two texts around its last bar: `heads.vectors.feature_windows.split_pairs`."""
    first, bar, second = text.rstrip(BLANKS).rpartition(BAR)
    return [first, second] if bar and first.strip(BLANKS) else [text]


def _pooled(tokens: np.ndarray, pooling: str, before: int) -> np.ndarray:
    """Tokens [n, K, E] -> one vector for each layer [K, E]. before: number of preceding tokens in the text."""
    if pooling == "weighted_mean":
        ranks = np.arange(before + 1, before + 1 + len(tokens), dtype=np.float32)
        return (tokens * ranks[:, None, None]).sum(0) / ranks.sum()
    if pooling == "mean_sqrt_len":
        return tokens.sum(0) / np.sqrt(np.float32(len(tokens)))
    if pooling in ("cls", "last"):
        return tokens[0 if pooling == "cls" else -1]
    return tokens.mean(0) if pooling == "mean" else tokens.max(0)


def _through_layers(vector: np.ndarray, layers: Sequence[VectorLayer]) -> np.ndarray:
    """`heads.vectors.features.through_layers` for vectors [K, E]."""
    for layer in layers:
        arrays: Mapping[str, np.ndarray] = layer.arrays
        if layer.kind == "normalize":
            vector = _unit(vector)
        elif layer.kind == "layer_norm":
            variance = vector.var(-1, keepdims=True) + np.float32(EPSILON)
            vector = (vector - vector.mean(-1, keepdims=True)) / np.sqrt(variance)
            vector = vector * arrays["gamma"] + arrays["beta"]
        else:
            output = ACTIVATIONS[layer.activation](vector @ arrays["kernel"] + arrays.get("bias", np.float32(0)))
            residual = vector @ arrays["residual"] if "residual" in arrays else vector
            vector = output.astype(np.float32) + (residual if layer.is_residual else np.float32(0))
    return vector


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), SMALLEST)
