"""Text embeddings: the files that sentence-transformers adds to a folder.

`modules.json` lists the steps for a text: the encoder, a pooling, and layers after it, each with its own folder.
`sentence_bert_config.json` has the maximum length of texts, `config_sentence_transformers.json` the prompts.
"""

import functools
import os
from collections.abc import Mapping
from pathlib import PureWindowsPath
from typing import Any

from bert_tf.checkpoints import sentence_layers
from bert_tf.checkpoints.checkpoint_files import SHORTEST
from bert_tf.checkpoints.huggingface_folder import CONFIG, TokenizerFolder
from bert_tf.config.sentence_vectors import NORMALIZE, SentenceVectors
from bert_tf.errors import UserError
from bert_tf.heads.vectors import similarity
from bert_tf.runtime import files
from bert_tf.runtime.atomic_files import write_json
from bert_tf.runtime.json_files import require_json
from bert_tf.runtime.settings import FLAG, TEXT, TEXTS, Settings, check, read_settings, shortened, whole

MODULES, POOLING = "modules.json", "1_Pooling"
PROMPTS = "config_sentence_transformers.json"
CROSS_ENCODER = "CrossEncoder"  # model_type of a cross-encoder
ENCODER = "sentence_bert_config.json"
# Older names; the first existing one counts.
OLDER = ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
ENCODERS = (ENCODER, *(f"sentence_{name}_config.json" for name in OLDER))
LIBRARY = "sentence_transformers."
OLD_ENCODERS = ("BERT", "RoBERTa", "DistilBERT", "ALBERT", "CamemBERT", "XLMRoBERTa", "XLNet")  # in versions before 0.3
POOLINGS = {  # name in pooling_mode -> our name; the order in which the flags of older files are joined
    "cls": "cls",
    "max": "max",
    "mean": "mean",
    "mean_sqrt_len_tokens": "mean_sqrt_len",
    "weightedmean": "weighted_mean",
    "lasttoken": "last",
}
FLAGS = {  # flags in older files -> name in pooling_mode
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
# Encoder settings that change no embedding, those that other modules of ours read, and the values of others that mean
# nothing special.
HARMLESS = ("max_seq_length", "do_lower_case", "unpad_inputs")
USUAL: Mapping[str, Any] = {
    "transformer_task": "feature-extraction",
    "module_output_name": "token_embeddings",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
}
ARGUMENTS = ("processor_kwargs", "tokenizer_args")  # for the tokenizer
ARGUMENTS_OF_MODEL = ("model_kwargs", "model_args", "config_kwargs", "config_args")
HARMLESS_ARGUMENTS = (
    "model_max_length",
    "attn_implementation",
    "torch_dtype",
    "dtype",
    "add_pooling_layer",
    "use_fast",
)


class SentenceFolder:
    """The sentence-transformers files in a folder, if it has them; each is read once. path: the folder."""

    def __init__(self, path: files.StrPath) -> None:
        self.path = os.fspath(path)

    @functools.cached_property
    def modules(self) -> list[tuple[str, str]]:
        """(kind, folder) of each module; [] without modules.json. UserError if it is damaged.

        The kind of a module from outside the library is its dotted name.
        """
        path = os.path.join(self.path, MODULES)
        return _modules(path) if files.is_file(path) else []

    @functools.cached_property
    def about(self) -> Settings:
        """The entries of config_sentence_transformers.json; empty without one."""
        return read_settings(os.path.join(self.path, PROMPTS))

    @functools.cached_property
    def encoder(self) -> TokenizerFolder:
        """The folder with the encoder: the folder itself, or in older layouts a subfolder such as 0_Transformer."""
        kind, module = self.modules[0] if self.modules else ("", "")
        is_inside = kind == "Transformer" and module not in ("", ".")
        return TokenizerFolder(os.path.join(self.path, module) if is_inside else self.path)

    @property
    def of_encoder(self) -> Settings:
        """The settings for the encoder; empty if no file has them."""
        found = self.encoder.of_sentences
        return next((found[name] for name in ENCODERS if name in found), Settings({}, self.encoder.place(ENCODER)))


def read(folder: files.StrPath | SentenceFolder, positions: int, *, has_length: bool = True) -> SentenceVectors | None:
    """Reads a sentence-transformers folder; None for any other folder, UserError for a damaged file.

    positions: the encoder's positions, which limit the length. has_length: whether texts are truncated if no file
        specifies a length, as in sentence-transformers; our own runs read long texts in windows.
    """
    folder = folder if isinstance(folder, SentenceFolder) else SentenceFolder(folder)
    is_of_pairs = folder.about.value("model_type", TEXT) == CROSS_ENCODER
    if is_of_pairs or not folder.modules:
        return None
    modules = folder.modules
    kinds = [kind for kind, _ in modules]
    try:
        before = kinds.index("Pooling") if "Pooling" in kinds else 0
        if kinds[:before] != ["Transformer"]:
            others = [kind for kind in kinds if kind not in ("Transformer", *sentence_layers.KINDS)]
            return SentenceVectors(unsupported=" and ".join(others) or "no pooling")
        pooling, include_prompt = _pooling(os.path.join(folder.path, modules[before][1]))
        layers = [
            sentence_layers.read(kind, os.path.join(folder.path, module)) for kind, module in modules[before + 1 :]
        ]
        known = [layer for layer in layers if layer is not None]
        is_normalized = known[-1:] == [NORMALIZE]
        return SentenceVectors(
            pooling=pooling,
            normalize=is_normalized,
            layers=tuple(known[:-1] if is_normalized else known),
            max_seq_length=_length(folder, positions, has_length=has_length),
            include_prompt=include_prompt,
            **_prompts(folder.about),
        )
    except sentence_layers.Unsupported as error:
        return SentenceVectors(unsupported=str(error))


def _modules(path: str) -> list[tuple[str, str]]:
    listed = Settings({"modules": require_json(path, "a list of modules; fetch it again", kind=list)}, path)
    modules = [(each.value("type", TEXT, ""), each.value("path", TEXT, "")) for each in listed.each("modules")]
    if not modules or any(not each.get("type") or "path" not in each for each in listed.each("modules")):
        raise UserError(f"{path} is not a list of modules, each with a type and a path: fetch it again, or remove it.")
    for _, module in modules:
        as_windows = PureWindowsPath(module)
        if as_windows.anchor or ".." in as_windows.parts or "\0" in module:
            raise UserError(f"{path} has the path {shortened(module)}, which leaves the folder: correct or remove it.")
    kinds = [name.split(".")[-1] if name.startswith(LIBRARY) else name for name, _ in modules]
    kinds = ["Transformer" if kind in OLD_ENCODERS else kind for kind in kinds]
    return [(kind, module) for kind, (_, module) in zip(kinds, modules, strict=True)]


def _pooling(folder: str) -> tuple[str, bool]:
    """Our name for the pooling, and whether it includes the prompt."""
    path = os.path.join(folder, "config.json")
    values = read_settings(path)
    modes = values.get("pooling_mode")
    if modes is None and values:
        modes = [name for flag, name in FLAGS.items() if values.value(flag, FLAG)] or "mean"
    names = check(path, "pooling_mode", modes if isinstance(modes, list) else [modes or "None"], TEXTS)
    unknown = [name for name in names if name not in POOLINGS]
    if unknown or not names:
        raise sentence_layers.Unsupported(f"the pooling {shortened(unknown[0] if unknown else names)}")
    return "+".join(POOLINGS[name] for name in names), values.value("include_prompt", FLAG, True)


def _length(folder: SentenceFolder, positions: int, *, has_length: bool) -> int | None:
    """The tokens after which texts are truncated; also checks the other settings in the encoder's file."""
    values = folder.of_encoder
    for name, value in values.items():
        arguments = [*ARGUMENTS, *ARGUMENTS_OF_MODEL]
        is_usual = value in (None, {}, [], False, USUAL.get(name))
        if name in arguments and isinstance(value, dict):
            is_usual = all(key in HARMLESS_ARGUMENTS or each is None for key, each in value.items())
        if not is_usual and name not in HARMLESS:
            raise sentence_layers.Unsupported(f"{name} {shortened(value)} in {os.path.basename(str(values.source))}")
    given = [values[name].get("model_max_length") for name in ARGUMENTS if isinstance(values.get(name), dict)]
    lengths = [value for value in (*given, values.get("max_seq_length")) if value is not None]
    is_here = folder.encoder.has(CONFIG) or folder.encoder.path == folder.path
    about = folder.encoder.config if is_here else read_settings(os.path.join(folder.path, CONFIG))
    if about.get("truncation_side", "right") != "right":
        raise sentence_layers.Unsupported(f"truncation_side {shortened(about['truncation_side'])}")
    if not lengths and has_length:
        lengths = [about.get("model_max_length") or positions]
    if not lengths:
        return None
    length = lengths[0]
    if isinstance(length, bool) or not isinstance(length, int | float) or not length >= 1:
        source = values.source if values else os.path.dirname(str(about.source))
        raise UserError(f"{source}: the length of texts is {shortened(length)}; expected a whole number.")
    length = int(min(length, positions))
    if length < SHORTEST:
        raise sentence_layers.Unsupported(f"a max_seq_length of {length}")
    return length


def _prompts(values: Settings) -> dict[str, Any]:
    """The fields of SentenceVectors in config_sentence_transformers.json."""
    prompts = values.inside("prompts")
    kind = values.value("model_type", TEXT)
    if kind not in (None, "SentenceTransformer"):
        raise sentence_layers.Unsupported(f"the model_type {kind}")
    default, name = values.value("default_prompt_name", TEXT), values.value("similarity_fn_name", TEXT)
    if default is not None and default not in {"query": "", "document": "", **prompts}:
        raise UserError(
            f"{values.source}: default_prompt_name is {default!r}, and there is no such prompt: correct the file."
        )
    return {
        "prompts": {name: prompts.value(name, TEXT, "") for name in prompts},
        "default_prompt_name": default,
        "truncate_dim": values.value("truncate_dim", whole(1)),
        "similarity": name if name in similarity.FUNCTIONS else None,
    }


def write(folder: str, vectors: SentenceVectors | None, hidden_size: int) -> None:
    """Writes the files that let sentence-transformers load the folder too, if everything is supported."""
    if vectors is None or vectors.unsupported:
        return
    layers = [*vectors.layers, *([NORMALIZE] if vectors.normalize else [])]
    kinds = [sentence_layers.KIND_OF[layer.kind] for layer in layers]
    paths = ["", POOLING, *(f"{number}_{kind}" for number, kind in enumerate(kinds, 2))]
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"{LIBRARY}models.{kind}"}
        for number, (kind, path) in enumerate(zip(["Transformer", "Pooling", *kinds], paths, strict=True))
    ]
    write_json(os.path.join(folder, MODULES), modules)
    for path in filter(None, paths):
        files.make_folder(os.path.join(folder, path))
    names = [theirs for pooling in vectors.poolings for theirs, ours in POOLINGS.items() if ours == pooling]
    values: dict[str, Any] = {"word_embedding_dimension": hidden_size}
    if names == [name for name in POOLINGS if name in names]:
        values |= {flag: name in names for flag, name in FLAGS.items()}
    else:  # an order, or a number of poolings, that older versions do not support
        values["pooling_mode"] = names
    if not vectors.include_prompt:
        values["include_prompt"] = False
    write_json(os.path.join(folder, POOLING, "config.json"), values)
    for layer, path in zip(layers, paths[2:], strict=True):
        sentence_layers.write(layer, os.path.join(folder, path))
    if vectors.max_seq_length is not None:
        values = {"max_seq_length": vectors.max_seq_length, "do_lower_case": False}
        write_json(os.path.join(folder, ENCODER), values)
    values = {
        "prompts": dict(vectors.prompts),
        "default_prompt_name": vectors.default_prompt_name,
        "similarity_fn_name": vectors.similarity,
        "truncate_dim": vectors.truncate_dim,
    }
    if any(values.values()):
        write_json(os.path.join(folder, PROMPTS), {name: value for name, value in values.items() if value is not None})
