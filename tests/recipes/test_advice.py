"""What is said before and after pre-training: do model, text and steps fit, was anything learned."""

import pytest

from bert_tf.config.bert_config import BertConfig
from bert_tf.recipes import advice
from bert_tf.recipes.pretrain import Flags
from bert_tf.recipes.pretraining import facts, preparation

TINY, BASE = (BertConfig.of_size(size, vocab_size=1000) for size in ("tiny", "base"))


def options(**changes):
    values = {"num_train_steps": 100, "train_batch_size": 10, "max_seq_length": 100, "init_checkpoint": ""}
    return Flags().replace(**{**values, "model_size": "tiny", **changes})


@pytest.mark.parametrize(
    ("tokens", "size"), [(0, "tiny"), (60_000, "tiny"), (2_000_000, "mini"), (50_000_000, "base"), (10**12, "base")]
)
def test_model_size_grows_with_the_text(tokens, size):
    assert advice.model_size(tokens) == size


def test_model_size_is_what_the_time_allows():
    tokens = 10**9
    day = 86_400 * 5e10  # floating-point operations of two cores
    assert advice.model_size(tokens) == "base"
    assert [advice.model_size(tokens, time * day) for time in (0, 1 / 144, 1, 30, 10_000)] == [
        "tiny",
        "tiny",
        "mini",
        "medium",
        "base",
    ]


def test_fitting_model_gets_no_warning():
    (line,) = advice.before_pretraining(TINY, options(), 400_000)
    assert line == "400,000 tokens of text; 100 steps are 0.25 passes over the text"


def test_too_large_model_warning_names_a_fitting_size():
    _, warning = advice.before_pretraining(BASE, options(model_size="base"), 60_000)
    assert "too large for this little text" in warning and "--model_size=tiny fits it better" in warning
    assert len(advice.before_pretraining(BASE, options(model_size="base", init_checkpoint="bert"), 60_000)) == 1


def test_too_many_passes_warning_names_a_number_of_steps():
    *_, warning = advice.before_pretraining(TINY, options(num_train_steps=100_000), 60_000)
    assert "1,667 passes are a lot" in warning and "--num_train_steps=2400" in warning


@pytest.mark.parametrize(("loss", "count"), [(6.5, 0), (6.61, 0), (6.63, 1), (6.72, 1), (6.7203, 1), (7.36, 1)])
def test_loss_not_clearly_below_unigram_gives_a_warning(loss, count):
    warnings = advice.after_pretraining(loss, 6.72, options().training)
    assert len(warnings) == count and all(f"{loss:.4f}, is not clearly below 6.7200" in each for each in warnings)


def test_warning_names_the_flag_for_the_length_of_training():
    for changes, named in (({}, "--num_train_steps (now 100)"), ({"budget_minutes": 1.0}, "--budget_minutes (now 1)")):
        (warning,) = advice.after_pretraining(7.0, 6.72, options(**changes).training)
        assert warning.endswith(f"Raise {named} or --learning_rate.")


def computed(tmp_path, **changes):
    path = tmp_path / "text.txt"
    path.write_text("words " * 2_000_000)
    flags = Flags().replace(input_file=str(path), **changes)
    return preparation.with_computed_defaults(flags, facts.of_phase(flags))


def test_steps_follow_text_unless_given(tmp_path):
    training = computed(tmp_path, max_seq_length=128).training  # 12 MB, some 2.4 million tokens
    assert (training.num_train_steps, training.save_checkpoints_steps) == (23_438, 1000)
    training = computed(tmp_path, train_batch_size=1024).training
    assert (training.num_train_steps, training.save_checkpoints_steps) == (732, 74)
    assert computed(tmp_path, num_train_steps=7).training.save_checkpoints_steps == 1000
    assert advice.number_of_steps(500, 4096) == 100 and advice.number_of_steps(10**12, 4096) == 100_000


def test_warmup_is_a_proportion_unless_given(tmp_path):
    assert computed(tmp_path, max_seq_length=128).training.num_warmup_steps == 234
    assert computed(tmp_path, num_train_steps=400, warmup_proportion=0.1).training.num_warmup_steps == 40
    assert computed(tmp_path, num_warmup_steps=7).training.num_warmup_steps == 7


def test_model_size_follows_text_unless_given(tmp_path):
    assert computed(tmp_path).model.model_size == "mini"
    assert computed(tmp_path, model_size="large").model.model_size == "large"
