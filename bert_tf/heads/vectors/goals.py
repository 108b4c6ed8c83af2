"""Training objectives for sentence embeddings: texts that belong together, or pairs with a score.

B examples in a batch, F texts in an example, T positions in a row, D vector size, n examples.
"""

from __future__ import annotations

import abc
import os
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.data import examples
from bert_tf.data.examples import Example
from bert_tf.errors import UserError, count_text
from bert_tf.heads.base import prediction_files
from bert_tf.heads.base.answering import Answered
from bert_tf.heads.base.answers import Similarity
from bert_tf.heads.base.head import Metrics
from bert_tf.heads.base.table_options import TableOptions
from bert_tf.heads.base.text_head import TextHead
from bert_tf.heads.base.text_rows import TextRows
from bert_tf.heads.base.text_training import MAX_COMPARED, TextTraining, stacked
from bert_tf.heads.regression import numbers
from bert_tf.heads.vectors import Vectors, vector_losses
from bert_tf.heads.vectors.extraction import Extractor
from bert_tf.heads.vectors.vector_choice import VectorChoice, choose_layers
from bert_tf.runtime.lazy import keras, module, tf
from bert_tf.text.tokenizer import Tokenizer, pack
from bert_tf.training.task import Batch, Comparison, Predictions

sentence_encoder = module("bert_tf.model.sentence_encoder")
SPREAD = 1e-4  # standard deviation across texts below which all embeddings count as equal
VECTORS = "vectors"  # the kind of the models, and the name of their output
KEYS = 2**62  # range of the hashes of texts


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


class VectorGoal(TextHead):
    """A head of the kind `Vectors`; every text of an example is a separate row.

    Args:
        vectors: how tokens are pooled into a text embedding.
        texts: F.
        scale: factor applied to cosines in losses that compare examples.

    Attributes:
        sizes: truncated sizes, largest first, that the loss also covers (Kusupati et al. 2022,
            arXiv:2205.13147; sentence-transformers' MatryoshkaLoss); () without truncation.
    """

    kind, model_class, weights, trained_by = Vectors.kind, Vectors.model_class, Vectors.weights, Vectors.trained_by
    signature_inputs, signature_outputs, answer = Vectors.signature_inputs, Vectors.signature_outputs, Vectors.answer
    size = 0
    comparison = Comparison(VECTORS, ("labels", "row_weights", "text_keys"))
    sizes: tuple[int, ...] = ()
    stride = 0  # of the windows of long texts in the export; 0: they are truncated, as in training

    def __init__(self, vectors: SentenceVectors, texts: int = 2, scale: float = 20.0) -> None:
        self.vectors = self.sentence_vectors = vectors
        self.rows_per_example, self.scale = texts, scale

    @classmethod
    def from_table(cls, labels: Sequence[str], columns: Sequence[str], options: TableOptions) -> Self:
        """Not supported: the tasks of `tasks.catalog.vectors` read tables."""
        raise UserError(
            f"label_type={options.label_type} is for tables: pass task_name=pairs, triplets, sts or simcse."
        )

    @classmethod
    def from_about(cls, about: Mapping[str, Any]) -> Self:
        return cls(SentenceVectors(str(about["pooling"]), bool(about["normalize"])))

    def metrics(self, outputs: Mapping[str, tf.Tensor], batch: Batch) -> Metrics:
        """The losses of the batch; with `sizes` their sum, and other metrics for the largest size."""
        vectors = outputs[VECTORS]
        each = [self.losses_of(vectors[..., :size], batch) for size in self.sizes or (None,)]
        weights = each[0][self.loss_name][1]
        return each[0] | {self.loss_name: (tf.add_n([one[self.loss_name][0] for one in each]), weights)}

    @abc.abstractmethod
    def losses_of(self, vectors: tf.Tensor, batch: Batch) -> Metrics:
        """{metric: (values, weights)} of vectors [B, F, D]; batch: "labels", "row_weights" [B], "text_keys" [B, F]."""

    def loss(self, outputs: Mapping[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        """Not defined for single examples: see `metrics`."""
        raise NotImplementedError

    def predictions(self, outputs: Mapping[str, tf.Tensor], batch: Batch | None = None) -> dict[str, tf.Tensor]:
        """The vectors, float32 [B, F, D]."""
        return {VECTORS: outputs[VECTORS]}

    def scores(self, predictions: Predictions, split: TextRows) -> dict[str, float]:
        """Scores of whole vectors, and "SCORE_SIZE" of truncated ones."""
        vectors, found = predictions[VECTORS], super().scores(predictions, split)
        for size in self.sizes:
            if size < vectors.shape[-1]:
                cut = super().scores({**predictions, VECTORS: vectors[..., :size]}, split)
                found |= {f"{name}_{size}": value for name, value in cut.items()}
        return found

    def predicted(self, predictions: Mapping[str, np.ndarray]) -> np.ndarray:
        """The cosine of the first two texts, [n]."""
        return vector_losses.plain_cosines(predictions[VECTORS])

    def losses(self, predictions: Mapping[str, np.ndarray], labels: np.ndarray) -> np.ndarray:
        """Zeros: losses are defined per batch."""
        return np.zeros(len(labels))

    def prediction(self, predictions: Mapping[str, np.ndarray], number: int, label: str) -> Similarity:
        one = {VECTORS: predictions[VECTORS][number : number + 1]}
        return Similarity(similarity=float(self.predicted(one)[0]))

    # Reports: there are no classes and no losses of single examples

    def collapse(self, predictions: Predictions, split: TextRows) -> str | None:
        vectors = predictions[VECTORS][:, 0]
        if len(vectors) < 2 or np.std(vectors, axis=0).max() > SPREAD:
            return None
        return f"the vectors of all {len(vectors)} texts are the same"

    # The export

    @property
    def host_settings(self) -> dict[str, Any] | None:
        return self.choice(1).host_settings()

    def choice(self, layers: int) -> VectorChoice:
        """The vectors returned by an export of a model with this number of layers."""
        return VectorChoice(
            layers=choose_layers("last", layers),
            unit="sentence",
            pooling=self.vectors.pooling,
            normalize=("sentence",) if self.vectors.normalize else (),
            max_seq_length=self.max_seq_length,
            stride=self.stride,
        )

    def about(self) -> dict[str, Any]:
        """Settings of the embeddings, as written by `bert-tf extract --export`."""
        return {
            "layers": ["last"],
            "pooling": self.vectors.pooling,
            "normalize": self.vectors.normalize,
            "max_seq_length": self.max_seq_length,
        }


class VectorTraining(TextTraining):
    """Trains and exports a VectorGoal."""

    head: VectorGoal  # type: ignore[assignment]
    file_flags = ("text_columns", "label_column")
    stored_splits = ("train",)

    @property
    def learns_in_steps(self) -> bool:  # type: ignore[override]
        """Yes, except for SimCSE, which trains on each text once, as in the paper."""
        return not isinstance(self.head, TwoDropouts)

    @classmethod
    def recorded(cls, kind: Any, about: Mapping[str, Any], settings: Mapping[str, Any] | None) -> VectorGoal:
        """The head that scores an export: on scored pairs, or on texts that belong together."""
        goal = Similarities if about.get("task") == "vectors/sts" else Positives
        return goal(SentenceVectors(str(about.get("pooling", "mean")), bool(about.get("normalize", True))))

    def inputs(self, tokenizer: Tokenizer, texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """String [B, F] -> rows [B, F, T], "lengths" and "text_keys" (equal for equal texts), [B, F]."""
        packed = pack(tokenizer, [tf.reshape(texts, [-1])], self.head.max_seq_length)
        rows = {name: tf.reshape(x, [-1, self.head.rows_per_example, *x.shape[1:]]) for name, x in packed.items()}
        return {**rows, "text_keys": tf.strings.to_hash_bucket_fast(texts, KEYS)}

    def token_counts(self, counts: np.ndarray) -> np.ndarray:
        """Tokens in the longest text of an example, int32 [n, 1]."""
        return counts.max(1, keepdims=True)

    def write_predictions(
        self, folder: str, name: str, predictions: Predictions, split: TextRows, *, submission: str = ""
    ) -> list[str]:
        """Writes NAME.jsonl and NAME.tsv: id, texts, the cosine of the first two, and the score if it is known."""
        rows, path = prediction_files.PredictionRows(self.head, split, predictions), os.path.join(folder, f"{name}.tsv")
        for each in (os.path.join(folder, f"{name}.jsonl"), path):
            prediction_files.write_rows(each, rows)
        return [f"Wrote {count_text(len(rows), 'similarity', 'similarities')} to {path}."]

    def create_model(self, config: BertConfig, dtype: Any = None) -> keras.Model:
        """The Keras model; UserError for first-token pooling in a model whose first token sees no other token."""
        vectors, sizes = self.head.vectors, self.head.sizes
        config.check_pooling(vectors.pooling)
        if max(sizes, default=0) > config.hidden_size:
            raise UserError(f"matryoshka_dims has {sizes[0]}, but vectors have {config.hidden_size} dimensions.")
        return sentence_encoder.SentenceEncoder(config, vectors.pooling, vectors.normalize, dtype=dtype)

    def content(self, path: str, reads: Mapping[str, Any]) -> list[Example]:
        """The rows of a table with the columns that the model was trained on."""
        label = reads.get("label_column") if not isinstance(self.head, Positives) else None
        columns = comma_separated(reads["text_columns"])
        return examples.read(path, texts=columns, label=label)

    def asked(self, item: Example, inputs: Mapping[str, int | None]) -> Iterator[Example]:
        return (Example(item.id, (text,), None, item.location) for text in item.texts)

    def kept(self, item: Example) -> Any:
        return item

    def evaluate(
        self, kept: list[Example], outputs: Iterable[Mapping[str, Any]]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        vectors = stacked(outputs)[VECTORS]
        predictions = {VECTORS: vectors.reshape(len(kept), -1, vectors.shape[-1]), "row_numbers": np.arange(len(kept))}
        texts = np.array([example.texts for example in kept], object)
        split: Any = types.SimpleNamespace(labels=self.head.encode(kept), texts=texts)
        return self.head.scores(predictions, split), {}

    def vector_choice(self, config: BertConfig) -> VectorChoice:
        return self.head.choice(config.layers_with_states)

    def signatures(self, model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
        """Text and token embeddings: see `extraction.Extractor.signatures`."""
        return Extractor(model, tokenizer, self.vector_choice(model.config)).signatures()

    def serving_examples(self, split: TextRows) -> dict[str, dict[str, list]]:
        texts = split.texts[:MAX_COMPARED].reshape(-1)[:MAX_COMPARED].tolist()
        return {name: {"text": texts} for name in ("serving_default", "tokens")}

    def demo_examples(self, split: TextRows, count: int = 3) -> list[Example]:
        return [Example(each.id, each.texts[:1], None, each.location) for each in split.shown(count)]

    def demo_line(self, example: Example, row: Answered) -> str:
        return f"{example.texts[0][:90]}  ->  a vector of {len(row.answer.fields()[VECTORS]):,} dimensions"


TRAINING = VectorTraining


class Positives(VectorGoal):
    """The second text of an example is the positive of the first; any others are hard negatives.

    All texts of other examples except their anchors are negatives too.
    """

    loss_name = "in_batch_loss"
    missing = ()  # there is no label column
    score_names: ClassVar[Any] = RANK_SCORES
    criteria = ()

    def compare(self, predictions: Predictions, split: TextRows) -> tuple[np.ndarray, np.ndarray]:
        """Ones, and the ranks of the positives among the texts of the split."""
        count = len(predictions["row_numbers"])
        return np.ones(count), vector_losses.ranks(predictions[VECTORS], split.texts[:count])

    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """Zeros: examples have no labels."""
        return np.zeros(len(examples), np.float32)

    def losses_of(self, vectors: tf.Tensor, batch: Batch) -> Metrics:
        """The loss, and how often the positive is the nearest in the batch."""
        weights = batch["row_weights"]
        losses, correct = vector_losses.in_batch_negatives(vectors, batch["text_keys"], weights, self.scale)
        return {self.loss_name: (losses, weights), "accuracy_in_batch": (correct, weights)}


class Similarities(VectorGoal):
    """Two texts and how similar they are.

    Args:
        loss_kind: "cosent" or "cosine".
        largest_score: divides the scores for the cosine loss.
    """

    score_names = ("spearman", "pearson")
    scored_with: ClassVar[tuple[str, ...]] = ("scipy",)
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

    def loss_weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        return {self.loss_name: tf.ones([])} if self.loss_name == "cosent" else super().loss_weights(batch)

    def losses_of(self, vectors: tf.Tensor, batch: Batch) -> Metrics:
        """CoSENT of the batch, a scalar, or the squared errors of cosines."""
        found, labels, weights = vector_losses.cosines(vectors), batch["labels"], batch["row_weights"]
        if self.loss_kind == "cosent":
            return {self.loss_name: (vector_losses.cosent(found, labels, weights, self.scale), tf.ones([]))}
        return {self.loss_name: (tf.math.squared_difference(found, labels / self.largest_score), weights)}


class TwoDropouts(Similarities):
    """Trained on texts paired with themselves, which dropout encodes differently, and evaluated on scored pairs.

    Unsupervised SimCSE (Gao et al. 2021, arXiv:2104.08821).
    """

    missing = ()  # training texts have no labels
    losses_of = Positives.losses_of

    def __init__(self, vectors: SentenceVectors, texts: int = 2, scale: float = 20.0) -> None:
        super().__init__(vectors, texts, scale)
        self.loss_name = Positives.loss_name  # type: ignore[misc]

    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """The scores, float32 [n]; zeros if no example has one."""
        is_known = any(example.label is not None for example in examples)
        return super().encode(examples) if is_known else np.zeros(len(examples), np.float32)
