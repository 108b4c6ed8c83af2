"""Segments of tokens as rows: `text.tokenizer.pack`, for one text or pair."""

from collections.abc import Sequence
from typing import Any

from bert_tf.data.host_windows import truncated_sizes
from bert_tf.export.host import Row
from bert_tf.text.truncation import LONGEST_FIRST, TRUNCATIONS


def pack(tokenizer: Any, segments: Sequence[list[int]], length: int, truncation: str = LONGEST_FIRST) -> Row:
    """[CLS] first [SEP] second [SEP] with at most `length` tokens, see `text.tokenizer.pack`."""
    room = max(length - tokenizer.special_count(len(segments)), 0)
    sizes, chosen = [len(each) for each in segments], TRUNCATIONS[truncation]
    if chosen is None or len(segments) == 1:
        sizes = truncated_sizes(sizes, room, tokenizer.settings)
    else:
        sizes[1 - chosen] = min(sizes[1 - chosen], room)
        sizes[chosen] = min(sizes[chosen], room - sizes[1 - chosen])
    ids, numbers = [tokenizer.cls_id], [0]
    for number, (segment, size) in enumerate(zip(segments, sizes, strict=True)):
        closings = tokenizer.separators if number < len(segments) - 1 else 1
        ids += segment[:size] + [tokenizer.sep_id] * closings
        numbers += [0 if tokenizer.settings.one_segment else number] * (size + closings)
    return Row(ids, numbers)
