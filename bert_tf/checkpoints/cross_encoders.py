"""Cross-encoders of sentence-transformers: the settings in their files."""

import os
from typing import Any

from bert_tf import heads
from bert_tf.checkpoints.sentence_transformers import CROSS_ENCODER, SentenceFolder
from bert_tf.heads.base import format_names
from bert_tf.heads.regression import Regression
from bert_tf.runtime.settings import TEXT, Settings, shortened

SETTINGS, ACTIVATION = "sentence_transformers", "activation_fn"  # in config.json, from versions 4 and 5
OLD_ACTIVATION = "sbert_ce_default_activation_function"  # from earlier versions
SINGLE = "Sigmoid"  # the default for one output
HARMLESS = ("Identity", "Softmax")  # for classes, which have probabilities in either case
USUAL: dict[str, Any] = {
    "transformer_task": "sequence-classification",
    "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
    "module_output_name": "scores",
}


def kind_of(folder: SentenceFolder, config: Settings, kind: str) -> tuple[str, str]:
    """The kind of a text head according to the files, and why it cannot be used, "" if it can.

    kind: the kind inferred only from the architecture and the number of labels, as for any other folder.
    """
    about = folder.about
    is_saved_as_one = about.get("model_type") == CROSS_ENCODER
    if not is_saved_as_one and SETTINGS not in config and OLD_ACTIVATION not in config:
        return kind, ""
    named = about.get(ACTIVATION) if is_saved_as_one else None
    named = named or config.inside(SETTINGS).value(ACTIVATION, TEXT) or config.get(OLD_ACTIVATION)
    is_single = kind == Regression.kind
    name = SINGLE if is_single else HARMLESS[0]
    if isinstance(named, str) and named.startswith("torch."):  # others get the default there
        name = named.rpartition(".")[2]
    own = format_names.kind_with("cross_encoder_activation", name)
    found = own if is_single else kind if name in HARMLESS else None
    reason = _unsupported(folder) if is_saved_as_one else ""
    if found is None or reason:
        return kind, f"because {reason or f'its activation_fn is {shortened(named)}'}, which is not supported"
    return found, ""


def _unsupported(folder: SentenceFolder) -> str:
    """Settings of a folder of version 5 or later that change scores, as a part of a sentence; "" if none do."""
    kinds = [kind for kind, _ in folder.modules]
    if kinds not in ([], ["Transformer"]):
        return f"its modules are {', '.join(kind.rpartition('.')[2] for kind in kinds)}"
    if folder.about.get("default_prompt_name"):
        return f"its default_prompt_name is {shortened(folder.about['default_prompt_name'])}"
    values = folder.of_encoder
    for name, value in values.items():
        if name not in ("max_seq_length", "do_lower_case", "unpad_inputs") and value not in (None, {}, USUAL.get(name)):
            return f"{name} is {shortened(value)} in {os.path.basename(str(values.source))}"
    return ""


def values_of(kind: str | None) -> dict[str, Any]:
    """The config.json entries that tell sentence-transformers the kind of head; {} for other kinds."""
    activation = heads.get(kind).format_names().cross_encoder_activation if kind else ""
    if not activation:
        return {}
    module = "linear" if activation == "Identity" else "activation"
    return {SETTINGS: {"version": "4.0.0", ACTIVATION: f"torch.nn.modules.{module}.{activation}"}}
