"""Runs the paper's ablations on your own text and tasks, and writes the tables beside the paper's figures.

  bert-tf ablate runs/ablation --input_file=my_texts --task "SST-2 --data_dir=glue" --tables=objectives,masking
  bert-tf ablate runs/ablation --input_file=my_texts --task "squad --train_file=train.json --predict_file=dev.json"

Every model is pre-trained once with run_pretraining.py and fine-tuned on every task with several seeds, each in a
folder of its own in OUTPUT. Interrupted, the same command goes on. With --jobs several runs go on at once: small models
leave most of many cores idle. In the end OUTPUT has ablation.json, ablation.md and ablation.png. Flags of the scripts
go into --pretraining and --fine_tuning, for all runs, and behind the name of a task.

Tables: objectives (table 5 of the paper), sizes (table 6), masking (table 8), steps (figure 5), encoders (static
embeddings, ELMo-like, GPT-like, BERT).
"""

import json

from bert_tf.errors import UserError

SIZES = "1/64/1,2/128/1,2/128/2,4/128/2,4/256/4"
TABLES = "objectives,sizes,masking,steps,encoders"


def add_arguments(parser):
    parser.add_argument("folder", metavar="OUTPUT", help="folder of all runs and tables")
    parser.add_argument("--input_file", required=True, help="text to pre-train on, as of run_pretraining.py")
    parser.add_argument(
        "--task",
        action="append",
        required=True,
        metavar="TASK",
        help='name of a task of run_classifier.py, or "squad", and its own flags; once for each task',
    )
    parser.add_argument("--tables", default=TABLES, help=f"which tables, with commas (all: {TABLES})")
    parser.add_argument("--sizes", default=SIZES, help=f"layers/width/heads of the table of sizes ({SIZES})")
    parser.add_argument("--pretraining", default="", metavar="FLAGS", help="flags of every run of run_pretraining.py")
    parser.add_argument("--fine_tuning", default="", metavar="FLAGS", help="flags of every run on a task")
    parser.add_argument("--num_seeds", type=int, default=2, help="runs on a task (2)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once, each on its share of the cores (1)")
    parser.add_argument("--dry_run", action="store_true", help="only say what would be run")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output: ablation.json's")


def run(arguments):
    from bert_tf.recipes.ablation import ablation, ablation_plan, ablations

    known = ablations.tables([_shape(size) for size in arguments.sizes.split(",")])
    wanted = [name.strip() for name in arguments.tables.split(",") if name.strip()]
    if not wanted:
        raise UserError(f"--tables names no table. Known: {', '.join(known)}.")
    for name in wanted:
        if name not in known:
            raise UserError(f"There is no table {name!r}. Known: {', '.join(known)}.")
    for flag in ("num_seeds", "jobs"):
        if getattr(arguments, flag) < 1:
            raise UserError(f"--{flag} is {getattr(arguments, flag)}; expected 1 or more.")
    tasks = []
    for text in arguments.task:
        tasks.append(ablation_plan.AskedTask.of(text, tasks))
    plan = ablation_plan.Plan(
        folder=arguments.folder,
        tables={name: known[name] for name in wanted},
        input_file=arguments.input_file,
        pretraining=ablation_plan.flags_of(arguments.pretraining, "--pretraining"),
        fine_tuning=ablation_plan.flags_of(arguments.fine_tuning, "--fine_tuning"),
        tasks=tasks,
        num_seeds=arguments.num_seeds,
    )
    if arguments.dry_run and arguments.json:
        print(json.dumps(dict(ablation_plan.commands(plan)), ensure_ascii=False))
        return
    if arguments.dry_run:
        for name, command in ablation_plan.commands(plan):
            print(name, " ".join(command), sep=": ")
        return
    ablation.run(plan, arguments.jobs)
    told = ablation.conclude(plan)
    print(json.dumps(ablation.results(plan), ensure_ascii=False) if arguments.json else told)


def _shape(text):
    try:
        layers, width, heads = (int(part) for part in text.split("/"))
    except ValueError:
        raise UserError(f"--sizes has {text!r}; expected layers/width/heads such as 2/128/2.") from None
    if min(layers, width, heads) < 1 or width % heads:
        raise UserError(f"--sizes has {text!r}; expected numbers above 0, and a width that the heads can share.")
    return layers, width, heads
