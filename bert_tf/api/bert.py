"""A loaded model that takes strings: `bert_tf.load`."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, overload

import numpy as np

from bert_tf import heads
from bert_tf.api import frames, python_words
from bert_tf.api import texts as given_texts
from bert_tf.api.results import Attribution, Ranked
from bert_tf.api.texts import Texts, is_words, join_words, listed
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.export import about_file, loaded_model, tagged_words
from bert_tf.export.static_signature import static_signatures
from bert_tf.export.zero_shot import TEMPLATE, ZeroShot
from bert_tf.heads.base.answering import answered
from bert_tf.heads.base.answers import Answer, BaseAnswer, Entities, Entity, FilledMasks, Prediction, Tag, Token
from bert_tf.heads.base.staged_signature import stages_of
from bert_tf.heads.base.text_head import TextHead
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.masked_lm import MaskedLm
from bert_tf.heads.vectors import Vectors, sentence_choice, similarity
from bert_tf.heads.vectors.sentence_choice import DOCUMENT, QUERY, SentenceOptions
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.runtime import files, plugins
from bert_tf.runtime.lazy import tf
from bert_tf.search.reranking import Reranker
from bert_tf.training.run_directory import recorded_flags

if TYPE_CHECKING:
    import pandas as pd

    from bert_tf.model.heads import BertModel

MAX_SHOWN = 6  # labels
PAIR, MAX_CHOICES = ("text_a", "text_b"), 64  # of checkpoints from elsewhere
WINDOW = 4096  # texts among which those of similar length share a batch

Found = TypeVar("Found", bound=BaseAnswer)
One = str | tuple[Any, ...]  # the texts of one example
Many = Iterable[Any]  # of several: a list, Series, DataFrame, array, tf.data.Dataset, generator


class Reading(TypedDict, total=False):
    """Options for reading the texts of a call; see `Bert.predict`."""

    is_split_into_words: bool
    batch_size: int


class Embedding(Reading, total=False):
    """Options of `Bert.embed`."""

    layers: str
    pooling: str | None
    normalize: bool | None
    prompt_name: str | None
    prompt: str | None
    truncate_dim: int | None
    max_seq_length: int | None
    long_texts: str | None


class Hypotheses(TypedDict, total=False):
    """Options of `Bert.zero_shot`."""

    multi_label: bool
    hypothesis_template: str


def load(
    path: str | os.PathLike[str],
    format_name: str | None = None,
    *,
    special_tokens_in_strings: bool | Sequence[str] | None = None,
    trust_code: bool = False,
) -> "Bert":
    """Reads any checkpoint, run or export; see `bert_tf.load`."""
    from bert_tf.checkpoints import pretrained

    with plugins.trusting(everything=trust_code):
        loaded = pretrained.load(path, format_name, special_tokens_in_strings=special_tokens_in_strings)
    return Bert(loaded, os.fspath(path), trust_code=trust_code)


class Bert:
    """A loaded model: the Keras model with its tokenizer, and methods for texts.

    The methods use the weights that `model` has when they are called. A run is used as it was trained: with its
    max_seq_length, windows and thresholds. Other checkpoints read as many tokens as they have positions (384
    for questions), and longer texts in questions and tagging in windows; `embed` reads max_seq_length=128.

    `texts` of the methods are a single text (of several for an example a tuple), or several examples: any iterable of
    texts, tuples, lists or rows, such as a list, a pandas Series or DataFrame, a NumPy array, a tf.data.Dataset or a
    generator. Of a DataFrame the columns are read that the model was trained on. The result is then a list in the same
    order, or with as_frame=True a DataFrame with the index of the Series or DataFrame.

    Attributes:
        path: what was loaded.
        model: a Keras model; `model.encoder` is its encoder.
        tokenizer: None if the checkpoint has no vocabulary.
        config: the configuration of the encoder.
        labels: names of the outputs of the head, None if the checkpoint has none.
        kind: of the head of a task, as `labels.json` has it; None if the checkpoint has none.
        sentence_vectors: the pooling of a sentence-transformers folder; None for others.
        report: which weights were loaded.
        trust_code: whether its files may name code outside of this package.
    """

    def __init__(self, loaded: Checkpoint, path: str, *, trust_code: bool = False) -> None:
        self.path, self.trust_code, self._loaded = path, trust_code, loaded
        self.model: BertModel = loaded.model
        self.tokenizer = loaded.tokenizer
        self.config = loaded.config
        self.labels = loaded.labels
        self.kind = loaded.kind
        self.sentence_vectors = loaded.sentence_vectors
        self.report = loaded.report
        self._extractors: dict[VectorChoice, loaded_model.Predictor] = {}  # each traces a graph once

    def __repr__(self) -> str:
        config, labels = self.config, self.labels or ()
        shown = ", ".join(labels[:MAX_SHOWN]) + (f" and {len(labels) - MAX_SHOWN} more" * (len(labels) > MAX_SHOWN))
        size = f"{config.num_hidden_layers} layers of {config.hidden_size}"
        head = type(self.model).__name__ + (f" of {shown}" if shown else "")
        return f"<Bert {self.path}: {head}; {config.encoder}, {size}, {config.vocab_size:,} tokens>"

    @overload
    def embed(
        self, texts: str | Many, *, as_frame: Literal[False] = False, **options: Unpack[Embedding]
    ) -> np.ndarray: ...

    @overload
    def embed(self, texts: str | Many, *, as_frame: Literal[True], **options: Unpack[Embedding]) -> "pd.DataFrame": ...

    @python_words.spoken()
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
        long_texts: str | None = None,
        batch_size: int = 256,
    ) -> "np.ndarray | pd.DataFrame":
        """Returns the embedding of each text, as `bert-tf extract --unit=sentence` computes it.

        What a folder of sentence-transformers says applies unless an argument says otherwise.

        Args:
            texts: a text, or several.
            as_frame: return a DataFrame.
            is_split_into_words: each text is a list of its words.
            layers: which layers, such as "last" or "-1,-2"; several are concatenated.
            pooling: "mean", "cls", "max" and so on, or several as "mean+max"; by default as the folder says, else the
                mean.
            normalize: whether embeddings get unit length; by default as the folder says, else not.
            prompt_name: the name of a prompt of the folder, such as "query", that is put before each text; by default
                that which the folder names as default.
            prompt: the prompt itself; "" for none.
            truncate_dim: how many numbers of each embedding are kept; by default as the folder says, else all.
            max_seq_length: tokens per text or window; by default as the folder says, else 128.
            long_texts: "cut" truncates longer texts, as sentence-transformers does and by default for its folders;
                "windows" reads them in overlapping windows, by default for others.
            batch_size: texts per batch.

        Returns:
            float32 [B, D], or [D] for a single text; or a DataFrame of B rows.

        Raises:
            UserError: unknown layers, pooling or prompt, the folder has modules that are not supported, or the
                checkpoint has no vocabulary.
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
        extractor = self._extractor(choice)
        read = self._read(texts, ["text"], is_split_into_words)
        rows = loaded_model.predict_in_order(extractor, _examples(read), batch_size=batch_size, window=WINDOW)
        width = choice.width(self.config.hidden_size) * len(choice.layers.names)
        vectors = [np.reshape(values["vectors"].vectors, -1) for _, values in rows]
        stacked = np.stack(vectors) if vectors else np.zeros([0, width], np.float32)
        if as_frame:
            return frames.of_vectors(stacked, read.index)
        return stacked[0] if read.is_single else stacked

    def encode_query(self, texts: str | Many, *, prompt: str | None = None, **options: Any) -> Any:
        """`embed` with the prompt "query" of the folder, if it has one, as sentence-transformers' `encode_query`.

        prompt: another one. options: of `embed`.
        """
        return self.embed(texts, prompt_name=QUERY if prompt is None else None, prompt=prompt, **options)

    def encode_documents(self, texts: str | Many, *, prompt: str | None = None, **options: Any) -> Any:
        """The same with the prompt "document", as `encode_document`."""
        return self.embed(texts, prompt_name=DOCUMENT if prompt is None else None, prompt=prompt, **options)

    @python_words.spoken()
    def similarity(self, a: Any, b: Any) -> np.ndarray:
        """Returns the similarity of each vector of `a` with each of `b`, as sentence-transformers' `similarity`.

        The folder says which one: cosine, by default, dot product, or negative Euclidean or Manhattan distance.

        Args:
            a: vectors that `embed` returned, [A, D], or [D] for a single one.
            b: vectors that `embed` returned, [B, D], or [D] for a single one.

        Returns:
            float32 [A, B].

        Raises:
            UserError: these are not vectors of one size, or the folder has modules that are not supported.

        Example:
            bert.similarity(bert.encode_query("What is TF-IDF?"), bert.encode_documents(texts)).argmax()
        """
        vectors = self.sentence_vectors or SentenceVectors()
        vectors.check_supported(self.path)
        return similarity.matrix(vectors.similarity or "cosine", a, b)

    def _extractor(self, choice: VectorChoice) -> loaded_model.Predictor:
        """A predictor of "vectors" of single texts."""
        from bert_tf.heads.vectors.extraction import Extractor

        if choice not in self._extractors:
            self._extractors[choice] = Extractor(
                self.model, self._loaded.require_tokenizer(self.path), choice, splits_pairs=False
            )
        return self._extractors[choice]

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

    @python_words.spoken()
    def predict(
        self, texts: One | Many, *, as_frame: bool = False, is_split_into_words: bool = False, batch_size: int = 32
    ) -> "Prediction | list[Prediction] | pd.DataFrame":
        """Classifies texts, compares pairs, rates, or chooses, as the head of the model does.

        Args:
            texts: a text; a tuple of two texts for a pair, or of a text and its choices; or several of these.
            as_frame: return a DataFrame: label, value, and a column "probability LABEL" for each label.
            is_split_into_words: each text is a list of its words; a list of words is then a single text.
            batch_size: texts per batch.

        Returns:
            A Prediction, a list with one for each of several texts, or a DataFrame.

        Raises:
            UserError: the model has another head, takes more or fewer texts, or one is none, such as None.
        """
        self._expect("predict")
        read = self._read(texts, self._names, is_split_into_words)
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

    @python_words.spoken()
    def zero_shot(
        self,
        texts: str | Many,
        labels: Sequence[str],
        *,
        as_frame: bool = False,
        multi_label: bool = False,
        hypothesis_template: str = TEMPLATE,
    ) -> "Prediction | list[Prediction] | pd.DataFrame":
        """Classifies texts by labels that the model, one of entailment (NLI), was not trained on.

        Args:
            texts: a text, or several.
            labels: the classes.
            as_frame: return a DataFrame: label, and a column "probability LABEL" for each label.
            multi_label: whether any number of labels may hold; otherwise one does.
            hypothesis_template: what a text of a class entails, with {} in place of the label.

        Returns:
            A Prediction, a list with one for each of several texts, or a DataFrame; with the probabilities of
            the pipeline of `transformers` for zero-shot classification.

        Raises:
            UserError: the model takes no pairs or has no label entailment, or labels or template are wrong.
        """
        self._expect("predict", asked="zero_shot")
        names = [labels] if isinstance(labels, str) else [given_texts.as_text(each, "A label") for each in labels]
        classify = ZeroShot(
            self._predictor_of(2 if self._takes_any_number else None),
            tuple(self.labels or ()),
            names,
            multi_label=multi_label,
            hypothesis_template=hypothesis_template,
        )
        read = self._read(texts, ["text"])
        rows = loaded_model.predict_in_order(classify, _examples(read), batch_size=32, window=WINDOW)
        results = [classify.head.answer(outputs, names) for _, outputs in rows]
        predictions = [each for each in results if isinstance(each, Prediction)]
        if as_frame:
            return frames.of_predictions(predictions, read.index)
        return predictions[0] if read.is_single else predictions

    @python_words.spoken()
    def rank(self, query: str, texts: Many, *, label: str = "", count: int | None = None) -> list[Ranked]:
        """Returns the texts in the order of how well they answer a query, the best first.

        Args:
            query: the query.
            texts: several texts.
            label: of a classifier of pairs the class whose probability is the score; by default the one whose name
                means a match, such as "entailment" or "1". Cross-encoders have their number.
            count: how many are returned; by default all.

        Raises:
            UserError: the model takes no pairs, or which of its labels means a match is not clear.
        """
        self._expect("predict", asked="rank")
        pairs = self._predictor_of(None if self._is_made_here else 2)
        asked, read = given_texts.as_text(query, "The query"), self._read(listed(texts), ["text"])
        names = [row[0] for row in read.rows]
        scores = Reranker(pairs, tuple(self.labels or ()), label)(asked, names).tolist()
        found = [Ranked(number=number, score=scores[number], text=text) for number, text in enumerate(names)]
        return sorted(found, key=lambda each: -each.score)[:count]

    @overload
    def fill_mask(self, texts: str) -> list[list[Token]]: ...

    @overload
    def fill_mask(self, texts: Many) -> list[list[list[Token]]]: ...

    @python_words.spoken()
    def fill_mask(self, texts: str | Many) -> list[list[Token]] | list[list[list[Token]]]:
        """Returns the ten most probable tokens for each [MASK] of a text, best first; of several texts those of each.

        Raises:
            UserError: the model has no masked LM head.
        """
        self._expect("fill_mask")
        read = self._read(texts, ["text"])
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

    @python_words.spoken()
    def answer(
        self, question: str | Many, text: str | Many, *, as_frame: bool = False, is_split_into_words: bool = False
    ) -> "Answer | list[Answer] | pd.DataFrame":
        """Returns the part of a text of any length that answers a question; "" for "no answer" if trained for it.

        Several questions, texts or both have a list of answers; a single text is then read for each of the questions,
        and a single question is asked of each of the texts.

        Args:
            question: the question, or several.
            text: the text, or several.
            as_frame: return a DataFrame, a row for each question and text.
            is_split_into_words: question and text are lists of words; the answer is a part of the words joined by
                spaces.

        Raises:
            UserError: the model was not trained on questions, or there are more questions than texts.
        """
        self._expect("answer")
        questions = self._read(question, ["question"], is_split_into_words, name="question")
        texts = self._read(text, ["context"], is_split_into_words)
        pairs = given_texts.paired(questions, texts)
        if next(iter(self._predictor_of(None).inputs)) != "question":  # texts have the order of the inputs
            pairs = dataclasses.replace(pairs, rows=[(text, question) for question, text in pairs.rows])
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

    @python_words.spoken()
    def entities(
        self, texts: str | Many, *, as_frame: bool = False, is_split_into_words: bool = False, batch_size: int = 32
    ) -> "list[Entity] | list[list[Entity]] | pd.DataFrame":
        """Returns the tagged parts of a text of any length, in order; of several texts those of each.

        Args:
            texts: a text, or several.
            as_frame: return a DataFrame, a row for each entity, with the index of its text, or its number.
            is_split_into_words: a text is a list of its words, no entity ends within a word, and offsets are characters
                of the words joined by spaces (but not ideographs).
            batch_size: texts per batch.

        Raises:
            UserError: the model is not a tagger, or a text is none, such as None.
        """
        self._expect("entities")
        if is_split_into_words:
            several = listed(texts)
            results = [each.entities for each in self._tagged_sentences(several, batch_size)]
            is_single, index = is_words(several), given_texts.index_of(texts)
        else:
            read = self._read(texts, self._names)
            results = [each.entities for each in self._each(read, Entities, batch_size)]
            is_single, index = read.is_single, read.index
        if as_frame:
            return frames.of_lists(results, index, Entity)
        return results[0] if is_single else results

    @overload
    def tags(self, words: list[str], *, batch_size: int = 32) -> list[Tag]: ...

    @overload
    def tags(self, words: Many, *, batch_size: int = 32) -> list[list[Tag]]: ...

    @python_words.spoken()
    def tags(self, words: Many, *, batch_size: int = 32) -> list[Tag] | list[list[Tag]]:
        """Returns the tag of each word of a sentence that is split into words; of several those of each sentence.

        Raises:
            UserError: the model is not a tagger.
        """
        words = listed(words)
        rows = [each.words or [] for each in self._tagged_sentences(words, batch_size)]
        return rows[0] if is_words(words) else rows

    def _tagged_sentences(self, sentences: Any, batch_size: int) -> list[Entities]:
        self._expect("entities")
        join_words(sentences)  # raises for anything else
        examples = [
            Example(str(number), tuple(words), None, f"sentence {number}")
            for number, words in enumerate([sentences] if is_words(sentences) else sentences)
        ]
        outputs = loaded_model.predict_in_order(self._word_tagger, examples, batch_size=batch_size, window=WINDOW)
        answers = (tagged_words.answered(*pair, tuple(self.labels or ())).answer for pair in outputs)
        return [answer for answer in answers if isinstance(answer, Entities)]

    @property
    def _word_tagger(self) -> Any:
        return tagged_words.WordTagger(self._signatures_of()[tagged_words.SIGNATURE])

    @python_words.spoken()
    def attribute(self, text: str | tuple[str, str]) -> Attribution:
        """Returns how much each token of a text, or of a pair, contributed to the prediction, by integrated gradients.

        Explained are classes, numbers and choices, the first [MASK], and answers (a pair of question and text). Long
        texts are truncated, as for the attention of an export.

        Raises:
            UserError: the model has another head, or another encoder than BERT's.
        """
        parts = [text] if isinstance(text, str) else given_texts.elements(text, "The text")
        joined = " ||| ".join(given_texts.as_text(part, "The text") for part in parts)
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

    def _each(self, read: Texts, kind: type[Found], batch_size: int) -> list[Found]:
        """The answers of the model's task for each example, which are of this kind."""
        if not read.rows:
            return []
        head, labels = heads.get(self._head_kind or ""), tuple(self.labels or ())
        predictor = self._predictor_of(len(read.rows[0]) if self._takes_any_number else None)
        rows = loaded_model.predict_in_order(predictor, _examples(read), batch_size=batch_size, window=WINDOW)
        answers = (answered(*pair, head=head, labels=labels, inputs=predictor.inputs).answer for pair in rows)
        return [answer for answer in answers if isinstance(answer, kind)]

    def _read(self, values: Any, names: Sequence[str], is_split_into_words: bool = False, name: str = "text") -> Texts:
        fewest = len(names)
        if self._takes_any_number and len(names) > 1:
            fewest = 1 if len(names) == len(PAIR) else 3  # a text or a pair; a text and two choices or more
        columns = self._columns if len(self._columns) == len(names) else ()
        joined = join_words(listed(given_texts.columns_of(values, names, columns))) if is_split_into_words else values
        read = given_texts.read(joined, names, columns=columns, name=name, fewest=fewest)
        return dataclasses.replace(read, index=given_texts.index_of(values))

    @functools.cached_property
    def _columns(self) -> Sequence[str]:
        """The text columns of the table that the model was trained on, () if there was none."""
        flags = recorded_flags(self.path) or about_file.read(self.path).get("reads") or {}
        return tuple(comma_separated(flags.get("text_columns")))

    @functools.cached_property
    def _is_made_here(self) -> bool:
        """Returns whether a run or an export says how many texts an example has."""
        return files.exists(os.path.join(self.path, "run.json")) or loaded_model.is_export(self.path)

    @functools.cached_property
    def _takes_any_number(self) -> bool:
        """Returns whether neither run nor export says how many texts an example has: the caller's number counts."""
        kinds = (*heads.kinds("takes_any_number"), MultipleChoice.kind)
        return not self._is_made_here and self._head_kind in kinds

    @functools.cached_property
    def _names(self) -> list[str]:
        """The names of the texts of an example: those of the inputs, with a number where an input is several."""
        if self._takes_any_number:
            is_choice = self._head_kind == MultipleChoice.kind
            return ["text_a", *(f"choice {number}" for number in range(MAX_CHOICES))] if is_choice else list(PAIR)
        names: list[str] = []
        for name, count in self._predictor_of(None).inputs.items():
            names += [f"{name.removesuffix('s')} {number}" for number in range(count)] if count else [name]
        return names

    def _expect(self, method: str, *, asked: str = "") -> None:
        """Raises UserError unless the head of the model has this method. asked: what was called, if it is another."""
        kind = self.kind if self.kind == Vectors.kind else self._head_kind
        if kind is None:
            raise UserError(
                f"{self.path} has no head{self._loaded.why_headless}: use embed(texts), or fine-tune it first."
            )
        own = heads.get(kind).method
        if own.partition("(")[0] != method:
            raise UserError(f"{self.path} has another head than {asked or method} needs: use {own}.")

    @property
    def _head_kind(self) -> str | None:
        """The kind of its head; None where nothing answers a text."""
        from bert_tf.export import live_model

        return live_model.kind_of(self._loaded)

    @functools.cached_property
    def _explainer(self) -> Any:
        """The function that attributes predictions to tokens, on the weights of `model`."""
        from bert_tf.export import attribution_signature

        return attribution_signature.signature(self.model, self._loaded.require_tokenizer(self.path))

    @functools.cached_property
    def _predictor_of(self) -> Callable[[int | None], loaded_model.Signature]:
        """Number of texts of an example -> the default signature of the model's task, on the weights of `model`.

        Only checkpoints from elsewhere take any number that their head can.
        """
        return functools.cache(
            lambda texts: loaded_model.Signature(self._signatures_of(texts)["serving_default"], self.path)
        )

    @functools.cached_property
    def _signatures_of(self) -> Callable[..., Any]:
        """Number of texts of an example, None if nobody says it -> the signatures of the model's task."""
        return functools.cache(self._new_signatures)

    def _new_signatures(self, texts: int | None = None) -> Any:
        """{name: function on strings} of the model's task, in static shapes where these are faster."""
        with plugins.trusting(everything=self.trust_code):
            signatures = live_signatures(self.path, self._loaded, texts)
        stages = {name: each._asdict() for name, each in stages_of(signatures).items()}
        return static_signatures(signatures, stages, "auto")


def live_signatures(path: str, loaded: Checkpoint, texts: int | None) -> Any:
    """{name: tf.function on strings} of a model: of its run where the path is one, else of the kind of its head."""
    from bert_tf.export import live_model
    from bert_tf.recipes import trained_model

    if live_model.kind_of(loaded) == MaskedLm.kind or not files.exists(os.path.join(path, "run.json")):
        return live_model.signatures_of(path, loaded, texts)
    task = trained_model.read_task(path)
    if isinstance(task.head, TextHead) and task.head.windows:
        loaded.model.window_pooling = task.head.windows.pooling
    return task.signatures(loaded.model, loaded.require_tokenizer(path))


def _examples(read: Texts) -> list[Example]:
    return [Example(str(number), row, None, f"text {number}") for number, row in enumerate(read.rows)]
