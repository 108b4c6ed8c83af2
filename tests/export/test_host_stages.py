"""What an export does besides its network, in NumPy: the answers of signatures, of every kind.

Network and engine are left out: the live model's numbers go through `export.host`, and must give what the signature
gives for the same texts.
"""

import dataclasses

import linear_time
import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.config.sentence_vectors import NORMALIZE, VectorLayer
from bert_tf.data.tag_schemes import TagSet
from bert_tf.export import host
from bert_tf.export.host.vectors import split_pair
from bert_tf.export.network import inputs_of
from bert_tf.heads.masked_lm import mask_filling
from bert_tf.heads.span.answer_search import Search
from bert_tf.heads.span.answering import Answering
from bert_tf.heads.span.question_windows import QuestionWindows
from bert_tf.heads.tags.tag_windows import TagWindows
from bert_tf.heads.tags.tagging import Tagging
from bert_tf.heads.vectors.extraction import Features
from bert_tf.heads.vectors.feature_windows import split_pairs
from bert_tf.heads.vectors.vector_choice import VectorChoice, choose_layers
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text.host_tokenizer import create_host_tokenizer
from bert_tf.text.tokenizer import Tokenizer

WORDS = "the fox dog ran sat it ann in ulm sings . who - all round ##er &".split()
TOKENIZER = Tokenizer([*tiny.SPECIAL, *WORDS])
TEXTS = [
    "The fox ran.",
    "",
    "Ann sings in Ulm, and the dog sat in it, and the all-rounder ran & sat at fox&dog in Ulm.",
    "Who ||| The fox ran in it",
    "the [MASK] sat in [MASK]",
    "the fox the fox the fox",
]
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
RANDOM = np.random.default_rng(0)
AFTER = (
    VectorLayer("dense", "gelu", arrays={"kernel": RANDOM.normal(size=[16, 6]).astype("f4"), "bias": np.ones(6, "f4")}),
    VectorLayer("layer_norm", arrays={"gamma": np.arange(6, dtype="f4"), "beta": np.ones(6, "f4")}),
    VectorLayer("dense", "silu", True, {"kernel": np.eye(6, 5, dtype="f4"), "residual": np.ones([6, 5], "f4")}),
    NORMALIZE,
)
pytestmark = pytest.mark.eager

CONFIG = dataclasses.replace(tiny.CONFIG, num_hidden_layers=1, max_position_embeddings=16, vocab_size=TOKENIZER.size)


def numbers_of(model, rows, has_masks=False):
    """What an engine would return for rows."""
    numbers = {}
    for row in rows:
        inputs = inputs_of([row], {"pad_id": 0, "has_masks": has_masks})
        for name, values in model({name: tf.constant(x) for name, x in inputs.items()}).items():
            numbers.setdefault(name, []).append(values.numpy()[0])
    return numbers


def check(task, config, texts, about=()):
    """That the host's answers for texts are those of the default signature."""
    model = tiny.randomized(task.create_model(config))
    signature = task.signatures(model, TOKENIZER)["serving_default"]
    columns = [tf.constant(column) for column in zip(*texts, strict=True)]
    expected = {name: x.numpy() for name, x in signature(*columns).items()}
    settings = {**task.host_settings, "max_positions": config.max_position_embeddings}
    stages = host.stages(settings, dict(about), create_host_tokenizer(TOKENIZER.vocabulary))
    assert list(stages.inputs) == [spec.name for spec in signature.input_signature]
    rows, rest = stages.read(texts)
    numbers = numbers_of(model, rows, has_masks=settings["stages"] == "masks")
    outputs = stages.answer(numbers, rest)
    assert outputs.keys() == expected.keys()
    for name, values in expected.items():
        if values.dtype == object:
            assert np.vectorize(lambda text: text.decode())(values).tolist() == outputs[name].tolist(), name
        else:
            assert (outputs[name].dtype, outputs[name].shape) == (values.dtype, values.shape), name
            np.testing.assert_allclose(outputs[name], values, rtol=1e-4, atol=1e-5, err_msg=name)
    return model, stages, numbers


@pytest.mark.parametrize("has_null, threshold", [(False, 0.0), (True, -1.0), (True, 3.0)])
def test_questions(has_null, threshold):
    windows = QuestionWindows(max_seq_length=12, doc_stride=3, max_query_length=4)
    search = Search(n_best_size=4, max_answer_length=5, has_null=has_null, threshold=threshold, temperature=1.3)
    task = FineTuningTask("questions", {}, Answering(windows, search), TOKENIZER)
    contexts = [*TEXTS, "日本 fox ran", " the\u0301 fox "]
    check(task, CONFIG, [(contexts[number - 3], text) for number, text in enumerate(contexts)])


@pytest.mark.parametrize("crf", [False, True])
def test_tags(crf):
    windows = TagWindows(max_seq_length=9, stride=3)
    task = FineTuningTask("tags", {}, Tagging(TagSet(LABELS, "iob2"), windows, crf=crf), TOKENIZER)
    model, stages, _ = check(task, CONFIG, [(text,) for text in TEXTS], {"labels": LABELS})
    sentences = [["Ann", "sings", "\u200b", "in", "Ulm"], ["the"] * 20, ["\u200b"]]
    most = max(map(len, sentences))
    padded = tf.constant([words + [""] * (most - len(words)) for words in sentences])
    expected = task.signatures(model, TOKENIZER)["words"](padded)
    rows, rest = stages.read_words(sentences)
    for number, (tags, scores) in enumerate(stages.tags(numbers_of(model, rows), rest)):
        size = len(sentences[number])
        assert tags == [tag.decode() for tag in expected["tags"][number].numpy()[:size]]
        np.testing.assert_allclose(scores, expected["scores"][number][:size], rtol=1e-4)


@pytest.mark.parametrize("lm_kind", ["masked", "left_to_right"])
def test_masks(lm_kind):
    config = dataclasses.replace(CONFIG, is_causal=lm_kind == "left_to_right")
    model, _ = tiny.pretrainer(config)

    class Task:
        host_settings = {"stages": "masks", "lm_kind": lm_kind, "predictions": 10}

        def create_model(self, config):
            return model

        def signatures(self, model, tokenizer):
            return mask_filling.signatures(model, tokenizer, next_sentence=False)

    check(Task(), config, [(text,) for text in [*TEXTS, "the fox " * 9 + "[MASK]" + " dog" * 30]])


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"pooling": "mean", "normalize": ("sentence",)}, marks=pytest.mark.slow),
        {"pooling": "cls+max+weighted_mean", "truncate_dim": 20, "after": (NORMALIZE,)},
        {"pooling": "mean_sqrt_len", "stride": 0, "prompt": "the fox "},
        {"pooling": "mean_max", "stride": 2},
        {"pooling": "pooled"},
        {"pooling": "last", "after": AFTER},
        {"pooling": "cls+mean+weighted_mean", "prompt": "the fox ran ", "include_prompt": False},
        {"unit": "token", "normalize": ("token",)},
        pytest.param({"unit": "word"}, marks=pytest.mark.slow),
        {"unit": "word", "word_vectors": "mean", "words": "spaces", "normalize": ("word",)},
    ],
)
def test_vectors(options):
    layers = choose_layers("last", CONFIG.num_hidden_layers)
    choice = VectorChoice(**{"layers": layers, "unit": "sentence", "max_seq_length": 9, "stride": 3, **options})
    task = Features(choice)
    if choice.unit == "sentence":
        check(task, CONFIG, [(text,) for text in [*TEXTS, "the fox ||| dog ran & sat", "who ||| "]])
        return
    model = tiny.randomized(task.create_model(CONFIG))
    for texts in ([[text] for text in TEXTS], [["the fox", "dog ran & sat"], ["who", ""]]):
        plain = dataclasses.replace(choice, unit="token", normalize=choice.normalize and ("token",))
        found = vectors_of(model, plain, texts)
        outputs = Features(plain).signatures(model, TOKENIZER)["tokens"](tf.constant([" ||| ".join(x) for x in texts]))
        expected = {name: values.numpy() for name, values in outputs.items()}
        if texts[-1] == ["who", ""]:  # which no text says
            found = found[:-1]
        for number, (vectors, count) in enumerate(zip(found, expected["counts"], strict=False)):
            assert [token.decode() for token in expected["tokens"][number, :count]] == vectors.names.tolist()
            np.testing.assert_allclose(vectors.vectors[:, 0], expected["vectors"][number, :count], rtol=1e-4, atol=1e-5)
            for name in ("starts", "ends", "segments"):
                assert getattr(vectors, name).tolist() == expected[name][number, :count].tolist(), name
        if choice.unit == "word":
            check_words(model, choice, texts)


def vectors_of(model, choice, texts):
    stages = host.stages(choice.host_settings(), {}, create_host_tokenizer(TOKENIZER.vocabulary))
    rows, rest = stages.read(texts)
    return stages.vectors(numbers_of(model, rows), rest)


def check_words(model, choice, texts):
    """That the vectors of words are those of their tokens."""
    of_tokens = vectors_of(model, dataclasses.replace(choice, unit="token", normalize=()), texts)
    for text, tokens, words in zip(texts, of_tokens, vectors_of(model, choice, texts), strict=True):
        groups = []  # of tokens in the text, by word
        for number, (name, start) in enumerate(zip(tokens.names, tokens.starts, strict=True)):
            if start < 0:
                continue
            begins = not name.startswith("##")
            if choice.words == "spaces" and groups and tokens.segments[groups[-1][-1]] == tokens.segments[number]:
                begins = begins and start > tokens.ends[groups[-1][-1]]
            groups += [[number]] if begins else []
            groups[-1] += [] if begins else [number]
        is_mean = choice.word_vectors == "mean"
        expected = [tokens.vectors[x, 0].mean(0) if is_mean else tokens.vectors[x[0], 0] for x in groups]
        expected = [x / np.linalg.norm(x) if choice.normalize else x for x in expected]
        parts = text if len(text) > 1 else split_pair(text[0])
        shown = [parts[tokens.segments[x[0]]][tokens.starts[x[0]] : tokens.ends[x[-1]]] for x in groups]
        assert list(words.names) == shown
        np.testing.assert_allclose(words.vectors[:, 0], np.reshape(expected, words.vectors[:, 0].shape), rtol=1e-4)


def test_pairs_are_those_of_the_graph():
    texts = [
        "a ||| b ",
        "a ||| b ||| c",
        "a ||| ||| b",
        " \t\f||| b",
        "\v ||| b",
        "\xa0 ||| b",
        "a |||",
        "a ||| ",
        " ||| ",
        "a",
    ]
    first, second, is_pair = (column.numpy().tolist() for column in split_pairs(tf.constant(texts)))
    expected = [[a, b] if pair else [a] for a, b, pair in zip(first, second, is_pair, strict=True)]
    assert [[part.encode() for part in split_pair(text)] for text in texts] == expected


WINDOWS = {"max_seq_length": 64, "stride": 32}
VECTORS = VectorChoice(layers=choose_layers("last", 2), unit="word", word_vectors="mean", **WINDOWS).host_settings()
STAGES = {
    "texts": {"stages": "texts", "texts": 1, **WINDOWS, "windows": {"stride": 32, "most": 10**6, "pooling": "mean"}},
    "tags": {"stages": "tags", "windows": WINDOWS, "scheme": "iob2"},
    "questions": {
        "stages": "questions",
        "windows": {"max_seq_length": 64, "doc_stride": 32, "max_query_length": 8},
        "search": vars(Search(n_best_size=4, max_answer_length=5, has_null=True, threshold=0.0, temperature=1.0)),
    },
    "masks": {"stages": "masks", "max_positions": 64, "lm_kind": "masked", "predictions": 3},
    "words": VECTORS,
    "tokens": {**VECTORS, "unit": "token"},
    "sentences": {**VECTORS, "unit": "sentence"},
}


@pytest.mark.parametrize("unit", linear_time.UNITS)
@pytest.mark.parametrize("name", STAGES)
def test_time_is_linear_in_the_length_of_a_text(name, unit):
    about = {"kind": "classes", "labels": LABELS}
    stages = host.stages(STAGES[name], about, create_host_tokenizer(TOKENIZER.vocabulary))
    widths = {"logits": 5, "tokens": 2, "start_logits": 0, "end_logits": 0, "masked_lm_logits": 4}

    def answer(text):
        rows, rest = stages.read([["who", text] if name == "questions" else [text]])
        sizes = [len(row.positions) if name == "masks" else 1 if name == "texts" else len(row.ids) for row in rows]
        numbers = {key: [np.zeros([size, width or 1], "f4") for size in sizes] for key, width in widths.items()}
        numbers |= {key: [x[:, 0] for x in numbers[key]] for key in ("start_logits", "end_logits")}
        if name == "texts":
            numbers["logits"] = [x[0] for x in numbers["logits"]]
        (stages.vectors if hasattr(stages, "vectors") else stages.answer)(numbers, rest)

    linear_time.check(answer, unit, 25_000)
