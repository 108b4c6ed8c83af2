"""The original's TF1 checkpoints: `bert_model.ckpt.index` and its data, beside `bert_config.json` and `vocab.txt`.

Names and shapes are those of google-research/bert `modeling.py` and `run_pretraining.py`.
"""

import glob
import logging
import os
import re

from bert_tf.checkpoints.checkpoint_files import (
    read_task_side,
    read_tensors,
    read_text_side,
    whole_folder,
    write_task_side,
    write_text_side,
)
from bert_tf.checkpoints.formats import Checkpoint
from bert_tf.config.bert_config import BertConfig
from bert_tf.model.weights import expand, translated, translated_back
from bert_tf.runtime.atomic_files import write_json
from bert_tf.training import checkpoint_paths

LAYER = "bert/encoder/layer_{i}/"
NAMES = {
    "encoder/embeddings/token_table": "bert/embeddings/word_embeddings",
    "encoder/embeddings/position_table": "bert/embeddings/position_embeddings",
    "encoder/embeddings/segment_table": "bert/embeddings/token_type_embeddings",
    "encoder/embeddings/norm/gamma": "bert/embeddings/LayerNorm/gamma",
    "encoder/embeddings/norm/beta": "bert/embeddings/LayerNorm/beta",
    "encoder/layers/{i}/attention/query_key_value/kernel": tuple(
        LAYER + f"attention/self/{part}/kernel" for part in ("query", "key", "value")
    ),
    "encoder/layers/{i}/attention/query_key_value/bias": tuple(
        LAYER + f"attention/self/{part}/bias" for part in ("query", "key", "value")
    ),
    "encoder/layers/{i}/attention/project_out/kernel": LAYER + "attention/output/dense/kernel",
    "encoder/layers/{i}/attention/project_out/bias": LAYER + "attention/output/dense/bias",
    "encoder/layers/{i}/attention_norm/gamma": LAYER + "attention/output/LayerNorm/gamma",
    "encoder/layers/{i}/attention_norm/beta": LAYER + "attention/output/LayerNorm/beta",
    "encoder/layers/{i}/feed_forward/expand/kernel": LAYER + "intermediate/dense/kernel",
    "encoder/layers/{i}/feed_forward/expand/bias": LAYER + "intermediate/dense/bias",
    "encoder/layers/{i}/feed_forward/contract/kernel": LAYER + "output/dense/kernel",
    "encoder/layers/{i}/feed_forward/contract/bias": LAYER + "output/dense/bias",
    "encoder/layers/{i}/feed_forward_norm/gamma": LAYER + "output/LayerNorm/gamma",
    "encoder/layers/{i}/feed_forward_norm/beta": LAYER + "output/LayerNorm/beta",
    "encoder/pooler/kernel": "bert/pooler/dense/kernel",
    "encoder/pooler/bias": "bert/pooler/dense/bias",
    "masked_lm/transform/kernel": "cls/predictions/transform/dense/kernel",
    "masked_lm/transform/bias": "cls/predictions/transform/dense/bias",
    "masked_lm/norm/gamma": "cls/predictions/transform/LayerNorm/gamma",
    "masked_lm/norm/beta": "cls/predictions/transform/LayerNorm/beta",
    "masked_lm/output_bias": "cls/predictions/output_bias",
    "next_sentence/kernel": "cls/seq_relationship/output_weights",
    "next_sentence/bias": "cls/seq_relationship/output_bias",
    "classifier/kernel": "output_weights",  # as run_classifier.py names them, at the top
    "classifier/bias": "output_bias",
    "span/kernel": "cls/squad/output_weights",
    "span/bias": "cls/squad/output_bias",
}
PREFIX = "bert_model.ckpt"
# State of optimizers and counters: never weights of a model.
NOT_WEIGHTS = re.compile(
    r"(.*/)?(global_step|(adam|lamb)_[mv]|\w*(Adam|LAMB)\w*Optimizer(_1)?|beta[12]_power|ExponentialMovingAverage)"
)
# In the names of the released folders (google-research/bert `tokenization.py: validate_case_matches_checkpoint`).
UNCASED, CASED = re.compile(r"uncased|chinese_L-|multilingual_L-"), re.compile(r"cased")


def recognizes(path):
    """The prefix of a checkpoint, its `.index` file, or the folder of either."""
    return _prefix(path) is not None


def read(path):
    """Reads weights, `bert_config.json` and `vocab.txt` beside them; "gelu" means the tanh approximation here.

    Casing is said by tokenizer_config.json if there is one, by the name of a released folder, or by capitals in the
    vocabulary; else it stays unknown.
    """
    prefix = _prefix(path)
    folder = os.path.dirname(os.path.abspath(prefix))
    config = BertConfig.from_json_file(os.path.join(folder, "bert_config.json"))
    arrays = read_tensors(prefix, lambda name: not NOT_WEIGHTS.fullmatch(name))
    weights, used = translated(expand(NAMES, config.num_hidden_layers), arrays, _is_transposed)
    weights.update((name, array) for name, array in arrays.items() if name not in used)
    vocabulary, lower_case = read_text_side(folder)
    if lower_case is None:
        lower_case = _casing(os.path.basename(folder), vocabulary)
    labels, kind = read_task_side(folder)
    return Checkpoint(
        config=config, weights=weights, vocabulary=vocabulary, lower_case=lower_case, labels=labels, kind=kind
    )


def labels(path):
    """The names of the labels that `write` left beside; the original has no place for them."""
    return read_task_side(os.path.dirname(os.path.abspath(_prefix(path))))[0]


def write(checkpoint, folder):
    """Writes `bert_model.ckpt.*` under the original's names, `bert_config.json` and `vocab.txt` as a new folder.

    Returns the names of weights that have no place in the format.
    """
    table = expand(NAMES, checkpoint.config.num_hidden_layers)
    arrays, used = translated_back(table, checkpoint.weights, _is_transposed)
    with whole_folder(folder) as beside:
        _write_arrays(os.path.join(beside, PREFIX), arrays)
        write_json(os.path.join(beside, "bert_config.json"), _config_values(checkpoint.config))
        write_text_side(beside, checkpoint)
        write_task_side(beside, checkpoint)
    return sorted(checkpoint.weights.keys() - used)


def _prefix(path):
    path = path.removesuffix(".index")
    if os.path.isfile(f"{path}.index"):
        # Our own runs are saved as ckpt-N; the native format reads them.
        return None if checkpoint_paths.is_one(path) else path
    found = [name.removesuffix(".index") for name in glob.glob(os.path.join(glob.escape(path), "*.ckpt*.index"))]
    return max(found, key=_age, default=None)


def _age(prefix):
    """Released weights before those of training (model.ckpt-N), of which the newest counts."""
    step = re.search(r"\.ckpt-(\d+)$", prefix)
    return (step is None, int(step[1]) if step else 0, prefix)


def _write_arrays(prefix, arrays):
    import tensorflow as tf

    names = sorted(arrays)
    try:
        # The op beneath tf.compat.v1.train.Saver: plain names, as the original's own checkpoints have them.
        tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tf.constant(arrays[name]) for name in names],
        )
    except tf.errors.OpError as error:  # a full disk, for instance
        raise OSError(error.message) from None


def _config_values(config):
    """The content of the original's `bert_config.json`, which has one GELU and one epsilon."""
    values = config.to_dict()
    if config.hidden_act == "gelu_tanh":
        values["hidden_act"] = "gelu"
    if config.hidden_act == "gelu_erf":
        logging.getLogger("bert_tf").warning(
            "bert_config.json says gelu_erf, as this model needs; the original's code has the tanh GELU only."
        )
    if config.layer_norm_eps == 1e-12:
        del values["layer_norm_eps"]
    if config.is_causal:
        logging.getLogger("bert_tf").warning(
            "This model is causal, as bert_config.json says; the original's code has none."
        )
    else:
        del values["is_causal"]
    return values


def _casing(folder_name, vocabulary):
    if UNCASED.search(folder_name) or CASED.search(folder_name):
        return bool(UNCASED.search(folder_name))
    pieces = [piece for piece in vocabulary or [] if not re.fullmatch(r"\[.*\]|<.*>", piece)]  # [CLS], <S>
    return False if any(piece != piece.lower() for piece in pieces) else None


def _is_transposed(name):
    """Output layers without a dense layer of their own are stored [out, in]."""
    return name.endswith("output_weights")
