"""The work of an export besides its network, in NumPy: texts to rows, numbers to answers. An open set of modules.

A module has `Stages(settings, about, tokenizer)`: settings are the `host_settings` of a task, about the content of
about.json. An instance has

  inputs                    {name: None, or the number of texts of an example that it takes}
  outputs                   names of some outputs, where these tell the kind of head
  labels_of(numbers)        how many labels these are of; only of modules whose answers are labels
  read(examples)            a Row for each row of the network, and what `answer` needs besides the numbers
  answer(numbers, rest)     {output: array [B, ...]} as the default signature of the SavedModel returns them, from
                            {output of the network: a list of R arrays, of tokens without padding}
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.runtime import plugins

Numbers = dict[str, list[np.ndarray]]


class Row(NamedTuple):
    """A row of the network: ids, the segment of each, and the positions whose tokens are predicted, if any are."""

    ids: list[int]
    segments: list[int]
    positions: Sequence[int] = ()


def stages(settings: dict[str, Any], about: dict[str, Any], tokenizer: Any) -> Any:
    """The stages of an export; UserError for a module from outside that is not trusted."""
    plugins.check_trusted(settings["stages"], "The export's host.json")
    return plugins.load(__name__, settings["stages"]).Stages(settings, about, tokenizer)
