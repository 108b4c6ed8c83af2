"""A loaded model that takes strings: `bert_tf.load`."""

import functools
import itertools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np

from bert_tf import heads
from bert_tf.api import frames, processes, python_words
from bert_tf.api import texts as given_texts
from bert_tf.api.base_bert import PAIR, WINDOW, answering, examples_of
from bert_tf.api.call_options import Embedding, Hypotheses, LongTexts, Many, One, Reading
from bert_tf.api.results import Attribution, Ranked
from bert_tf.api.saved_bert import SavedBert
from bert_tf.api.texts import is_words
from bert_tf.checkpoints import formats
from bert_tf.checkpoints.new_heads import Labels
from bert_tf.config.segments import Segments
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.export import about_file
from bert_tf.export.batches import predict_in_order
from bert_tf.export.reranking import Reranker
from bert_tf.export.zero_shot import TEMPLATE, ZeroShot
from bert_tf.heads.base.answers import Answer, Entities, Entity, FilledMasks, Prediction, Tag, Token
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.vectors import sentence_choice, similarity
from bert_tf.heads.vectors.sentence_choice import DOCUMENT, QUERY, SentenceOptions
from bert_tf.runtime import files, plugins, tensorflow_startup
from bert_tf.runtime.lazy import tf

if TYPE_CHECKING:
    import pandas as pd


def load(
    path: str | os.PathLike[str],
    format_name: str | None = None,
    *,
    special_tokens_in_strings: bool | Sequence[str] | None = None,
    segments: Segments | None = None,
    trust_code: bool = False,
    labels: Labels | None = None,
    kind: str | None = None,
    new_head: bool = False,
) -> "Bert":
    """Reads any checkpoint, run or export; see `bert_tf.load`."""
    path = formats.locate(path)  # so that a wrong path fails before TensorFlow is loaded
    about_file.read(path)  # raises if it was changed
    processes.check()
    tensorflow_startup.ensure_started()
    from bert_tf.checkpoints import pretrained

    options: dict[str, Any] = {
        "special_tokens_in_strings": special_tokens_in_strings,
        "segments": segments,
        "labels": labels,
        "kind": kind,
        "new_head": new_head,
    }
    with plugins.trusting(everything=trust_code):
        loaded = pretrained.load(path, format_name, **options)
    return Bert(loaded, path, trust_code=trust_code, options={"format_name": format_name, **options})


class Bert(SavedBert):
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
        model: a Keras model with `compile`, `fit` and `evaluate`, see docs/keras.md; `model.encoder` is its encoder.
        tokenizer: None if the checkpoint has no vocabulary.
        config: the configuration of the encoder.
        labels: names of the head's outputs, LABEL_0, LABEL_1, ... if the checkpoint does not name them; None for a head
            without names.
        kind: the head kind as in `labels.json`; None without a task head.
        sentence_vectors: the pooling of a sentence-transformers folder; None for others.
        report: which weights were loaded.
        trust_code: whether its files may name code outside of this package.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the path and the arguments of `load`; UserError if loading them would not restore this model."""
        from bert_tf.model.weights import variables_by_name

        path = files.absolute(self.path) if files.exists_with_prefix(self.path) else self.path  # else a name on a hub
        again = functools.partial(load, path, trust_code=self.trust_code, **self._options)
        other = again()
        parts = ("model", "config", "kind", "sentence_vectors")
        changed = [name for name in parts if getattr(self, name) is not getattr(self._loaded, name)]
        changed += ["tokenizer"] * (vars(self).get("tokenizer") is not vars(self).get("_tokenizer_made"))
        changed += ["labels"] * (self.labels != other.labels)
        random = () if other.report is None or self._loaded.new_head else other.report.newly_initialized
        values, saved = variables_by_name(self.model), variables_by_name(other.model)
        differ = (
            name
            for name, value in values.items()
            if name not in random and not (name in saved and np.array_equal(value.numpy(), saved[name].numpy()))
        )
        self._check_unchanged([*changed, *itertools.islice(differ, 1)])
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
        extractor = self._extractor(choice)
        read = self._read(texts, ["text"], is_split_into_words)
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
            self._predictor_of(2 if self._takes_any_number else None),
            tuple(self.labels or ()),
            names,
            multi_label=multi_label,
            hypothesis_template=hypothesis_template,
        )
        read = self._read(texts, ["text"])
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
        pairs = self._predictor_of(None if self._is_made_here else 2)
        asked, read = given_texts.as_text(query, "The query"), self._read(texts, ["text"])
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
        questions = self._read(question, ["question"], is_split_into_words, name="question")
        texts = self._read(text, ["context"], is_split_into_words)
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
            several = self._words(texts, self._names)
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

    @answering
    def tags(self, words: Many, *, batch_size: int = 32) -> list[Tag] | list[list[Tag]]:
        """Returns the tag of each word of a sentence split into words; for several sentences, a list each.

        Raises:
            UserError: the model is not a tagger.
        """
        self._expect("entities")
        words = self._words(words, self._names)
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
        explain = self._explainer  # raises for a different head
        read = self._read(texts, list(PAIR) if self._head_kind == MultipleChoice.kind else self._names)
        found = [self._attribution(explain(tf.constant([" ||| ".join(row)]))) for row in read.rows]
        return found[0] if read.is_single else found

    def _attribution(self, found: Any) -> Attribution:
        """The attribution of a text, made from the outputs of the signature."""
        row = {name: value.numpy()[0] for name, value in found.items()}
        used, target = slice(int(row["lengths"])), int(row["targets"])
        return Attribution(
            tokens=[token.decode() for token in row["tokens"][used]],
            scores=row["attributions"][used].tolist(),
            output=float(row["outputs"]),
            baseline=float(row["baseline_outputs"]),
            target=self.labels[target] if self.labels and self._head_kind in heads.kinds("is_labelled") else target,
        )
