"""The vectors of the words of a split, made once with a frozen encoder and kept on the disk.

N words, K layers, D hidden size, R rows, T slots in a row.
"""

import hashlib
import json
import logging
import os
import tempfile

import numpy as np
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.model import weights
from bert_tf.model.sequence_packing import PackingSpec, local_costs
from bert_tf.runtime import atomic_files
from bert_tf.runtime.progress import progress
from bert_tf.tasks.embeddings import features

ROWS_AT_ONCE = 32


def word_vectors(split, model, tokenizer, windows, choice, path):
    """float32 [N, K, D], a tensor in the memory of a file: of each word its first piece, zeros without.

    split: a tag_splits.Split, whose rows are read; model: a BertModel; choice: a LayerChoice. The file, which is made
    the first time, is `path`-DIGEST.npy, another one for other weights, data or layers; .json beside it says for which.
    """
    about = {
        "encoder": _digest(variable.value.numpy() for variable in weights.named(model.encoder).values()),
        "config": model.config.to_dict(),
        "precision": model.dtype_policy.compute_dtype,
        "data": _digest((split.ids, split.firsts, split.sizes, split.rows, split.slots)),
        "max_seq_length": windows.max_seq_length,
        "layers": list(choice.layers),
    }
    told = json.dumps(about, indent=2)
    path = f"{path}-{hashlib.sha256(told.encode()).hexdigest()[:16]}"
    array = _kept(f"{path}.npy")
    if array is None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        atomic_files.write_json(f"{path}.json", about, shared=True)
        with atomic_files.atomic_write(f"{path}.npy", shared=True) as partial:  # two runs may make the same vectors
            _make(split, model, tokenizer, windows, choice, partial)
        array = _kept(f"{path}.npy")
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())


def expect_folder(path):
    """Makes the folder where vectors are kept; UserError if it cannot be, or if nothing can be written there."""
    try:
        os.makedirs(path, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise UserError(f"feature_cache {path} cannot hold files ({error.strerror}): choose another folder.") from None


def _kept(path):
    """The array in a file, as far as it is looked at; None where there is none, or it was cut short."""
    try:
        return np.load(path, mmap_mode="c")  # copied only where it is written to, which it never is
    except FileNotFoundError:
        return None
    except (ValueError, OSError, EOFError) as error:
        logging.getLogger("bert_tf").warning("%s is damaged (%s): made anew.", path, error)
        return None


def _digest(arrays):
    found = hashlib.sha256()
    for array in arrays:
        found.update(repr((array.dtype.str, array.shape)).encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def _make(split, model, tokenizer, windows, choice, path):
    """Writes the vectors of all words; long rows first, so that rows of like length pass the encoder together."""
    shape = (len(split.rows), len(choice.layers), model.config.hidden_size)
    array = np.lib.format.open_memmap(path, "w+", np.float32, shape)  # zeros
    words = np.flatnonzero(split.rows >= 0)
    words = words[np.argsort(split.rows[words], kind="stable")]
    bounds = np.searchsorted(split.rows[words], np.arange(len(split.firsts) + 1))  # of each row's words
    order = np.argsort(-split.sizes, kind="stable")
    ids = tf.constant(split.ids)

    packing = PackingSpec.dynamic(local_costs())

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)] * 2, autograph=False)
    def states(firsts, sizes):
        rows = windows.rows(tokenizer, ids, firsts, sizes)
        return features.layer_vectors(
            model.encoder(rows, return_hidden_states=True, packing=packing)["hidden_states"], choice
        )

    with progress("vectors of words", len(order)) as report:
        for first in range(0, len(order), ROWS_AT_ONCE):
            rows = order[first : first + ROWS_AT_ONCE]
            found = states(split.firsts[rows], split.sizes[rows]).numpy()  # [rows, T, K, D]
            for number, row in enumerate(rows):
                here = words[bounds[row] : bounds[row + 1]]
                array[here] = found[number, split.slots[here]]
            report(first + len(rows))
    array.flush()
