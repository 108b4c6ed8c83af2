"""Files that several checkpoint formats share: safetensors, TensorFlow checkpoints, vocab.txt, labels.json."""

import contextlib
import dataclasses
import errno
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError, numpy

from bert_tf.checkpoints import tf_index
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import UserError, of_os_error
from bert_tf.runtime import files, head_records
from bert_tf.runtime.atomic_files import StrPath, atomic_folder, write_json
from bert_tf.runtime.lazy import tf
from bert_tf.runtime.settings import FLAG, TEXT, TEXTS, read_settings
from bert_tf.text import special_tokens, vocabulary

LABELS, TOKENIZER = "labels.json", "tokenizer_config.json"
MAX_LENGTH = "model_max_length"
SHORTEST, LONGEST = 3, 1 << 30  # tokens in a sequence; "no limit" is written as a very large number


@contextlib.contextmanager
def new_folder(folder: StrPath) -> Iterator[str]:
    """Yields a temporary folder to write into, which becomes `folder` at the end (see `atomic_folder`).

    Raises:
        UserError: the folder exists or cannot be written.
    """
    try:
        with atomic_folder(folder) as partial:
            yield partial
    except OSError as error:
        raise of_os_error(
            error,
            f"{folder} could not be written ({_reason(error)}); nothing was left there. Free some space or choose a "
            "writable folder.",
        ) from None


def _reason(error: OSError) -> str:
    """The reason without the text that libraries put around it."""
    full = os.strerror(errno.ENOSPC)
    return full if full in str(error) else error.strerror or (str(error).splitlines() or ["unknown"])[0]


def in_order_of_ids(ids: dict[str, Any] | None, file: str) -> list[str]:
    """The tokens in the order of their ids; UserError unless these are 0, 1, 2, ..."""
    if not ids:
        raise UserError(f"{file} has no vocabulary: fetch it again, or pass its vocab.txt.")
    tokens = {number: token for token, number in ids.items() if type(number) is int}
    if tokens.keys() != set(range(len(ids))):
        raise UserError(f"The ids in {file} are not 0 to {len(ids) - 1}, each once: pass its vocab.txt.")
    return [tokens[number] for number in range(len(ids))]


def read_safetensors(path: StrPath) -> dict[str, np.ndarray]:
    """{name: array} from a safetensors file; UserError if it is damaged or not such a file."""
    try:
        with files.local_copy(path) as local:
            return numpy.load_file(local)
    except (AttributeError, KeyError, TypeError) as error:  # how the library reports a type that NumPy lacks
        kind = getattr(error, "name", None) or error
        raise UserError(
            f"{path} contains numbers of an unreadable type ({kind}): save it in float32, float16 or bfloat16."
        ) from None
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path} cannot be read as safetensors ({error}): it may be cut short; fetch it again."
        ) from None


def write_safetensors(path: StrPath, arrays: Mapping[str, np.ndarray], *, framework: str) -> None:
    """Writes {name: contiguous array}; `framework` goes into the metadata ("pt" for Hugging Face names)."""
    try:
        numpy.save_file(dict(arrays), path, metadata={"format": framework})
        os.chmod(path, 0o644)  # the library writes files that nobody else can read
    except SafetensorError as error:  # a full disk, for instance
        raise OSError(str(error)) from None


def read_tensors(prefix: str, is_selected: Callable[[str], object]) -> dict[str, np.ndarray]:
    """{name: array} for the selected tensor names of a TensorFlow checkpoint; UserError if it is damaged."""
    try:
        tf_index.check(prefix)
        reader = tf.compat.v1.train.NewCheckpointReader(prefix)  # not load_checkpoint: it first looks for a folder
        names = sorted(name for name in reader.get_variable_to_shape_map() if is_selected(name))
        return {name: reader.get_tensor(name) for name in names}
    except Exception as error:  # a damaged file raises anything from DataLossError to IndexError
        reason = str(getattr(error, "message", error)).strip().splitlines() or [type(error).__name__]
        raise UserError(
            f"{prefix} cannot be read as a TensorFlow checkpoint ({reason[0]}): one of its files is missing or cut "
            "short; fetch it again."
        ) from None


def read_tokenizer_files(folder: str) -> dict[str, Any]:
    """The Checkpoint fields for the tokenizer, from vocab.txt and tokenizer_config.json; None for anything missing.

    "vocabulary", "lower_case", "special_tokens" as stored by `text.special_tokens`, and "max_seq_length".
    """
    path, values = os.path.join(folder, "vocab.txt"), read_settings(os.path.join(folder, TOKENIZER))
    return {
        "vocabulary": vocabulary.read(path) if files.exists(path) else None,
        "lower_case": values.value("do_lower_case", FLAG),
        "special_tokens": tuple(values.value(special_tokens.SETTING, TEXTS, [])),
        "max_seq_length": max_length_in(values),
    }


def max_length_in(values: Mapping[str, Any]) -> int | None:
    """The maximum number of tokens of a text or a pair, from tokenizer_config.json; None without such a limit."""
    length = values.get(MAX_LENGTH)
    if isinstance(length, bool) or not isinstance(length, int | float):
        return None
    return int(length) if SHORTEST <= length < LONGEST else None


def with_masked_lm_head(checkpoint: "Checkpoint", act: str, eps: float, library: str) -> "Checkpoint":
    """The checkpoint for a library with this activation and epsilon in its masked LM head: without a head that differs.

    Heads with the other form of GELU or a different epsilon stay because their values are close, with a warning.
    """
    own = checkpoint.config.of_masked_lm
    if "masked_lm/output_bias" not in checkpoint.weights or (own.hidden_act, own.layer_norm_eps) == (act, eps):
        return checkpoint
    if own.hidden_act != act and not (own.hidden_act.startswith("gelu_") and act.startswith("gelu_")):
        rest = {name: array for name, array in checkpoint.weights.items() if not name.startswith("masked_lm/")}
        return dataclasses.replace(checkpoint, weights=rest)
    logging.getLogger("bert_tf").warning(
        "%s computes the masked LM head with %s and epsilon %g, this model with %s and %g: results are close, not "
        "equal.",
        library,
        act,
        eps,
        own.hidden_act,
        own.layer_norm_eps,
    )
    return checkpoint


def write_tokenizer_files(folder: str, checkpoint: "Checkpoint", **settings: Any) -> None:
    """Writes vocab.txt, and tokenizer_config.json with more settings, if the checkpoint knows their content."""
    if checkpoint.max_seq_length is not None:
        settings = {MAX_LENGTH: checkpoint.max_seq_length, **settings}
    if checkpoint.vocabulary is not None:
        vocabulary.write(os.path.join(folder, "vocab.txt"), checkpoint.vocabulary)
    if checkpoint.lower_case is not None:
        settings = special_tokens.settings(checkpoint.lower_case, checkpoint.special_tokens) | settings
    known = (checkpoint.vocabulary, checkpoint.lower_case, checkpoint.max_seq_length)
    if settings and any(each is not None for each in known):
        write_json(os.path.join(folder, TOKENIZER), settings)


def read_head_file(folder: str, name: str = LABELS) -> dict[str, Any]:
    """The Checkpoint fields for its head, "labels", "kind" and "answers", as far as the file has them."""
    values = read_settings(os.path.join(folder, name))
    head_records.check_task(values)
    answers = dict(values) if values.get("host") else {}
    return {"labels": values.value("labels", TEXTS) or None, "kind": values.value("kind", TEXT), "answers": answers}


def write_head_file(folder: str, checkpoint: "Checkpoint") -> None:
    """Writes labels.json, if the checkpoint has labels or a kind of head."""
    if checkpoint.labels or checkpoint.kind:
        head = {"labels": list(checkpoint.labels or ()), "kind": checkpoint.kind}
        write_json(os.path.join(folder, LABELS), {**checkpoint.answers, **head})
