"""Description of a family in KerasHub: the paths of its weights, its sizes and its constants.

Paths are as in `checkpoints.keras_files`, with a number for every layer; paths in a task begin with "task/".
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bert_tf.config.bert_config import BertConfig
from bert_tf.families.base import name_tables
from bert_tf.families.base.name_tables import KERAS_FILE, Names, expand, layers
from bert_tf.runtime.settings import Settings

TASK = "task/"
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """KerasHub's classes for an encoder.

    Attributes:
        classes: the prefix of their names.
        names: {canonical name: path}, several paths if query, key and value are one matrix here.
        sizes: {field of BertConfig: argument of the backbone}.
        hidden_act, layer_norm_eps: the backbone's values, which are not arguments.
        masked_lm_act: the activation of the masked LM head.
        pooler_activation: the pooler's activation if it differs from ours; the pooler is then dropped.
        lacks_segment: whether the only segment, which the encoder has here, is in the position table.
        has_embedder: whether KerasHub has a text embedder for it.
        settings: BertConfig.settings from the arguments of a backbone.
        arguments: additional arguments of a backbone.
        refused: reasons why a model cannot be a backbone.
    """

    classes: str
    names: Names
    sizes: Mapping[str, str] = dataclasses.field(default_factory=lambda: SIZES | SEGMENTS)
    hidden_act: str = "gelu_tanh"
    layer_norm_eps: float = 1e-12
    masked_lm_act: str = "gelu_erf"
    pooler_activation: str = ""
    lacks_segment: bool = False
    has_embedder: bool = False
    settings: Callable[[Settings], dict[str, Any]] = lambda given: {}
    arguments: Callable[[BertConfig], dict[str, Any]] = lambda config: {}
    refused: Callable[[BertConfig], Iterable[str]] = lambda config: ()

    def table(self, config: BertConfig) -> dict[str, tuple[str, ...]]:
        """{canonical name: paths} for a model with that configuration."""
        names, is_projected = self.names, config.encoder_traits.embedding_options.get("is_projected")
        if not is_projected and config.embedding_width == config.hidden_size:
            names = {ours: theirs for ours, theirs in names.items() if "projection" not in ours}
        return expand(names, config.layers_with_weights)


module = functools.partial(name_tables.module, endings=KERAS_FILE)


def backbone(tokens: str, positions: str, layer: str = "transformer_encoder") -> Names:
    """The paths in all backbones. tokens, positions: names of their tables, "" for no positions."""
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
SEPARATE = backbone("reversible_embedding", "position_embedding") | SEGMENT_TABLE
TOGETHER = backbone("token_and_position_embedding/token_embedding", "token_and_position_embedding/position_embedding")
PROJECTED = SEPARATE | module("encoder/embeddings/projection", "layers/dense")
MASKED_LM_HEAD: Names = {
    **module("masked_lm/transform", f"{TASK}layers/masked_lm_head/intermediate_dense"),
    **module("masked_lm/norm", f"{TASK}layers/masked_lm_head/intermediate_layer_norm"),
    "masked_lm/output_bias": f"{TASK}layers/masked_lm_head/vars/0",
}
CLASSIFIER = module("classifier", f"{TASK}layers/dense")
POOLED_CLASSIFIER = module("encoder/pooler", f"{TASK}layers/dense") | module("classifier", f"{TASK}layers/dense_1")
