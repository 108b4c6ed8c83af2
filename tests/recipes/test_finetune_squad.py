"""run_squad.py as its user meets it: two seeds trained, evaluated, predicted and joined; scoring alone; mistakes."""

import functools
import json

import pytest
import script_runs

from bert_tf.cli import main
from bert_tf.errors import UserError
from bert_tf.recipes import finetune_squad

TINY = {
    "model_size": "tiny", "vocab_size": 60, "max_seq_length": 24, "doc_stride": 8, "max_query_length": 6,
    "train_batch_size": 4, "num_train_epochs": 2, "precision": "float32", "version_2_with_negative": True,
    "export_engines": "none",
}  # fmt: skip
ANIMALS = ("cat", "dog", "fox", "cow")


script = functools.partial(script_runs.script, "run_squad.py")


def write_questions(path):
    """Eight questions about two texts in SQuAD's layout, every third without an answer."""
    paragraphs = []
    for number in range(2):
        context = " ".join(f"The {animal} sat on mat {number}, it was happy." for animal in ANIMALS)
        entries = [
            {
                "id": f"{animal}-{number}",
                "question": f"Who sat on mat {number}?",
                "is_impossible": (place + number) % 3 == 0,
                "answers": [{"text": animal, "answer_start": context.index(animal)}] if (place + number) % 3 else [],
            }
            for place, animal in enumerate(ANIMALS)
        ]
        paragraphs.append({"context": context, "qas": entries})
    path.write_text(json.dumps({"version": "v2.0", "data": [{"title": "animals", "paragraphs": paragraphs}]}))
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The questions, the folders of two runs, and what the script said."""
    folder = tmp_path_factory.mktemp("squad")
    file = write_questions(folder / "questions.json")
    flags = {**TINY, "train_file": file, "predict_file": file, "output_dir": folder / "run", "num_seeds": 2}
    code, stdout, stderr = script(eager=False, **flags, random_seed=1, do_predict=True, keep_best=True, do_export=False)
    assert code == 0, stderr
    return file, [folder / "run" / f"seed={seed}" for seed in (1, 2)], stdout


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_run_writes_the_original_files_and_report_data(trained):
    file, runs, stdout = trained
    ids = {f"{animal}-{number}" for animal in ANIMALS for number in range(2)}
    assert "8 questions about 2 texts, 3 (37.5%) without an answer" in stdout
    for run in runs:
        assert {"best_f1", "best_f1_thresh", "best_exact_thresh", "HasAns_f1", "NoAns_f1"} <= set(
            read(run / "eval_results.json")
        )
        for name in ("predictions.json", "nbest_predictions.json", "null_odds.json"):
            assert set(read(run / name)) == ids
        assert set(read(run / "eval_details.json")["dev"]["questions"]) == {"right", "partly", "wrong", "examples"}
        assert read(run / "run.json")["selection"]["criterion"] == "best_f1"
    assert "Answers to questions" in (runs[0].parent / "report.html").read_text(), "those of the best run"


def test_predictions_use_best_threshold_and_rescore_equal(trained):
    file, (run, _), _ = trained
    results = read(run / "eval_results.json")
    recorded = read(run / "task.json")
    (threshold,) = recorded["calibration"].values()
    assert recorded["host"]["search"]["threshold"] == threshold
    answers, odds = read(run / "predictions.json"), read(run / "null_odds.json")
    assert {name for name, text in answers.items() if not text} == {name for name in odds if odds[name] > threshold}
    flags = {"predict_file": file, "predictions_file": run / "predictions.json", "version_2_with_negative": True}
    code, stdout, stderr = script(**flags, null_odds_file=run / "null_odds.json")
    assert code == 0, stderr
    scores = {line.split()[0]: float(line.split()[1]) for line in stdout.splitlines() if line.startswith("  ")}
    assert scores["f1"] == pytest.approx(results["best_f1"])


@pytest.mark.slow
def test_prediction_only_run_is_scored_in_the_report(trained, tmp_path):
    file, (run, _), _ = trained
    only = {"do_train": False, "do_eval": False, "do_export": False, "do_predict": True}
    code, stdout, stderr = script(**TINY, **only, predict_file=file, init_checkpoint=run, output_dir=tmp_path / "only")
    assert code == 0, stderr
    results = read(tmp_path / "only" / "eval_results.json")
    assert f"f1                         {results['f1']:.4f}" in stdout and results["total"] == 8
    assert "Answers to questions" in (tmp_path / "only" / "report.html").read_text()


@pytest.mark.slow
def test_later_export_has_best_threshold_and_scores(trained, capsys, tmp_path):
    file, (run, _), _ = trained
    assert main.main(["export", str(run), str(tmp_path / "export")]) == 0
    capsys.readouterr()
    assert main.main(["evaluate", str(tmp_path / "export"), f"--file={file}", "--json"]) == 0
    scores, results = json.loads(capsys.readouterr().out)["scores"], read(run / "eval_results.json")
    assert scores["f1"] == pytest.approx(results["best_f1"]) and scores["total"] == 8
    assert scores["best_f1_thresh"] == pytest.approx(results["best_f1_thresh"], abs=1e-4)


def test_ensemble_joins_answers_of_two_seeds(trained, tmp_path):
    file, runs, _ = trained
    flags = {"ensemble": ",".join(map(str, runs)), "predict_file": file, "version_2_with_negative": True}
    code, stdout, stderr = script(**flags, output_dir=tmp_path / "joined")
    assert code == 0, stderr
    assert "Wrote 8 answers to " in stdout and "  HasAns_f1 " in stdout
    lists = [read(run / "nbest_predictions.json")["cow-1"] for run in (*runs, tmp_path / "joined")]
    probabilities = [{answer["text"]: answer["probability"] for answer in answers} for answers in lists]
    for text, share in probabilities[2].items():
        assert share == pytest.approx((probabilities[0].get(text, 0) + probabilities[1].get(text, 0)) / 2)


@pytest.mark.parametrize("left", ["run.json", "checkpoints/ckpt-5.index"])
def test_ensemble_does_not_overwrite_a_run(left, tmp_path):
    file, run = write_questions(tmp_path / "questions.json"), tmp_path / "run"
    (run / left).parent.mkdir(parents=True)
    (run / left).write_text('{"name": "squad/v1.1"}')
    for name in "ab":
        (tmp_path / name).mkdir()
        answers = {f"{animal}-{number}": [] for animal in ANIMALS for number in range(2)}
        (tmp_path / name / "nbest_predictions.json").write_text(json.dumps(answers))
    ensemble = f"{tmp_path / 'a'},{tmp_path / 'b'}"
    options = finetune_squad.Flags(ensemble=ensemble, predict_file=str(file), output_dir=str(run))
    with pytest.raises(UserError, match="is a run: choose another output_dir"):
        finetune_squad.score_files(options)
    assert [path for path in run.rglob("*") if path.is_file()] == [run / left]


MISTAKES = {
    "no file to evaluate on": ({"train_file": "{file}"}, "predict_file"),
    "no answers wanted": ({"predict_file": "{file}", "n_best_size": 0}, "n_best_size is 0; expected 1 or more."),
    "not a file of questions": ({"train_file": "{vocabulary}", "predict_file": "{file}"}, "is not valid JSON"),
    "no predictions": ({"predict_file": "{file}", "predictions_file": "nowhere.json"}, "nowhere.json cannot be read"),
    "a run that predicted nothing": ({"predict_file": "{file}", "ensemble": "a,b"}, "a/nbest_predictions.json cannot"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_user_error_is_one_line_and_leaves_no_files(mistake, tmp_path):
    flags, expected = MISTAKES[mistake]
    file, vocabulary = write_questions(tmp_path / "questions.json"), tmp_path / "vocab.txt"
    vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n")
    flags = {name: str(value).format(file=file, vocabulary=vocabulary) for name, value in flags.items()}
    code, _, stderr = script(**{**TINY, "vocab_file": vocabulary, "output_dir": tmp_path / "run", **flags})
    assert (code, len(stderr)) == (2, 1), stderr
    assert expected.replace("--", "") in stderr[0].replace("--", "")  # with and without dashes
    assert sorted(tmp_path.iterdir()) == [file, vocabulary]
