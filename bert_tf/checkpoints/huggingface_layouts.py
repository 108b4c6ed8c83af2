"""How `transformers` stores each architecture: names of weights, classes and configuration, a row of LAYOUTS each."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from bert_tf.checkpoints import huggingface_settings
from bert_tf.checkpoints.checkpoint_files import shortened
from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.model.weights import expand

Names = Mapping[str, str | tuple[str, ...]]

ACTIVATIONS = {"gelu_erf": "gelu", "gelu_tanh": "gelu_new"}  # their "gelu" uses the exact error function
# Entries of config.json that change what a model computes -> the only value that is supported.
NOT_SUPPORTED: Mapping[str, Any] = {
    "position_embedding_type": "absolute",
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "pruned_heads": {},
    "quantization_config": None,
}
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
        defaults: what its class has for entries that a config.json leaves out, where BertConfig has something else.
        may_be_causal: whether it has `is_decoder`; the others ignore it.
        of_spans: names of the head that finds answers, where it has that of the classifier's.
        absent: the beginnings of canonical names that a model of some configuration does not have.
        older: {how a name begins in some files: how it begins in others}.
        ends: {heads of ours: how the name of a class ends that has them}.
        read, write: between a config.json and entries under the names of this class, see `huggingface_settings`.
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
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    may_be_causal: bool = True
    of_spans: Names = dataclasses.field(default_factory=dict)
    absent: Callable[[BertConfig], tuple[str, ...]] = lambda config: ()
    older: Mapping[str, str] = dataclasses.field(default_factory=dict)
    ends: Mapping[tuple[str, ...], str] = dataclasses.field(default_factory=lambda: CLASSES)
    read: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    write: Callable[[Mapping[str, Any]], dict[str, Any]] = dict

    def table(self, config: BertConfig, *, is_of_texts: bool, is_of_spans: bool) -> dict[str, tuple[str, ...]]:
        """{canonical name: theirs} of a model of that configuration."""
        names = {**self.names, **(self.of_texts if is_of_texts else {})}
        if is_of_spans and self.of_spans:
            names = {ours: theirs for ours, theirs in names.items() if theirs not in self.of_spans.values()}
            names |= self.of_spans
        table, absent = expand(names, config.layers_with_weights), self.absent(config)
        return {ours: theirs for ours, theirs in table.items() if not ours.startswith(absent)}

    def renamed_arrays(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays of a file with the names of `older` as those that `names` has, unless these are there too."""
        found = dict(arrays)
        for name in arrays:
            begin = next((each for each in self.older if name.startswith(each)), None)
            current = name if begin is None else self.older[begin] + name.removeprefix(begin)
            if current not in found:
                found[current] = found.pop(name)
        return found

    def config_values(self, config: BertConfig) -> dict[str, Any]:
        """The entries of config.json for a configuration."""
        values = {name: value for name, value in config.to_dict().items() if name not in self.left_out}
        values["hidden_act"] = ACTIVATIONS.get(config.hidden_act, config.hidden_act)
        values["max_position_embeddings"] += config.encoder_traits.position_offset
        values["embedding_size"] = config.embedding_width
        values = {self.renamed.get(name, name): value for name, value in values.items()}
        return self.write(values) | {**self.constants, **self.written}

    def config(self, encoder: str, values: Mapping[str, Any]) -> BertConfig:
        """The configuration in a config.json; "gelu" means the exact error function."""
        values = {name: value for name, value in values.items() if name not in self.left_out}
        values["is_causal"] = self.may_be_causal and values.get("is_decoder", False)
        values = {**self.defaults, **self.read(values)}
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
        defaults={"vocab_size": 30522},
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
        defaults={"vocab_size": 30522, "n_layers": 6},
        may_be_causal=False,
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
        defaults={"vocab_size": 50265},
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
        defaults={
            "vocab_size": 30000,
            "embedding_size": 128,
            "hidden_size": 4096,
            "num_attention_heads": 64,
            "intermediate_size": 16384,
            "hidden_act": "gelu_new",
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        },
        may_be_causal=False,
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
        constants={"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"},
        left_out=("num_hidden_groups",),
        defaults={
            "vocab_size": 30522,
            "embedding_size": 128,
            "hidden_size": 256,
            "num_attention_heads": 4,
            "intermediate_size": 1024,
        },
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
        defaults={
            "vocab_size": 29056,
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
        },
    ),
    "modern_bert": Layout(
        model_type="modernbert",
        classes="ModernBert",
        prefix="model.",
        names={
            "encoder/embeddings/token_table": "embeddings.tok_embeddings.weight",
            "encoder/embeddings/norm/gamma": "embeddings.norm.weight",
            "encoder/layers/{i}/attention/query_key_value/kernel": "layers.{i}.attn.Wqkv.weight",
            "encoder/layers/{i}/attention/project_out/kernel": "layers.{i}.attn.Wo.weight",
            "encoder/layers/{i}/attention_norm/gamma": "layers.{i}.attn_norm.weight",
            "encoder/layers/{i}/feed_forward/expand/kernel": "layers.{i}.mlp.Wi.weight",
            "encoder/layers/{i}/feed_forward/contract/kernel": "layers.{i}.mlp.Wo.weight",
            "encoder/layers/{i}/feed_forward_norm/gamma": "layers.{i}.mlp_norm.weight",
            "encoder/norm/gamma": "final_norm.weight",
            "encoder/pooler/dense/kernel": "head.dense.weight",
            "encoder/pooler/norm/gamma": "head.norm.weight",
            "masked_lm/output_bias": "decoder.bias",
            **_module("classifier", "classifier"),
            "crf/potentials": "crf.potentials",
        },
        of_spans=_module("span", "classifier"),
        absent=lambda config: ("encoder/layers/0/attention_norm/gamma",),
        outside=("head.", "decoder.", "classifier.", "crf."),
        renamed={
            "hidden_act": "hidden_activation",
            "layer_norm_eps": "norm_eps",
            "hidden_dropout_prob": "mlp_dropout",
            "attention_probs_dropout_prob": "attention_dropout",
        },
        constants={
            **dict.fromkeys(("norm_bias", "attention_bias", "mlp_bias", "classifier_bias"), False),
            **dict.fromkeys(("decoder_bias", "tie_word_embeddings"), True),
        },
        left_out=(*NARROW, "type_vocab_size", "position_embedding_type"),
        defaults={
            "vocab_size": 50368,
            "num_hidden_layers": 22,
            "intermediate_size": 1152,
            "max_position_embeddings": 8192,
            "norm_eps": 1e-5,
            "mlp_dropout": 0.0,
            "attention_dropout": 0.0,
            "pad_token_id": 50283,
            "type_vocab_size": 1,
        },
        may_be_causal=False,
        read=huggingface_settings.read_modern_bert,
        write=huggingface_settings.write_modern_bert,
    ),
    "nomic_bert": Layout(
        model_type="nomic_bert",
        classes="NomicBert",
        prefix="nomic_bert.",
        names={
            "encoder/embeddings/token_table": "embeddings.word_embeddings.weight",
            "encoder/embeddings/segment_table": "embeddings.token_type_embeddings.weight",
            **_module("encoder/embeddings/norm", "emb_ln"),
            "encoder/layers/{i}/attention/query_key_value/kernel": "encoder.layers.{i}.attn.Wqkv.weight",
            "encoder/layers/{i}/attention/project_out/kernel": "encoder.layers.{i}.attn.out_proj.weight",
            **_module("encoder/layers/{i}/attention_norm", "encoder.layers.{i}.norm1"),
            "encoder/layers/{i}/feed_forward/expand/kernel": (
                "encoder.layers.{i}.mlp.fc12.weight",
                "encoder.layers.{i}.mlp.fc11.weight",
            ),
            "encoder/layers/{i}/feed_forward/contract/kernel": "encoder.layers.{i}.mlp.fc2.weight",
            **_module("encoder/layers/{i}/feed_forward_norm", "encoder.layers.{i}.norm2"),
            **_module("encoder/pooler", "pooler.dense"),
            **_module("masked_lm/transform", "cls.predictions.transform.dense"),
            **_module("masked_lm/norm", "cls.predictions.transform.layer_norm"),
            "masked_lm/output_bias": "cls.predictions.bias",
            **TASK_HEADS,
        },
        outside=OUTSIDE,
        constants={
            **dict.fromkeys(("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "prenorm", "parallel_block"), False),
            **dict.fromkeys(
                ("rotary_emb_interleaved", "use_rms_norm", "causal", "scale_attn_by_inverse_layer_idx"), False
            ),
            **dict.fromkeys(("rotary_scaling_factor", "rotary_emb_scale_base"), None),
            "rotary_emb_fraction": 1.0,
        },
        left_out=(*NARROW, "position_embedding_type"),
        defaults={
            "vocab_size": 30528,
            "hidden_act": "silu",
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "max_position_embeddings": 2048,
        },
        may_be_causal=False,
        read=huggingface_settings.read_nomic_bert,
        write=huggingface_settings.write_nomic_bert,
    ),
}
LAYOUTS["mpnet"] = Layout(
    model_type="mpnet",
    classes="MPNet",
    prefix="mpnet.",
    names={
        **{ours: theirs for ours, theirs in LAYOUTS["roberta"].names.items() if "segment" not in ours},
        **_layers(
            "encoder.layer.{i}",
            **{**BERT_LAYER, **{part: f"attention.attn.{part[0]}" for part in ("query", "key", "value")}}
            | {"project_out": "attention.attn.o", "attention_norm": "attention.LayerNorm"},
        ),
        "encoder/relative_attention_bias": "encoder.relative_attention_bias.weight",
    },
    of_texts=LAYOUTS["roberta"].of_texts,
    outside=LAYOUTS["roberta"].outside,
    constants={"relative_attention_num_buckets": 32, "pad_token_id": 1},
    written={"bos_token_id": 0, "eos_token_id": 2},
    left_out=(*NARROW, "type_vocab_size"),
    defaults={"vocab_size": 30527},
    may_be_causal=False,
)
LAYOUTS["deberta_v2"] = Layout(
    model_type="deberta-v2",
    classes="DebertaV2",
    prefix="deberta.",
    names={
        **{ours: theirs for ours, theirs in TABLES.items() if "segment" not in ours},
        **_module("encoder/embeddings/norm", "embeddings.LayerNorm"),
        "encoder/relative_table": "encoder.rel_embeddings.weight",
        **_module("encoder/relative_norm", "encoder.LayerNorm"),
        **_layers(
            "encoder.layer.{i}",
            **BERT_LAYER | {part: f"attention.self.{part}_proj" for part in ("query", "key", "value")},
        ),
        **_module("encoder/layers/{i}/attention/position_query", "encoder.layer.{i}.attention.self.pos_query_proj"),
        **_module("encoder/layers/{i}/attention/position_key", "encoder.layer.{i}.attention.self.pos_key_proj"),
        **_module("encoder/layers/0/convolution", "encoder.conv.conv"),
        **_module("encoder/layers/0/convolution/norm", "encoder.conv.LayerNorm"),
        **_module("encoder/pooler", "pooler.dense"),
        **{ours: theirs for ours, theirs in BERT_HEADS.items() if "masked_lm" in ours},
        **_module("replaced_token/norm", "mask_predictions.LayerNorm"),
        **_module("replaced_token/transform", "mask_predictions.dense"),
        **_module("replaced_token/output_layer", "mask_predictions.classifier"),
        **TASK_HEADS,
    },
    outside=("pooler.", "mask_predictions.", *OUTSIDE),
    constants={
        "relative_attention": True,
        "type_vocab_size": 0,
        "pooler_hidden_act": "gelu",
        "conv_groups": 1,
        "tie_word_embeddings": True,
        "pad_token_id": 0,
    },
    written={"legacy": True},
    left_out=(*NARROW, "type_vocab_size", "position_embedding_type"),
    defaults={
        "vocab_size": 128100,
        "hidden_size": 1536,
        "num_hidden_layers": 24,
        "num_attention_heads": 24,
        "intermediate_size": 6144,
        "layer_norm_eps": 1e-7,
    },
    may_be_causal=False,
    absent=huggingface_settings.absent_of_deberta_v2,
    older={
        "lm_predictions.lm_head.bias": "cls.predictions.bias",
        "lm_predictions.lm_head.": "cls.predictions.transform.",
        "mask_predictions.classifer.": "mask_predictions.classifier.",
    },
    ends=CLASSES | {("replaced_token",): "Model"},  # transformers has no class with that head
    read=huggingface_settings.read_deberta_v2,
    write=huggingface_settings.write_deberta_v2,
)
for _name, _type, _classes in (("xlm_roberta", "xlm-roberta", "XLMRoberta"), ("camembert", "camembert", "Camembert")):
    LAYOUTS[_name] = dataclasses.replace(
        LAYOUTS["roberta"], model_type=_type, classes=_classes, defaults={"vocab_size": 30522}
    )
BY_TYPE = {layout.model_type: encoder for encoder, layout in LAYOUTS.items()}


def encoder_of(values: Mapping[str, Any], path: str) -> str:
    """The encoder that a config.json describes: by its type, in older files by the class that wrote it, or BERT.

    Raises UserError where this package has no such encoder.
    """
    architectures = values.get("architectures") or [""]
    written_by = str(architectures[0]) if isinstance(architectures, list) else ""
    by_class = {
        layout.classes: layout.model_type for layout in LAYOUTS.values() if written_by.startswith(layout.classes)
    }
    kind = values.get("model_type") or (by_class[max(by_class, key=len)] if by_class else "bert")
    if not isinstance(kind, str) or kind not in BY_TYPE:
        raise UserError(f"{path} describes a model of type {shortened(kind)}; expected one of {', '.join(BY_TYPE)}.")
    return BY_TYPE[kind]
