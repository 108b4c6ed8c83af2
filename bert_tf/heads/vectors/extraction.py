"""Texts to vectors with an encoder and a tokenizer: for a command, and as the signatures of an export.

B texts, W rows of the encoder, S positions in a row, M tokens of all texts, n vectors of all texts, D hidden size,
K vectors of a token, E numbers of a vector.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.vectors import features, sentence_choice
from bert_tf.heads.vectors.feature_windows import NO_OFFSET, rows_and_tokens, split_pairs
from bert_tf.heads.vectors.text_vectors import TextVectors, words_of
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.model.heads import BertModel
from bert_tf.model.row_blocks import concat_blocks
from bert_tf.model.sequence_packing import PackingSpec, local_costs
from bert_tf.model.static_rows import StaticRows
from bert_tf.model.static_shapes import MAX_POSITIONS, TOKEN_TEXTS, Ladder
from bert_tf.runtime import backend
from bert_tf.text.ragged_scan import row_numbers
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training.task import Servable

POSITIONS_AT_ONCE = 8192  # of rows that pass the encoder together: bounds memory, and is enough for all cores
STATIC_POSITIONS = 4 * MAX_POSITIONS  # the same where they fill compiled calls
EAGER_BATCHES = 10
EXAMPLES = ["a text", "Two texts, with accents: é ||| and a second one.", "", "many words " * 100]

Tokens = Mapping[str, tf.RaggedTensor]


class Extractor:
    """The vectors of texts; the same functions run here and in an export.

    Memory depends on the longest text, and not on how many windows it has.

    Args:
        model: its encoder is used.
        tokenizer: that of the model.
        choice: which vectors to take.
        packing: None for what is fastest on this machine.
        jit_compile: whether XLA compiles the encoder, in static shapes: "true", "false", or "auto", on accelerators.
        splits_pairs: whether `predict` reads a single text "first ||| second" as a pair.
    """

    def __init__(
        self,
        model: BertModel,
        tokenizer: Tokenizer,
        choice: VectorChoice,
        packing: PackingSpec | None = None,
        jit_compile: str = "false",
        *,
        splits_pairs: bool = True,
    ) -> None:
        self.splits_pairs = splits_pairs
        self.model, self.tokenizer, self.choice = model, tokenizer, choice
        self.packing = packing or PackingSpec.dynamic(local_costs())
        self._static: StaticRows | None = None
        texts, flags, ids = (tf.TensorSpec([None], kind) for kind in (tf.string, tf.bool, tf.int32))
        table = tf.TensorSpec([None, None], tf.int32)
        rows = {"token_ids": table, "segment_ids": table, "lengths": ids}
        self._skipped = 0  # first tokens of a text that are not pooled, [CLS] among them
        if choice.prompt and not choice.include_prompt and choice.pooling != "pooled":
            self._skipped = min(len(tokenizer.encode(choice.prompt)), choice.max_seq_length) - 1
        self._tokenize_graph = tf.function(self.rows_and_tokens, input_signature=[texts, texts, flags], autograph=False)
        self._batches = 0
        self._states = tf.function(self.states, input_signature=[rows], autograph=False)
        if backend.should_jit(jit_compile) and model.encoder.takes_row_tables:
            ladder = Ladder(choice.max_seq_length, texts_per_row=TOKEN_TEXTS)
            self._static = StaticRows(lambda rows: {"states": self.states(rows)}, ladder)

    def predict(self, examples: Sequence[Example]) -> dict[str, list[TextVectors]]:
        """{"vectors": TextVectors of each example}."""
        texts = [example.encode() for example in examples]
        first = tf.constant([each[0] for each in texts], tf.string)
        if len(texts[0]) == 2:
            second, is_pair = tf.constant([each[1] for each in texts], tf.string), tf.fill([len(texts)], True)
        elif self.splits_pairs:
            first, second, is_pair = split_pairs(first)
        else:
            second, is_pair = tf.fill([len(texts)], ""), tf.fill([len(texts)], False)
        try:
            rows, tokens = self._tokenize(first, second, is_pair)
            vectors = self.of_unit(self.of_tokens(rows, tokens), tokens)
        except tf.errors.ResourceExhaustedError:
            raise UserError(f"Memory ran out for {len(examples)} texts at once: lower batch_size.") from None
        return {"vectors": self._split_texts(first, second, tokens, vectors.numpy())}

    def _tokenize(self, *texts: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.RaggedTensor]]:
        """`rows_and_tokens`, as a graph after some batches: tracing takes as long as about ten batches."""
        self._batches += 1
        return (self._tokenize_graph if self._batches > EAGER_BATCHES else self.rows_and_tokens)(*texts)

    def rows_and_tokens(
        self, first: tf.Tensor, second: tf.Tensor, is_pair: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.RaggedTensor]]:
        """`feature_windows.rows_and_tokens` of string [B], string [B], bool [B], with the prompt before the first."""
        choice = self.choice
        if choice.prompt and choice.unit == "sentence":
            first = tf.strings.join([choice.prompt, first])
        return rows_and_tokens(
            self.tokenizer, first, second, is_pair, max_seq_length=choice.max_seq_length, stride=choice.stride
        )

    @backend.only_values()
    def states(self, rows: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Rows -> the vectors of every position, float32 [W, S, K, E]; for "pooled" those of [CLS] only."""
        encoded = self.model.encoder(rows, return_hidden_states=True, packing=self.packing)
        if self.choice.unit == "sentence" and self.choice.pooling == "pooled":
            vectors = tf.cast(encoded["pooled"], tf.float32)[:, None, None, :]  # [W, 1, 1, D]
        else:
            vectors = features.layer_vectors(encoded["hidden_states"], self.choice.layers)
        padding = tf.shape(rows["token_ids"])[1] - tf.shape(vectors)[1]  # positions that no row uses
        return tf.pad(vectors, [[0, 0], [0, padding], [0, 0], [0, 0]])

    def of_tokens(self, rows: Mapping[str, tf.Tensor], tokens: Tokens) -> tf.Tensor:
        """Rows and tokens -> the vectors of all tokens [M, K, E]; rows pass the encoder in blocks."""
        sources, (count, width) = tokens["sources"].values, tf.unstack(tf.shape(rows["token_ids"]))
        order = tf.argsort(sources // width, stable=True)  # by rows, which differs in pairs
        places, positions = tf.gather(sources, order), STATIC_POSITIONS if self._static else POSITIONS_AT_ONCE

        def of_rows(first: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
            block = slice(*tf.unstack(tf.searchsorted(places, [first * width, end * width])))
            states = self._states_of({name: x[first:end] for name, x in rows.items()})
            return tf.gather(tf.reshape(states, [-1, *states.shape[2:]]), places[block] - first * width)

        layers = self.choice.layers
        shape = [len(layers.layers) if layers.join == "apart" else 1, layers.width(self.model.config.hidden_size)]
        if self.choice.unit == "sentence" and self.choice.pooling == "pooled":
            shape = [1, self.model.config.hidden_size]
        vectors = concat_blocks(of_rows, count, shape, tf.maximum(positions // tf.maximum(width, 1), 1))
        is_in_order = tf.reduce_all(order[1:] > order[:-1])
        return tf.cond(is_in_order, lambda: vectors, lambda: tf.gather(vectors, tf.math.invert_permutation(order)))

    def of_unit(self, vectors: tf.Tensor, tokens: Tokens) -> tf.Tensor:
        """The vectors of all tokens [M, K, E] -> those of all tokens, words or texts: [n, K, E]."""
        choice, sources = self.choice, tokens["sources"]
        if choice.unit == "word":
            in_text = tokens["starts"].values != NO_OFFSET
            vectors = tf.boolean_mask(vectors, in_text)
            is_first = tf.boolean_mask(self._begins_word(tokens), in_text)
            vectors = features.word_vectors(vectors, is_first, choice.word_vectors)
        if choice.unit == "sentence":
            pooling = "cls" if choice.pooling == "pooled" else choice.pooling
            texts = tf.cast(row_numbers(sources), tf.int32)
            count = tf.cast(sources.nrows(), tf.int32)
            vectors = features.text_vectors(vectors, texts, count, pooling, self._skipped)
            vectors = features.through_layers(vectors, choice.after)[..., : choice.truncate_dim]
        return features.normalize(vectors) if choice.unit in choice.normalize else vectors

    def signatures(self, prompts: Mapping[str, str] | None = None) -> dict[str, Callable]:
        """The signatures of an export, all of `text`, string [B], a text or "first ||| second" each.

        serving_default: "vectors" [B, E], one for each text. query and document, where `prompts` has one of them: the
        same with these prompts instead of that of the choice. tokens: "vectors" [B, T, E], "tokens", "starts", "ends",
        "segments" [B, T], "counts" [B], without a prompt; zeros, "" and -1 after the last token of a text. Where K is
        not 1, vectors are [B, K, E] and [B, T, K, E].
        """

        def with_choice(**changes: Any) -> Extractor:
            choice = dataclasses.replace(self.choice, **changes)
            return Extractor(self.model, self.tokenizer, choice, PackingSpec.dynamic())

        token = with_choice(unit="token")
        # One for all signatures without a prompt.
        tokenize = tf.function(lambda text: token.rows_and_tokens(*split_pairs(text)), autograph=False)

        def of_texts(sentence: Extractor, text: tf.Tensor) -> dict[str, tf.Tensor]:
            rows, tokens = sentence.rows_and_tokens(*split_pairs(text)) if sentence.choice.prompt else tokenize(text)
            return {"vectors": _squeeze(sentence.of_unit(sentence.of_tokens(rows, tokens), tokens))}

        def of_tokens(text: tf.Tensor) -> dict[str, tf.Tensor]:
            rows, tokens = tokenize(text)
            vectors = _squeeze(token.of_unit(token.of_tokens(rows, tokens), tokens))
            vectors = tokens["ids"].with_values(vectors).to_tensor()
            offsets = {name: tokens[name].to_tensor(NO_OFFSET) for name in ("starts", "ends", "segments")}
            names = self.tokenizer.ids_to_tokens(tokens["ids"].values)
            names = tokens["ids"].with_values(names).to_tensor("")
            counts = tf.cast(tokens["ids"].row_lengths(), tf.int32)
            return {"vectors": vectors, "tokens": names, **offsets, "counts": counts}

        signature = functools.partial(
            tf.function, input_signature=[tf.TensorSpec([None], tf.string, "text")], autograph=False
        )

        def of_prompt(prompt: str) -> Callable:
            sentence = with_choice(unit="sentence", prompt=prompt)
            return signature(lambda text: of_texts(sentence, text))

        known = {name: text for name, text in (prompts or {}).items() if name in sentence_choice.SEARCH_PROMPTS}
        searched = {name: known.get(name, "") for name in sentence_choice.SEARCH_PROMPTS} if any(known.values()) else {}
        texts = {
            name: of_prompt(prompt) for name, prompt in {"serving_default": self.choice.prompt, **searched}.items()
        }
        return {**texts, "tokens": signature(of_tokens)}

    def _states_of(self, rows: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """`states` of the rows of a block, as fast as they are here; in the graph of an export as they are."""
        if not tf.executing_eagerly():
            return self.states(rows)
        if self._static is None:
            return self._states(rows)
        length = rows["token_ids"].shape[1]
        states = self._static({name: x.numpy() for name, x in rows.items()})["states"][:, :length]
        return tf.constant(np.pad(states, [(0, 0), (0, length - states.shape[1]), (0, 0), (0, 0)]))

    def _begins_word(self, tokens: Tokens) -> tf.Tensor:
        """Returns whether a token is the first of a word, bool [M]; after a gap, where only spaces separate words."""
        ids, starts, ends = (tokens[name].values for name in ("ids", "starts", "ends"))
        begins = ~self.tokenizer.continues_word(ids, starts, ends)
        if self.choice.words != "spaces":
            return begins
        is_white = tf.gather([not self.tokenizer.surface(token) for token in self.tokenizer.vocabulary], ids)
        return begins & ((starts > tf.roll(ends, 1, 0)) | is_white | tf.roll(is_white, 1, 0))

    def _split_texts(
        self, first: tf.Tensor, second: tf.Tensor, tokens: Tokens, vectors: np.ndarray
    ) -> list[TextVectors]:
        """The vectors of all texts [n, K, E] -> those of each text."""
        if self.choice.unit == "sentence":
            return [TextVectors(vector[None]) for vector in vectors]
        columns = {name: tokens[name].values.numpy() for name in ("ids", "starts", "ends", "segments")}
        starts, ends, segments = columns["starts"], columns["ends"], columns["segments"]
        splits = tokens["ids"].row_splits.numpy()
        if self.choice.unit == "token":
            names = np.array(self.tokenizer.vocabulary, object)[columns["ids"]]
            bounds = zip(splits[:-1], splits[1:], strict=True)
            return [TextVectors(vectors[a:b], names[a:b], starts[a:b], ends[a:b], segments[a:b]) for a, b in bounds]
        in_text = starts != NO_OFFSET
        begins = in_text & self._begins_word(tokens).numpy()
        firsts = np.flatnonzero(begins)
        lasts = np.flatnonzero(in_text & np.append(begins | ~in_text, True)[1:])  # before a word, or [SEP]
        words = np.searchsorted(firsts, splits)  # bounds of each text's words among all
        results = []
        for pair, a, b in zip(zip(first.numpy(), second.numpy(), strict=True), words[:-1], words[1:], strict=True):
            offsets = starts[firsts[a:b]], ends[lasts[a:b]], segments[firsts[a:b]]
            texts = [text.decode("utf-8", "replace") for text in pair]
            results.append(words_of(texts, vectors[a:b], *offsets))
        return results


def _squeeze(vectors: tf.Tensor) -> tf.Tensor:
    """[..., 1, E] -> [..., E]; other numbers of vectors stay."""
    return vectors[..., 0, :] if vectors.shape[-2] == 1 else vectors


class Features(Servable):
    """An encoder whose outputs are vectors.

    Args:
        choice: which vectors.
        recorded: what the model says of its vectors, whose prompts for queries and documents the export keeps.
    """

    name = "features"

    def __init__(self, choice: VectorChoice, recorded: SentenceVectors | None = None) -> None:
        self.choice, self.recorded = choice, recorded
        self.sentence_vectors = sentence_choice.as_recorded(choice, recorded)

    @property
    def host_settings(self) -> dict[str, Any] | None:  # type: ignore[override]
        """See `export.host.vectors`."""
        return self.choice.host_settings()

    def create_model(self, config: BertConfig, dtype: Any = None) -> keras.Model:
        return BertModel(config, dtype=dtype)

    def signatures(self, model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
        return Extractor(model, tokenizer, self.choice).signatures(self.recorded.prompts if self.recorded else {})
