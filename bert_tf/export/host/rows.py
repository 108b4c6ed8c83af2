"""Segments of tokens as rows, truncated or in windows: `text.tokenizer.pack` and `data.windows`, for one text."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from bert_tf.export.host import Row
from bert_tf.text.tokenizer_settings import TokenizerSettings
from bert_tf.text.truncation import LONGEST_FIRST, TRUNCATIONS


class Windows(NamedTuple):
    """Positions of windows over a segment, see `data.windows.SegmentWindows`."""

    length: int
    size: int
    stride: int
    number: int

    def start(self, number: int) -> int:
        """The first token of a window."""
        return min(number * self.stride, self.length - self.size)


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


def truncated_sizes(sizes: Sequence[int], room: int, settings: TokenizerSettings) -> list[int]:
    """The sizes of one or two segments, see `text.tokenizer.truncated_lengths`."""
    if len(sizes) == 1:
        return [min(sizes[0], room)]
    first, second = sizes
    odd = int(first > second) if settings.odd_to_longer else 1  # for the first text
    return [min(first, max(room - second, (room + odd) // 2)), min(second, max(room - first, (room + 1 - odd) // 2))]


def windows(sizes: Sequence[int], room: int, stride: int, settings: TokenizerSettings) -> list[Windows]:
    """Windows over a text or a pair, see `data.windows.segment_windows`. stride 0: one truncated window."""
    kept = truncated_sizes(sizes, room, settings)
    moves = [True] if len(sizes) == 1 else [sizes[0] > sizes[1], sizes[0] <= sizes[1]]
    found = []
    for length, size, is_moving in zip(sizes, kept, moves, strict=True):
        read = length if is_moving and stride else size
        step = min(stride, size) if is_moving else 0
        found.append(Windows(read, size, step, window_count(read, size, max(step, 1))))
    return found


def window_count(length: int, size: int, stride: int) -> int:
    """Number of windows with at most `size` tokens, `stride` apart, that cover a text; 1 for an empty one."""
    return 1 + max(-((size - length) // stride), 0)


def max_context(position: int, starts: Sequence[int], sizes: Sequence[int]) -> int:
    """The number of the window that shows a token with most context, see `data.windows.max_context`."""

    def score(number: int) -> float:
        left, right = position - starts[number], sizes[number] - 1 - position + starts[number]
        return min(left, right) + 0.01 * sizes[number] if left >= 0 and right >= 0 else -1.0

    return max(range(len(starts)), key=score)
