"""The classes of KerasHub for the encoders here: the paths of their weights, their sizes and what they compute with.

Paths are those of `keras_files`, with a number for every layer; those in a task begin with "task/".
"""

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf.checkpoints import name_tables
from bert_tf.checkpoints.name_tables import KERAS_FILE, Names, layers
from bert_tf.config.bert_config import BertConfig
from bert_tf.model.weights import expand

TASK, BACKBONE = "task/", "Backbone"
CLASSIFIERS = ("TextClassifier", "Classifier")  # the second is that of older presets
MASKED_LM, EMBEDDER = "MaskedLM", "TextEmbedder"
ROLES = (BACKBONE, *CLASSIFIERS, MASKED_LM, EMBEDDER)
HEAD_EPSILON = 1e-5  # of the LayerNorm in every head for masked LM
GELUS = ("gelu_erf", "gelu_tanh")
SIZES = {  # fields of BertConfig -> arguments of a backbone
    "vocab_size": "vocabulary_size",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "hidden_size": "hidden_dim",
    "intermediate_size": "intermediate_dim",
    "hidden_dropout_prob": "dropout",
    "max_position_embeddings": "max_sequence_length",
}
SEGMENTS, NARROW = {"type_vocab_size": "num_segments"}, {"embedding_size": "embedding_dim"}
FIRST_LAYER = re.compile(r"(layers/\w+_encoder)(?=/)")  # has no number, and the second 1
ATTENTION = re.compile(r".*/self_attention_layer/(\w+)_dense/vars/(\d)")
FROM_TASK = re.compile(r"layers/\w+_backbone/(?=layers/)")  # what a backbone's paths have before them in a `.keras`


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """KerasHub's classes for an encoder.

    Attributes:
        classes: how their names begin.
        names: {canonical name: path}, several paths where query, key and value are one matrix here.
        sizes: {field of BertConfig: argument of the backbone}.
        hidden_act, layer_norm_eps: of the backbone, which has no arguments for them.
        masked_lm_act: of the head for masked LM.
        pooler_activation: of the pooler, if it is another one than here; the pooler is then left out.
        lacks_segment: whether the only segment, which the encoder has here, is in the table of positions.
        settings: {entry of BertConfig.settings: the only value that the backbone can have}.
    """

    classes: str
    names: Names
    sizes: Mapping[str, str] = dataclasses.field(default_factory=lambda: SIZES | SEGMENTS)
    hidden_act: str = "gelu_tanh"
    layer_norm_eps: float = 1e-12
    masked_lm_act: str = "gelu_erf"
    pooler_activation: str = ""
    lacks_segment: bool = False
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def table(self, config: BertConfig) -> dict[str, tuple[str, ...]]:
        """{canonical name: paths} of a model of that configuration."""
        names = self.names
        if config.encoder == "electra" and config.embedding_width == config.hidden_size:
            names = {ours: theirs for ours, theirs in names.items() if "projection" not in ours}
        return expand(names, config.layers_with_weights)


module = functools.partial(name_tables.module, endings=KERAS_FILE)


def _backbone(tokens: str, positions: str, layer: str = "transformer_encoder") -> Names:
    """The paths in all backbones. tokens, positions: of their tables, "" for no positions."""
    return {
        "encoder/embeddings/token_table": f"layers/{tokens}/vars/0",
        **({"encoder/embeddings/position_table": f"layers/{positions}/vars/0"} if positions else {}),
        **module("encoder/embeddings/norm", "layers/layer_normalization"),
        **layers(
            f"layers/{layer}_{{i}}",
            KERAS_FILE,
            query="self_attention_layer/query_dense",
            key="self_attention_layer/key_dense",
            value="self_attention_layer/value_dense",
            project_out="self_attention_layer/output_dense",
            attention_norm="self_attention_layer_norm",
            expand="feedforward_intermediate_dense",
            contract="feedforward_output_dense",
            feed_forward_norm="feedforward_layer_norm",
        ),
    }


SEGMENT_TABLE: Names = {"encoder/embeddings/segment_table": "layers/embedding/vars/0"}
SEPARATE = _backbone("reversible_embedding", "position_embedding") | SEGMENT_TABLE
TOGETHER = _backbone("token_and_position_embedding/token_embedding", "token_and_position_embedding/position_embedding")
PROJECTED = (
    SEPARATE | module("encoder/embeddings/projection", "layers/dense") | module("encoder/pooler", "layers/dense_1")
)
MASKED_LM_HEAD: Names = {
    **module("masked_lm/transform", f"{TASK}layers/masked_lm_head/intermediate_dense"),
    **module("masked_lm/norm", f"{TASK}layers/masked_lm_head/intermediate_layer_norm"),
    "masked_lm/output_bias": f"{TASK}layers/masked_lm_head/vars/0",
}
CLASSIFIER = module("classifier", f"{TASK}layers/dense")
POOLED_CLASSIFIER = module("encoder/pooler", f"{TASK}layers/dense") | module("classifier", f"{TASK}layers/dense_1")
ROBERTA = Layout(
    classes="Roberta",
    names=TOGETHER | MASKED_LM_HEAD | POOLED_CLASSIFIER,
    sizes=SIZES,
    hidden_act="gelu_erf",
    layer_norm_eps=1e-5,
    lacks_segment=True,
)
LAYOUTS: Mapping[str, Layout] = {  # of encoders
    "bert": Layout(
        classes="Bert",
        names=SEPARATE | module("encoder/pooler", "layers/dense") | MASKED_LM_HEAD | CLASSIFIER,
    ),
    "distilbert": Layout(
        classes="DistilBert", names=TOGETHER | MASKED_LM_HEAD | POOLED_CLASSIFIER, sizes=SIZES, hidden_act="gelu_erf"
    ),
    "roberta": ROBERTA,
    "xlm_roberta": dataclasses.replace(ROBERTA, classes="XLMRoberta"),
    "albert": Layout(
        classes="Albert",
        names=PROJECTED | MASKED_LM_HEAD | CLASSIFIER,
        sizes=SIZES | SEGMENTS | NARROW | {"num_hidden_groups": "num_groups"},
        masked_lm_act="gelu_tanh",
    ),
    "electra": Layout(
        classes="Electra",
        names={ours: theirs for ours, theirs in PROJECTED.items() if "pooler" not in ours},
        sizes=SIZES | SEGMENTS | NARROW | {"vocab_size": "vocab_size"},
        pooler_activation="tanh",
    ),
    "deberta_v2": Layout(
        classes="DebertaV3",
        names=_backbone("reversible_embedding", "", "disentangled_attention_encoder")
        | {"encoder/relative_table": "layers/relative_embedding/vars/0"}
        | module("encoder/relative_norm", "layers/relative_embedding/layer_norm")
        | MASKED_LM_HEAD
        | POOLED_CLASSIFIER,
        sizes=SIZES,
        hidden_act="gelu_erf",
        layer_norm_eps=1e-7,
        settings={
            "pos_att_type": "p2c|c2p",
            "share_att_key": True,
            "norm_rel_ebd": "layer_norm",
            "position_biased_input": False,
            "conv_kernel_size": 0,
        },
    ),
}
CLASS = re.compile(rf"keras_(?:hub|nlp)>({'|'.join(layout.classes for layout in LAYOUTS.values())})({'|'.join(ROLES)})")


def class_of(name: str) -> tuple[str, str] | None:
    """The encoder and the role, one of ROLES, of a registered class; None for others."""
    found = CLASS.fullmatch(name)
    if found is None:
        return None
    return next(encoder for encoder, layout in LAYOUTS.items() if layout.classes == found[1]), found[2]


def path_here(path: str, *, in_task: bool) -> str:
    """The path of `keras_files` as the tables here have it. in_task: whether it is in the file of a task."""
    inside = FROM_TASK.sub("", path)
    return TASK * (in_task and inside == path) + FIRST_LAYER.sub(r"\1_0", inside)


def flat(name: str, array: np.ndarray) -> np.ndarray:
    """Joins the heads of attention: kernels [D, H, K] and [H, K, D] -> [D, D], biases [H, K] -> [D]."""
    found = ATTENTION.fullmatch(name)
    if found is None:
        return array
    if found[2] == "1":
        return array.reshape(-1)
    return array.reshape(-1, array.shape[-1]) if found[1] == "output" else array.reshape(len(array), -1)
