"""The flags of a command line, read into a dataclass of options (`config.options`): the only module that asks absl."""

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from absl import flags as absl_flags

from bert_tf.config import flag_parsers
from bert_tf.config.options import Options, choices_of, fields_of

DEFINERS: dict[Any, Callable[..., Any]] = {
    bool: absl_flags.DEFINE_bool,
    int: absl_flags.DEFINE_integer,
    str: absl_flags.DEFINE_string,
}
Kind = TypeVar("Kind", bound=Options)


def define(kind: type[Options]) -> None:
    """Defines a flag for each flag of a dataclass."""
    owner = sys.argv[0]
    for name, field in fields_of(kind).items():
        default = field.default
        if choices_of(field.metadata):
            absl_flags.DEFINE_flag(flag_parsers.ChoiceFlag(name, default, field.metadata), module_name=owner)
        elif field.metadata["words"] or field.type in (float, float | None):
            kind_of_number = flag_parsers.IntegerOrWord if field.type is int else flag_parsers.FloatOrWord
            parser = kind_of_number(field.metadata["words"])
            serializer: Any = absl_flags.ArgumentSerializer()
            absl_flags.DEFINE(parser, name, default, field.metadata["help"], serializer=serializer, module_name=owner)
        else:
            DEFINERS[field.type](name, default, field.metadata["help"], module_name=owner)
        for alias in field.metadata["aliases"]:
            absl_flags.DEFINE_alias(alias, name, module_name=owner)


def read(kind: type[Kind]) -> Kind:
    """Returns the dataclass with the flags that were parsed."""
    given = {name: absl_flags.FLAGS[name].value for name in fields_of(kind) if absl_flags.FLAGS[name].present}
    return kind.of(given, command=(os.path.basename(sys.argv[0]), *sys.argv[1:]))
