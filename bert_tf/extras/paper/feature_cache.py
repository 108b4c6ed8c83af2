"""Word vectors of a split, computed once with a frozen encoder and stored on disk.

N words, K layers, D hidden size, R rows, T positions per row.
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from bert_tf.errors import of_os_error
from bert_tf.heads.tags.tag_rows import TagRows
from bert_tf.heads.vectors import features
from bert_tf.heads.vectors.vector_choice import LayerChoice
from bert_tf.model import weights
from bert_tf.model.heads import BertModel
from bert_tf.model.packing import PackingSpec, local_costs
from bert_tf.runtime import atomic_files, files
from bert_tf.runtime.progress import progress

ROWS_AT_ONCE = 32
DAY = 86_400  # seconds within which a run that is writing vectors changes their file


def word_vectors(split: TagRows, model: BertModel, choice: LayerChoice, path: str) -> tf.Tensor:
    """Word vectors, float32 [N, K, D], memory-mapped: each word's first token, zeros for words without tokens.

    The file, created on first use, is `path`-DIGEST.npy; the digest depends on weights, data and layers.
    `path`-DIGEST.json lists the content of the digest.
    """
    about = {
        "encoder": _digest(variable.value.numpy() for variable in weights.variables_by_name(model.encoder).values()),
        "config": model.config.to_dict(),
        "precision": model.dtype_policy.compute_dtype,
        "data": _digest((split.ids, split.firsts, split.sizes, split.rows, split.positions)),
        "max_seq_length": split.windows.max_seq_length,
        "layers": list(choice.layers),
    }
    content = json.dumps(about, indent=2)
    path = f"{path}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    array = _load(f"{path}.npy")
    if array is None:
        folder, name = os.path.split(path)
        files.make_folder(folder)
        atomic_files.remove_abandoned(folder, [f"{name}.npy"], seconds=DAY)
        atomic_files.write_json(f"{path}.json", about, shared=True)
        with atomic_files.atomic_write(f"{path}.npy", shared=True) as partial:  # two runs may write the same vectors
            _write_vectors(split, model, choice, partial)
        with files.local_copy(f"{path}.npy") as local:
            array = np.load(local, mmap_mode="c")
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())


def check_folder(path: str) -> None:
    """Creates the folder for vectors; raises UserError if that fails or the folder is not writable."""
    try:
        files.check_writable(path)
    except OSError as error:
        sentence = f"feature_cache {path} is not writable ({error.strerror}): choose another folder."
        raise of_os_error(error, sentence) from None


def _load(path: str) -> np.ndarray | None:
    """The array in a file, memory-mapped; None for a missing or truncated file."""
    try:
        with files.local_copy(path) as local:  # the map outlives the copy's file name
            return np.load(local, mmap_mode="c")  # copy-on-write, but never written to
    except FileNotFoundError:
        return None
    except (ValueError, OSError, EOFError) as error:
        logging.getLogger("bert_tf").warning("%s is damaged (%s): computed again.", path, error)
        return None


def _digest(arrays: Iterable[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr((array.dtype.str, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _write_vectors(split: TagRows, model: BertModel, choice: LayerChoice, path: str) -> None:
    """Writes the vectors of all words; the encoder processes rows sorted by length."""
    shape = (len(split.rows), len(choice.layers), model.config.hidden_size)
    array = np.lib.format.open_memmap(path, "w+", np.float32, shape)  # zeros
    words = np.flatnonzero(split.rows >= 0)
    words = words[np.argsort(split.rows[words], kind="stable")]
    bounds = np.searchsorted(split.rows[words], np.arange(len(split.firsts) + 1))  # of each row's words
    order = np.argsort(-split.sizes, kind="stable")
    ids = tf.constant(split.ids)
    packing = PackingSpec(local_costs())

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)] * 2, autograph=False)
    def states(firsts: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
        rows = split.windows.rows(split.tokenizer, ids, firsts, sizes)
        encoded = model.encoder(rows, return_hidden_states=True, packing=packing)
        return features.layer_vectors(encoded["hidden_states"], choice)

    with progress("computing vectors, sentences", len(order)) as report:
        for first in range(0, len(order), ROWS_AT_ONCE):
            rows = order[first : first + ROWS_AT_ONCE]
            vectors = states(split.firsts[rows], split.sizes[rows]).numpy()  # [rows, T, K, D]
            for number, row in enumerate(rows):
                row_words = words[bounds[row] : bounds[row + 1]]
                array[row_words] = vectors[number, split.positions[row_words]]
            report(first + len(rows))
    array.flush()
