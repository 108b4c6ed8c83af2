"""Texts on which a function whose time grows with the square of their length is seen, and how its time is compared."""

import gc
import time

UNITS = {
    "words": "the fox ran over it, and ",
    "one_word": "a",
    "separators": " ||| ",
    "spaces": " ",
    "line_ends": "\r\n",
    "ideographs": "漢字",
    "masks": "  [MASK]",
    "quotes": "``''",
    "marks": "\u0301\u0327",
}


def check(function, unit, size):
    """That a function of a text takes at most twice as long for each character of a text four times as long."""

    def seconds(length):
        text = UNITS[unit] * (length // len(UNITS[unit]))
        start = time.process_time()
        function(text)
        return time.process_time() - start

    function(UNITS[unit])
    gc.disable()
    try:
        short, long = seconds(size), seconds(4 * size)
    finally:
        gc.enable()
    assert long < 8 * short + 0.5, (unit, short, long)
