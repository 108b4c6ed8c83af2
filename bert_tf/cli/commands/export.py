"""Exports a finished run from its checkpoint, as the run itself would have done, or a checkpoint with a head.

  bert-tf export runs/sst2
  bert-tf export runs/squad exports/squad
  bert-tf export hf://owner/name exports/sentiment                  any checkpoint with a head
  bert-tf export runs/sst2 exports/sst2 --precision=bfloat16      half the size; faster on CPUs with bfloat16, and GPUs

RUN is a run folder without an export: trained with --do_export=false, or the export was deleted. For several runs
(--num_seeds, grids) the best is exported. TO is by default the folder `export` in RUN. The training data is not needed.
For a checkpoint that is not a run, TO is needed.
TO is written completely or not at all, after its outputs have been compared with the model's.
"""

import argparse
import json
import os

from bert_tf.checkpoints import formats
from bert_tf.cli import shared_flags
from bert_tf.config import segments
from bert_tf.config.flag_groups import EXPORT_PRECISIONS
from bert_tf.errors import UserError, listed
from bert_tf.export import engine_network, loaded_model, opening, trained_model
from bert_tf.export.trained_model import TrainedModel
from bert_tf.recipes import recorded_run
from bert_tf.reports import model_card
from bert_tf.runtime import files, head_records


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="run folder, or a checkpoint with a head")
    parser.add_argument("target", metavar="TO", nargs="?", help="folder to write (RUN/export)")
    parser.add_argument(
        "--attention", action="store_true", help="add signatures that return attention weights and attributions"
    )
    parser.add_argument("--precision", choices=EXPORT_PRECISIONS, default="float32", help="of weights (float32)")
    parser.add_argument(
        "--engine",
        default=opening.AUTO,
        metavar="NAMES",
        help="add models for these engines, which run without TensorFlow, comma-separated: openvino, onnx, and with "
        "8-bit weights openvino_int8, onnx_int8; none; auto: the first installed one of openvino and onnx, if it can "
        "run the model",
    )
    shared_flags.add_num_texts(parser)
    shared_flags.add_segments(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace an existing export")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    shared_flags.add_trust(parser)


def run(arguments: argparse.Namespace) -> None:
    engine_names = opening.names_of(arguments.engine)
    folder = arguments.folder
    is_run = trained_model.is_run(folder) or not formats.is_checkpoint(folder)
    if is_run:
        trained_model.check_run(folder)
        segments.check_unused(folder)
    elif arguments.target is None:
        raise UserError(f"{folder} is a checkpoint, not a run: pass TO, the folder to write, too.")
    target = os.path.join(folder, "export") if arguments.target is None else arguments.target
    loaded_model.check_free(target, overwrite=arguments.overwrite)
    trained = _read(arguments)
    step, training = recorded_run.training_of(folder) if is_run else (0, "")
    texts = recorded_run.calibration_texts(folder) if is_run and opening.are_calibrated(engine_names) else ()
    files.make_folder(os.path.dirname(files.absolute(target)))
    trained_model.write_export(trained, target, arguments.precision, engine_names, texts)
    if is_run:
        model_card.write_of_run(folder, [target])
    else:
        model_card.write_of_conversion(formats.read(folder), folder, target, model_card.EXPORT)
    if arguments.json:
        print(json.dumps({"export": target, "task": trained.task.name, "step": step}))
        return
    how = f", {training}," if training else ""
    found = engine_network.available(target)
    engines = f" Verified against TensorFlow: {listed(found)}." if found else ""
    print(f"Exported {folder}{how} to {target}.{engines}")


def _read(arguments: argparse.Namespace) -> TrainedModel:
    """The model to export."""
    recorded = head_records.read_task(arguments.folder)
    if recorded.get("kind") and not recorded.get("host"):  # a tagger on frozen vectors
        return recorded_run.read(arguments.folder, with_attention=arguments.attention)
    return trained_model.read(arguments.folder, arguments.num_texts, with_attention=arguments.attention)
