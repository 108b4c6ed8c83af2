"""Description of an architecture of `transformers`: names of weights, classes and configuration."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bert_tf.config.bert_config import MASKED_LM, BertConfig
from bert_tf.errors import UserError
from bert_tf.families.base.name_tables import expand, module
from bert_tf.runtime.settings import FLAG, Settings, number, shortened

Names = Mapping[str, str | tuple[str, ...]]

ACTIVATIONS = {"gelu_erf": "gelu", "gelu_tanh": "gelu_new"}  # their "gelu" uses the exact error function
SIZES = {"hidden_size", "num_hidden_layers", "num_attention_heads"}  # every class also reads these names
# Our heads -> the suffix of the transformers class that has them.
CLASSES = {
    ("masked_lm", "next_sentence"): "ForPreTraining",
    ("masked_lm",): "ForMaskedLM",
    ("next_sentence",): "ForNextSentencePrediction",
    ("classifier",): "ForSequenceClassification",
    ("replaced_token",): "ForPreTraining",
    ("span",): "ForQuestionAnswering",
    (): "Model",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """An architecture of transformers.

    Attributes:
        model_type: its name in config.json.
        classes: the prefix of its class names.
        prefix: the prefix of the encoder's weight names in a model with a head.
        names: {canonical name: theirs} without the prefix. Several of theirs are concatenated to ours; "{i}" stands for
            every layer.
        outside: beginnings of names without the prefix in a model with a head.
        of_texts: names that differ in a text classifier; a file with all of these is one.
        renamed: {field of BertConfig: theirs}.
        constants: additional entries of config.json; a config.json must not contradict them.
        written: additional entries that it may contradict.
        left_out: fields of BertConfig without an entry.
        defaults: the class's values for entries missing from a config.json, if BertConfig has different ones.
        may_be_causal: whether it has `is_decoder`; the others ignore it.
        of_spans: names in the QA head, if they equal the classifier's.
        absent: prefixes of canonical names that a model with some configuration does not have.
        older: {prefix of names in some files: prefix in others}.
        optional: prefixes of canonical names in the encoder that a model with some configuration may lack.
        unused: weights in files that change nothing here, and the reason.
        heads_left_out: (prefix of canonical names, reason) for heads whose output would differ here.
        has_fixed_gelu: its masked LM head has the exact GELU regardless of hidden_act.
        has_choices_of_texts: a multiple-choice model has the names in `of_texts`.
        ends: {our heads: suffix of the name of the class that has them}.
        read, write: convert between a config.json and entries under this class's names, in one form per entry.
        read_arrays: converts names inside a transformers class, as in a state dict, to those in its files.
        read_array, write_array: convert between an array in a file, by its name there, and one with our shape.
    """

    model_type: str
    classes: str
    prefix: str
    names: Names
    outside: tuple[str, ...]
    of_texts: Names = dataclasses.field(default_factory=dict)
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    constants: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    written: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    may_be_causal: bool = True
    of_spans: Names = dataclasses.field(default_factory=dict)
    absent: Callable[[BertConfig], tuple[str, ...]] = lambda config: ()
    older: Mapping[str, str] = dataclasses.field(default_factory=dict)
    optional: Callable[[BertConfig], tuple[str, ...]] = lambda config: ()
    unused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    heads_left_out: Callable[[BertConfig, Mapping[str, Any]], Iterable[tuple[str, str]]] = lambda config, arrays: ()
    has_fixed_gelu: bool = False
    has_choices_of_texts: bool = False
    ends: Mapping[tuple[str, ...], str] = dataclasses.field(default_factory=lambda: CLASSES)
    read: Callable[[Settings], dict[str, Any]] = dict
    write: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    read_arrays: Callable[[dict[str, Any]], dict[str, Any]] = lambda arrays: arrays
    read_array: Callable[[str, Any], Any] = lambda name, array: array
    write_array: Callable[[str, Any, BertConfig], Any] = lambda name, array, config: array

    def table(self, config: BertConfig, *, is_of_texts: bool, is_of_spans: bool) -> dict[str, tuple[str, ...]]:
        """{canonical name: theirs} for a model with that configuration."""
        names = {**self.names, **(self.of_texts if is_of_texts else {})}
        if is_of_spans and self.of_spans:
            names = {ours: theirs for ours, theirs in names.items() if theirs not in self.of_spans.values()}
            names |= self.of_spans
        table, absent = expand(names, config.layers_with_weights), self.absent(config)
        return {ours: theirs for ours, theirs in table.items() if not ours.startswith(absent)}

    def renamed_arrays(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays of a file after `read_array`, with names in `older` replaced by those in `names` if free."""
        found = self.read_arrays(dict(arrays))
        for name in list(found):
            begin = next((each for each in self.older if name.startswith(each)), None)
            current = name if begin is None else self.older[begin] + name.removeprefix(begin)
            if current not in found:
                found[current] = found.pop(name)
        return {name: self.read_array(name, array) for name, array in found.items()}

    def config_values(self, config: BertConfig) -> dict[str, Any]:
        """The entries of config.json for a configuration."""
        values = {name: value for name, value in config.to_dict().items() if name not in (*self.left_out, *MASKED_LM)}
        values["hidden_act"] = ACTIVATIONS.get(config.hidden_act, config.hidden_act)
        values["max_position_embeddings"] += config.encoder_traits.position_offset
        values["embedding_size"] = config.embedding_width
        values = {self.renamed.get(name, name): value for name, value in values.items()}
        return self.write(values) | {**self.constants, **self.written}

    def config(self, encoder: str, given: Settings) -> BertConfig:
        """The configuration in a config.json; "gelu" means the exact error function."""
        ignored = {*self.left_out, *(self.renamed.keys() - SIZES)}
        known = Settings({name: value for name, value in given.items() if name not in ignored}, given.source)
        known["is_causal"] = self.may_be_causal and known.value("is_decoder", FLAG, False)
        values = {**self.defaults, **self.read(known)}
        values |= {ours: values[theirs] for ours, theirs in self.renamed.items() if theirs in values}
        config = BertConfig.from_dict({**values, "encoder": encoder}, gelu="gelu_erf", source=str(given.source))
        offset = config.encoder_traits.position_offset
        return dataclasses.replace(
            config,
            max_position_embeddings=config.max_position_embeddings - offset,
            embedding_size=None if config.embedding_size == config.hidden_size else config.embedding_size,
        )


BERT_LAYER = {
    **{part: f"attention.self.{part}" for part in ("query", "key", "value")},
    "project_out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "expand": "intermediate.dense",
    "contract": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
TABLES = {
    "encoder/embeddings/token_table": "embeddings.word_embeddings.weight",
    "encoder/embeddings/position_table": "embeddings.position_embeddings.weight",
    "encoder/embeddings/segment_table": "embeddings.token_type_embeddings.weight",
}
BERT_HEADS = {
    **module("masked_lm/transform", "cls.predictions.transform.dense"),
    **module("masked_lm/norm", "cls.predictions.transform.LayerNorm"),
    "masked_lm/output_bias": "cls.predictions.bias",
    **module("next_sentence", "cls.seq_relationship"),
}
TASK_HEADS = {
    **module("classifier", "classifier"),
    **module("span", "qa_outputs"),
    "crf/potentials": "crf.potentials",  # which transformers ignores
}
NARROW = ("embedding_size", "num_hidden_groups")
OUTSIDE = ("cls.", "classifier.", "qa_outputs.", "crf.")


def check_one_of(values: Settings, name: str, default: Any, expected: tuple[Any, ...]) -> None:
    """Raises UserError unless an entry has one of these values."""
    if values.get(name, default) not in expected:
        raise not_supported(values, name, values.get(name, default), " or ".join(map(repr, expected)))


def not_supported(values: Settings, name: str, value: Any, expected: str) -> UserError:
    """Error for an entry of config.json."""
    return UserError(
        f"{values.source}: {values.place}{name} is {shortened(value)}, which is not supported; supported is {expected}."
    )


def theta_of(rotation: Settings, default: Any) -> Any:
    """The base of a rotation, or the default; UserError for scaled or partial rotations."""
    check_one_of(rotation, "rope_type", "default", ("default",))
    check_one_of(rotation, "partial_rotary_factor", 1.0, (None, 1.0))
    return rotation.value("rope_theta", number(above=0), default)


def check_no_scaling(values: Settings) -> None:
    """Raises UserError for scaled rotations."""
    if values.get("rope_scaling") is not None:
        raise not_supported(values, "rope_scaling", values["rope_scaling"], "none")


def check_same(values: Settings, name: str, other: str, default: Any) -> None:
    """Raises UserError unless two entries, either of which a file may omit, are equal."""
    first, second = values.get(name, default), values.get(other, default)
    if first != second:
        raise not_supported(values, name, first, f"that of {other}, {shortened(second)}")
