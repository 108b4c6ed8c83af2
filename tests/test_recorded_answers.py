"""The answers of every head to hard texts, by every kind of tokenizer, are those that were recorded.

goldens/answers.json.xz has them. `python tests/test_recorded_answers.py` records them anew: do so only if answers are
meant to change, and say why in the commit. `python tests/test_recorded_answers.py span tags` does it for these heads.
"""

import dataclasses
import functools
import json
import lzma
import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parent / "helpers"))

import host_tokenizer_cases
import numpy as np
import pytest
import tiny

import bert_tf
from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.model import heads

GOLDEN = pathlib.Path(__file__).parent / "goldens" / "answers.json.xz"
TEXTS = [*host_tokenizer_cases.HARD[:36], "the quick brown fox jumps over the lazy dog " * 4]
PAIRS = list(zip(TEXTS, TEXTS[1:], strict=False))[::3]
QUESTIONS = [pair for pair in PAIRS if len(set(pair[1])) > 3]  # no letter over and over, of which any may answer
LABELS, TAGS = ["x", "y", "z"], ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
ENCODERS = {  # of the tokenizers in host_tokenizer_cases
    "byte_bpe": "roberta",
    "bert_byte_bpe": "modern_bert",
    "albert": "albert",
    "albert_cased": "albert",
    "xlm_roberta": "roberta",
    "camembert": "roberta",
    "deberta": "deberta_v2",
    "deberta_nfc": "deberta_v2",
    "modern_bert": "modern_bert",
    "xlnet": "xlnet",
}


def with_mask(text):
    return f"{text[:20]} [MASK] {text[20:40]} [MASK]"


HEADS = {  # name: model, labels, kind, further values of the checkpoint, what is asked
    "classes": (
        lambda config: heads.Classifier(config, 3),
        *(LABELS, "classes", {}),
        lambda bert: [bert.predict(TEXTS), bert.predict(PAIRS), bert.attribute(TEXTS[::9])],
    ),
    "entailment": (
        lambda config: heads.Classifier(config, 3),
        *(["contradiction", "entailment", "neutral"], "classes", {}),
        lambda bert: [bert.zero_shot(TEXTS[::3], ["fox", "dog"]), bert.zero_shot(TEXTS[::3], ["a"], multi_label=True)],
    ),
    "multi_label": (
        lambda config: heads.Classifier(config, 3),
        *(LABELS, "multi_label", {}),
        lambda bert: [bert.predict(TEXTS)],
    ),
    "regression": (
        heads.Regressor,
        *(None, "regression", {}),
        lambda bert: [bert.predict(TEXTS), bert.predict(PAIRS), bert.rank("a fox", TEXTS[:9])],
    ),
    "choice": (heads.MultipleChoice, None, "choice", {}, lambda bert: [bert.predict([(a, b, a) for a, b in PAIRS])]),
    "tags": (
        lambda config: heads.TokenClassifier(config, 5),
        *(TAGS, "tags", {}),
        lambda bert: [bert.entities(TEXTS), bert.tags([text.split() for text in TEXTS if text.split()])],
    ),
    "crf": (
        lambda config: heads.TokenClassifier(config, 5, crf=True),
        *(TAGS, "tags", {}),
        lambda bert: [bert.entities(TEXTS), bert.tags([text.split() for text in TEXTS if text.split()])],
    ),
    "span": (heads.SpanFinder, None, "span", {}, lambda bert: [bert.answer(*map(list, zip(*QUESTIONS, strict=True)))]),
    "masks": (heads.Pretrainer, None, None, {}, lambda bert: [bert.fill_mask([with_mask(text) for text in TEXTS])]),
    "vectors": (
        heads.Pretrainer,
        *(None, None, {"sentence_vectors": SentenceVectors(pooling="mean", normalize=True)}),
        lambda bert: [
            bert.embed(TEXTS),
            *(bert.embed(TEXTS[::3], pooling=pooling) for pooling in ("cls", "max")),
            bert.embed(TEXTS[::3], pooling="mean", layers="second_to_last", normalize=False, prompt="a fox "),
        ],
    ),
}
CASES = [
    *((head, "uncased") for head in HEADS),
    *((head, name) for name in ("cased", *ENCODERS) for head in ("classes", "tags", "span", "masks")),
]

QUICK = {("classes", "uncased"), ("tags", "byte_bpe"), ("span", "deberta_nfc")}


def answers(folder, head, tokenizer):
    """What a model with random weights answers, as JSON has it."""
    create, labels, kind, more, ask = HEADS[head]
    make, lower_case, special = host_tokenizer_cases.CASES[tokenizer]
    tokens = make()
    config = dataclasses.replace(
        tiny.CONFIG,
        encoder=ENCODERS.get(tokenizer, "bert"),
        vocab_size=len(tokens),
        max_position_embeddings=66 if ENCODERS.get(tokenizer) == "roberta" else 64,
    )
    values = {"vocabulary": tokens, "lower_case": lower_case, "labels": labels, "kind": kind, **more}
    if isinstance(special, list):
        values["special_tokens"] = tuple(special)
    weights = tiny.random_weights(create(config))
    formats.write(Checkpoint(config=config, weights=weights, **values), folder, "native")
    return plain(ask(bert_tf.load(folder)))


def plain(value):
    """Answers as lists, objects and numbers of few digits."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if dataclasses.is_dataclass(value):
        return plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def assert_close(actual, expected, place=""):
    """Equal, numbers to 1e-3 of one or of their size."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys(), place
        for name, value in expected.items():
            assert_close(actual[name], value, f"{place}.{name}")
    elif isinstance(expected, list):
        assert len(actual) == len(expected), place
        for number, pair in enumerate(zip(actual, expected, strict=True)):
            assert_close(*pair, f"{place}[{number}]")
    else:
        same = pytest.approx(expected, rel=1e-3, abs=1e-3) if isinstance(expected, float) else expected
        assert actual == same, place


@functools.cache
def recorded():
    with lzma.open(GOLDEN, "rt", encoding="utf-8") as file:
        return json.load(file)


@pytest.mark.parametrize(
    "head, tokenizer", [case if case in QUICK else pytest.param(*case, marks=pytest.mark.slow) for case in CASES]
)
def test_answers_are_as_recorded(head, tokenizer, tmp_path):
    assert_close(answers(str(tmp_path / "model"), head, tokenizer), recorded()[f"{head}, {tokenizer}"])


if __name__ == "__main__":
    found = dict(recorded()) if sys.argv[1:] else {}
    for case in (case for case in CASES if not sys.argv[1:] or case[0] in sys.argv[1:]):
        with tempfile.TemporaryDirectory() as parent:
            found[", ".join(case)] = answers(f"{parent}/model", *case)
        print(*case, flush=True)
    with lzma.open(GOLDEN, "wt", encoding="utf-8", preset=9) as file:
        json.dump(found, file, separators=(",", ":"))
