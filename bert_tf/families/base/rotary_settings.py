"""Entries of config.json about rotary positions, and what is not supported of them."""

from typing import Any

from bert_tf.families.base.huggingface import check_one_of, not_supported
from bert_tf.runtime.settings import Settings, number, shortened


def theta_of(rotation: Settings, default: Any) -> Any:
    """The base of a rotation, or the default; UserError for rotations that are scaled or partial."""
    check_one_of(rotation, "rope_type", "default", ("default",))
    check_one_of(rotation, "partial_rotary_factor", 1.0, (None, 1.0))
    return rotation.value("rope_theta", number(above=0), default)


def check_no_scaling(values: Settings) -> None:
    """Raises UserError for scaled rotations."""
    if values.get("rope_scaling") is not None:
        raise not_supported(values, "rope_scaling", values["rope_scaling"], "none")


def check_same(values: Settings, name: str, other: str, default: Any) -> None:
    """Raises UserError unless two entries, of which a file may leave out some, are equal."""
    first, second = values.get(name, default), values.get(other, default)
    if first != second:
        raise not_supported(values, name, first, f"that of {other}, {shortened(second)}")
