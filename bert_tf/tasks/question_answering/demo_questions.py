"""Questions made by rule from Python's manual, for a demonstration: which name was left out of a sentence?

No TensorFlow here. The context are some sentences of the manual, the question one of them in which a quoted name is
replaced by "which" and a word for what it is; the answer is the name.
"""

import re
import zlib

from bert_tf.tasks.question_answering.questions import Question
from bert_tf.text import demo_corpus

NAME = re.compile(r'"([A-Za-z_][\w.]*(?:\(\))?)"')  # in the manual names of the language stand in quotes
KINDS = (  # the words for a name, by its form
    (re.compile(r"\w*(Error|Exception|Iteration|Interrupt|Exit|Warning)"), "which exception"),
    (re.compile(r"__\w+\(\)"), "which special method"),
    (re.compile(r"__\w+"), "which special attribute"),
    (re.compile(r"[\w.]+\(\)"), "which function"),
    (re.compile(r"None|True|False"), "which constant"),
    (re.compile(r"[\w.]+"), "which name"),
)
NOUN = re.compile(r" (statement|clause|module|keyword|operator|method|attribute|function|exception|class|type)\b")
SENTENCE = re.compile(r"\S.*?[.:?](?=\s|$)|\S.*$")
MOST_WORDS = 40  # of a question; longer ones would be cut
HELD_OUT = 8  # one passage in so many


def questions(topics=None):
    """{"train": [Question], "dev": [Question]}; no passage is in both.

    The context is the sentence with its neighbours. To learn from, each name of a sentence is asked for, and again with
    one neighbour only, which shows the same words at other places; held out, each name of a passage once, where it
    first occurs. topics: as `python_manual.passages` takes them.
    """
    found = {"train": [], "dev": []}
    for topic, text in demo_corpus.passages(topics):
        is_held_out = zlib.crc32(text.encode()) % HELD_OUT == 0
        split = found["dev" if is_held_out else "train"]
        sentences, asked = list(SENTENCE.finditer(text)), set()
        for number, sentence in enumerate(sentences):
            for name in NAME.finditer(text, *sentence.span()):
                if len(sentence.group().split()) > MOST_WORDS or (is_held_out and name.group() in asked):
                    continue
                asked.add(name.group())
                first, last = sentences[max(0, number - 1)].start(), sentences[number : number + 2][-1].end()
                parts = [(first, last), (sentence.start(), last), (first, sentence.end())]
                for part in dict.fromkeys(parts[:1] if is_held_out else parts):
                    split.append(_question(f"{topic}-{len(split)}", topic, text, sentence, name, part))
    return found


def _question(name, topic, text, sentence, answer, part):
    """Asks for a name (a match) in a sentence (a match) of a text, of which the context is a part (first, last)."""
    first, last = part
    before, after = text[sentence.start() : answer.start()], text[answer.end() : sentence.end()]
    return Question(
        id=name,
        question=f"{before}{kind_of(answer.group(1), after)}{after.rstrip('.:?')}?",
        context=text[first:last],
        answers=((answer.group(1), answer.start(1) - first),),
        is_answerable=True,
        title=topic,
    )


def kind_of(name, after):
    """What stands for a name in a question: "which exception" for KeyError; "which" where the noun comes after it."""
    return "which" if NOUN.match(after) else next(words for form, words in KINDS if form.fullmatch(name))
