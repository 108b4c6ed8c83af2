"""A loaded model that takes strings: `bert_tf.load`."""

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from bert_tf.api.results import Answer, Attribution, Entity, Prediction, Span, Tag, Token
from bert_tf.api.words import is_words, join_words
from bert_tf.checkpoints import pretrained
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.export import live_model, loaded_model, tagged_words
from bert_tf.recipes.finetuning import finished_run
from bert_tf.runtime import files
from bert_tf.tasks.embeddings import vector_choice
from bert_tf.tasks.embeddings.vector_choice import VectorChoice
from bert_tf.tasks.text_classification import predictions

METHODS = {
    live_model.MASKS: "fill_mask(text)",
    "vectors": "embed(texts)",
    "tags": "entities(text)",
    "span": "answer(question, text)",
}
WINDOW = 4096  # texts among which those of similar length share a batch

Words = Sequence[str]  # a text that is split into words
Texts = str | tuple[str, ...] | Words | tuple[Words, ...]
Result = TypeVar("Result")


def load(
    path: str | os.PathLike[str],
    format_name: str | None = None,
    *,
    special_tokens_in_strings: bool | Sequence[str] | None = None,
) -> "Bert":
    """Reads any checkpoint, run or export; see `bert_tf.load`."""
    loaded = pretrained.load(path, format_name, special_tokens_in_strings=special_tokens_in_strings)
    values = {field.name: getattr(loaded, field.name) for field in dataclasses.fields(loaded)}
    return Bert(path=os.fspath(path), **values)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bert(pretrained.Loaded):
    """A loaded model: the Keras model with its tokenizer, and methods for texts.

    The methods use the weights that `model` has when they are called. A run is used as it was trained: with its
    max_seq_length, windows and thresholds. Other checkpoints read as many tokens as they have positions (384
    for questions), and longer texts in questions and tagging in windows; `embed` reads max_seq_length=128.

    Attributes:
        path: what was loaded.
    """

    path: str

    def embed(
        self,
        texts: str | Sequence[str] | Sequence[Words],
        *,
        is_split_into_words: bool = False,
        layers: str = "last",
        pooling: str | None = None,
        normalize: bool | None = None,
        max_seq_length: int = 128,
        batch_size: int = 256,
    ) -> np.ndarray:
        """Returns the embedding of each text, as `bert-tf extract --unit=sentence` computes it.

        Args:
            texts: a text, or several.
            is_split_into_words: each text is a list of its words.
            layers: which layers, such as "last" or "-1,-2"; several are concatenated.
            pooling: "mean", "cls", "max" and so on; by default that of a sentence-transformers folder, else the mean.
            normalize: whether embeddings get unit length; by default as the folder says, else not.
            max_seq_length: tokens per window; longer texts are read in overlapping windows.
            batch_size: texts per batch.

        Returns:
            float32 [B, D], or [D] for a single text.

        Raises:
            UserError: unknown layers or pooling, or the checkpoint has no vocabulary.
        """
        from bert_tf.tasks.embeddings.extraction import Extractor

        recorded = self.sentence_vectors if (pooling, normalize) == (None, None) else None
        if recorded is not None:
            if not recorded.is_known:
                raise UserError(f"{self.path} has the unknown pooling {recorded.pooling}: give pooling.")
            pooling, normalize = recorded.pooling, recorded.normalize
        if pooling is not None and pooling not in vector_choice.POOLINGS:
            raise UserError(f"pooling is {pooling!r}; expected one of {', '.join(vector_choice.POOLINGS)}.")
        length = min(max_seq_length, self.config.max_position_embeddings)
        choice = VectorChoice(
            layers=vector_choice.choose_layers(layers, self.config.layers_with_states),
            unit="sentence",
            pooling=pooling or "mean",
            normalize=vector_choice.UNITS if normalize else (),
            max_seq_length=length,
            stride=length // 2,
        )
        extractor = Extractor(self.model, self._tokenizer(), choice)
        texts = join_words(texts) if is_split_into_words else texts
        several = [texts] if isinstance(texts, str) else list(texts)
        rows = loaded_model.predict_in_order(extractor, _examples(several), batch_size=batch_size, window=WINDOW)
        width = choice.width(self.config.hidden_size) * len(choice.layers.names)
        vectors = [np.reshape(values["vectors"].vectors, -1) for _, values in rows]
        stacked = np.stack(vectors) if vectors else np.zeros([0, width], np.float32)
        return stacked[0] if isinstance(texts, str) else stacked

    @overload
    def predict(
        self, texts: str | tuple[Any, ...], *, is_split_into_words: bool = False, batch_size: int = 32
    ) -> Prediction: ...

    @overload
    def predict(
        self, texts: list[Any], *, is_split_into_words: bool = False, batch_size: int = 32
    ) -> list[Prediction]: ...

    def predict(
        self, texts: Texts | list[Texts], *, is_split_into_words: bool = False, batch_size: int = 32
    ) -> Prediction | list[Prediction]:
        """Classifies texts, compares pairs, rates, or chooses, as the head of the model does.

        Args:
            texts: a text; a tuple of two texts for a pair, or of a text and its choices; or a list of these.
            is_split_into_words: each text is a list of its words; a list of words is then a single text.
            batch_size: texts per batch.

        Returns:
            A Prediction, or one for each text of a list.

        Raises:
            UserError: the model has another head, or takes more or fewer texts.
        """
        texts = join_words(texts) if is_split_into_words else texts
        return self._each(texts, "predict", _prediction, batch_size)

    def fill_mask(self, text: str) -> list[list[Token]]:
        """Returns the ten most probable tokens for each [MASK] of a text, best first.

        Raises:
            UserError: the model has no masked LM head.
        """
        return self._each(text, "fill_mask", _masks, 1)

    def answer(self, question: str | Words, text: str | Words, *, is_split_into_words: bool = False) -> Answer:
        """Returns the part of a text of any length that answers a question; "" for "no answer" if trained for it.

        is_split_into_words: question and text are lists of words; the answer is a part of the words joined by spaces.

        Raises:
            UserError: the model was not trained on questions.
        """
        pair = (question, text)
        return self._each(join_words(pair) if is_split_into_words else pair, "answer", _answer, 1)

    @overload
    def entities(self, texts: str, *, is_split_into_words: bool = False, batch_size: int = 32) -> list[Entity]: ...

    @overload
    def entities(self, texts: list[Any], *, is_split_into_words: bool = False, batch_size: int = 32) -> list[Any]: ...

    def entities(
        self, texts: str | list[Any], *, is_split_into_words: bool = False, batch_size: int = 32
    ) -> list[Entity] | list[list[Entity]]:
        """Returns the tagged parts of a text of any length, in order; of a list those of each text.

        is_split_into_words: a text is a list of its words, no entity ends within a word, and offsets are characters of
        the words joined by spaces (but not ideographs).

        Raises:
            UserError: the model is no tagger.
        """
        if not is_split_into_words:
            return self._each(texts, "entities", _entities, batch_size)
        rows = [_entities(row) for row in self._tagged_rows(list(texts), batch_size)]
        return rows[0] if is_words(texts) else rows

    @overload
    def tags(self, words: list[str], *, batch_size: int = 32) -> list[Tag]: ...

    @overload
    def tags(self, words: list[list[str]], *, batch_size: int = 32) -> list[list[Tag]]: ...

    def tags(self, words: list[Any], *, batch_size: int = 32) -> list[Tag] | list[list[Tag]]:
        """Returns the tag of each word of a sentence that is split into words; of a list those of each sentence.

        Raises:
            UserError: the model is no tagger.
        """
        rows = [
            [
                Tag(word=word, tag=tag, probability=score)
                for word, tag, score in zip(row["words"], row["tags"], row["scores"], strict=True)
            ]
            for row in self._tagged_rows(words, batch_size)
        ]
        return rows[0] if is_words(words) else rows

    def _tagged_rows(self, sentences: list[Any], batch_size: int) -> list[dict[str, Any]]:
        """The rows of `tagged_words` for a list of words, or for several."""
        self._expect("entities")
        join_words(sentences)  # raises for anything else
        examples = [
            Example(str(number), tuple(words), None, f"sentence {number}")
            for number, words in enumerate([sentences] if is_words(sentences) else sentences)
        ]
        tagger = tagged_words.WordTagger(self._signatures_of()[tagged_words.SIGNATURE])
        outputs = loaded_model.predict_in_order(tagger, examples, batch_size=batch_size, window=WINDOW)
        return [tagged_words.row(*pair, tuple(self.labels or ())) for pair in outputs]

    def attribute(self, text: str | tuple[str, str]) -> Attribution:
        """Returns how much each token of a text, or of a pair, contributed to the prediction, by integrated gradients.

        Explained are classes, numbers and choices, the first [MASK], and answers (a pair of question and text). Long
        texts are truncated, as for the attention of an export.

        Raises:
            UserError: the model has another head, or another encoder than BERT's.
        """
        import tensorflow as tf

        joined = text if isinstance(text, str) else " ||| ".join(text)
        found = self._explainer(tf.constant([joined]))
        row = {name: value.numpy()[0] for name, value in found.items()}
        used = slice(int(row["lengths"]))
        return Attribution(
            tokens=[token.decode() for token in row["tokens"][used]],
            scores=row["attributions"][used].tolist(),
            output=float(row["outputs"]),
            baseline=float(row["baseline_outputs"]),
            target=int(row["targets"]),
        )

    def _each(self, texts: Any, method: str, result: Any, batch_size: int) -> Any:
        """The results of a method for texts, or for a single one."""
        self._expect(method)
        several = texts if isinstance(texts, list) else [texts]
        first = several[0] if several else ""
        predictor = self._predictor_of(1 if isinstance(first, str) else len(first))
        expected = sum(count or 1 for count in predictor.inputs.values())
        for each in several:
            count = 1 if isinstance(each, str) else len(each)
            if count != expected:
                names = " and ".join(predictor.inputs)
                raise UserError(f"{count} texts were given for an example; {self.path} takes {expected}: {names}.")
        rows = loaded_model.predict_in_order(predictor, _examples(several), batch_size=batch_size, window=WINDOW)
        labels = tuple(self.labels or ())
        results = [
            result(predictions.export_row(example, outputs, labels=labels, inputs=predictor.inputs))
            for example, outputs in rows
        ]
        return results if isinstance(texts, list) else results[0]

    def _expect(self, method: str) -> None:
        """Raises UserError unless the head of the model has this method."""
        kind = self.kind if self.kind == "vectors" else live_model.kind_of(self)
        if kind is None:
            raise UserError(f"{self.path} has no head: use embed(texts), or fine-tune it first.")
        own = METHODS.get(kind, "predict(texts)")
        if own.partition("(")[0] != method:
            raise UserError(f"{self.path} has another head than {method} needs: use {own}.")

    def _tokenizer(self) -> Any:
        if self.tokenizer is None:
            raise UserError(f"{self.path} has no vocab.txt next to it, without which it takes no strings.")
        return self.tokenizer

    @functools.cached_property
    def _explainer(self) -> Any:
        """The function that attributes predictions to tokens, on the weights of `model`."""
        from bert_tf.export import attribution_signature

        return attribution_signature.signature(self.model, self._tokenizer())

    @functools.cached_property
    def _predictor_of(self) -> Callable[[int], loaded_model.Signature]:
        """Number of texts of an example -> the default signature of the model's task, on the weights of `model`.

        Only checkpoints from elsewhere take any number that their head can.
        """
        return functools.cache(
            lambda texts: loaded_model.Signature(self._signatures_of(texts)["serving_default"], self.path)
        )

    @functools.cached_property
    def _signatures_of(self) -> Callable[..., Any]:
        """Number of texts of an example, None where nobody says it -> the signatures of the model's task."""
        return functools.cache(self._new_signatures)

    def _new_signatures(self, texts: int | None = None) -> Any:
        """{name: function on strings} of the model's task, in static shapes where these are faster."""
        from bert_tf.export.static_signature import static_signatures
        from bert_tf.tasks.staged_signature import stages_of

        self._tokenizer()  # raises where there is none
        signatures = live_signatures(self.path, self, texts)
        stages = {name: each._asdict() for name, each in stages_of(signatures).items()}
        return static_signatures(signatures, stages, "auto")


def live_signatures(path: str, loaded: pretrained.Loaded, texts: int | None) -> Any:
    """{name: tf.function on strings} of a model: of its run where the path is one, else of the kind of its head."""
    if live_model.kind_of(loaded) == live_model.MASKS or not files.exists(os.path.join(path, "run.json")):
        return live_model.signatures_of(path, loaded, texts)
    task = finished_run.read_task(path)
    windows = getattr(task, "windows", None)
    if windows and hasattr(loaded.model, "window_pooling"):
        loaded.model.window_pooling = windows.pooling
    tokenizer: Any = loaded.tokenizer  # the caller has one
    return task.signatures(loaded.model, tokenizer)


def _examples(texts: Sequence[Any]) -> list[Example]:
    return [
        Example(str(number), (text,) if isinstance(text, str) else tuple(text), None, f"text {number}")
        for number, text in enumerate(texts)
    ]


def _prediction(row: dict[str, Any]) -> Prediction:
    values = row.get("probabilities", {})
    probabilities = values if isinstance(values, dict) else {str(number): each for number, each in enumerate(values)}
    return Prediction(label=row["label"], probabilities=probabilities, value=row.get("value"))


def _masks(row: dict[str, Any]) -> list[list[Token]]:
    return [[Token(token=each["piece"], probability=each["score"]) for each in mask] for mask in row["answers"]]


def _entities(row: dict[str, Any]) -> list[Entity]:
    return [
        Entity(text=each["text"], label=each["label"], start=each["start"], end=each["end"], probability=each["score"])
        for each in row["entities"]
    ]


def _answer(row: dict[str, Any]) -> Answer:
    n_best = [Span(**each) for each in row["n_best"]]
    return Answer(text=row["answer"], start=row["start"], end=row["end"], probability=row["score"], n_best=n_best)
