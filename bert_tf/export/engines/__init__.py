"""Models for other engines, one file each: OpenVINO, ONNX Runtime, LiteRT.

A file here has PACKAGES, what it imports (within functions), by `quantize`; FILES, what it writes; and three functions:

  write(saved_model, folder, *, quantize, samples)  converts the SavedModel of a `functional_bert.FunctionalModel`;
  samples:
      inputs to calibrate with, where there are some
  load(folder, *, exact)  gives a function {input: int32 array} -> {output: float32 array}; exact: in float32 even
      where the engine would choose less
  may_round()  whether it would do so on this machine

Beside the model a folder holds vocab.txt, tokenizer_config.json and tokenizer.json (of the library `tokenizers`),
bert_config.json, and about.json, which names inputs, outputs and labels.
"""

import dataclasses
import importlib.util
import json
import os
import shutil
import statistics

from bert_tf.checkpoints import checkpoint_files
from bert_tf.errors import UserError, reason_of
from bert_tf.runtime import atomic_files, open_set
from bert_tf.runtime.tensorflow_startup import start_tensorflow
from bert_tf.text.characters import MAX_WORD_CHARACTERS

ABOUT, NETWORK = "about.json", "network"
QUANTIZED = ("int8",)
# Largest difference from the live model, as a share of the largest answer. Above that of int8 a model is of no use.
LIMITS = {None: 1e-4, "int8": 0.5}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Written:
    """What was written, and how it did on one text of `slots` slots beside TensorFlow here.

    size: bytes of the model. difference: the largest from the live model, as a share of the largest answer, as the
    engine runs by itself on this machine. outputs: their names. report: what became of the checkpoint's weights.
    """

    engine: str
    quantize: str | None
    outputs: list
    size: int
    slots: int
    seconds: float
    live_seconds: float
    difference: float
    report: object


def names():
    """The names of the engines, without loading them."""
    return open_set.names(__name__)


def is_engine(name: str) -> bool:
    """Whether a name is an engine's, and no checkpoint format's: one of `names()`, or a module that has PACKAGES."""
    if "." not in name:
        return name in names()
    start_tensorflow()  # the module may import it
    return hasattr(open_set.load(__name__, name, kind="format or engine"), "PACKAGES")


def engine_of(name, quantize=None):
    """The module of an engine; UserError where a package that it needs is not installed."""
    module = open_set.load(__name__, name, kind="engine")
    for package in module.PACKAGES[quantize]:
        if importlib.util.find_spec(package) is None:
            raise UserError(f'{package} is missing: pip install "bert-tf[{name}]".')
    return module


def load(folder, *, exact=False):
    """The function of a folder that `write` made: {input: int32 array} -> {output: float32 array}."""
    told = checkpoint_files.read_settings(os.path.join(folder, ABOUT))
    if told.get("engine") not in names():
        raise UserError(f"{folder} holds no model for {', '.join(names())}: `bert-tf convert` writes one.")
    return engine_of(told["engine"]).load(folder, exact=exact)


def write(checkpoint, folder, name, *, quantize=None, texts=()):
    """Writes a checkpoint as a new folder for an engine, once it has answered there as the live model does.

    texts: strings to compare it on, and to calibrate OpenVINO's int8 with; by default some of our own for the former.
    Returns a Written. Raises UserError where a package is missing, a model is none for engines, or answers otherwise.
    """
    engine = engine_of(name, quantize)
    from bert_tf.export import engine_parity
    from bert_tf.model import functional_bert

    live = functional_bert.CheckpointModel(checkpoint)
    with checkpoint_files.new_folder(folder) as beside:
        tokenizer = _write_text_side(beside, checkpoint)
        rows = engine_parity.rows_of(texts or engine_parity.SENTENCES, tokenizer, checkpoint.config)
        slots = min(engine_parity.TIMED_SLOTS, checkpoint.config.max_position_embeddings)
        options = {"has_masks": "masked_lm_positions" in live.head.inputs}
        options["segments"] = checkpoint.config.type_vocab_size
        samples = [engine_parity.inputs_of([row], **options) for row in rows] if texts else ()
        _convert(engine, live, beside, quantize=quantize, samples=samples)
        trials = engine_parity.trials(rows, slots=slots, **options)
        found = _tried(engine, live, beside, trials, LIMITS[quantize])
        size = sum(os.path.getsize(os.path.join(beside, file)) for file in engine.FILES)
        written = Written(engine=name, quantize=quantize, size=size, slots=slots, report=live.report, **found)
        _write_about(beside, checkpoint, live.head, written)
    return written


def _tried(engine, live, folder, trials, limit):
    """Fields of Written that come from answers to the trials; UserError where they differ by more than the limit."""
    from bert_tf.export import engine_parity

    usual = engine.load(folder, exact=False)
    exact = engine.load(folder, exact=True) if engine.may_round() else usual
    apart = engine_parity.difference(live, exact, trials, live.head.token_outputs)
    if not apart <= limit:
        raise UserError(
            f"{_name(engine)} answers otherwise than the model: by {apart:.2g} of the largest answer, expected at most "
            f"{limit:.2g}. Nothing was written to {folder.removesuffix('.partial')}."
        )
    if exact is not usual:
        apart = engine_parity.difference(live, usual, trials, live.head.token_outputs)
    seconds, live_seconds = engine_parity.median_seconds((usual, live), trials[-1])
    found = {"outputs": sorted(usual(trials[-1])), "difference": apart}
    return {**found, "seconds": seconds, "live_seconds": live_seconds}


def _name(engine):
    return engine.__name__.rpartition(".")[2]


def table(rows):
    """Lines for people about Writtens of one checkpoint: size on disk, time, difference."""
    yield f"{'':24}{'size':>10}{f'one text of {rows[0].slots}':>20}{'largest difference':>22}"
    for row in rows:
        name = f"{row.engine}{' ' + row.quantize if row.quantize else ''}"
        yield f"  {name:22}{row.size / 1e6:>7.1f} MB{row.seconds * 1e3:>17.1f} ms{row.difference:>22.1e}"
    live = statistics.median(row.live_seconds for row in rows)
    yield f"  {'TensorFlow, here':22}{'':10}{live * 1e3:>17.1f} ms"


def _write_text_side(folder, checkpoint):
    """Writes configuration, vocabulary and tokenizer; returns the latter, None without a vocabulary or its casing."""
    checkpoint.config.write(os.path.join(folder, "bert_config.json"))
    checkpoint_files.write_tokenizer_files(folder, checkpoint)
    if checkpoint.vocabulary is None or checkpoint.lower_case is None:
        return None
    import tokenizers

    pieces = {piece: number for number, piece in enumerate(checkpoint.vocabulary)}
    told = json.loads(tokenizers.BertWordPieceTokenizer(pieces, lowercase=checkpoint.lower_case).to_str())
    told["model"]["max_input_chars_per_word"] = MAX_WORD_CHARACTERS  # there is no argument for it
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(told))
    tokenizer.enable_truncation(checkpoint.config.max_position_embeddings)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    return tokenizer


def _convert(engine, live, folder, *, quantize, samples):
    network = os.path.join(folder, NETWORK)
    try:
        live.save(network)
        engine.write(network, folder, quantize=quantize, samples=samples)
    except (UserError, OSError, MemoryError):
        raise
    except Exception as error:  # converters raise all sorts
        raise UserError(f"{_name(engine)} cannot convert this model ({reason_of(error)}).") from error
    shutil.rmtree(network)


def _write_about(folder, checkpoint, head, written):
    about = {"engine": written.engine, "quantize": written.quantize}
    about["inputs"] = {name: {"type": "int32", "shape": shape} for name, shape in head.inputs.items()}
    about |= {"outputs": written.outputs, "labels": list(checkpoint.labels or ()), "kind": checkpoint.kind}
    atomic_files.write_json(os.path.join(folder, ABOUT), about | {"difference": written.difference})
