"""What several checkpoint formats are made of: JSON, safetensors, TensorFlow's files, vocab.txt; and whole folders."""

import contextlib
import errno
import os
import shutil

from bert_tf.errors import UserError
from bert_tf.runtime import json_files
from bert_tf.runtime.atomic_files import write_json
from bert_tf.text import vocabulary


def expect_free(folder):
    """Raises UserError if there is something already where a folder is to be made; an empty folder is nothing."""
    if os.path.lexists(folder) and not (os.path.isdir(folder) and not os.listdir(folder)):
        raise UserError(f"There is something at {folder} already: choose another place, or remove it first.")


@contextlib.contextmanager
def whole_folder(folder):
    """Yields a folder beside `folder` to write into, which takes its place at the end: it appears whole or not at all.

    Raises UserError if there is something already, or if it cannot be written (OSError inside).
    """
    folder = os.fspath(folder).rstrip("/")
    expect_free(folder)
    beside = f"{folder}.partial"
    try:
        shutil.rmtree(beside, ignore_errors=True)  # of a process that was killed
        os.makedirs(beside)
        yield beside
        os.replace(beside, folder)
    except BaseException as error:
        shutil.rmtree(beside, ignore_errors=True)
        if isinstance(error, OSError):
            raise UserError(
                f"{folder} could not be written ({_reason(error)}); nothing was left there. "
                "Make room or choose a place that can be written to."
            ) from None
        raise


def _reason(error):
    """The reason alone: libraries tell long stories around it."""
    full = os.strerror(errno.ENOSPC)
    return full if full in str(error) else error.strerror or (str(error).splitlines() or ["unknown"])[0]


def read_settings(path: str) -> dict:
    """The object in a JSON file of a checkpoint, {} if there is no file; UserError if it holds something else."""
    return json_files.require_json(path, "a JSON object; fetch it again") if os.path.exists(path) else {}


def read_safetensors(path):
    """{name: array} of a safetensors file; UserError where it is none or cut short."""
    from safetensors import SafetensorError, numpy

    try:
        return numpy.load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path} cannot be read as safetensors ({error}): it may be cut short; fetch it again."
        ) from None


def write_safetensors(path, arrays, *, maker):
    """Writes {name: contiguous array}; `maker` says in the file whose names they are ("pt" is Hugging Face's)."""
    from safetensors import SafetensorError, numpy

    try:
        numpy.save_file(arrays, path, metadata={"format": maker})
        os.chmod(path, 0o644)  # the library writes files that nobody else can read
    except SafetensorError as error:  # a full disk, for instance
        raise OSError(str(error)) from None


def read_tensors(prefix, is_wanted):
    """{name: array} of those tensors of a TensorFlow checkpoint whose name is wanted; UserError if it is damaged."""
    import tensorflow as tf

    try:
        reader = tf.train.load_checkpoint(prefix)
        names = sorted(name for name in reader.get_variable_to_shape_map() if is_wanted(name))
        return {name: reader.get_tensor(name) for name in names}
    except Exception as error:  # a damaged file raises anything from DataLossError to IndexError
        reason = str(getattr(error, "message", error)).strip().splitlines() or [type(error).__name__]
        raise UserError(
            f"{prefix} cannot be read as a TensorFlow checkpoint ({reason[0]}): a file of it is missing or cut short; "
            "fetch it again."
        ) from None


def read_text_side(folder):
    """What a folder says on its text: the vocabulary of `vocab.txt` and "do_lower_case"; None where it says nothing."""
    vocab_file = os.path.join(folder, "vocab.txt")
    pieces = vocabulary.read(vocab_file) if os.path.exists(vocab_file) else None
    return pieces, read_settings(os.path.join(folder, "tokenizer_config.json")).get("do_lower_case")


def read_task_side(folder, name="labels.json"):
    """What a folder says on the head: the names of its labels and its kind; None where it says nothing."""
    values = read_settings(os.path.join(folder, name))
    return values.get("labels") or None, values.get("kind")


def write_task_side(folder, checkpoint):
    """Writes `labels.json`, if the checkpoint knows labels or the kind of its head."""
    if checkpoint.labels or checkpoint.kind:
        write_json(
            os.path.join(folder, "labels.json"), {"labels": list(checkpoint.labels or ()), "kind": checkpoint.kind}
        )


def write_text_side(folder, checkpoint, **more):
    """Writes `vocab.txt` and `tokenizer_config.json`, as far as the checkpoint knows; `more` goes into the latter."""
    if checkpoint.vocabulary is not None:
        vocabulary.write(os.path.join(folder, "vocab.txt"), checkpoint.vocabulary)
    if checkpoint.lower_case is not None:
        write_json(os.path.join(folder, "tokenizer_config.json"), {"do_lower_case": checkpoint.lower_case, **more})
