"""Encoders of TensorFlow's Model Garden (official.nlp), in its object-based checkpoints and on TensorFlow Hub.

The sizes of a model come from its weights, and its activation from its files if there are any.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf import heads
from bert_tf.checkpoints import tensorflow_weights
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.families.base.name_tables import expand, number_of_layers
from bert_tf.families.bert.about import MODEL_GARDEN
from bert_tf.heads.base import format_names
from bert_tf.heads.tags import Tags
from bert_tf.model.weights import to_canonical_names
from bert_tf.runtime import files, lazy
from bert_tf.runtime.settings import Settings, read_settings, shortened

yaml = lazy.module("yaml")
# The beginning of a name in the table MODEL_GARDEN; the names of enclosing models may precede it.
BEGIN = re.compile(
    r"(?:.*?/)??(?=(?:word_embeddings|position_embedding|type_embeddings|embeddings/layer_norm|"
    r"transformer/layer_\d+|pooler_transform|cls/predictions|predictions/transform/logits|[^/]+/(?:logits|pooler_dense))/)"
)
# Names in the first versions of models on TensorFlow Hub -> later ones.
OLDER = {
    re.compile(r".*embedding_postprocessor/(type|position)_embeddings"): r"\1_embeddings/embeddings",
    re.compile(r".*embedding_postprocessor/layer_norm/"): "embeddings/layer_norm/",
    re.compile(r"(.*/)?encoder/layer_(\d+)/"): r"transformer/layer_\2/",
    re.compile(r"/self_attention_output/"): "/self_attention/attention_output/",
    re.compile(r"position_embedding(s/embeddings|/position_embeddings)"): "position_embedding/embeddings",
}
LOGITS = re.compile(r"(.*)/logits/(kernel|bias)")
DENSE = "predictions/transform/logits"  # in the heads for questions and for tags, and in an older one for texts
NEXT_SENTENCE, SPAN = "next_sentence", "span_labeling"
CONFIG = "bert_config.json"
# Names in their configurations -> ours.
SIZES = {
    "num_layers": "num_hidden_layers",
    "inner_dim": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "hidden_activation": "hidden_act",
    "inner_activation": "hidden_act",
    "activation": "hidden_act",
    "dropout_rate": "hidden_dropout_prob",
    "output_dropout": "hidden_dropout_prob",
    "attention_dropout_rate": "attention_probs_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}


def read(prefix: str, folder: str) -> Checkpoint:
    """Reads an object-based checkpoint, without a tokenizer; labels of classes or tags are numbered.

    folder: the folder with bert_config.json, YAML or the metadata of a SavedModel, which are optional.

    Raises:
        UserError: a file is damaged, or the encoder is not supported.
    """
    variables = tensorflow_weights.read_objects(prefix)
    arrays, kind = _named(variables, prefix)
    config = _config(arrays, folder, prefix)
    flat = {name: _flat(name, array) for name, array in arrays.items()}
    weights, used = to_canonical_names(expand(MODEL_GARDEN, config.num_hidden_layers), flat, lambda name: False)
    weights.update((name, array) for name, array in flat.items() if name not in used)
    size = len(weights.get("classifier/bias", ()))
    kind = kind or (format_names.of_size(size) if size else None)
    labels = [f"LABEL_{number}" for number in range(size)] if kind in heads.kinds("is_labelled") else None
    return Checkpoint(config=config, weights=weights, labels=labels, kind=kind)


def _named(variables: Mapping[str, np.ndarray], prefix: str) -> tuple[dict[str, np.ndarray], str | None]:
    """{name in MODEL_GARDEN: array}, and the kind of a head that its weights do not determine."""
    arrays: dict[str, np.ndarray] = {}
    for name, array in variables.items():
        new = name
        for older, later in OLDER.items():
            new = older.sub(later, new)
        new = BEGIN.sub("", new, count=1)
        if new in arrays:
            raise UserError(
                f"{prefix} has several weights {new}, such as {name}: it has more than one encoder; save the one you "
                "want in its own checkpoint."
            )
        arrays[new] = array
    kind = None
    if f"{DENSE}/kernel" in arrays:
        whole = next(name for name in variables if name.endswith(f"{DENSE}/kernel"))
        is_of_texts = re.search(r"(sentence_prediction|classification)\w*/", whole) is not None
        is_span = tensorflow_weights.has_object(prefix, SPAN)
        kind = Tags.kind if not is_of_texts and not is_span else None
        head = SPAN if is_span else "classifier"
        arrays = {name.replace(f"{DENSE}/", f"{head}/logits/"): array for name, array in arrays.items()}
    of_texts = sorted({match[1] for match in map(LOGITS.fullmatch, arrays) if match} - {SPAN})
    own = [head for head in of_texts if head != NEXT_SENTENCE]
    if len(own) == 1:
        arrays = {name.replace(f"{own[0]}/logits/", "classifier/logits/"): array for name, array in arrays.items()}
    if len(of_texts) == 1:  # it may have its own pooler, which it reads instead of the encoder's
        for part in ("kernel", "bias"):
            pooler = arrays.pop(f"{of_texts[0]}/pooler_dense/{part}", None)
            arrays |= {} if pooler is None else {f"pooler_transform/{part}": pooler}
    return arrays, kind


def _flat(name: str, array: np.ndarray) -> np.ndarray:
    """An attention weight without the axis of heads."""
    if re.search(r"self_attention/(query|key|value)/kernel", name) and array.ndim == 3:
        return array.reshape(len(array), -1)
    if re.search(r"self_attention/(query|key|value)/bias", name) and array.ndim == 2:
        return array.reshape(-1)
    if name.endswith("self_attention/attention_output/kernel") and array.ndim == 3:
        return array.reshape(-1, array.shape[-1])
    return array


def _config(arrays: Mapping[str, np.ndarray], folder: str, prefix: str) -> BertConfig:
    layer = "transformer/layer_{i}"
    query, expand_kernel = f"{layer}/self_attention/query/kernel", f"{layer}/intermediate/kernel"
    expected = {
        "word_embeddings/embeddings": 2,
        "position_embedding/embeddings": 2,
        "type_embeddings/embeddings": 2,
        query.format(i=0): 3,
        expand_kernel.format(i=0): 2,
    }
    missing = [name for name, rank in expected.items() if name not in arrays or arrays[name].ndim != rank]
    if missing:
        found = ", ".join(list(arrays)[:3]) or "none"
        raise UserError(
            f"The variables of {prefix} ({found}) are not those of a BERT encoder of TensorFlow Hub or Model Garden, "
            f"which has {missing[0]}: pass the SavedModel or checkpoint of such an encoder; see docs/coming_from.md."
        )
    if any(name.startswith("embedding_projection/") for name in arrays):
        raise UserError(
            f"{prefix} has an encoder with narrow embeddings (embedding_projection), such as Model Garden's ALBERT, "
            "which is not supported: pass a BERT encoder, or an ALBERT of google-research/albert or transformers."
        )
    (vocab_size, width), (positions, _), (segments, _), (_, heads, _), (_, intermediate) = (
        arrays[name].shape for name in expected
    )
    sizes = {
        "vocab_size": vocab_size,
        "hidden_size": width,
        "num_hidden_layers": number_of_layers(query, arrays),
        "num_attention_heads": heads,
        "intermediate_size": intermediate,
        "max_position_embeddings": positions,
        "type_vocab_size": segments,
    }
    given = _described(folder)
    if given.get("norm_first"):
        raise UserError(f"{given.source}: norm_first is true; pre-norm encoders are not supported.")
    for name, size in sizes.items():
        if given.get(name, size) != size:
            raise UserError(
                f"{given.source}: {name} is {shortened(given[name])}, but the weights in {prefix} have {size}: pass "
                "the configuration that belongs to them."
            )
    return BertConfig.from_dict({**given, **sizes}, source=str(given.source))


def _described(folder: str) -> Settings:
    """The entries of bert_config.json, a YAML file or the metadata of a SavedModel, under our names; may be empty."""
    path = os.path.join(folder, CONFIG)
    if files.is_file(path):
        return read_settings(path)
    names = [os.path.join(folder, name) for name in sorted(files.names(folder)) if name.endswith((".yaml", ".yml"))]
    sources = [(name, _read_yaml(name)) for name in names]
    metadata = tensorflow_weights.metadata(folder)
    sources.append((str(metadata.source), dict(metadata)))
    for source, content in sources:
        found = _encoder_in(content)
        if found:
            values = {SIZES.get(name, name): value for name, value in found.items()}
            act = values.get("hidden_act")
            # A function without a name is the approximation, the default of the class.
            values["hidden_act"] = act.rpartition(">")[2] if isinstance(act, str) else "gelu"
            known = BertConfig.__dataclass_fields__.keys() | {"norm_first"}
            return Settings(
                {name: value for name, value in values.items() if name in known and value is not None}, source
            )
    return Settings({}, path)


def _read_yaml(path: str) -> Any:
    try:
        with files.open_binary(path) as file:
            return yaml.safe_load(file.read())
    except Exception as error:  # from YAML, or from decoding text
        raise UserError(f"{path} cannot be read as YAML ({type(error).__name__}): correct or remove it.") from None


def _encoder_in(content: Any) -> dict[str, Any] | None:
    """The first object with the sizes of an encoder."""
    if isinstance(content, dict):
        if {"num_layers", "hidden_size", "num_attention_heads"} <= content.keys():
            return content
        content = list(content.values())
    found = map(_encoder_in, content) if isinstance(content, list) else ()
    return next((each for each in found if each), None)
