"""What sentence vectors are trained on: texts that belong together, or pairs with a score.

B examples of a batch, F texts of an example, T positions in a row, D size of a vector, n examples.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import tensorflow as tf

from bert_tf.checkpoints.checkpoint import SentenceVectors
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.base.answers import Similarity
from bert_tf.heads.base.table_options import TableOptions
from bert_tf.heads.base.text_head import TextHead
from bert_tf.heads.base.text_windows import Windows
from bert_tf.heads.regression import numbers
from bert_tf.heads.vectors import Vectors
from bert_tf.model.sentence_encoder import SentenceEncoder
from bert_tf.tasks.embeddings import vector_losses
from bert_tf.text.tokenizer import Tokenizer, pack
from bert_tf.text.truncation import LONGEST_FIRST

VECTORS = "vectors"  # kind of the models, and the name of their output
KEYS = 2**62  # numbers that texts are hashed to
Metrics = dict[str, tuple[tf.Tensor, tf.Tensor]]


class VectorGoal(Vectors, TextHead):
    """Every text of an example is a row of its own.

    Args:
        vectors: how tokens become the vector of a text.
        texts: F.
        scale: factor of cosines in losses that compare examples.
    """

    reads_windows = False
    file_flags = ("text_columns", "label_column")

    def __init__(self, vectors: SentenceVectors, texts: int = 2, scale: float = 20.0) -> None:
        self.vectors, self.rows_per_example, self.scale = vectors, texts, scale

    @classmethod
    def from_table(cls, labels: Sequence[str], columns: Sequence[str], options: TableOptions) -> Self:
        """Refused: the tasks of `tasks.catalog.vectors` read tables."""
        raise UserError(
            f"label_type={options.label_type} is for tables: give task_name=pairs, triplets, sts or simcse."
        )

    @classmethod
    def from_about(cls, about: Mapping[str, Any]) -> Self:
        """See `TextHead`."""
        return cls(SentenceVectors(str(about["pooling"]), bool(about["normalize"])))

    def create_model(self, config: Any, **options: Any) -> Any:
        """The Keras model; UserError for the first token of a model in which it sees no other."""
        if config.is_causal and self.vectors.pooling == "cls":
            raise UserError(
                "pooling is cls, but [CLS] of a left-to-right model sees no other token: give pooling=last."
            )
        return SentenceEncoder(config, self.vectors.pooling, self.vectors.normalize, **options)

    def inputs(
        self,
        tokenizer: Tokenizer,
        texts: tf.Tensor,
        max_seq_length: int,
        windows: Windows | None = None,
        truncation: str = LONGEST_FIRST,
    ) -> dict[str, tf.Tensor]:
        """String [B, F] -> rows [B, F, T], "lengths" and "text_keys", which are equal for equal texts, [B, F]."""
        packed = pack(tokenizer, [tf.reshape(texts, [-1])], max_seq_length)
        rows = {name: tf.reshape(x, [-1, self.rows_per_example, *x.shape[1:]]) for name, x in packed.items()}
        return {**rows, "text_keys": tf.strings.to_hash_bucket_fast(texts, KEYS)}

    def token_counts(self, counts: np.ndarray) -> np.ndarray:
        """Tokens of the longest text of an example, int32 [n, 1]."""
        return counts.max(1, keepdims=True)

    def unknown(self, count: int) -> np.ndarray:
        """Zeros."""
        return np.zeros(count, np.float32)

    def names(self, predicted: np.ndarray) -> list[str]:
        """Numbers with three decimals."""
        return [f"{number:.3f}" for number in predicted]

    @abc.abstractmethod
    def metrics(self, vectors: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> Metrics:
        """{metric: (values, weights)} of vectors [B, F, D]; batch: "labels", "row_weights" [B], "text_keys" [B, F]."""

    def loss(self, outputs: Mapping[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        """Not that of single examples: see `metrics`."""
        raise NotImplementedError

    def predictions(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The vectors, float32 [B, F, D]."""
        return {VECTORS: outputs[VECTORS]}

    def predicted(self, predictions: Mapping[str, np.ndarray]) -> np.ndarray:
        """The cosine of the first two texts, [n]."""
        return vector_losses.plain_cosines(predictions[VECTORS])

    def losses(self, predictions: Mapping[str, np.ndarray], labels: np.ndarray) -> np.ndarray:
        """Zeros: losses belong to batches."""
        return np.zeros(len(labels))

    def prediction(self, predictions: Mapping[str, np.ndarray], number: int, label: str) -> Similarity:
        """The cosine of the first two texts."""
        one = {VECTORS: predictions[VECTORS][number : number + 1]}
        return Similarity(similarity=float(self.predicted(one)[0]))


class Positives(VectorGoal):
    """The second text of an example belongs to the first; further ones do not, and are hard negatives.

    Every text of the other examples but their anchors is a negative too.
    """

    loss_name = "in_batch_loss"
    missing = ()  # there is no label column
    scores = ()

    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """Zeros: examples have no labels."""
        return np.zeros(len(examples), np.float32)

    def metrics(self, vectors: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> Metrics:
        """The loss, and how often the positive is the nearest of the batch."""
        weights = batch["row_weights"]
        losses, correct = vector_losses.in_batch_negatives(vectors, batch["text_keys"], weights, self.scale)
        return {self.loss_name: (losses, weights), "accuracy_in_batch": (correct, weights)}


class Similarities(VectorGoal):
    """Two texts and how similar they are.

    Args:
        loss_kind: "cosent" or "cosine".
        largest_score: what scores are divided by for the cosine loss.
    """

    scores = ("spearman", "pearson")
    loss_names: ClassVar[Mapping[str, str]] = {"cosent": "cosent", "cosine": "squared_error"}

    def __init__(
        self,
        vectors: SentenceVectors,
        texts: int = 2,
        scale: float = 20.0,
        *,
        loss_kind: str = "cosent",
        largest_score: float = 1.0,
    ) -> None:
        super().__init__(vectors, texts, scale)
        self.loss_kind, self.largest_score = loss_kind, largest_score
        self.loss_name = self.loss_names[loss_kind]  # type: ignore[misc]

    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """The scores, float32 [n]."""
        return numbers(examples)

    def metrics(self, vectors: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> Metrics:
        """CoSENT of the batch, a scalar, or the squared errors of cosines."""
        found, labels, weights = vector_losses.cosines(vectors), batch["labels"], batch["row_weights"]
        if self.loss_kind == "cosent":
            return {self.loss_name: (vector_losses.cosent(found, labels, weights, self.scale), tf.ones([]))}
        return {self.loss_name: (tf.math.squared_difference(found, labels / self.largest_score), weights)}


class TwoDropouts(Similarities):
    """Trained on texts that belong to themselves, which dropout encodes differently, and evaluated on scored pairs.

    Unsupervised SimCSE (Gao et al. 2021, arXiv:2104.08821).
    """

    missing = ()  # training texts have no labels
    metrics = Positives.metrics

    def __init__(self, vectors: SentenceVectors, texts: int = 2, scale: float = 20.0) -> None:
        super().__init__(vectors, texts, scale)
        self.loss_name = Positives.loss_name  # type: ignore[misc]

    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """The scores, float32 [n]; zeros where no example has one."""
        is_known = any(example.label is not None for example in examples)
        return super().encode(examples) if is_known else np.zeros(len(examples), np.float32)


def mrr(labels: np.ndarray, predicted: np.ndarray) -> float:
    """Mean reciprocal rank of positives; predicted: ranks [n]."""
    return float(np.mean(1 / predicted))


def accuracy_at_1(labels: np.ndarray, predicted: np.ndarray) -> float:
    """Fraction of anchors whose positive is the nearest; predicted: ranks [n]."""
    return float(np.mean(predicted == 1))


def recall_at_10(labels: np.ndarray, predicted: np.ndarray) -> float:
    """Fraction of anchors whose positive is among the nearest ten; predicted: ranks [n]."""
    return float(np.mean(predicted <= 10))


RANK_SCORES: tuple[Callable[[np.ndarray, np.ndarray], float], ...] = (mrr, accuracy_at_1, recall_at_10)
