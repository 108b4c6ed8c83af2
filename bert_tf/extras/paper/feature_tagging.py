"""Tagging with a frozen encoder: its word vectors are computed once, and a BiLSTM is trained on them.

The feature-based approach of Devlin et al. 2018, section 5.3. B sentences per batch, W words in the longest sentence
of a split, K layers, D hidden size, S sentences, N words, R rows, T positions per row, C labels.
"""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.data import pipeline
from bert_tf.data.conll_files import ConllFile
from bert_tf.data.tag_schemes import TagSet
from bert_tf.errors import UserError
from bert_tf.extras.paper import feature_cache
from bert_tf.extras.paper.bilstm_tagger import BiLstmTagger
from bert_tf.heads.base.training import Training
from bert_tf.heads.tags import graph_decoding, tag_serving
from bert_tf.heads.tags.tag_rows import UNKNOWN, TagRows
from bert_tf.heads.tags.tag_windows import TagWindows
from bert_tf.heads.tags.tagging import Tagging, TagTraining
from bert_tf.heads.vectors import features, vector_choice
from bert_tf.heads.vectors.vector_choice import FEATURES, LayerChoice
from bert_tf.model.packing import PackingSpec
from bert_tf.tasks.task_options import TagOptions
from bert_tf.text.ragged_scan import from_row_numbers
from bert_tf.text.tokenizer import Tokenizer


def settings(options: TagOptions) -> dict[str, Any]:
    """The arguments of FeatureTagging from the flags: feature_layers, lstm_size, feature_cache, init_checkpoint.

    Raises UserError without an encoder in init_checkpoint.
    """
    if not options.model.init_checkpoint:
        raise UserError("feature_layers requires a trained encoder: pass one as init_checkpoint.")
    if options.feature_cache:
        feature_cache.check_folder(options.feature_cache)
    folder = options.feature_cache or os.path.join(options.output_dir, "features")
    return {"feature_layers": options.feature_layers, "lstm_size": options.lstm_size, "folder": folder}


class FeatureTagging(Tagging):
    """Tagging whose examples are sentences given as word vectors.

    The vectors come from the encoder in the last model from `create_model`, whose weights must be assigned before the
    first batch.

    Args:
        tag_set, windows, crf: see Tagging.
        feature_layers: a name in vector_choice.FEATURES.
        lstm_size: of the BiLSTM, both directions together.
        folder: where vectors are cached, see `feature_cache`.

    model: of `create_model`; None before.
    """

    trained_by = __name__

    def __init__(
        self,
        tag_set: TagSet,
        windows: TagWindows,
        *,
        crf: bool = False,
        feature_layers: str,
        lstm_size: int,
        folder: str,
    ) -> None:
        super().__init__(tag_set, windows, crf=crf)
        self.feature_layers, self.lstm_size, self.folder = feature_layers, lstm_size, folder
        self.model: BiLstmTagger | None = None

    def vectors(self, rows: TagRows) -> tf.Tensor:
        """The vectors of the words of rows, float32 [N, K, D]."""
        if self.model is None:
            raise RuntimeError("Vectors are computed by the encoder of a model: call create_model first.")
        layers = FEATURES[self.feature_layers][0].replace(",", "_")
        path = os.path.join(self.folder, f"{os.path.basename(rows.file.path)}_{layers}")
        return feature_cache.word_vectors(rows, self.model, _layers(self.feature_layers, self.model.config), path)

    @property
    def host_settings(self) -> dict[str, Any] | None:
        """None: other engines do not support BiLSTMs."""
        return None


class FeatureTraining(TagTraining):
    """Trains and exports a FeatureTagging."""

    head: FeatureTagging
    stored_splits = ()

    def create_model(self, config: BertConfig, dtype: Any = None) -> keras.Model:
        head = self.head
        head.model = BiLstmTagger(
            config,
            features=head.feature_layers,
            count=len(_layers(head.feature_layers, config).layers),
            lstm_size=head.lstm_size,
            size=head.size,
            crf=head.crf,
            dtype=dtype,
        )
        return head.model

    def rows_of(self, content: ConllFile, tokenizer: Tokenizer, *, is_trained: bool) -> "SentenceRows":
        return SentenceRows(super().rows_of(content, tokenizer, is_trained=is_trained), self.head.vectors)

    def row_specs(self, tokenizer: Tokenizer) -> dict[str, tf.TensorSpec]:
        """None: vectors are not stored as examples."""
        return Training.row_specs(self, tokenizer)

    def signatures(self, model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
        head, words = self.head, FeatureWordLogits()
        return tag_serving.TagServing(model, tokenizer, head.tag_set, head.windows, words).signatures()


TRAINING = FeatureTraining


class SentenceRows(TagRows):
    """TagRows whose rows are sentences and whose positions are words; words without tokens have neither.

    of_tokens: the same sentences as rows of tokens. vectors(of_tokens): their word vectors, float32 [N, K, D].
    """

    def __init__(self, of_tokens: TagRows, vectors: Callable[[TagRows], tf.Tensor]) -> None:
        vars(self).update(vars(of_tokens))
        self.of_tokens, self._vectors_of = of_tokens, vectors
        starts = np.cumsum(self.word_counts) - self.word_counts  # [S]
        positions = (np.arange(len(self.owners)) - starts[self.owners]).astype(np.int32)
        self.rows, self.positions = (np.where(of_tokens.rows >= 0, x, -1) for x in (self.owners, positions))
        self.count = len(self.sentences)

    @functools.cached_property
    def vectors(self) -> tf.Tensor:
        """The word vectors, computed on first use."""
        return self._vectors_of(self.of_tokens)

    def batches(self, batch_size: int, *, seed: int | None = None, by_length: bool = False) -> tf.data.Dataset:
        """See `Rows`.

        "vectors" float32 [B, W, K, D], "lengths" int32 [B], "labels" int32 [B, W], UNKNOWN after the last word and for
        words without tokens, and "row_numbers" [B].
        """
        vectors, count = self.vectors, self.count
        sizes = tf.constant(self.word_counts, tf.int32)
        starts, longest = tf.cumsum(sizes, exclusive=True), int(self.word_counts.max())
        word_labels = tf.constant(np.where(self.rows >= 0, self.word_labels, UNKNOWN), tf.int32)

        def make_batch(numbers: tf.Tensor) -> dict[str, tf.Tensor]:
            is_row = numbers < count
            start, length = (tf.gather(x, tf.minimum(numbers, count - 1)) for x in (starts, sizes))
            length = tf.where(is_row, length, 0)
            inside = tf.range(longest)[None, :] < length[:, None]  # [B, W]
            words = tf.where(inside, start[:, None] + tf.range(longest)[None, :], 0)
            batch = {
                "vectors": tf.gather(vectors, words),
                "lengths": length,
                "labels": tf.where(inside, tf.gather(word_labels, words), UNKNOWN),
                "row_numbers": tf.cast(tf.where(is_row, numbers + 1, 0), tf.int32),
            }
            return {name: tf.ensure_shape(x, [batch_size, *x.shape[1:]]) for name, x in batch.items()}

        lengths = self.word_counts if by_length else None
        dataset = pipeline.batch_indices(count, batch_size, seed=seed, lengths=lengths)
        return dataset.map(pipeline.no_autograph(make_batch), num_parallel_calls=2, deterministic=True).prefetch(1)


def _layers(feature_layers: str, config: BertConfig) -> LayerChoice:
    return vector_choice.choose_layers(FEATURES[feature_layers][0], config.layers_with_states)


class FeatureWordLogits(tag_serving.WordLogits):
    """Rows of tokens -> word vectors as in `feature_cache` -> logits of a BiLstmTagger."""

    def state_shape(self, model: keras.Model) -> Sequence[int]:
        """[K, D]."""
        return model.count, model.config.hidden_size

    def states(self, model: keras.Model, rows: dict[str, tf.Tensor]) -> tf.Tensor:
        """The vectors of all positions of rows, float32 [R, T, K, D]."""
        encoded = model.encoder(rows, return_hidden_states=True, packing=PackingSpec())
        return features.layer_vectors(encoded["hidden_states"], _layers(model.features, model.config))

    def logits(self, model: keras.Model, states: tf.Tensor, owners: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        """Word vectors [N, K, D] -> float32 [N, C]; a text here corresponds to a sentence in training."""

        def of_texts(first: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
            block = slice(*tf.unstack(tf.searchsorted(owners, [first, end])))
            words = from_row_numbers(states[block], owners[block] - first, end - first)
            padded = tf.pad(words.to_tensor(), [[0, 0], [0, 1], [0, 0], [0, 0]])  # at least one word
            lengths = tf.cast(words.row_lengths(), tf.int32)
            logits = model({"vectors": padded, "lengths": lengths})["logits"]  # [texts, words, C]
            return tf.boolean_mask(logits, tf.sequence_mask(lengths, tf.shape(logits)[1]))

        return graph_decoding.concat_blocks(of_texts, count, model.classifier.bias.shape)
