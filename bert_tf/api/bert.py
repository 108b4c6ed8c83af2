"""A loaded model that takes strings: `bert_tf.load`."""

import copy
import functools
import itertools
import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast, overload

import numpy as np

from bert_tf import heads
from bert_tf.api import call_options, frames, python_words
from bert_tf.api import texts as given_texts
from bert_tf.api.call_options import Embedding, Hypotheses, LongTexts, Many, One, Reading, checked_path
from bert_tf.api.inputs import PAIR, Inputs
from bert_tf.api.results import Attribution, Ranked
from bert_tf.api.sources import EngineSource, KerasSource, Source
from bert_tf.api.texts import Texts, is_words, join_words
from bert_tf.checkpoints import formats
from bert_tf.config.bert_config import BertConfig
from bert_tf.config.flag_groups import EXPORT_PRECISIONS
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.data.examples import Example
from bert_tf.errors import UserError, listed
from bert_tf.export import about_file, loaded_model, opening, trained_model
from bert_tf.export.batches import predict_in_order
from bert_tf.export.predictor import Predictor
from bert_tf.export.reranking import Reranker
from bert_tf.export.text_function import TextFunction
from bert_tf.export.zero_shot import TEMPLATE, ZeroShot
from bert_tf.heads.base.answering import answered
from bert_tf.heads.base.answers import Answer, BaseAnswer, Entities, Entity, FilledMasks, Prediction, Tag, Token
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.tags import tagged_words
from bert_tf.heads.vectors import Vectors, sentence_choice, similarity
from bert_tf.heads.vectors.sentence_choice import DOCUMENT, QUERY, SentenceOptions
from bert_tf.reports import model_card
from bert_tf.runtime import files, plugins
from bert_tf.runtime.atomic_files import check_free
from bert_tf.runtime.lazy import tf

if TYPE_CHECKING:
    from typing import Self

    import pandas as pd

    from bert_tf.model.heads import BertModel
    from bert_tf.model.weights import LoadReport
    from bert_tf.text.tokenizer import Tokenizer

MAX_SHOWN = 6  # labels in a message
OF_KERAS = ("compile", "fit", "evaluate", "summary", "layers", "trainable", "optimizer", "weights")  # of a Keras model
KERAS = ".keras"  # extension of Keras files
OTHER_FILES = (".h5", ".hdf5", ".bin", ".pt", ".pth", ".safetensors", ".onnx", ".tflite", ".pb", ".json", ".zip")
FOLDER = "the path of a folder to write"
WINDOW = 4096  # texts per window, batched by similar length
OPTIONS: dict[str, Any] = dict.fromkeys(("format_name", "special_tokens_in_strings", "segments", "labels", "kind"))
OPTIONS |= dict.fromkeys(("trust_code", "new_head"), False)  # of `load`

Found = TypeVar("Found", bound=BaseAnswer)
Method = TypeVar("Method", bound=Callable[..., Any])


def load(path: str | os.PathLike[str], *, engine: opening.Engine | None = None, **options: Any) -> "Bert":
    """Reads any checkpoint, run or export; for the options see `bert_tf.load`."""
    options = OPTIONS | options
    predictor = None if engine is None else _on_engine(os.fspath(path), engine, options)
    if predictor is not None:
        return Bert(EngineSource(predictor), options={**options, "engine": predictor.engine})
    path = formats.locate(path)  # so that a wrong path fails before TensorFlow is loaded
    about_file.read(path)  # raises if it was changed
    return Bert(KerasSource.load(path, **options), options=options)


def _on_engine(path: str, engine: str, options: Mapping[str, Any]) -> Predictor | None:
    """The export at a path on an engine; None for TensorFlow. See `opening.choose`."""
    if options["new_head"] or options["labels"] is not None or options["kind"] is not None:
        raise UserError("labels, kind and new_head are for Keras models: remove engine.")
    if options["format_name"] is not None:
        raise UserError("format_name applies to checkpoints, and only TensorFlow runs those: omit it or engine.")
    return opening.load(loaded_model.find(path), engine)


def answering(method: Method) -> Method:
    """Decorates a method that computes: checks the process and the option types; errors name Python arguments."""

    @functools.wraps(method)
    def checked(self: "Bert", *values: Any, **options: Any) -> Any:
        with python_words.spoken():
            self._source.check_process()
            return method(self, *values, **call_options.checked(options))

    return cast(Method, checked)


class Bert:
    """A loaded model: the Keras model with its tokenizer, and methods for texts.

    The methods use the weights of `model` at the time of the call. A run is used as it was trained: with its
    max_seq_length, windows and thresholds. Other checkpoints read as many tokens as they have positions (384
    for QA); QA and tagging read longer texts in windows; `embed` reads max_seq_length=128.

    The `texts` argument of the methods is a single example (a text, or a tuple if it has several), or any iterable of
    examples: a list, a pandas Series or DataFrame, a NumPy array, a tf.data.Dataset or a generator, whose elements are
    texts, tuples, lists or rows. In a DataFrame, the columns used for training are read. The result is then a list in
    the same order, or with as_frame=True a DataFrame with the index of the Series or DataFrame.

    Attributes:
        path: the loaded path or name.
        engine: the name of the engine that computes; "tensorflow" for a Keras model.
        labels: names of the head's outputs, LABEL_0, LABEL_1, ... if the checkpoint does not name them; None for a head
            without names.
        sentence_vectors: the pooling of a sentence-transformers folder; None for others.
        trust_code: whether its files may name code outside of this package.
    """

    def __init__(self, source: Source, *, options: Mapping[str, Any]) -> None:
        """options: the arguments of `load` except the path."""
        self._source, self._options, self.trust_code = source, dict(options), bool(options["trust_code"])
        self.path, self.engine, self.sentence_vectors = source.path, source.engine, source.sentence_vectors
        self.labels = None if source.labels is None else list(source.labels)
        self._inputs = Inputs(source)

    @property
    def model(self) -> "BertModel":
        """A Keras model with `compile`, `fit` and `evaluate`, see docs/keras.md; `model.encoder` is its encoder.

        Raises UserError if the model runs on another engine; so do `tokenizer` and `report`.
        """
        return self._source.model

    @property
    def tokenizer(self) -> "Tokenizer | None":
        """Its tokenizer for pipelines, None without a vocabulary; the methods for texts do without it."""
        return self._source.tokenizer

    @property
    def report(self) -> "LoadReport | None":
        """Which weights were loaded."""
        return self._source.report

    @property
    def config(self) -> BertConfig:
        """The configuration of the encoder."""
        return self._source.config

    @property
    def kind(self) -> str | None:
        """The head kind as in `labels.json`; None without a task head."""
        return self._source.kind

    def __repr__(self) -> str:
        config, labels = self.config, self.labels or ()
        shown = ", ".join(labels[:MAX_SHOWN]) + (f" and {len(labels) - MAX_SHOWN} more" * (len(labels) > MAX_SHOWN))
        head = self._source.name + (f" of {shown}" if shown else "")
        size = f"{config.num_hidden_layers} layers of {config.hidden_size}"
        engine = "" if self.engine == opening.TENSORFLOW else f"; runs on {self.engine}"
        return f"<Bert {self.path}: {head}; {config.encoder}, {size}, {config.vocab_size:,} tokens{engine}>"

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
        """A copy with its own model."""
        copied = memo[id(self)] = type(self)(copy.deepcopy(self._source, memo), options=self._options)
        copied.labels, copied.sentence_vectors = copy.copy(self.labels), self.sentence_vectors
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the path and the arguments of `load`; UserError if loading them would not restore this model."""
        path = files.absolute(self.path) if files.exists_with_prefix(self.path) else self.path  # else a name on a hub
        again = functools.partial(load, path, **self._options)
        changed = ["labels"] * (self.labels != self._source.labels)
        changed += ["sentence_vectors"] * (self.sentence_vectors is not self._source.sentence_vectors)
        changed += itertools.islice(self._source.changes(path, self._options), 1)
        if changed:
            raise UserError(
                f"A pickle of a loaded model stores its path, not its content, and {', '.join(changed)} of this model "
                f"differs from {self.path}: write it with save(FOLDER) and load that folder."
            )
        return again, ()

    @overload
    def embed(
        self, texts: str | Many, *, as_frame: Literal[False] = False, **options: Unpack[Embedding]
    ) -> np.ndarray: ...

    @overload
    def embed(self, texts: str | Many, *, as_frame: Literal[True], **options: Unpack[Embedding]) -> "pd.DataFrame": ...

    @answering
    def embed(
        self,
        texts: str | Many,
        *,
        as_frame: bool = False,
        is_split_into_words: bool = False,
        layers: str = "last",
        pooling: str | None = None,
        normalize: bool | None = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
        truncate_dim: int | None = None,
        max_seq_length: int | None = None,
        long_texts: LongTexts | None = None,
        batch_size: int = 256,
    ) -> "np.ndarray | pd.DataFrame":
        """Returns the embedding of each text, like `bert-tf extract --unit=sentence`.

        The settings of a sentence-transformers folder apply unless overridden by an argument.

        Args:
            texts: a text, or several.
            as_frame: return a DataFrame.
            is_split_into_words: each text is a list of its words.
            layers: which layers, such as "last" or "-1,-2"; several are concatenated.
            pooling: "mean", "cls", "max" etc., or several as in "mean+max"; default: as specified in the folder, else
                the mean.
            normalize: whether to scale embeddings to unit length; default: as specified in the folder, else not.
            prompt_name: the name of one of the folder's prompts, such as "query", to put before each text; default: the
                folder's default prompt.
            prompt: the prompt itself; "" for none.
            truncate_dim: number of dimensions to keep; default: as specified in the folder, else all.
            max_seq_length: tokens per text or window; default: as specified in the folder, else 128.
            long_texts: "cut" truncates longer texts, like sentence-transformers (the default for its folders);
                "windows" reads them in overlapping windows (the default for others).
            batch_size: texts per batch.

        Returns:
            float32 [B, D], or [D] for a single text; or a DataFrame of B rows.

        Raises:
            UserError: unknown layers, pooling or prompt, unsupported modules in the folder, or a checkpoint without a
                vocabulary.
        """
        options = SentenceOptions(
            pooling=pooling,
            normalize=normalize,
            prompt_name=prompt_name,
            prompt=prompt,
            truncate_dim=truncate_dim,
            max_seq_length=max_seq_length,
            long_texts=long_texts,
        )
        choice = sentence_choice.choose(
            self.sentence_vectors, options, path=self.path, config=self.config, layers=layers
        )
        extractor = self._source.extractor(choice)
        read = self._inputs.read(texts, ["text"], is_split_into_words)
        rows = predict_in_order(extractor, examples_of(read), batch_size=batch_size, window=WINDOW)
        width = choice.width(self.config.hidden_size) * len(choice.layers.names)
        vectors = [np.reshape(values["vectors"].vectors, -1) for _, values in rows]
        stacked = np.stack(vectors) if vectors else np.zeros([0, width], np.float32)
        if as_frame:
            return frames.of_vectors(stacked, read.index)
        return stacked[0] if read.is_single else stacked

    def encode_query(self, texts: str | Many, *, prompt: str | None = None, **options: Any) -> Any:
        """`embed` with the folder's "query" prompt, if it has one, like sentence-transformers' `encode_query`.

        prompt: replaces that prompt. options: see `embed`.
        """
        return self.embed(texts, prompt_name=QUERY if prompt is None else None, prompt=prompt, **options)

    def encode_documents(self, texts: str | Many, *, prompt: str | None = None, **options: Any) -> Any:
        """The same with the "document" prompt, like `encode_document`."""
        return self.embed(texts, prompt_name=DOCUMENT if prompt is None else None, prompt=prompt, **options)

    @python_words.spoken()
    def similarity(self, a: Any, b: Any) -> np.ndarray:
        """Returns the similarity of each vector of `a` with each of `b`, like sentence-transformers' `similarity`.

        The measure is specified in the folder: cosine (the default), dot product, or negative Euclidean or Manhattan
        distance.

        Args:
            a: embeddings from `embed`, [A, D], or [D] for a single one.
            b: embeddings from `embed`, [B, D], or [D] for a single one.

        Returns:
            float32 [A, B].

        Raises:
            UserError: the vectors differ in size, or the folder has unsupported modules.

        Example:
            bert.similarity(bert.encode_query("What is TF-IDF?"), bert.encode_documents(texts)).argmax()
        """
        vectors = self.sentence_vectors or SentenceVectors()
        vectors.check_supported(self.path)
        return similarity.matrix(vectors.similarity or "cosine", a, b)

    @overload
    def predict(  # type: ignore[overload-overlap]  # a tuple is one example
        self, texts: One, *, as_frame: Literal[False] = False, **options: Unpack[Reading]
    ) -> Prediction: ...

    @overload
    def predict(
        self, texts: Many, *, as_frame: Literal[False] = False, **options: Unpack[Reading]
    ) -> list[Prediction]: ...

    @overload
    def predict(self, texts: One | Many, *, as_frame: Literal[True], **options: Unpack[Reading]) -> "pd.DataFrame": ...

    @answering
    def predict(
        self, texts: One | Many, *, as_frame: bool = False, is_split_into_words: bool = False, batch_size: int = 32
    ) -> "Prediction | list[Prediction] | pd.DataFrame":
        """Classifies texts or pairs, predicts numbers, or chooses, depending on the model's head.

        Args:
            texts: a text; a tuple of two texts (a pair), or of a text and its choices; or several of these.
            as_frame: return a DataFrame: label, value, and a column "probability LABEL" for each label.
            is_split_into_words: each text is a list of its words; one list of words is then a single text.
            batch_size: texts per batch.

        Returns:
            A Prediction, a list with one for each of several texts, or a DataFrame.

        Raises:
            UserError: the model has a different kind of head or takes a different number of texts, or a value is not
                a text, such as None.
        """
        self._expect("predict")
        read = self._inputs.read(texts, self._inputs.names, is_split_into_words)
        results = self._each(read, Prediction, batch_size)
        if as_frame:
            return frames.of_predictions(results, read.index)
        return results[0] if read.is_single else results

    @overload
    def zero_shot(
        self, texts: str, labels: Sequence[str], *, as_frame: Literal[False] = False, **options: Unpack[Hypotheses]
    ) -> Prediction: ...

    @overload
    def zero_shot(
        self, texts: Many, labels: Sequence[str], *, as_frame: Literal[False] = False, **options: Unpack[Hypotheses]
    ) -> list[Prediction]: ...

    @overload
    def zero_shot(
        self, texts: str | Many, labels: Sequence[str], *, as_frame: Literal[True], **options: Unpack[Hypotheses]
    ) -> "pd.DataFrame": ...

    @answering
    def zero_shot(
        self,
        texts: str | Many,
        labels: Sequence[str],
        *,
        as_frame: bool = False,
        multi_label: bool = False,
        hypothesis_template: str = TEMPLATE,
    ) -> "Prediction | list[Prediction] | pd.DataFrame":
        """Classifies texts with labels that the model, an NLI model, was not trained on.

        Args:
            texts: a text, or several.
            labels: the classes.
            as_frame: return a DataFrame: label, and a column "probability LABEL" for each label.
            multi_label: whether any number of labels may apply; otherwise exactly one does.
            hypothesis_template: the hypothesis for a class, with {} in place of the label.

        Returns:
            A Prediction, a list with one for each of several texts, or a DataFrame; the probabilities equal those from
            the zero-shot classification pipeline of `transformers`.

        Raises:
            UserError: the model takes no pairs or has no entailment label, or labels or template are invalid.
        """
        self._expect("predict", asked="zero_shot")
        several = [labels] if isinstance(labels, given_texts.SINGLE) else given_texts.elements(labels, "labels")
        names = [given_texts.as_text(each, "A label") for each in several]
        classify = ZeroShot(
            self._predictor(2 if self._inputs.takes_any_number else None),
            tuple(self.labels or ()),
            names,
            multi_label=multi_label,
            hypothesis_template=hypothesis_template,
        )
        read = self._inputs.read(texts, ["text"])
        rows = predict_in_order(classify, examples_of(read), batch_size=32, window=WINDOW)
        results = [classify.head.answer(outputs, names) for _, outputs in rows]
        predictions = [each for each in results if isinstance(each, Prediction)]
        if as_frame:
            return frames.of_predictions(predictions, read.index)
        return predictions[0] if read.is_single else predictions

    @answering
    def rank(self, query: str, texts: Many, *, label: str = "", count: int | None = None) -> list[Ranked]:
        """Returns the texts sorted by how well they answer a query, best first.

        Args:
            query: the query.
            texts: several texts.
            label: the class of a pair classifier whose probability is the score; default: the one whose name means a
                match, such as "entailment" or "1". Cross-encoders use their own score.
            count: number of texts to return; default: all.

        Raises:
            UserError: the model takes no pairs, or it is unclear which of its labels means a match.
        """
        self._expect("predict", asked="rank")
        pairs = self._predictor(None if self._source.is_recorded else 2)
        asked, read = given_texts.as_text(query, "The query"), self._inputs.read(texts, ["text"])
        names = [row[0] for row in read.rows]
        scores = Reranker(pairs, tuple(self.labels or ()), label)(asked, names).tolist()
        found = [Ranked(number=number, score=scores[number], text=text) for number, text in enumerate(names)]
        return sorted(found, key=lambda each: -each.score)[:count]

    @overload
    def fill_mask(self, texts: str) -> list[list[Token]]: ...

    @overload
    def fill_mask(self, texts: Many) -> list[list[list[Token]]]: ...

    @answering
    def fill_mask(self, texts: str | Many) -> list[list[Token]] | list[list[list[Token]]]:
        """Returns the ten most probable tokens for each [MASK] in a text, best first; for several texts, a list each.

        Raises:
            UserError: the model has no masked LM head.
        """
        self._expect("fill_mask")
        read = self._inputs.read(texts, ["text"])
        results = [each.masks for each in self._each(read, FilledMasks, 32)]
        return results[0] if read.is_single else results

    @overload
    def answer(
        self, question: str, text: str, *, as_frame: Literal[False] = False, is_split_into_words: bool = False
    ) -> Answer: ...

    @overload
    def answer(
        self, question: Many, text: Many, *, as_frame: Literal[False] = False, is_split_into_words: bool = False
    ) -> list[Answer]: ...

    @overload
    def answer(
        self, question: Many, text: Many, *, as_frame: Literal[True], is_split_into_words: bool = False
    ) -> "pd.DataFrame": ...

    @answering
    def answer(
        self, question: str | Many, text: str | Many, *, as_frame: bool = False, is_split_into_words: bool = False
    ) -> "Answer | list[Answer] | pd.DataFrame":
        """Returns the part of a text of any length that answers a question; "" for "no answer" if trained for it.

        For several questions, texts or both it returns a list of answers; a single text is then used for every
        question, and a single question for every text.

        Args:
            question: the question, or several.
            text: the text, or several.
            as_frame: return a DataFrame, a row for each question and text.
            is_split_into_words: question and text are lists of words; the answer is a part of the words joined by
                spaces.

        Raises:
            UserError: the model was not trained for QA, or there are more questions than texts.
        """
        self._expect("answer")
        questions = self._inputs.read(question, ["question"], is_split_into_words, name="question")
        texts = self._inputs.read(text, ["context"], is_split_into_words)
        pairs = given_texts.paired(questions, texts)
        results = self._each(pairs, Answer, 32)
        if as_frame:
            return frames.of_records(results, pairs.index, Answer)
        return results[0] if pairs.is_single else results

    @overload
    def entities(self, texts: str, *, as_frame: Literal[False] = False, **options: Unpack[Reading]) -> list[Entity]: ...

    @overload
    def entities(
        self, texts: Many, *, as_frame: Literal[False] = False, **options: Unpack[Reading]
    ) -> list[list[Entity]]: ...

    @overload
    def entities(self, texts: str | Many, *, as_frame: Literal[True], **options: Unpack[Reading]) -> "pd.DataFrame": ...

    @answering
    def entities(
        self, texts: str | Many, *, as_frame: bool = False, is_split_into_words: bool = False, batch_size: int = 32
    ) -> "list[Entity] | list[list[Entity]] | pd.DataFrame":
        """Returns the tagged parts of a text of any length, in order; for several texts, a list each.

        Args:
            texts: a text, or several.
            as_frame: return a DataFrame, a row for each entity, with the index or the number of its text.
            is_split_into_words: a text is a list of its words, entities consist of whole words, and offsets are
                characters of the words joined by spaces (except CJK characters).
            batch_size: texts per batch.

        Raises:
            UserError: the model is not a tagger, or a value is not a text, such as None.
        """
        self._expect("entities")
        if is_split_into_words:
            several = self._inputs.words(texts, self._inputs.names)
            results = [each.entities for each in self._tagged_sentences(several, batch_size)]
            is_single, index = is_words(several), given_texts.index_of(texts)
        else:
            read = self._inputs.read(texts, self._inputs.names)
            results = [each.entities for each in self._each(read, Entities, batch_size)]
            is_single, index = read.is_single, read.index
        if as_frame:
            return frames.of_lists(results, index, Entity)
        return results[0] if is_single else results

    @overload
    def tags(self, words: list[str], *, batch_size: int = 32) -> list[Tag]: ...

    @overload
    def tags(self, words: Many, *, batch_size: int = 32) -> list[list[Tag]]: ...

    @answering
    def tags(self, words: Many, *, batch_size: int = 32) -> list[Tag] | list[list[Tag]]:
        """Returns the tag of each word of a sentence split into words; for several sentences, a list each.

        Raises:
            UserError: the model is not a tagger.
        """
        self._expect("entities", asked="tags")
        words = self._inputs.words(words, self._inputs.names)
        rows = [each.words or [] for each in self._tagged_sentences(words, batch_size)]
        return rows[0] if is_words(words) else rows

    @overload
    def attribute(self, texts: One) -> Attribution: ...  # type: ignore[overload-overlap]  # a tuple is one example

    @overload
    def attribute(self, texts: Many) -> list[Attribution]: ...

    @answering
    def attribute(self, texts: One | Many) -> Attribution | list[Attribution]:
        """Returns how much each token of a text, or of a pair, contributed to the prediction, by integrated gradients.

        For several texts or pairs it returns a list, like `predict`.

        It explains classes, numbers and choices, the first [MASK], and answers (for a pair of question and text). Long
        texts are truncated, as in exports with attention.

        Raises:
            UserError: the head is of a different kind, or the encoder is not BERT's.
        """
        explain = self._source.explainer  # raises for a different head
        is_of_choices = self._source.head_kind == MultipleChoice.kind
        read = self._inputs.read(texts, list(PAIR) if is_of_choices else self._inputs.names)
        found = [self._attribution(explain(tf.constant([" ||| ".join(row)]))) for row in read.rows]
        return found[0] if read.is_single else found

    @answering
    def save(self, path: str | os.PathLike[str], *, format: str = "native") -> None:  # noqa: A002  # as in other libraries
        """Writes the model with its current weights, vocabulary and labels, for `load` and other libraries.

        Args:
            path: a new folder, or a .keras file, which Keras reads too.
            format: the folder's format, as in `bert-tf convert`: "native", "huggingface", "google_tf" or "keras_hub".

        Raises:
            UserError: the path exists already, or the format is unknown or does not support this model.

        Example:
            bert.save("my-model", format="huggingface")  # for AutoModel.from_pretrained
        """
        path = checked_path(path, expected=FOLDER)
        if path.endswith(KERAS):
            self.model.save(path)
            return
        if path.endswith(OTHER_FILES):
            raise UserError(f"path is {path}; expected the path of a folder, or of a {KERAS} file.")
        check_free(path)
        checkpoint = self._source.checkpoint(self.labels)
        with plugins.trusting(everything=self.trust_code):
            left_out = formats.write(checkpoint, path, format)
        model_card.write_of_conversion(checkpoint, self.path, path, format)
        if left_out:
            logging.getLogger("bert_tf").warning(
                "%s is without %s, which %s cannot hold.", path, listed(left_out), format
            )

    @answering
    def export(
        self,
        folder: str | os.PathLike[str],
        *,
        attention: bool = False,
        precision: str = "float32",
        engines: str | Sequence[str] = "auto",
        texts: Iterable[str | Sequence[str]] = (),
        num_texts: int | None = None,
        overwrite: bool = False,
    ) -> None:
        """Writes a SavedModel that takes strings, with the current weights, like `bert-tf export`.

        Args:
            folder: a new folder.
            attention: whether to add signatures that return attention weights and attributions.
            precision: precision of the weights, "float32" or "bfloat16".
            engines: engines to export models for too: "openvino", "onnx", "openvino_int8", "onnx_int8"; "none"; "auto":
                openvino or onnx, the first one installed that can run the model.
            texts: examples, such as the training texts, that calibrate openvino_int8.
            num_texts: number of texts per example if neither a run nor the labels determine it: 2 for pairs.
            overwrite: whether to replace an export.

        Raises:
            UserError: the model has no head or no vocabulary, the folder has other files, or an engine needs texts.

        Example:
            bert.export("exports/sentiment")
            tf.saved_model.load("exports/sentiment").signatures["serving_default"](text_a=tf.constant(["Good."]))
        """
        folder = checked_path(folder, "folder", FOLDER)
        names = opening.names_of(",".join([engines] if isinstance(engines, str) else engines))
        if precision not in EXPORT_PRECISIONS:
            raise UserError(f"precision is {precision!r}; expected one of {', '.join(EXPORT_PRECISIONS)}.")
        loaded_model.check_free(folder, overwrite=overwrite)
        loaded = self._source.for_export(self.labels)
        with plugins.trusting(everything=self.trust_code):
            trained = trained_model.of_loaded(self.path, loaded, num_texts, with_attention=attention)
            files.make_folder(os.path.dirname(files.absolute(folder)))
            rows = [(each,) if isinstance(each, str) else tuple(each) for each in texts]
            trained_model.write_export(trained, folder, precision, names, rows)
        model_card.write_of_conversion(self._source.checkpoint(self.labels), self.path, folder, model_card.EXPORT)

    @answering
    def push(
        self,
        repository: str,
        *,
        private: bool = False,
        revision: str | None = None,
        message: str = "Upload with bert_tf",
    ) -> str:
        """Uploads the model with a model card to the Hugging Face hub; returns its URL.

        It is in Hugging Face's layout, or in our own if that does not support the model. First log in with
        `hf auth login`, or set HF_TOKEN.

        Args:
            repository: owner/name; created if it does not exist.
            private: whether a new repository is private.
            revision: the branch; default: main.
            message: the commit message.

        Raises:
            UserError: the name is wrong, or the upload failed.

        Example:
            bert.push("my-name/sentiment", private=True)
        """
        from bert_tf.recipes import publishing

        name = publishing.name_of(repository)
        with tempfile.TemporaryDirectory() as work:
            folder = os.path.join(work, name)
            self.save(folder, format=publishing.format_for(self._source.checkpoint(self.labels)))
            return publishing.upload(folder, repository, private=private, revision=revision, message=message)

    def _predictor(self, texts: int | None) -> TextFunction:
        """The predictor of its head, with its current labels; texts: the number per example, None if unspecified."""
        found = self._source.predictor(texts)
        return found if self.labels == self._source.labels else found.with_labels(self.labels or ())

    def _each(self, read: Texts, kind: type[Found], batch_size: int) -> list[Found]:
        """The model's answers of this kind, one per example."""
        if not read.rows:
            return []
        if kind is Prediction:
            given_texts.warn_of_blank(read)
        head, labels = heads.get(self._source.head_kind or ""), tuple(self.labels or ())
        predictor = self._predictor(len(read.rows[0]) if self._inputs.takes_any_number else None)
        rows = predict_in_order(predictor, examples_of(read), batch_size=batch_size, window=WINDOW)
        answers = (answered(*pair, head=head, labels=labels, inputs=predictor.inputs).answer for pair in rows)
        return [answer for answer in answers if isinstance(answer, kind)]

    def _expect(self, method: str, *, asked: str = "") -> None:
        """Raises UserError unless the model's head supports this method. asked: the called method, if different."""
        kind = self.kind if self.kind == Vectors.kind else self._source.head_kind
        if kind is None:
            raise UserError(
                f"{self.path} has no head{self._source.why_headless}: use embed(texts), or fine-tune it first."
            )
        own = heads.get(kind).wording().method
        if own.partition("(")[0] != method:
            raise UserError(f"{self.path} does not support {asked or method}: use {own}.")

    def _tagged_sentences(self, sentences: Any, batch_size: int) -> list[Entities]:
        join_words(sentences)  # raises for anything else
        examples = [
            Example(str(number), tuple(words), None, f"sentence {number}")
            for number, words in enumerate([sentences] if is_words(sentences) else sentences)
        ]
        tagger = self._predictor(None).word_tagger
        assert tagger is not None
        outputs = predict_in_order(tagger, examples, batch_size=batch_size, window=WINDOW)
        answers = (tagged_words.answered(*pair, tuple(self.labels or ())).answer for pair in outputs)
        return [answer for answer in answers if isinstance(answer, Entities)]

    def _attribution(self, found: Any) -> Attribution:
        """The attribution of a text, made from the outputs of the signature."""
        row = {name: value.numpy()[0] for name, value in found.items()}
        labels = self.labels if self._source.head_kind in heads.kinds("is_labelled") else None
        used, target = slice(int(row["lengths"])), int(row["targets"])
        return Attribution(
            tokens=[token.decode() for token in row["tokens"][used]],
            scores=row["attributions"][used].tolist(),
            output=float(row["outputs"]),
            baseline=float(row["baseline_outputs"]),
            target=labels[target] if labels else target,
        )


def examples_of(read: Texts) -> list[Example]:
    """The texts as Examples, numbered."""
    return [Example(str(number), row, None, f"text {number}") for number, row in enumerate(read.rows)]
