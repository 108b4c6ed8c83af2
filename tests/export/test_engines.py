"""Models for other engines: the live model's answers at several lengths, alone and together; exports as checkpoints.

B texts, T slots in a row, P masked positions.
"""

import dataclasses
import importlib.util
import json
import pathlib
import re
import sys
import types

import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.cli import main
from bert_tf.errors import UserError
from bert_tf.export import engine_folders, engine_models, engine_parity, engines
from bert_tf.export.saved_model import export
from bert_tf.model import functional_bert, heads, weights

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORDS = "a b c d the fox ran with this that it is . , ##s in of to was he she on sat mat".split()
TOKENIZER = tiny.Words([*WORDS, "e"])
CONFIG = dataclasses.replace(tiny.CONFIG, hidden_size=64, intermediate_size=128, hidden_act="gelu_erf")
LABELS = ["cat", "dog", "fox"]
ROWS = ([2, 9, 3], [2, 9, 10, 11, 14, 3], [2, *range(7, 17), 3])  # 12 slots are as many as there are positions


def checkpoint(model, config=CONFIG, **more):
    """Of a model with random weights that give answers of about one."""
    arrays = {name: array / 2 for name, array in tiny.random_weights(model).items()}
    return Checkpoint(config=config, weights=arrays, vocabulary=TOKENIZER.vocabulary, lower_case=True, **more)


def live_of(source):
    head = engine_models.functional_form(source.kind, source.weights)
    return functional_bert.CheckpointModel(source, head)


def model_of(config, **options):
    return heads.Classifier(config, 3, **options)


def apart(name):
    """How far the usual answers of an engine may be from the model's: OpenVINO rounds on a CPU with bfloat16."""
    return 0.1 if engines.engine_of(name).may_round() else 1e-4


@pytest.fixture(scope="module")
def classifier():
    """A checkpoint with a head for three labels."""
    return checkpoint(model_of(CONFIG), labels=LABELS, kind="classes")


@pytest.fixture(scope="module")
def exported(classifier, tmp_path_factory):
    """The folder of its export."""
    folder = tmp_path_factory.mktemp("exported") / "export"
    model = model_of(CONFIG)
    weights.assign(model, classifier.weights)

    def serve(model, tokenizer):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text_a")])
        def answer(text_a):
            rows = tokenizer(text_a)
            ids = rows.to_tensor()
            return model({"token_ids": ids, "segment_ids": 0 * ids, "lengths": tf.cast(rows.row_lengths(), tf.int32)})

        return {"serving_default": answer}

    task = types.SimpleNamespace(
        name="animals", create_model=model_of, signatures=serve, sentence_vectors=None, host_settings=None
    )
    about = {"labels": LABELS, "kind": "classes"}
    export(task, model, TOKENIZER, str(folder), examples={"serving_default": {"text_a": ["the fox"]}}, about=about)
    return folder


def inputs(has_masks=False):
    """Each row alone, and all together."""
    return [engine_parity.inputs_of(rows, has_masks=has_masks) for rows in (*([row] for row in ROWS), ROWS)]


def assert_answers_as(live, function, has_masks=False):
    for batch in inputs(has_masks):
        expected, answers = live({name: tf.constant(x) for name, x in batch.items()}), function(batch)
        used = np.arange(batch["token_ids"].shape[1]) < batch["lengths"][:, None]
        assert answers
        for name, output in answers.items():
            of_slots = output.shape[:2] == used.shape and name not in ("masked_lm_logits", "pooled")
            a, b = (x[used] if of_slots else x for x in (np.asarray(expected[name]), output))
            np.testing.assert_allclose(b, a, atol=1e-4 * np.abs(a).max(), err_msg=name)


def test_export_is_a_checkpoint_with_weights_vocabulary_and_labels(classifier, exported):
    loaded = formats.read(exported)
    assert loaded.weights.keys() == classifier.weights.keys()
    for name, array in classifier.weights.items():
        np.testing.assert_array_equal(loaded.weights[name], array, err_msg=name)
    assert dataclasses.replace(loaded, weights={}, answers={}) == dataclasses.replace(classifier, weights={})
    assert formats.labels(exported) == LABELS


def test_export_without_weight_names_is_refused(tmp_path):
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(UserError, match="has no weight names"):
        formats.read(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", engines.names())
def test_converted_export_matches_the_model_at_every_length(name, classifier, exported, tmp_path, capsys):
    to = tmp_path / "to"
    assert main.main(["convert", str(exported), str(to), f"--format={name}"]) == 0
    output = capsys.readouterr().out
    assert (
        "0 newly initialized, 0 unused, 0 mismatched" in output
        and f"Wrote {to} for {name}." in output
        and "Labels: cat" in output
    )
    match = re.search(rf"one text of 12 .*\n  {name} .* MB .* ms +(.*e-..)\n  TensorFlow, here .* ms\n", output)
    assert float(match[1]) < apart(name)
    model = model_of(CONFIG)
    weights.assign(model, classifier.weights)
    assert_answers_as(model, engines.load(str(to), exact=True))
    about = json.loads((to / "about.json").read_text())
    assert about["inputs"]["token_ids"] == {"type": "int32", "shape": ["B", "T"]}
    assert (about["outputs"], about["labels"], about["kind"]) == (["logits"], LABELS, "classes")
    assert not (to / "network").exists() and (to / "vocab.txt").read_text().split("\n")[7] == "c"
    if name == "onnx":
        assert_the_page_runs(to, model, capsys)


def assert_the_page_runs(folder, model, capsys):
    """The code of docs/serving.md, on a folder for ONNX Runtime."""
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "onnxruntime" in block)
    texts = ["The fox ran.", "A cat"]
    code = code.replace("sections-onnx", str(folder)).replace(
        '"The with statement wraps a block."', json.dumps(texts)[1:-1]
    )
    exec(compile(code, "serving.md", "exec"), {})
    ids = [[2, 9, 10, 11, 17, 3], [2, 5, 1, 3, 0, 0]]
    lengths = [6, 4]
    inputs = {"token_ids": ids, "segment_ids": np.zeros_like(ids), "lengths": lengths}
    logits = model({name: tf.constant(x, tf.int32) for name, x in inputs.items()})["logits"]
    assert capsys.readouterr().out.strip() == str([LABELS[i] for i in np.argmax(logits, -1)])


@pytest.mark.slow
@pytest.mark.parametrize("name", engines.names())
def test_pretraining_heads_are_converted(name, tmp_path):
    config = dataclasses.replace(CONFIG, is_causal=True, hidden_act="gelu_tanh")
    model = heads.Pretrainer(config)
    source = checkpoint(model, config)
    written = engine_folders.write(source, str(tmp_path / "to"), name)
    assert written.outputs == ["masked_lm_logits", "next_sentence_logits"]
    assert written.difference < apart(name)


@pytest.mark.slow
def test_masked_lm_without_pooler_has_no_next_sentence_output(tmp_path):
    whole = checkpoint(heads.Pretrainer(CONFIG))
    remaining = {
        name: x for name, x in whole.weights.items() if not name.startswith(("next_sentence/", "encoder/pooler/"))
    }
    written = engine_folders.write(dataclasses.replace(whole, weights=remaining), str(tmp_path / "model"), "litert")
    assert written.outputs == ["masked_lm_logits"] and written.difference < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", engines.names())
def test_int8_is_smaller_and_close(name, classifier, tmp_path):
    if name == "openvino" and importlib.util.find_spec("nncf") is None:
        pytest.skip("nncf is not installed: it is heavy, and needed for this alone")
    written = engine_folders.write(classifier, str(tmp_path / "to"), name, quantize="int8")
    assert 1e-4 < written.difference < 0.2
    weight_bytes = 4 * sum(array.size for array in classifier.weights.values())
    assert written.size < 0.9 * weight_bytes  # what is around the weights counts too, in so small a model


@pytest.mark.parametrize(
    "head, model, more",
    [
        ("TEXTS", heads.Classifier(CONFIG, 1), {"kind": "regression"}),
        ("TOKENS", heads.TokenClassifier(CONFIG, 3), {"kind": "tags"}),
        ("SPANS", heads.SpanFinder(CONFIG), {}),
        ("MASKS", heads.Pretrainer(CONFIG), {}),
        ("VECTORS", heads.BertModel(CONFIG), {}),
    ],
)
def test_every_head_matches_its_model(head, model, more):
    source = checkpoint(model, **more)
    live = live_of(source)
    assert live.head is getattr(functional_bert, head)
    weights.assign(model, source.weights)
    functional = functional_bert.FunctionalModel(CONFIG, source.weights, live.head)

    def function(inputs):
        answers = functional.function(*(tf.constant(inputs[name]) for name in live.head.inputs))
        return {name: answer.numpy() for name, answer in answers.items()}

    assert_answers_as(model, live, has_masks=head == "MASKS")
    assert_answers_as(model, function, has_masks=head == "MASKS")
    assert engine_parity.difference(live, function, inputs(head == "MASKS"), live.head.token_outputs) < 1e-5


def test_encoder_without_pooler_gives_tokens_and_its_classifier_is_refused(classifier):
    def without_pooler(source, head):
        remaining = {name: x for name, x in source.weights.items() if "pooler" not in name and head in name}
        return dataclasses.replace(source, weights=remaining)

    live = live_of(without_pooler(classifier, "encoder/"))
    assert live.report.newly_initialized == ["encoder/pooler/kernel", "encoder/pooler/bias"]
    with pytest.raises(UserError, match="has no encoder/pooler/kernel"):
        live_of(without_pooler(classifier, ""))


def test_other_encoders_are_refused(classifier):
    with pytest.raises(UserError, match="this model has 'static'"):
        live_of(dataclasses.replace(classifier, config=dataclasses.replace(CONFIG, encoder="static")))


PLAIN_ENGINE = '''"""TensorFlow itself as an engine."""
import os
import shutil

PACKAGES = {None: ("tensorflow",)}
FILES = ("model/saved_model.pb",)


def write(saved_model, folder, *, quantize, samples):
    shutil.copytree(saved_model, os.path.join(folder, "model"))


def may_round():
    return False


def load(folder, *, exact):
    import tensorflow as tf

    model = tf.saved_model.load(os.path.join(folder, "model"))
    names = [spec.name for spec in model.function.input_signature]
    return lambda inputs: {
        name: x.numpy() for name, x in model.function(*(tf.constant(inputs[name]) for name in names)).items()
    }
'''


def test_outside_engine_is_named_by_its_module(classifier, exported, tmp_path, monkeypatch, capsys):
    (tmp_path / "my_lab").mkdir()
    (tmp_path / "my_lab" / "plain.py").write_text(PLAIN_ENGINE)
    monkeypatch.syspath_prepend(tmp_path)
    convert, to = ["convert", str(exported), str(tmp_path / "to"), "--format=my_lab.plain"], str(tmp_path / "to")
    assert main.main([*convert, "--quantize=int8"]) == 2
    assert capsys.readouterr().err == "bert-tf: my_lab.plain has no quantization int8: remove the flag.\n"
    assert main.main(convert) == 0
    assert f"Wrote {to} for my_lab.plain." in capsys.readouterr().out
    model = model_of(CONFIG)
    weights.assign(model, classifier.weights)
    assert_answers_as(model, engines.load(to, engine="my_lab.plain"))
    with pytest.raises(UserError, match="no model for litert, onnx, openvino"):
        engines.load(to)


def test_missing_package_error_names_the_extra(exported, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert main.main(["convert", str(exported), str(tmp_path / "to"), "--format=onnx"]) == 2
    assert capsys.readouterr().err == 'bert-tf: onnxruntime is missing: pip install "bert-tf[onnx]".\n'


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [0.1, np.nan])
def test_wrong_engine_output_is_refused_and_writes_nothing(wrong, classifier, tmp_path, monkeypatch):
    from bert_tf.export.engines import litert

    live = live_of(classifier)
    spoiled = lambda inputs: {name: x + wrong for name, x in live(inputs).items()}  # noqa: E731
    monkeypatch.setattr(litert, "write", lambda *_, **__: None)
    monkeypatch.setattr(litert, "load", lambda folder, exact: spoiled)
    with pytest.raises(UserError, match="outputs of litert differ from the model's by .* expected at most 0.0001"):
        engine_folders.write(classifier, str(tmp_path / "to"), "litert")
    assert list(tmp_path.iterdir()) == []


def test_differences_are_relative_to_the_largest_output():
    batch = engine_parity.inputs_of([[5, 6, 7], [8]])
    assert batch["token_ids"].tolist() == [[5, 6, 7], [8, 0, 0]] and batch["lengths"].tolist() == [3, 1]
    answers = {"tokens": np.array([[1.0, -4.0, 2.0], [3.0, 50.0, 60.0]])}
    others = {"tokens": answers["tokens"] + [[0, 0, 0.5], [0.25, 7, 7]]}
    difference = engine_parity.difference(lambda _: answers, lambda _: others, [batch], ("tokens",))
    assert difference == 0.5 / 4
