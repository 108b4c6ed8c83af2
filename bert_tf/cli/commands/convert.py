"""Rewrites a checkpoint in another format, or for another engine, with its configuration and vocabulary.

  bert-tf convert uncased_L-12_H-768_A-12 bert-base --format=huggingface
  bert-tf convert runs/pretraining my-bert --format=google_tf
  bert-tf convert runs/sst2 sst2-openvino --format=openvino --quantize=int8
  bert-tf convert uncased_L-12_H-768_A-12 with-my-words --format=native --new_vocab_file=longer.txt

FROM is a folder, also of a run or an export, the prefix of a TF1 checkpoint, hf://owner/name or the name of a KerasHub
preset; its format is found out. TO is a new folder, which appears whole or not at all. GELU, LayerNorm epsilon and
casing are translated. For an engine TO holds a function of ids, which was compared with the model: docs/serving.md.
With --new_vocab_file pieces that both vocabularies have keep their vectors; a new one begins as the mean of the pieces
that it was cut into, to be trained further (run_pretraining.py --init_checkpoint=TO). With --max_position_embeddings
the model reads longer rows: what is known of positions begins again behind the last, to be trained further too.
"""

import dataclasses
import itertools
import json

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.resize_positions import with_positions
from bert_tf.checkpoints.resize_vocabulary import with_vocabulary
from bert_tf.errors import UserError
from bert_tf.export import engines
from bert_tf.runtime import open_set
from bert_tf.runtime.atomic_files import expect_free
from bert_tf.text import vocabulary

CALIBRATION_LINES = 300  # more do not change what is found
CHANGES = ("new_vocab_file", "max_position_embeddings")  # after them a model is to be trained further


def add_arguments(parser):
    parser.add_argument("source", metavar="FROM", help="checkpoint to read")
    parser.add_argument("target", metavar="TO", help="folder to write")
    names = open_set.Choices(formats.writable_names() + engines.names())
    parser.add_argument("--format", required=True, choices=names, help="format of TO, or a module that has one")
    parser.add_argument("--source_format", metavar="FORMAT", help="format of FROM, by default recognized by its files")
    parser.add_argument("--quantize", choices=engines.QUANTIZED, help="fewer bits, for an engine")
    parser.add_argument(
        "--calibration_file", help="texts, one a line, to compare on, and to calibrate OpenVINO's int8 with"
    )
    parser.add_argument("--vocab_file", help="vocab.txt of a checkpoint that has none beside it")
    parser.add_argument("--new_vocab_file", help="vocab.txt that TO is to have instead, longer or shorter")
    parser.add_argument("--max_position_embeddings", type=int, help="positions that TO is to have, more or fewer")
    parser.add_argument(
        "--do_lower_case", choices=("true", "false"), help="casing of a checkpoint that does not say it"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")


def run(arguments):
    expect_free(arguments.target)
    if engines.is_engine(arguments.format):
        for flag in CHANGES:
            if getattr(arguments, flag) is not None:
                raise UserError(f"--{flag} goes with a format of checkpoints: convert twice, and train in between.")
        for_engine(arguments)
        return
    for flag in ("quantize", "calibration_file"):
        if getattr(arguments, flag):
            raise UserError(f"--{flag} goes with an engine: give --format={' or '.join(engines.names())}.")
    checkpoint = completed(formats.read(arguments.source, arguments.source_format), arguments)
    from bert_tf.checkpoints import pretrained
    from bert_tf.model import weights

    report = weights.compared(pretrained.model_of(checkpoint), checkpoint.weights)
    weights.expect_same_shapes(report)
    told = [f"{arguments.source}: {report}"]
    if arguments.new_vocab_file:
        checkpoint, change = with_vocabulary(checkpoint, vocabulary.read(arguments.new_vocab_file))
        told.append(str(change))
    if arguments.max_position_embeddings is not None:
        before = checkpoint.config.max_position_embeddings
        checkpoint = with_positions(checkpoint, arguments.max_position_embeddings)
        told.append(f"{arguments.max_position_embeddings} positions instead of {before}.")
    if not arguments.json:
        print(*told, sep="\n", flush=True)
    left_out = formats.write(checkpoint, arguments.target, arguments.format)
    if arguments.json:
        print(json.dumps(as_json(arguments, checkpoint, report, left_out), ensure_ascii=False))
    else:
        print(*sentences(arguments, checkpoint, left_out), sep="\n")


def for_engine(arguments):
    """Writes the checkpoint for an engine and tells how it does there."""
    texts = () if arguments.calibration_file is None else texts_of(arguments.calibration_file)
    engines.engine_of(arguments.format, arguments.quantize)  # before anything is read
    checkpoint = completed(formats.read(arguments.source, arguments.source_format), arguments)
    written = engines.write(checkpoint, arguments.target, arguments.format, quantize=arguments.quantize, texts=texts)
    if arguments.json:
        told = {"source": arguments.source, "target": arguments.target, "format": arguments.format}
        print(json.dumps({**told, **dataclasses.asdict(written)}))
        return
    print(f"{arguments.source}: {written.report}", *engines.table([written]), sep="\n")
    print(f"Wrote {arguments.target} for {arguments.format}.", *notes(arguments, checkpoint), sep="\n")


def texts_of(path):
    """The first lines of a file that hold something; UserError where there are none."""
    try:
        with open(path, encoding="utf-8") as file:
            texts = [line.strip() for line in itertools.islice(file, CALIBRATION_LINES) if line.strip()]
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text: give texts, one a line.") from None
    if not texts:
        raise UserError(f"{path} holds no text: give texts, one a line.")
    return texts


def as_json(arguments, checkpoint, report, left_out):
    """What was converted, and what became of every weight, for programs."""
    told = {"source": arguments.source, "target": arguments.target, "format": arguments.format}
    known = {"lower_case": checkpoint.lower_case, "labels": checkpoint.labels, "kind": checkpoint.kind}
    pieces = None if checkpoint.vocabulary is None else len(checkpoint.vocabulary)
    became = {name: getattr(report, name) for name in ("loaded", "newly_initialized", "unused", "shape_mismatch")}
    return {**told, "pieces": pieces, **known, **became, "left_out": list(left_out)}


def sentences(arguments, checkpoint, left_out):
    """The same for people."""
    for name in left_out:
        yield f"  left out {name}, which has no place in the format {arguments.format}"
    yield f"Wrote {len(checkpoint.weights) - len(left_out)} weights to {arguments.target} as {arguments.format}."
    yield from notes(arguments, checkpoint, has_head="classifier/bias" not in left_out)


def notes(arguments, checkpoint, *, has_head=True):
    """What else is to be known of what was written."""
    if checkpoint.labels and has_head:
        yield f"Its labels: {', '.join(checkpoint.labels)}."
    if checkpoint.vocabulary is None:
        yield f"Without a vocabulary, as {arguments.source} has none: --vocab_file gives it."
    if checkpoint.lower_case is None:
        yield f"Without a word on casing, as {arguments.source} says none: --do_lower_case says it."


def completed(checkpoint, arguments):
    """The checkpoint with the vocabulary and casing that were given; UserError where they contradict it."""
    if arguments.vocab_file:
        checkpoint = dataclasses.replace(checkpoint, vocabulary=vocabulary.read(arguments.vocab_file))
    if arguments.do_lower_case:
        lower_case = arguments.do_lower_case == "true"
        if checkpoint.lower_case not in (None, lower_case):
            raise UserError(
                f"--do_lower_case={arguments.do_lower_case} was given, but {arguments.source} is "
                f"{'un' * checkpoint.lower_case}cased: leave the flag out."
            )
        checkpoint = dataclasses.replace(checkpoint, lower_case=lower_case)
    pieces, expected = checkpoint.vocabulary, checkpoint.config.vocab_size
    if pieces is not None and len(pieces) != expected:
        raise UserError(
            f"The vocabulary of {arguments.source} has {len(pieces)} pieces where its model expects {expected}: "
            "give the vocab.txt that belongs to it as --vocab_file."
        )
    return checkpoint
