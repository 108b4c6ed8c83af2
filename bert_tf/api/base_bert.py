"""Base class of `Bert`: a model, its functions on strings, and how they read texts."""

import copy
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from bert_tf import heads
from bert_tf.api import call_options, processes, python_words
from bert_tf.api import texts as given_texts
from bert_tf.api.texts import Texts, is_words, join_words, listed
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.export import about_file, tagged_words
from bert_tf.export.batches import BatchFunction, predict_in_order
from bert_tf.export.text_function import TextFunction
from bert_tf.heads.base.answering import answered
from bert_tf.heads.base.answers import BaseAnswer, Entities, Prediction
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.vectors import Vectors
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.runtime import plugins
from bert_tf.training.run_directory import recorded_flags

if TYPE_CHECKING:
    from typing import Self

    from bert_tf.model.heads import BertModel
    from bert_tf.text.tokenizer import Tokenizer

MAX_SHOWN = 6  # labels in a message
OF_KERAS = ("compile", "fit", "evaluate", "summary", "layers", "trainable", "optimizer", "weights")  # of a Keras model
PAIR, MAX_CHOICES = ("text_a", "text_b"), 64  # for third-party checkpoints
WINDOW = 4096  # texts per window, batched by similar length

Found = TypeVar("Found", bound=BaseAnswer)
Method = TypeVar("Method", bound=Callable[..., Any])


def answering(method: Method) -> Method:
    """Decorates a method that computes: checks the process and the option types; errors name Python arguments."""

    @functools.wraps(method)
    def checked(self: "BaseBert", *values: Any, **options: Any) -> Any:
        with python_words.spoken():
            self._check_process()
            return method(self, *values, **call_options.checked(options))

    return cast(Method, checked)


class BaseBert:
    """A loaded model with its functions on strings; see `api.bert.Bert`."""

    def __init__(
        self, loaded: Checkpoint, path: str, *, trust_code: bool = False, options: Mapping[str, Any] | None = None
    ) -> None:
        """options: the other arguments of `load`."""
        self.path, self.trust_code, self._loaded, self._options = path, trust_code, loaded, dict(options or {})
        self.model: BertModel = loaded.model
        self.config = loaded.config
        from bert_tf.export import live_model

        self.labels = live_model.labels_of(loaded)
        self.kind = loaded.kind
        self.sentence_vectors = loaded.sentence_vectors
        self.report = loaded.report
        self._extractors: dict[VectorChoice, BatchFunction] = {}  # each one traces a graph once

    @functools.cached_property
    def tokenizer(self) -> "Tokenizer | None":
        """Its tokenizer for pipelines, None without a vocabulary; the methods for texts do without it."""
        from bert_tf.text.tokenizer import tokenizer_of

        self._tokenizer_made = None if self._loaded.vocabulary is None else tokenizer_of(self._loaded)
        return self._tokenizer_made

    def __repr__(self) -> str:
        config, labels = self.config, self.labels or ()
        shown = ", ".join(labels[:MAX_SHOWN]) + (f" and {len(labels) - MAX_SHOWN} more" * (len(labels) > MAX_SHOWN))
        size = f"{config.num_hidden_layers} layers of {config.hidden_size}"
        head = type(self.model).__name__ + (f" of {shown}" if shown else "")
        return f"<Bert {self.path}: {head}; {config.encoder}, {size}, {config.vocab_size:,} tokens>"

    if not TYPE_CHECKING:  # type checkers would accept every name

        def __getattr__(self, name: str) -> Any:
            """Raises AttributeError; for methods of Keras, the message names the Keras model."""
            hint = f"; its Keras model has: use .model.{name}" if name in OF_KERAS else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def __copy__(self) -> "Self":
        copied = type(self).__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> "Self":
        """A copy with its own model; cached properties are computed again."""
        derived = {
            name for name in vars(self) if isinstance(getattr(type(self), name, None), functools.cached_property)
        }
        own = {name: value for name, value in vars(self).items() if name not in derived - {"tokenizer"}}
        copied = memo[id(self)] = type(self).__new__(type(self))
        vars(copied).update(copy.deepcopy({**own, "_extractors": {}}, memo))
        return copied

    def _check_unchanged(self, changed: Sequence[str]) -> None:
        """Raises UserError, when pickling, if parts of it differ from the files at its path."""
        if changed:
            raise UserError(
                f"A pickle of a loaded model stores its path, not its content, and {', '.join(changed)} of this model "
                f"differs from {self.path}: write it with save(FOLDER) and load that folder."
            )

    def _check_process(self) -> None:
        processes.check()

    def _extractor(self, choice: VectorChoice) -> BatchFunction:
        """A predictor of "vectors" for single texts."""
        from bert_tf.export import live_predictor

        if choice not in self._extractors:
            self._extractors[choice] = live_predictor.vectors_of(self.path, self._loaded, choice)
        return self._extractors[choice]

    def _each(self, read: Texts, kind: type[Found], batch_size: int) -> list[Found]:
        """The model's answers of this kind, one per example."""
        if not read.rows:
            return []
        if kind is Prediction:
            given_texts.warn_of_blank(read)
        head, labels = heads.get(self._head_kind or ""), tuple(self.labels or ())
        predictor = self._predictor_of(len(read.rows[0]) if self._takes_any_number else None)
        rows = predict_in_order(predictor, examples_of(read), batch_size=batch_size, window=WINDOW)
        answers = (answered(*pair, head=head, labels=labels, inputs=predictor.inputs).answer for pair in rows)
        return [answer for answer in answers if isinstance(answer, kind)]

    def _read(self, values: Any, names: Sequence[str], is_split_into_words: bool = False, name: str = "text") -> Texts:
        fewest = len(names)
        if self._takes_any_number and len(names) > 1:
            fewest = 1 if len(names) == len(PAIR) else 3  # a text or a pair; a text and two choices or more
        columns = self._columns if len(self._columns) == len(names) else ()
        joined = join_words(self._words(values, names)) if is_split_into_words else values
        read = given_texts.read(joined, names, columns=columns, name=name, fewest=fewest)
        return dataclasses.replace(read, index=given_texts.index_of(values))

    def _words(self, values: Any, names: Sequence[str]) -> Any:
        """Texts split into words, as lists; for a table, its text column or columns."""
        columns = self._columns if len(self._columns) == len(names) else ()
        return listed(given_texts.columns_of(values, names, columns))

    @functools.cached_property
    def _columns(self) -> Sequence[str]:
        """The text columns of the training table, () if there was none."""
        flags = recorded_flags(self.path) or about_file.read(self.path).get("reads") or {}
        return tuple(comma_separated(flags.get("text_columns")))

    @functools.cached_property
    def _is_made_here(self) -> bool:
        """Returns whether a run or an export records the number of texts per example."""
        return bool(self._loaded.answers)

    @functools.cached_property
    def _takes_any_number(self) -> bool:
        """Returns whether neither run nor export says how many texts an example has: the caller's number counts."""
        kind = self._head_kind
        return not self._is_made_here and (heads.text_counts(kind) == (1, 2) or kind == MultipleChoice.kind)

    @functools.cached_property
    def _names(self) -> list[str]:
        """The names of an example's texts: the input names, numbered if an input takes several texts."""
        if self._takes_any_number:
            is_choice = self._head_kind == MultipleChoice.kind
            return ["text_a", *(f"choice {number}" for number in range(MAX_CHOICES))] if is_choice else list(PAIR)
        names: list[str] = []
        for name, count in self._predictor_of(None).inputs.items():
            names += [f"{name.removesuffix('s')} {number}" for number in range(count)] if count else [name]
        return names

    def _expect(self, method: str, *, asked: str = "") -> None:
        """Raises UserError unless the model's head supports this method. asked: the called method, if different."""
        kind = self.kind if self.kind == Vectors.kind else self._head_kind
        if kind is None:
            raise UserError(
                f"{self.path} has no head{self._loaded.why_headless}: use embed(texts), or fine-tune it first."
            )
        own = heads.get(kind).wording().method
        if own.partition("(")[0] != method:
            raise UserError(f"{self.path} does not support {asked or method}: use {own}.")

    @property
    def _head_kind(self) -> str | None:
        """The kind of its head; None if it cannot make predictions for a text."""
        from bert_tf.export import live_model

        return live_model.kind_of(self._loaded)

    @functools.cached_property
    def _explainer(self) -> Any:
        """The function that attributes predictions to tokens, using the weights of `model`."""
        from bert_tf.export import attribution_signature

        self._loaded.check_vocabulary(self.path)
        assert self.tokenizer is not None
        return attribution_signature.signature(self.model, self.tokenizer)

    @functools.cached_property
    def _predictor_of(self) -> Callable[[int | None], TextFunction]:
        """Number of texts per example, None if unspecified -> the predictor of the model's task.

        Only third-party checkpoints take any number that their head supports.
        """
        return functools.cache(self._new_predictor)

    def _new_predictor(self, texts: int | None) -> TextFunction:
        """The predictor of the model's task, which uses the weights of `model` at the time of the call."""
        from bert_tf.export import live_predictor

        with plugins.trusting(everything=self.trust_code):
            return live_predictor.predictor_of(self.path, self._loaded, texts)

    def _tagged_sentences(self, sentences: Any, batch_size: int) -> list[Entities]:
        self._expect("entities")
        join_words(sentences)  # raises for anything else
        examples = [
            Example(str(number), tuple(words), None, f"sentence {number}")
            for number, words in enumerate([sentences] if is_words(sentences) else sentences)
        ]
        tagger = self._predictor_of(None).word_tagger
        assert tagger is not None
        outputs = predict_in_order(tagger, examples, batch_size=batch_size, window=WINDOW)
        answers = (tagged_words.answered(*pair, tuple(self.labels or ())).answer for pair in outputs)
        return [answer for answer in answers if isinstance(answer, Entities)]


def examples_of(read: Texts) -> list[Example]:
    """The texts as Examples, numbered."""
    return [Example(str(number), row, None, f"text {number}") for number, row in enumerate(read.rows)]
