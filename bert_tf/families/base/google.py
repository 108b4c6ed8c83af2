"""Description of a family in the TF1 checkpoints from its authors' code at google-research."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from bert_tf.config.bert_config import BertConfig
from bert_tf.families.base.name_tables import Names, expand


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """TF1 checkpoints of a family.

    Attributes:
        config_file: the name of its configuration.
        gelu: the function that "gelu" means in that code.
        names: {canonical name: theirs}.
        written: additional entries of the configuration.
        own_table: the name of its token table, if no other family uses it.
        config_of: infers its configuration from the shapes of its weights, for archives without a file.
    """

    config_file: str
    gelu: str
    names: Names
    written: Callable[[BertConfig], dict[str, Any]] = lambda config: {}
    own_table: str = ""
    config_of: Callable[[Mapping[str, Any]], BertConfig] | None = None

    def table(self, config: BertConfig) -> dict[str, tuple[str, ...]]:
        """{canonical name: theirs} for all weights of an encoder and its heads."""
        return expand(self.names, config.layers_with_weights)
