"""The original's windows and answers in plain Python (google-research/bert `run_squad.py`), to hold ours against.

Written from its description; pieces are numbers, places are indices of pieces. Nothing of bert_tf is used.
"""

import math


def windows(question, context, *, max_seq_length, doc_stride, max_query_length):
    """[(row of ids without special ones, first piece of the window, its length)] of one question."""
    question = question[:max_query_length]
    room = max_seq_length - len(question) - 3
    spans, start = [], 0
    while start < len(context):
        length = min(len(context) - start, room)
        spans.append((start, length))
        if start + length == len(context):
            break
        start += min(length, doc_stride)
    spans = spans or [(0, 0)]  # ours: an empty context has one empty window
    return [(question, context[start : start + length], start) for start, length in spans]


def is_max_context(spans, number, position):
    """Returns whether window `number` of [(start, length)] shows the most around a position."""
    best_score, best = None, None
    for index, (start, length) in enumerate(spans):
        end = start + length - 1
        if not start <= position <= end:
            continue
        score = min(position - start, end - position) + 0.01 * length
        if best_score is None or score > best_score:
            best_score, best = score, index
    return best == number


def target(window, question_length, first, last):
    """Slots of an answer from piece `first` to `last` of the context in a window (question, pieces, start)."""
    _, pieces, start = window
    if first < start or last >= start + len(pieces):
        return 0, 0
    return first - start + question_length + 2, last - start + question_length + 2


def best_indexes(logits, count):
    order = sorted(range(len(logits)), key=lambda index: logits[index], reverse=True)
    return order[:count]


def answers(windows, context, *, n_best_size, max_answer_length, has_null, threshold):
    """(n best as (text, start logit, end logit, probability), the answer, score difference or None).

    windows: dictionaries with start_logits, end_logits (lists as long as the row), places: {slot: (start, end)} in
    characters, max_context: {slot: bool}.
    """
    spans, null = candidates(windows, context, n_best_size, max_answer_length)
    if has_null:
        spans.append(("", *null))
    spans.sort(key=lambda one: one[1] + one[2], reverse=True)
    seen, best = set(), []
    for one in spans:
        if len(best) >= n_best_size:
            break
        if one[0] not in seen:
            seen.add(one[0])
            best.append(one)
    if has_null and "" not in seen:
        best.append(("", *null))
    totals = [one[1] + one[2] for one in best]
    powers = [math.exp(total - max(totals)) for total in totals]
    listed = [(*one, power / sum(powers)) for one, power in zip(best, powers, strict=True)]
    others = [one for one in best if one[0]]
    if not has_null:
        return listed, others[0][0] if others else "", None
    if not others:
        return listed, "", None
    difference = sum(null) - others[0][1] - others[0][2]
    return listed, "" if difference > threshold else others[0][0], difference


def candidates(windows, context, n_best_size, max_answer_length):
    """[(text, start logit, end logit)] of all windows, and the two logits of the least likely "no answer"."""
    spans, null = [], None
    for window in windows:
        starts = best_indexes(window["start_logits"], n_best_size)
        ends = best_indexes(window["end_logits"], n_best_size)
        score = window["start_logits"][0] + window["end_logits"][0]
        if null is None or score < sum(null):
            null = (window["start_logits"][0], window["end_logits"][0])
        for start in starts:
            for end in ends:
                if start not in window["places"] or end not in window["places"]:
                    continue
                if not window["max_context"][start] or end < start or end - start + 1 > max_answer_length:
                    continue
                text = context[window["places"][start][0] : window["places"][end][1]]
                spans.append((text, window["start_logits"][start], window["end_logits"][end]))
    return spans, null
