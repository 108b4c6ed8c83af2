"""The code of docs/adding_a_task.md and docs/adding_a_checkpoint_format.md does what these pages say."""

import json
import pathlib
import re
import sys

import numpy as np
import pytest
import test_formats
import test_heads
import tiny

from bert_tf import checkpoints, tasks
from bert_tf.errors import UserError
from bert_tf.text import Tokenizer
from run_classifier import Flags

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
    return tasks.get("my_lab.sarcasm/headlines")(options, tokenizer_for), learned_from


def test_the_task_of_the_page_reads_answers_and_is_scored(headlines):
    task, texts = made(headlines)
    assert len(texts) == 4 and texts[0].startswith("Nation thrilled")
    assert [example.label for example in task.source("dev").examples] == ["sarcastic", "serious"] * 2
    assert (task.source("dev").is_known, task.source("test").is_known) == (True, False)
    model = task.model(tiny.CONFIG)
    (batch,) = task.eval_batches(4, "dev")
    outputs = model(batch)
    assert {name: tuple(output.shape) for name, output in outputs.items()} == {"logits": (4, 2)}
    assert set(task.measures(outputs, batch)) == {"cross_entropy", "accuracy"}
    answers = {name: value.numpy() for name, value in task.answers(outputs, batch).items()}
    assert set(task.scores(answers, "dev")) == {"accuracy", "macro_f1"}
    assert next(iter(task.train_batches(3, 1)))["token_ids"].shape == (3, 12)
    assert set(task.serve(model, tokenizer())) == {"serving_default", "tf_example"}


def test_the_task_of_the_page_says_what_is_missing_in_a_sentence(headlines):
    task, _ = made(headlines)
    (headlines / "dev.jsonl").unlink()
    with pytest.raises(UserError, match="There is no dev in data_dir=.*; expected dev.jsonl there"):
        task.source("dev")


def test_the_commands_of_the_page_have_flags_that_exist():
    from bert_tf import commands

    (commands_of_the_page,) = blocks("adding_a_task.md", "bash")
    train, predict = commands_of_the_page.splitlines()
    assert set(re.findall(r"--(\w+)", train)) <= set(Flags.__dataclass_fields__)
    assert train.startswith("PYTHONPATH=. python run_classifier.py --task_name=my_lab.sarcasm/headlines ")
    given = commands.parser().parse_args(["predict", "runs/sarcasm", "--text=Local"])
    assert predict.startswith("bert-tf predict runs/sarcasm --text=") and given.text == "Local"


def test_every_function_that_the_page_names_is_there():
    from bert_tf import metrics
    from bert_tf.sentences import classification, examples, goals

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
    monkeypatch.setattr(checkpoints, "__path__", [*checkpoints.__path__, str(tmp_path / "more")])
    yield checkpoints.formats()["npz"]
    sys.modules.pop("bert_tf.checkpoints.npz")
    del checkpoints.npz


def test_the_format_of_the_page_is_found_and_keeps_everything(npz, tmp_path):
    assert checkpoints.names() == ["google_tf", "huggingface", "keras_hub", "native", "npz", "saved_model"]
    test_formats.test_a_table_covers_every_weight_of_a_real_model_and_no_name_twice("npz")
    folder = str(tmp_path / "model")
    assert checkpoints.write(test_formats.checkpoint(), folder, "npz") == []
    assert [name for name, module in checkpoints.formats().items() if module.recognises(folder)] == ["npz"]
    test_formats.assert_equal(checkpoints.read(folder), test_formats.checkpoint())
    for name in ("huggingface", "google_tf"):
        checkpoints.write(checkpoints.read(folder), str(tmp_path / name), name)
        test_formats.assert_equal(checkpoints.read(str(tmp_path / name)), test_formats.checkpoint())


def test_the_format_of_the_page_keeps_heads_with_their_labels_and_names_what_has_no_place(npz, tmp_path):
    make, labels = test_heads.HEADS["class"]
    arrays = {**tiny.random_weights(make()), "adapter/kernel": np.ones(3, np.float32)}
    given = checkpoints.Checkpoint(config=tiny.CONFIG, weights=arrays, labels=labels, kind="class")
    assert checkpoints.write(given, str(tmp_path / "model"), "npz") == ["adapter/kernel"]
    assert checkpoints.labels(tmp_path / "model") == labels
    assert checkpoints.read(tmp_path / "model").weights.keys() == arrays.keys() - {"adapter/kernel"}


def test_the_format_of_the_page_refuses_a_damaged_file_in_a_sentence(npz, tmp_path):
    checkpoints.write(test_formats.checkpoint(), str(tmp_path / "model"), "npz")
    test_formats.cut_short(tmp_path / "model" / "weights.npz")
    with pytest.raises(UserError, match="weights.npz cannot be read .*fetch it again"):
        checkpoints.read(tmp_path / "model")
