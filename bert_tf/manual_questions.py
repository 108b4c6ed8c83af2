"""Questions made by rule from Python's manual, for a demonstration: which name was left out of a sentence?

No TensorFlow here. The context is a passage of the manual, the question one of its sentences in which a quoted name
stands as "what"; the answer is the name.
"""

import re
import zlib

from bert_tf import python_manual
from bert_tf.questions import Question

NAME = re.compile(r'"([A-Za-z_][\w.]*(?:\(\))?)"')  # in the manual names of the language stand in quotes
MOST_WORDS = 40  # of a question; longer ones would be cut
HELD_OUT = 8  # one passage in so many


def questions(topics=None):
    """{"train": [Question], "dev": [Question]}; no passage is in both.

    topics: as `python_manual.passages` takes them.
    """
    found = {"train": [], "dev": []}
    for topic, text in python_manual.passages(topics):
        split = "dev" if zlib.crc32(text.encode()) % HELD_OUT == 0 else "train"
        found[split] += _of_passage(topic, text, len(found["train"]) + len(found["dev"]))
    return found


def _of_passage(topic, text, number):
    """Each name of a passage is asked for once, where it first occurs."""
    made, asked = [], set()
    for match in NAME.finditer(text):
        name = match.group(1)
        start = max(text.rfind(end, 0, match.start()) + len(end) for end in (". ", ": ", "? ")) if match.start() else 0
        start = start if start > 1 else 0
        ends = [place for place in (text.find(end, match.end()) for end in (". ", ": ", "? ")) if place >= 0]
        sentence = text[start : min(ends, default=len(text) - 1)]
        if name in asked or len(sentence.split()) > MOST_WORDS:
            continue
        asked.add(name)
        place = match.start() - start
        question = f"{sentence[:place]}what{sentence[place + len(match.group()) :]}?"
        made.append(
            Question(
                id=f"{topic}-{number + len(made)}",
                question=question,
                context=text,
                answers=((name, match.start() + 1),),
                is_answerable=True,
                title=topic,
            )
        )
    return made
