"""ner/table and ner/conll2003 as their user meets them: a run from scratch, predictions, the command, mistakes."""

import json

import pytest
import tiny
import warm

from bert_tf.cli import main
from bert_tf.errors import UserError
from bert_tf.tasks import catalog
from bert_tf.tasks.task_options import TagOptions
from bert_tf.text.tokenizer import Tokenizer

TINY = {
    "task_name": "ner/table", "model_size": "tiny", "dropout_prob": 0.0, "vocab_size": 60, "max_seq_length": 16,
    "train_batch_size": 4, "num_train_epochs": 3, "learning_rate": 0.002, "precision": "float32",
    "export_engines": "none",
}  # fmt: skip
NAMES = ("Ann B-PER", "Paris B-LOC", "Bob B-PER", "Rome B-LOC")
SENTENCES = [f"{name}\nsaw O\n{NAMES[i // 4]}\n. O\n" for i, name in enumerate(NAMES * 4)]


def script(*, eager=True, **flags):
    """Runs run_classifier.py; returns its standard output."""
    done = warm.run("run_classifier.py", *(f"--{name}={value}" for name, value in flags.items()), eager=eager)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of the files, the folder of the run, and what the script said."""
    folder = tmp_path_factory.mktemp("ner")
    (folder / "train.txt").write_text("\n".join(SENTENCES))
    (folder / "dev.txt").write_text("\n".join(SENTENCES[:6]).replace("B-", "S-"))
    (folder / "test.txt").write_text("\n".join(SENTENCES[6:9]).replace("B-", "I-"))
    flags = {"eval_steps": 6, "keep_best": True, "do_predict": True}
    return folder, folder / "run", script(eager=False, **TINY, **flags, data_dir=folder, output_dir=folder / "run")


@pytest.mark.slow
def test_run_evaluates_during_training_and_keeps_the_best(trained):
    _, run, stdout = trained
    assert "train: 16 sentences; 64 words; 32 entities in IOB2: " in stdout and "dev: 6 sentences" in stdout
    assert "12 entities in BIOES" in stdout and "Step 6, held out: loss " in stdout and "the best f1" in stdout
    results = json.loads((run / "eval_results.json").read_text())
    assert set(results) == {"loss", "tag_loss", "accuracy", "f1", "precision", "recall"} and results["f1"] > 0.5
    details = json.loads((run / "eval_details.json").read_text())["dev"]
    assert [(row["label"], row["count"]) for row in details["per_class"]] == [("LOC", 5), ("PER", 7)]
    task = json.loads((run / "task.json").read_text())
    assert (task["kind"], task["labels"]) == ("tags", ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"])
    assert "LOC" in (run / "report.html").read_text()


@pytest.mark.slow
def test_predictions_use_the_files_scheme_and_trained_model_predicts_others(trained):
    folder, run, stdout = trained
    assert "Wrote 3 predictions to" in stdout
    lines = [line.split(" ") for line in (run / "predictions.txt").read_text().splitlines() if line]
    assert len(lines) == 12 and {line[2] for line in lines} <= {"O", "I-PER", "I-LOC", "B-PER", "B-LOC"}
    assert any(line[2].startswith("I-") for line in lines)
    (folder / "words.txt").write_text("Ann\nsaw\nRome\n")
    flags = {"do_train": False, "do_eval": False, "do_export": False, "do_predict": True}
    script(**{**TINY, **flags}, predict_file=folder / "words.txt", output_dir=run)
    assert [line.split()[0] for line in (run / "predictions.txt").read_text().splitlines()] == ["Ann", "saw", "Rome"]


@pytest.mark.slow
def test_command_prints_entities_with_offsets(trained, capsys, tmp_path):
    _, run, _ = trained
    (tmp_path / "some.txt").write_text("Ann saw Rome.\n\nBob saw Bob.\n")
    assert main.main(["predict", str(run), f"--file={tmp_path / 'some.txt'}", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["text"] for row in rows] == ["Ann saw Rome.", "", "Bob saw Bob."] and rows[1]["entities"] == []
    for row in rows:
        assert all(row["text"][e["start"] : e["end"]] == e["text"] for e in row["entities"])
    assert rows[0]["label"] == ", ".join(f"{e['text']} {e['label']}" for e in rows[0]["entities"])
    assert main.main(["predict", str(run), "--text=Ann saw Rome."]) == 0
    first = rows[0]["entities"][0]
    assert f"{first['score']:6.1%}  {first['label']}  {first['text']}  {first['start']}-{first['end']}" in (
        capsys.readouterr().out
    )


@pytest.mark.slow
def test_export_scores_match_the_script(trained, capsys):
    folder, run, _ = trained
    assert main.main(["evaluate", str(run), f"--file={folder / 'dev.txt'}", "--batch_size=4", "--json"]) == 0
    actual, results = json.loads(capsys.readouterr().out), json.loads((run / "eval_results.json").read_text())
    assert actual["scores"] == pytest.approx({name: results[name] for name in ("f1", "precision", "recall")})
    assert actual["details"]["per_class"] == json.loads((run / "eval_details.json").read_text())["dev"]["per_class"]


def options(folder, **changes):
    """The flags that the task reads."""
    return TagOptions().replace(**{"data_dir": str(folder), "max_seq_length": 16, **changes})


def made(name, folder, **changes):
    tokenizer = Tokenizer([*tiny.SPECIAL, "a"])
    return catalog.get(name)(options(folder, **changes), lambda texts: tokenizer)


def test_conll2003_file_names_and_labels_without_training_data(tmp_path):
    (tmp_path / "eng.testa").write_text("a I-X\n")
    task = made("ner/conll2003", tmp_path, labels=["O", "I-X", "B-X"])
    assert task.split("dev").word_labels.tolist() == [2] and task.head.labels == ("O", "I-X", "B-X")
    (tmp_path / "eng.train").write_text("a NN\n\na VB\n")
    assert made("ner/conll2003", tmp_path, tag_scheme="plain").head.labels == ("O", "NN", "VB")
    (tmp_path / "eng.train").write_text("a B-X\nb I-X\n")
    plain = made("ner/conll2003", tmp_path, tag_scheme="plain")
    assert plain.head.labels == ("O", "B-X", "I-X") and plain.split("train").word_labels.tolist() == [1, 2]


@pytest.mark.parametrize(
    "files, changes, message",
    [
        ({}, {}, "There is no train.txt or train.jsonl or .* in data_dir=.*: pass the file as train_file."),
        ({"train.txt": "a O\n"}, {}, "All words of .*train.txt are tagged O; expected entities"),
        ({"train.txt": "a\n"}, {}, "train.txt has words only; expected a column with their tags too"),
        ({"train.txt": "a B-X\n", "dev.txt": ""}, {}, "dev.txt contains no words"),
        ({"train.txt": "a B-X\n"}, {"eval_file": "none.txt"}, "There is no none.txt: pass the file as eval_file, or"),
        ({}, {"labels": "O,O,B-X,I-X"}, "labels names O more than once; expected each tag once"),
        ({}, {"labels": "B-X,I-X"}, "labels are B-X, I-X; expected O among them too"),
        ({}, {"labels": "O,B-X"}, "labels are O, B-X; expected I-X among them too"),
        ({}, {"criterion": "accuracy"}, "criterion is accuracy; .* f1 of entities"),
    ],
)
def test_invalid_file_is_one_sentence(files, changes, message, tmp_path):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        made("ner/table", tmp_path, **changes).split("dev")


def test_part_of_the_sentences_is_held_out_of_a_file_that_is_alone(tmp_path, caplog):
    path = tmp_path / "tags.csv"
    path.write_text("sentence_id,words,labels\n" + "".join(f"{n},a,B-X\n{n},a{n},O\n" for n in range(100)))
    task = made("ner/table", "", train_file=str(path), do_eval=True)
    train, dev = ({each.words for each in task.split(split).sentences} for split in ("train", "dev"))
    assert not train & dev and len(train | dev) == 100 and 3 <= len(dev) <= 20
    assert f"{len(dev)} of the 100 rows of {path} are held out" in caplog.text
    with pytest.raises(UserError, match="There is no .*dev.txt"):
        made("ner/table", tmp_path, train_file=str(path), do_eval=True).split("dev")
