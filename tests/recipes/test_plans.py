"""--dry_run: the plan of a command, which is what the command then does, and nothing written."""

import dataclasses
import json
import subprocess
import sys

import checkpoint_cases
import pytest
from script_runs import ROOT, TINY

import bert_tf
from bert_tf.checkpoints import formats
from bert_tf.errors import UserError
from bert_tf.recipes import finetune, finetune_squad, pretrain
from bert_tf.recipes.finetuning import planning
from bert_tf.recipes.pretraining import planning as pretraining_plans
from bert_tf.training.run_directory import RunFolder

CHOSEN = {"model_size": "tiny", "vocab_size": 60, "precision": "float32", "export_engines": "none"}


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "animals.csv"
    rows = [f"the {('cat', 'dog')[i % 2]} sat on mat number {i},{('cat', 'dog')[i % 2]}\n" for i in range(30)]
    path.write_text("text,kind\n" + "".join(rows))
    return path


def plan_of(table, **given):
    values = {"train_file": str(table), "output_dir": str(table.parent / "run"), **CHOSEN, **given}
    options = planning.with_chosen_defaults(finetune.Flags.of_program(values))
    return planning.make(options, RunFolder(options.output_dir))


def test_a_dry_run_prints_the_plan_and_writes_nothing(table, capsys):
    flags = {"train_file": str(table), "output_dir": str(table.parent / "run"), **CHOSEN, "dry_run": True}
    finetune.main(finetune.Flags.of(flags))
    printed = capsys.readouterr().out
    assert [path.name for path in table.parent.iterdir()] == ["animals.csv"]
    for line in (
        "Plan (nothing was written):",
        "  runs        one with rows held out, then one on all rows",
        "  training    180 steps, 60 epochs of 24 examples; evaluation every 15 steps, ends after 4 ",
        "  rates       adamw_corrected, learning rate 5e-05, warm-up 18 steps",
        "  --vocab_size=60 ",
    ):
        assert line in printed
    rows = [line.split() for line in printed.partition("Flags:\n")[2].splitlines()]
    reasons = {row[0].partition("=")[0]: " ".join(row[1:]) for row in rows}
    assert reasons["--vocab_size"] == "given" and reasons["--text_columns"] == "the column of the longest texts"
    assert "--dry_run" not in reasons and all(reasons.values())


@pytest.mark.parametrize("given", [{"refit": False}, {}, {"folds": 2}], ids=["one", "refit", "folds"])
def test_a_run_is_neither_finished_nor_continued_with_other_rows(given, table, capsys):
    run = table.parent / "run"
    values = {"train_file": str(table), "output_dir": str(run), **CHOSEN, "num_train_epochs": 1.0, "do_export": False}
    flags = finetune.Flags.of({**values, **given})
    finetune.main(flags)
    finetune.main(flags)
    assert capsys.readouterr().out.endswith(f"This run is finished; its results are in {run}.\n")
    rows = table.read_text()
    changes = [("number 1,dog", "number 1,cat")]
    if given != {"refit": False}:  # later runs train on the rows that the first one holds out
        changes += [(f"mat number {number},", "hat,") for number in range(8)]
    for change in changes:
        table.write_text(rows.replace(*change))
        with pytest.raises(UserError, match=f"training data has changed since the run in {run} began"):
            finetune.main(flags)
    table.write_text(rows)
    finetune.main(flags)


def test_only_the_tokens_of_rows_take_time(table):
    times = []
    for words in (4, 90):
        rows = "".join(f"{'the cat sat ' * words}{number},{('cat', 'dog')[number % 2]}\n" for number in range(30))
        table.write_text("text,kind\n" + rows)
        times.append(plan_of(table, model_size="base", max_seq_length=12, output_dir=str(table.parent)).lines()["time"])
    assert times[0] == times[1]


WITHOUT_TENSORFLOW = """
import sys
from bert_tf.cli import main

try:
    main.main([*sys.argv[1:], "--dry_run"])
finally:
    print("loaded:", {"tensorflow", "keras", "tensorflow_text"} & set(sys.modules))
"""


def planned_without_tensorflow(folder, *arguments):
    if not (folder / "start").exists():
        formats.write(checkpoint_cases.checkpoint(), folder / "start", "huggingface")
    paths = [f"--init_checkpoint={folder / 'start'}", f"--output_dir={folder / 'run'}"]
    command = [sys.executable, "-c", WITHOUT_TENSORFLOW, *arguments, *paths]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("loaded: set()\n")
    return done.stdout


def test_texts_are_planned_without_tensorflow(table):
    printed = planned_without_tensorflow(table.parent, "finetune", str(table))
    assert "train: 24 examples; cat 50.0%, dog 50.0%; all fit into 12 tokens." in printed
    assert "  runs        one with rows held out, then one on all rows" in printed
    windows = "--long_texts=windows", "--doc_stride=2", "--max_seq_length=6"
    printed = planned_without_tensorflow(table.parent, "finetune", str(table), *windows)
    assert "24 (100.0%) longer than 6 tokens (the longest: 9), read in 3 windows." in printed


def test_tags_and_questions_are_planned_without_tensorflow(tmp_path):
    tags, questions = tmp_path / "tags.jsonl", tmp_path / "questions.json"
    tags.write_text('{"words": ["the", "cat", "sat"], "labels": ["O", "B-PER", "O"]}\n' * 8)
    printed = planned_without_tensorflow(tmp_path, "finetune", str(tags), f"--eval_file={tags}")
    assert "train: 8 sentences; 24 words; 8 entities in IOB2: PER 100.0%; all fit into" in printed
    asked = {"id": "1", "question": "who", "answers": [{"text": "cat", "answer_start": 4}]}
    paragraphs = [{"context": "the cat sat on the mat", "qas": [asked]}]
    questions.write_text(json.dumps({"version": "1.1", "data": [{"title": "", "paragraphs": paragraphs}]}))
    sizes = "--max_seq_length=9", "--doc_stride=2", "--max_query_length=2"
    printed = planned_without_tensorflow(
        tmp_path, "squad", f"--train_file={questions}", f"--predict_file={questions}", *sizes
    )
    assert "train: 1 question about 1 text, 2 windows of 9 tokens, 1 of the questions need more than one." in printed


@pytest.mark.parametrize(
    ("given", "series", "runs", "sentence"),
    [
        ({"refit": False}, planning.ONE, [""], "one"),
        ({}, planning.REFIT, ["", "all_rows"], "one with rows held out, then one on all rows"),
        (
            {"folds": 3},
            planning.FOLDS,
            ["fold=1", "fold=2", "fold=3", "all_rows"],
            "3 (fold=1, fold=2, fold=3), then one on all rows",
        ),
        ({"num_seeds": 2, "refit": False}, planning.SWEEP, ["seed=12345", "seed=12346"], "2 (seed=12345, seed=12346)"),
    ],
)
def test_a_plan_has_all_runs(table, given, series, runs, sentence):
    plan = plan_of(table, **given)
    assert (plan.series, plan.lines()["runs"]) == (series, sentence)
    folders = [str(table.parent / "run" / name) if name else str(table.parent / "run") for name in runs]
    assert [(each.name, each.options.output_dir) for each in plan.runs] == list(zip(runs, folders, strict=True))
    assert [each.name for each in plan.runs if each.reads] == [name for name in runs[1:] if name[:4] != "seed"]


def test_runs_of_a_grid_keep_their_own_values(table):
    plan = plan_of(table, train_batch_size_grid="4,6", refit=False)
    assert [each.training.train_batch_size for each in plan.runs] == [4, 6]
    assert plan.lines()["rows"] == "at most 128 tokens, 4 rows or 6 rows per step"
    assert plan.lines()["training"].count(" or ") == 1
    assert {each.options.training.num_train_epochs for each in plan.runs} == {plan.options.training.num_train_epochs}
    assert plan.step.training.train_batch_size == 6


def test_a_plan_tells_how_the_head_is_fitted(table):
    plan = plan_of(table, task_name="few_shot", text_columns="text", label_column="kind", do_eval=False)
    assert "on pairs of 30 examples, then the head is fitted to their embeddings" in plan.lines()["training"]
    assert plan_of(table, start="frozen").lines()["training"] == "the head is fitted to the embeddings of 24 examples"


def test_scoring_answers_has_no_plan():
    flags = {"predictions_file": "a.json", "predict_file": "b.json", "dry_run": True}
    with pytest.raises(UserError, match="dry_run requires training"):
        finetune_squad.main(finetune_squad.Flags.of(flags))


def test_everything_chosen_has_a_reason(table):
    options = plan_of(table).options
    defaults = finetune.Flags().values()
    changed = {name for name, value in options.values().items() if value != defaults[name]}
    assert changed <= {*options.given, *options.reasons}


@pytest.mark.slow
def test_a_run_does_what_its_plan_said(table):
    given = {"num_train_epochs": 2.0, "refit": False}
    plan = plan_of(table, **given)
    values = {"train_file": str(table), "output_dir": str(table.parent / "run"), **CHOSEN, **given}
    finetune.main(finetune.Flags.of_program(values))
    run = json.loads((table.parent / "run" / "run.json").read_text())
    assert run["flags"] == plan.options.values()
    assert run["training"] == dataclasses.asdict(plan.runs[0].training)


def test_pre_training_has_a_plan_for_each_phase(tmp_path, capsys):
    text, run = tmp_path / "text.txt", tmp_path / "run"
    text.write_text("\n\n".join(f"The cat number {i} sat. It ate." for i in range(200)))
    pretrain.main(pretrain.Flags.of({"input_file": str(text), "output_dir": str(run), "dry_run": True}))
    printed = capsys.readouterr().out
    assert "  training    0.5 minutes; checkpoint and evaluation every " in printed
    assert "  --model_size=tiny " in printed and printed.count("Plan (nothing was written)") == 1
    given = {"input_file": str(text), "output_dir": str(run), "recipe": "lamb_large_batch", "recipe_scale": 0.001}
    pretrain.main(pretrain.Flags.of({**given, "dry_run": True}))
    assert capsys.readouterr().out.count("--recipe=lamb_large_batch") > 10
    phases = pretraining_plans.make(pretrain.Flags.of(given))
    assert [each.options.max_seq_length for each in phases] == [128, 512]
    assert not run.exists() and len(list(tmp_path.iterdir())) == 1


def test_a_plan_without_training(table):
    with pytest.raises(UserError, match="init_checkpoint"):
        plan_of(table, **{**TINY, "task_name": "table", "do_train": False})


def test_functions_return_finished_runs_only(table):
    for function, data in ((bert_tf.fine_tune, str(table)), (bert_tf.pretrain, str(table))):
        with pytest.raises(UserError, match="dry_run"):
            function(data, dry_run=True)
