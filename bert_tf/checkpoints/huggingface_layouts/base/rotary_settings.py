"""Entries of config.json about rotary positions, and what is not supported of them."""

from collections.abc import Mapping
from typing import Any

from bert_tf.checkpoints.huggingface_layouts.base.layout import not_supported


def theta_of(rotation: Mapping[str, Any], default: Any) -> Any:
    """The base of a rotation, or the default; UserError for rotations that are scaled or partial."""
    if rotation.get("rope_type", "default") != "default":
        raise not_supported("rope_type", rotation["rope_type"], "default")
    if rotation.get("partial_rotary_factor", 1.0) != 1.0:
        raise not_supported("partial_rotary_factor", rotation["partial_rotary_factor"], "1.0")
    return rotation.get("rope_theta", default)


def check_no_scaling(values: Mapping[str, Any]) -> None:
    """Raises UserError for scaled rotations."""
    if values.get("rope_scaling") is not None:
        raise not_supported("rope_scaling", values["rope_scaling"], "none")


def check_same(values: Mapping[str, Any], name: str, other: str, default: Any) -> None:
    """Raises UserError unless two entries, of which a file may leave out some, are equal."""
    if values.get(name, default) != values.get(other, default):
        raise not_supported(name, values.get(name, default), f"that of {other}, {values.get(other, default)!r}")
