"""Answers cut out as google-research/bert `run_squad.py` does: by whole words and a guess, without places of pieces.

Ours takes the places of pieces from the tokenizer instead; this is for whoever must repeat the original's numbers.
"""

from bert_tf.text import characters

SPACES = frozenset(" \t\r\n\u202f")


def words_of(context):
    """The words between spaces, and for each character the number of its word (a space: of the word before it)."""
    words, numbers, after_space = [], [], True
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


def answer(context, start, end, pieces, *, lower_case):
    """What the original answers where ours is context[start:end], which is made of `pieces`."""
    words, numbers = words_of(context)
    whole = " ".join(words[numbers[start] : numbers[end - 1] + 1])
    wanted = " ".join(" ".join(pieces).replace(" ##", "").replace("##", "").split())
    return aligned(wanted, whole, lower_case=lower_case)


def aligned(wanted, whole, *, lower_case):
    """The part of the original words `whole` that the normalized text `wanted` stands for (`get_final_text`).

    All of `whole` where it is not found, or where normalizing changed the number of characters.
    """
    normalized = " ".join(characters.basic_tokenize(whole, lower_case=lower_case))
    first = normalized.find(wanted)
    if first < 0:
        return whole
    last = first + len(wanted) - 1
    places, kept = _without_spaces(normalized)
    original_places, original = _without_spaces(whole)
    if len(kept) != len(original):
        return whole
    inside = {place: number for number, place in enumerate(places)}
    if first not in inside or last not in inside:
        return whole
    return whole[original_places[inside[first]] : original_places[inside[last]] + 1]


def _without_spaces(text):
    """The places of all characters that are no space, and these characters."""
    places = [place for place, character in enumerate(text) if character != " "]
    return places, [text[place] for place in places]
