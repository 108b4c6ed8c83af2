"""Exports run by TensorFlow's C library alone: the same answers as in Python, or handed over to it."""

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import quick_exports
import tensorflow as tf
import tiny
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf.data.examples import Example
from bert_tf.export import loaded_model, quick_export
from bert_tf.export.saved_model import export
from bert_tf.heads.classes import Classes
from bert_tf.model import weights
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text.tokenizer import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXTS = {
    "single": [("123456",), ("",), ("a longer text",)],
    "pair": [("", "123"), ("naïve", "日本"), ("a\nb", " ")],
    "choice": [("", "", "12"), ("x", "abc", "d")],
    "number": [("1234",)],
    "mask": [("x [MASK] and [MASK]",), ("none",)],
    "question": [("Who?", "Ann sings"), ("", "日本 is far")],
    "entities": [("Ulm lies there",), ("日本 too",)],
    "vectors": [("abc",)],
    "classifier": [("the fox ran", "it sat"), ("The\tDOG", "")],
}
CODE = """
import json, sys
import numpy as np
from bert_tf.data.examples import Example
from bert_tf.export import quick_export

answers = {}
for kind, (folder, texts) in json.load(sys.stdin).items():
    export = quick_export.load(folder)
    outputs = export.predict([Example(str(number), tuple(each)) for number, each in enumerate(texts)])
    lists = {name: np.char.decode(x.astype(bytes)) if x.dtype == object else x for name, x in outputs.items()}
    facts = type(export).__name__, export.inputs, export.labels, export.task
    answers[kind] = [*facts, {name: [str(x.dtype.kind), x.tolist()] for name, x in lists.items()}]
assert "tensorflow" not in sys.modules
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """{kind: folder of an export}: made in no time, and a classifier with a tokenizer and variables."""
    folder = tmp_path_factory.mktemp("exports")
    words = "the fox dog ran sat it".split()
    tokenizer = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    goal = Classes(["no", "yes"])
    splits = {"test": lambda: [Example("0", texts) for texts in TEXTS["classifier"]]}
    task = FineTuningTask("tiny", splits, goal.configured(max_seq_length=12, texts=2), tokenizer, eval_splits={})
    model = task.create_model(tiny.CONFIG)
    weights.assign(model, tiny.random_weights(model))
    export(task, model, tokenizer, str(folder / "classifier"), examples={}, about={"labels": ["no", "yes"]})
    made = quick_exports.make(folder) | quick_exports.for_the_page(folder) | {"classifier": folder / "classifier"}
    return {kind: str(path) for kind, path in made.items()}


@pytest.mark.skipif(sys.platform != "linux", reason="the C library is used on Linux alone")
def test_c_library_answers_as_tensorflow_does(folders):
    given = json.dumps({kind: (folders[kind], texts) for kind, texts in TEXTS.items()})
    done = subprocess.run(
        [sys.executable, "-c", CODE], input=given, capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    answers = json.loads(done.stdout)
    for kind, texts in TEXTS.items():
        expected = loaded_model.Export(folders[kind])
        name, inputs, labels, task, outputs = answers[kind]
        assert (name, inputs, list(inputs)) == ("QuickExport", expected.inputs, list(expected.inputs))
        assert (tuple(labels), task) == (expected.labels, expected.task)
        right = expected.predict([Example(str(number), each) for number, each in enumerate(texts)])
        assert outputs.keys() == right.keys()
        for output, (dtype, values) in outputs.items():
            if right[output].dtype == object:
                assert values == np.char.decode(right[output].astype(bytes)).tolist()
            else:
                assert dtype == right[output].dtype.kind
                np.testing.assert_allclose(values, right[output], rtol=1e-5, atol=1e-6)


def test_process_that_has_imported_tensorflow_uses_it(folders):
    assert tf.__version__
    assert isinstance(quick_export.load(folders["single"]), loaded_model.Export)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, expected",
    [
        ("damaged", "cannot be loaded .*: a file of it is damaged or missing; export it again."),
        ("other", "takes ids of int32 .*; expected strings."),
    ],
)
def test_export_that_the_c_library_refuses_is_explained_by_tensorflow(folders, tmp_path, kind, expected):
    folder = tmp_path / "damaged"
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(b"no protocol buffer")
    path = str(folder) if kind == "damaged" else folders[kind]
    command = [sys.executable, "-m", "bert_tf", "predict", path, "--text=a"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert re.search(expected, done.stderr)


CASES = """
import sys
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.export import quick_export
from bert_tf.runtime import tensorflow_c

for folder in sys.argv[1:]:
    try:
        export = quick_export.QuickExport(tensorflow_c.library_path(), folder)
        outputs = export.predict([Example("0", ("abc",)), Example("1", ("",))])
        print({name: (str(x.dtype), x.tolist()) for name, x in sorted(outputs.items())})
    except (UserError, tensorflow_c.TensorFlowCError) as error:
        print(type(error).__name__, error)
"""


def renamed(folder, function, side, rename):
    """An export whose signature names other tensors as inputs or outputs."""
    quick_exports.saved(folder, function, ("text", tf.string, ()))
    path = folder / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    signature = model.meta_graphs[0].signature_def["serving_default"]
    for tensor in getattr(signature, side).values():
        tensor.name = rename(tensor.name.partition(":")[0])
    path.write_bytes(model.SerializeToString())
    return folder


@pytest.mark.skipif(sys.platform != "linux", reason="the C library is used on Linux alone")
def test_c_library_survives_every_signature(tmp_path):
    def lengths(text):
        return {"x": tf.cast(tf.strings.length(text), tf.bfloat16) / 2, "text": text}

    def written(text):
        tf.io.write_file(str(tmp_path / "written"), text[0])
        return {"text": text}

    folders = [
        quick_exports.saved(tmp_path / "bfloat16", lengths, ("text", tf.string, ())),
        renamed(tmp_path / "output", lengths, "outputs", lambda name: "gone:0"),
        renamed(tmp_path / "input", lengths, "inputs", lambda name: "gone:0"),
        renamed(tmp_path / "number", lengths, "outputs", lambda name: f"{name}:9"),
        renamed(tmp_path / "negative", lengths, "outputs", lambda name: f"{name}:-1"),
        quick_exports.saved(tmp_path / "write", written, ("text", tf.string, ())),
    ]
    done = subprocess.run(
        [sys.executable, "-c", CASES, *folders], capture_output=True, text=True, cwd=ROOT, check=False
    )
    bfloat16, output, given, number, negative, write = done.stdout.splitlines()
    assert done.returncode == 0
    assert bfloat16 == "{'text': ('object', [b'abc', b'']), 'x': ('float32', [1.5, 0.0])}"
    assert "operation 'gone', which the graph lacks" in output and output == given
    assert number.startswith(("TensorFlowCError", "UserError")) and negative.startswith(("TensorFlowCError", "User"))
    assert write.startswith("UserError") and not (tmp_path / "written").exists()
    outputs = loaded_model.Export(str(folders[0])).predict([Example("0", ("abc",))])
    assert (outputs["x"].dtype, outputs["x"].tolist()) == (np.float32, [1.5])
