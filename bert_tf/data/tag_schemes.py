"""Tagging schemes IOB1, IOB2 (BIO) and BIOES: parsing, detecting and converting. Free of TensorFlow.

A span is (type, first word, end), the end exclusive.

    IOB1   I-LOC I-LOC  O  I-PER B-PER    B only if an entity follows another of its type (CoNLL-2003 as released)
    IOB2   B-LOC I-LOC  O  B-PER B-PER    B at every beginning; often called BIO
    BIOES  B-LOC E-LOC  O  S-PER S-PER    ends and single words too
    plain  DT    NN     VB NN    NN       every tag stands for itself (parts of speech); O is not a span either

BMES, BILOU and untyped tags are these in other letters: see `tag_notations`. IO is IOB1 without a B.
"""

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bert_tf.data import tag_notations
from bert_tf.data.tag_notations import OUTSIDE

SCHEMES = ("iob1", "iob2", "bioes", "plain")
# Tolerated share of tags in another scheme: CoNLL-2003 and Weibo NER have up to 1%.
MAX_EXCEPTIONS = 0.05
_TAG = re.compile(r"([BIES])-(.+)")

Span = tuple[str, int, int]
ParsedTag = tuple[str, str]  # prefix and type
Position = tuple[int, int]  # sentence and word


class MixedSchemesError(ValueError):
    """Tags that fit no single scheme: a message about both schemes, and an example of each in `positions`."""

    def __init__(self, message: str, *positions: Position) -> None:
        super().__init__(message)
        self.positions = positions


@functools.cache
def parse_tag(tag: str, scheme: str = "iob2") -> ParsedTag | None:
    """B-LOC -> ("B", "LOC"), O -> ("O", ""); None if it is not a tag. In a plain scheme every tag is ("S", tag)."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    if scheme == "plain":
        return "S", tag
    match = _TAG.fullmatch(tag)
    return (match[1], match[2]) if match else None


def _parse(tag: str, scheme: str = "iob2") -> ParsedTag:
    parsed = parse_tag(tag, scheme)
    if parsed is None:
        raise ValueError(f"{tag!r} is not a tag of the scheme {scheme}.")
    return parsed


def begins_span(before: ParsedTag, tag: ParsedTag) -> bool:
    """Returns whether a word begins a span, given its tag and the previous word's, as in conlleval."""
    prefix, kind = tag
    return prefix != OUTSIDE and (prefix in "BS" or before[0] in ("O", "E", "S") or before[1] != kind)


def may_follow(before: ParsedTag, tag: ParsedTag, scheme: str) -> bool:
    """Returns whether a TagSet's scheme allows a tag after another; O stands for both ends of a sentence."""
    if tag[0] in ("I", "E"):
        return before[0] in ("B", "I") and before[1] == tag[1]
    return scheme != "bioes" or before[0] not in ("B", "I")


def tags_to_spans(tags: Iterable[str], scheme: str = "iob2") -> list[Span]:
    """The spans of a sentence's tags as in conlleval: every sequence of tags is valid.

    tags_to_spans(["I-LOC", "I-LOC", "O", "B-PER", "B-PER"])  ->  [("LOC", 0, 2), ("PER", 3, 4), ("PER", 4, 5)]
    """
    spans: list[Span] = []
    before = (OUTSIDE, "")
    for position, tag in enumerate(tags):
        parsed = _parse(tag, scheme)
        if begins_span(before, parsed):
            spans.append((parsed[1], position, position + 1))
        elif parsed[0] != OUTSIDE:
            spans[-1] = (*spans[-1][:2], position + 1)
        before = parsed
    return spans


def spans_to_tags(spans: Iterable[Span], length: int, scheme: str = "iob2") -> list[str]:
    """The tags of a sentence of `length` words with these spans, which must not overlap: inverts `tags_to_spans`.

    In a plain scheme every word of a span is tagged with its type.
    """
    tags = [OUTSIDE] * length
    previous = None  # type and end of the previous span
    for kind, first, end in sorted(spans, key=lambda span: span[1]):
        inside = [f"I-{kind}"] * (end - first)
        if scheme == "plain":
            inside = [kind] * (end - first)
        elif scheme == "bioes":
            inside[0], inside[-1] = f"B-{kind}", f"E-{kind}"
            inside = [f"S-{kind}"] if len(inside) == 1 else inside
        elif scheme == "iob2" or previous == (kind, first):
            inside[0] = f"B-{kind}"
        tags[first:end], previous = inside, (kind, end)
    return tags


def convert(tags: Sequence[str], source: str, target: str) -> list[str]:
    """Converts the tags of a sentence to another scheme.

    convert(["I-LOC", "B-LOC"], "iob1", "bioes")  ->  ["S-LOC", "S-LOC"]
    """
    return spans_to_tags(tags_to_spans(tags, source), len(tags), target)


def detect_scheme(sentences: Iterable[Sequence[str]]) -> tuple[str, list[Position]]:
    """The scheme of lists of tags, and the exceptions: the few tags that do not fit it.

    "bioes", "iob1" or "iob2"; "iob2" if there are no spans. Raises MixedSchemesError for too many exceptions, such as
    I-PER after O in one line (IOB1) and B-PER there in another.
    """
    evidence: dict[str, list[Position]] = {sign: [] for sign in ("iob1", "iob2", "bioes", "not bioes")}
    for number, tags in enumerate(sentences):
        padded = [(OUTSIDE, ""), *map(_parse, tags), (OUTSIDE, "")]
        for position, (before, tag, after) in enumerate(zip(padded, padded[1:], padded[2:], strict=False)):
            for sign in _evidence(before, tag, after):
                evidence[sign].append((number, position))
    if evidence["bioes"]:
        message = "has E- or S- tags (BIOES), but also tags that BIOES does not have"
        return "bioes", _exceptions(evidence, "bioes", "not bioes", message)
    scheme, other = sorted(("iob2", "iob1"), key=lambda sign: -len(evidence[sign]))
    return scheme, _exceptions(evidence, scheme, other, "begins spans with I- (IOB1) and with B- (IOB2)")


def _exceptions(evidence: dict[str, list[Position]], scheme: str, other: str, message: str) -> list[Position]:
    if len(evidence[other]) > MAX_EXCEPTIONS * len(evidence[scheme]):
        raise MixedSchemesError(message, evidence[scheme][0], evidence[other][0])
    return evidence[other]


def _evidence(before: ParsedTag, tag: ParsedTag, after: ParsedTag) -> Iterator[str]:
    """The schemes indicated by a tag between two others."""
    prefix, kind = tag
    if prefix in "ES":
        yield "bioes"
    goes_on = after[0] in ("I", "E") and after[1] == kind
    is_within = before[0] in ("B", "I") and before[1] == kind
    is_bioes = {"B": goes_on, "I": is_within and goes_on, "E": is_within, "S": True, "O": True}
    if not is_bioes[prefix]:
        yield "not bioes"
    if prefix == "I" and not is_within:
        yield "iob1"
    if prefix == "B" and not is_within:
        yield "iob2"


@dataclasses.dataclass(frozen=True)
class TagSet:
    """A model's tags in the order of its outputs, and the scheme of their spans, one of SCHEMES."""

    labels: tuple[str, ...]
    scheme: str

    @classmethod
    def of(cls, labels: Sequence[str], scheme: str = "auto") -> "TagSet":
        """The TagSet of labels in any notation; their scheme is detected unless `scheme` is "plain"."""
        try:
            notation = tag_notations.detect(labels)
        except tag_notations.UnknownTagError:
            scheme = "plain"
        if scheme == "plain":
            return cls(tuple(labels), "plain")
        tags = [notation.standard(label) or OUTSIDE for label in labels]
        return cls(tuple(labels), "bioes" if any(tag[:2] in ("E-", "S-") for tag in tags) else "iob2")

    @classmethod
    def of_types(cls, types: Iterable[str], scheme: str) -> "TagSet":
        """O, then B- and I- of every type in order; O and the types for a plain scheme."""
        types = sorted(types)
        prefixed = types if scheme == "plain" else [f"{prefix}-{kind}" for kind in types for prefix in "BI"]
        return cls((OUTSIDE, *prefixed), "plain" if scheme == "plain" else "iob2")

    @functools.cached_property
    def tags(self) -> tuple[str, ...]:
        """The labels as tags of the scheme: B-PER for a model's B_PER, S-PER for U-PER."""
        if self.scheme == "plain":
            return self.labels
        notation = tag_notations.detect(self.labels)
        return tuple(notation.standard(label) or OUTSIDE for label in self.labels)

    @property
    def types(self) -> list[str]:
        """The types of spans, sorted."""
        return sorted({_parse(tag, self.scheme)[1] for tag in self.tags} - {""})

    @property
    def outside(self) -> int:
        """The label number of words without tokens: O's, or 0 if there is no O."""
        return self.labels.index(OUTSIDE) if OUTSIDE in self.labels else 0

    def numbers(self, tags: Sequence[str], source: str) -> list[int | None]:
        """The label numbers of a sentence's tags in the scheme `source`; None for a tag that is not a label."""
        numbers = {tag: number for number, tag in enumerate(self.tags)}
        return [numbers.get(tag) for tag in convert(tags, source, self.scheme)]

    def spans(self, numbers: Iterable[int]) -> list[Span]:
        """The spans of a sentence, given the label number of each word."""
        return tags_to_spans([self.tags[number] for number in numbers], self.scheme)

    def legal_transitions(self) -> list[list[bool]]:
        """Which of the C labels may follow which in the scheme, [C + 2][C].

        [i][j]: label j after label i; [C][j]: label j first in a sentence; [C + 1][j]: label j last.
        """
        tags, edge = [_parse(tag, self.scheme) for tag in self.tags], (OUTSIDE, "")
        rows = [[may_follow(before, tag, self.scheme) for tag in tags] for before in [*tags, edge]]
        return [*rows, [may_follow(tag, edge, self.scheme) for tag in tags]]

    def codes(self) -> dict[str, list[Any]]:
        """Label properties as columns for tensors: "is_outside", "begins", "closes" (bool), and "types" (int)."""
        parsed, types = [_parse(tag, self.scheme) for tag in self.tags], ["", *self.types]
        return {
            "is_outside": [prefix == OUTSIDE for prefix, _ in parsed],
            "begins": [prefix in "BS" for prefix, _ in parsed],
            "closes": [prefix in "OES" for prefix, _ in parsed],
            "types": [types.index(kind) for _, kind in parsed],
        }
