"""The plan of ablations: its runs, their flags, and what is refused before any starts."""

import dataclasses
import json

import pytest
from ablation_runs import flags, plan_of

from bert_tf.cli.main import main
from bert_tf.errors import UserError
from bert_tf.extras.paper import ablation_plan


def test_shared_pretraining_runs_once_before_its_dependents(tmp_path):
    runs = dict(ablation_plan.commands(plan_of(tmp_path, "objectives", "masking", "encoders")))
    pretrained = [name for name in runs if name.startswith("pretraining/")]
    ltr = "pretraining/keep_pairs_true_left_to_right_true_next_sentence_weight_0"
    assert pretrained[:3] == ["pretraining/bert", "pretraining/keep_pairs_true_next_sentence_weight_0", ltr]
    assert len(pretrained) == 3 + 5 + 1 and len(runs) == len(pretrained) + 4 + 5 + 2
    names = list(runs)
    for name, command in runs.items():
        if name.startswith("tasks/"):
            start = flags(command)["init_checkpoint"].removeprefix(f"{tmp_path}/")
            assert names.index(start) < names.index(name)
    assert flags(runs[ltr])["vocab_file"] == f"{tmp_path}/pretraining/bert/vocab.txt"
    assert flags(runs["pretraining/masking_mix_0_20_80"])["masking_mix"] == "0/20/80"


def test_task_combines_own_common_and_variant_flags(tmp_path):
    runs = dict(ablation_plan.commands(plan_of(tmp_path, "objectives")))
    name = "tasks/keep_pairs_true_left_to_right_true_next_sentence_weight_0__encoder_bilstm_on_top/sst_2"
    assert runs[name][1:3] == ["-m", "bert_tf"] and runs[name][3] == "finetune"
    assert flags(runs[name]) == {
        "num_seeds": "2",
        "do_export": "false",
        "learning_rate": "1e-4",
        "task_name": "SST-2",
        "data_dir": "glue",
        "num_train_epochs": "1",
        "encoder": "bilstm_on_top",
        "init_checkpoint": f"{tmp_path}/pretraining/keep_pairs_true_left_to_right_true_next_sentence_weight_0",
        "output_dir": f"{tmp_path}/{name}",
    }
    squad = dict(ablation_plan.commands(plan_of(tmp_path, "masking", task="squad --train_file=a.json")))
    command = squad["tasks/bert/squad"]
    assert command[3] == "squad" and "task_name" not in flags(command)


def test_tasks_of_the_same_name_have_separate_folders(tmp_path, capsys):
    tasks = [
        f"--task={kind} --train_file={name}.csv" for kind, name in zip(("table", "table", "Table"), "abc", strict=True)
    ]
    arguments = ["ablate", str(tmp_path / "a"), "--input_file=texts", "--tables=masking", "--dry_run", "--json", *tasks]
    assert main(arguments) in (None, 0)
    runs = {name: command for name, command in json.loads(capsys.readouterr().out).items() if "/bert/" in name}
    files = {name: flags(command)["train_file"] for name, command in runs.items()}
    assert files == {"tasks/bert/table": "a.csv", "tasks/bert/table_2": "b.csv", "tasks/bert/table_3": "c.csv"}


def test_intermediate_weights_come_from_kept_checkpoints(tmp_path):
    runs = dict(ablation_plan.commands(plan_of(tmp_path, "steps")))
    pretraining_flags = flags(runs["pretraining/bert"])
    assert (pretraining_flags["save_checkpoints_steps"], pretraining_flags["keep_checkpoint_max"]) == ("100", "0")
    start = flags(runs["tasks/bert__share_0_25/sst_2"])["init_checkpoint"]
    assert start == f"{tmp_path}/pretraining/bert/checkpoints/ckpt-200"
    for wrong, words in (("801", "a multiple of 8"), ("many", "num_train_steps=NUMBER")):
        with pytest.raises(UserError, match=words):
            ablation_plan.commands(plan_of(tmp_path, "steps", steps=wrong))


def test_other_model_sizes_have_their_own_config(tmp_path):
    plan = plan_of(tmp_path, "sizes")
    ablation_plan.write_models(plan)
    path = flags(dict(ablation_plan.commands(plan))["pretraining/model_1_64_1"])["bert_config_file"]
    with open(path, encoding="utf-8") as file:
        written = json.load(file)
    assert (written["num_hidden_layers"], written["hidden_size"], written["vocab_size"]) == (1, 64, 500)


def test_conflicting_flags_are_refused(tmp_path):
    masking, tasks = plan_of(tmp_path, "masking"), plan_of(tmp_path, "encoders")
    with pytest.raises(UserError, match="--pretraining has --masking_mix, which is set for each run: remove it"):
        dataclasses.replace(masking, pretraining={"masking_mix": "100/0/0"})
    with pytest.raises(UserError, match="--fine_tuning has --encoder, which is set"):
        dataclasses.replace(tasks, fine_tuning={"encoder": "static"})
    task = ablation_plan.parse_task("SST-2 --init_checkpoint=mine")
    with pytest.raises(UserError, match="--task SST-2 has --init_checkpoint, which is set"):
        dataclasses.replace(masking, tasks=[task])
    assert dataclasses.replace(tasks, pretraining={"masking_mix": "100/0/0"})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tables=sizzes"], "no table 'sizzes'. Known: objectives, sizes"),
        (["--sizes=2/128"], "--sizes has '2/128'"),
        (["--num_seeds=0"], "--num_seeds is 0"),
        (["--jobs=0"], "--jobs is 0; expected 1 or more"),
        (["--tables=,"], "--tables names no table. Known: objectives, sizes"),
        (["--sizes=2/100/3"], "--sizes has '2/100/3'; expected positive numbers, and a width divisible by the heads"),
        (["--pretraining=num_train_steps=3"], "--pretraining has 'num_train_steps=3'"),
        (['--pretraining=--a="b'], "--pretraining is '--a=\"b', which cannot be parsed: No closing quotation."),
        (["--tables=sizes", "--pretraining=--vocab_size=many"], "--pretraining has --vocab_size=many; expected"),
    ],
)
def test_user_error_is_one_line(tmp_path, capsys, arguments, words):
    assert main(["ablate", str(tmp_path / "a"), "--input_file=texts", "--task=SST-2", *arguments]) == 2
    assert words in capsys.readouterr().err and not (tmp_path / "a").exists()
