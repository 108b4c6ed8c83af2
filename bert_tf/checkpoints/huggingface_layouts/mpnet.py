"""MPNet."""

from bert_tf.checkpoints.huggingface_layouts import roberta
from bert_tf.checkpoints.huggingface_layouts.base.layout import BERT_LAYER, NARROW, Layout
from bert_tf.checkpoints.name_tables import layers

LAYOUT = Layout(
    model_type="mpnet",
    classes="MPNet",
    prefix="mpnet.",
    names={
        **{ours: theirs for ours, theirs in roberta.LAYOUT.names.items() if "segment" not in ours},
        **layers(
            "encoder.layer.{i}",
            **{**BERT_LAYER, **{part: f"attention.attn.{part[0]}" for part in ("query", "key", "value")}}
            | {"project_out": "attention.attn.o", "attention_norm": "attention.LayerNorm"},
        ),
        "encoder/relative_attention_bias": "encoder.relative_attention_bias.weight",
    },
    of_texts=roberta.LAYOUT.of_texts,
    outside=roberta.LAYOUT.outside,
    constants={"relative_attention_num_buckets": 32, "pad_token_id": 1},
    written={"bos_token_id": 0, "eos_token_id": 2},
    left_out=(*NARROW, "type_vocab_size"),
    defaults={"vocab_size": 30527},
    may_be_causal=False,
    has_fixed_gelu=True,
)
