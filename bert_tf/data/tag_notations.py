"""Notations of tags in files and models: which letters, on which side of the type. Free of TensorFlow.

IOB, BIOES   B-LOC I-LOC E-LOC S-LOC     what `tag_schemes` computes with
BMES         B-LOC M-LOC E-LOC S-LOC     Chinese files
BILOU        B-LOC I-LOC L-LOC U-LOC     spaCy
BMEWO        B-LOC M-LOC E-LOC W-LOC
untyped      B     I                     of a single type, which seqeval calls "_"
others       B_LOC, LOC-B, LOC_B
"""

import dataclasses
import itertools
from collections.abc import Iterable

OUTSIDE, UNTYPED = "O", "_"
# The letters for B, I, E and S; of those that fit all tags the first is taken.
ALPHABETS = {"BIES": "", "BMES": "BMES", "BILU": "BILOU", "BMEW": "BMEWO"}
# Separator, "" without types, and whether the type comes first.
FORMS = (("-", False), ("_", False), ("", False), ("-", True), ("_", True))


@dataclasses.dataclass(frozen=True)
class Notation:
    """Letters for B, I, E and S, the separator ("" where tags have no type), and whether the type comes first."""

    letters: str = "BIES"
    separator: str = "-"
    type_first: bool = False

    def standard(self, tag: str) -> str | None:
        """The tag as B-TYPE, I-TYPE, E-TYPE, S-TYPE or O; None for one that is not written like this."""
        if tag == OUTSIDE:
            return tag
        if not self.separator:
            letter, kind = tag, UNTYPED
        elif self.type_first:
            kind, _, letter = tag.rpartition(self.separator)
        else:
            letter, _, kind = tag.partition(self.separator)
        if len(letter) != 1 or letter not in self.letters or not kind:
            return None
        return f"{'BIES'[self.letters.index(letter)]}-{kind}"

    def written(self, tag: str) -> str:
        """A tag that is O or B-TYPE, I-TYPE, E-TYPE, S-TYPE, as this notation writes it."""
        if tag == OUTSIDE:
            return tag
        letter, kind = self.letters["BIES".index(tag[0])], tag[2:]
        if not self.separator:
            return letter
        return f"{kind}{self.separator}{letter}" if self.type_first else f"{letter}{self.separator}{kind}"

    def name_of(self, scheme: str) -> str:
        """The name of a scheme of `tag_schemes` in these letters."""
        return ALPHABETS[self.letters] or scheme.upper()


STANDARD = Notation()
NOTATIONS = [Notation(letters, *form) for form, letters in itertools.product(FORMS, ALPHABETS)]


class UnknownTagError(ValueError):
    """A tag that no notation writes, or none that writes the tags before it: `tag`."""

    def __init__(self, tag: str) -> None:
        super().__init__(f"{tag!r} is not a tag in the notation of those before it")
        self.tag = tag


def detect(tags: Iterable[str]) -> Notation:
    """The notation of all of these tags, the first of NOTATIONS that fits; raises UnknownTagError if none does."""
    fitting = NOTATIONS
    for tag in dict.fromkeys(tags):
        fitting = [notation for notation in fitting if notation.standard(tag) is not None]
        if not fitting:
            raise UnknownTagError(tag)
    return fitting[0]
