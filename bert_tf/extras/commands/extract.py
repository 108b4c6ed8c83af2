"""Extracts embeddings of tokens, words or whole texts from a model, or exports a model that returns them.

  bert-tf extract bert-base --file texts.txt --output vectors.jsonl --layers=-1,-2,-3,-4
  bert-tf extract bert-base --file texts.txt --output vectors.npz --unit=sentence --pooling=mean --normalize
  bert-tf extract bert-base --input='texts/*.txt' --output='vectors/*.npz' --unit=sentence --runner=DaskRunner
  bert-tf extract bert-base --export exported --layers=second_to_last

MODEL is a checkpoint in any format or a run folder. FILE is .txt (one text per line, pairs as "one ||| another"); .tsv,
.csv or .jsonl with a column text; or - for standard input, one text per line. Files may be of any length.

--layers takes comma-separated numbers, 0 for the first layer and -1 for the last, or one of: embeddings, last,
second_to_last, sum_last_four, concat_last_four, all. Texts longer than max_seq_length are read in overlapping windows,
and each token takes its embedding from the window with the most context on both sides; --long_texts=cut truncates.

With --unit=sentence and --export, what a folder of sentence-transformers says of its vectors applies unless a flag says
otherwise: pooling and what follows it, length (longer texts are truncated), default prompt, size. The default for other
models is the mean of the tokens.
"""

import argparse
import dataclasses
import functools
import itertools
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.cli import shared_flags
from bert_tf.cli.text_progress import report_texts
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.config.sentence_vectors import NORMALIZE
from bert_tf.data.examples import Example
from bert_tf.errors import UserError, count_text
from bert_tf.export import opening, prediction_inputs
from bert_tf.export.batches import BatchFunction, predict_in_order
from bert_tf.export.opening import AUTO, TENSORFLOW
from bert_tf.export.predictor import Predictor
from bert_tf.extras.beam import bulk_files
from bert_tf.extras.features import extract_flags, feature_files
from bert_tf.heads.vectors.text_vectors import Shape
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.runtime import json_files, process
from bert_tf.text.tokenizer import tokenizer_of
from bert_tf.training import precision

WINDOW = 4096  # texts per window, sorted by length before batching
WINDOW_BYTES = 256 << 20  # maximum memory for their embeddings


add_arguments = extract_flags.add_arguments


def run(arguments: argparse.Namespace) -> None:
    shared_flags.set_up(arguments)
    if arguments.input is not None:
        first = bulk_files.first_of(arguments)
        extract_flags.check_combinations(first)
        feature_files.format_of(first.output, arguments.format)
        bulk_files.run("extract", arguments, source=arguments.source)
        return
    extract_flags.check(arguments)
    predictor, checkpoint, choice = _source(arguments)
    if arguments.export is not None:
        choice = dataclasses.replace(choice, unit="sentence")
        choice.width(checkpoint.config.hidden_size)  # raises if the layer sizes do not fit
        export(arguments, checkpoint, choice)
        return
    single = [Example("0", (arguments.text,), None, "the flags")]
    examples = iter(single) if arguments.file is None else _from_file(arguments)
    examples = itertools.chain([next(examples)], examples)  # report errors in the file before building the model
    write(arguments, checkpoint, choice, examples, predictor)


def _engine(arguments: argparse.Namespace) -> Predictor | None:
    """The export on the engine from the flags; None for TensorFlow, which some flags require."""
    others = dict.fromkeys(
        ("layer_weights", "vocab_file", "do_lower_case", "special_tokens_in_strings", "segments"), ("", None)
    )
    usual = {"layers": ("last", "-1"), "precision": ("float32",), "export": (None,), **others}
    given = [name for name, values in usual.items() if getattr(arguments, name) not in values]
    if arguments.engine in (AUTO, TENSORFLOW) and (given or arguments.jit_compile == "true"):
        return None
    if given:
        raise UserError(f"{given[0]} requires engine={TENSORFLOW}: leave one of the two out.")
    predictor = opening.load_for_vectors(arguments.source, arguments.engine)
    if predictor:
        shared_flags.say_engine(arguments, predictor.engine)
    return predictor


def _source(arguments: argparse.Namespace) -> tuple[Predictor | None, Checkpoint, VectorChoice]:
    """The engine, the checkpoint (for an engine only its embedding settings) and the vectors from the flags."""
    predictor = _engine(arguments)
    if predictor:
        folder = predictor.folder
        config, vectors = opening.encoder_of(folder)
        checkpoint = Checkpoint(config=config, sentence_vectors=vectors)
    else:
        checkpoint = shared_flags.complete_checkpoint(formats.read(arguments.source), arguments)
    return predictor, checkpoint, extract_flags.choose(arguments, checkpoint)


def answer_file(arguments: argparse.Namespace) -> None:
    """Writes the embeddings of one file of --input."""
    process.assume_frozen_weights()
    settings = {name: value for name, value in vars(arguments).items() if name not in ("file", "output")}
    checkpoint, choice, extractor = _ready(json.dumps(settings))
    shape = _shape(arguments, checkpoint, choice)
    with feature_files.writer(arguments.output, shape, arguments.format, shared=True) as add:
        for number, vectors, identifier in _vectors(arguments, choice, shape, extractor, _from_file(arguments)):
            add(number, vectors, identifier)


@functools.lru_cache(maxsize=1)
def _ready(settings: str) -> tuple[Checkpoint, VectorChoice, BatchFunction]:
    """The model from the flags, kept for the next file of this process."""
    arguments = argparse.Namespace(**json_files.parse(settings))
    predictor, checkpoint, choice = _source(arguments)
    return checkpoint, choice, _extractor(arguments, checkpoint, choice, predictor)


def _from_file(arguments: argparse.Namespace) -> Iterator[Example]:
    columns = comma_separated(arguments.text_columns)
    inputs = dict.fromkeys(("text_a", "text_b") if len(columns) == 2 else ("text",))
    return prediction_inputs.read(arguments.file, inputs, columns=columns, id_column=arguments.id_column)


def write(
    arguments: argparse.Namespace,
    checkpoint: Checkpoint,
    choice: VectorChoice,
    examples: Iterator[Example],
    predictor: Predictor | None = None,
) -> None:
    """Writes the embeddings of the texts, in order."""
    shape = _shape(arguments, checkpoint, choice)
    rows = _vectors(arguments, choice, shape, _extractor(arguments, checkpoint, choice, predictor), examples)
    if arguments.output is None:
        for number, vectors, identifier in rows:
            sys.stdout.write(feature_files.json_line(number, vectors, shape, identifier))
        return
    start, count, number = time.monotonic(), 0, -1
    with feature_files.writer(arguments.output, shape, arguments.format) as add:
        reported = report_texts(rows, name="extracting", file=arguments.file, output=arguments.output)
        for number, vectors, identifier in reported:
            add(number, vectors, identifier)
            count += vectors.vectors[..., 0].size
    seconds = time.monotonic() - start
    print(
        f"{count_text(number + 1, 'text')}, {count_text(count, 'vector')} of size {shape.width:,}, "
        f"{(number + 1) / seconds:,.0f} texts/s: {arguments.output}"
    )


def _shape(arguments: argparse.Namespace, checkpoint: Checkpoint, choice: VectorChoice) -> Shape:
    return Shape(
        unit=choice.unit,
        layers=choice.layers.names,
        width=choice.width(checkpoint.config.hidden_size),
        has_ids=arguments.id_column is not None,
    )


def _vectors(
    arguments: argparse.Namespace,
    choice: VectorChoice,
    shape: Shape,
    extractor: BatchFunction,
    examples: Iterator[Example],
) -> Iterator[tuple[int, Any, str]]:
    """Yields (number, embeddings, id) for each text, in order."""
    window, batch_size = _sizes(arguments, choice, shape)
    outputs = predict_in_order(extractor, examples, batch_size=batch_size, window=window)
    return ((number, values["vectors"], example.id) for number, (example, values) in enumerate(outputs))


def _sizes(arguments: argparse.Namespace, choice: VectorChoice, shape: Shape) -> tuple[int, int]:
    """(texts to read at once, texts per batch): few if each text has many large vectors."""
    limit = max(1, WINDOW_BYTES // (4 * choice.max_seq_length * len(shape.layers) * shape.width))
    if arguments.file == prediction_inputs.STANDARD_INPUT and sys.stdin.isatty():  # typed by a person
        return 1, 1
    return WINDOW if choice.unit == "sentence" else min(WINDOW, limit), min(arguments.batch_size, limit)


def _extractor(
    arguments: argparse.Namespace, checkpoint: Checkpoint, choice: VectorChoice, predictor: Predictor | None
) -> BatchFunction:
    if predictor:
        return predictor.extractor(choice, splits_pairs=True)
    from bert_tf.export import checkpoint_predictor

    model, _ = _model_and_tokenizer(arguments, checkpoint, choice)
    loaded = dataclasses.replace(checkpoint, model=model)
    return checkpoint_predictor.vectors_of(
        arguments.source, loaded, choice, splits_pairs=True, jit_compile=arguments.jit_compile
    )


def _model_and_tokenizer(
    arguments: argparse.Namespace, checkpoint: Checkpoint, choice: VectorChoice
) -> tuple[Any, Any]:
    """The encoder with the checkpoint's weights, and its Tokenizer; raises UserError if anything is missing."""
    from bert_tf.checkpoints import pretrained

    if checkpoint.vocabulary is None:
        raise UserError(f"{arguments.source} has no vocab.txt: pass its vocabulary as --vocab_file.")
    dtype = precision.policy(arguments.precision, is_trained=False)
    needs_pooler = choice.pooling == "pooled" and (choice.unit == "sentence" or arguments.export is not None)
    model = pretrained.load_encoder(checkpoint, arguments.source, dtype=dtype, needs_pooler=needs_pooler)
    return model, tokenizer_of(checkpoint)


def export(arguments: argparse.Namespace, checkpoint: Checkpoint, choice: VectorChoice) -> None:
    """Writes a SavedModel with the same outputs as this command."""
    from bert_tf.export import saved_model
    from bert_tf.heads.vectors import extraction

    if arguments.attention:
        checkpoint.config.check_attention()
    model, tokenizer = _model_and_tokenizer(arguments, checkpoint, choice)
    examples = {name: {"text": extraction.EXAMPLES} for name in ("serving_default", "tokens")}
    about = {
        "layers": [str(name) for name in choice.layers.names],
        "pooling": choice.pooling,
        "normalize": "sentence" in choice.normalize or choice.after[-1:] == (NORMALIZE,),
        "max_seq_length": choice.max_seq_length,
        "prompt": choice.prompt,
        "do_lower_case": tokenizer.lower_case,
        "attention": arguments.attention,
    }
    saved_model.export(
        extraction.Features(choice, checkpoint.sentence_vectors),
        model,
        tokenizer,
        arguments.export,
        examples=examples,
        about=about,
        precision=model.dtype_policy.compute_dtype,
        with_attention=arguments.attention,
    )
    width = choice.width(model.config.hidden_size)
    print(f"{arguments.export} takes texts and returns embeddings of size {width:,}.")
