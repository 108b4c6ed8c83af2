"""Sliding windows over a text or a pair on the host: `data.windows`, for one text."""

from collections.abc import Sequence
from typing import NamedTuple, Self

from bert_tf.text.tokenizer_settings import TokenizerSettings


class Windows(NamedTuple):
    """Positions of windows over a segment, see `data.windows.SegmentWindows`."""

    length: int
    size: int
    stride: int
    number: int

    @classmethod
    def of(cls, length: int, size: int, stride: int) -> Self:
        """Windows of at most `size` tokens, `stride` apart, that cover a text."""
        return cls(length, min(size, length), stride, window_count(length, size, stride))

    def start(self, number: int) -> int:
        """The first token of a window."""
        return min(number * self.stride, self.length - self.size)

    def part(self, number: int) -> slice:
        """The tokens of a window."""
        return slice(self.start(number), self.start(number) + self.size)

    def best(self, token: int) -> tuple[int, int]:
        """The window that shows a token with most context, and its position there; see `data.windows.best_windows`."""
        if self.number == 1:
            return 0, token
        before = (2 * token - (self.size - 1)) // (2 * self.stride)
        near = [min(max(number, 0), self.number - 1) for number in (before, before + 1)]
        starts = [self.start(number) for number in near]
        best = max_context(token, starts, [self.size] * 2)
        return near[best], token - starts[best]


def segment_windows(sizes: Sequence[int], room: int, stride: int, settings: TokenizerSettings) -> list[Windows]:
    """Windows over a text or a pair, see `data.windows.segment_windows`. stride 0: one truncated window."""
    kept = truncated_sizes(sizes, room, settings)
    moves = [True] if len(sizes) == 1 else [sizes[0] > sizes[1], sizes[0] <= sizes[1]]
    found = []
    for length, size, is_moving in zip(sizes, kept, moves, strict=True):
        read = length if is_moving and stride else size
        step = min(stride, size) if is_moving else 0
        found.append(Windows(read, size, step, window_count(read, size, max(step, 1))))
    return found


def truncated_sizes(sizes: Sequence[int], room: int, settings: TokenizerSettings) -> list[int]:
    """The sizes of one or two segments, see `text.tokenizer.truncated_lengths`."""
    if len(sizes) == 1:
        return [min(sizes[0], room)]
    first, second = sizes
    odd = int(first > second) if settings.odd_to_longer else 1  # for the first text
    return [min(first, max(room - second, (room + odd) // 2)), min(second, max(room - first, (room + 1 - odd) // 2))]


def window_count(length: int, size: int, stride: int) -> int:
    """Number of windows with at most `size` tokens, `stride` apart, that cover a text; 1 for an empty one."""
    return 1 + max(-((size - length) // stride), 0)


def max_context(position: int, starts: Sequence[int], sizes: Sequence[int]) -> int:
    """The number of the window that shows a token with most context, see `data.windows.max_context`."""

    def score(number: int) -> float:
        left, right = position - starts[number], sizes[number] - 1 - position + starts[number]
        return min(left, right) + 0.01 * sizes[number] if left >= 0 and right >= 0 else -1.0

    return max(range(len(starts)), key=score)
