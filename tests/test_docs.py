"""The code of docs/adding_a_task.md and docs/adding_a_checkpoint_format.md does what these pages say."""

import json
import pathlib
import re
import sys

import numpy as np
import pytest
import tiny
from checkpoint_cases import assert_covers_every_weight, assert_equal, checkpoint, cut_short
from head_cases import HEADS

from bert_tf.checkpoints import formats
from bert_tf.errors import UserError
from bert_tf.recipes.finetune import Flags
from bert_tf.tasks import catalog
from bert_tf.text.tokenizer import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parent.parent
LETTERS = "abcdefghijklmnopqrstuvwxy"


def blocks(page, language):
    """What stands between ```language and ``` on a page of docs/."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.fixture
def headlines(tmp_path, monkeypatch):
    """The task of the page, from outside the package, on the lines of the page."""
    (source,), (lines,) = blocks("adding_a_task.md", "python"), blocks("adding_a_task.md", "json")
    (tmp_path / "my_lab").mkdir()
    (tmp_path / "my_lab" / "sarcasm.py").write_text(source, encoding="utf-8")
    for split in ("train", "dev"):
        (tmp_path / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    unlabelled = [json.dumps({"headline": json.loads(line)["headline"]}) for line in lines.splitlines()]
    (tmp_path / "test.jsonl").write_text("\n".join(unlabelled), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == "my_lab"]:
        del sys.modules[name]


def tokenizer():
    return Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS])


def made(folder):
    """The task on a folder, and the texts that it would learn a vocabulary from."""
    learned_from = []

    def tokenizer_for(texts):
        learned_from.extend(texts())
        return tokenizer()

    options = Flags(data_dir=str(folder), max_seq_length=12)
    return catalog.get("my_lab.sarcasm/headlines")(options, tokenizer_for), learned_from


def test_the_task_of_the_page_reads_answers_and_is_scored(headlines):
    task, texts = made(headlines)
    assert len(texts) == 4 and texts[0].startswith("Nation thrilled")
    assert [example.label for example in task.split("dev").examples] == ["sarcastic", "serious"] * 2
    assert (task.split("dev").is_known, task.split("test").is_known) == (True, False)
    model = task.create_model(tiny.CONFIG)
    (batch,) = task.eval_batches(4, "dev")
    outputs = model(batch)
    assert {name: tuple(output.shape) for name, output in outputs.items()} == {"logits": (4, 2)}
    assert set(task.metrics(outputs, batch)) == {"cross_entropy", "accuracy"}
    answers = {name: value.numpy() for name, value in task.predictions(outputs, batch).items()}
    assert set(task.scores(answers, "dev")) == {"accuracy", "macro_f1"}
    assert next(iter(task.train_batches(3, 1)))["token_ids"].shape == (3, 12)
    assert set(task.signatures(model, tokenizer())) == {"serving_default", "tf_example"}


def test_the_task_of_the_page_says_what_is_missing_in_a_sentence(headlines):
    task, _ = made(headlines)
    (headlines / "dev.jsonl").unlink()
    with pytest.raises(UserError, match="There is no dev in data_dir=.*; expected dev.jsonl there"):
        task.split("dev")


def test_the_commands_of_the_page_have_flags_that_exist():
    from bert_tf.cli import main

    (commands_of_the_page,) = blocks("adding_a_task.md", "bash")
    train, predict = commands_of_the_page.splitlines()
    assert set(re.findall(r"--(\w+)", train)) <= set(Flags.__dataclass_fields__)
    assert train.startswith("PYTHONPATH=. python run_classifier.py --task_name=my_lab.sarcasm/headlines ")
    given = main.parser().parse_args(["predict", "runs/sarcasm", "--text=Local"])
    assert predict.startswith("bert-tf predict runs/sarcasm --text=") and given.text == "Local"


def test_every_function_that_the_page_names_is_there():
    from bert_tf.data import examples
    from bert_tf.tasks.text_classification import classification, goals
    from bert_tf.training import metrics

    assert {"Classes", "Labels", "Number", "Choice"} <= set(vars(goals))
    assert callable(classification.task) and callable(examples.read) and metrics.SCORES["macro_f1"]
    page = (ROOT / "docs" / "adding_a_task.md").read_text(encoding="utf-8")
    for name in re.findall(r"`((?:bert_tf/|tasks/)[\w/]+\.py)`", page):
        assert (ROOT / name).exists() or (ROOT / "bert_tf" / name).exists(), name


@pytest.fixture
def npz(tmp_path, monkeypatch):
    """The format of the page, as if its file lay in bert_tf/checkpoints."""
    (source,) = blocks("adding_a_checkpoint_format.md", "python")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "npz.py").write_text(source, encoding="utf-8")
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path / "more")])
    yield formats.formats()["npz"]
    sys.modules.pop("bert_tf.checkpoints.formats.npz")
    del formats.npz


def test_the_format_of_the_page_is_found_and_keeps_everything(npz, tmp_path):
    assert formats.names() == ["google_tf", "huggingface", "keras_hub", "native", "npz", "saved_model"]
    assert_covers_every_weight("npz")
    folder = str(tmp_path / "model")
    assert formats.write(checkpoint(), folder, "npz") == []
    assert [name for name, module in formats.formats().items() if module.recognizes(folder)] == ["npz"]
    assert_equal(formats.read(folder), checkpoint())
    for name in ("huggingface", "google_tf"):
        formats.write(formats.read(folder), str(tmp_path / name), name)
        assert_equal(formats.read(str(tmp_path / name)), checkpoint())


def test_the_format_of_the_page_keeps_heads_with_their_labels_and_names_what_has_no_place(npz, tmp_path):
    make, labels = HEADS["class"]
    arrays = {**tiny.random_weights(make()), "adapter/kernel": np.ones(3, np.float32)}
    given = formats.Checkpoint(config=tiny.CONFIG, weights=arrays, labels=labels, kind="class")
    assert formats.write(given, str(tmp_path / "model"), "npz") == ["adapter/kernel"]
    assert formats.labels(tmp_path / "model") == labels
    assert formats.read(tmp_path / "model").weights.keys() == arrays.keys() - {"adapter/kernel"}


def test_the_format_of_the_page_refuses_a_damaged_file_in_a_sentence(npz, tmp_path):
    formats.write(checkpoint(), str(tmp_path / "model"), "npz")
    cut_short(tmp_path / "model" / "weights.npz")
    with pytest.raises(UserError, match="weights.npz cannot be read .*fetch it again"):
        formats.read(tmp_path / "model")
