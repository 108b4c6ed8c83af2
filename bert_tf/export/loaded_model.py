"""An exported SavedModel that answers strings: what it takes is read from its own signature, no code of a model.

B texts at once.
"""

import concurrent.futures
import os

from bert_tf.errors import UserError, reason_of
from bert_tf.runtime import json_files

SAVED_MODEL, ABOUT = "saved_model.pb", "about.json"
MOST_CHARACTERS = 4 << 20  # of texts that are held at once: 4096 of a thousand each
MOST_AT_ONCE = 4  # batches, where there are so many cores; measured with two


def find(path):
    """The folder of the SavedModel: the path itself, or `export` in the folder of a run. UserError if there is none."""
    for folder in (path, os.path.join(path, "export")):
        if os.path.isfile(os.path.join(folder, SAVED_MODEL)):
            return folder
    if not os.path.isdir(path):
        raise UserError(f"There is no folder {path}: give that of an export, or of a run that has one.")
    if os.path.isfile(os.path.join(path, "run.json")):
        raise UserError(f"The run in {path} has no export: `bert-tf export {path}` makes it.")
    raise UserError(f"{path} is no export: it holds no {SAVED_MODEL}; give the folder that a run calls export.")


class Export:
    """A signature of a SavedModel, ready to answer.

    inputs: {name: None, or how many texts of an example it takes}, in the order in which a reader meets them.
    labels: the names of the classes from `about.json`, () without. task: its name, "" without.
    """

    def __init__(self, folder, signature="serving_default"):
        """Loads the folder; starts TensorFlow. Raises UserError where it is damaged or takes no strings."""
        self.folder, self._signature = folder, _loaded(folder, signature)
        self.inputs = _inputs(folder, self._signature)
        told = about(folder)
        self.labels, self.task = tuple(told.get("labels") or ()), str(told.get("task") or "")

    def answer(self, examples):
        """{name: array [B, ...]} of the outputs for B Examples. Raises UserError where memory does not suffice."""
        import tensorflow as tf

        given, first = {}, 0
        for name, count in self.inputs.items():
            texts = [example.encode()[first : first + (count or 1)] for example in examples]
            given[name] = tf.constant(texts if count else [text for (text,) in texts], tf.string)
            first += count or 1
        try:
            return {name: tensor.numpy() for name, tensor in self._signature(**given).items()}
        except tf.errors.ResourceExhaustedError:
            raise UserError(f"Memory ran out for {len(examples)} texts at once: lower batch_size.") from None
        except tf.errors.OpError as error:
            raise UserError(f"The export {self.folder} cannot answer: {reason_of(error)}.") from None


def signatures(folder):
    """Loads the SavedModel in a folder: {name: signature}; starts TensorFlow. UserError where it is damaged."""
    from bert_tf.runtime.tensorflow_startup import start_tensorflow

    start_tensorflow()
    import tensorflow as tf
    import tensorflow_text  # noqa: F401, its operations are in the graph

    try:
        return dict(tf.saved_model.load(folder).signatures)
    except Exception as error:  # a damaged file raises anything from DecodeError to AttributeError
        raise UserError(
            f"The export {folder} cannot be loaded ({reason_of(error)}): a file of it is damaged or missing; "
            "export it again."
        ) from None


def _loaded(folder, name):
    known = signatures(folder)
    if name not in known:
        raise UserError(f"The export {folder} has no signature {name!r}; it has {', '.join(known) or 'none'}.")
    return known[name]


def _inputs(folder, signature):
    import tensorflow as tf

    specs = signature.structured_input_signature[1]
    inputs = {}
    for name in sorted(specs, key=lambda name: (specs[name].shape.rank or 0, name)):
        spec = specs[name]
        if spec.dtype != tf.string or spec.shape.rank not in (1, 2):
            raise UserError(f"The export {folder} takes {name} of {spec.dtype.name} {spec.shape}; expected strings.")
        inputs[name] = spec.shape[1] if spec.shape.rank == 2 else None
    return inputs


def about(folder):
    """The content of about.json; {} where there is none that can be read, as it is only told names."""
    values = json_files.read_json(os.path.join(folder, ABOUT))
    return values if isinstance(values, dict) else {}


def in_order(export, examples, *, batch_size, window):
    """Yields (Example, {name: array of its outputs}) in the order of the examples.

    Holds `window` of them at most, and fewer where they are so long that there are MOST_CHARACTERS before.
    Texts of like length share a batch, long ones first, so that short ones do not pay for the length of others.
    """
    threads = concurrent.futures.ThreadPoolExecutor(at_once())
    try:
        for chunk in _windows(examples, window):
            lengths = [_length(*example.texts) for example in chunk]
            order = sorted(range(len(chunk)), key=lengths.__getitem__, reverse=True)
            batches = [order[first : first + batch_size] for first in range(0, len(order), batch_size)]
            found = [None] * len(chunk)
            answers = threads.map(export.answer, ([chunk[row] for row in rows] for rows in batches))
            for rows, outputs in zip(batches, answers, strict=True):
                for place, row in enumerate(rows):
                    found[row] = {name: values[place] for name, values in outputs.items()}
            yield from zip(chunk, found, strict=True)
    finally:
        threads.shutdown(cancel_futures=True)


def at_once():
    """How many batches to compute side by side: one alone leaves cores idle between its operations."""
    return min(MOST_AT_ONCE, os.cpu_count() or 1)


def _length(first, *others):
    """Characters of a row of the model: of a pair both, of a first text and choices the longest such pair."""
    return len(first) + max(map(len, others), default=0)


def _windows(examples, size):
    chunk, characters = [], 0
    for example in examples:
        chunk.append(example)
        characters += sum(map(len, example.texts))
        if len(chunk) == size or characters >= MOST_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk
