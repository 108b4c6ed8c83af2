"""IOB1, IOB2, BIOES and plain tags: spans, conversions, detecting schemes, and scores as conlleval's."""

import random

import oracle_conlleval
import pytest
from seqeval.metrics import classification_report
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import BILOU, IOB2, IOBES

from bert_tf.data import tag_notations, tag_schemes
from bert_tf.data.tag_schemes import TagSet
from bert_tf.heads.tags import entity_scores

SPANS = [("LOC", 0, 2), ("PER", 3, 4), ("PER", 4, 6), ("LOC", 6, 7)]
WRITTEN = {
    "iob1": "I-LOC I-LOC O I-PER B-PER I-PER I-LOC",
    "iob2": "B-LOC I-LOC O B-PER B-PER I-PER B-LOC",
    "bioes": "B-LOC E-LOC O S-PER B-PER E-PER S-LOC",
}


@pytest.mark.parametrize("scheme", WRITTEN)
def test_every_scheme_round_trips_spans_and_is_detected(scheme):
    tags = WRITTEN[scheme].split()
    assert tag_schemes.tags_to_spans(tags) == SPANS
    assert tag_schemes.spans_to_tags(SPANS, 7, scheme) == tags
    assert tag_schemes.detect_scheme([["O"], tags]) == (scheme, [])
    for target, expected in WRITTEN.items():
        assert tag_schemes.convert(tags, scheme, target) == expected.split()


NOTATIONS = {
    "BMES": ("B-LOC E-LOC O S-PER B-PER M-PER E-PER S-LOC", "BIES"),
    "BILOU": ("B-LOC L-LOC O U-PER B-PER I-PER L-PER U-LOC", "BILU"),
    "BMEWO": ("B-LOC E-LOC O W-PER B-PER M-PER E-PER W-LOC", "BMEW"),
    "underscore": ("B_LOC E_LOC O S_PER B_PER I_PER E_PER S_LOC", "BIES"),
    "type first": ("LOC-B LOC-E O PER-S PER-B PER-I PER-E LOC-S", "BIES"),
    "both": ("LOC_B LOC_L O PER_U PER_B PER_I PER_L LOC_U", "BILU"),
}
IN_NOTATIONS = [("LOC", 0, 2), ("PER", 3, 4), ("PER", 4, 7), ("LOC", 7, 8)]


@pytest.mark.parametrize("name", NOTATIONS)
def test_notations_are_recognized_read_and_written(name):
    tags = NOTATIONS[name][0].split()
    notation = tag_notations.detect(tags)
    standard = [notation.standard(tag) for tag in tags]
    assert tag_schemes.detect_scheme([standard]) == ("bioes", [])
    assert tag_schemes.tags_to_spans(standard) == IN_NOTATIONS
    assert list(map(notation.written, standard)) == tags
    assert notation.name_of("bioes") == (name if name.isupper() else "BILOU" if name == "both" else "BIOES")
    tag_set = TagSet.of(list(dict.fromkeys(tags)))
    assert (tag_set.scheme, tag_set.types) == ("bioes", ["LOC", "PER"])
    assert tag_set.spans(tag_set.labels.index(tag) for tag in tags) == IN_NOTATIONS
    assert tag_set.numbers(standard, "bioes") == [tag_set.labels.index(tag) for tag in tags]


@pytest.mark.parametrize(
    "tags, scheme, spans",
    [
        ("O B I O B", "iob2", [("_", 1, 3), ("_", 4, 5)]),
        ("O I I O I", "iob1", [("_", 1, 3), ("_", 4, 5)]),
        ("O I-X I-X I-Y O", "iob1", [("X", 1, 3), ("Y", 3, 4)]),
        ("B M E S O", "bioes", [("_", 0, 3), ("_", 3, 4)]),
    ],
)
def test_untyped_and_io_tags_are_spans_as_in_seqeval(tags, scheme, spans):
    notation = tag_notations.detect(tags.split())
    standard = [notation.standard(tag) for tag in tags.split()]
    assert (tag_schemes.detect_scheme([standard])[0], tag_schemes.tags_to_spans(standard)) == (scheme, spans)
    if "M" not in tags:  # which seqeval does not know
        assert [(kind, first, last + 1) for kind, first, last in get_entities(tags.split())] == spans


@pytest.mark.parametrize(
    "name, scheme, source", [("BMES", IOBES, "BIES"), ("BILOU", BILOU, "BILU"), ("IOB2", IOB2, "")]
)
def test_scores_are_those_of_seqeval_in_strict_mode(name, scheme, source):
    """Of tags that the scheme writes, in its own letters; seqeval has no BMES, which is IOBES in other letters."""
    draw = random.Random(3)

    def sentence():
        spans, position = [], 0
        while position < 12:
            end = min(position + draw.randint(1, 3), 12)
            spans += [(draw.choice(["LOC", "PER"]), position, end)] * (draw.random() < 0.6)
            position = end
        return tag_schemes.spans_to_tags(spans, 12, "iob2" if name == "IOB2" else "bioes")

    sides = [[sentence() for _ in range(40)] for _ in range(2)]
    sides[1] = [draw.choice(pair) for pair in zip(*sides, strict=True)]
    notation = tag_notations.Notation(source or "BIES")
    written = [[list(map(notation.written, row)) for row in side] for side in sides]
    report = classification_report(*written, mode="strict", scheme=scheme, output_dict=True)["micro avg"]
    scores = entity_scores.scores(*sides)
    assert scores == pytest.approx(
        {"f1": report["f1-score"], "precision": report["precision"], "recall": report["recall"]}
    )


def test_plain_tags_stand_for_themselves():
    assert tag_schemes.tags_to_spans(["DT", "NN", "O", "B-X"], "plain") == [("DT", 0, 1), ("NN", 1, 2), ("B-X", 3, 4)]
    assert tag_schemes.spans_to_tags([("NN", 0, 1), ("DT", 2, 3)], 3, "plain") == ["NN", "O", "DT"]


@pytest.mark.parametrize("tag", ["B", "PER", "X-PER", "B-", "", "o"])
def test_invalid_tag_is_parsed_to_none(tag):
    assert tag_schemes.parse_tag(tag) is None and tag_schemes.parse_tag("I-a-b") == ("I", "a-b")


@pytest.mark.parametrize(
    "sentences, message",
    [
        (["I-PER O", "O B-PER"], r"begins spans with I- \(IOB1\) and with B- \(IOB2\)"),
        (["B-PER E-PER", "B-PER I-PER O"], r"has E- or S- tags \(BIOES\), but also tags"),
    ],
)
def test_mixed_schemes_are_refused_with_examples(sentences, message):
    with pytest.raises(tag_schemes.MixedSchemesError, match=message) as mixed:
        tag_schemes.detect_scheme([sentence.split() for sentence in sentences])
    assert sorted(sentence for sentence, _ in mixed.value.positions) == [0, 1]


def test_single_exception_is_not_a_mixture():
    sentences = [["B-PER", "I-PER", "O"]] * 30 + [["O", "I-PER"]]
    assert tag_schemes.detect_scheme(sentences) == ("iob2", [(30, 1)])
    assert tag_schemes.detect_scheme([["O"], []]) == ("iob2", [])


def test_tag_set_numbers_tags_of_any_scheme_and_marks_missing_ones():
    tag_set = TagSet.of_types({"PER", "LOC"}, "iob1")
    assert tag_set.labels == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    assert tag_set.numbers(["I-PER", "B-PER", "O", "S-MISC"], "iob1") == [3, 3, 0, None]
    assert tag_set.spans([4, 4, 0, 1, 1]) == [("PER", 0, 2), ("LOC", 3, 4), ("LOC", 4, 5)]
    assert TagSet.of(("O", "S-X", "B-X", "E-X")).scheme == "bioes" and tag_set.scheme == "iob2"
    plain = TagSet.of_types({"NN", "DT"}, "plain")
    assert (plain.labels, plain.scheme, plain.types) == (("O", "DT", "NN"), "plain", ["DT", "NN"])
    each = TagSet.of_types({"B-X", "I-X"}, "plain")  # they look like parts of spans, and stand for themselves
    assert each.numbers(["I-X", "B-X", "O"], "plain") == [2, 1, 0] and TagSet.of(each.labels, "plain") == each


def odd_sentences(seed, count=40):
    """Sentences of tags as nobody would write them, of all prefixes."""
    draw = random.Random(seed)
    tags = ["O", "O", *(f"{prefix}-{kind}" for prefix in "BIIES" for kind in ("A", "B"))]
    return [[draw.choice(tags) for _ in range(draw.randrange(1, 9))] for _ in range(count)]


@pytest.mark.parametrize("seed", range(20))
def test_scores_of_invalid_sequences_match_conlleval(seed):
    true_tags, predicted_tags = odd_sentences(seed), odd_sentences(seed + 100)
    predicted_tags = [
        (g * 9)[: len(t)] if i % 3 else t for i, (t, g) in enumerate(zip(true_tags, predicted_tags, strict=True))
    ]
    expected = oracle_conlleval.evaluate(true_tags, predicted_tags)
    actual = entity_scores.scores(true_tags, predicted_tags)
    assert (actual["precision"], actual["recall"], actual["f1"]) == pytest.approx(expected.pop(""), abs=1e-12)
    rows = {
        r["label"]: (r["precision"], r["recall"], r["f1"]) for r in entity_scores.per_type(true_tags, predicted_tags)
    }
    assert rows == {kind: pytest.approx(values, abs=1e-12) for kind, values in expected.items()}
    spans = [[tag_schemes.tags_to_spans(tags) for tags in side] for side in (true_tags, predicted_tags)]
    hits = sum(len(set(t) & set(g)) for t, g in zip(*spans, strict=True))
    assert actual["precision"] * sum(map(len, spans[1])) == pytest.approx(hits)


def test_empty_scores_are_zero_and_plain_tags_have_accuracy():
    assert entity_scores.scores([["O", "O"]], [["O", "O"]]) == {"f1": 0.0, "precision": 0.0, "recall": 0.0}
    assert (
        entity_scores.scores([["O"]], [["B-X"]])["precision"] == 0.0 and entity_scores.per_type([["O"]], [["O"]]) == []
    )
    plain = entity_scores.scores([["DT", "NN", "NN", "VB"]], [["DT", "NN", "VB", "VB"]], is_plain=True)
    assert plain == {"f1": 0.75, "precision": 0.75, "recall": 0.75}
