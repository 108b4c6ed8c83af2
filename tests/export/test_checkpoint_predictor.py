"""Checkpoints with a head in every command: the numbers of the live model, of a text, a pair, choices and words."""

import contextlib
import dataclasses
import json
import shutil

import checkpoint_cases
import faults
import numpy as np
import pytest
import tiny

import bert_tf
from bert_tf.checkpoints import formats
from bert_tf.cli import main
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.errors import UserError
from bert_tf.export import checkpoint_predictor, engines, loaded_model, trained_model
from bert_tf.export.reranking import Reranker
from bert_tf.model import heads
from bert_tf.serving import zero_shot_signature
from bert_tf.serving.served import Served
from bert_tf.text.tokenizer import pack

CONFIG = dataclasses.replace(tiny.CONFIG, max_position_embeddings=40, hidden_act="gelu_erf")
TAGS = ["O", "B-LOC", "I-LOC"]
MODELS = {
    "classes": (lambda: heads.Classifier(CONFIG, 3), ["x", "y", "z"], "classes"),
    "nli": (lambda: heads.Classifier(CONFIG, 3), ["Contradiction", "Entailment", "Neutral"], "classes"),
    "several": (lambda: heads.Classifier(CONFIG, 2), ["x", "y"], "multi_label"),
    "number": (lambda: heads.Regressor(CONFIG), None, "regression"),
    "choice": (lambda: heads.MultipleChoice(CONFIG), None, "choice"),
    "tags": (lambda: heads.TokenClassifier(CONFIG, 3), TAGS, "tags"),
    "span": (lambda: heads.SpanFinder(CONFIG), None, "span"),
    "masks": (lambda: heads.Pretrainer(CONFIG), None, None),
    "headless": (lambda: heads.BertModel(CONFIG), None, None),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """{name: Hugging Face folder}."""
    root = tmp_path_factory.mktemp("models")
    for name, (create, labels, kind) in MODELS.items():
        checkpoint_cases.write(root / name, create(), labels, kind, "huggingface")
    return {name: str(root / name) for name in MODELS}


@pytest.mark.parametrize(
    ("positions", "expected"), [(512, (384, 128, 64)), (300, (300, 100, 64)), (252, (252, 84, 63)), (40, (40, 13, 10))]
)
def test_questions_are_read_in_windows_that_fit_the_positions(folders, positions, expected):
    loaded = checkpoint_predictor.load(folders["span"])
    longer = dataclasses.replace(loaded, config=dataclasses.replace(CONFIG, max_position_embeddings=positions))
    windows = trained_model.task_of("a checkpoint", longer).head.windows
    assert (windows.max_seq_length, windows.doc_stride, windows.max_query_length) == expected


def test_questions_need_a_token_of_the_text_in_each_row(folders):
    loaded = checkpoint_predictor.load(folders["span"])
    for positions, is_enough in ((4, False), (5, True)):
        found = dataclasses.replace(loaded, config=dataclasses.replace(CONFIG, max_position_embeddings=positions))
        if is_enough:
            assert checkpoint_predictor.answers_of("a checkpoint", found)[1]["windows"]["max_query_length"] == 1
        else:
            with pytest.raises(UserError, match="a checkpoint has 4 positions; a question and its text need 5 or more"):
                checkpoint_predictor.answers_of("a checkpoint", found)


def logits_of(folder, *texts):
    """The logits of the Keras model for a text or a pair."""
    loaded = bert_tf.load(folder)
    rows = pack(loaded.tokenizer, [[text] for text in texts], CONFIG.max_position_embeddings)
    return np.asarray(next(iter(loaded.model(rows).values())))[0]


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum()


def printed(capsys, *arguments):
    assert main.main([str(argument) for argument in arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return [json.loads(line) for line in captured.out.splitlines()]


def test_head_of_a_checkpoint_takes_texts_and_pairs(folders):
    model = bert_tf.load(folders["classes"])
    for texts in (("a b c",), ("a b", "c d e")):
        prediction = model.predict(texts if len(texts) > 1 else texts[0])
        expected = softmax(logits_of(folders["classes"], *texts))
        assert list(prediction.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)
    pair = bert_tf.load(folders["number"]).predict(("a", "b c"))
    assert pair.value == pytest.approx(float(logits_of(folders["number"], "a", "b c")), abs=1e-5)


def test_choices_are_as_many_as_the_call_has(folders):
    model = bert_tf.load(folders["choice"])
    for choices in (("b", "c"), ("b c", "d", "e f g", "h")):
        expected = softmax(np.array([float(_choice_logit(model, "a", choice)) for choice in choices]))
        found = model.predict(("a", *choices)).probabilities
        assert list(found.values()) == pytest.approx(expected.tolist(), abs=1e-5)
    with pytest.raises(UserError, match="2 texts were given .* takes 3 to 65"):
        model.predict(("a", "b"))


def _choice_logit(model, first, choice):
    rows = pack(model.tokenizer, [[first], [choice]], CONFIG.max_position_embeddings)
    return model.model({name: x[:, None] for name, x in rows.items()})["logits"].numpy()[0, 0]


def test_kind_that_an_export_cannot_answer_as_is_not_believed(tmp_path):
    (tmp_path / "about.json").write_text(json.dumps({"kind": "classes", "labels": ["a", "b"]}))
    kinds = [loaded_model.head_of(str(tmp_path), outputs) for outputs in (["probabilities"], ["x"], ["values"])]
    assert [head and head.kind for head in kinds] == ["classes", None, "regression"]


def test_texts_are_read_as_far_as_the_model_has_positions(folders):
    long = " ".join("abcdefgh"[number % 8] for number in range(60))
    expected = softmax(logits_of(folders["classes"], long))
    assert list(bert_tf.load(folders["classes"]).predict(long).probabilities.values()) == pytest.approx(
        expected.tolist(), abs=1e-5
    )


def test_predict_takes_a_checkpoint(folders, capsys, tmp_path):
    (row,) = printed(capsys, "predict", folders["classes"], "--text=a b c", "--json")
    assert list(row["probabilities"]) == ["x", "y", "z"]
    assert list(row["probabilities"].values()) == pytest.approx(
        softmax(logits_of(folders["classes"], "a b c")), abs=1e-5
    )
    (row,) = printed(capsys, "predict", folders["nli"], "--text=a b", "--text_b=c", "--json")
    expected = softmax(logits_of(folders["nli"], "a b", "c"))
    assert list(row["probabilities"].values()) == pytest.approx(expected, abs=1e-5)
    (row,) = printed(capsys, "predict", folders["choice"], "--text=a", "--choice=b", "--choice=c", "--json")
    assert len(row["probabilities"]) == 2
    (tmp_path / "pairs.csv").write_text("one,two\na b,c\n")
    (row,) = printed(
        capsys, "predict", folders["nli"], f"--file={tmp_path}/pairs.csv", "--text_columns=one,two", "--json"
    )
    assert list(row["probabilities"].values()) == pytest.approx(expected, abs=1e-5)
    (row,) = printed(capsys, "predict", folders["tags"], "--text=a b c", "--is_split_into_words", "--json")
    assert len(row["tags"]) == 3 and set(row["tags"]) <= set(TAGS)
    (row,) = printed(capsys, "predict", folders["masks"], "--text=a [MASK]", "--json")
    assert len(row["answers"][0]) == 10
    (row,) = printed(capsys, "predict", folders["span"], "--text=a b c", "--question=d", "--json")
    assert row["answer"] == "a b c"[row["start"] : row["end"]]


def test_evaluate_takes_a_checkpoint(folders, capsys, tmp_path):
    labels = MODELS["classes"][1]
    rows = [(text, labels[logits_of(folders["classes"], text).argmax()]) for text in ("a b", "c", "d e f")]
    (tmp_path / "a.csv").write_text("review,stars\n" + "".join(f"{text},{label}\n" for text, label in rows))
    flags = ["--text_columns=review", "--label_column=stars", "--json"]
    (result,) = printed(capsys, "evaluate", folders["classes"], f"--file={tmp_path}/a.csv", *flags)
    assert (result["examples"], result["scores"]["accuracy"], result["kind"]) == (3, 1.0, "classes")
    (tmp_path / "b.csv").write_text("text_a,choice 0,choice 1,label\na,b,c,0\nd,e,f,1\n")
    (result,) = printed(capsys, "evaluate", folders["choice"], f"--file={tmp_path}/b.csv", "--json")
    assert result["examples"] == 2
    (tmp_path / "c.txt").write_text("a O\nb B-LOC\n\n")
    (result,) = printed(capsys, "evaluate", folders["tags"], f"--file={tmp_path}/c.txt", "--json")
    assert result["kind"] == "tags" and result["examples"] == 1


def test_lists_of_choices_in_json_are_predicted_as_columns_are(folders, capsys, tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"text_a": "a", "choices": ["b", "c", "d e"]}) + "\n")
    (tmp_path / "a.csv").write_text("text_a,choice 0,choice 1,choice 2\na,b,c,d e\n")
    listed, columns = (
        printed(capsys, "predict", folders["choice"], f"--file={tmp_path}/{name}", "--json")[0]
        for name in ("a.jsonl", "a.csv")
    )
    assert listed["probabilities"] == columns["probabilities"] and len(listed["probabilities"]) == 3


@pytest.mark.parametrize("is_quick", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_compare_takes_a_checkpoint_and_a_file(folders, capsys, tmp_path, monkeypatch, is_quick):
    """All forms score the same on it; the quick run has no SavedModel."""
    monkeypatch.setattr(engines, "names", list)
    no_export = faults.on_call(trained_model, "write_export", UserError("It has no export."))
    labels = MODELS["classes"][1]
    rows = [(text, labels[logits_of(folders["classes"], text).argmax()]) for text in ("a b", "c", "d e f")]
    (tmp_path / "a.csv").write_text("review,stars\n" + "".join(f"{text},{label}\n" for text, label in rows))
    (tmp_path / "c.txt").write_text("a O\nb B-LOC\n\n")
    paragraph = {
        "context": "a b c",
        "qas": [{"id": "1", "question": "d", "answers": [{"text": "b", "answer_start": 2}]}],
    }
    (tmp_path / "q.json").write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    cases = {
        "classes": (["--file=a.csv", "--text_columns=review", "--label_column=stars"], 3, "accuracy"),
        "tags": (["--file=c.txt"], 1, "f1"),
        "span": (["--file=q.json"], 1, "f1"),
    }
    monkeypatch.chdir(tmp_path)
    with no_export if is_quick else contextlib.nullcontext():
        results = {name: printed(capsys, "compare", folders[name], *cases[name][0], "--json")[0] for name in cases}
    for name, (_, count, score) in cases.items():
        live, exported = results[name]["deployments"]
        assert (results[name]["rows"], results[name]["criterion"]) == (count, score)
        assert name != "classes" or live["scores"][score] == 1
        assert bool(exported["error"]) == is_quick and (is_quick or exported["scores"][score] == live["scores"][score])
    assert main.main(["compare", folders["span"], "--file=q.json", "--text_columns=a"]) == 2
    assert "text_columns applies to tables" in capsys.readouterr().err


def test_serve_takes_a_checkpoint(folders):
    served = Served("x", folders["several"])
    assert served.kind == "multi_label" and served.labels == ["x", "y"]
    defs = served.metadata()["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert defs["inputs"]["text_a"]["dtype"] == "DT_STRING" and "probabilities" in defs["outputs"]
    outputs = served.signatures["serving_default"]({"text_a": np.array([b"a b"], object)})
    expected = 1 / (1 + np.exp(-logits_of(folders["several"], "a b")))
    np.testing.assert_allclose(outputs["probabilities"][0], expected, atol=1e-5)
    assert Served("x", folders["nli"]).kind == "classes"  # as its labels say
    assert Served("x", folders["number"], texts=2).kind == "regression"
    assert Served("x", folders["choice"], texts=5).kind == "choice"
    assert [Served("x", folders[name]).kind for name in ("tags", "span", "masks")] == ["tags", "span", "masked_lm"]
    with pytest.raises(UserError, match="takes a text and its choices: .* num_texts"):
        Served("x", folders["choice"])


def test_reranker_takes_a_checkpoint(folders):
    scores = Reranker.load(folders["number"])("a", ["b", "c d"])
    expected = [float(logits_of(folders["number"], "a", text)) for text in ("b", "c d")]
    assert scores.tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_export_takes_a_checkpoint(folders, capsys, tmp_path):
    assert main.main(["export", folders["number"], str(tmp_path / "out"), "--num_texts=2", "--engine=none"]) == 0
    export = loaded_model.on_strings(str(tmp_path / "out"))
    assert list(export.inputs) == ["text_a", "text_b"]
    assert main.main(["export", folders["masks"], str(tmp_path / "masks"), "--engine=none"]) == 0
    capsys.readouterr()
    flags = ["--text=a b", "--text_b=c", "--json", "--engine=tensorflow"]
    (row,) = printed(capsys, "predict", tmp_path / "out", *flags)
    assert row["value"] == pytest.approx(float(logits_of(folders["number"], "a b", "c")), abs=1e-5)


@pytest.mark.slow
def test_export_of_choices_has_models_of_engines(folders, capsys, tmp_path):
    assert main.main(["export", folders["choice"], str(tmp_path / "out"), "--num_texts=3", "--engine=onnx"]) == 0
    capsys.readouterr()
    texts = ["--text=a b", "--choice=c", "--choice=d e", "--json"]
    live, graph, engine = (
        printed(capsys, "predict", folder, *texts, *flags)[0]["probabilities"]
        for folder, flags in (
            (folders["choice"], []),
            *((tmp_path / "out", [f"--engine={each}"]) for each in ("tensorflow", "onnx")),
        )
    )
    assert live == pytest.approx(graph, abs=1e-5) and graph == pytest.approx(engine, abs=1e-5)


def test_what_cannot_be_used_says_why(folders, capsys, tmp_path):
    assert main.main(["predict", folders["headless"], "--text=a"]) == 2
    assert "has no head for predictions: `bert-tf extract`" in capsys.readouterr().err
    assert main.main(["export", folders["classes"]]) == 2
    assert "is a checkpoint, not a run: pass TO" in capsys.readouterr().err
    assert main.main(["compare", folders["classes"]]) == 2
    assert "is a checkpoint, which has no evaluation rows: pass a labeled --file" in capsys.readouterr().err
    assert main.main(["evaluate", folders["masks"], f"--file={tmp_path}/a.csv"]) == 2
    assert "fills masks" in capsys.readouterr().err


TEXTS = ["a b c", "d e f g h i j k l m n o " * 6]
NAMES = ["a x", "k", "d"]
ZERO_SHOT = [  # of `pipeline("zero-shot-classification")` of transformers 5.24 on the same folder
    ({}, [[0.319528, 0.352457, 0.328015], [0.330831, 0.334895, 0.334274]]),
    ({"multi_label": True}, [[0.379937, 0.395369, 0.376285], [0.393302, 0.387507, 0.392051]]),
    ({"hypothesis_template": "b {} y"}, [[0.32394, 0.3396, 0.33646], [0.328286, 0.335948, 0.335765]]),
]


@pytest.mark.parametrize(("options", "expected"), ZERO_SHOT)
def test_zero_shot_is_that_of_transformers(folders, options, expected):
    nli = bert_tf.load(folders["nli"])
    found = nli.zero_shot(TEXTS, NAMES, **options)
    np.testing.assert_allclose([list(each.probabilities.values()) for each in found], expected, atol=2e-6)
    assert list(found[0].probabilities) == NAMES
    assert [each.label for each in found] == (["", ""] if "multi_label" in options else ["k", "k"])
    (alone,) = nli.zero_shot(TEXTS[0], "k").probabilities.values()  # a single label is decided by itself
    assert alone == pytest.approx(0.395369, abs=2e-6)


def test_zero_shot_on_the_command_line_and_the_server(folders, capsys, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    command = ["predict", folders["nli"], f"--file={tmp_path}/texts.txt", f"--labels={','.join(NAMES)}"]
    assert main.main([*command, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0]["text"] == TEXTS[0] and rows[0]["label"] == "k"
    values = [list(row["probabilities"].values()) for row in rows]
    np.testing.assert_allclose(values, ZERO_SHOT[0][1], atol=2e-6)
    served = Served("nli", folders["nli"])
    (signature,) = zero_shot_signature.added(served).values()
    labels = np.array([[name.encode() for name in NAMES]] * 2, object)
    answer = signature({"text": np.array([text.encode() for text in TEXTS], object), "labels": labels})
    np.testing.assert_allclose(answer["probabilities"], ZERO_SHOT[0][1], atol=2e-6)
    np.testing.assert_allclose(answer["independent_probabilities"], ZERO_SHOT[1][1], atol=2e-6)
    assert answer["label"].tolist() == [b"k", b"k"]


def test_what_zero_shot_refuses(folders):
    nli = bert_tf.load(folders["nli"])
    for labels, options, message in (
        ([], {}, "labels are none"),
        (["a", "a"], {}, "expected distinct"),
        (["a", " "], {}, "non-empty"),
        (["a", "b"], {"hypothesis_template": "It is so."}, "expected a text with {} once"),
        (["a", "b"], {"hypothesis_template": "{{}}"}, "expected a text with {} once"),
    ):
        with pytest.raises(UserError, match=message):
            nli.zero_shot("a", labels, **options)
    with pytest.raises(UserError, match="has the labels x, y, z; expected an NLI model with a label entailment"):
        bert_tf.load(folders["classes"]).zero_shot("a", ["b"])
    assert zero_shot_signature.added(Served("classes", folders["classes"])) == {}
    assert main.main(["predict", folders["nli"], "--text=a", "--multi_label"]) == 2


@pytest.mark.slow
def test_checkpoint_of_vectors_is_exported_with_its_engines(folders, tmp_path, capsys):
    checkpoint = dataclasses.replace(formats.read(folders["headless"]), sentence_vectors=SentenceVectors("mean"))
    formats.write(checkpoint, tmp_path / "vectors", "huggingface")
    command = ["export", str(tmp_path / "vectors"), str(tmp_path / "export"), "--engine=onnx"]
    assert main.main(command) == 0 and capsys.readouterr().err == ""
    expected = bert_tf.load(tmp_path / "vectors").embed(TEXTS)
    for engine in ("tensorflow", "onnx"):
        np.testing.assert_allclose(bert_tf.load(tmp_path / "export", engine=engine).embed(TEXTS), expected, atol=1e-5)


CROSS_ENCODERS = [  # two files, the kind, and what `CrossEncoder` 6.2 predicts for PAIRS
    ({"sentence_transformers": {"version": "5"}}, {}, "relevance", [0.682104, 0.717014]),
    ({}, {"model_type": "CrossEncoder", "activation_fn": "torch.nn.Identity"}, "relevance_score", [0.763456, 0.929697]),
    pytest.param(
        {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"},
        {},
        "relevance_score",
        [0.763456, 0.929697],
        marks=pytest.mark.slow,
    ),
]
PAIRS = [("a b c", "d e f"), ("a", TEXTS[1])]


@pytest.mark.parametrize(("config", "about", "kind", "expected"), CROSS_ENCODERS)
def test_cross_encoders_are_those_of_sentence_transformers(folders, tmp_path, config, about, kind, expected):
    model = _changed(folders["number"], tmp_path / "model", config, about)
    loaded = bert_tf.load(model)
    assert loaded.kind == kind
    np.testing.assert_allclose([each.value for each in loaded.predict(PAIRS)], expected, atol=2e-6)
    texts = ["b", "c d", "x"]
    ranked = loaded.rank("a", texts)
    assert [each.number for each in ranked] == [1, 2, 0] and ranked[0].text == "c d"
    np.testing.assert_allclose(Reranker.load(model)("a", texts)[1], ranked[0].score, rtol=1e-6)
    assert len(loaded.rank("a", texts, count=1)) == 1
    assert main.main(["convert", model, str(tmp_path / "again"), "--format=huggingface"]) == 0
    again = bert_tf.load(tmp_path / "again")
    assert again.kind == kind and again.rank("a", texts) == ranked
    with pytest.raises(UserError, match="takes 2: text_a and text_b"):
        loaded.predict("a")


def _changed(folder, to, config, about):
    """A copy of a folder with other settings."""
    shutil.copytree(folder, to)
    path = to / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    (to / "config_sentence_transformers.json").write_text(json.dumps(about))
    return str(to)


@pytest.mark.parametrize(
    ("config", "about", "files", "reason"),
    [
        ({"sentence_transformers": {"activation_fn": "torch.nn.Tanh"}}, {}, {}, "activation_fn is 'torch.nn.Tanh'"),
        ({}, {"model_type": "CrossEncoder", "default_prompt_name": "q"}, {}, "default_prompt_name is 'q'"),
        (
            {},
            {"model_type": "CrossEncoder"},
            {
                "modules.json": [
                    {"type": "sentence_transformers.models.Transformer", "path": ""},
                    {"type": "my.Dense", "path": "1_Dense"},
                ]
            },
            "modules are Transformer, Dense",
        ),
        (
            {},
            {"model_type": "CrossEncoder"},
            {"sentence_bert_config.json": {"transformer_task": "text-generation"}},
            "transformer_task is 'text-generation'",
        ),
    ],
)
def test_cross_encoders_of_another_kind_are_refused_by_name(folders, tmp_path, config, about, files, reason):
    model = _changed(folders["number"], tmp_path / "model", config, about)
    for name, content in files.items():
        (tmp_path / "model" / name).write_text(json.dumps(content))
    with pytest.raises(UserError, match=f"has no head .*{reason}.*, which is not supported"):
        bert_tf.load(model).rank("a", ["b"])
