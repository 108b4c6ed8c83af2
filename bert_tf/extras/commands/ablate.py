"""Runs the ablations of the BERT paper on your own text and tasks, and writes tables next to the published figures.

  bert-tf ablate runs/ablation --input_file=my_texts --task "SST-2 --data_dir=glue" --tables=objectives,masking
  bert-tf ablate runs/ablation --input_file=my_texts --task "squad --train_file=train.json --predict_file=dev.json"

Each model is pre-trained once (`bert-tf pretrain`) and fine-tuned on each task with several seeds (`bert-tf finetune`,
`bert-tf squad`), every run in its own folder under OUTPUT. Run the same command again to resume after an interruption.
--jobs runs several at once: small models leave many cores idle. The results are ablation.json, ablation.md and
ablation.png in OUTPUT. --pretraining and --fine_tuning take flags for all runs; flags after a task's name apply to it.

Tables: objectives (table 5 of the paper), sizes (table 6), masking (table 8), steps (figure 5), encoders (static
embeddings, ELMo-like, GPT-like, BERT).
"""

import argparse
import json

from bert_tf.config.flag_parsers import comma_separated
from bert_tf.errors import UserError
from bert_tf.extras.paper import ablation, ablation_plan, ablations

SIZES = "1/64/1,2/128/1,2/128/2,4/128/2,4/256/4"
TABLES = "objectives,sizes,masking,steps,encoders"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="OUTPUT", help="folder for all runs and tables")
    parser.add_argument("--input_file", required=True, help="text to pre-train on, as for bert-tf pretrain")
    parser.add_argument(
        "--task",
        action="append",
        required=True,
        metavar="TASK",
        help='task name as for bert-tf finetune, or "squad", followed by its flags; may be repeated',
    )
    parser.add_argument("--tables", default=TABLES, help=f"comma-separated tables to produce (all: {TABLES})")
    parser.add_argument("--sizes", default=SIZES, help=f"layers/width/heads for the table of sizes ({SIZES})")
    parser.add_argument("--pretraining", default="", metavar="FLAGS", help="flags for every pre-training run")
    parser.add_argument("--fine_tuning", default="", metavar="FLAGS", help="flags for every fine-tuning run")
    parser.add_argument("--num_seeds", type=int, default=2, help="fine-tuning runs per model and task (2)")
    parser.add_argument("--jobs", type=int, default=1, help="concurrent runs, each on its share of the cores (1)")
    parser.add_argument("--dry_run", action="store_true", help="only print the commands")
    parser.add_argument("--json", action="store_true", help="print the contents of ablation.json")


def run(arguments: argparse.Namespace) -> None:
    known = ablations.tables([_shape(size) for size in arguments.sizes.split(",")])
    names = comma_separated(arguments.tables)
    if not names:
        raise UserError(f"--tables names no table. Known: {', '.join(known)}.")
    for name in names:
        if name not in known:
            raise UserError(f"There is no table {name!r}. Known: {', '.join(known)}.")
    for flag in ("num_seeds", "jobs"):
        if getattr(arguments, flag) < 1:
            raise UserError(f"--{flag} is {getattr(arguments, flag)}; expected 1 or more.")
    tasks: list[ablation_plan.AblationTask] = []
    for text in arguments.task:
        tasks.append(ablation_plan.parse_task(text, tasks))
    plan = ablation_plan.Plan(
        folder=arguments.folder,
        tables={name: known[name] for name in names},
        input_file=arguments.input_file,
        pretraining=ablation_plan.parse_flags(arguments.pretraining, "--pretraining"),
        fine_tuning=ablation_plan.parse_flags(arguments.fine_tuning, "--fine_tuning"),
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
    summary = ablation.write_results(plan)
    print(json.dumps(ablation.results(plan), ensure_ascii=False) if arguments.json else summary)


def _shape(text: str) -> tuple[int, int, int]:
    try:
        layers, width, heads = (int(part) for part in text.split("/"))
    except ValueError:
        raise UserError(f"--sizes has {text!r}; expected layers/width/heads such as 2/128/2.") from None
    if min(layers, width, heads) < 1 or width % heads:
        raise UserError(f"--sizes has {text!r}; expected positive numbers, and a width divisible by the heads.")
    return layers, width, heads
