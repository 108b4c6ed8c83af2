"""How cards, pages, messages and commands describe heads: a row for each kind."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wording:
    """Descriptions of models with a kind of head.

    Attributes:
        phrase: description of such a model: "It ...".
        pipeline_tag: its task name on model hubs.
        has_pipeline: whether a transformers `pipeline` runs it.
        method: the method of the Python API, with its arguments.
        call: an example that prints something.
        form: the kind whose form the demo page shows; "" for none.
        labelled_file: contents of a labeled file for it; "" for a table of texts.
        labelled_columns: flags that name its columns.
        balancing: flags that help with unbalanced labels; "" if there are none.
    """

    phrase: str
    pipeline_tag: str
    has_pipeline: bool = True
    method: str = "predict(texts)"
    call: str
    form: str
    labelled_file: str = ""
    labelled_columns: tuple[str, ...] = ("text_columns", "label_column")
    balancing: str = ""

    def balancing_beyond(self, flags: Mapping[str, object]) -> str:
        """`balancing`, or "" if the flags of a run, {name: value}, already include its first part."""
        given = {f"--{name}={value}" for name, value in flags.items()}
        return "" if set(self.balancing.split()[:1]) <= given else self.balancing


CLASSES = Wording(
    phrase="classifies texts",
    pipeline_tag="text-classification",
    call='predict("A text.").label',
    form="classes",
    balancing="--class_weights=balanced --criterion=macro_f1",
)
NUMBER = dataclasses.replace(
    CLASSES, phrase="predicts a number for each text", call='predict("A text.").value', form="regression", balancing=""
)
MASKS = Wording(
    phrase="fills masked tokens",
    pipeline_tag="fill-mask",
    method="fill_mask(text)",
    call='fill_mask("The [MASK] is open.")',
    form="masked_lm",
)
WORDING: Mapping[str, Wording] = {
    "choice": Wording(
        phrase="chooses among several texts",
        pipeline_tag="multiple-choice",
        has_pipeline=False,
        call='predict(("A text.", "One.", "Two.")).label',
        form="choice",
    ),
    "classes": CLASSES,
    "masked_lm": MASKS,
    "multi_label": dataclasses.replace(
        CLASSES,
        phrase="assigns any number of labels to each text",
        form="multi_label",
        balancing="--pos_weight=balanced --criterion=macro_f1",
    ),
    "next_sentence": dataclasses.replace(MASKS, form=""),
    "regression": NUMBER,
    "relevance": dataclasses.replace(
        NUMBER, phrase="scores how well a text answers a query", call='predict(("A query?", "A text.")).value'
    ),
    "replaced_tokens": dataclasses.replace(MASKS, form=""),
    "span": Wording(
        phrase="answers questions from a text",
        pipeline_tag="question-answering",
        method="answer(question, text)",
        call='answer("Who sings?", "Ann sings.").text',
        form="span",
        labelled_file="questions in SQuAD's layout",
        labelled_columns=(),
    ),
    "tags": Wording(
        phrase="finds entities in texts",
        pipeline_tag="token-classification",
        method="entities(text)",
        call='entities("Ann sings in Ulm.")',
        form="tags",
        labelled_file="words and tags in columns",
        labelled_columns=("word_column", "tag_column"),
    ),
    "vectors": Wording(
        phrase="returns embeddings of tokens and texts",
        pipeline_tag="feature-extraction",
        has_pipeline=False,
        method="embed(texts)",
        call='embed(["A text."])',
        form="vectors",
    ),
}
