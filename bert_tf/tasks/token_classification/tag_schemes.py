"""How tags of words say where an entity begins and ends: IOB1, IOB2 (BIO), BIOES; reading, telling apart, converting.

A span is (type, first word, word behind the last). Free of TensorFlow.

    IOB1   I-LOC I-LOC  O  I-PER B-PER    B only where an entity follows another of its type (CoNLL-2003 as released)
    IOB2   B-LOC I-LOC  O  B-PER B-PER    B at every beginning; what most files call BIO
    BIOES  B-LOC E-LOC  O  S-PER S-PER    ends and single words too
    plain  DT    NN     VB NN    NN       every tag stands for itself (parts of speech); O is none here too
"""

import dataclasses
import re

OUTSIDE = "O"
SCHEMES = ("iob1", "iob2", "bioes", "plain")
_TAG = re.compile(r"([BIES])-(.+)")


SLIPS = 0.05  # share of tags in another scheme up to which they are slips: CoNLL-2003 and Weibo NER have up to 1%


class Mixed(ValueError):
    """Tags that no one scheme would write: a sentence on both, and where: two (sentence, word) in `places`."""

    def __init__(self, message, *places):
        super().__init__(message)
        self.places = places


def parsed(tag, scheme="iob2"):
    """("B", "LOC") of B-LOC, ("O", "") of O; None of what is no tag. In a plain scheme every tag is ("S", tag)."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    if scheme == "plain":
        return "S", tag
    found = _TAG.fullmatch(tag)
    return found.groups() if found else None


def begins(before, here):
    """Whether a word begins a span, of its parsed tag and that of the word before; conlleval's rule for any tags."""
    prefix, kind = here
    return prefix != OUTSIDE and (prefix in "BS" or before[0] in ("O", "E", "S") or before[1] != kind)


def spans(tags, scheme="iob2"):
    """The spans of a sentence's tags as conlleval reads them, so that every sequence of tags means something.

    spans(["I-LOC", "I-LOC", "O", "B-PER", "B-PER"])  ->  [("LOC", 0, 2), ("PER", 3, 4), ("PER", 4, 5)]
    """
    found, before = [], (OUTSIDE, "")
    for place, tag in enumerate(tags):
        here = parsed(tag, scheme)
        if begins(before, here):
            found.append((here[1], place, place + 1))
        elif here[0] != OUTSIDE:
            found[-1] = (*found[-1][:2], place + 1)
        before = here
    return found


def tags(found, length, scheme="iob2"):
    """The tags of a sentence of so many words with these spans, which must not overlap: the reverse of `spans`.

    In a plain scheme every word of a span has its type.
    """
    written, behind = [OUTSIDE] * length, None
    for kind, first, end in sorted(found, key=lambda span: span[1]):
        inside = [f"I-{kind}"] * (end - first)
        if scheme == "plain":
            inside = [kind] * (end - first)
        elif scheme == "bioes":
            inside[0], inside[-1] = f"B-{kind}", f"E-{kind}"
            inside = [f"S-{kind}"] if len(inside) == 1 else inside
        elif scheme == "iob2" or behind == (kind, first):
            inside[0] = f"B-{kind}"
        written[first:end], behind = inside, (kind, end)
    return written


def converted(given, source, target):
    """Tags of a sentence in another scheme: converted(["I-LOC", "B-LOC"], "iob1", "bioes") -> ["S-LOC", "S-LOC"]."""
    return tags(spans(given, source), len(given), target)


def detected(sentences):
    """The scheme of lists of tags, "iob1", "iob2" (also where there is no span at all) or "bioes", and slips.

    Slips are the (sentence, word) of the few tags that the scheme would not write. Raises Mixed where they are not
    few, such as I-PER behind O in one line (IOB1) and B-PER there in another.
    """
    found = {sign: [] for sign in ("iob1", "iob2", "bioes", "not bioes")}
    for number, given in enumerate(sentences):
        for place, (before, here, after) in enumerate(_neighbours(given)):
            for sign in _signs(before, here, after):
                found[sign].append((number, place))
    if found["bioes"]:
        return "bioes", _slips(
            found, "bioes", "not bioes", "has E- or S- tags (BIOES), but others that it would not have"
        )
    more, fewer = sorted(("iob2", "iob1"), key=lambda sign: -len(found[sign]))
    said = {"iob1": "begins spans with I- (IOB1)", "iob2": "with B- (IOB2)"}
    return more, _slips(found, more, fewer, f"{said['iob1']} and {said['iob2']}")


def _slips(found, scheme, other, message):
    if len(found[other]) > SLIPS * len(found[scheme]):
        raise Mixed(message, found[scheme][0], found[other][0])
    return found[other]


def _neighbours(given):
    """(tag before, tag, tag after) of every word, parsed."""
    outside = [(OUTSIDE, "")]
    read = outside + [parsed(tag) for tag in given] + outside
    return zip(read, read[1:], read[2:], strict=False)


def _signs(before, here, after):
    """What a tag between two others says of its scheme."""
    prefix, kind = here
    if prefix in "ES":
        yield "bioes"
    goes_on = after[0] in ("I", "E") and after[1] == kind
    is_within = before[0] in ("B", "I") and before[1] == kind
    right = {"B": goes_on, "I": is_within and goes_on, "E": is_within, "S": True, "O": True}
    if not right[prefix]:
        yield "not bioes"
    if prefix == "I" and not is_within:
        yield "iob1"
    if prefix == "B" and not is_within:
        yield "iob2"


@dataclasses.dataclass(frozen=True)
class TagSet:
    """The tags that a model tells apart, in the order of its outputs, and in which of SCHEMES they make spans."""

    labels: tuple
    scheme: str

    @classmethod
    def of(cls, labels, scheme="auto"):
        """Those of these labels; only "plain" says more of their scheme than they do themselves."""
        if scheme == "plain" or any(parsed(label) is None for label in labels):
            return cls(tuple(labels), "plain")
        return cls(tuple(labels), "bioes" if any(label[:2] in ("E-", "S-") for label in labels) else "iob2")

    @classmethod
    def of_types(cls, types, scheme):
        """O, and B- and I- of every type in order; the types alone, and O, if words are tagged by a plain scheme."""
        types = sorted(types)
        prefixed = types if scheme == "plain" else [f"{prefix}-{kind}" for kind in types for prefix in "BI"]
        return cls((OUTSIDE, *prefixed), "plain" if scheme == "plain" else "iob2")

    @property
    def types(self):
        """The types of spans, sorted."""
        return sorted({parsed(label, self.scheme)[1] for label in self.labels} - {""})

    def numbers(self, given, source):
        """The numbers of a sentence's tags of another scheme, list of int; None for a tag that is not among them."""
        places = {label: number for number, label in enumerate(self.labels)}
        return [places.get(tag) for tag in converted(given, source, self.scheme)]

    def spans(self, numbers):
        """The spans of a sentence whose words have the labels of these numbers."""
        return spans([self.labels[number] for number in numbers], self.scheme)

    def codes(self):
        """What `begins` needs of each label, for tensors: lists "is_outside", "begins", "closes", and "types" (int)."""
        read, types = [parsed(label, self.scheme) for label in self.labels], ["", *self.types]
        return {
            "is_outside": [prefix == OUTSIDE for prefix, _ in read],
            "begins": [prefix in "BS" for prefix, _ in read],
            "closes": [prefix in "OES" for prefix, _ in read],
            "types": [types.index(kind) for _, kind in read],
        }
