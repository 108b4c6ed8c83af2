"""The work of an export around its network, in NumPy: texts to rows, numbers to answers. An open set of modules.

A module has `Stages(settings, about, tokenizer)`: settings are the `host_settings` of a task, about is the content of
about.json. An instance has

  inputs                    {name: None, or the number of texts per example that it takes}
  outputs                   names of some outputs, if these determine the kind of head
  labels_of(numbers)        the number of labels that these cover; only in modules that answer with labels
  read(examples)            a Row for each row of the network, and anything else that `answer` needs besides the numbers
  answer(numbers, rest)     {output: array [B, ...]} as returned by the default signature of the SavedModel, from
                            {output of the network: a list of R arrays, without padding tokens}
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.runtime import plugins

Numbers = dict[str, list[np.ndarray]]


class Row(NamedTuple):
    """A row for the network: ids, the segment of each, and the positions to predict tokens for, if any."""

    ids: list[int]
    segments: list[int]
    positions: Sequence[int] = ()


def stages(settings: dict[str, Any], about: dict[str, Any], tokenizer: Any) -> Any:
    """The stages of an export; UserError for an untrusted third-party module."""
    plugins.check_trusted(settings["stages"], "The export's host.json")
    return plugins.load(__name__, settings["stages"]).Stages(settings, about, tokenizer)
