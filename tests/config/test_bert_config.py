import json

import pytest

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.train_config import MaskingConfig, TrainConfig
from bert_tf.errors import UserError


def test_original_config_is_read_with_tanh_gelu_and_unknown_keys_dropped(tmp_path):
    path = tmp_path / "bert_config.json"
    path.write_text(
        json.dumps({"vocab_size": 7, "hidden_size": 8, "num_attention_heads": 2, "hidden_act": "gelu", "new": 1})
    )
    config = BertConfig.from_json_file(path)
    assert (config.vocab_size, config.hidden_size, config.head_size, config.hidden_act) == (7, 8, 4, "gelu_tanh")


def test_gelu_can_mean_erf():
    assert BertConfig.from_dict({"vocab_size": 7, "hidden_act": "gelu"}, gelu="gelu_erf").hidden_act == "gelu_erf"


def test_written_config_reads_back_equal(tmp_path):
    config = BertConfig.of_size("tiny", vocab_size=9, hidden_act="gelu_erf")
    config.write(tmp_path / "bert_config.json")
    assert BertConfig.from_json_file(tmp_path / "bert_config.json") == config


@pytest.mark.parametrize(
    "size, layers, hidden, heads, wide",
    [("tiny", 2, 128, 2, 512), ("base", 12, 768, 12, 3072), ("large", 24, 1024, 16, 4096)],
)
def test_sizes_match_the_original(size, layers, hidden, heads, wide):
    config = BertConfig.of_size(size, vocab_size=5)
    assert (config.num_hidden_layers, config.hidden_size) == (layers, hidden)
    assert (config.num_attention_heads, config.intermediate_size) == (heads, wide)


@pytest.mark.parametrize(
    "values, sentence",
    [
        ({"hidden_size": 10, "num_attention_heads": 3}, "hidden_size 10 cannot be split among 3"),
        ({"vocab_size": 0}, "vocab_size is 0"),
        ({"hidden_dropout_prob": 1.0}, "hidden_dropout_prob is 1.0"),
        ({"hidden_dropout_prob": None}, "hidden_dropout_prob is None; expected a number"),
        ({"attention_probs_dropout_prob": "0.1"}, "attention_probs_dropout_prob is '0.1'; expected a number"),
        ({"layer_norm_eps": 0}, "layer_norm_eps is 0; expected a number above 0"),
        ({"layer_norm_eps": "1e-12"}, "layer_norm_eps is '1e-12'"),
        ({"initializer_range": float("nan")}, "initializer_range is nan"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True; expected a whole number"),
        ({"is_causal": 1}, "is_causal is 1; expected true or false"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000; expected a whole number from 0 to 10,000"),
        ({"hidden_size": 10**12}, "hidden_size is 1000000000000; expected a whole number from 1 to 2,147,483,647"),
        ({"hidden_act": "mish"}, "hidden_act is 'mish'"),
        ({"hidden_act": ["gelu"]}, r"hidden_act is \['gelu'\]"),
        ({"hidden_size": 9, "num_attention_heads": 3, "encoder": "lstm"}, "hidden_size is 9; expected an even"),
        ({"is_causal": True, "encoder": "lstm"}, "lstm is bidirectional: omit left_to_right"),
    ],
)
def test_invalid_values_are_refused_by_name(values, sentence):
    with pytest.raises(UserError, match=sentence):
        BertConfig.from_dict({"vocab_size": 5, **values})


@pytest.mark.parametrize(
    "content, sentence",
    [("{", "is not valid JSON"), ("[" * 100_000, "is nested too deeply"), ("[1]", "a JSON list: expected")],
)
def test_invalid_config_file_is_refused(tmp_path, content, sentence):
    path = tmp_path / "bert_config.json"
    path.write_text(content)
    with pytest.raises(UserError, match=sentence):
        BertConfig.from_json_file(path)


def test_missing_or_incomplete_config_file_is_refused(tmp_path):
    with pytest.raises(UserError, match="cannot be read .*: expected a BERT configuration"):
        BertConfig.from_json_file(tmp_path / "none.json")
    with pytest.raises(UserError, match="has no vocab_size"):
        BertConfig.from_dict({})


@pytest.mark.parametrize("seed", [-5, 2**32])
def test_seed_out_of_range_is_refused(seed):
    with pytest.raises(UserError, match=f"random_seed is {seed}; expected a whole number from 0 to 2,000,000,000"):
        TrainConfig(random_seed=seed)


def test_accumulation_steps_must_divide_the_batch_size():
    with pytest.raises(UserError, match="train_batch_size 32 cannot be split into 5"):
        TrainConfig(num_accumulation_steps=5).check()


def test_masking_options_out_of_range_are_refused():
    with pytest.raises(UserError, match="masked_lm_prob is 1.5"):
        MaskingConfig(masked_lm_prob=1.5)
    with pytest.raises(UserError, match="max_predictions_per_seq is 0"):
        MaskingConfig(max_predictions_per_seq=0)
    with pytest.raises(UserError, match="max_span_words is 0; expected 1 or more"):
        MaskingConfig(max_span_words=0)


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("num_hidden_layers", 0, 10_000),
        ("vocab_size", 1, 2**31 - 1),
        ("max_position_embeddings", 1, 2**31 - 1),
        ("type_vocab_size", 1, 2**31 - 1),
    ],
)
def test_smallest_and_largest_sizes_are_accepted_and_those_beyond_are_refused(name, least, most):
    for size in (least, most):
        assert getattr(BertConfig.from_dict({"vocab_size": 7, name: size}), name) == size
    for size in (least - 1, most + 1):
        with pytest.raises(UserError, match=f"{name} is {size}; expected a whole number from {least} to {most:,}"):
            BertConfig.from_dict({"vocab_size": 7, name: size})
