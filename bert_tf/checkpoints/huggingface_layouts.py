"""How `transformers` stores each architecture: names of weights, classes and configuration, a row of LAYOUTS each."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from bert_tf.config.bert_config import BertConfig

Names = Mapping[str, str | tuple[str, ...]]

ACTIVATIONS = {"gelu_erf": "gelu", "gelu_tanh": "gelu_new"}  # their "gelu" uses the exact error function
# Heads of ours -> how the name of a class of transformers ends that has them.
CLASSES = {
    ("masked_lm", "next_sentence"): "ForPreTraining",
    ("masked_lm",): "ForMaskedLM",
    ("next_sentence",): "ForNextSentencePrediction",
    ("classifier",): "ForSequenceClassification",
    ("replaced_token",): "ForPreTraining",
    ("span",): "ForQuestionAnswering",
    (): "Model",
}
# Ends of the names of classes -> kinds of heads that the names of the weights do not tell.
KINDS = {"ForMultipleChoice": "choice", "ForQuestionAnswering": "span", "ForTokenClassification": "tags"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """An architecture of transformers.

    Attributes:
        model_type: its name in config.json.
        classes: how the names of its classes begin.
        prefix: of the names of the encoder's weights in a model with a head.
        names: {canonical name: theirs} without the prefix. Several of theirs are concatenated to ours; "{i}" stands for
            every layer.
        outside: how names begin that have no prefix in a model with a head.
        of_texts: names that differ in a classifier of texts, unlike in other models; with all of these in a file, it is
            one.
        renamed: {field of BertConfig: theirs}.
        constants: further entries of config.json, which a config.json that is read must not contradict.
        written: further entries that it may.
        left_out: fields of BertConfig that it has no entry for.
    """

    model_type: str
    classes: str
    prefix: str
    names: Names
    outside: tuple[str, ...]
    of_texts: Names = dataclasses.field(default_factory=dict)
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    constants: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    written: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def config_values(self, config: BertConfig) -> dict[str, Any]:
        """The entries of config.json for a configuration."""
        values = {name: value for name, value in config.to_dict().items() if name not in self.left_out}
        values["hidden_act"] = ACTIVATIONS.get(config.hidden_act, config.hidden_act)
        values["max_position_embeddings"] += config.encoder_traits.position_offset
        values["embedding_size"] = config.embedding_width
        return {self.renamed.get(name, name): value for name, value in values.items()} | {
            **self.constants,
            **self.written,
        }

    def config(self, encoder: str, values: Mapping[str, Any]) -> BertConfig:
        """The configuration in a config.json; "gelu" means the exact error function."""
        values = {name: value for name, value in values.items() if name not in self.left_out}
        values |= {ours: values[theirs] for ours, theirs in self.renamed.items() if theirs in values}
        config = BertConfig.from_dict({**values, "encoder": encoder}, gelu="gelu_erf")
        offset = config.encoder_traits.position_offset
        return dataclasses.replace(
            config,
            max_position_embeddings=config.max_position_embeddings - offset,
            embedding_size=None if config.embedding_size == config.hidden_size else config.embedding_size,
        )


def _layers(layer: str, **parts: str) -> dict[str, str | tuple[str, ...]]:
    """The names of the weights of a layer, all of whose parts are modules with a weight and a bias."""
    modules = {
        "attention/query_key_value": tuple(parts.pop(part) for part in ("query", "key", "value")),
        "attention/project_out": (parts.pop("project_out"),),
        "attention_norm": (parts.pop("attention_norm"),),
        "feed_forward/expand": (parts.pop("expand"),),
        "feed_forward/contract": (parts.pop("contract"),),
        "feed_forward_norm": (parts.pop("feed_forward_norm"),),
    }
    names: dict[str, str | tuple[str, ...]] = {}
    for ours, theirs in modules.items():
        weight, bias = ("gamma", "beta") if ours.endswith("norm") else ("kernel", "bias")
        names[f"encoder/layers/{{i}}/{ours}/{weight}"] = tuple(f"{layer}.{part}.weight" for part in theirs)
        names[f"encoder/layers/{{i}}/{ours}/{bias}"] = tuple(f"{layer}.{part}.bias" for part in theirs)
    return names


def _module(ours: str, theirs: str) -> dict[str, str]:
    """The names of the weight and the bias of a dense layer or, if its name says so, of a LayerNorm."""
    weight, bias = ("gamma", "beta") if ours.endswith("norm") else ("kernel", "bias")
    return {f"{ours}/{weight}": f"{theirs}.weight", f"{ours}/{bias}": f"{theirs}.bias"}


BERT_LAYER = {
    **{part: f"attention.self.{part}" for part in ("query", "key", "value")},
    "project_out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "expand": "intermediate.dense",
    "contract": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
TABLES = {
    "encoder/embeddings/token_table": "embeddings.word_embeddings.weight",
    "encoder/embeddings/position_table": "embeddings.position_embeddings.weight",
    "encoder/embeddings/segment_table": "embeddings.token_type_embeddings.weight",
}
BERT_HEADS = {
    **_module("masked_lm/transform", "cls.predictions.transform.dense"),
    **_module("masked_lm/norm", "cls.predictions.transform.LayerNorm"),
    "masked_lm/output_bias": "cls.predictions.bias",
    **_module("next_sentence", "cls.seq_relationship"),
}
TASK_HEADS = {
    **_module("classifier", "classifier"),
    **_module("span", "qa_outputs"),
    "crf/potentials": "crf.potentials",  # which transformers ignores
}
NARROW = ("embedding_size", "num_hidden_groups")
OUTSIDE = ("cls.", "classifier.", "qa_outputs.", "crf.")

# {encoder: Layout}
LAYOUTS = {
    "bert": Layout(
        model_type="bert",
        classes="Bert",
        prefix="bert.",
        names={
            **TABLES,
            **_module("encoder/embeddings/norm", "embeddings.LayerNorm"),
            **_layers("encoder.layer.{i}", **BERT_LAYER),
            **_module("encoder/pooler", "pooler.dense"),
            **BERT_HEADS,
            **TASK_HEADS,
        },
        outside=OUTSIDE,
        left_out=NARROW,
    ),
    "distilbert": Layout(
        model_type="distilbert",
        classes="DistilBert",
        prefix="distilbert.",
        names={
            **{ours: theirs for ours, theirs in TABLES.items() if "segment" not in ours},
            **_module("encoder/embeddings/norm", "embeddings.LayerNorm"),
            **_layers(
                "transformer.layer.{i}",
                query="attention.q_lin",
                key="attention.k_lin",
                value="attention.v_lin",
                project_out="attention.out_lin",
                attention_norm="sa_layer_norm",
                expand="ffn.lin1",
                contract="ffn.lin2",
                feed_forward_norm="output_layer_norm",
            ),
            **_module("encoder/pooler", "pre_classifier"),
            **_module("masked_lm/transform", "vocab_transform"),
            **_module("masked_lm/norm", "vocab_layer_norm"),
            "masked_lm/output_bias": "vocab_projector.bias",
            **TASK_HEADS,
        },
        outside=("pre_classifier.", "classifier.", "qa_outputs.", "vocab_"),
        renamed={
            "hidden_size": "dim",
            "num_hidden_layers": "n_layers",
            "num_attention_heads": "n_heads",
            "intermediate_size": "hidden_dim",
            "hidden_act": "activation",
            "hidden_dropout_prob": "dropout",
            "attention_probs_dropout_prob": "attention_dropout",
        },
        constants={"sinusoidal_pos_embds": False},
        left_out=(*NARROW, "type_vocab_size", "layer_norm_eps"),
    ),
    "roberta": Layout(
        model_type="roberta",
        classes="Roberta",
        prefix="roberta.",
        names={
            **TABLES,
            **_module("encoder/embeddings/norm", "embeddings.LayerNorm"),
            **_layers("encoder.layer.{i}", **BERT_LAYER),
            **_module("encoder/pooler", "pooler.dense"),
            **_module("masked_lm/transform", "lm_head.dense"),
            **_module("masked_lm/norm", "lm_head.layer_norm"),
            "masked_lm/output_bias": "lm_head.bias",
            **TASK_HEADS,
        },
        of_texts={**_module("encoder/pooler", "classifier.dense"), **_module("classifier", "classifier.out_proj")},
        outside=("lm_head.", "classifier.", "qa_outputs."),
        constants={"pad_token_id": 1},
        written={"bos_token_id": 0, "eos_token_id": 2},
        left_out=NARROW,
    ),
    "albert": Layout(
        model_type="albert",
        classes="Albert",
        prefix="albert.",
        names={
            **TABLES,
            **_module("encoder/embeddings/norm", "embeddings.LayerNorm"),
            **_module("encoder/embeddings/projection", "encoder.embedding_hidden_mapping_in"),
            **_layers(
                "encoder.albert_layer_groups.{i}.albert_layers.0",
                **{part: f"attention.{part}" for part in ("query", "key", "value")},
                project_out="attention.dense",
                attention_norm="attention.LayerNorm",
                expand="ffn",
                contract="ffn_output",
                feed_forward_norm="full_layer_layer_norm",
            ),
            **_module("encoder/pooler", "pooler"),
            **_module("masked_lm/transform", "predictions.dense"),
            **_module("masked_lm/norm", "predictions.LayerNorm"),
            "masked_lm/output_bias": "predictions.bias",
            **_module("next_sentence", "sop_classifier.classifier"),
            **TASK_HEADS,
        },
        outside=("predictions.", "sop_classifier.", "classifier.", "qa_outputs."),
        constants={"inner_group_num": 1},
        written={"bos_token_id": 2, "eos_token_id": 3},
    ),
    "electra": Layout(
        model_type="electra",
        classes="Electra",
        prefix="electra.",
        names={
            **TABLES,
            **_module("encoder/embeddings/norm", "embeddings.LayerNorm"),
            **_module("encoder/embeddings/projection", "embeddings_project"),
            **_layers("encoder.layer.{i}", **BERT_LAYER),
            **_module("encoder/pooler", "sequence_summary.summary"),
            **_module("masked_lm/transform", "generator_predictions.dense"),
            **_module("masked_lm/norm", "generator_predictions.LayerNorm"),
            "masked_lm/output_bias": "generator_lm_head.bias",
            **_module("replaced_token/transform", "discriminator_predictions.dense"),
            **_module("replaced_token/output_layer", "discriminator_predictions.dense_prediction"),
            **TASK_HEADS,
        },
        of_texts={**_module("encoder/pooler", "classifier.dense"), **_module("classifier", "classifier.out_proj")},
        outside=("sequence_summary.", "generator_", "discriminator_", "classifier.", "qa_outputs."),
        left_out=("num_hidden_groups",),
    ),
    "pre_ln_bert": Layout(
        model_type="megatron-bert",
        classes="MegatronBert",
        prefix="bert.",
        names={
            **TABLES,
            **_layers(
                "encoder.layer.{i}", **BERT_LAYER | {"attention_norm": "attention.ln", "feed_forward_norm": "ln"}
            ),
            **_module("encoder/norm", "encoder.ln"),
            **_module("encoder/pooler", "pooler.dense"),
            **BERT_HEADS,
            **TASK_HEADS,
        },
        outside=OUTSIDE,
        left_out=NARROW,
    ),
}
BY_TYPE = {layout.model_type: encoder for encoder, layout in LAYOUTS.items()}
