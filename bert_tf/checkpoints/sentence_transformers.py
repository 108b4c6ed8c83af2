"""How a model makes vectors of whole texts: modules.json and the pooling of a folder of sentence-transformers."""

import os

from bert_tf.checkpoints.checkpoint import SentenceVectors
from bert_tf.checkpoints.checkpoint_files import read_settings
from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.runtime.atomic_files import write_json
from bert_tf.runtime.json_files import require_json

MODULES, POOLING = "modules.json", "1_Pooling"
FLAGS = {  # in config.json of the pooling -> our name
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
    "pooling_mode_weightedmean_tokens": "weighted_mean",
    "pooling_mode_lasttoken": "last",
}
WORDS = {"weightedmean": "weighted_mean", "lasttoken": "last", "mean_sqrt_len_tokens": "mean_sqrt_len"}


def read(folder: str) -> SentenceVectors | None:
    """Reads a folder of sentence-transformers; None for another folder, UserError for a damaged file."""
    path = os.path.join(folder, MODULES)
    if not files.is_file(path):
        return None
    content = require_json(path, "a list of modules; fetch it again, or remove it", kind=list)
    try:
        modules = [(module["type"].split(".")[-1], os.fspath(module["path"])) for module in content]
        if not modules:
            raise ValueError("it is empty")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path} is not a list of modules ({error!r}): fetch it again, or remove it.") from None
    kinds = [kind for kind, _ in modules]
    others = [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]
    if others or kinds.count("Pooling") != 1:
        return SentenceVectors(" and ".join(others) or "no pooling", "Normalize" in kinds)
    values = read_settings(os.path.join(folder, dict(modules)["Pooling"], "config.json"))
    poolings = [name for flag, name in FLAGS.items() if values.get(flag)] or [str(values.get("pooling_mode"))]
    return SentenceVectors(" and ".join(WORDS.get(name, name) for name in poolings), "Normalize" in kinds)


def write(folder: str, vectors: SentenceVectors | None, hidden_size: int) -> None:
    """Writes the files with which sentence-transformers loads the folder too, if the pooling is known."""
    if vectors is None or not vectors.is_known:
        return
    paths = {"Transformer": "", "Pooling": POOLING} | ({"Normalize": "2_Normalize"} if vectors.normalize else {})
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, path) in enumerate(paths.items())
    ]
    write_json(os.path.join(folder, MODULES), modules)
    for path in filter(None, paths.values()):
        files.make_folder(os.path.join(folder, path))
    values = {"word_embedding_dimension": hidden_size}
    values |= {flag: name == vectors.pooling for flag, name in FLAGS.items()}
    write_json(os.path.join(folder, POOLING, "config.json"), values)
