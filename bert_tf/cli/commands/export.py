"""Writes the export of a run that has none, from its checkpoint: the one that its script would have written.

  bert-tf export runs/sst2
  bert-tf export runs/squad exports/squad
  bert-tf export runs/sst2 exports/sst2 --precision=bfloat16      half the size; faster on a CPU that has bfloat16

RUN is the folder of a run of any of the scripts that was trained with --do_export=false, or whose export was deleted;
of several runs (--num_seeds, grids) it exports the best. TO is by default the folder `export` in RUN. The data of the
task are not needed. TO appears whole or not at all, once it has answered some sentences as the model does.
"""

import json
import os

from bert_tf.errors import UserError
from bert_tf.recipes.finetuning import finished_run


def add_arguments(parser):
    parser.add_argument("folder", metavar="RUN", help="folder of a run")
    parser.add_argument("target", metavar="TO", nargs="?", help="folder to write (export in RUN)")
    parser.add_argument("--attention", action="store_true", help="it also says which token looks where")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32", help="of weights (float32)")
    parser.add_argument("--overwrite", action="store_true", help="replace an export that is there")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")


def run(arguments):
    target = os.path.join(arguments.folder, "export") if arguments.target is None else arguments.target
    finished_run.expect_run(arguments.folder)
    finished_run.expect_place(target, overwrite=arguments.overwrite)
    parent = os.path.dirname(os.path.abspath(target))
    if not os.path.isdir(parent):
        raise UserError(f"{target} cannot be written: there is no folder {parent}.")
    from bert_tf.recipes import finetune, finetune_squad, pretrain

    scripts = {"pretraining": pretrain, "classifier": finetune, "squad": finetune_squad}
    kinds = {name: script.Flags for name, script in scripts.items()}
    found = finished_run.read(arguments.folder, kinds, with_attention=arguments.attention)
    finished_run.write_export(found, target, arguments.precision)
    if arguments.json:
        print(json.dumps({"export": target, "task": found.task.name, "step": found.step}))
        return
    at = f" of step {found.step:,}" if found.step else ""
    print(f"{target} is the export of {found.task.name}, from the checkpoint{at}.")
