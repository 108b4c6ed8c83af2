"""Layers for your own Keras models: texts to token ids, and the encoder with TensorFlow Hub's names.

B texts, T positions per sequence, D hidden size, L layers.
"""

import functools
import os
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from bert_tf.api import python_words
from bert_tf.api.bert import Bert
from bert_tf.checkpoints import formats, pretrained
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.checkpoint_files import read_tokenizer_files, write_tokenizer_files
from bert_tf.errors import UserError
from bert_tf.model import base_encoder
from bert_tf.model.inputs import IDS_OF_HUB, MASK_OF_HUB, TYPES_OF_HUB
from bert_tf.model.layers import config_of
from bert_tf.runtime import files
from bert_tf.text.tokenizer import Tokenizer, create_tokenizer, pack

if TYPE_CHECKING:
    from bert_tf.model.base_encoder import BaseEncoder

Source = Bert | str | os.PathLike[str]  # a loaded model, or a path for `bert_tf.load`


def _path_of(source: Source) -> str:
    return source.path if isinstance(source, Bert) else os.fspath(source)


def _checkpoint_of(source: Source) -> Checkpoint:
    return source._source.loaded if isinstance(source, Bert) else formats.read(source)


@keras.saving.register_keras_serializable("bert_tf")
class PreprocessingLayer(keras.layers.Layer):
    """Texts to model inputs: `input_word_ids`, `input_mask` and `input_type_ids`, int32 [B, T].

    These are the names in TensorFlow Hub's preprocessing models; all models of this package accept them. A Keras file
    with this layer contains the vocabulary. It is not compiled by XLA.

    Args:
        source: a model from `bert_tf.load`, or a path or name for it, with a vocabulary.
        seq_length: T, the tokens per sequence, including [CLS] and [SEP].

    Example:
        preprocess = bert_tf.PreprocessingLayer("my-bert", seq_length=64)
        preprocess(["A text.", "Another."])["input_word_ids"].shape  # [2, 64]
        preprocess([questions, texts])  # pairs: a list of two lists or tensors of texts
    """

    tokenizer: Tokenizer | None = None

    def __init__(self, source: Source | None = None, seq_length: int = 128, **options: Any) -> None:
        super().__init__(trainable=False, **{name: value for name, value in options.items() if name != "trainable"})
        self.supports_jit = False
        self.seq_length = seq_length
        if source is not None:
            with python_words.spoken():
                checkpoint = _checkpoint_of(source)
                checkpoint.check_vocabulary(_path_of(source))
            with tempfile.TemporaryDirectory() as folder:
                write_tokenizer_files(folder, checkpoint)
                self.load_assets(folder)
        self.built = True

    def __call__(self, inputs: Any, *values: Any, **options: Any) -> Any:
        """See `call`; also takes lists of texts."""
        is_several = isinstance(inputs, list | tuple) and not any(isinstance(each, str | bytes) for each in inputs)
        texts = [_texts(each) for each in inputs] if is_several else _texts(inputs)
        if self.tokenizer is None and all(map(tf.is_tensor, texts if is_several else [texts])):
            raise UserError(
                f"The layer {self.name} was made from a configuration, which has no vocabulary: load the Keras file of "
                "its model, or pass it a checkpoint."
            )
        return super().__call__(texts, *values, **options)

    def call(self, inputs: tf.Tensor | list[tf.Tensor]) -> dict[str, tf.Tensor]:
        """Texts [B], or a list of two such tensors for pairs, -> model inputs."""
        segments = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        segments = [tf.squeeze(each, -1) if each.shape.rank == 2 else each for each in segments]
        assert self.tokenizer is not None  # `__call__` checks
        rows = pack(self.tokenizer, segments, self.seq_length)
        mask = tf.sequence_mask(rows["lengths"], self.seq_length, tf.int32)
        return {IDS_OF_HUB: rows["token_ids"], MASK_OF_HUB: mask, TYPES_OF_HUB: rows["segment_ids"]}

    def compute_output_spec(self, inputs: Any) -> dict[str, keras.KerasTensor]:
        """The output shapes, which do not depend on the vocabulary."""
        first = inputs[0] if isinstance(inputs, list | tuple) else inputs
        shape = (*first.shape[:1], self.seq_length)
        return {name: keras.KerasTensor(shape, "int32") for name in (IDS_OF_HUB, MASK_OF_HUB, TYPES_OF_HUB)}

    def save_assets(self, folder: str) -> None:
        """Writes the vocabulary into a Keras file."""
        if self.tokenizer is not None:
            self._write_files(folder)

    def load_assets(self, folder: str) -> None:
        """Reads the vocabulary from a Keras file."""
        found = read_tokenizer_files(folder)
        if found["vocabulary"] is None:
            return
        self._write_files = functools.partial(files.write_folder, content=files.read_folder(folder))
        self.tokenizer = create_tokenizer(
            found["vocabulary"], found["lower_case"] is not False, special_tokens_in_strings=found["special_tokens"]
        )

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments except the source."""
        return {**super().get_config(), "seq_length": self.seq_length}


def _texts(given: Any) -> Any:
    """Strings of shape [], [B] or [B, 1] in a form that Keras accepts."""
    return given if isinstance(given, keras.KerasTensor) else tf.convert_to_tensor(given, tf.string)


@keras.saving.register_keras_serializable("bert_tf")
class EncoderLayer(keras.layers.Layer):
    """An encoder with the input and output names of TensorFlow Hub's encoders.

    It takes the outputs of `PreprocessingLayer`, and the other input names of this package's models. It returns
    `pooled_output` [B, D], also as `default`, `sequence_output` [B, T, D] and `encoder_outputs`, a list of L
    [B, T, D]. A Keras file contains its weights.

    Args:
        source: a model from `bert_tf.load`, whose encoder is then shared, or a path or name for it.
        config: instead of a source, the configuration of a new encoder, a BertConfig or a dictionary.

    Example:
        texts = keras.Input((), dtype="string")
        encoded = bert_tf.EncoderLayer("my-bert")(bert_tf.PreprocessingLayer("my-bert")(texts))
        model = keras.Model(texts, keras.layers.Dense(1)(encoded["pooled_output"]))
    """

    def __init__(self, source: Source | None = None, config: Any = None, **options: Any) -> None:
        super().__init__(**options)
        self.encoder: BaseEncoder
        if source is None and config is not None:
            self.encoder = base_encoder.create_encoder(config_of(config), dtype=self.dtype_policy)
        elif source is None or config is not None:
            raise UserError("EncoderLayer needs a path or a loaded model, or the configuration of a new encoder.")
        elif isinstance(source, Bert):
            self.encoder = source.model.encoder
        else:
            with python_words.spoken():
                path = _path_of(source)
                loaded = pretrained.load_encoder(formats.read(path), path, dtype=self.dtype_policy)
            self.encoder = loaded.encoder
        if not self.trainable:
            self.encoder.trainable = False
        self.built = True

    def call(self, inputs: Mapping[str, tf.Tensor], training: bool | None = None) -> dict[str, Any]:
        """Model inputs -> outputs with TensorFlow Hub's names."""
        encoded = self.encoder(inputs, return_hidden_states=True, training=training)
        return {
            "default": encoded["pooled"],
            "pooled_output": encoded["pooled"],
            "sequence_output": encoded["tokens"],
            "encoder_outputs": list(encoded["hidden_states"][1:]),
        }

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments, with the configuration in place of the source."""
        return {**super().get_config(), "config": self.encoder.config.to_dict()}
