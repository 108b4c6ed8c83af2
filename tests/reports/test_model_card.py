"""Model cards: their metadata as a hub reads it, licenses, and that every value comes from the run."""

import json

import pytest
import tiny
from huggingface_hub import metadata_load

from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.recipes import finetune
from bert_tf.reports import model_card

RUN = {
    "name": "table",
    "command": ["run_classifier.py", "--task_name=table", "--data_dir=my data"],
    "flags": {
        "task_name": "table",
        "data_dir": "my data",
        "learning_rate": 5e-05,
        "dropout_prob": 0.0,
        "optimizer": "auto",
    },
    "config": {"num_hidden_layers": 2, "hidden_size": 128, "vocab_size": 1500, "max_position_embeddings": 512},
    "parameters": 672138,
    "text_statistics": {"train": {"examples": 512, "mean_length": 107.4}},
    "versions": {"python": "3.11.7", "tensorflow": "2.21.0"},
    "machine": {"cores": 2, "processor": "x86_64"},
    "phases": {"train": 60.0, "export": 5.0},
    "training": {"optimizer": "adamw_corrected", "head_learning_rate": 0.001},
}


@pytest.fixture
def run(tmp_path):
    """A function that writes a run with changed flags and returns its folder."""

    def write(kind="classes", **flags):
        (tmp_path / "run.json").write_text(json.dumps({**RUN, "flags": {**RUN["flags"], **flags}}))
        (tmp_path / "task.json").write_text(json.dumps({"labels": ["a", "b"], "kind": kind}))
        (tmp_path / "export").mkdir(exist_ok=True)
        (tmp_path / "export" / "about.json").write_text(json.dumps({"inputs": {"text_a": None, "text_b": None}}))
        (tmp_path / "eval_results.json").write_text(json.dumps({"accuracy": 0.75, "macro_f1": 0.5}))
        details = {"per_class": [{"label": "a"}, {"label": "b"}], "confusion": [[3, 1], [1, 3]]}
        (tmp_path / "eval_details.json").write_text(json.dumps({"dev": details}))
        return tmp_path

    return write


def test_card_says_what_the_data_hold_without_folders_of_the_machine(tmp_path):
    data = {"splits": ["train: 3 examples; a 66.7%."], "notes": ["1 row of /home/me/x.csv is left out: line 9 of it."]}
    run = {"name": "table", "flags": {"train_file": "/home/me/x.csv"}, "data": data}
    (tmp_path / "run.json").write_text(json.dumps(run))
    card = model_card.of_run(str(tmp_path))
    assert "train: 3 examples; a 66.7%.\n\n1 row of x.csv is left out: line 9 of it." in card and "/home" not in card


def test_card_states_data_recipe_scores_and_limits(run):
    folder = run()
    model_card.write_of_run(str(folder), [str(folder / "missing")])
    text = (folder / "README.md").read_text()
    for line in (
        "A BERT with 2 layers of width 128 and 672,138 parameters, trained from scratch. It classifies texts",
        f'bert-tf predict {folder.name} --text="A text." --text_b="Another text."',
        "Files: `--data_dir=my data`.",
        "Train: 512 examples.",
        'print(model.predict(("A text.", "Another text.")).label)',
        "It classifies texts. Labels: a, b.",
        "`python run_classifier.py --task_name=table '--data_dir=my data'`",
        "| learning_rate | 5e-05 |",
        "| dropout_prob | 0.0 |",
        "| optimizer | adamw_corrected |",
        "| head_learning_rate | 0.001 |",
        "Trained with python 3.11.7, tensorflow 2.21.0 on 2 cores (x86_64), in 1 min 5 s.",
        "| Accuracy | 75.0% |",
        "6 of 8 examples (75.0%) are correct. Always predicting the most frequent class, a, would be correct for",
        "- Its vocabulary has 1,500 tokens; other words are split into parts.",
        "The model was trained from scratch; its license is for whoever trained it to choose.",
    ):
        assert line in text, line
    assert "missing" not in [path.name for path in folder.iterdir()]


@pytest.mark.parametrize(
    ("kind", "pipeline_tag"),
    [("class", "text-classification"), ("tags", "token-classification"), ("span", "question-answering")],
)
def test_metadata_is_read_by_the_hub(run, kind, pipeline_tag):
    folder = run(kind, init_checkpoint="bert-base-uncased")
    model_card.write_of_run(str(folder))
    metadata = metadata_load(folder / "README.md")
    assert metadata["pipeline_tag"] == pipeline_tag and metadata["library_name"] == "bert_tf"
    assert (metadata["license"], metadata["base_model"]) == ("apache-2.0", "google-bert/bert-base-uncased")
    (result,) = metadata["model-index"][0]["results"]
    assert result["metrics"] == [{"type": "accuracy", "value": 0.75}, {"type": "macro_f1", "value": 0.5}]


def test_license_comes_from_the_card_of_the_start(run, tmp_path_factory):
    start = tmp_path_factory.mktemp("start")
    folder = run(init_checkpoint=str(start))
    assert "whose license is not known" in model_card.of_run(str(folder))
    (start / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# Start\n")
    assert f"It started from {start.name}, whose license is cc-by-4.0." in model_card.of_run(str(folder))
    (start / "README.md").write_text("No metadata.\n")
    assert "whose license is not known" in model_card.of_run(str(folder))


@pytest.mark.parametrize(
    ("start", "license_name"),
    [
        ("", None),
        ("hf://google-bert/bert-base-cased", "apache-2.0"),
        ("MiniLM-L12-H384-uncased", "mit"),
        ("hf://someone/bert-base-cased", None),
        ("hf://dmis-lab/biobert-v1.1", None),
        ("no/such/folder", None),
    ],
)
def test_license_of_published_checkpoints(start, license_name):
    assert model_card.license_of(start) == license_name


@pytest.mark.parametrize(
    ("format_name", "kind", "program"),
    [
        ("huggingface", "class", 'model = pipeline("text-classification", model="converted")'),
        ("huggingface", None, 'model = AutoModel.from_pretrained("converted")'),
        ("native", "class", 'print(model.predict("A text.").label)'),
        ("native", None, 'print(model.embed(["A text."]))'),
        ("onnx", "class", 'model = engines.load("converted")'),
        (model_card.EXPORT, "class", 'print(model.predict("A text.").label)'),
    ],
)
def test_card_of_a_conversion_loads_it_as_its_format_does(tmp_path, format_name, kind, program):
    labels = ["a", "b"] if kind else None
    checkpoint = Checkpoint(config=tiny.CONFIG, weights={}, labels=labels, kind=kind)
    folder = tmp_path / "converted"
    folder.mkdir()
    model_card.write_of_conversion(checkpoint, "runs/mine", str(folder), format_name)
    text = (folder / "README.md").read_text()
    assert program in text and "converted from runs/mine" in text and ("Labels: a, b." in text) == bool(kind)
    assert ("bert-tf extract converted" in text) == (format_name not in ("onnx", model_card.EXPORT))
    assert ("bert-tf serve converted" in text) == (format_name == model_card.EXPORT)


def test_card_lists_the_first_of_many_labels():
    assert model_card._labels(["a", "b"]) == " Labels: a, b."
    many = model_card._labels([str(number) for number in range(10_000)])
    assert many.endswith(" 199 and 9,800 more.") and model_card._labels(None) == ""


def test_names_and_labels_are_text_in_the_card(run):
    attack = "<img src=x onerror=alert(1)>\n\n# [you](javascript:x) | `code` \x1b[31m & more"
    folder = run(init_checkpoint=attack, train_file="a`b<c>.csv")
    (folder / "task.json").write_text(json.dumps({"labels": [attack, "b"], "kind": "classes"}))
    model_card.write_of_run(str(folder))
    text = (folder / "README.md").read_text()
    body = text.split("---", 2)[2]
    shown = r"&lt;img src=x onerror=alert(1)&gt; # \[you\](javascript:x) \| \`code\` \x1b\[31m &amp; more"
    assert f"Labels: {shown}, b." in body and f"started from {shown}" in body
    assert "`` --train_file=a`b<c>.csv ``" in body
    assert "<img" not in body and "\n# [" not in body and "\x1b" not in body


def test_card_holds_no_folder_of_this_machine(run, monkeypatch):
    command = ["bert-tf", "finetune", "/home/ann/feedback.csv", "--output_dir=/srv/runs/feedback"]
    monkeypatch.setitem(RUN, "command", command)
    folder = run(init_checkpoint="/srv/models/minilm/", train_file="/home/ann/feedback.csv", data_dir="")
    model_card.write_of_run(str(folder))
    text = (folder / "README.md").read_text()
    assert "/srv" not in text and "/home" not in text
    assert "started from minilm. It classifies" in text and "`--train_file=feedback.csv`" in text
    assert "`bert-tf finetune feedback.csv --output_dir=feedback`" in text


def test_card_of_rows_of_a_program_names_the_run_and_a_command_for_it(run, monkeypatch):
    given = {"output_dir": "runs/reviews", "train_file": "runs/reviews/data/train.jsonl", "refit": True}
    monkeypatch.setitem(RUN, "command", list(finetune.Flags.of_program(given).command))
    folder = run(**given)
    model_card.write_of_run(str(folder))
    text = (folder / "README.md").read_text()
    assert (
        "`bert-tf finetune --output_dir=runs/reviews --train_file=runs/reviews/data/train.jsonl --refit=True`" in text
    )
    (data,) = {each["dataset"]["name"] for each in metadata_load(folder / "README.md")["model-index"][0]["results"]}
    assert data == "reviews"
