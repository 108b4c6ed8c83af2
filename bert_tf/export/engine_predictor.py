"""The network of an export computed by OpenVINO or ONNX Runtime, without importing TensorFlow.

R rows.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, Self, get_args

import numpy as np

from bert_tf.checkpoints import sentence_transformers
from bert_tf.config.bert_config import BertConfig
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.errors import UserError, reason_of
from bert_tf.export import about_file, engines, host, host_settings, loaded_model, row_blocks, text_function
from bert_tf.export.about_file import EXTRA
from bert_tf.export.host import Row
from bert_tf.export.predictor import Predictor
from bert_tf.export.saved_network import SavedNetwork
from bert_tf.export.text_function import TextFunction
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.model.static_shapes import Placement
from bert_tf.runtime import accelerators, files, json_files, stopping
from bert_tf.runtime.tensorflow_startup import ensure_started
from bert_tf.text import host_tokenizer_kinds, special_tokens, vocabulary
from bert_tf.text.host_tokenizer import HostTokenizer

FOLDER, SETTINGS = "engines", "host.json"
AUTO: Final = "auto"
NONE: Final = "none"
TENSORFLOW: Final = "tensorflow"
Engine = Literal["auto", "tensorflow", "openvino", "onnx", "openvino_int8", "onnx_int8"]
CHOICES: tuple[str, ...] = get_args(Engine)
INT8 = "_int8"  # how the names of models with weights of 8 bits end
CHECKED = 2  # rows whose numbers are stored with a model, and compared where it is loaded
FAR = {"float32": 1e-3, "bfloat16": 0.2, "float16": 0.2, "int8": 0.5}  # how far they may be on another machine


class EngineNetwork:
    """A `predictor.Network`: the engine's model of an export.

    Attributes:
        name: of the engine.
        settings: the content of host.json.
    """

    def __init__(self, folder: str, engine: str, *, exact: bool = False) -> None:
        """Loads the model.

        exact: compute in float32 even if the export has a lower precision. Raises UserError if there is no such model,
        the engine is not installed, or a file is damaged.
        """
        self.name, self._folder = engine, folder
        if engine not in available(folder):
            raise UserError(
                f"{folder} has no model for {engine}: `bert-tf export RUN --engine={engine} --overwrite` writes it."
            )
        self.settings = settings_of(folder)
        with _refusing_damage(folder):
            self._shares_rows = engine in self.settings.get(row_blocks.SHARED, ())  # older exports have no such entry
        self._lock = threading.Lock()
        self._function = _load(folder, engine, exact=exact or self.settings["precision"] == "float32")

    def of_vectors(self, choice: VectorChoice) -> Self:
        """See `predictor.Network`."""
        if self.settings["stages"] != "vectors":
            raise UserError(f"{self._folder} makes no vectors by {self.name}: load it without engine.")
        if not choice.is_of_last_layer:
            raise UserError(f"{self.name} has the last layer alone: leave layers out, or use --engine={TENSORFLOW}.")
        return self

    def numbers(self, rows: Sequence[Row]) -> host.Numbers:
        """See `predictor.Network`. Raises UserError if the engine cannot compute them."""
        lengths = [len(row.ids) for row in rows]
        return self.compute_blocks(rows, row_blocks.plan(lengths, shares_rows=self._shares_rows))

    def compute_blocks(self, rows: Sequence[Row], blocks: Sequence[Placement]) -> host.Numbers:
        """The same in these blocks."""
        found: dict[str, list[Any]] = {}
        for block in blocks:
            stopping.check()
            try:
                with self._lock:
                    outputs = self._function(row_blocks.inputs_of(rows, self.settings, block))
            except RuntimeError as error:
                raise UserError(f"{self.name} cannot compute {self._folder} ({reason_of(error)}).") from None
            for name, values in outputs.items():
                of_tokens = name in self.settings["token_outputs"]
                places = found.setdefault(name, [None] * len(rows))
                for number, value in zip(block.indices, values, strict=True):
                    places[number] = value[: len(rows[number].ids)] if of_tokens else value
        return found

    def check(self, stages: Any, labels: Sequence[str]) -> None:
        """Raises UserError unless the numbers of some rows are as stored, and are of these labels."""
        stages.read([[""] * sum(count or 1 for count in stages.inputs.values())])  # raises for damaged settings
        stored = self.settings["check"]
        rows = [Row(**row) for row in stored["rows"]]
        lengths = [len(row.ids) for row in rows]
        block = row_blocks.in_one_row(lengths) if row_blocks.SHARED in self.settings else row_blocks.alone(lengths)
        numbers = self.compute_blocks(rows, [block])
        size = stages.labels_of(numbers) if hasattr(stages, "labels_of") else None
        if size is not None and size != len(labels):
            raise UserError(
                f"{self._folder} names {len(labels)} labels in about.json for the {size} numbers of its model: "
                "export it again."
            )
        for name, expected in stored["numbers"].items():
            for right, value in zip(expected, numbers[name], strict=True):
                far = difference(np.array(right), sample(value))
                if not far <= FAR["int8" if self.name.endswith(INT8) else self.settings["precision"]]:
                    raise UserError(
                        f"{self.name} gives other numbers for {self._folder} here than TensorFlow gave: {name} "
                        f"differs by {far:.2g} of the largest value; use --engine={TENSORFLOW}, or export it here."
                    )


def predictor_of(folder: str, engine: str, *, exact: bool = False) -> Predictor:
    """The predictor of an export by an engine, without TensorFlow.

    exact: see EngineNetwork. Raises UserError as that does, and if the engine gives other numbers than it should.
    """
    network, about = EngineNetwork(folder, engine, exact=exact), about_file.read(folder)
    with _refusing_damage(folder):
        found = Predictor(folder, network, network.settings, about, tokenizer_of(folder))
        found.head = loaded_model.head_of(folder, found.outputs_told)
        network.check(found.stages, found.labels)
    return found


def config_of(folder: str) -> BertConfig:
    """The configuration of the encoder of an export."""
    return BertConfig.from_json_file(os.path.join(folder, EXTRA, "bert_config.json"))


def sentence_vectors_of(folder: str) -> SentenceVectors | None:
    """The settings of the vectors of an export, as it records them."""
    positions = config_of(folder).max_position_embeddings
    return sentence_transformers.read(os.path.join(folder, EXTRA), positions, has_length=False)


@contextlib.contextmanager
def _refusing_damage(folder: str) -> Iterator[None]:
    """Raises UserError for settings that lack something, or hold something else than they should."""
    try:
        yield
    except UserError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        path = os.path.join(folder, FOLDER, SETTINGS)
        raise UserError(f"{path} or about.json is damaged ({error!r}): export it again with --engine.") from None


def load(folder: str, engine: str = AUTO) -> Predictor | None:
    """The export by an engine: one of CHOICES; None for TensorFlow. See `choose`."""
    chosen = choose(folder, engine)
    return None if chosen == TENSORFLOW else predictor_of(folder, chosen)


def open_model(folder: str, engine: str = AUTO, *, jit_compile: str = "auto", texts: int | None = None) -> TextFunction:
    """Opens the model in a folder that `loaded_model.find` returned: an export or a checkpoint.

    engine: see `choose`. jit_compile: see TensorFlowNetwork. texts: of a checkpoint, see
    `live_model.task_of`.
    """
    found = load(folder, engine)
    if found is not None:
        return found
    if loaded_model.is_export(folder):
        return of_saved_model(folder, jit_compile=jit_compile)
    ensure_started()
    from bert_tf.export import live_model

    return live_model.predictor_at(folder, texts, jit_compile=jit_compile)


def of_saved_model(folder: str, *, jit_compile: str = "auto") -> TextFunction:
    """The export in a folder by TensorFlow; see `open_model`."""
    settings = host_settings.read(folder)
    if settings is None:
        return loaded_model.Export(folder)
    network, about = SavedNetwork(folder, settings, jit_compile), about_file.read(folder)
    batch_size = text_function.STATIC_BATCH_SIZE if network.static else text_function.BATCH_SIZE
    found = Predictor(folder, network, settings, about, tokenizer_of(folder), batch_size=batch_size)
    found.head = loaded_model.head_of(folder, found.outputs_told)
    return found


def load_for_vectors(path: str, engine: str = AUTO) -> Predictor | None:
    """The export at a path, or that of the run there, by an engine that makes vectors of texts; None for TensorFlow.

    Raises UserError where the engine is named and makes none.
    """
    folder = next((each for each in (path, os.path.join(path, "export")) if loaded_model.is_export(each)), "")
    chosen = choose(folder, engine) if folder else TENSORFLOW
    if chosen != TENSORFLOW and (not available(folder) or settings_of(folder)["stages"] == "vectors"):
        return predictor_of(folder, chosen)
    if engine not in (AUTO, TENSORFLOW):
        raise UserError(
            f"{path} makes no vectors by {engine}: pass an export of vectors that `bert-tf export --engine` wrote."
        )
    return None


def choose(folder: str, engine: str = AUTO) -> str:
    """The name of the engine for an export: "auto" is the fastest that it has a model for and that is installed.

    It is never one of 8 bits, and on a machine with a GPU it is TensorFlow.
    """
    if engine not in CHOICES:
        raise UserError(f"engine is {engine!r}; expected one of {', '.join(CHOICES)}.")
    if engine != AUTO:
        if engine != TENSORFLOW and not loaded_model.is_export(folder):
            raise UserError(
                f"{folder} is a checkpoint: `bert-tf export {folder} TO --engine={engine}` makes an export."
            )
        return engine
    is_elsewhere = not loaded_model.is_export(folder) or accelerators.are_there()
    found = [] if is_elsewhere else [name for name in available(folder) if not name.endswith(INT8)]
    speeds = settings_of(folder)["seconds"] if found else {}
    installed = [name for name in sorted(found, key=lambda name: speeds.get(name, 0)) if engines.is_installed(name)]
    return installed[0] if installed else TENSORFLOW


def available(folder: str) -> list[str]:
    """The engines that an export has models for."""
    path = os.path.join(folder, FOLDER)
    has_settings = files.is_file(os.path.join(path, SETTINGS))
    return [name for name in files.names(path) if name != SETTINGS] if has_settings else []


def settings_of(folder: str) -> dict[str, Any]:
    """The content of host.json; UserError where it is damaged."""
    path = os.path.join(folder, FOLDER, SETTINGS)
    values: dict[str, Any] = json_files.require_json(path, "what an export says to its engines")
    missing = [name for name in ("stages", "precision", "seconds", "signature_def", "check") if name not in values]
    if missing:
        raise UserError(f"{path} lacks {missing[0]}: export it again with --engine.")
    return values


def tokenizer_of(folder: str) -> HostTokenizer:
    """The tokenizer of an export."""
    extra = os.path.join(folder, EXTRA)
    settings = json_files.require_json(os.path.join(extra, "tokenizer_config.json"), "the casing of a tokenizer")
    return host_tokenizer_kinds.create(
        vocabulary.read(os.path.join(extra, "vocab.txt")),
        settings.get("do_lower_case", True),
        special_tokens_in_strings=settings.get(special_tokens.SETTING, False),
    )


def sample(values: Any) -> np.ndarray:
    """Some of the numbers of a row, which stand for all."""
    flat = np.asarray(values, np.float64).reshape(-1)
    return flat[:: -(-flat.size // 64) or 1]


def difference(expected: np.ndarray, actual: np.ndarray) -> float:
    """The largest difference, relative to the largest expected value; infinite where shapes differ."""
    if expected.shape != actual.shape or not np.isfinite(actual).all():
        return np.inf
    return float(np.abs(expected - actual).max(initial=0) / max(np.abs(expected).max(initial=0), 1e-30))


def _load(folder: str, engine: str, *, exact: bool) -> Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    path = os.path.join(folder, FOLDER, engine)
    module = engines.engine_of(engine.partition("_")[0], runs_only=True)
    try:
        function: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] = module.load(path, exact=exact)
    except UserError:
        raise
    except Exception as error:  # engines raise many types
        raise UserError(
            f"The model in {path} cannot be loaded ({reason_of(error)}): a file of it is damaged or missing; export it "
            "again."
        ) from None
    return function


def are_calibrated(names: Sequence[str]) -> bool:
    """Returns whether one of these engines learns the ranges of numbers in 8 bits from texts."""
    return any(engines.engine_of(name.removesuffix(INT8)).CALIBRATES for name in names if name.endswith(INT8))


def names_of(text: str) -> list[str]:
    """The engines that a flag of `bert-tf export` or of a training command names, separated by commas.

    [AUTO] for "auto", which `default_names` decides when the export is written; [] for "none".
    Raises UserError for an unknown one, and where what writes its models is not installed.
    """
    names = comma_separated(text)
    if names in ([AUTO], [NONE]):
        return names if names == [AUTO] else []
    for name in names:
        if name not in CHOICES[2:]:
            raise UserError(f"engine is {name!r}; expected {AUTO}, {NONE}, or some of {', '.join(CHOICES[2:])}.")
        engine, _, quantize = name.partition("_")
        engines.engine_of(engine, quantize or None)
    return names


def default_names() -> list[str]:
    """The engines whose models an export gets by "auto": the first whose models can be written and run here, if any."""
    for name in CHOICES[2:]:
        with contextlib.suppress(UserError):
            if not name.endswith(INT8) and engines.engine_of(name):
                return [name]
    return []
