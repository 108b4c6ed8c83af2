"""Options shared by several scripts: the starting point of a model, the run folder and the stages of a run."""

import dataclasses

from bert_tf.config import parity
from bert_tf.config.bert_config import SIZES
from bert_tf.config.device_options import DeviceOptions
from bert_tf.config.options import Group, Options, flag, group
from bert_tf.config.segments import SEGMENTS
from bert_tf.config.train_config import DistillationConfig

EXPORT_PRECISIONS = ("float32", "bfloat16", "float16")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions(Group):
    """The model to start from, or the shape of a new one, and its vocabulary."""

    init_checkpoint: str = flag("", "Checkpoint to start from, in any format, or a run folder. Default: from scratch.")
    bert_config_file: str = flag("", "bert_config.json. Default: the one next to init_checkpoint.")
    model_size: str = flag("base", "Model size when training from scratch.", tuple(SIZES))
    num_hidden_layers: int = flag(
        0, "Layers to take from init_checkpoint, fewer than it has: every n-th, or those of layer_map. 0: all."
    )
    dropout_prob: float = flag(0.1, "Dropout of hidden states and attention weights when training from scratch.")
    encoder: str = flag(
        "",
        "Encoder; see bert_tf/families. Default: as in init_checkpoint, else bert.",
        ("",),
        members_of="bert_tf.families",
    )
    trust_code: bool = flag(
        False,
        "Import modules from outside this package named in files, such as the encoder of a bert_config.json.",
        free=True,
    )
    vocab_file: str = flag("", "vocab.txt. Default: the one next to init_checkpoint.")
    vocab_size: int = flag(30522, "Size of a vocabulary learned from the training texts.")
    do_lower_case: bool = flag(True, "Lower-case and strip accents. Default: as in init_checkpoint.")
    special_tokens_in_strings: str = flag(
        "",
        "Special tokens recognized in texts: all ([MASK], [SEP], ... and those that init_checkpoint adds), none, or "
        "the five and these: [E1],[/E1]. Default: as in init_checkpoint, else none, as in google-research/bert.",
    )
    segments: str = flag(
        "", "Segments of the texts of a pair: one for both, or two. Default: as in init_checkpoint.", ("", *SEGMENTS)
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextOptions(Group):
    """Reading of raw text."""

    text_layout: str = flag(
        "auto",
        "Layout of .txt files: one sentence per line, one paragraph per line, one document per line, hard-wrapped "
        "lines, one document per file, or wikiextractor's articles.",
        ("auto", "sentences", "paragraphs", "lines", "wrapped", "files", "wikipedia"),
    )
    text_field: str = flag("text", "Field of .jsonl files, or column of .parquet files, with the text.")
    language: str = flag("auto", "Language for sentence splitting, such as en, de, zh.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """The run folder, its stages and the rows of a batch."""

    output_dir: str = flag("", "Run folder.", free=True)
    do_train: bool = flag(True, "Train the model.", free=True)
    do_eval: bool = flag(True, "Evaluate on held-out data.", free=True)
    do_export: bool = flag(True, "Export a SavedModel that takes strings.", free=True)
    dry_run: bool = flag(
        False,
        "Print the plan and stop: data, model, steps, rates, memory, time, and the reason for each chosen flag. "
        " Writes nothing; a checkpoint with the name of a hub's model is downloaded.",
        free=True,
    )
    export_attention: bool = flag(
        False,
        "Add signatures to the export that return attention weights and attributions; see docs/serving.md.",
        free=True,
    )
    export_engines: str = flag(
        "auto",
        "Engines to export models for too, comma-separated: openvino, onnx; none; auto: the first installed one of "
        "these that can run the model; see docs/serving.md.",
        free=True,
    )
    max_seq_length: int = flag(128, "Tokens per row, including [CLS] and [SEP].")
    parity: str = flag(
        "",
        "Set every flag of docs/parity.md that you omit: to the quirks of google-research/bert, or to their fixes.",
        ("", *parity.CHOICES),
        free=True,
    )
    model: ModelOptions = group(ModelOptions)
    distillation: DistillationConfig = group(DistillationConfig)
    devices: DeviceOptions = group(DeviceOptions)

    @property
    def needs_devices(self) -> bool:
        """Whether TensorFlow starts on the devices: to compute, or to check that there is the requested GPU."""
        return not self.dry_run or self.devices.device == "gpu"
