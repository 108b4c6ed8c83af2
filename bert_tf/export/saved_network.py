"""The network of an export: the function on rows in its SavedModel, without its model's code."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from bert_tf.errors import UserError
from bert_tf.export import host, loaded_model
from bert_tf.export.tensorflow_network import TensorFlowNetwork
from bert_tf.heads.vectors.vector_choice import VectorChoice


class SavedNetwork(TensorFlowNetwork):
    """A Network of a SavedModel.

    Attributes:
        signatures: {name: function on strings} in the export.
    """

    def __init__(self, folder: str, settings: dict[str, Any], jit_compile: str = "auto", loaded: Any = None) -> None:
        """Loads the SavedModel in a folder; starts TensorFlow.

        settings: content of host.json. jit_compile: see TensorFlowNetwork. loaded: the SavedModel if already loaded.
        Raises UserError if it is damaged.
        """
        loaded = loaded or loaded_model.load(folder)
        network = getattr(loaded, "network", {})
        name = "planned" if "planned" in network else "packed"  # older exports have both
        if name not in network:
            raise UserError(f"The SavedModel in {folder} has no functions of rows: export it again.")
        self.signatures, self._loaded = dict(loaded.signatures), loaded  # which keeps the variables alive
        super().__init__(network[name], folder, settings, jit_compile, takes_tables=name == "planned")
        (self._concrete,) = network[name].concrete_functions

    def zeros(self) -> host.Numbers:
        """Numbers for a row of a single token, all 0."""
        outputs = self._concrete.structured_outputs
        shapes = {name: [size or 1 for size in spec.shape[1:]] for name, spec in outputs.items()}
        return {name: [np.zeros(shape, np.float32)] for name, shape in shapes.items()}

    def of_vectors(self, choice: VectorChoice) -> Self:
        """See `Network`."""
        raise UserError(
            f"The SavedModel in {self.source} returns only its own vectors: load the checkpoint in it without engine."
        )
