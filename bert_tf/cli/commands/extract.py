"""Writes the vectors that a model has of tokens, of words or of whole texts; or exports it to do so.

  bert-tf extract bert-base --file texts.txt --output vectors.jsonl --layers=-1,-2,-3,-4
  bert-tf extract bert-base --file texts.txt --output vectors.npz --unit=sentence --pooling=mean --normalize
  bert-tf extract bert-base --export exported --layers=second_to_last

MODEL is a checkpoint in any format or the folder of a run. FILE is .txt (a text a line, a pair as "one ||| another"),
or .tsv, .csv or .jsonl with a column text; - is standard input, a text a line. The file may be of any length.

--layers: numbers with commas, 0 for the first layer and -1 for the last, or embeddings, last, second_to_last,
sum_last_four, concat_last_four, all. A text that is longer than max_seq_length is read in windows that overlap, and
each token has its vector from the window that shows most on both sides of it; --long_texts=cut cuts the text instead.

A folder of sentence-transformers says how its model makes vectors of whole texts, which holds where neither --pooling
nor --normalize is given. Other models' are the mean of the tokens.
"""

import argparse
import os
import sys
import time

from bert_tf.checkpoints import formats
from bert_tf.cli.commands.convert import completed
from bert_tf.cli.commands.predict import watched
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.export import loaded_model, prediction_inputs
from bert_tf.recipes.finetuning import finished_run
from bert_tf.runtime import process
from bert_tf.tasks.embeddings import feature_files, vector_choice

WINDOW = 4096  # texts among which those of like length are put together
WINDOW_BYTES = 256 << 20  # ... and no more than have vectors of so many bytes


def add_arguments(parser):
    parser.add_argument("source", metavar="MODEL", help="checkpoint to read, or folder of a run")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--text", help="a text, or a pair as 'one ||| another'")
    given.add_argument("--file", help="texts: .txt, .tsv, .csv, .jsonl, or - for standard input")
    given.add_argument("--export", metavar="FOLDER", help="write a SavedModel that takes texts and answers vectors")
    parser.add_argument("--attention", action="store_true", help="the export also says which token looks where")
    parser.add_argument("--output", help="file to write, without: JSON lines on standard output")
    parser.add_argument("--format", choices=feature_files.FORMATS, help="format of the output; without, by its ending")
    parser.add_argument("--overwrite", action="store_true", help="replace an output that exists")
    parser.add_argument("--unit", choices=vector_choice.UNITS, help="what has a vector (token)")
    parser.add_argument("--layers", default="last", help="layers that are wanted (last)")
    parser.add_argument("--layer_weights", default="", metavar="NUMBERS", help="one vector: their sum, each times this")
    parser.add_argument("--pooling", choices=vector_choice.POOLINGS, help="tokens of a sentence to one vector")
    parser.add_argument("--word_vectors", choices=vector_choice.WORD_VECTORS, help="pieces of a word to one (first)")
    parser.add_argument("--words", choices=vector_choice.WORDS, help="what parts words: as BERT does (text), or spaces")
    length_1 = argparse.BooleanOptionalAction
    parser.add_argument("--normalize", action=length_1, default=None, help="make every vector of length 1")
    parser.add_argument("--max_seq_length", type=int, default=128, help="tokens that the model reads at once (128)")
    parser.add_argument("--long_texts", choices=("windows", "cut"), default="windows", help="what is longer (windows)")
    parser.add_argument("--doc_stride", type=int, default=0, help="from window to window (half of max_seq_length)")
    parser.add_argument("--text_columns", metavar="NAMES", help="column of FILE with the text, or two with pairs")
    parser.add_argument("--id_column", metavar="NAME", help="column of FILE with an id that is written too")
    parser.add_argument("--vocab_file", help="vocab.txt of a checkpoint that has none beside it")
    parser.add_argument(
        "--do_lower_case", choices=("true", "false"), help="casing of a checkpoint that does not say it"
    )
    parser.add_argument("--precision", choices=("float32", "bfloat16", "auto"), default="float32", help="(float32)")
    parser.add_argument("--batch_size", type=int, default=256, help="texts that are answered at once (256)")


def run(arguments):
    process.assume_frozen_weights()
    check(arguments)
    checkpoint = completed(formats.read(arguments.source), arguments)
    choice = chosen(arguments, checkpoint)
    if arguments.export is not None:
        export(arguments, checkpoint, choice)
        return
    examples = single(arguments) if arguments.file is None else from_file(arguments)
    first = next(examples)  # mistakes in the file come before the model is made
    examples = (example for part in ([first], examples) for example in part)
    write(arguments, checkpoint, choice, examples)


def check(arguments):
    """Raises UserError for flags and files that do not go together, before TensorFlow is loaded."""
    given = {name: value for name, value in vars(arguments).items() if value not in (None, False, "")}
    unit = arguments.unit or "token"
    for name, goes, expected in (
        ("pooling", unit == "sentence" or arguments.export, "unit=sentence"),
        ("word_vectors", unit == "word" and not arguments.export, "unit=word"),
        ("words", unit == "word" and not arguments.export, "unit=word"),
        ("attention", arguments.export, "export"),
        ("unit", not arguments.export, "text or file"),
        ("output", not arguments.export, "text or file"),
        ("text_columns", arguments.file, "file"),
        ("id_column", arguments.file, "file"),
        ("format", arguments.output, "output"),
        ("doc_stride", arguments.long_texts == "windows", "long_texts=windows"),
    ):
        if given.get(name) and not goes:
            raise UserError(f"{name} goes with {expected} only: leave it out.")
    if arguments.batch_size < 1:
        raise UserError(f"batch_size is {arguments.batch_size}; expected 1 or more.")
    if arguments.max_seq_length < 5:
        raise UserError(f"max_seq_length is {arguments.max_seq_length}; expected 5 or more.")
    if not 0 <= arguments.doc_stride <= arguments.max_seq_length - 2:
        raise UserError(
            f"doc_stride is {arguments.doc_stride}; expected 1 to {arguments.max_seq_length - 2}, as a window of "
            f"max_seq_length {arguments.max_seq_length} holds so many pieces."
        )
    parts = vector_choice.parsed(arguments.layers)
    vector_choice.parsed_weights(arguments.layer_weights)
    if arguments.pooling == "pooled" and (len(parts) > 1 or parts[0] not in ("last", -1) or arguments.layer_weights):
        raise UserError("pooling=pooled is made of the last layer: leave out layers and layer_weights.")
    if arguments.file is not None:
        prediction_inputs.expect_readable(arguments.file)
        if arguments.output and os.path.exists(arguments.output) and arguments.file != prediction_inputs.STANDARD_INPUT:
            if os.path.samefile(arguments.output, arguments.file):
                raise UserError(f"output and file are both {arguments.output}: give the vectors another name.")
    if arguments.output is not None:
        feature_files.expect_writable(arguments.output, overwrite=arguments.overwrite, kind=arguments.format)
    if arguments.export is not None:
        finished_run.expect_place(arguments.export, overwrite=arguments.overwrite)


def chosen(arguments, checkpoint):
    """The VectorChoice of the flags; UserError where the model has not such layers or so many positions."""
    config = checkpoint.config
    if arguments.max_seq_length > config.max_position_embeddings:
        raise UserError(
            f"max_seq_length is {arguments.max_seq_length}, but the model has {config.max_position_embeddings} "
            "positions: choose a shorter length; longer texts are read in windows."
        )
    windows = arguments.long_texts == "windows"
    pooling, normalize = pooling_of(arguments, checkpoint.sentence_vectors)
    if config.is_causal and pooling == "cls":
        raise UserError("pooling is cls, but the model reads from left to right: [CLS] has seen no text; choose last.")
    return vector_choice.VectorChoice(
        layers=vector_choice.choose(arguments.layers, config.layers_with_states, arguments.layer_weights),
        unit=arguments.unit or "token",
        pooling=pooling,
        word_vectors=arguments.word_vectors or "first",
        words=arguments.words or "text",
        normalize=normalize,
        max_seq_length=arguments.max_seq_length,
        stride=(arguments.doc_stride or arguments.max_seq_length // 2) if windows else 0,
    )


def pooling_of(arguments, said):
    """The pooling, and the units whose vectors get length 1: as the flags say, without them as the checkpoint does.

    said: a SentenceVectors, or None. UserError where its way is none that there is here.
    """
    if said is None or (arguments.pooling, arguments.normalize) != (None, None):
        return arguments.pooling or "mean", vector_choice.UNITS if arguments.normalize else ()
    if not (arguments.export or arguments.unit == "sentence"):
        return "mean", ()
    if not said.is_known:
        raise UserError(
            f"{arguments.source} makes vectors of texts with {said.pooling}, which there is not here: give a pooling."
        )
    length = ", of length 1" if said.normalize else ""
    print(f"Vectors of texts as {arguments.source} says: {said.pooling} of the tokens{length}.", file=sys.stderr)
    return said.pooling, ("sentence",) if said.normalize else ()


def single(arguments):
    """The text of the flags, as a stream of one Example."""
    yield Example("0", (arguments.text,), None, "the flags")


def from_file(arguments):
    """The texts of the file, one after the other."""
    columns = [name.strip() for name in (arguments.text_columns or "").split(",") if name.strip()]
    inputs = dict.fromkeys(("text_a", "text_b") if len(columns) == 2 else ("text",))
    return prediction_inputs.read(arguments.file, inputs, columns=columns, id_column=arguments.id_column)


def write(arguments, checkpoint, choice, examples):
    """Writes the vectors of the texts, in their order."""
    shape = feature_files.Shape(
        unit=choice.unit,
        layers=choice.layers.names,
        width=choice.width(checkpoint.config.hidden_size),
        has_ids=arguments.id_column is not None,
    )
    held, batch_size = sizes(arguments, choice, shape)
    rows = loaded_model.in_order(extractor(arguments, checkpoint, choice), examples, batch_size=batch_size, window=held)
    rows = ((number, outputs["found"], example.id) for number, (example, outputs) in enumerate(rows))
    if arguments.output is None:
        for number, found, identifier in rows:
            sys.stdout.write(feature_files.json_line(number, found, shape, identifier))
        return
    start, vectors, number = time.monotonic(), 0, -1
    with feature_files.writer(arguments.output, shape, arguments.format) as add:
        for number, found, identifier in watched(rows, arguments, "extracting"):
            add(number, found, identifier)
            vectors += found.vectors[..., 0].size
    seconds = time.monotonic() - start
    print(
        f"{number + 1:,} texts, {vectors:,} vectors of {shape.width:,} numbers, {(number + 1) / seconds:,.0f} texts/s: "
        f"{arguments.output}"
    )


def sizes(arguments, choice, shape):
    """How many texts to hold, and how many to answer at once: few where each has many large vectors."""
    fitting = max(1, WINDOW_BYTES // (4 * choice.max_seq_length * len(shape.layers) * shape.width))
    if arguments.file == prediction_inputs.STANDARD_INPUT and sys.stdin.isatty():  # a person types them
        return 1, 1
    return WINDOW if choice.unit == "sentence" else min(WINDOW, fitting), min(arguments.batch_size, fitting)


def extractor(arguments, checkpoint, choice):
    """The model and its tokenizer, ready to answer."""
    from bert_tf.tasks.embeddings.extraction import Extractor

    return Extractor(*model_and_tokenizer(arguments, checkpoint, choice), choice)


def model_and_tokenizer(arguments, checkpoint, choice):
    """The encoder with the weights of the checkpoint, and its Tokenizer; UserError where something is lacking."""
    from bert_tf.tasks.embeddings import extraction
    from bert_tf.text.tokenizer import Tokenizer
    from bert_tf.training import precision

    if checkpoint.vocabulary is None:
        raise UserError(f"{arguments.source} has no vocab.txt beside it: give its vocabulary as vocab_file.")
    if checkpoint.lower_case is None:
        raise UserError(f"{arguments.source} does not say its casing: give do_lower_case=true or false.")
    dtype = precision.policy(arguments.precision, is_trained=False)
    needs_pooler = choice.pooling == "pooled" and (choice.unit == "sentence" or arguments.export is not None)
    model = extraction.encoder_of(checkpoint, arguments.source, dtype=dtype, needs_pooler=needs_pooler)
    return model, Tokenizer(checkpoint.vocabulary, checkpoint.lower_case)


def export(arguments, checkpoint, choice):
    """Writes the SavedModel, which answers as this command does."""
    from bert_tf.export import attention_signature, saved_model
    from bert_tf.tasks.embeddings import extraction

    if arguments.attention:
        attention_signature.check(checkpoint.config)
    model, tokenizer = model_and_tokenizer(arguments, checkpoint, choice)
    examples = {name: {"text": extraction.EXAMPLES} for name in ("serving_default", "tokens")}
    about = {
        "layers": [str(name) for name in choice.layers.names],
        "pooling": choice.pooling,
        "normalize": "sentence" in choice.normalize,
        "max_seq_length": choice.max_seq_length,
        "do_lower_case": tokenizer.lower_case,
        "attention": arguments.attention,
    }
    task = extraction.Features.of(choice)
    given = {"examples": examples, "about": about, "precision": model.dtype_policy.compute_dtype}
    given["with_attention"] = arguments.attention
    saved_model.export(task, model, tokenizer, arguments.export, **given)
    print(f"{arguments.export} takes texts and answers vectors of {choice.width(model.config.hidden_size):,} numbers.")
