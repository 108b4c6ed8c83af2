"""Cross-encoders of sentence-transformers: the settings in their files."""

import os
from typing import Any

from bert_tf import heads
from bert_tf.checkpoints.sentence_transformers import CROSS_ENCODER, ENCODERS, LIBRARY, MODULES, PROMPTS
from bert_tf.heads.base import format_names
from bert_tf.heads.regression import Regression
from bert_tf.runtime import files
from bert_tf.runtime.json_files import require_json
from bert_tf.runtime.settings import TEXT, Settings, read_settings, shortened

SETTINGS, ACTIVATION = "sentence_transformers", "activation_fn"  # in config.json, from versions 4 and 5
OLD_ACTIVATION = "sbert_ce_default_activation_function"  # from earlier versions
SINGLE = "Sigmoid"  # the default for one output
HARMLESS = ("Identity", "Softmax")  # for classes, which have probabilities in either case
USUAL: dict[str, Any] = {
    "transformer_task": "sequence-classification",
    "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
    "module_output_name": "scores",
}


def kind_of(folder: str, config: Settings, kind: str) -> tuple[str, str]:
    """The kind of a text head according to the files, and why it cannot be used, "" if it can.

    kind: the kind inferred only from the architecture and the number of labels, as for any other folder.
    """
    about = read_settings(os.path.join(folder, PROMPTS))
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
    reason = _unsupported(folder, about) if is_saved_as_one else ""
    if found is None or reason:
        return kind, f"because {reason or f'its activation_fn is {shortened(named)}'}, which is not supported"
    return found, ""


def _unsupported(folder: str, about: dict[str, Any]) -> str:
    """Settings of a folder of version 5 or later that change scores, as a part of a sentence; "" if none do."""
    path = os.path.join(folder, MODULES)
    modules = require_json(path, "a list of modules; fetch it again", kind=list) if files.is_file(path) else []
    types = [str(each.get("type")) for each in modules if isinstance(each, dict)]
    if types and not (len(types) == 1 and types[0].startswith(LIBRARY) and types[0].endswith(".Transformer")):
        return f"its modules are {', '.join(name.rpartition('.')[2] for name in types)}"
    if about.get("default_prompt_name"):
        return f"its default_prompt_name is {shortened(about['default_prompt_name'])}"
    file = next((path for name in ENCODERS if files.is_file(path := os.path.join(folder, name))), None)
    for name, value in (read_settings(file) if file else {}).items():
        if name not in ("max_seq_length", "do_lower_case", "unpad_inputs") and value not in (None, {}, USUAL.get(name)):
            return f"{name} is {shortened(value)} in {os.path.basename(str(file))}"
    return ""


def values_of(kind: str | None) -> dict[str, Any]:
    """The config.json entries that tell sentence-transformers the kind of head; {} for other kinds."""
    activation = heads.get(kind).format_names().cross_encoder_activation if kind else ""
    if not activation:
        return {}
    module = "linear" if activation == "Identity" else "activation"
    return {SETTINGS: {"version": "4.0.0", ACTIVATION: f"torch.nn.modules.{module}.{activation}"}}
