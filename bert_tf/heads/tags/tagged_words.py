"""Answers of a tagger for sentences split into words. An Example has a word in each of its texts."""

from collections.abc import Sequence
from typing import Any

from bert_tf.data.examples import Example
from bert_tf.data.joined_words import join_words
from bert_tf.data.tag_schemes import TagSet
from bert_tf.heads.base.answering import Answered
from bert_tf.heads.base.answers import Entities, Entity, Tag


def answered(example: Example, outputs: dict[str, Any], labels: Sequence[str]) -> Answered:
    """The sentence with the tag of each word, and the entities.

    An empty word gets the tag and score of a word without tokens. Offsets of entities are characters in "text", the
    joined words.
    """
    tag_set = TagSet.of(labels)
    outside = tag_set.labels[tag_set.outside]
    tags = [tag or outside for tag in outputs["tags"]]
    scores = [score if tag else 1.0 for tag, score in zip(outputs["tags"], outputs["scores"], strict=True)]
    text, word_spans = join_words(example.texts)
    entities = []
    for kind, first, last in tag_set.spans(tag_set.labels.index(tag) for tag in tags):
        start, end = word_spans[first][0], word_spans[last - 1][1]
        score = round(sum(scores[first:last]) / (last - first), 6)
        entities.append(Entity(text=text[start:end], label=kind, start=start, end=end, probability=score))
    words = [
        Tag(word=word, tag=tag, probability=round(score, 6))
        for word, tag, score in zip(example.texts, tags, scores, strict=True)
    ]
    answer = Entities(entities=entities, words=words)
    return Answered(id=example.id, texts={"text": text}, answer=answer, row=example.row)
