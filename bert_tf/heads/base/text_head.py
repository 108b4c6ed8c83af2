"""TextHead: predictions for a text, a pair or choices, from the label column to the outputs of the export.

B rows of a batch, C classes or choices, F texts of an example, n examples.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from bert_tf.config.train_config import LossSettings
from bert_tf.data.examples import Example, single_label
from bert_tf.errors import NoEngine, UserError, leave_out
from bert_tf.heads.base.answers import BaseAnswer
from bert_tf.heads.base.head import Head, Metrics
from bert_tf.runtime.lazy import tf
from bert_tf.text.truncation import LONGEST_FIRST
from bert_tf.training import confidence, metrics
from bert_tf.training.task import Batch, Objective, Predictions

if TYPE_CHECKING:
    from bert_tf.heads.base.table_options import TableOptions

INPUTS = ("text_a", "text_b")  # inputs of the export, named as in InputExample of google-research/bert
TRAINING_LOSS = "training_loss"  # the minimized metric if settings change the loss

Score = str | Callable[[Any, Any], float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Windows:
    """How texts that do not fit into a row are read.

    stride: tokens from the start of a window to the next. most: windows of a text; anything after the last of them is
    not read. pooling: "mean" or "max" of the windows' vectors.
    """

    stride: int
    most: int
    pooling: str = "mean"


class TextHead(Head):
    """A head on the vector of a text, of its windows, or of choices, with its training loss and scores.

    Attributes that `Head` does not have:
        loss_name: name of the loss. loss_settings: changes to the loss for training.
        score_names: names in `metrics.SCORES`, by default for a task.
        criteria: the scores that can decide which model is best.
        missing: values of a label column that mean "no label".
        compares_lists: whether a loss may compare the rows of a list, `list_size` consecutive ones.
        texts, windows, truncation, weighting, score_functions: see `configured`.
    """

    signature_inputs: ClassVar[tuple[frozenset[str], ...]] = (frozenset(INPUTS[:1]), frozenset(INPUTS))
    trained_by = "bert_tf.heads.base.text_training"
    loss_name: ClassVar[str]
    loss_settings = LossSettings()
    score_names: ClassVar[tuple[str, ...]]
    missing: ClassVar[tuple[str | None, ...]] = (None, "")
    compares_lists: ClassVar[bool] = False
    texts: int = 1
    windows: Windows | None = None
    truncation: str = LONGEST_FIRST
    weighting: str = "none"
    score_functions: Mapping[str, Callable] = {}

    @property
    def criteria(self) -> tuple[str, ...]:
        """The scores that can decide which model is best."""
        return self.score_names

    def configured(
        self,
        *,
        max_seq_length: int,
        texts: int = 1,
        scores: Sequence[Score] = (),
        criterion: str = "",
        temperature: str = "1",
        class_weights: str = "none",
        loss: LossSettings | None = None,
        windows: Windows | None = None,
        truncation: str = LONGEST_FIRST,
    ) -> Self:
        """The head configured for training and scoring.

        Args:
            max_seq_length: tokens in a row.
            texts: texts in an example, 1 or 2, or a first text and its choices.
            scores: names for `metrics.score_of`, or functions of labels and predicted labels; by default `score_names`.
            criterion: the score that decides which model is best; by default the first.
            temperature: see `training.confidence.parse_temperature`.
            class_weights: "balanced" weights every class equally in the training loss, "none" every example; or see
                `label_head.parse_weights`.
            loss: changes to the loss for training.
            windows: how texts longer than max_seq_length are read; None: they are truncated.
            truncation: which text of a pair is truncated, see `tokenizer.pack`.
        """
        if windows and self.rows_per_example > 1:
            raise UserError("long_texts=windows needs texts or pairs; remove it for choices, which are truncated.")
        if truncation != LONGEST_FIRST and (windows or texts == 1):
            raise leave_out(f"truncation={truncation} requires truncated pairs")
        if loss and (loss.ranking_loss or loss.list_size > 1) and not self.compares_lists:
            raise UserError("ranking_loss and list_size need label_type=relevance or relevance_score; remove them.")
        head = self.with_temperature(confidence.parse_temperature(temperature)).with_loss(loss or LossSettings())
        functions = _criterion_first(scores or self.score_names, criterion, self)
        return head.replaced(
            max_seq_length=max_seq_length,
            texts=texts,
            windows=windows,
            truncation=truncation,
            weighting=class_weights,
            score_functions=functions,
            criterion=next(iter(functions), ""),
        )

    # From table flags, from an export

    @classmethod
    def check_columns(cls, columns: Sequence[str], options: TableOptions) -> None:
        """Raises UserError unless the columns of a table are one text or a pair, and a label."""
        if len(columns) not in (1, 2) or not options.label_column:
            raise UserError(
                "Name the columns of the table: text_columns=TEXT or text_columns=FIRST,SECOND and label_column."
            )

    @classmethod
    def names_in(cls, examples: Sequence[Example], options: TableOptions) -> Collection[str | None]:
        """The label names of a table, if outputs have names: a set, or a list in the order of the outputs."""
        return {single_label(example) for example in examples}

    @classmethod
    @abc.abstractmethod
    def from_table(cls, labels: Sequence[str], columns: Sequence[str], options: TableOptions) -> Self:
        """The head for a table with these columns; labels: names in the order of the outputs, if these have names."""

    @classmethod
    @abc.abstractmethod
    def from_about(cls, about: Mapping[str, Any]) -> Self:
        """The head of an export, from its about.json: see `about`."""

    # Labels

    @abc.abstractmethod
    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """Labels as numbers [n, ...]; UserError with the position of any label that this head does not have."""

    def unknown(self, count: int) -> np.ndarray:
        """Placeholders in the shape of `encode`, for examples without labels; here for labels that are numbers."""
        return np.zeros(count, np.float32)

    def class_weights(self, labels: np.ndarray, text: str) -> np.ndarray:
        """Loss weights, float32 [n], from the flag class_weights; UserError if there are no classes.

        text: "balanced" weights every class equally; otherwise see `label_head.parse_weights`.
        """
        raise leave_out("class_weights needs one class for each text")

    def label_counts(self, labels: np.ndarray) -> np.ndarray | None:
        """Number of examples of each label, [C]; None if labels have no names."""
        return None

    def names(self, predicted: np.ndarray) -> list[str]:
        """Labels, or predicted ones, as written in the label column; here numbers."""
        return [f"{number:.3f}" for number in predicted]

    # Training

    @abc.abstractmethod
    def loss(self, outputs: Mapping[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        """Float32 [B]."""

    @property
    def objective(self) -> str:
        """The minimized metric."""
        return self.loss_name if self.loss_settings.is_plain else TRAINING_LOSS

    def training_losses(self, outputs: Mapping[str, tf.Tensor], labels: tf.Tensor) -> dict[str, tf.Tensor]:
        """{metric: float32 [B]}: the loss, and the minimized metric if settings change it."""
        return {self.loss_name: self.loss(outputs, labels)}

    def with_loss(self, settings: LossSettings) -> Self:
        """The head with a changed loss; UserError if it does not support the change."""
        if not settings.is_plain:
            raise UserError("label_smoothing, focal_gamma and pos_weight need classes or labels; remove them.")
        return self

    def correct(self, outputs: Mapping[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor | None:
        """1 if the prediction is correct, float32 [B]; None if predictions are not labels."""
        return None

    @property
    def objectives(self) -> dict[str, Objective]:  # type: ignore[override]
        """See `training.task.Task`."""
        return {self.objective: Objective()}

    def loss_weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        return {self.objective: batch["row_weights"]}

    def metrics(self, outputs: Mapping[str, tf.Tensor], batch: Batch) -> Metrics:
        """The losses, and the accuracy if predictions are labels; the latter is never weighted by class."""
        losses = self.training_losses(outputs, batch["labels"])
        values = {name: (loss, batch["row_weights"]) for name, loss in losses.items()}
        correct = self.correct(outputs, batch["labels"])
        if correct is not None:
            values["accuracy"] = (correct, tf.cast(batch["row_weights"] > 0, tf.float32))
        return values

    # Predictions

    @abc.abstractmethod
    def predictions(self, outputs: Mapping[str, tf.Tensor], batch: Batch | None = None) -> dict[str, tf.Tensor]:
        """The outputs that are kept, and returned by the export: [B, ...]."""

    @abc.abstractmethod
    def predicted(self, predictions: Mapping[str, np.ndarray]) -> np.ndarray:
        """Predicted labels, numbered as in `encode`, from predictions as arrays."""

    def compare(self, predictions: Predictions, split: Any) -> tuple[np.ndarray, np.ndarray]:
        return split.labels[: len(predictions["row_numbers"])], self.predicted(predictions)

    def scores(self, predictions: Predictions, split: Any) -> dict[str, float]:
        return self.score(*self.compare(predictions, split))

    def score(self, labels: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
        """{score: number} for labels and predicted labels, arrays [n, ...]."""
        return {name: function(labels, predicted) for name, function in self.score_functions.items()}

    def scored_by(self, names: Sequence[str]) -> Self:
        """The head with other scores, by default the scores of its kind."""
        return self.replaced(score_functions=_criterion_first(names or self.score_names, "", self))

    @abc.abstractmethod
    def losses(self, predictions: Mapping[str, np.ndarray], labels: np.ndarray) -> np.ndarray:
        """The loss of each example, float64 [n], from predictions only."""

    @abc.abstractmethod
    def prediction(self, predictions: Mapping[str, np.ndarray], number: int, label: str) -> BaseAnswer:
        """The answer for one example. label: its predicted label."""

    def tables(self, labels: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
        """{"per_class", "confusion" or "most_confused"} as far as it applies; see `training.metrics`."""
        return {}

    # The export

    @property
    def host_settings(self) -> dict[str, Any] | None:
        return {
            "stages": "texts",
            "texts": self.texts,
            "max_seq_length": self.max_seq_length,
            "truncation": self.truncation,
            "windows": dataclasses.asdict(self.windows) if self.windows else None,
        }

    def input_shapes(self, texts: int) -> dict[str, list[int]]:
        """{input of the export: its shape without the batch}; texts: texts in an example, 1 or 2."""
        return {name: [] for name in INPUTS[:texts]}

    def label_names(self, predictions: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The name of the predicted label as an output of the export: {"label": string [B]}, or {}."""
        return {}

    def from_logits(self, logits: np.ndarray) -> dict[str, np.ndarray]:
        """Outputs of the export, in NumPy: [B, ...] of float32 [B, size], or of the logits of choices [B, C].

        Raises NoEngine for a head that only TensorFlow can run.
        """
        raise NoEngine(f"A head of the kind {self.kind} runs only in TensorFlow")

    # Confidence

    def with_temperature(self, temperature: float | None) -> Self:
        """The head whose logits are divided by this before the softmax; None: by the best-fitting temperature.

        Raises UserError if there is no softmax, unless it is 1.
        """
        if temperature != 1:
            raise leave_out("temperature needs classes, labels, choices or questions")
        return self

    def confidence(self, predictions: Mapping[str, np.ndarray], labels: np.ndarray) -> dict[str, Any]:
        """See `training.confidence.report`; {} if there is no softmax."""
        return {}


def _criterion_first(scores: Sequence[Score], criterion: str, head: TextHead) -> dict[str, Callable]:
    """{name: function} of the scores, the criterion first; UserError if it cannot decide."""
    functions = {score if isinstance(score, str) else score.__name__: score for score in scores}
    own = tuple(name for name, score in functions.items() if not isinstance(score, str))
    if criterion:
        if criterion not in (*head.criteria, *own) and ":" not in criterion:
            raise UserError(
                f"criterion is {criterion}; expected one of {', '.join((*head.criteria, *own))} for this task."
            )
        functions = {criterion: functions.get(criterion, criterion)} | functions
    return {name: metrics.score_of(score) if isinstance(score, str) else score for name, score in functions.items()}
