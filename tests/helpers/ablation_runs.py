"""A small plan of ablations, and what its runs leave behind."""

import json

from bert_tf.extras.paper import ablation_plan, ablations


def plan_of(folder, *tables, task="SST-2 --data_dir=glue --num_train_epochs=1", steps="800", seeds=2):
    known = ablations.tables([(1, 64, 1), (2, 64, 2)])
    return ablation_plan.Plan(
        folder=str(folder),
        tables={name: known[name] for name in tables},
        input_file="texts",
        pretraining={"num_train_steps": steps, "vocab_size": "500"},
        fine_tuning={"learning_rate": "1e-4"},
        tasks=[ablation_plan.parse_task(task)],
        num_seeds=seeds,
    )


def flags(command):
    """{flag: value} of a command line."""
    return dict(part.removeprefix("--").split("=", 1) for part in command if part.startswith("--"))


def finish(folder, name, **files):
    (folder / name).mkdir(parents=True)
    for file, content in {"run": {"finished": "now"}, **files}.items():
        (folder / name / f"{file}.json").write_text(json.dumps(content))


def finish_all(plan, folder, **files):
    """What the runs of a plan leave behind when they end."""
    for name, command in ablation_plan.commands(plan):
        finish(folder, name, run={"finished": "now", "command": ["bert-tf", *command[3:]]}, **files)


def sweep_of(criterion, *scores, failed=0):
    """A sweep.json whose last combination is the best: (mean, deviation) of each."""
    combinations = [
        {"scores": {criterion: {"mean": mean, "sd": sd}}, "collapsed": 0, "failed": failed} for mean, sd in scores
    ]
    return {"criterion": criterion, "combinations": combinations, "best_combination": len(scores) - 1}
