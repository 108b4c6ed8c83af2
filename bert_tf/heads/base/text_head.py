"""TextHead: what is predicted about a text, a pair or choices, from the column of labels to the outputs of the export.

B rows of a batch, C classes or choices, F texts of an example, n examples.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from bert_tf.config.train_config import LossSettings
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.base.answers import BaseAnswer
from bert_tf.heads.base.head import Head
from bert_tf.runtime.lazy import tf
from bert_tf.text.truncation import LONGEST_FIRST

if TYPE_CHECKING:
    import numpy as np

    from bert_tf.heads.base.table_options import TableOptions
    from bert_tf.heads.base.text_windows import Windows
    from bert_tf.text.tokenizer import Tokenizer

INPUTS = ("text_a", "text_b")  # inputs of the export, named as in the original's InputExample
TRAINING_LOSS = "training_loss"  # the metric that is minimised where settings change the loss
MAX_NAMED = 12  # labels that an error names


class TextHead(Head):
    """A head on the vector of a text, of windows of it, or of choices, and what it is trained and scored by.

    loss_name: of the loss. loss_settings: what training changes about it.
    scores: names in `metrics.SCORES`, by default those of a task.
    criteria: the scores that can decide which model is the best.
    missing: values of a label column that stand for no label. has_names: whether labels are named by the data.
    file_flags: flags that say how a table is read. calibration_file: see `tasks.task.FineTuningTask`.
    labels: names of the outputs. size: last dimension of the head. rows_per_example: rows of the encoder.
    """

    is_pooled = True
    functional_form = "TEXTS"
    loss_name: ClassVar[str]
    loss_settings = LossSettings()
    scores: ClassVar[tuple[str, ...]]
    missing: ClassVar[tuple[str | None, ...]] = (None, "")
    has_names: ClassVar[bool] = False
    reads_windows: ClassVar[bool] = True
    file_flags: ClassVar[tuple[str, ...]] = ("text_columns", "label_column", "label_separator")
    calibration_file: ClassVar[str] = ""
    labels: tuple[str, ...] = ()
    size: int = 1
    rows_per_example: int = 1

    @property
    def criteria(self) -> tuple[str, ...]:
        """The scores that can decide which model is best."""
        return self.scores

    # From a table's flags, from an export

    @classmethod
    def check_columns(cls, columns: Sequence[str], options: TableOptions) -> None:
        """Raises UserError unless the columns of a table are one text or a pair, and a label."""
        if len(columns) not in (1, 2) or not options.label_column:
            raise UserError(
                "Name the columns of the table: text_columns=TEXT or text_columns=FIRST,SECOND and label_column."
            )

    @classmethod
    def names_in(cls, examples: Sequence[Example], options: TableOptions) -> Collection[str | None]:
        """The names of the labels of a table, where `has_names`: a set, or a list in the order of the outputs."""
        return {single_label(example) for example in examples}

    @classmethod
    @abc.abstractmethod
    def from_table(cls, labels: Sequence[str], columns: Sequence[str], options: TableOptions) -> Self:
        """The head of a table with these columns; labels: names in the order of the outputs, where `has_names`."""

    @classmethod
    @abc.abstractmethod
    def from_about(cls, about: Mapping[str, Any]) -> Self:
        """The head of an export, from what its about.json says: see `about`."""

    def about(self) -> dict[str, Any]:
        """What about.json says besides labels and kind."""
        return {}

    # Labels

    @abc.abstractmethod
    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """Labels as numbers [n, ...]; UserError with its place for a label that is none of this head."""

    @abc.abstractmethod
    def unknown(self, count: int) -> np.ndarray:
        """Placeholders of the shape of `encode`, for examples without labels."""

    def class_weights(self, labels: np.ndarray, text: str) -> np.ndarray:
        """Loss weights, float32 [n], from the flag class_weights; UserError where there are no classes.

        text: "balanced" lets every class count alike; else see `loss_settings.parse_weights`.
        """
        raise UserError("class_weights needs one class for each text; leave it out.")

    def label_counts(self, labels: np.ndarray) -> np.ndarray | None:
        """Number of examples of each label, [C]; None where labels have no names."""
        return None

    @abc.abstractmethod
    def names(self, predicted: np.ndarray) -> list[str]:
        """Labels, or predicted ones, as the label column writes them."""

    # The model

    @abc.abstractmethod
    def create_model(self, config: Any, **options: Any) -> Any:
        """The Keras model; options: dtype, window_pooling."""

    def inputs(
        self,
        tokenizer: Tokenizer,
        texts: tf.Tensor,
        max_seq_length: int,
        windows: Windows | None = None,
        truncation: str = LONGEST_FIRST,
    ) -> dict[str, tf.Tensor]:
        """String [B, F] -> inputs of the model, as `tokenizer.pack` or, with windows, `pack_windows` makes them."""
        from bert_tf.heads.base.text_windows import pack_windows
        from bert_tf.text.tokenizer import pack

        segments = tf.unstack(texts, axis=1)
        if windows is None:
            return pack(tokenizer, segments, max_seq_length, truncation=truncation)
        return pack_windows(tokenizer, segments, max_seq_length, windows)

    @abc.abstractmethod
    def loss(self, outputs: Mapping[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        """Float32 [B]."""

    @property
    def objective(self) -> str:
        """The metric that is minimised."""
        return self.loss_name if self.loss_settings.is_plain else TRAINING_LOSS

    def training_losses(self, outputs: Mapping[str, tf.Tensor], labels: tf.Tensor) -> dict[str, tf.Tensor]:
        """{metric: float32 [B]}: the loss, and where settings change it what is minimised instead."""
        return {self.loss_name: self.loss(outputs, labels)}

    def with_loss(self, settings: LossSettings) -> Self:
        """The head with a changed loss; UserError where it has no such."""
        if not settings.is_plain:
            raise UserError("label_smoothing, focal_gamma and pos_weight need classes or labels; leave them out.")
        return self

    def fitted_to(self, labels: np.ndarray) -> Self:
        """The head with what its loss needs to know of the labels of the training data."""
        return self

    def correct(self, outputs: Mapping[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor | None:
        """1 where the prediction is correct, float32 [B]; None where predictions are no labels."""
        return None

    # Predictions

    @abc.abstractmethod
    def predictions(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """What is kept of the outputs, and what the export returns: [B, ...]."""

    @abc.abstractmethod
    def predicted(self, predictions: Mapping[str, np.ndarray]) -> np.ndarray:
        """Predicted labels as `encode` numbers them, of predictions as arrays."""

    @abc.abstractmethod
    def losses(self, predictions: Mapping[str, np.ndarray], labels: np.ndarray) -> np.ndarray:
        """The loss of each example, float64 [n], from predictions alone."""

    @abc.abstractmethod
    def prediction(self, predictions: Mapping[str, np.ndarray], number: int, label: str) -> BaseAnswer:
        """The answer for one example, whose predicted label is called so."""

    def details(self, labels: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
        """{"per_class", "confusion" or "most_confused"} as far as it applies; see `training.metrics`."""
        return {}

    # The export

    def input_shapes(self, texts: int) -> dict[str, list[int]]:
        """{input of the export: its shape without the batch}; texts: of an example, 1 or 2."""
        return {name: [] for name in INPUTS[:texts]}

    def input_values(self, texts: np.ndarray) -> dict[str, list]:
        """{input of the export: values} of texts, string [n, F]."""
        return {name: texts[:, number].tolist() for number, name in enumerate(INPUTS[: texts.shape[1]])}

    def token_counts(self, counts: np.ndarray) -> np.ndarray:
        """Tokens of each segment of the longest row of an example; counts: tokens of its texts, int32 [n, F]."""
        return counts

    def label_names(self, predictions: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The name of the predicted label as an output of the export: {"label": string [B]}, or {}."""
        return {}

    # Confidence

    def with_temperature(self, temperature: float | None) -> Self:
        """The head whose logits are divided by this before the softmax; None: by the one that fits the best.

        Raises UserError where there is no softmax, unless it is 1.
        """
        if temperature != 1:
            raise UserError("temperature needs one class for each text, a choice, or questions; leave it out.")
        return self

    def confidence(self, predictions: Mapping[str, np.ndarray], labels: np.ndarray) -> dict[str, Any]:
        """See `training.confidence.report`; {} where there is no softmax."""
        return {}

    # Thresholds, see `tasks.task.FineTuningTask`

    def calibrated(self, predictions: Mapping[str, np.ndarray], labels: np.ndarray) -> tuple[Self, str]:
        """The head with the thresholds that are best on labelled predictions, and a sentence on them; or itself."""
        return self, ""

    @property
    def calibration(self) -> dict[str, float]:
        """The thresholds that were found; {} where none were."""
        return {}

    def with_calibration(self, stored: Mapping[str, float]) -> Self:
        """The head with stored thresholds, where they fit and no flag says otherwise."""
        return self


def as_text(label: Any) -> str | None:
    """A label of any table as stripped text: 1, 1.0 and "1" of JSON are one label, true is "true"; None stays None."""
    if isinstance(label, bool):
        return str(label).lower()
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    return label if label is None else str(label).strip()


def single_label(example: Example) -> str | None:
    """The label of an example as text; UserError if it is a list or an object, as JSON may have it."""
    if isinstance(example.label, list | dict):
        raise UserError(
            f"In {example.location} the label is {example.label!r}; expected one text or number. Several labels of an "
            "example need label_type=multi_label."
        )
    return as_text(example.label)


def shortened(labels: Sequence[str]) -> str:
    """The first few labels, for an error."""
    more = f" and {len(labels) - MAX_NAMED} more" if len(labels) > MAX_NAMED else ""
    return ", ".join(labels[:MAX_NAMED]) + more
