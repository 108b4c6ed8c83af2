"""The flags of pre-training: a dataclass, and defaults that depend on other flags."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from bert_tf.config.bert_config import SIZES, BertConfig
from bert_tf.config.flag_groups import ModelOptions, RunOptions, TextOptions
from bert_tf.config.options import NOT_NEGATIVE, changed, flag, group
from bert_tf.config.train_config import FineTuning, LongTraining, MaskingConfig, Optimization, TrainConfig
from bert_tf.data.pretraining import masked_records
from bert_tf.errors import leave_out
from bert_tf.recipes.pretraining import named_recipes

AUTO_STEPS = 0  # the number of steps depends on the text
# Defaults without --input_file: a small model, a few minutes on two cores.
DEMO_SETTINGS = {
    "model_size": "tiny",
    "dropout_prob": 0.0,  # with this few steps it only slows training down
    "vocab_size": 4000,
    "max_seq_length": 32,
    "max_predictions_per_seq": 6,
    "train_batch_size": 64,
    "eval_batch_size": 32,
    "precision": "float32",  # faster than bfloat16 for such a narrow model, by 30% on CPUs without AMX
    "optimizer": "muon",  # lamb needs more than twice the steps, adamw even more
    "learning_rate": 1.5e-2,
    "num_train_steps": 900,
    "warmup_proportion": 0.1,
    "save_checkpoints_steps": 150,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model(ModelOptions):
    """The model to pre-train."""

    dropout_prob: float = changed(
        ModelOptions,
        "dropout_prob",
        help="Dropout of hidden states and attention weights; ignored if a configuration file is given.",
    )
    encoder: str = changed(
        ModelOptions,
        "encoder",
        help="bert or another supported encoder, or lstm: two language models as in ELMo; default: as in "
        "init_checkpoint, else bert.",
    )
    vocab_file: str = changed(
        ModelOptions,
        "vocab_file",
        help="vocab.txt; if neither it nor init_checkpoint is given, a vocabulary is learned from the text.",
    )
    do_lower_case: bool = changed(ModelOptions, "do_lower_case", help="Lower-case and strip accents (uncased model).")
    model_size: str = changed(
        ModelOptions,
        "model_size",
        "auto",
        choices=("auto", *SIZES),
        help="Model size when training from scratch; auto: tiny to base, by the amount of text.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training(TrainConfig):
    """Training settings of pre-training."""

    HIDDEN: ClassVar[tuple[type, ...]] = (FineTuning,)

    num_train_steps: int = changed(
        LongTraining,
        "num_train_steps",
        AUTO_STEPS,
        help="Number of training steps; auto: about 40 passes over the text, like BERT, at most 100,000.",
        words={"auto": AUTO_STEPS},
        valid=NOT_NEGATIVE,
    )
    warmup_proportion: float = changed(Optimization, "warmup_proportion", 0.01)
    save_checkpoints_steps: int = changed(
        Optimization, "save_checkpoints_steps", help="Steps between checkpoints; each is followed by an evaluation."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Flags(RunOptions):
    """Text, records and masks."""

    POSITIONAL: ClassVar[str] = "input_file"
    MOST_USED: ClassVar[tuple[str, ...]] = tuple(
        "input_file output_dir init_checkpoint model_size vocab_size max_seq_length train_batch_size num_train_steps "
        "learning_rate text_layout".split()
    )

    input_file: str = flag(
        "",
        "Training text: comma-separated files, folders or globs of .txt and .jsonl (also .gz, .bz2, .zst), .parquet, "
        "or wikiextractor's output. Default: Python's manual and library.",
    )
    output_dir: str = changed(RunOptions, "output_dir", "runs/pretraining")
    recipe: str = flag(
        "",
        "Defaults of several flags; flags on the command line override them; lamb_large_batch: LAMB with batches of "
        "64k and 32k rows in two phases; budget: for an hour on a few cores.",
        ("", *named_recipes.RECIPES),
    )
    recipe_scale: float = flag(
        1.0, "Factor of the batches of the recipe; its learning rates change with the square root."
    )
    eval_file: str = flag(
        "", "Held-out text for evaluation, in the form of input_file. Default: 5% of the documents of input_file."
    )
    chinese_word_segmentation: bool = flag(
        False, "With do_whole_word_mask: mask the characters of a Chinese word together, with words found by jieba."
    )
    left_to_right: bool = flag(
        False, "Predict each token from the preceding ones (causal LM, as in GPT) instead of masked tokens."
    )
    replaced_tokens: bool = flag(
        False,
        "Train a generator to fill masks, and the model to find the tokens that it replaced, as electra always and "
        "DeBERTa-v3 (encoder=deberta_v2).",
    )
    short_seq_prob: float = flag(0.1, "Fraction of rows with a shorter target length.")
    short_seq_per_document: bool = flag(
        False, "Draw the shorter target length once per document, as in google-research/bert, not for each row."
    )
    dupe_factor: int = flag(
        10, "Passes over the text, each with different sentence pairs; 1 by default for rows without pairs."
    )
    compress_records: bool = flag(False, "Write records as .tfrecord.gz: half the disk space, slower.")
    records_dir: str = flag(
        "",
        "Folder for the records, which several runs may share, or of records that google-research/bert or NVIDIA's "
        "scripts masked. Default: a folder in output_dir.",
        free=True,
    )
    masked_lm_epsilon: float = flag(
        1e-5,
        "Added to the number of predicted tokens that the masked-LM loss is divided by; the original's.",
        valid=NOT_NEGATIVE,
    )
    next_sentence_weight: float = flag(
        1.0, "Weight of the next-sentence loss; 0: masked LM only, on rows of one segment.", valid=NOT_NEGATIVE
    )
    keep_pairs: bool = flag(False, "Keep rows of two segments when next_sentence_weight is 0.")
    num_workers: int = flag(
        0,
        "Number of processes that write records; the records do not depend on it. 0: one for each core, or none but "
        "this one if there is little text.",
        valid=NOT_NEGATIVE,
        free=True,
    )
    prepare_only: bool = flag(False, "Write vocabulary and records, then stop.", free=True)
    do_export: bool = changed(RunOptions, "do_export", help="Export a SavedModel that fills masks in strings.")
    text: TextOptions = group(TextOptions)
    masking: MaskingConfig = group(MaskingConfig)
    model: Model = group(Model)
    training: Training = group(Training)

    @property
    def needs_devices(self) -> bool:
        return super().needs_devices and not self.prepare_only


# Flags that determine the vocabulary and the records: only these matter before the first checkpoint.
TEXT_FLAGS = frozenset(
    "input_file eval_file text_layout text_field language vocab_file vocab_size do_lower_case init_checkpoint "
    "special_tokens_in_strings max_seq_length short_seq_prob short_seq_per_document dupe_factor compress_records "
    "chinese_word_segmentation random_seed".split()
)


def with_computed_settings(options: Flags, settings: Mapping[str, Any]) -> Flags:
    """The flags with the settings of a recipe, and of the demonstration if there is no text to train on."""
    chosen, reasons = dict(settings), dict.fromkeys(settings, f"--recipe={options.recipe}")
    if not ("input_file" in options.given or masked_records.find(options.records_dir.partition(",")[0])):
        chosen = DEMO_SETTINGS | chosen
        reasons = dict.fromkeys(DEMO_SETTINGS, "the demonstration on Python's manual") | reasons
    return _with_passes(options.with_defaults(chosen, reasons))


def without_pairs(options: Flags, config: BertConfig) -> Flags:
    """The flags without next-sentence prediction, if the encoder is not pre-trained on pairs.

    Raises UserError if a flag requests it.
    """
    if config.encoder_traits.sentence_pairs:
        return options
    if options.next_sentence_weight and "next_sentence_weight" in options.given:
        raise leave_out(
            f"next_sentence_weight is {options.next_sentence_weight}, but the encoder {config.encoder} is pre-trained "
            "by masked LM only"
        )
    return _with_passes(
        options.decided({"next_sentence_weight": 0.0}, f"the encoder {config.encoder} is pre-trained without pairs")
    )


def without_dropping(options: Flags, config: BertConfig) -> Flags:
    """The flags without a recipe's token dropping, if there are no middle layers, or with a teacher, which sees all.

    Raises UserError if a flag requests it.
    """
    if not options.training.token_dropping or (config.middle_layers and not options.distillation.teacher):
        return options
    if "token_dropping" in options.given:
        reason = (
            "a teacher sees every token"
            if options.distillation.teacher
            else f"it needs three or more of BERT's layers, not encoder={config.encoder} with num_hidden_layers "
            f"{config.num_hidden_layers}"
        )
        raise leave_out(f"token_dropping is {options.training.token_dropping:g}, but {reason}")
    return options.decided({"token_dropping": 0.0}, "a teacher, or too few layers")


def _with_passes(options: Flags) -> Flags:
    """The flags with a single pass over the text if all passes would have the same texts."""
    has_pairs = options.next_sentence_weight or options.keep_pairs
    if has_pairs or options.masking.static_masking or "dupe_factor" in options.given:
        return options
    return options.decided({"dupe_factor": 1}, "without pairs the rows of every pass would be the same")
