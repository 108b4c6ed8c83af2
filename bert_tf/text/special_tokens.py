"""Special tokens recognized in texts, like Hugging Face's tokenizers: which, and where. Free of TensorFlow.

The original tokenizer splits "[MASK]" in a text into "[", "mask", "]". As an option, such names are the token itself
wherever they occur in exactly this spelling, before lower-casing.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from bert_tf.errors import UserError
from bert_tf.text.tokenizer_kinds import KINDS
from bert_tf.text.tokenizer_settings import AddedToken
from bert_tf.text.vocabulary import SPECIAL_TOKENS, kind_of, special_tokens

MASK = "[MASK]"  # in texts for any tokenizer
SETTING = "special_tokens_in_strings"  # KerasHub's name, in tokenizer_config.json
ALL, NONE = "all", "none"  # values of the flag special_tokens_in_strings


def choose(given: bool | Iterable[str], vocabulary: Collection[str]) -> tuple[str, ...]:
    """The special tokens to recognize, the longest first.

    Args:
        given: False: none. True: the five of every vocabulary. Tokens: these and the five; none for an empty list.
        vocabulary: the vocabulary, which must contain all of them.

    Raises:
        UserError: a token is not in the vocabulary.
    """
    added = [] if isinstance(given, bool) else list(given)
    if not (added or given is True):
        return ()
    five, known = special_tokens(vocabulary), set(vocabulary)
    added = [token for token in added if token in known or token not in SPECIAL_TOKENS]  # of WordPiece, by the flag
    missing = [token for token in added if token not in known or not token.strip()]
    if missing:
        raise UserError(
            f"The special token {missing[0]!r} is not in the vocabulary; add it with `bert-tf vocabulary --extend`, "
            "or remove it from special_tokens_in_strings."
        )
    return tuple(sorted({*five, *added}, key=lambda token: (-len(token), token)))


def unrecognized_mask(vocabulary: Collection[str]) -> AddedToken:
    """The mask as an added token, to fill masks with a tokenizer that does not recognize it in texts.

    As in RoBERTa, the white space before it belongs to it, like the white space before a word.
    """
    return AddedToken(content=special_tokens(vocabulary)[-1], lstrip=KINDS[kind_of(vocabulary)].model != "WordPiece")


def parse(flag: str, recognized: tuple[str, ...] = (), added: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The flag's value as tokens for `choose`.

    Args:
        flag: "": as in the checkpoint; "none"; "all": the five and the checkpoint's added tokens; or comma-separated
            tokens.
        recognized: the checkpoint's `special_tokens`, if there is one.
        added: the checkpoint's `added_tokens`.
    """
    if not flag:
        return recognized
    if flag == NONE:
        return ()
    given = [token.strip() for token in flag.split(",") if token.strip()]
    if flag == ALL:
        given = [*added, *recognized]
    return tuple(dict.fromkeys([*SPECIAL_TOKENS, *given]))


def settings(lower_case: bool, tokens: Sequence[str]) -> dict[str, Any]:
    """The content of tokenizer_config.json; without its second line nothing is recognized."""
    return {"do_lower_case": lower_case, **({SETTING: list(tokens)} if tokens else {})}
