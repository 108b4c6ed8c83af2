"""Text embeddings from an encoder and a tokenizer, as the signatures of an export.

B texts, W rows of the encoder, S positions in a row, M tokens of all texts, n output vectors, D hidden size,
K vectors per token, E dimensions of a vector.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.heads.base.servable import Servable
from bert_tf.heads.vectors import features, sentence_choice
from bert_tf.heads.vectors.feature_windows import NO_OFFSET, rows_and_tokens, split_pairs
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.model.packing import PackingSpec
from bert_tf.model.row_blocks import concat_blocks
from bert_tf.runtime import backend
from bert_tf.runtime.lazy import keras, module, tf
from bert_tf.text.ragged_scan import row_numbers
from bert_tf.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from bert_tf.model.heads import BertModel

model_heads = module("bert_tf.model.heads")
POSITIONS_AT_ONCE = 8192  # in rows encoded together: bounds memory, and is enough for all cores
EXAMPLES = ["a text", "Two texts, with accents: é ||| and a second one.", "", "many words " * 100]

Tokens = Mapping[str, "tf.RaggedTensor"]


class Extractor:
    """Text embeddings as the signatures of an export.

    Memory depends on the longest text, not on its number of windows.

    Args:
        model: provides the encoder.
        tokenizer: the model's tokenizer.
        choice: the vectors to take.
    """

    def __init__(self, model: BertModel, tokenizer: Tokenizer, choice: VectorChoice) -> None:
        self.model, self.tokenizer, self.choice = model, tokenizer, choice
        self._skipped = 0  # leading tokens of a text to exclude from pooling, including [CLS]
        if choice.prompt and not choice.include_prompt and choice.pooling != "pooled":
            self._skipped = min(len(tokenizer.encode(choice.prompt)), choice.max_seq_length) - 1

    def rows_and_tokens(
        self, first: tf.Tensor, second: tf.Tensor, is_pair: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.RaggedTensor]]:
        """`feature_windows.rows_and_tokens` of string [B], string [B], bool [B], with the prompt before first texts."""
        choice = self.choice
        if choice.prompt and choice.unit == "sentence":
            first = tf.strings.join([choice.prompt, first])
        return rows_and_tokens(
            self.tokenizer, first, second, is_pair, max_seq_length=choice.max_seq_length, stride=choice.stride
        )

    @backend.only_values()
    def states(self, rows: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Rows -> the vectors at every position, float32 [W, S, K, E]; for "pooled" only at [CLS]."""
        found = features.of_rows(self.model, rows, self.choice, PackingSpec())
        if "tokens" in found:
            return found["tokens"]
        others = tf.shape(rows["token_ids"])[1] - 1
        return tf.pad(found["pooled"][:, None, None, :], [[0, 0], [0, others], [0, 0], [0, 0]])

    def of_tokens(self, rows: Mapping[str, tf.Tensor], tokens: Tokens) -> tf.Tensor:
        """Rows and tokens -> vectors [M, K, E] of all tokens; rows are encoded in blocks."""
        sources, (count, width) = tokens["sources"].values, tf.unstack(tf.shape(rows["token_ids"]))
        order = tf.argsort(sources // width, stable=True)  # by row, which makes a difference for pairs
        places = tf.gather(sources, order)

        def of_rows(first: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
            block = slice(*tf.unstack(tf.searchsorted(places, [first * width, end * width])))
            states = self.states({name: x[first:end] for name, x in rows.items()})
            return tf.gather(tf.reshape(states, [-1, *states.shape[2:]]), places[block] - first * width)

        layers = self.choice.layers
        shape = [len(layers.layers) if layers.join == "apart" else 1, layers.width(self.model.config.hidden_size)]
        if self.choice.is_of_pooler:
            shape = [1, self.model.config.hidden_size]
        vectors = concat_blocks(of_rows, count, shape, tf.maximum(POSITIONS_AT_ONCE // tf.maximum(width, 1), 1))
        is_in_order = tf.reduce_all(order[1:] > order[:-1])
        return tf.cond(is_in_order, lambda: vectors, lambda: tf.gather(vectors, tf.math.invert_permutation(order)))

    def of_unit(self, vectors: tf.Tensor, tokens: Tokens) -> tf.Tensor:
        """Token vectors [M, K, E] -> token or text vectors [n, K, E]."""
        choice, sources = self.choice, tokens["sources"]
        if choice.unit == "sentence":
            pooling = "cls" if choice.pooling == "pooled" else choice.pooling
            texts = tf.cast(row_numbers(sources), tf.int32)
            count = tf.cast(sources.nrows(), tf.int32)
            vectors = features.text_vectors(vectors, texts, count, pooling, self._skipped)
            vectors = features.through_layers(vectors, choice.after)[..., : choice.truncate_dim]
        return features.normalize(vectors) if choice.unit in choice.normalize else vectors

    def signatures(self, prompts: Mapping[str, str] | None = None) -> dict[str, Callable]:
        """The signatures of an export, all on `text`, string [B], each a text or "first ||| second".

        serving_default: "vectors" [B, E], one per text. query and document, if in `prompts`: the same, with these
        prompts instead of the choice's. tokens: "vectors" [B, T, E], "tokens", "starts", "ends",
        "segments" [B, T], "counts" [B], without a prompt; zeros, "" and -1 after the last token of a text. If K is
        not 1, vectors are [B, K, E] and [B, T, K, E].
        """

        def with_choice(**changes: Any) -> Extractor:
            choice = dataclasses.replace(self.choice, **changes)
            return Extractor(self.model, self.tokenizer, choice)

        token = with_choice(unit="token")
        # Shared by all signatures without a prompt.
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


def _squeeze(vectors: tf.Tensor) -> tf.Tensor:
    """[..., 1, E] -> [..., E]; unchanged if there is not exactly one vector."""
    return vectors[..., 0, :] if vectors.shape[-2] == 1 else vectors


class Features(Servable):
    """An encoder that outputs embeddings.

    Args:
        choice: the vectors to take.
        recorded: the embedding settings stored with the model; the export keeps their query and document prompts.
    """

    name = "features"

    def __init__(self, choice: VectorChoice, recorded: SentenceVectors | None = None) -> None:
        self.choice = dataclasses.replace(choice, unit="sentence")  # for the default signature
        self.recorded = recorded
        self.sentence_vectors = sentence_choice.as_recorded(choice, recorded)

    @property
    def host_settings(self) -> dict[str, Any] | None:  # type: ignore[override]
        """See `export.host.vectors`."""
        return self.choice.host_settings()

    def vector_choice(self, config: BertConfig) -> VectorChoice:
        return self.choice

    def create_model(self, config: BertConfig, dtype: Any = None) -> keras.Model:
        return model_heads.BertModel(config, dtype=dtype)

    def signatures(self, model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
        return Extractor(model, tokenizer, self.choice).signatures(self.recorded.prompts if self.recorded else {})
