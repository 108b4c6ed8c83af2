"""The content of a tokenizer.json whose steps the library `tokenizers` computes. Free of TensorFlow."""

import functools
from typing import Any

from bert_tf.errors import UserError, reason_of
from bert_tf.runtime import json_files
from bert_tf.runtime.lazy import module
from bert_tf.text.tokenizer_kinds import KINDS, LIBRARY

tokenizers = module("tokenizers")


def damaged(error: object) -> UserError:
    """The error for such a file in a folder of ours."""
    return UserError(f"{KINDS[LIBRARY].rules} is damaged ({error}): copy or write its folder again.")


def open_rules(rules: bytes) -> Any:
    """The library's tokenizer, without truncation and padding; errors of the library's own types pass through."""
    library = tokenizers.Tokenizer.from_buffer(rules)
    library.no_truncation()
    library.no_padding()
    return library


@functools.lru_cache(maxsize=4)
def steps_of(rules: bytes) -> tuple[dict[str, Any], ...]:
    """The steps of normalizer and pre-tokenizer, with those inside sequences.

    Raises UserError if the content is not the JSON of a tokenizer. The library finds more errors, but takes longer.
    """
    try:
        content = json_files.parse(rules.decode())
    except ValueError as error:
        raise damaged(reason_of(error)) from None
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise damaged("it has no model")
    return (*_steps(content.get("normalizer")), *_steps(content.get("pre_tokenizer")))


def _steps(value: Any) -> list[dict[str, Any]]:
    """A step with those inside it; [] if it is not one."""
    if not isinstance(value, dict):
        return []
    inner = [
        step for name in ("normalizers", "pretokenizers") for each in value.get(name) or () for step in _steps(each)
    ]
    return [value, *inner]
