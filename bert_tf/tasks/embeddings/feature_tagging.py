"""Tags of words with a frozen encoder: its vectors are computed once, and a BiLSTM is trained on them.

The feature-based approach of Devlin et al. 2018, section 5.3. B sentences of a batch, W words of the longest sentence
of a split, K layers, D hidden size, S sentences, N words, R rows, T positions in a row, C labels.
"""

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.data import pipeline
from bert_tf.data.conll_files import ConllFile
from bert_tf.data.tag_schemes import TagSet
from bert_tf.errors import UserError
from bert_tf.model.sequence_packing import PackingSpec
from bert_tf.tasks.embeddings import feature_cache, features, vector_choice
from bert_tf.tasks.embeddings.bilstm_tagger import BiLstmTagger
from bert_tf.tasks.embeddings.vector_choice import FEATURES, LayerChoice
from bert_tf.tasks.task_options import TagOptions
from bert_tf.tasks.token_classification import tag_decoding, tag_serving
from bert_tf.tasks.token_classification.tag_splits import UNKNOWN, TagSplit
from bert_tf.tasks.token_classification.tag_windows import TagWindows
from bert_tf.tasks.token_classification.tagging import TagTask
from bert_tf.text.ragged_scan import from_row_numbers
from bert_tf.text.tokenizer import Tokenizer


def settings(options: TagOptions) -> dict[str, Any]:
    """The arguments of a FeatureTagTask from flags: feature_layers, lstm_size, feature_cache, init_checkpoint.

    Raises UserError without an encoder in init_checkpoint.
    """
    if not options.model.init_checkpoint:
        raise UserError("feature_layers takes the vectors of a trained encoder: give one as init_checkpoint.")
    if options.feature_cache:
        feature_cache.check_folder(options.feature_cache)
    folder = options.feature_cache or os.path.join(options.output_dir, "features")
    return {"feature_layers": options.feature_layers, "lstm_size": options.lstm_size, "folder": folder}


class FeatureTagTask(TagTask):
    """A TagTask whose examples are sentences, as vectors of words.

    The vectors are those of the encoder in the model that `create_model` made last, whose weights have to be assigned
    before the first batch.

    Args:
        name, files, tag_set, tokenizer, windows, crf: as for TagTask.
        feature_layers: a name in vector_choice.FEATURES.
        lstm_size: of the BiLSTM, both directions together.
        folder: where vectors are cached, see `feature_cache`.
    """

    def __init__(
        self,
        name: str,
        files: Mapping[str, Callable[[], ConllFile]],
        tag_set: TagSet,
        tokenizer: Tokenizer,
        *,
        windows: TagWindows,
        crf: bool = False,
        feature_layers: str,
        lstm_size: int,
        folder: str,
    ) -> None:
        super().__init__(name, files, tag_set, tokenizer, windows=windows, crf=crf)
        self.feature_layers, self.lstm_size, self.folder = feature_layers, lstm_size, folder
        self._model: BiLstmTagger | None = None
        self._sentence_splits: dict[str, TagSplit] = {}
        self._vectors: dict[str, tf.Tensor] = {}

    def create_model(self, config: BertConfig, dtype: Any = None) -> keras.Model:
        """A BiLstmTagger, whose encoder also computes the vectors."""
        self._model = BiLstmTagger(
            config,
            features=self.feature_layers,
            count=len(_layers(self.feature_layers, config).layers),
            lstm_size=self.lstm_size,
            size=len(self.labels),
            crf=self.crf,
            dtype=dtype,
        )
        return self._model

    ready_splits = ()

    def split(self, name: str) -> TagSplit:
        """The split of that name, whose rows are sentences."""
        if name not in self._sentence_splits:
            self._sentence_splits[name] = by_sentences(self.token_split(name))
        return self._sentence_splits[name]

    def vectors(self, name: str) -> tf.Tensor:
        """The vectors of the words of a split, float32 [N, K, D]."""
        if name not in self._vectors:
            if self._model is None:
                raise RuntimeError("Vectors are computed by the encoder of a model: call create_model first.")
            layers = FEATURES[self.feature_layers][0].replace(",", "_")
            self._vectors[name] = feature_cache.word_vectors(
                self.token_split(name),
                self._model,
                self.tokenizer,
                self.windows,
                _layers(self.feature_layers, self._model.config),
                os.path.join(self.folder, f"{name}_{layers}"),
            )
        return self._vectors[name]

    def _batches(self, name: str, batch_size: int, seed: int | None = None) -> tf.data.Dataset:
        """Batches of sentences.

        "vectors" float32 [B, W, K, D], "lengths" int32 [B], "labels" int32 [B, W], UNKNOWN after the last word and for
        words without tokens, and "row_numbers" [B].
        """
        split, vectors = self.split(name), self.vectors(name)
        sizes = tf.constant(split.word_counts, tf.int32)
        starts, longest = tf.cumsum(sizes, exclusive=True), int(split.word_counts.max())
        word_labels = tf.constant(np.where(split.rows >= 0, split.word_labels, UNKNOWN), tf.int32)
        count, lengths = split.count, split.word_counts if self.groups_by_length else None

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

        dataset = pipeline.batch_indices(count, batch_size, seed=seed, lengths=lengths)
        return dataset.map(pipeline.no_autograph(make_batch), num_parallel_calls=2, deterministic=True).prefetch(1)

    def signatures(self, model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
        """See `tag_serving.TagServing`."""
        words = FeatureWordLogits()
        return tag_serving.TagServing(model, tokenizer, self.tag_set, self.windows, words).signatures()


def _layers(feature_layers: str, config: BertConfig) -> LayerChoice:
    return vector_choice.choose_layers(FEATURES[feature_layers][0], config.layers_with_states)


class FeatureWordLogits(tag_serving.WordLogits):
    """Rows of tokens -> vectors of words, as `feature_cache` computes them -> logits of a BiLstmTagger."""

    has_small_states = False

    def state_shape(self, model: keras.Model) -> Sequence[int]:
        """[K, D]."""
        return model.count, model.config.hidden_size

    def states(self, model: keras.Model, rows: dict[str, tf.Tensor]) -> tf.Tensor:
        """The vectors of all positions of rows, float32 [R, T, K, D]."""
        encoded = model.encoder(rows, return_hidden_states=True, packing=PackingSpec.dynamic())
        return features.layer_vectors(encoded["hidden_states"], _layers(model.features, model.config))

    def logits(self, model: keras.Model, states: tf.Tensor, owners: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        """Vectors of words [N, K, D] -> float32 [N, C]; a text takes the place of a sentence in training."""

        def of_texts(first: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
            block = slice(*tf.unstack(tf.searchsorted(owners, [first, end])))
            words = from_row_numbers(states[block], owners[block] - first, end - first)
            padded = tf.pad(words.to_tensor(), [[0, 0], [0, 1], [0, 0], [0, 0]])  # one word at least
            lengths = tf.cast(words.row_lengths(), tf.int32)
            logits = model({"vectors": padded, "lengths": lengths})["logits"]  # [texts, words, C]
            return tf.boolean_mask(logits, tf.sequence_mask(lengths, tf.shape(logits)[1]))

        return tag_decoding.concat_blocks(of_texts, count, model.classifier.bias.shape)


def by_sentences(split: TagSplit) -> TagSplit:
    """A TagSplit whose rows are sentences and whose positions are words; words without tokens have neither."""
    sentences = copy.copy(split)
    starts = np.cumsum(split.word_counts) - split.word_counts  # [S]
    positions = (np.arange(len(split.owners)) - starts[split.owners]).astype(np.int32)
    sentences.rows, sentences.positions = (np.where(split.rows >= 0, x, -1) for x in (split.owners, positions))
    sentences.count = len(split.sentences)
    return sentences
