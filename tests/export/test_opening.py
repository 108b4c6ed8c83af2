"""Exports answered by other engines: the SavedModel's answers without TensorFlow, and what is refused."""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import sys

import faults
import numpy as np
import pytest
import tiny

import bert_tf
from bert_tf.cli import main
from bert_tf.cli.commands import serve
from bert_tf.data.examples import Example
from bert_tf.data.tag_schemes import TagSet
from bert_tf.errors import NoEngine, UserError
from bert_tf.export import engine_models, engine_network, engines, loaded_model, opening, saved_model, text_function
from bert_tf.export.host import Row
from bert_tf.export.predictor import Predictor
from bert_tf.export.saved_model import export
from bert_tf.extras.search.embedder import Embedder
from bert_tf.heads.base.text_head import Windows
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.classes import Classes
from bert_tf.heads.multi_label import MultiLabel
from bert_tf.heads.regression import Regression
from bert_tf.heads.span.answer_search import Search
from bert_tf.heads.span.answering import Answering
from bert_tf.heads.span.question_windows import QuestionWindows
from bert_tf.heads.tags.tag_windows import TagWindows
from bert_tf.heads.tags.tagging import Tagging
from bert_tf.heads.vectors.extraction import Features
from bert_tf.heads.vectors.vector_choice import VectorChoice, choose_layers
from bert_tf.model import weights
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text.tokenizer import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORDS = "the fox dog ran sat it ann in ulm sings . who".split()
TOKENIZER = Tokenizer([*tiny.SPECIAL, *WORDS])
LABELS = ["no", "yes", "so"]
TEXTS = ["The fox ran.", "", "Ann sings in Ulm, and the dog sat in it, and the fox ran and ran and sat in Ulm.", "WHO"]
GOALS = {  # goal, texts, options
    "classes": (Classes(LABELS), 1, {"temperature": "1.7"}),
    "pairs": (Classes(LABELS), 2, {"truncation": "only_second"}),
    "windows": (Classes(LABELS), 1, {"windows": Windows(stride=3, most=3)}),
    "windows_max": (Classes(LABELS), 1, {"windows": Windows(stride=3, most=3, pooling="max")}),
    "multi_label": (MultiLabel(LABELS, thresholds=[0.4, 0.5, 0.6]), 1, {"temperature": "1.7"}),
    "regression": (Regression(), 2, {}),
    "choice": (MultipleChoice(2), 3, {}),
}


def make(kind, folder, engine_names):
    """The folder of a tiny export of a kind, with random weights, and models for engines."""
    goal, texts, options = GOALS[kind]
    head = goal.configured(max_seq_length=12, texts=texts, **options)
    task = FineTuningTask("tiny", {}, head, TOKENIZER, test_splits=())
    model = tiny.randomized(task.create_model(tiny.CONFIG))
    export(task, model, TOKENIZER, str(folder), examples={}, about=task.about(), engine_names=engine_names)
    return str(folder)


def examples(count):
    return [Example(str(n), tuple(TEXTS[(n + place) % len(TEXTS)] for place in range(count))) for n in range(4)]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return make("classes", tmp_path_factory.mktemp("engines") / "export", opening.names_of("auto"))


def assert_same_answers(folder, name):
    expected, actual = loaded_model.on_strings(folder), opening.open_model(folder, name)
    assert (actual.inputs, list(actual.inputs), actual.labels, actual.task, actual.head) == (
        expected.inputs,
        list(expected.inputs),
        expected.labels,
        expected.task,
        expected.head,
    )
    rows = examples(sum(count or 1 for count in expected.inputs.values()))
    assert_same_outputs(actual.predict(rows), expected.predict(rows))


def assert_same_outputs(outputs, right):
    assert outputs.keys() == right.keys()
    for output, values in right.items():
        if values.dtype == object:
            assert [x.decode() for x in values.reshape(-1)] == outputs[output].reshape(-1).tolist()
        else:
            assert outputs[output].dtype == values.dtype
            np.testing.assert_allclose(outputs[output], values, atol=1e-5, err_msg=output)


@pytest.mark.slow
@pytest.mark.parametrize("kind", GOALS)
def test_texts_are_answered_as_by_the_saved_model(kind, tmp_path):
    names = ["openvino", "onnx"] if kind == "classes" else ["openvino"]
    folder = make(kind, tmp_path / "export", names)
    for name in ("tensorflow", *names):  # by the rows of the host, and the signature on strings
        assert_same_answers(folder, name)


OTHERS = {  # task, and the texts of some examples
    "tags": (
        Tagging(TagSet(("O", "B-PER", "I-PER"), "iob2"), TagWindows(max_seq_length=9, stride=3), crf=True),
        [(text,) for text in TEXTS],
    ),
    "span": (
        Answering(QuestionWindows(12, 3, 4), Search(n_best_size=4, has_null=True)),
        [(TEXTS[3], text) for text in TEXTS],
    ),
    "vectors": (
        Features(
            VectorChoice(layers=choose_layers("last", 2), unit="sentence", max_seq_length=9, normalize=("sentence",))
        ),
        [(text,) for text in TEXTS],
    ),
}


QUESTION = {
    "id": "1",
    "question": "Who sings?",
    "answers": [{"text": "Ann", "answer_start": 0}],
    "is_impossible": False,
}
LABELED = {  # examples with the right answers, for the scores
    "tags": "ann B-PER\nsings O\n\nthe O\nfox B-PER\n",
    "span": json.dumps({"version": "2", "data": [{"paragraphs": [{"context": "Ann sings.", "qas": [QUESTION]}]}]}),
}
EVALUATE = """
import sys

sys.modules.update(dict.fromkeys(("tensorflow", "keras", "tensorflow_text")))  # as if they were not installed
from bert_tf.cli import main

sys.exit(main.main(["evaluate", *sys.argv[1:]]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", OTHERS)
def test_other_heads_are_answered_as_by_the_saved_model(kind, tmp_path, capsys):
    head, rows = OTHERS[kind]
    is_head = kind != "vectors"
    task = FineTuningTask("tiny", {}, head, TOKENIZER, test_splits=()) if is_head else head
    config = dataclasses.replace(tiny.CONFIG, vocab_size=TOKENIZER.size)
    model, folder = task.create_model(config), str(tmp_path / "export")
    weights.assign(model, tiny.random_weights(model))
    export(
        task, model, TOKENIZER, folder, examples={}, about=task.about() if is_head else {}, engine_names=["openvino"]
    )
    texts = [Example(str(number), row) for number, row in enumerate(rows)]
    right = loaded_model.on_strings(folder).predict(texts)
    for engine in ("openvino", "tensorflow"):
        assert_same_outputs(opening.open_model(folder, engine).predict(texts), right)
    if kind in LABELED:
        path = tmp_path / "labeled"
        path.write_text(LABELED[kind])
        command = [folder, f"--file={path}", "--json", "--engine"]
        done = subprocess.run(
            [sys.executable, "-c", EVALUATE, *command, "openvino"],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert main.main(["evaluate", *command, "tensorflow"]) == 0
        scores = [json.loads(output)["scores"] for output in (done.stdout, capsys.readouterr().out)]
        assert scores[0] and scores[0] == pytest.approx(scores[1], rel=1e-4)
    if kind == "vectors":
        queries = [Embedder(folder, engine=name).queries(TEXTS) for name in ("openvino", "tensorflow")]
        np.testing.assert_allclose(*queries, atol=1e-5)
        (tmp_path / "texts.txt").write_text("\n".join([*TEXTS, "the fox ||| ann sings", ""]))
        command = ["extract", folder, f"--file={tmp_path / 'texts.txt'}", "--unit=word", "--doc_stride=4"]
        paths = [tmp_path / f"{name}.npz" for name in ("engine", "tensorflow")]
        subprocess.run(
            [sys.executable, "-c", EXTRACT, *command, f"--output={paths[0]}"], check=True, cwd=ROOT, timeout=100
        )
        assert main.main([*command, "--engine=tensorflow", f"--output={paths[1]}"]) == 0
        by_engine, right = map(np.load, paths)
        assert by_engine.files == right.files
        for name in right.files:
            if right[name].dtype.kind == "f":
                np.testing.assert_allclose(by_engine[name], right[name], atol=1e-5)
            else:
                np.testing.assert_array_equal(by_engine[name], right[name])
        capsys.readouterr()
        for flags, message in (
            (["--layers=0"], "layers requires --engine=tensorflow: leave one of the two out."),
            (["--precision=bfloat16"], "precision requires --engine=tensorflow"),
        ):
            assert main.main(["extract", folder, "--text=a", "--engine=openvino", *flags]) == 2
            assert message in capsys.readouterr().err


@pytest.mark.slow
def test_weights_of_8_bits_are_taken_by_name_alone(tmp_path):
    folder = make("classes", tmp_path / "export", ["onnx_int8"])
    assert opening.choose(folder) == "tensorflow"
    right = loaded_model.on_strings(folder).predict(examples(1))["logits"]
    logits = opening.load(folder, "onnx_int8").predict(examples(1))["logits"]
    assert 0 < np.abs(logits - right).max() < 0.2 * np.abs(right).max()


CODE = """
import sys
import bert_tf
from bert_tf.cli import main
from bert_tf.cli.commands import serve

code = main.main(["predict", sys.argv[1], "--text=The fox ran.", "--json"])
print(bert_tf.load(sys.argv[1], engine="auto").predict("The fox ran.").label)
assert not {"tensorflow", "keras", "tensorflow_text", "sklearn", "scipy"} & set(sys.modules)
sys.exit(code)
"""


EXTRACT = """
import sys
from bert_tf.cli import main
from bert_tf.cli.commands import serve

assert main.main(sys.argv[1:]) == 0
assert not {"tensorflow", "keras"} & set(sys.modules)
"""


def test_command_answers_without_tensorflow(classifier):
    done = subprocess.run(
        [sys.executable, "-c", CODE, classifier], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "Runs on openvino; --engine=tensorflow uses TensorFlow.\n"
    assert_same_answers(classifier, "openvino")
    outputs = opening.predictor_of(classifier, "openvino").predict([Example("0", ("The fox ran.",))])
    answer, label = done.stdout.splitlines()
    assert label == outputs["label"][0] == json.loads(answer)["label"]
    assert json.loads(answer)["probabilities"] == dict(zip(LABELS, outputs["probabilities"][0].tolist(), strict=True))


OF_LABELS = {"multi_label": ["no", "no,so", "yes", "so"], "regression": ["1", "2.5", "3", "4"]}
SLOW_KINDS = ("pairs", "windows", "multi_label", "regression", "choice")


@pytest.mark.parametrize("kind", ["classes", *(pytest.param(kind, marks=pytest.mark.slow) for kind in SLOW_KINDS)])
def test_labels_are_scored_without_tensorflow(kind, tmp_path, request, capsys):
    is_made = kind != "classes"
    folder = make(kind, tmp_path / "export", ["openvino"]) if is_made else request.getfixturevalue("classifier")
    count = GOALS[kind][1]
    names = [*(("text_a", "choice 0", "choice 1") if kind == "choice" else ("text_a", "text_b"))[:count], "label"]
    labels = OF_LABELS.get(kind, ["0", "1", "1", "0"] if kind == "choice" else ["no", "yes", "so", "no"])
    rows = [
        dict(zip(names, [*each.texts, label], strict=True)) for each, label in zip(examples(count), labels, strict=True)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = [folder, f"--file={path}", "--json", "--engine"]
    done = subprocess.run(
        [sys.executable, "-c", EVALUATE, *arguments, "openvino"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    assert main.main(["evaluate", *arguments, "tensorflow"]) == 0
    scores, expected = (json.loads(output)["scores"] for output in (done.stdout, capsys.readouterr().out))
    assert expected and scores == pytest.approx(expected, rel=1e-4)


SIGNALLED = """
import gc, os, signal, sys
import bert_tf

signal.signal(signal.SIGTERM, lambda *_: print("heard"))
models = [bert_tf.load(sys.argv[1], engine="openvino") for _ in range(2)]
print(len([model.predict("The fox ran.") for model in models]))
while models:
    del models[0]  # the older one first
    gc.collect()
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_signals_arrive_after_models_are_freed(classifier):
    """Two cores of OpenVINO, once freed, leave a signal stack behind that is freed too: a segmentation fault."""
    done = subprocess.run([sys.executable, "-c", SIGNALLED, classifier], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "2\nheard\n"), done.stderr


def test_engine_is_chosen_by_what_is_there_and_mistakes_are_one_sentence(classifier, monkeypatch):
    assert opening.choose(classifier) == "openvino"
    assert opening.choose(classifier, "tensorflow") == "tensorflow"
    with pytest.raises(UserError, match="has no model for onnx: `bert-tf export RUN --engine=onnx --overwrite`"):
        opening.load(classifier, "onnx")
    with pytest.raises(UserError, match="engine is 'torch'; expected one of auto, tensorflow, openvino, onnx"):
        opening.load(classifier, "torch")
    monkeypatch.setattr(engines.engine_of("openvino"), "RUNTIME", "no_such_package")
    assert opening.choose(classifier) == "tensorflow"
    with pytest.raises(UserError, match=r'no_such_package is missing: pip install "bert-tf\[openvino\]"'):
        opening.load(classifier, "openvino")


def test_default_is_the_first_engine_whose_models_can_be_written(monkeypatch):
    assert opening.names_of("auto") == ["auto"] and opening.default_names() == ["openvino"]
    assert opening.names_of("none") == opening.names_of("") == []
    assert opening.names_of("onnx,openvino") == ["onnx", "openvino"]
    for wrong in ("auto,onnx", "none,onnx", "tensorflow"):
        with pytest.raises(UserError, match="expected auto, none, or some of openvino, onnx"):
            opening.names_of(wrong)
    monkeypatch.setitem(engines.engine_of("openvino").PACKAGES, None, ("no_such_package",))
    assert opening.default_names() == ["onnx"]
    monkeypatch.setitem(engines.engine_of("onnx").PACKAGES, None, ("onnxruntime", "no_such_package"))
    assert opening.default_names() == [] and opening.names_of("auto") == ["auto"]
    with pytest.raises(UserError, match=r'no_such_package is missing: pip install "bert-tf\[onnx\]"'):
        opening.names_of("onnx")


@pytest.fixture
def rows_differ(monkeypatch):
    """Exports whose functions of rows answer otherwise than their signatures on strings."""
    return lambda: monkeypatch.setattr(saved_model, "_difference", lambda *_: 1.0)


NO_ROOM = MemoryError("no room")


@pytest.mark.parametrize(
    "reason", ["no room", "converting it needs about .* GiB", "tiny needs TensorFlow"], ids=["fails", "memory", "rows"]
)
def test_export_that_the_default_engine_cannot_hold_is_whole_without(
    tmp_path, with_memory, rows_differ, caplog, reason
):
    if "converting" in reason:
        with_memory(1000)
    elif "TensorFlow" in reason:
        rows_differ()
    with faults.on_call(engine_models, "convert", NO_ROOM) if "room" in reason else contextlib.nullcontext():
        folder = make("classes", tmp_path / "export", ["auto"])
    assert re.fullmatch(f"The export has no model for openvino: {reason}.*\\.", caplog.messages[-1])
    assert not (tmp_path / "export" / "engines").exists() and opening.choose(folder) == "tensorflow"
    assert loaded_model.is_export(folder)


def test_an_export_whose_rows_differ_answers_by_its_signatures(tmp_path, rows_differ, caplog):
    rows_differ()
    folder = make("classes", tmp_path / "export", [])
    assert "has only its signatures on strings: The answers of its functions of rows differ" in caplog.text
    assert not (tmp_path / "export" / "assets.extra" / "host.json").exists()
    assert isinstance(opening.open_model(folder, "tensorflow"), text_function.Signatures)
    with pytest.raises(NoEngine, match="needs TensorFlow"):
        make("classes", tmp_path / "other", ["openvino"])


OTHER_VECTORS = {
    "two layers": {"layers": choose_layers("second_to_last,last", 2)},
    "layers apart": {"layers": dataclasses.replace(choose_layers("second_to_last,last", 2), join="apart")},
    "tokens": {"layers": choose_layers("last", 2), "unit": "token", "normalize": ("token",)},
    "largest": {"layers": choose_layers("last", 2), "pooling": "max"},
    "pooler": {"layers": choose_layers("last", 2), "pooling": "pooled"},
    "prompt": {"layers": choose_layers("last", 2), "prompt": "the fox ", "include_prompt": False},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", OTHER_VECTORS)
def test_other_vectors_are_answered_as_by_the_signature(kind, tmp_path):
    task = Features(VectorChoice(**{"unit": "sentence", "max_seq_length": 9, **OTHER_VECTORS[kind]}))
    model, folder = task.create_model(dataclasses.replace(tiny.CONFIG, vocab_size=TOKENIZER.size)), str(tmp_path / "e")
    weights.assign(model, tiny.random_weights(model))
    export(task, model, TOKENIZER, folder, examples={})
    texts = [Example(str(number), (text,)) for number, text in enumerate(TEXTS)]
    by_rows = opening.open_model(folder, "tensorflow")
    assert type(by_rows) is Predictor
    assert_same_outputs(by_rows.predict(texts), loaded_model.on_strings(folder).predict(texts))


def test_stores_and_named_engines_have_no_default(tmp_path):
    with pytest.raises(NoEngine, match="engines read models from disk"):
        saved_model._check_fits("gs://bucket/export", None)
    with faults.on_call(engine_models, "convert", NO_ROOM), pytest.raises(MemoryError):
        make("classes", tmp_path / "export", ["openvino"])
    assert not (tmp_path / "export").exists()


def test_server_takes_tensorflow_for_signatures_that_engines_lack(classifier, tmp_path):
    folder = tmp_path / "export"
    shutil.copytree(classifier, folder)
    arguments = argparse.Namespace(engine="auto", jit_compile="auto")
    assert serve._engine(arguments, str(folder)).engine == "openvino"
    settings = json.loads((folder / "engines" / "host.json").read_text())
    assert settings["other_signatures"] == []
    task = FineTuningTask("tiny", {}, OTHERS["tags"][0], TOKENIZER, test_splits=())
    model = task.create_model(dataclasses.replace(tiny.CONFIG, vocab_size=TOKENIZER.size))
    for names, others in ((["auto"], ["words"]), (["openvino"], [])):  # one that was named answers
        made = tmp_path / "tags" / "engines" / "host.json"
        export(task, model, TOKENIZER, str(tmp_path / "tags"), examples={}, about=task.about(), engine_names=names)
        assert json.loads(made.read_text())["other_signatures"] == others
    (folder / "engines" / "host.json").write_text(json.dumps({**settings, "other_signatures": ["attention"]}))
    assert serve._engine(arguments, str(folder)) is None
    arguments.engine = "openvino"
    assert serve._engine(arguments, str(folder)).engine == "openvino"


@pytest.mark.parametrize("kind", ["classes", "multi_label"])
def test_about_json_that_was_changed_is_refused_by_every_engine(kind, tmp_path):
    folder = pathlib.Path(make(kind, tmp_path / "export", ["onnx"]))
    about, head = (folder / name for name in ("about.json", "assets.extra/labels.json"))
    original = json.loads(about.read_text())
    own = {"classes": [{"temperature": 2.5}], "multi_label": [{"thresholds": [0.4, 0.5, 0.5]}, {"thresholds": [0.5]}]}
    labels = ({"labels": ["a", "b"]}, {"labels": [*LABELS, "more"]}, {"labels": ["so", "yes", "no"]})
    for change in (*labels, {"temperature": -3}, {"kind": "choice"}, *own[kind]):
        about.write_text(json.dumps({**original, **change}))
        for engine in ("tensorflow", "onnx"):
            with pytest.raises(UserError, match=f"about.json.* {next(iter(change))}"):
                bert_tf.load(folder, engine=engine)
    head.unlink()  # as if both were changed
    about.write_text(json.dumps({**original, "labels": ["a", "b"], "thresholds": None}))
    with pytest.raises(UserError, match="names 2 labels in about.json for the 3 outputs of its model"):
        bert_tf.load(folder, engine="onnx")


def test_damaged_and_other_models_are_refused(classifier, tmp_path):
    folder = tmp_path / "export"
    engine_network.files.copy_folder(classifier, str(folder))
    original = (folder / "engines" / "host.json").read_text()
    settings = json.loads(original)
    for name, values in settings["check"]["numbers"].items():
        settings["check"]["numbers"][name] = [[-x for x in row] for row in values]
    (folder / "engines" / "host.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match="openvino for .* differ from TensorFlow's: logits differs by 2 of the largest"):
        opening.load(str(folder), "openvino")
    settings = json.loads(original)
    damages = ({"precision": "half"}, {"check": []}, {"max_seq_length": "a"}, {"shares_rows": 3}, {"pad_id": 10**30})
    for damage in (*damages, {"stages": 3}, {"max_seq_length": 13}):
        (folder / "engines" / "host.json").write_text(json.dumps({**settings, **damage}))
        with pytest.raises(UserError, match=rf"engines/host.json: {next(iter(damage))} is .*; expected "):
            opening.load(str(folder), "openvino")
    (folder / "engines" / "host.json").write_text(json.dumps({**settings, "stages": "rows"}))
    with pytest.raises(UserError, match=r"host.json or about.json is damaged \(.*\): export it again"):
        opening.load(str(folder), "openvino")
    for stages, message in (("os.path", "names code outside of this package"), ("none", "There is no module 'none'")):
        (folder / "engines" / "host.json").write_text(json.dumps({**settings, "stages": stages}))
        with pytest.raises(UserError, match=message):
            opening.load(str(folder), "openvino")
    (folder / "engines" / "host.json").write_text(json.dumps(settings))
    (folder / "engines" / "openvino" / "model.xml").write_text("<net")
    with pytest.raises(UserError, match="model in .* cannot be loaded .*: one of its files is damaged or missing"):
        opening.load(str(folder), "openvino")
    (folder / "engines" / "host.json").write_text("{")
    with pytest.raises(UserError, match="host.json is not valid JSON"):
        opening.load(str(folder), "openvino")


def test_numbers_near_zero_are_compared_with_the_largest_of_all_rows(classifier):
    network = engine_network.EngineNetwork(classifier, "openvino")
    found = opening.predictor_of(classifier, "openvino")
    numbers = network.settings["check"]["numbers"]["logits"]
    numbers[0] = [1e-6] * 3

    class Rounded(engine_network.EngineNetwork):
        def compute(self, rows, calls):
            values = super().compute(rows, calls)
            values["logits"][0] = np.full(3, 1.3e-6)
            return values

    network.__class__ = Rounded
    network.check(found.stages, found.labels)
    numbers[0] = [0.5 * max(map(abs, numbers[1]))] * 3
    with pytest.raises(UserError, match="logits differs by 0.5 of the largest"):
        network.check(found.stages, found.labels)


def test_a_saved_model_with_damaged_settings_is_refused(tmp_path):
    folder = tmp_path / "export"
    make("classes", folder, [])
    path = folder / "assets.extra" / "host.json"
    settings = json.loads(path.read_text())
    assert opening.open_model(str(folder), "tensorflow").predict(examples(1))["logits"].shape == (4, 3)
    for name, value in (("max_positions", None), ("max_seq_length", "a"), ("stages", 3), ("pad_id", [])):
        path.write_text(json.dumps({**settings, name: value}))
        with pytest.raises(UserError, match=f"assets.extra/host.json: {name} is .*; expected "):
            opening.open_model(str(folder), "tensorflow", jit_compile="true")
    path.write_text(json.dumps({**settings, "stages": "os.path"}))
    with pytest.raises(UserError, match="names code outside of this package"):
        opening.open_model(str(folder), "tensorflow")
    path.write_text(json.dumps(settings))
    (folder / "assets.extra" / "labels.json").unlink()  # as if both were changed
    about = json.loads((folder / "about.json").read_text())
    (folder / "about.json").write_text(json.dumps({**about, "labels": ["a", "b"]}))
    with pytest.raises(UserError, match="names 2 labels in about.json for the 3 outputs of its model"):
        opening.open_model(str(folder), "tensorflow")


def test_damage_that_openvino_finds_is_told_with_its_cause(classifier, tmp_path):
    folder = tmp_path / "export"
    shutil.copytree(classifier, folder)
    next(folder.rglob("model.xml")).write_text("<net")
    with pytest.raises(UserError, match="cannot be loaded") as error:
        opening.predictor_of(str(folder), "openvino")
    assert "Exception from" not in str(error.value)
    assert "model.xml" in str(error.value).partition("cannot be loaded")[2]


def test_error_of_an_engine_is_one_sentence(tmp_path):
    network = engine_network.EngineNetwork(make("classes", tmp_path / "export", ["onnx"]), "onnx")
    with pytest.raises(UserError, match="onnx cannot compute .*export .*out of data bounds"):
        network.numbers([Row([10**6], [0])])
