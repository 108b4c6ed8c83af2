"""Questions made by rule from Python's manual, for a demonstration: which name was left out of a sentence?

Free of TensorFlow. A context is a few sentences of the manual; the question is one of them with a quoted name replaced
by "which" and a noun for it; the answer is the name.
"""

import re
import zlib
from collections.abc import Mapping

from bert_tf.data.questions import Question
from bert_tf.heads.span import squad_scores
from bert_tf.text import demo_corpus

NAME = re.compile(r'"([A-Za-z_][\w.]*(?:\(\))?)"')  # the manual quotes names of the language
KINDS = (  # words for a name, by its form
    (re.compile(r"\w*(Error|Exception|Iteration|Interrupt|Exit|Warning)"), "which exception"),
    (re.compile(r"__\w+\(\)"), "which special method"),
    (re.compile(r"__\w+"), "which special attribute"),
    (re.compile(r"[\w.]+\(\)"), "which function"),
    (re.compile(r"None|True|False"), "which constant"),
    (re.compile(r"[\w.]+"), "which name"),
)
NOUN = re.compile(r" (statement|clause|module|keyword|operator|method|attribute|function|exception|class|type)\b")
SENTENCE = re.compile(r"\S.*?[.:?](?=\s|$)|\S.*$")
MAX_WORDS = 40  # of a question; longer ones would be truncated
HELD_OUT = 8  # one passage in HELD_OUT


def questions(topics: Mapping[str, str] | None = None) -> dict[str, list[Question]]:
    """{"train": questions, "dev": questions}; no passage is in both.

    The context is a sentence with its neighbors. For training, the question is asked for each name of a sentence, and
    again with one neighbor only, which moves the same words to other positions; for evaluation, for each name of a
    passage once, where it first occurs, unless SQuAD's score sees no word in it ("_", "a"). topics: as
    `demo_corpus.passages` takes them.
    """
    splits: dict[str, list[Question]] = {"train": [], "dev": []}
    for topic, text in demo_corpus.passages(topics):
        is_held_out = zlib.crc32(text.encode()) % HELD_OUT == 0
        split = splits["dev" if is_held_out else "train"]
        sentences, names = list(SENTENCE.finditer(text)), set()
        for number, sentence in enumerate(sentences):
            for name in NAME.finditer(text, *sentence.span()):
                is_scored = name.group() not in names and squad_scores.normalize(name.group(1))
                if len(sentence.group().split()) > MAX_WORDS or (is_held_out and not is_scored):
                    continue
                names.add(name.group())
                first, last = sentences[max(0, number - 1)].start(), sentences[number : number + 2][-1].end()
                parts = [(first, last), (sentence.start(), last), (first, sentence.end())]
                for part in dict.fromkeys(parts[:1] if is_held_out else parts):
                    split.append(_question(f"{topic}-{len(split)}", topic, text, sentence, name, part))
    return splits


def _question(
    identifier: str, topic: str, text: str, sentence: re.Match[str], answer: re.Match[str], part: tuple[int, int]
) -> Question:
    """Asks for a name in a sentence of a text; the context is a part (first, last) of the text."""
    first, last = part
    before, after = text[sentence.start() : answer.start()], text[answer.end() : sentence.end()]
    return Question(
        id=identifier,
        question=f"{before}{question_word(answer.group(1), after)}{after.rstrip('.:?')}?",
        context=text[first:last],
        answers=((answer.group(1), answer.start(1) - first),),
        is_answerable=True,
        title=topic,
    )


def question_word(name: str, after: str) -> str:
    """The words in place of a name: "which exception" for KeyError; "which" where a noun follows the name."""
    return "which" if NOUN.match(after) else next(words for form, words in KINDS if form.fullmatch(name))
