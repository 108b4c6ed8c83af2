"""An export that answers a text or two in a process of its own: on the CPU, by TensorFlow's C library alone.

`import tensorflow` takes most of the time of such a process.
"""

import contextlib

import numpy as np

from bert_tf.errors import UserError, reason_of
from bert_tf.export import graph_operations, loaded_model, text_function
from bert_tf.export.loaded_model import Export
from bert_tf.export.text_function import TextFunction
from bert_tf.runtime import files, tensorflow_c, tensorflow_startup


def load(folder: str) -> "Export | QuickExport":
    """Loads an export: as an `Export` where the C library is missing, or where it cannot load this one."""
    library = tensorflow_c.library_path()
    if library and not files.is_remote(folder):
        expected = OSError, AttributeError, KeyError, tensorflow_c.TensorFlowCError
        with tensorflow_startup.no_messages(), contextlib.suppress(*expected):
            return QuickExport(library, folder)
    return Export(folder, jit_compile="false")


class QuickExport(TextFunction):
    """The signature `serving_default` of a SavedModel.

    Attributes:
        folder, labels, task, head: as those of an `Export`.
    """

    def __init__(self, library: str, folder: str) -> None:
        """Loads the folder. library: `tensorflow_c.library_path`. Raises what `load` expects where it cannot.

        UserError if it does more than compute, see `export.graph_operations`.
        """
        graph_operations.check(folder)
        self._session = tensorflow_c.Session(library, folder, loaded_model.text_operations())
        self.source = self.folder = folder
        self._spec = self._session.signatures["serving_default"]
        shapes = {name: spec.shape for name, spec in self._spec.inputs.items() if spec.is_string and spec.shape}
        shapes = {name: shapes[name] for name in self._spec.inputs}
        self.inputs, self.has_order = text_function.inputs_in_order(shapes, loaded_model.declared_inputs(folder))
        self.labels, self.task = loaded_model.labels_and_task(folder)
        self.head = loaded_model.head_of(folder, self._spec.outputs)

    def _run(self, columns: dict[str, list]) -> "dict[str, np.ndarray]":
        feeds = {self._spec.inputs[name]: texts for name, texts in columns.items()}
        try:
            values = self._session.run(feeds, list(self._spec.outputs.values()))
        except tensorflow_c.TensorFlowCError as error:
            if error.code == tensorflow_c.RESOURCE_EXHAUSTED:
                raise MemoryError from None
            raise UserError(f"The export {self.source} failed: {reason_of(error)}.") from None
        return dict(zip(self._spec.outputs, values, strict=True))
