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
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.cli import bulk_files, shared_flags
from bert_tf.cli.text_progress import report_texts
from bert_tf.config.flag_groups import EXPORT_PRECISIONS
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.config.sentence_vectors import NORMALIZE, SentenceVectors
from bert_tf.data.examples import Example
from bert_tf.errors import UserError, count_text
from bert_tf.export import engine_predictor, loaded_model, prediction_inputs
from bert_tf.export.engine_predictor import AUTO, TENSORFLOW, EnginePredictor
from bert_tf.export.loaded_model import Predictor
from bert_tf.heads.vectors import sentence_choice, vector_choice
from bert_tf.heads.vectors.sentence_choice import SentenceOptions
from bert_tf.heads.vectors.text_vectors import Shape
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.runtime import files, json_files, process
from bert_tf.tasks.embeddings import feature_files
from bert_tf.training import precision

WINDOW = 4096  # texts that are sorted by length before batching
WINDOW_BYTES = 256 << 20  # and the memory their embeddings may take


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="MODEL", help="checkpoint to read, or run folder")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", help="a single text, or a pair as 'one ||| another'")
    source.add_argument("--file", help="texts: .txt, .tsv, .csv, .jsonl, or - for standard input")
    bulk_files.add_arguments(parser, source)
    source.add_argument("--export", metavar="FOLDER", help="write a SavedModel that maps texts to embeddings")
    parser.add_argument("--attention", action="store_true", help="export a signature that returns attention weights")
    parser.add_argument("--output", help="file to write (JSON lines on standard output)")
    parser.add_argument("--format", choices=feature_files.FORMATS, help="format of the output (by its extension)")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing output")
    parser.add_argument("--unit", choices=vector_choice.UNITS, help="what gets an embedding (token)")
    parser.add_argument("--layers", default="last", help="layers to extract (last)")
    parser.add_argument("--layer_weights", default="", metavar="NUMBERS", help="return one weighted sum of the layers")
    parser.add_argument("--pooling", help="how tokens become a sentence embedding: mean, cls, max, mean+max, ...")
    parser.add_argument("--word_vectors", choices=vector_choice.WORD_VECTORS, help="which tokens of a word (first)")
    parser.add_argument("--words", choices=vector_choice.WORDS, help="split words as BERT does (text), or at spaces")
    optional = argparse.BooleanOptionalAction
    parser.add_argument("--normalize", action=optional, default=None, help="scale embeddings to unit length")
    parser.add_argument("--prompt_name", metavar="NAME", help="prompt of MODEL to put before each text, such as query")
    parser.add_argument("--prompt", metavar="TEXT", help="what to put before each text instead")
    parser.add_argument("--truncate_dim", type=int, metavar="N", help="numbers to keep of a sentence embedding")
    parser.add_argument("--max_seq_length", type=int, help="tokens per model input (as in MODEL, else 128)")
    parser.add_argument("--long_texts", choices=sentence_choice.LONG_TEXTS, help="(cut as in MODEL, else windows)")
    parser.add_argument("--doc_stride", type=int, default=0, help="stride of windows (half of max_seq_length)")
    parser.add_argument("--text_columns", metavar="NAMES", help="column of FILE with the text, or two with pairs")
    parser.add_argument("--id_column", metavar="NAME", help="column of FILE with an id to write too")
    shared_flags.add_checkpoint(parser)
    parser.add_argument("--precision", choices=(*EXPORT_PRECISIONS, "auto"), default="float32", help="(float32)")
    shared_flags.add_inference(parser)
    parser.add_argument("--batch_size", type=int, default=256, help="texts per batch (256)")


def run(arguments: argparse.Namespace) -> None:
    shared_flags.set_up(arguments)
    if arguments.input is not None:
        file, output = bulk_files.pairs(arguments.input, arguments.output)[0]
        _check_combinations(argparse.Namespace(**vars(arguments) | {"file": file, "output": output}))
        _check_numbers(arguments)
        feature_files.format_of(output, arguments.format)
        # A path as every worker sees it; names of published checkpoints stay.
        source = files.absolute(arguments.source) if files.exists(arguments.source) else arguments.source
        bulk_files.run("extract", arguments, source=source)
        return
    check(arguments)
    predictor = _engine(arguments)
    checkpoint = _checkpoint(arguments, predictor)
    choice = choose(arguments, checkpoint)
    if arguments.export is not None:
        choice = dataclasses.replace(choice, unit="sentence")
        choice.width(checkpoint.config.hidden_size)  # raises where the sizes of layers do not fit
        export(arguments, checkpoint, choice)
        return
    single = [Example("0", (arguments.text,), None, "the flags")]
    examples = iter(single) if arguments.file is None else _from_file(arguments)
    first = next(examples)  # report errors in the file before making the model
    examples = (example for part in ([first], examples) for example in part)
    write(arguments, checkpoint, choice, examples, predictor)


def _engine(arguments: argparse.Namespace) -> EnginePredictor | None:
    """The export by the engine of the flags; None for TensorFlow, which alone has some of them."""
    others = dict.fromkeys(("layer_weights", "vocab_file", "do_lower_case", "special_tokens_in_strings"), ("", None))
    usual = {"layers": ("last", "-1"), "precision": ("float32",), "export": (None,), **others}
    given = [name for name, values in usual.items() if getattr(arguments, name) not in values]
    if arguments.engine in (AUTO, TENSORFLOW) and (given or arguments.jit_compile == "true"):
        return None
    if given:
        raise UserError(f"{given[0]} requires engine={TENSORFLOW}: leave one of the two out.")
    predictor = engine_predictor.load_for_vectors(arguments.source, arguments.engine)
    if predictor:
        shared_flags.say_engine(arguments, predictor.engine)
    return predictor


def _checkpoint(arguments: argparse.Namespace, predictor: EnginePredictor | None) -> Checkpoint:
    """The checkpoint of the flags; of an engine what it says of its vectors."""
    if predictor:
        return Checkpoint(config=predictor.config, sentence_vectors=predictor.sentence_vectors)
    return shared_flags.complete_checkpoint(formats.read(arguments.source), arguments)


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
def _ready(settings: str) -> tuple[Checkpoint, VectorChoice, Predictor]:
    """The model of the flags, kept for the next file of this process."""
    arguments = argparse.Namespace(**json_files.parse(settings))
    predictor = _engine(arguments)
    checkpoint = _checkpoint(arguments, predictor)
    choice = choose(arguments, checkpoint)
    return checkpoint, choice, _extractor(arguments, checkpoint, choice, predictor)


def check(arguments: argparse.Namespace) -> None:
    """Raises UserError for inconsistent flags and missing files, before TensorFlow is loaded."""
    _check_combinations(arguments)
    _check_numbers(arguments)
    parts = vector_choice.parse_layers(arguments.layers)
    vector_choice.parse_weights(arguments.layer_weights)
    if arguments.pooling is not None:
        sentence_choice.check_pooling(arguments.pooling)
    if arguments.pooling == "pooled" and (len(parts) > 1 or parts[0] not in ("last", -1) or arguments.layer_weights):
        raise UserError("pooling=pooled uses the last layer: leave out layers and layer_weights.")
    if arguments.file is not None:
        prediction_inputs.check_readable(arguments.file)
        if arguments.output and files.same(arguments.output, arguments.file):
            raise UserError(f"output and file are both {arguments.output}: give the embeddings another name.")
    if arguments.output is not None:
        feature_files.check_writable(arguments.output, overwrite=arguments.overwrite, kind=arguments.format)
    if arguments.export is not None:
        loaded_model.check_free(arguments.export, overwrite=arguments.overwrite)


def _check_combinations(arguments: argparse.Namespace) -> None:
    unit = arguments.unit or "token"
    for name, is_applicable, required in (
        ("pooling", unit == "sentence" or arguments.export, "unit=sentence"),
        ("prompt_name", unit == "sentence" or arguments.export, "unit=sentence"),
        ("prompt", unit == "sentence" or arguments.export, "unit=sentence"),
        ("truncate_dim", unit == "sentence" or arguments.export, "unit=sentence"),
        ("word_vectors", unit == "word" and not arguments.export, "unit=word"),
        ("words", unit == "word" and not arguments.export, "unit=word"),
        ("attention", arguments.export, "export"),
        ("unit", not arguments.export, "text or file"),
        ("output", not arguments.export, "text or file"),
        ("text_columns", arguments.file, "file or input"),
        ("id_column", arguments.file, "file or input"),
        ("format", arguments.output, "output"),
        ("doc_stride", arguments.long_texts != "cut", "long_texts=windows"),
    ):
        if getattr(arguments, name) and not is_applicable:
            raise UserError(f"{name} requires {required}: leave it out.")
    if arguments.export and arguments.precision == "auto":
        raise UserError(
            "precision=auto suits this machine, and an export may run on another: "
            f"pass one of {', '.join(EXPORT_PRECISIONS)}."
        )


def _check_numbers(arguments: argparse.Namespace) -> None:
    shared_flags.check_batch_size(arguments)
    sentence_choice.check_length(arguments.max_seq_length, arguments.doc_stride)


def choose(arguments: argparse.Namespace, checkpoint: Checkpoint) -> VectorChoice:
    """The VectorChoice of the flags; raises UserError for what the model lacks, or what is not supported."""
    unit = arguments.unit or "token"
    recorded = checkpoint.sentence_vectors
    if recorded is not None and not (unit == "sentence" or arguments.export):  # of tokens, only the length of rows
        recorded = SentenceVectors(max_seq_length=recorded.max_seq_length)
    names = [field.name for field in dataclasses.fields(SentenceOptions)]
    options = SentenceOptions(**{name: getattr(arguments, name) for name in names})
    if not (unit == "sentence" or arguments.export) and not options.long_texts:
        options = dataclasses.replace(options, long_texts="windows")
    choice = sentence_choice.choose(
        recorded,
        options,
        path=arguments.source,
        config=checkpoint.config,
        layers=arguments.layers,
        layer_weights=arguments.layer_weights,
        unit=unit,
        word_vectors=arguments.word_vectors or "first",
        words=arguments.words or "text",
    )
    if recorded is not None and (unit == "sentence" or arguments.export):
        print(_described(arguments.source, choice), file=sys.stderr)
    return choice


def _described(source: str, choice: VectorChoice) -> str:
    """A line on what a model says of its vectors, with what the flags change."""
    parts = [choice.pooling, *(layer.kind.replace("normalize", "normalized") for layer in choice.after)]
    if choice.truncate_dim is not None:
        parts.append(f"{choice.truncate_dim} numbers")
    if not choice.stride:
        parts.append(f"texts truncated at {choice.max_seq_length} tokens")
    if choice.prompt:
        parts.append(f"prompt {choice.prompt!r}")
    return f"Vectors as specified by {source}: {', '.join(parts)}."


def _from_file(arguments: argparse.Namespace) -> Iterator[Example]:
    columns = comma_separated(arguments.text_columns)
    inputs = dict.fromkeys(("text_a", "text_b") if len(columns) == 2 else ("text",))
    return prediction_inputs.read(arguments.file, inputs, columns=columns, id_column=arguments.id_column)


def write(
    arguments: argparse.Namespace,
    checkpoint: Checkpoint,
    choice: VectorChoice,
    examples: Iterator[Example],
    predictor: EnginePredictor | None = None,
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
    arguments: argparse.Namespace, choice: VectorChoice, shape: Shape, extractor: Predictor, examples: Iterator[Example]
) -> Iterator[tuple[int, Any, str]]:
    """Yields (number, embeddings, id) of each text, in order."""
    window, batch_size = _sizes(arguments, choice, shape)
    outputs = loaded_model.predict_in_order(extractor, examples, batch_size=batch_size, window=window)
    return ((number, values["vectors"], example.id) for number, (example, values) in enumerate(outputs))


def _sizes(arguments: argparse.Namespace, choice: VectorChoice, shape: Shape) -> tuple[int, int]:
    """(texts to read at once, texts per batch): few if each has many large vectors."""
    limit = max(1, WINDOW_BYTES // (4 * choice.max_seq_length * len(shape.layers) * shape.width))
    if arguments.file == prediction_inputs.STANDARD_INPUT and sys.stdin.isatty():  # typed by a person
        return 1, 1
    return WINDOW if choice.unit == "sentence" else min(WINDOW, limit), min(arguments.batch_size, limit)


def _extractor(
    arguments: argparse.Namespace, checkpoint: Checkpoint, choice: VectorChoice, predictor: EnginePredictor | None
) -> Predictor:
    if predictor:
        return predictor.extractor(choice, splits_pairs=True)
    from bert_tf.heads.vectors.extraction import Extractor

    model, tokenizer = _model_and_tokenizer(arguments, checkpoint, choice)
    return Extractor(model, tokenizer, choice, jit_compile=arguments.jit_compile)


def _model_and_tokenizer(
    arguments: argparse.Namespace, checkpoint: Checkpoint, choice: VectorChoice
) -> tuple[Any, Any]:
    """The encoder with the weights of the checkpoint, and its Tokenizer; raises UserError if something is missing."""
    from bert_tf.checkpoints import pretrained

    if checkpoint.vocabulary is None:
        raise UserError(f"{arguments.source} has no vocab.txt: pass its vocabulary as --vocab_file.")
    if checkpoint.lower_case is None:
        raise UserError(f"{arguments.source} does not say its casing: pass do_lower_case=true or false.")
    dtype = precision.policy(arguments.precision, is_trained=False)
    needs_pooler = choice.pooling == "pooled" and (choice.unit == "sentence" or arguments.export is not None)
    model = pretrained.load_encoder(checkpoint, arguments.source, dtype=dtype, needs_pooler=needs_pooler)
    return model, checkpoint.tokenizer


def export(arguments: argparse.Namespace, checkpoint: Checkpoint, choice: VectorChoice) -> None:
    """Writes a SavedModel whose outputs are those of this command."""
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
