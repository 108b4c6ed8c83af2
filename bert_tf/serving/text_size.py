"""Estimates the number of tokens in a request before anything is computed."""

import re

from bert_tf.serving.served import Arrays

# A word of up to six letters, the next six letters of a longer word, a CJK character, or punctuation.
TOKEN = re.compile(r"[^\W\u3040-\u9fff\uac00-\ud7ff]{1,6}|\S")


def is_above(arrays: Arrays, most: int) -> bool:
    """Returns whether the strings of a request have more than `most` tokens, by TOKEN."""
    texts = [text for array in arrays.values() if array.dtype == object for text in array.flat]
    if sum(map(len, texts)) <= most:  # a token has at least one byte
        return False
    left = most
    for text in texts:
        for _ in TOKEN.finditer(text.decode("utf-8", "replace")):
            left -= 1
            if left < 0:
                return True
    return False
