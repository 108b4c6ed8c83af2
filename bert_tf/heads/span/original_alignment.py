"""Answers extracted as in google-research/bert `run_squad.py`: whole words and a heuristic, without token offsets.

Our answers use token offsets; this module is for reproducing the numbers of google-research/bert.
"""

from collections.abc import Sequence
from typing import Any

from bert_tf.data.questions import Answer, Prediction, Question
from bert_tf.text import characters
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.text.vocabulary import settings_of

SPACES = frozenset(" \t\r\n\u202f")


def align_predictions(
    answers: Sequence[Prediction], questions: Sequence[Question], tokenizer: Tokenizer
) -> list[Prediction]:
    """The same answers extracted as in google-research/bert; if several have the same text, the best one."""
    aligned = []
    for prediction, question in zip(answers, questions, strict=False):
        n_best: dict[str, Answer] = {}
        for answer in prediction.answers:
            answer = _align_answer(answer, question.context, tokenizer)
            n_best.setdefault(answer["text"], answer)
        best = _align_answer(prediction.answer, question.context, tokenizer)
        aligned.append(Prediction(best, list(n_best.values()), prediction.null_odds))
    return aligned


def _align_answer(answer: Answer, context: str, tokenizer: Tokenizer) -> Answer:
    text = answer["text"]
    tokens = tokenizer.detokenize(tokenizer([text]))[0].split() if text else []
    if not tokens:
        return answer
    casing = {"lower_case": tokenizer.lower_case, "settings": settings_of(tokenizer.vocabulary)}
    return {**answer, "text": original_answer(context, answer["start"], answer["end"], tokens, **casing)}


def split_words(context: str) -> tuple[list[str], list[int]]:
    """The words between spaces, and for each character the number of its word (for a space: the word before it)."""
    words: list[str] = []
    numbers = []
    after_space = True
    for character in context:
        if character in SPACES:
            after_space = True
        elif after_space:
            words.append(character)
            after_space = False
        else:
            words[-1] += character
        numbers.append(max(0, len(words) - 1))
    return words, numbers


def original_answer(context: str, start: int, end: int, tokens: Sequence[str], **casing: Any) -> str:
    """The answer of google-research/bert if ours is context[start:end], which consists of `tokens`."""
    words, numbers = split_words(context)
    text = " ".join(words[numbers[start] : numbers[end - 1] + 1])
    normalized = " ".join(" ".join(tokens).replace(" ##", "").replace("##", "").split())
    return align(normalized, text, **casing)


def align(normalized: str, text: str, **casing: Any) -> str:
    """The part of `text`, original words, that corresponds to a part of it after normalization (`get_final_text`).

    All of `text` if the part is not found, or if normalization changed the number of characters.
    """
    normalized_text = " ".join(characters.basic_tokenize(text, **casing))
    first = normalized_text.find(normalized)
    if first < 0:
        return text
    last = first + len(normalized) - 1
    normalized_positions = _without_spaces(normalized_text)
    positions = _without_spaces(text)
    if len(normalized_positions) != len(positions):
        return text
    numbers = {position: number for number, position in enumerate(normalized_positions)}
    if first not in numbers or last not in numbers:
        return text
    return text[positions[numbers[first]] : positions[numbers[last]] + 1]


def _without_spaces(text: str) -> list[int]:
    """The positions of all characters except spaces."""
    return [position for position, character in enumerate(text) if character != " "]
