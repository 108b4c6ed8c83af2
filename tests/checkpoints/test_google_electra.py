"""Checkpoints of google-research/electra: names, both ways, and archives without a configuration."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.checkpoints import formats, pretrained
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.formats import google_tf
from bert_tf.errors import UserError
from bert_tf.families.electra import about as electra
from bert_tf.model import weights
from bert_tf.model.base_encoder import Pass
from bert_tf.model.replaced_tokens import Discriminator, ReplacedTokenModel

TOKENS = [*tiny.SPECIAL, *(f"w{i}" for i in range(25))]
CONFIG = dataclasses.replace(
    tiny.CONFIG,
    encoder="electra",
    hidden_size=128,
    num_attention_heads=2,
    embedding_size=8,
    hidden_act="gelu_erf",
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
)
# All of the layers but attention/self/query and so on, of the embeddings and of the heads, in the original's names.
SOME = """discriminator_predictions/dense/kernel discriminator_predictions/dense_1/bias
electra/embeddings/LayerNorm/beta electra/embeddings/token_type_embeddings electra/embeddings_project/bias
electra/encoder/layer_1/attention/self/query/kernel electra/encoder/layer_1/output/LayerNorm/gamma
generator/embeddings_project/kernel generator/encoder/layer_0/attention/output/dense/kernel
generator/encoder/layer_1/intermediate/dense/bias generator_predictions/LayerNorm/gamma
generator_predictions/dense/bias generator_predictions/output_bias"""


@pytest.fixture(scope="module")
def checkpoint():
    model = ReplacedTokenModel(CONFIG)
    arrays = tiny.random_weights(model, 0)
    arrays = {name: array for name, array in arrays.items() if "/pooler/" not in name}  # the original has none
    return Checkpoint(config=CONFIG, weights=arrays, vocabulary=TOKENS, lower_case=True)


@pytest.fixture(scope="module")
def written(checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("written") / "electra"
    assert formats.write(checkpoint, str(folder), "google_tf") == []
    return folder


@pytest.fixture
def archive(checkpoint, tmp_path):
    """A folder as an archive of the original: weights with the state of their optimizer, and vocab.txt."""
    names = electra.GOOGLE.table(CONFIG)
    arrays, _ = weights.from_canonical_names(names, checkpoint.weights, google_tf._is_transposed)
    arrays |= {f"{name}/adam_m": array for name, array in arrays.items()}
    google_tf._write_arrays(str(tmp_path / "electra_small"), arrays)
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    return tmp_path


def test_weights_have_the_names_of_the_original(written):
    names = {name for name, _ in tf.train.list_variables(str(written / "bert_model.ckpt"))}
    assert set(SOME.split()) <= names
    assert {name.split("/")[0] for name in names} == {
        "discriminator_predictions",
        "electra",
        "generator",
        "generator_predictions",
    }
    assert not any(name.startswith("generator/embeddings/") for name in names), "the discriminator's"
    assert '"gelu"' in (written / "electra_config.json").read_text(), "which means the exact GELU there"


def assert_equal(read, checkpoint):
    assert read.weights.keys() == checkpoint.weights.keys()
    for name, array in checkpoint.weights.items():
        np.testing.assert_array_equal(read.weights[name], array, err_msg=name)


def test_what_is_written_is_read(written, checkpoint):
    read = formats.read(str(written))
    assert (read.config, list(read.vocabulary), read.lower_case) == (CONFIG, TOKENS, True)
    assert_equal(read, checkpoint)


def test_an_archive_without_a_configuration_gives_that_of_its_shapes(archive, checkpoint):
    read = formats.read(str(archive))
    assert read.config == CONFIG and list(read.vocabulary) == TOKENS
    assert_equal(read, checkpoint)


def logits_of(model):
    """Of the discriminator."""
    names = ("token_ids", "segment_ids", "lengths")
    batch = {name: tf.constant(x) for name, x in tiny.batch().items() if name in names}
    return Discriminator.outputs(model, batch, Pass())["replaced_token_logits"]


def test_discriminator_of_an_archive_answers_as_the_model_that_was_written(archive, checkpoint):
    model = ReplacedTokenModel(CONFIG)
    weights.assign(model, checkpoint.weights)
    loaded = pretrained.load(str(archive))
    assert isinstance(loaded.model, ReplacedTokenModel) and not loaded.report.shape_mismatch
    np.testing.assert_allclose(logits_of(loaded.model), logits_of(model), atol=1e-6)


def test_generator_of_another_width_is_left_out(checkpoint):
    other = {name: array for name, array in checkpoint.weights.items() if not name.startswith("generator/")}
    other["generator/layers/0/attention/project_out/bias"] = np.zeros(43, np.float32)  # a third, as in ELECTRA-base
    model = pretrained.model_of(dataclasses.replace(checkpoint, weights=other))
    assert isinstance(model, Discriminator) and not isinstance(model, ReplacedTokenModel)


def test_archive_without_a_table_is_refused(archive):
    arrays = {electra.GOOGLE.own_table: np.zeros([30, 8], np.float32)}
    google_tf._write_arrays(str(archive / "electra_small"), arrays)
    with pytest.raises(UserError, match="lacks the matrix electra/embeddings/position_embeddings: fetch it again"):
        formats.read(str(archive))
