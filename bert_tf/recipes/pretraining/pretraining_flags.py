"""The flags of pre-training: a dataclass, and defaults that depend on other flags."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from bert_tf.config import flags
from bert_tf.config.bert_config import SIZES, BertConfig
from bert_tf.config.flag_groups import DEVICE_FLAGS, DeviceFlags, ModelFlags, OptimizationFlags, RunFlags
from bert_tf.config.flags import changed, flag
from bert_tf.data.pretraining import masked_records
from bert_tf.errors import UserError
from bert_tf.recipes.pretraining import named_recipes

# Defaults without --input_file: a small model, a few minutes on two cores.
DEMO_SETTINGS = {
    "model_size": "tiny",
    "dropout_prob": 0.0,  # in this few steps it only slows the training down
    "vocab_size": 4000,
    "max_seq_length": 32,
    "max_predictions_per_seq": 6,
    "train_batch_size": 64,
    "eval_batch_size": 32,
    "precision": "float32",  # on such a narrow model faster than bfloat16, on CPUs without AMX by 30%
    "optimizer": "muon",  # lamb needs more than twice the steps, adamw still more
    "learning_rate": 1.5e-2,
    "num_train_steps": 900,
    "warmup_proportion": 0.1,
    "save_checkpoints_steps": 150,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Flags(ModelFlags, RunFlags, OptimizationFlags, DeviceFlags):
    """Text, records and masks."""

    MOST_USED: ClassVar[tuple[str, ...]] = tuple(
        "input_file output_dir init_checkpoint model_size vocab_size max_seq_length train_batch_size num_train_steps "
        "learning_rate text_layout".split()
    )

    input_file: str = flag(
        "",
        "Training text: comma-separated files, folders or globs of .txt and .jsonl (also .gz, .bz2, .zst), .parquet, "
        "or wikiextractor's output. Default: Python's manual and library.",
    )
    output_dir: str = changed(RunFlags, "output_dir", "runs/pretraining")
    recipe: str = flag(
        "",
        "Defaults of several flags, which flags that are given override; lamb_large_batch: LAMB with batches of 64k "
        "and 32k rows in two phases; budget: for an hour on a few cores.",
        ("", *named_recipes.RECIPES),
    )
    recipe_scale: float = flag(
        1.0, "Factor of the batches of the recipe; its learning rates change with the square root."
    )
    eval_file: str = flag(
        "", "Held-out text for evaluation, given as input_file is. Default: 5% of the documents of input_file."
    )
    text_layout: str = flag(
        "auto",
        "Layout of .txt files: one sentence per line, one paragraph per line, hard-wrapped lines, one document per "
        "file, or wikiextractor's articles.",
        ("auto", "sentences", "paragraphs", "wrapped", "files", "wikipedia"),
    )
    text_field: str = flag("text", "Field of .jsonl files, or column of .parquet files, that holds the text.")
    language: str = flag("auto", "Language for sentence splitting, such as en, de, zh.")
    dropout_prob: float = changed(
        ModelFlags,
        "dropout_prob",
        help="Dropout of hidden states and attention weights; ignored if a configuration file is given.",
    )
    encoder: str = changed(
        ModelFlags,
        "encoder",
        help="bert or a relative of it, or lstm: two language models as in ELMo; default: as in init_checkpoint, else "
        "bert.",
    )
    vocab_file: str = changed(
        ModelFlags,
        "vocab_file",
        help="vocab.txt; if neither it nor init_checkpoint is given, a vocabulary is learned from the text.",
    )
    do_lower_case: bool = changed(ModelFlags, "do_lower_case", help="Lower-case and strip accents (uncased model).")
    max_predictions_per_seq: int = flag(20, "Maximum number of masked tokens per row.")
    masked_lm_prob: float = flag(0.15, "Fraction of tokens to mask.")
    do_whole_word_mask: bool = flag(False, "Mask all tokens of a word together.")
    chinese_word_segmentation: bool = flag(
        False, "With do_whole_word_mask: mask the characters of a Chinese word together, as jieba finds words."
    )
    max_span_words: int = flag(1, "Above 1: mask spans of whole words, up to this many (SpanBERT: 10).")
    masking_mix: str = flag(
        "80/10/10", "Percentages of masked tokens shown as [MASK], left unchanged, replaced by a random token."
    )
    left_to_right: bool = flag(
        False, "Predict each token from the preceding ones (causal LM, as in GPT) instead of masked tokens."
    )
    static_masking: bool = flag(False, "Use the same mask for a row in every epoch, as the original's files do.")
    short_seq_prob: float = flag(0.1, "Fraction of rows with a shorter target length.")
    short_seq_per_document: bool = flag(
        False, "Draw the shorter target length once per document, as the original, instead of for each row."
    )
    dupe_factor: int = flag(
        10, "Passes over the text, each with different sentence pairs; 1 by default for rows without pairs."
    )
    compress_records: bool = flag(False, "Write records as .tfrecord.gz: half the disk space, slower.")
    records_dir: str = flag(
        "",
        "Folder for the records, which several runs may share, or of records that google-research/bert or NVIDIA's "
        "scripts masked. Default: a folder in output_dir.",
    )
    masked_lm_epsilon: float = flag(
        1e-5, "Added to the number of predicted tokens that the masked-LM loss is divided by; the original's."
    )
    next_sentence_weight: float = flag(
        1.0, "Weight of the next-sentence loss; 0: masked LM only, on rows of one segment."
    )
    keep_pairs: bool = flag(False, "Keep rows of two segments when next_sentence_weight is 0.")
    input_lanes: int = flag(
        0,
        "Streams of which batches consist, each with shards of its own: as many hosts can read without reading all; "
        "auto: one for 16 shards, up to 64. Runs with other lanes have other batches.",
        words={"auto": 0},
    )
    num_workers: int = flag(
        0,
        "Number of processes that write records; the records do not depend on it. 0: one for each core, or none but "
        "this one if there is little text.",
    )
    prepare_only: bool = flag(False, "Write vocabulary and records, then stop.")
    do_export: bool = changed(RunFlags, "do_export", help="Export a SavedModel that fills masks in strings.")
    max_eval_steps: int = flag(100, "Maximum number of batches per evaluation.")
    num_train_steps: int = flag(100000, "Number of training steps.")
    budget_minutes: float = flag(
        0.0,
        "Minutes of training instead of num_train_steps: training ends by itself, and warm-up and decay are shares of "
        "the time; 0: num_train_steps.",
    )
    train_biases: bool = flag(
        True, "false: the encoder's dense layers have no biases (they stay 0, or as init_checkpoint has them)."
    )
    token_dropping: float = flag(
        0.0,
        "Share of the tokens of each row that the middle layers do not see in training, such as 0.5, for up to a "
        "quarter less work; masked tokens are kept. It needs three layers or more.",
    )
    num_warmup_steps: int = flag(
        -1, "Number of warm-up steps. Default: warmup_proportion of the steps.", earlier_default=10000
    )
    warmup_proportion: float = changed(OptimizationFlags, "warmup_proportion", 0.01)
    model_size: str = changed(
        ModelFlags,
        "model_size",
        "auto",
        choices=("auto", *SIZES),
        help="Model size when training from scratch; auto: tiny to base, by the amount of text.",
        earlier_default="base",
    )
    save_checkpoints_steps: int = changed(
        RunFlags, "save_checkpoints_steps", help="Steps between checkpoints; each is followed by an evaluation."
    )
    keep_checkpoint_max: int = flag(3, "Number of newest checkpoints to keep; 0: all.")


# Flags that may differ between two starts of one run, as they do not affect the trained weights.
FREE_FLAGS = (
    frozenset(
        "output_dir parity records_dir num_workers prepare_only do_train do_eval do_export export_attention "
        "eval_batch_size max_eval_steps num_train_steps save_checkpoints_steps keep_checkpoint_max trust_code".split()
    )
    | DEVICE_FLAGS
)
# Of the others, those that determine the vocabulary and the records: all that matters before the first checkpoint.
TEXT_FLAGS = frozenset(
    "input_file eval_file text_layout text_field language vocab_file vocab_size do_lower_case init_checkpoint "
    "special_tokens_in_strings max_seq_length short_seq_prob short_seq_per_document dupe_factor compress_records "
    "chinese_word_segmentation random_seed".split()
)


def read_flags(settings: Mapping[str, Any] | None = None) -> Flags:
    """The flags, with defaults for a demonstration if there is no input_file, nor records of another program.

    settings: defaults of a recipe.
    """
    options = flags.read(Flags, instead=settings)
    folder = options.records_dir.partition(",")[0]
    if not (flags.is_given("input_file") or masked_records.find(folder)):
        options = flags.read(Flags, instead={**DEMO_SETTINGS, **(settings or {})})
    return _with_passes(options)


def without_pairs(options: Flags, config: BertConfig) -> Flags:
    """The flags without next sentence prediction, if the encoder is not pre-trained on pairs.

    Raises UserError if a flag asks for it.
    """
    if config.encoder_traits.sentence_pairs:
        return options
    if options.next_sentence_weight and flags.is_given("next_sentence_weight"):
        raise UserError(
            f"next_sentence_weight is {options.next_sentence_weight}, but the encoder {config.encoder} is pre-trained "
            "by masked LM alone: leave it out."
        )
    return _with_passes(dataclasses.replace(options, next_sentence_weight=0.0))


def without_dropping(options: Flags, config: BertConfig) -> Flags:
    """The flags without the token dropping of a recipe, if there are no layers in the middle, or a teacher sees all.

    Raises UserError if a flag asks for it.
    """
    if not options.token_dropping or (config.middle_layers and not options.teacher):
        return options
    if flags.is_given("token_dropping"):
        reason = (
            "a teacher sees every token"
            if options.teacher
            else f"it needs three of BERT's layers or more, and encoder={config.encoder} with num_hidden_layers "
            f"{config.num_hidden_layers} was given"
        )
        raise UserError(f"token_dropping is {options.token_dropping:g}, but {reason}: leave it out.")
    return dataclasses.replace(options, token_dropping=0.0)


def _with_passes(options: Flags) -> Flags:
    """The flags with one pass over the text where all passes would have the same texts."""
    has_pairs = options.next_sentence_weight or options.keep_pairs
    if has_pairs or options.static_masking or flags.is_given("dupe_factor"):
        return options
    return dataclasses.replace(options, dupe_factor=1)
