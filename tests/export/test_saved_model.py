"""The SavedModel of a model trained on two replicas: the answers of the oracle, without this package and in C too.

The vocabulary has 30 pieces and the model room for 12, [CLS] and [SEP] included.
"""

import json
import os
import subprocess
import sys

import device_graphs
import faults
import numpy as np
import oracle
import pytest
import tensorflow as tf
import tiny
from mask_filling_cases import TEXTS, VOCABULARY, expected_answers, filler

from bert_tf.checkpoints.formats import saved_model
from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import UserError
from bert_tf.export import saved_model as exporting
from bert_tf.export.saved_model import export
from bert_tf.model import weights
from bert_tf.runtime import atomic_files
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training import distribute
from bert_tf.training.train_step import TrainStep

pytestmark = pytest.mark.optimized_graphs

PAIRS = {"text_a": ["the fox", "", "a " * 30], "text_b": ["ran.", "sat", "the dog"]}
EXAMPLES = {"serving_default": {"text": TEXTS}, "next_sentence": PAIRS}


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(VOCABULARY)


@pytest.fixture(scope="module")
def trained():
    """A model of mixed precision after one step on two replicas."""
    strategy = distribute.create_strategy("mirrored", num_logical_devices=2)
    config = TrainConfig(train_batch_size=4, learning_rate=0.01, num_train_steps=10, num_warmup_steps=0)
    with strategy.scope():
        model, before = tiny.pretrainer(dtype="mixed_bfloat16")
        learner = TrainStep(tiny.task(), model, config, strategy)
    learner.step(tiny.tensors(tiny.batch()))
    assert not np.array_equal(
        weights.variables_by_name(model)["encoder/pooler/kernel"].value, before["encoder/pooler/kernel"]
    )
    return model


@pytest.fixture(scope="module")
def live(trained):
    """The same weights on one device and in float32: the model and {name: array}."""
    model = tiny.pretrainer()[0]
    arrays = {name: variable.value.numpy() for name, variable in weights.variables_by_name(trained).items()}
    weights.assign(model, arrays)
    return model, arrays


@pytest.fixture(scope="module")
def fill(live, tokenizer):
    return filler(live[0], tokenizer)


@pytest.fixture(scope="module")
def exported(trained, tokenizer, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("exported") / "export")
    export(tiny.task(), trained, tokenizer, folder, examples=EXAMPLES, about={"version": "1"})
    return folder


@pytest.mark.slow
def test_export_runs_on_any_device(exported):
    device_graphs.assert_runs_anywhere(exported)


@pytest.mark.slow
def test_next_sentence_signature_matches_reference(exported, live):
    signature = tf.saved_model.load(exported).signatures["next_sentence"]
    is_next = signature(**{name: tf.constant(texts) for name, texts in PAIRS.items()})["is_next"]
    for row, seen in enumerate(
        ["the fox [SEP] ran .", "[SEP] sat", "a a a a a a a [SEP] the dog"]
    ):  # 12 with both ends
        ids = [VOCABULARY.index(piece) for piece in f"[CLS] {seen} [SEP]".split()]
        second = ids.index(VOCABULARY.index("[SEP]")) + 1
        inputs = {
            "token_ids": [ids],
            "segment_ids": [[0] * second + [1] * (len(ids) - second)],
            "lengths": [len(ids)],
            "masked_lm_positions": [[0]],
        }
        arrays = {name: np.array(values) for name, values in inputs.items()}
        expected = oracle.softmax(oracle.pretraining_logits(live[1], tiny.CONFIG, arrays)["next_sentence_logits"][0])[0]
        assert float(is_next[row]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_fresh_process_without_this_package_gives_the_same_outputs(exported, fill, tmp_path):
    program = (
        "import json, sys, tensorflow as tf, tensorflow_text\n"
        "signature = tf.saved_model.load(sys.argv[1]).signatures['serving_default']\n"
        "answers = signature(text=tf.constant(json.loads(sys.argv[2])))\n"
        "pieces = [[[p.decode() for p in mask] for mask in text] for text in answers['pieces'].numpy()]\n"
        "assert not [name for name in sys.modules if name.split('.')[0] == 'bert_tf']\n"
        "print(json.dumps([pieces, answers['scores'].numpy().tolist()]))\n"
    )
    command = [sys.executable, "-c", program, exported, json.dumps(TEXTS)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    tokens, scores = json.loads(done.stdout)
    expected_pieces, expected_scores = fill(TEXTS)
    np.testing.assert_array_equal(np.char.encode(np.array(tokens), "utf-8"), expected_pieces.astype(bytes))
    np.testing.assert_allclose(scores, expected_scores, atol=1e-5)


@pytest.mark.slow
def test_export_describes_itself_and_holds_each_weight_once(exported, live):
    with open(os.path.join(exported, "about.json"), encoding="utf-8") as file:
        assert json.load(file) == {"task": "tiny", "version": "1", "inputs": {"text": None}}
    prefix = os.path.join(exported, "variables", "variables")
    shapes = [shape for name, shape in tf.train.list_variables(prefix) if "CHECKPOINTABLE_OBJECT_GRAPH" not in name]
    assert sorted(shapes) == sorted(list(array.shape) for array in live[1].values())
    weights_size = sum(array.nbytes for array in live[1].values())
    assert weights_size <= os.path.getsize(f"{prefix}.data-00000-of-00001") < weights_size + 8_000


@pytest.mark.slow
def test_mixed_precision_model_is_exported_in_float32(exported, live):
    signature = tf.saved_model.load(exported).signatures["serving_default"]
    graph = signature.graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    kinds = {kind.type for node in nodes for kind in node.attr.values() if kind.type}
    assert tf.float32.as_datatype_enum in kinds and tf.bfloat16.as_datatype_enum not in kinds
    scores = signature(text=tf.constant(["the [MASK] ran"]))["scores"].numpy()
    np.testing.assert_allclose(scores[0], expected_answers(live[1], "the [MASK] ran")[1], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_export_of_16_bits_is_half_the_size_and_a_float32_checkpoint(precision, live, tokenizer, tmp_path):
    folder = str(tmp_path / "export")
    export(tiny.task(), live[0], tokenizer, folder, examples=EXAMPLES, precision=precision)
    kinds = {name: kind for name, kind in kinds_of_variables(folder).items() if "GRAPH" not in name}
    assert {*kinds.values()} == {tf.float32, tf.as_dtype(precision)}
    assert all((kind == tf.float32) == ("norm" in name) for name, kind in kinds.items())
    read = saved_model.read(folder).weights
    for name, array in live[1].items():
        rounded = array if "norm" in name else array.astype(tf.as_dtype(precision).as_numpy_dtype)
        np.testing.assert_array_equal(read[name], rounded.astype(np.float32))
        assert read[name].dtype == np.float32
    scores = tf.saved_model.load(folder).signatures["serving_default"](text=tf.constant(["the [MASK] ran"]))["scores"]
    expected = expected_answers(live[1], "the [MASK] ran")[1]
    assert 0 < np.max(np.abs(scores[0] - expected)) < 0.01


def kinds_of_variables(folder):
    """{name: tf.DType} in the checkpoint of a SavedModel."""
    return tf.train.load_checkpoint(os.path.join(folder, "variables", "variables")).get_variable_to_dtype_map()


@pytest.mark.parametrize(
    "expected, actual, difference, rough",
    [
        ([1000.0, 1.0], [1001.0, 1.0], 0.001, 0.001),  # numbers of any size may be learned
        ([0.25, 0.0], [0.375, 0.0], 0.125, 0.125),
        ([], [], 0.0, 0.0),
        ([4, 10], [10, 10], 0.0, 0.0),  # places of answers; some score as much as others
        ([4, 10], [5, 11], np.inf, 0.0),
        ([1.0], [1.0, 1.0], np.inf, 0.0),  # entities
    ],
)
def test_values_are_compared_relative_to_their_size_and_integers_may_be_swapped(expected, actual, difference, rough):
    assert exporting._difference(np.array(expected), np.array(actual), 1e-4) == difference
    assert exporting._difference(np.array(expected), np.array(actual), 0.1) == rough


@pytest.mark.slow
@pytest.mark.parametrize("factor, difference", [(1.5, r"[\d.]+"), (np.nan, "nan")])
def test_wrong_export_is_refused_and_writes_nothing(live, tokenizer, tmp_path, factor, difference):
    def spoil(model, arrays):
        arrays["encoder/pooler/bias"] = arrays["encoder/pooler/bias"] * np.float32(factor)

    task = tiny.task(signatures=quick_signatures)
    message = f"output 'sum' of 'serving_default' by {difference} of its largest value, expected"
    with faults.on_call(weights, "assign", spoil), pytest.raises(UserError, match=message) as no:
        export(task, live[0], tokenizer, str(tmp_path / "export"), examples=EXAMPLES)
    assert "nothing was written" in str(no.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["_save", "_compare", "replace_folder"])
def test_interrupted_export_keeps_the_old_one(live, tokenizer, tmp_path, moment):
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "saved_model.pb").write_text("the old one")
    task = tiny.task(signatures=quick_signatures)

    owner = atomic_files if moment == "replace_folder" else exporting
    with faults.on_call(owner, moment, KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        export(task, live[0], tokenizer, str(folder), examples={})
    assert (folder / "saved_model.pb").read_text() == "the old one" and os.listdir(tmp_path) == ["export"]
    export(task, live[0], tokenizer, str(folder), examples={})
    assert os.listdir(tmp_path) == ["export"]
    assert "about.json" in os.listdir(folder)


def quick_signatures(model, tokenizer):
    """A signature that is traced in no time and depends on one weight."""
    bias = weights.variables_by_name(model)["encoder/pooler/bias"].value

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def count(text):
        return {"count": tf.strings.length(text), "sum": tf.reduce_sum(tf.abs(bias))}

    return {"serving_default": count}
