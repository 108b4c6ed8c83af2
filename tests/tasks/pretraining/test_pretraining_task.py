"""Pre-training as a task: its metrics in NumPy, its batches over epochs and restarts, and how tasks are found."""

import dataclasses
import math
import random
import sys

import numpy as np
import pytest
import tensorflow as tf
import tiny
from mask_filling_cases import WORDS

from bert_tf.config.train_config import MaskingConfig
from bert_tf.data.pretraining import records
from bert_tf.errors import UserError
from bert_tf.tasks import catalog
from bert_tf.tasks.pretraining import held_out
from bert_tf.tasks.pretraining.pretraining_task import PretrainingTask
from bert_tf.text.tokenizer import Tokenizer

PIECES = [*tiny.SPECIAL, *WORDS]
SLOTS = 24
MASKING = MaskingConfig(max_predictions_per_seq=4)


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(PIECES)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    """Records of 60 documents of random words."""
    folder, chance = tmp_path_factory.mktemp("records"), random.Random(1)
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    documents = [[" ".join(chance.choices(WORDS[:13], k=7)) for _ in range(6)] for _ in range(60)]
    (folder / "text.txt").write_text("\n\n".join("\n".join(lines) for lines in documents) + "\n")
    options = records.RecordOptions(
        vocab_file=str(folder / "vocab.txt"),
        max_seq_length=SLOTS,
        dupe_factor=1,
        eval_fraction=0.2,
        text_layout="sentences",
    )
    return records.prepare(folder / "records", options, input_file=str(folder / "text.txt"), num_workers=-1)


def number_of(manifest, split):
    return manifest["statistics"][split]["instances"]


def unmasked(batch):
    """The rows of a batch with the hidden tokens put back, as tuples."""
    rows = []
    for ids, positions, labels, used in zip(
        *(batch[name].numpy() for name in ("token_ids", "masked_lm_positions", "masked_lm_ids", "masked_lm_weights")),
        strict=True,
    ):
        ids[positions[used > 0]] = labels[used > 0]
        rows.append(tuple(ids.tolist()))
    return rows


def masks_of(batch):
    """{row before masking: (where it is hidden, what is shown)}."""
    masked = zip(batch["masked_lm_positions"].numpy().tolist(), batch["token_ids"].numpy().tolist(), strict=True)
    return dict(zip(unmasked(batch), masked, strict=True))


def logits(rows=4, seed=3):
    rng = np.random.default_rng(seed)
    return {
        "masked_lm_logits": rng.normal(0, 2, (rows, 3, 30)).astype(np.float32),
        "next_sentence_logits": rng.normal(0, 2, (rows, 2)).astype(np.float32),
    }


@pytest.mark.parametrize("run", [lambda f: f, tf.function], ids=["eager", "in a graph"])
def test_losses_and_accuracies_match_numpy(run):
    outputs, batch = logits(), tiny.batch()
    outputs["masked_lm_logits"][0, 0, batch["masked_lm_ids"][0, 0]] = 9.0  # one right answer at least
    measures = run(tiny.task().metrics)({k: tf.constant(v) for k, v in outputs.items()}, tiny.tensors(batch))
    for name, labels, weights in (
        ("masked_lm", batch["masked_lm_ids"], batch["masked_lm_weights"]),
        ("next_sentence", batch["next_sentence_labels"], batch["next_sentence_weights"]),
    ):
        actual = outputs[f"{name}_logits"].astype(np.float64)
        likelihoods = np.take_along_axis(actual, labels[..., None], -1)[..., 0] - np.log(np.exp(actual).sum(-1))
        np.testing.assert_allclose(measures[f"{name}_loss"][0], -likelihoods, rtol=1e-5)
        np.testing.assert_array_equal(measures[f"{name}_accuracy"][0], actual.argmax(-1) == labels)
        for kind in ("loss", "accuracy"):
            np.testing.assert_array_equal(measures[f"{name}_{kind}"][1], weights)
            assert {tensor.dtype for tensor in measures[f"{name}_{kind}"]} == {tf.float32}
    assert 0 < float(tf.reduce_sum(measures["masked_lm_accuracy"][0])) < 12


@pytest.mark.parametrize(
    "factor, expected",
    [
        (1.0, {"masked_lm_loss": (1.0, 1e-5), "next_sentence_loss": (1.0, 0.0)}),
        (0.5, {"masked_lm_loss": (1.0, 1e-5), "next_sentence_loss": (0.5, 0.0)}),
        (0.0, {"masked_lm_loss": (1.0, 1e-5)}),
    ],
)
def test_objective_is_masked_lm_plus_weighted_next_sentence(factor, expected):
    objectives = tiny.task(next_sentence_weight=factor).objectives
    assert {name: (objective.factor, objective.epsilon) for name, objective in objectives.items()} == expected


def test_without_next_sentence_its_metrics_are_absent(manifest, tokenizer):
    both = catalog.get("pretraining/mlm_nsp")(manifest, tokenizer, MASKING)
    alone = catalog.get("pretraining/mlm")(manifest, tokenizer, MASKING)
    assert (both.name, alone.name) == ("pretraining/mlm_nsp", "pretraining/mlm")
    batch, outputs = tiny.tensors(tiny.batch()), {k: tf.constant(v) for k, v in logits().items()}
    assert sorted(alone.metrics(outputs, batch)) == ["masked_lm_accuracy", "masked_lm_loss"]
    assert sorted(alone.loss_weights(batch)) == ["masked_lm_loss"]
    assert sorted(both.loss_weights(batch)) == ["masked_lm_loss", "next_sentence_loss"]
    assert len(both.metrics(outputs, batch)) == 4


def test_unigram_loss_uses_add_one_counts():
    batches = [
        {"masked_lm_ids": tf.constant([[2, 0]]), "masked_lm_weights": tf.constant([[1.0, 1.0]])},
        {"masked_lm_ids": tf.constant([[1, 2]]), "masked_lm_weights": tf.constant([[1.0, 0.0]])},
    ]
    # Counts 0, 1, 2 become 1, 2, 3 of 6: the pieces 2, 0, 1 have the shares 3/6, 1/6, 2/6.
    expected = (math.log(2) + math.log(6) + math.log(3)) / 3
    assert held_out.unigram_loss(np.array([0, 1, 2]), batches) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_epochs_reshuffle_and_remask_unless_static(manifest, tokenizer, static):
    masking = dataclasses.replace(MASKING, static_masking=static)
    count = number_of(manifest, "train")
    task = PretrainingTask(manifest, tokenizer, masking)
    first, second = list(task.train_batches(count, 7).take(2))  # a batch as large as an epoch
    assert sorted(unmasked(first)) == sorted(unmasked(second)) and unmasked(first) != unmasked(second)
    before, after = masks_of(first), masks_of(second)
    assert len(before) == count > 40, "no two records are equal, so each can be found again"
    unchanged = sum(before[row] == after[row] for row in before)
    assert unchanged == count if static else unchanged < 0.1 * count


def test_training_batches_depend_on_the_seed(manifest, tokenizer):
    task = PretrainingTask(manifest, tokenizer, MASKING)
    first, again, other = (next(iter(task.train_batches(8, seed))) for seed in (7, 7, 8))
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
    assert unmasked(first) != unmasked(other)


def test_training_batches_have_static_shapes_and_all_inputs(manifest, tokenizer):
    spec = PretrainingTask(manifest, tokenizer, MASKING).train_batches(8, 7).element_spec
    shapes = {name: (tuple(each.shape), each.dtype.name) for name, each in spec.items()}
    assert shapes == {
        "token_ids": ((8, SLOTS), "int32"),
        "segment_ids": ((8, SLOTS), "int32"),
        "lengths": ((8,), "int32"),
        "masked_lm_positions": ((8, 4), "int32"),
        "masked_lm_ids": ((8, 4), "int32"),
        "masked_lm_weights": ((8, 4), "float32"),
        "next_sentence_labels": ((8,), "int32"),
        "next_sentence_weights": ((8,), "float32"),
    }


def test_training_batches_resume_across_epochs(manifest, tokenizer, tmp_path):
    task = PretrainingTask(manifest, tokenizer, MASKING)
    size, iterator = number_of(manifest, "train") // 3, iter(task.train_batches(number_of(manifest, "train") // 3, 7))
    for _ in range(2):
        next(iterator)
    path = tf.train.Checkpoint(data=iterator).save(str(tmp_path / "ckpt"))
    expected = [next(iterator) for _ in range(4)]
    restored = iter(task.train_batches(size, 7))
    tf.train.Checkpoint(data=restored).restore(path).assert_consumed()
    for batch in expected:
        actual = next(restored)
        for name, value in batch.items():
            np.testing.assert_array_equal(actual[name], value, err_msg=name)


def test_evaluation_is_one_pass_with_fixed_masks_and_padding(manifest, tokenizer):
    task, count = PretrainingTask(manifest, tokenizer, MASKING), number_of(manifest, "eval")
    size = count - 2
    passes = [list(task.eval_batches(size)) for _ in range(2)]
    assert len(passes[0]) == 2 and count > 4
    for one, other in zip(*passes, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    last = passes[0][1]
    assert last["lengths"].numpy().tolist()[2:] == [0] * (size - 2) and (last["lengths"].numpy()[:2] > 0).all()
    assert not last["masked_lm_weights"].numpy()[2:].any() and not last["next_sentence_weights"].numpy()[2:].any()
    trained = set(unmasked(next(iter(task.train_batches(number_of(manifest, "train"), 7)))))
    assert not trained & set(unmasked(passes[0][0]))


def test_held_out_masks_do_not_depend_on_batch_size(manifest, tokenizer):
    task = PretrainingTask(manifest, tokenizer, MASKING)
    small, large = (masks_of(next(iter(task.eval_batches(size)))) for size in (2, 6))
    assert len(small) == 2 and all(large[row] == masked for row, masked in small.items())


def test_held_out_examples_show_the_true_token(manifest, tokenizer, monkeypatch):
    task = PretrainingTask(manifest, tokenizer, MASKING)
    fox, dog = PIECES.index("fox"), PIECES.index("dog")

    def model(batch):
        row = tf.constant([math.log(0.7) if i == fox else math.log(0.2) if i == dog else -50.0 for i in range(30)])
        return {"masked_lm_logits": tf.broadcast_to(row, [*batch["masked_lm_ids"].shape, 30])}

    model.config = tiny.CONFIG
    count = number_of(manifest, "eval") + 1  # one row more than there is, which is left out
    batches = task.eval_batches(2)
    examples = held_out.held_out_examples(batches, model, tokenizer, count=count)
    expected = [tokenizer.detokenize(row) for row in unmasked(next(iter(task.eval_batches(count))))]
    assert len(examples) == count - 1
    for example, text in zip(examples, expected, strict=False):
        assert f"{example['before']} {example['truth']} {example['after']}" == text
        assert "[MASK]" not in text and text.startswith("[CLS]") and text.endswith("[SEP]")
        assert [answer["piece"] for answer in example["answers"][:2]] == ["fox", "dog"]
        assert example["answers"][0]["score"] == pytest.approx(7 / 9, rel=1e-5)
    monkeypatch.setattr(held_out, "SHOWN", 2)
    for short, example in zip(held_out.held_out_examples(batches, model, tokenizer, count), examples, strict=True):
        assert short["before"].split() == example["before"].split()[-2:]
        assert short["after"].split() == example["after"].split()[:2]


def test_held_out_examples_hide_whole_words(tokenizer, monkeypatch):
    ids = [PIECES.index(piece) for piece in "[CLS] cat ##s fox ##s dog red ##s [SEP]".split()]
    masked, batch = [3, 4, 5, 6, 7], {"token_ids": [ids], "lengths": [len(ids)]}
    batch |= {"masked_lm_positions": [masked], "masked_lm_ids": [[ids[each] for each in masked]]}
    batches = tf.data.Dataset.from_tensors({**batch, "masked_lm_weights": [[1.0] * len(masked)]})

    def model(batch):
        return {"masked_lm_logits": tf.zeros([1, len(masked), len(PIECES)])}

    model.config = tiny.CONFIG
    monkeypatch.setattr(held_out, "SHOWN", 3)
    examples = held_out.held_out_examples(batches, model, tokenizer)
    assert [(each["before"], each["truth"]) for each in examples] == [("foxs", "dog")]


def test_masked_sentences_have_one_mask_and_no_other_special_token():
    examples = [{"before": "[CLS] the fox", "after": "home [SEP] it ran [SEP]"}] * 5
    sentences = held_out.masked_sentences(examples, count=2)
    assert [sentence.split() for sentence in sentences] == [["the", "fox", "[MASK]", "home", "it", "ran"]] * 2


@pytest.mark.parametrize(
    "name",
    ["pretraining/nsp", "pretraining", "nothing/at_all", "nothing", "", ".", "../tasks/pretraining", "pretraining."],
)
def test_unknown_task_error_lists_known_tasks(name):
    with pytest.raises(UserError, match="There is no task .* Known: .*pretraining/mlm_nsp"):
        catalog.get(name)


@pytest.fixture
def my_lab(tmp_path, monkeypatch):
    """A package outside of this one."""
    (tmp_path / "my_lab").mkdir()
    (tmp_path / "my_lab" / "__init__.py").write_text("")
    (tmp_path / "my_lab" / "sarcasm.py").write_text("TASKS = {'headlines': dict}\n")
    (tmp_path / "my_lab" / "empty.py").write_text("")
    (tmp_path / "my_lab" / "needy.py").write_text("import a_package_that_nobody_has\nTASKS = {}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_lab"]:
        del sys.modules[name]


def test_outside_task_family_is_found_by_its_module(my_lab):
    assert catalog.get("my_lab.sarcasm/headlines") is dict


@pytest.mark.parametrize(
    "name, known",
    [
        ("my_lab.sarcasm/tweets", "Known: headlines"),
        ("my_lab.sarkasm/headlines", "Known: .*pretraining/mlm"),
        ("my_lab.sarcasm.more/headlines", "Known: .*pretraining/mlm"),
        ("my_lab.missing.more/headlines", "Known: .*pretraining/mlm"),
        ("my_lib.sarcasm/headlines", "Known: .*pretraining/mlm"),
        ("my_lab.empty/headlines", "my_lab.empty has no table TASKS"),
    ],
)
def test_misspelled_outside_task_is_reported(my_lab, name, known):
    with pytest.raises(UserError, match=known):
        catalog.get(name)


def test_missing_package_of_an_outside_family_is_named(my_lab):
    with pytest.raises(ModuleNotFoundError, match="a_package_that_nobody_has"):
        catalog.get("my_lab.needy/headlines")
