"""Notations of tags in files and models: the letters, and the side of the type. Free of TensorFlow.

IOB, BIOES   B-LOC I-LOC E-LOC S-LOC     used by `tag_schemes`
BMES         B-LOC M-LOC E-LOC S-LOC     Chinese files
BILOU        B-LOC I-LOC L-LOC U-LOC     spaCy
BMEWO        B-LOC M-LOC E-LOC W-LOC
untyped      B     I                     a single type, called "_" by seqeval
others       B_LOC, LOC-B, LOC_B
"""

import dataclasses
import itertools
from collections.abc import Iterable

OUTSIDE, UNTYPED = "O", "_"
# The letters for B, I, E and S; the first alphabet that fits all tags is used.
ALPHABETS = {"BIES": "", "BMES": "BMES", "BILU": "BILOU", "BMEW": "BMEWO"}
# Separator, "" without types, and whether the type comes first.
FORMS = (("-", False), ("_", False), ("", False), ("-", True), ("_", True))


@dataclasses.dataclass(frozen=True)
class Notation:
    """Letters for B, I, E and S, the separator ("" if tags have no type), and whether the type comes first."""

    letters: str = "BIES"
    separator: str = "-"
    type_first: bool = False

    def standard(self, tag: str) -> str | None:
        """The tag as B-TYPE, I-TYPE, E-TYPE, S-TYPE or O; None if it is not in this notation."""
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
        """The tag O, B-TYPE, I-TYPE, E-TYPE or S-TYPE in this notation."""
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
    """A tag, `tag`, that fits no notation, or none that fits the tags before it."""

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
