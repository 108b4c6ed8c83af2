"""Encoder families, a folder each, so that every head and task can be compared across them.

`about.py` describes a family without TensorFlow: `TRAITS`, and if it has such checkpoints, `HUGGINGFACE`, `GOOGLE`,
`KERAS_HUB` and `MODEL_GARDEN`, its names and settings in these layouts. `layer.py` has its layer `Encoder`, a
BaseEncoder with `token_table` and `encode`; a family without this file uses BERT's.
"""

import importlib
from typing import Any

from bert_tf.config.encoder_traits import PACKAGE, names


def having(name: str) -> dict[str, Any]:
    """{family: its value of a name in `about.py`}, for the families that have it."""
    modules = {family: importlib.import_module(f"{PACKAGE}.{family}.about") for family in names()}
    return {family: getattr(module, name) for family, module in modules.items() if hasattr(module, name)}
