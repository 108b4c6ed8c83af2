"""An export answered by another engine than TensorFlow, which is not even imported: rows and answers by the host.

B examples, R rows.
"""

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, get_args

import numpy as np

from bert_tf.checkpoints import sentence_transformers
from bert_tf.config.bert_config import BertConfig
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.data.examples import Example
from bert_tf.errors import UserError, reason_of
from bert_tf.export import about_file, engines, host, loaded_model, row_blocks
from bert_tf.export.about_file import EXTRA
from bert_tf.export.host import Row
from bert_tf.export.loaded_model import TextFunction
from bert_tf.heads.vectors.text_vectors import TextVectors
from bert_tf.model.static_shapes import Placement
from bert_tf.runtime import accelerators, files, json_files, stopping
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


class EnginePredictor(TextFunction):
    """The default signature of an export, computed by an engine.

    Attributes:
        folder, labels, task, head: as those of an `Export`.
        engine: its name.
        signatures: none can be called as functions of TensorFlow, {}.
    """

    signatures: Mapping[str, Any] = {}

    def __init__(self, folder: str, engine: str, *, exact: bool = False) -> None:
        """Loads the engine's model of an export.

        exact: compute in float32 even if the export has a lower precision. Raises UserError where there is no such
        model, the engine is not installed, a file is damaged, or the engine gives other numbers than it should.
        """
        self.source, self.folder, self.engine = folder, folder, engine
        if engine not in available(folder):
            raise UserError(
                f"{folder} has no model for {engine}: `bert-tf export RUN --engine={engine} --overwrite` writes it."
            )
        about, self._settings = about_file.read(folder), settings_of(folder)
        self._tokenizer = tokenizer_of(folder)
        with _refusing_damage(folder):
            self._shares_rows = engine in self._settings.get(row_blocks.SHARED, ())  # older exports have no such entry
            self._stages = host.stages(self._settings, about, self._tokenizer)
        self.inputs, self.has_order = self._stages.inputs, True
        self.labels, self.task = tuple(about.get("labels") or ()), str(about.get("task") or "")
        self.head = loaded_model.head_of(folder, getattr(self._stages, "outputs", ()))
        self._lock = threading.Lock()
        self._network = _load(folder, engine, exact=exact or self._settings["precision"] == "float32")
        with _refusing_damage(folder):
            self._check()
        self.word_tagger = _WordTagger(self) if hasattr(self._stages, "read_words") else None

    def predict(self, examples: Sequence[Example]) -> dict[str, np.ndarray]:
        for example in examples:
            example.encode()  # raises for half a surrogate pair
        return self.outputs([example.texts for example in examples])

    @property
    def makes_vectors(self) -> bool:
        """Returns whether its answers are vectors of texts."""
        return bool(self._settings["stages"] == "vectors")

    @functools.cached_property
    def config(self) -> BertConfig:
        """The configuration of the encoder."""
        return BertConfig.from_json_file(os.path.join(self.source, EXTRA, "bert_config.json"))

    @functools.cached_property
    def sentence_vectors(self) -> SentenceVectors | None:
        """The settings of its vectors, as the export records them."""
        extra = os.path.join(self.source, EXTRA)
        return sentence_transformers.read(extra, self.config.max_position_embeddings, has_length=False)

    def extractor(self, choice: Any, *, splits_pairs: bool = False) -> "_Vectors":
        """A predictor of other vectors of the same network. choice: a VectorChoice. splits_pairs: as of `Extractor`.

        Raises UserError where the host has no such vectors.
        """
        settings = choice.host_settings()
        if settings is None:
            raise UserError(f"{self.engine} has the last layer alone: leave layers out, or use --engine={TENSORFLOW}.")
        return _Vectors(self, host.stages({**settings, "splits_pairs": splits_pairs}, {}, self._tokenizer))

    @property
    def signature_def(self) -> dict[str, Any]:
        """The SignatureDef of the signature as JSON, with all fields."""
        found: dict[str, Any] = self._settings["signature_def"]
        return found

    def compute(self, **columns: list) -> dict[str, np.ndarray]:
        """The outputs for UTF-8 texts, {input: bytes of each example, or a list of them}."""
        return self._run(columns)

    def _run(self, columns: dict[str, list]) -> dict[str, np.ndarray]:
        counts = [count or 1 for count in self.inputs.values()]
        rows = zip(*(columns[name] for name in self.inputs), strict=True)
        texts = [
            [text for value, count in zip(row, counts, strict=True) for text in ([value] if count == 1 else value)]
            for row in rows
        ]
        return self.outputs([[text.decode("utf-8", "ignore") for text in each] for each in texts])

    def tagged(self, sentences: Sequence[Sequence[str]]) -> list[tuple[list[str], list[float]]]:
        """The tag of each word of sentences, and its probability; of a tagger."""
        rows, rest = self._stages.read_words(sentences)
        found: list[tuple[list[str], list[float]]] = self._stages.tags(self.numbers(rows), rest)
        return found

    def outputs(self, examples: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        """The outputs of the signature for the texts of examples, {name: array [B, ...]}."""
        rows, rest = self._stages.read(examples)
        answers: dict[str, np.ndarray] = self._stages.answer(self.numbers(rows), rest)
        return answers

    def numbers(self, rows: Sequence[Row]) -> host.Numbers:
        """Outputs of the network for rows: {output: R arrays}, those of tokens without padding.

        Raises UserError where the engine cannot compute them.
        """
        lengths = [len(row.ids) for row in rows]
        return self.compute_blocks(rows, row_blocks.plan(lengths, shares_rows=self._shares_rows))

    def compute_blocks(self, rows: Sequence[Row], blocks: Sequence[Placement]) -> host.Numbers:
        """The same in these blocks."""
        found: dict[str, list[Any]] = {}
        for block in blocks:
            stopping.check()
            try:
                with self._lock:
                    outputs = self._network(row_blocks.inputs_of(rows, self._settings, block))
            except RuntimeError as error:
                raise UserError(f"{self.engine} cannot compute {self.source} ({reason_of(error)}).") from None
            for name, values in outputs.items():
                of_tokens = name in self._settings["token_outputs"]
                places = found.setdefault(name, [None] * len(rows))
                for number, value in zip(block.indices, values, strict=True):
                    places[number] = value[: len(rows[number].ids)] if of_tokens else value
        return found

    def _check(self) -> None:
        """Raises UserError unless the numbers of some rows are as stored."""
        self._stages.read([[""] * sum(count or 1 for count in self.inputs.values())])  # raises for damaged settings
        stored = self._settings["check"]
        rows = [Row(**row) for row in stored["rows"]]
        lengths = [len(row.ids) for row in rows]
        block = row_blocks.in_one_row(lengths) if row_blocks.SHARED in self._settings else row_blocks.alone(lengths)
        numbers = self.compute_blocks(rows, [block])
        size = self._stages.labels_of(numbers) if hasattr(self._stages, "labels_of") else None
        if size is not None and size != len(self.labels):
            raise UserError(
                f"{self.source} names {len(self.labels)} labels in about.json for the {size} numbers of its model: "
                "export it again."
            )
        for name, expected in stored["numbers"].items():
            for right, value in zip(expected, numbers[name], strict=True):
                far = difference(np.array(right), sample(value))
                if not far <= FAR["int8" if self.engine.endswith(INT8) else self._settings["precision"]]:
                    raise UserError(
                        f"{self.engine} gives other numbers for {self.source} here than TensorFlow gave: {name} "
                        f"differs by {far:.2g} of the largest value; use --engine={TENSORFLOW}, or export it here."
                    )


class _Vectors:
    """A `batches.Predictor` of vectors, as `heads.vectors.extraction.Extractor`."""

    def __init__(self, predictor: EnginePredictor, stages: Any) -> None:
        self._predictor, self._stages = predictor, stages

    def predict(self, examples: Sequence[Example]) -> dict[str, list[TextVectors]]:
        """{"vectors": TextVectors of each example}."""
        for example in examples:
            example.encode()  # raises for half a surrogate pair
        rows, rest = self._stages.read([example.texts for example in examples])
        return {"vectors": self._stages.vectors(self._predictor.numbers(rows), rest)}


class _WordTagger:
    """A `batches.Predictor` of sentences that are split into words, as `tagged_words.WordTagger`."""

    def __init__(self, predictor: EnginePredictor) -> None:
        self._predictor = predictor

    def predict(self, examples: Sequence[Example]) -> dict[str, Any]:
        """{"tags": list of str, "scores": list of probabilities} of the words of each sentence."""
        for example in examples:
            example.encode()  # raises for half a surrogate pair
        tags, scores = zip(*self._predictor.tagged([example.texts for example in examples]), strict=True)
        return {"tags": tags, "scores": scores}


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


def load(folder: str, engine: str = AUTO) -> EnginePredictor | None:
    """The export by an engine: one of CHOICES; None for TensorFlow. See `choose`."""
    chosen = choose(folder, engine)
    return None if chosen == TENSORFLOW else EnginePredictor(folder, chosen)


def load_for_vectors(path: str, engine: str = AUTO) -> EnginePredictor | None:
    """The export at a path, or that of the run there, by an engine that makes vectors of texts; None for TensorFlow.

    Raises UserError where the engine is named and makes none.
    """
    folder = next((each for each in (path, os.path.join(path, "export")) if loaded_model.is_export(each)), "")
    chosen = choose(folder, engine) if folder else TENSORFLOW
    if chosen != TENSORFLOW and (not available(folder) or settings_of(folder)["stages"] == "vectors"):
        return EnginePredictor(folder, chosen)
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
