"""LoRA: nothing changes at first, a layer computes W x + alpha / r B A x, merging keeps outputs, PEFT's files."""

import dataclasses
import json

import numpy as np
import pytest
import tiny

from bert_tf.checkpoints import checkpoint_files, formats, peft_adapters
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.train_config import LoraConfig
from bert_tf.errors import UserError
from bert_tf.model import heads, lora, weights
from bert_tf.runtime.settings import read_settings

pytestmark = pytest.mark.eager

CONFIG = LoraConfig(lora_rank=2, lora_alpha=3, lora_targets="query,value,project_out,expand,contract")
SMALL = dataclasses.replace(tiny.CONFIG, num_hidden_layers=1)


def adapted(config=CONFIG, model_config=SMALL):
    """A classifier with random weights, its outputs before it had adapters, and random adapters in it."""
    model = tiny.randomized(heads.Classifier(model_config, size=3))
    before = logits(model)
    lora.attach(model, config)
    return model, before


def logits(model):
    return model({name: tiny.tensors(tiny.batch())[name] for name in ("token_ids", "segment_ids", "lengths")})[
        "logits"
    ].numpy()


def randomize(model):
    """Gives both matrices of all adapters random values; returns all arrays."""
    rng = np.random.default_rng(1)
    for name, variable in weights.variables(model).items():
        if lora.NAME.fullmatch(name):
            variable.assign(rng.normal(0, 0.3, variable.shape))
    return {name: variable.numpy() for name, variable in weights.variables(model).items()}


def test_adapters_change_nothing_at_first_and_are_of_the_given_rank():
    model, before = adapted()
    np.testing.assert_array_equal(logits(model), before)
    shapes = {name: tuple(v.shape) for name, v in weights.variables(model).items() if lora.NAME.fullmatch(name)}
    layer = "encoder/layers/0"
    assert shapes == {
        f"{layer}/{dense}/lora/{target}/{matrix}": shape
        for dense, target, size_in, size_out in (
            ("attention/query_key_value", "query", 16, 16),
            ("attention/query_key_value", "value", 16, 16),
            ("attention/project_out", "project_out", 16, 16),
            ("feed_forward/expand", "expand", 16, 24),
            ("feed_forward/contract", "contract", 24, 16),
        )
        for matrix, shape in (("a", (size_in, 2)), ("b", (2, size_out)))
    }


def test_merged_kernels_are_those_of_the_paper_and_give_the_same_outputs():
    model, before = adapted()
    arrays = randomize(model)
    with_adapters = logits(model)
    assert np.abs(with_adapters - before).max() > 0.01
    dense = "encoder/layers/0/attention/query_key_value"
    delta = [arrays[f"{dense}/lora/{t}/a"] @ arrays[f"{dense}/lora/{t}/b"] * 3 / 2 for t in ("query", "value")]
    expected = arrays[f"{dense}/kernel"] + np.concatenate([delta[0], np.zeros((16, 16)), delta[1]], 1)
    merged = lora.merged(arrays, CONFIG)
    np.testing.assert_allclose(merged[f"{dense}/kernel"], expected, rtol=1e-5)
    lora.merge(model)
    for name, variable in weights.variables(model).items():
        np.testing.assert_allclose(variable, merged[name], rtol=1e-5, atol=1e-6, err_msg=name)
    assert len(weights.variables(model)) == len(merged)
    np.testing.assert_allclose(logits(model), with_adapters, rtol=1e-4, atol=1e-5)


ENCODERS = ["bert", "distilbert", "roberta", "electra", "albert", "modern_bert", "nomic_bert"]


@pytest.mark.parametrize("encoder", ENCODERS)
def test_adapters_are_written_as_peft_writes_them_and_read_merged(encoder, tmp_path):
    config = dataclasses.replace(SMALL, encoder=encoder, type_vocab_size=1 if encoder == "roberta" else 2)
    ours = dataclasses.replace(CONFIG, lora_targets="query,value,expand") if encoder in ENCODERS[5:] else CONFIG
    model, _ = adapted(ours, config)
    base = {name: variable.numpy() for name, variable in weights.variables(model).items() if "/lora/" not in name}
    formats.write(Checkpoint(config=config, weights=base), tmp_path / "base", "native")
    arrays = randomize(model)
    arrays["classifier/bias"] = arrays["classifier/bias"] + 1
    target = str(tmp_path / "adapter")
    peft_adapters.write(target, arrays, config, CONFIG, kind="classes", base=str(tmp_path / "base"))
    stored = checkpoint_files.read_safetensors(tmp_path / "adapter" / "adapter_model.safetensors")
    if encoder == "bert":
        query = "base_model.model.bert.encoder.layer.0.attention.self.query"
        np.testing.assert_array_equal(
            stored[f"{query}.lora_B.weight"], arrays["encoder/layers/0/attention/query_key_value/lora/query/b"].T
        )
        assert stored[f"{query}.lora_A.weight"].shape == (2, 16)
        assert {name for name in stored if "lora" not in name} == {
            f"base_model.model.{name}"
            for name in ("classifier.weight", "classifier.bias", "bert.pooler.dense.weight", "bert.pooler.dense.bias")
        }
        settings = peft_adapters.settings_of(target)
        assert settings["r"] == 2 and settings["lora_alpha"] == 3 and settings["task_type"] == "SEQ_CLS"
        assert settings["modules_to_save"] == ["classifier", "pooler.dense"]
        assert "encoder.layer.0.attention.self.value" in settings["target_modules"]
    if encoder == "modern_bert":  # two matrices of rank 2 in the one that PEFT knows
        shapes = {name.rpartition("layers.0.")[2]: array.shape for name, array in stored.items() if "layers.0." in name}
        assert shapes["attn.Wqkv.lora_A.weight"] == (4, 16) and shapes["attn.Wqkv.lora_B.weight"] == (48, 4)
        assert shapes["mlp.Wi.lora_A.weight"] == (4, 16)
    read, expected = formats.read(target), lora.merged(arrays, CONFIG)
    assert read.kind == "classes" and read.weights.keys() == expected.keys()
    for name, array in read.weights.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_adapters_that_are_not_plain_or_do_not_fit_are_refused(tmp_path):
    with pytest.raises(UserError, match="lora_targets is 'query,pooler'; expected some of query, key, value"):
        adapted(LoraConfig(lora_rank=1, lora_targets="query,pooler"))
    with pytest.raises(UserError, match="lora_rank .* encoder=static"):
        adapted(CONFIG, dataclasses.replace(SMALL, encoder="static"))
    for values, message in (
        ({"peft_type": "IA3"}, "an adapter of type 'IA3'; expected LORA"),
        ({"peft_type": "LORA", "use_dora": True, "r": 1, "lora_alpha": 1}, "use_dora=True; expected False"),
        ({"peft_type": "LORA", "r": 0, "lora_alpha": 1}, "r is 0; expected a whole number from 1 to"),
    ):
        folder = tmp_path / message[:4]
        folder.mkdir()
        checkpoint_files.write_json(folder / "adapter_config.json", values)
        checkpoint_files.write_safetensors(folder / "adapter_model.safetensors", {}, framework="pt")
        with pytest.raises(UserError, match=message):
            peft_adapters.read(str(folder), SMALL)


@pytest.fixture
def adapter(tmp_path):
    """A folder of PEFT with the adapters of a classifier, and a function that changes its files."""
    model, _ = adapted()
    base = {name: variable.numpy() for name, variable in weights.variables(model).items() if "/lora/" not in name}
    formats.write(Checkpoint(config=SMALL, weights=base), tmp_path / "base", "native")
    folder = tmp_path / "adapter"
    peft_adapters.write(str(folder), randomize(model), SMALL, CONFIG, kind="classes", base=str(tmp_path / "base"))

    def change(arrays=lambda arrays: arrays, **settings):
        stored = checkpoint_files.read_safetensors(folder / peft_adapters.WEIGHTS)
        changed = {name: np.ascontiguousarray(array) for name, array in arrays(stored).items()}
        checkpoint_files.write_safetensors(folder / peft_adapters.WEIGHTS, changed, framework="pt")
        values = read_settings(folder / peft_adapters.CONFIG) | settings
        checkpoint_files.write_json(folder / peft_adapters.CONFIG, values)
        return str(folder)

    return change


def of_one(change):
    """Changes the first lora_A."""

    def changed(arrays):
        name = sorted(name for name in arrays if "lora_A" in name)[0]
        return {**arrays, name: change(arrays[name])}

    return changed


@pytest.mark.parametrize(
    "change, message",
    [
        ({"r": 3}, r"has matrices of ranks \(\(2,\), \(2,\)\) for encoder.layer.*; expected r=3: fetch it again"),
        ({"r": 10**9}, "expected r=1000000000: fetch it again"),
        ({"r": True}, "adapter_config.json: r is True; expected a whole number from 1 to"),
        ({"r": None}, "adapter_config.json lacks r or lora_alpha: fetch it again"),
        ({"lora_alpha": float("inf")}, "lora_alpha is inf; expected a number"),
        ({"lora_alpha": 10**400}, "lora_alpha is 10{59}...; expected a number"),
        ({"arrays": of_one(lambda array: array[0, 0])}, r"has matrices of ranks \(\(1,\), \(2,\)\) for"),
        ({"arrays": of_one(lambda array: array[None])}, r"has matrices of ranks \(\(1,\), \(2,\)\) for"),
        (
            {"arrays": of_one(lambda array: array[:, :3])},
            r"from 3 to 16 dimensions for .*, but in .*base it maps 16 to",
        ),
        ({"arrays": lambda a: {n: x for n, x in a.items() if "lora_B" not in n}}, "one of lora_A and lora_B of"),
        ({"arrays": lambda a: {n: x for n, x in a.items() if "lora" not in n}}, "no LoRA matrices"),
        ({"arrays": lambda a: {}}, "no LoRA matrices"),
        (
            {
                "arrays": lambda a: {
                    **a,
                    "base_model.model.bert.x.lora_embedding_A": a["base_model.model.classifier.bias"],
                }
            },
            "neither",
        ),
        ({"init_lora_weights": "pissa"}, "init_lora_weights='pissa', which changes the base model"),
        ({"lora_bias": True}, "lora_bias=True"),
    ],
)
def test_adapter_that_does_not_fit_is_one_sentence(adapter, change, message):
    with pytest.raises(UserError, match=message):
        formats.read(adapter(**change))


def test_adapter_of_another_base_or_of_itself_is_refused(adapter, tmp_path):
    wide = heads.Classifier(dataclasses.replace(SMALL, hidden_size=32), size=3)
    other = Checkpoint(config=wide.config, weights=tiny.random_weights(wide))
    formats.write(other, tmp_path / "other", "native")
    with pytest.raises(UserError, match=r"from 16 to 16 dimensions for .*, but in .*other it maps 32 to 32"):
        formats.read(adapter(base_model_name_or_path=str(tmp_path / "other")))
    folder = adapter(base_model_name_or_path=str(tmp_path / "adapter"))
    with pytest.raises(UserError, match="as its base, which leads back to this adapter"):
        formats.read(folder)
    formats_of_second = tmp_path / "second"
    formats_of_second.mkdir()
    for name in (peft_adapters.CONFIG, peft_adapters.WEIGHTS):
        (formats_of_second / name).write_bytes((tmp_path / "adapter" / name).read_bytes())
    with pytest.raises(UserError, match="which leads back to this adapter"):
        formats.read(adapter(base_model_name_or_path=str(formats_of_second)))


def test_names_of_older_adapters_are_read(adapter):
    before = formats.read(adapter()).weights

    def older(arrays):
        return {name.replace(".classifier.", ".classifier.modules_to_save."): array for name, array in arrays.items()}

    after = formats.read(adapter(older)).weights
    assert before.keys() == after.keys()
    np.testing.assert_array_equal(before["classifier/kernel"], after["classifier/kernel"])


def test_adapter_of_one_matrix_for_query_key_and_value_adds_to_all_three(tmp_path):
    """As PEFT writes it for Wqkv; `fan_in_fan_out` means nothing for linear layers."""
    config = dataclasses.replace(SMALL, encoder="modern_bert")
    base = tiny.random_weights(heads.Classifier(config, size=3))
    formats.write(Checkpoint(config=config, weights=base, kind="classes"), tmp_path / "base", "native")
    (tmp_path / "adapter").mkdir()
    rng = np.random.default_rng(1)
    a, b = (rng.normal(size=size).astype(np.float32) for size in ((4, 16), (48, 4)))
    named = {f"base_model.model.model.layers.0.attn.Wqkv.lora_{part}.weight": x for part, x in (("A", a), ("B", b))}
    checkpoint_files.write_safetensors(tmp_path / "adapter" / peft_adapters.WEIGHTS, named, framework="pt")
    settings = {"peft_type": "LORA", "r": 4, "lora_alpha": 16, "task_type": None, "fan_in_fan_out": True}
    settings["base_model_name_or_path"] = str(tmp_path / "base")
    checkpoint_files.write_json(tmp_path / "adapter" / peft_adapters.CONFIG, settings)
    kernel = "encoder/layers/0/attention/query_key_value/kernel"
    read = formats.read(tmp_path / "adapter").weights
    np.testing.assert_allclose(read[kernel], base[kernel] + 4 * (b @ a).T, rtol=1e-5, atol=1e-5)


def test_labels_of_an_adapter_are_those_of_the_run_that_wrote_it(adapter, tmp_path):
    folder = adapter()
    assert formats.read(folder).labels is None
    for name in ("bert_config.json", "vocab.txt"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "task.json").write_text(json.dumps({"labels": ["x", "y", "z"], "kind": "classes"}))
    read = formats.read(folder)
    assert (read.labels, read.kind) == (["x", "y", "z"], "classes")


def test_native_adapters_without_their_run_are_one_sentence(tmp_path):
    model, _ = adapted()
    formats.write(Checkpoint(config=SMALL, weights=randomize(model), kind="classes"), tmp_path / "run", "native")
    with pytest.raises(UserError, match="run.json lacks the flags lora_rank and lora_alpha of the adapters"):
        formats.read(tmp_path / "run")
    for rank, reason in (("x", "flags.lora_rank is 'x'; expected a whole number from 1"), (2, "lora_alpha is True")):
        flags = {"lora_rank": rank, "lora_alpha": True}
        (tmp_path / "run" / "run.json").write_text(json.dumps({"flags": flags}))
        with pytest.raises(UserError, match=reason):
            formats.read(tmp_path / "run")
