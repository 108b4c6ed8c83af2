"""`bert-tf pretrain`, `finetune` and `squad`: the scripts' flags, help, exit codes and run folders."""

import json
import re
import subprocess
import sys

import pytest
import warm
from script_runs import ROOT

from bert_tf.recipes.finetuning import table_choice

SCRIPTS = {"pretrain": "run_pretraining.py", "finetune": "run_classifier.py", "squad": "run_squad.py"}
TEXTS = "The fox ran over the hill.\n\nIt saw a fox.\n\nThe hill was steep and the fox was slow.\n\n" * 9


def process(*command):
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_lists_the_scripts_flags_without_tensorflow(name):
    command, script = process("-X", "importtime", "-m", "bert_tf", name, "--help"), process(SCRIPTS[name], "--help")
    flags, expected = (done.stdout.partition("\nFlags used most:\n")[2] for done in (command, script))
    assert (command.returncode, script.returncode) == (0, 0)
    assert flags == expected and len(re.findall(r"^  --", flags, re.M)) > 30
    assert command.stdout.splitlines()[2] == f"  bert-tf {name}"
    assert not re.search(r"\| +(tensorflow|keras)$", command.stderr, re.M)
    assert f"\nusage: bert-tf {name} [" in command.stdout
    if name == "finetune":
        shown = re.sub(r"\s+", " ", flags)
        assert re.findall(r"--(\w+)=", shown)[:4] == ["train_file", "text_columns", "label_column", "init_checkpoint"]
        assert f"Default: from scratch. (with only TRAIN_FILE: {table_choice.START})" in shown
        assert "(default: runs/classifier; with only TRAIN_FILE: runs/NAME of the table)" in shown
        assert "(default: 3.0; with only TRAIN_FILE: chosen from the table)" in shown


def test_run_records_its_command_and_the_same_command_resumes_it(tmp_path):
    (tmp_path / "texts.txt").write_text(TEXTS)
    typed = ["pretrain", f"--input_file={tmp_path}/texts.txt", f"--output_dir={tmp_path}/run", "--vocab_size=60"]
    typed += ["--prepare_only"]
    for _ in range(2):
        done = warm.run("-m", "bert_tf", *typed)
        assert done.returncode == 0, done.stderr
        assert json.loads((tmp_path / "run" / "run.json").read_text())["command"] == ["bert-tf", *typed]
    done = warm.run("-m", "bert_tf", *typed[:3], "--vocab_size=61")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert re.match(
        r"bert-tf: .*run contains a run with a different configuration \(vocab_size: 60 there, 61 now\)", done.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["squad", "--doc_strid=3"], "There is no flag --doc_strid. Did you mean --doc_stride"),
        (["finetune", "--max_windows=few"], "--max_windows=few: expected a whole number"),
        (["squad", "glue"], "'glue' is not a flag"),
        (["finetune", "README.md"], "Cannot read README.md as a table"),
        (["finetune", "glue"], "There is no file or folder glue: pass a table."),
        (["finetune", "a.csv", "b.csv"], "Only one TRAIN_FILE is expected: remove 'b.csv'. Try --help."),
        (["finetune", "--train_file=a.csv", "b.csv"], "Only one TRAIN_FILE is expected: remove 'b.csv'."),
        (
            ["finetune", "a.csv", "--do_train", "false"],
            "'false' is not a flag: flags begin with --, as in --name=value",
        ),
    ],
)
def test_invalid_flag_is_one_line_with_exit_code_2(arguments, expected):
    done = process("-m", "bert_tf", *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"bert-tf: {expected}")
