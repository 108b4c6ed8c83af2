"""Predictor: texts to rows on the host, rows to numbers with any network, numbers to answers on the host.

B examples, R rows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.export import host
from bert_tf.export.network import Network
from bert_tf.export.text_function import TextFunction
from bert_tf.heads.base.head import Head
from bert_tf.heads.vectors.text_vectors import TextVectors
from bert_tf.heads.vectors.vector_choice import VectorChoice


class Predictor(TextFunction):
    """Answers texts.

    Attributes:
        folder, source: the model's location, for messages.
        network, tokenizer, stages: its parts, see `export.host`.
        labels, task, head: names of the classes, () without; name of the task; kind of the answers, None if unknown.
        signature_def: the SignatureDef of an export's default signature as JSON; None for other models.
    """

    def __init__(
        self,
        source: str,
        network: Network,
        settings: dict[str, Any],
        about: dict[str, Any],
        tokenizer: Any,
        head: type[Head] | None = None,
        batch_size: int | None = None,
    ) -> None:
        """Makes the predictor of a model.

        Args:
            source: the folder of the model.
            network: a Keras model or the model of an engine.
            settings: the `host_settings` of its task and additional settings for the stages, see `export.host`.
            about: content of about.json.
            tokenizer: a HostTokenizer.
            head: kind of the answers.
            batch_size: texts per batch; None: the default.
        """
        self.source = self.folder = source
        self._settings, self._about = settings, about
        self.network, self.tokenizer, self.head = network, tokenizer, head
        self.stages = host.stages(settings, about, tokenizer)
        self.inputs, self.has_order = self.stages.inputs, True
        self.labels, self.task = tuple(about.get("labels") or ()), str(about.get("task") or "")
        self.word_tagger = WordTagger(network, self.stages) if hasattr(self.stages, "read_words") else None
        self.batch_size = batch_size or self.batch_size
        self.signature_def: dict[str, Any] | None = settings.get("signature_def")

    def with_labels(self, labels: Sequence[str]) -> "Predictor":
        """See TextFunction."""
        if len(labels) != len(self.labels) or len(set(labels)) < len(labels):
            raise UserError(
                f"The labels are set to {', '.join(map(str, labels)) or 'none'}; {self.source} has {len(self.labels)}: "
                "set as many different names."
            )
        about = {**self._about, "labels": list(labels)}
        return Predictor(self.source, self.network, self._settings, about, self.tokenizer, self.head, self.batch_size)

    @property
    def engine(self) -> str:
        """The name of its network."""
        return self.network.name

    @property
    def outputs_told(self) -> Sequence[str]:
        """Names of some outputs, () unless these determine the kind of head."""
        names: Sequence[str] = getattr(self.stages, "outputs", ())
        return names

    def predict(self, examples: Sequence[Example]) -> dict[str, np.ndarray]:
        return self.outputs(_texts(examples))

    def outputs(self, examples: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        """The outputs for the texts of examples, {name: array [B, ...]}."""
        rows, rest = self.stages.read(examples)
        answers: dict[str, np.ndarray] = self.stages.answer(self.network.numbers(rows), rest)
        return answers

    def compute(self, **columns: list) -> dict[str, np.ndarray]:
        """The outputs for UTF-8 texts, {input: bytes of each example, or a list of them}."""
        return self._run(columns)

    def _run(self, columns: dict[str, list]) -> dict[str, np.ndarray]:
        counts = [count or 1 for count in self.inputs.values()]
        rows = zip(*(columns[name] for name in self.inputs), strict=True)
        texts = [
            [text for value, count in zip(row, counts, strict=True) for text in ([value] if count == 1 else value)]
            for row in rows
        ]
        return self.outputs([[text.decode("utf-8", "ignore") for text in each] for each in texts])

    def extractor(self, choice: VectorChoice, *, splits_pairs: bool = False) -> "VectorExtractor":
        """A predictor for other vectors of the same encoder; see `VectorExtractor`.

        Raises UserError if the network has no such vectors.
        """
        return VectorExtractor(self.network.of_vectors(choice), choice, self.tokenizer, splits_pairs=splits_pairs)


class VectorExtractor:
    """A `batches.BatchFunction` that returns vectors: one per text, word or token."""

    def __init__(self, network: Network, choice: VectorChoice, tokenizer: Any, *, splits_pairs: bool = False) -> None:
        """network: from `Network.of_vectors`. splits_pairs: whether a single text "first ||| second" is a pair."""
        self._network = network
        self._stages = host.stages({**choice.host_settings(), "splits_pairs": splits_pairs}, {}, tokenizer)

    def predict(self, examples: Sequence[Example]) -> dict[str, list[TextVectors]]:
        """{"vectors": TextVectors for each example}."""
        rows, rest = self._stages.read(_texts(examples))
        return {"vectors": self._stages.vectors(self._network.numbers(rows), rest)}


class WordTagger:
    """A `batches.BatchFunction` for sentences split into words: the texts of an example are its words."""

    def __init__(self, network: Network, stages: Any) -> None:
        self._network, self._stages = network, stages

    def predict(self, examples: Sequence[Example]) -> dict[str, Any]:
        """{"tags": list of str, "scores": list of probabilities} for the words of each sentence."""
        rows, rest = self._stages.read_words(_texts(examples))
        tags, scores = zip(*self._stages.tags(self._network.numbers(rows), rest), strict=True)
        return {"tags": tags, "scores": scores}


def _texts(examples: Sequence[Example]) -> list[Sequence[str]]:
    for example in examples:
        example.encode()  # raises for half a surrogate pair
    return [example.texts for example in examples]
