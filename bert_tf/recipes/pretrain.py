"""Pre-trains BERT on raw text: vocabulary, records, training, evaluation, SavedModel.

With no flag it does all of it on what the installed Python says of itself, in a few minutes; with --input_file on your
own text.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from bert_tf.config import flags
from bert_tf.config.bert_config import SIZES, BertConfig
from bert_tf.config.flag_groups import DEVICE_FLAGS, DeviceFlags, ModelFlags, OptimizationFlags, RunFlags
from bert_tf.config.flags import changed, flag
from bert_tf.config.train_config import MaskingConfig, TrainConfig
from bert_tf.data.pretraining import masked_records, records
from bert_tf.errors import UserError
from bert_tf.export import loaded_model
from bert_tf.recipes import advice, ending, initialization, pretraining_preparation, pretraining_recipes, teaching
from bert_tf.recipes.initialization import Initialization
from bert_tf.runtime import accelerators, files
from bert_tf.runtime.tensorflow_startup import start_if_silenced
from bert_tf.runtime.tf_config import worker_number
from bert_tf.training.run_directory import RunFolder, recorded_flags

if TYPE_CHECKING:
    import tensorflow as tf

    from bert_tf.model.heads import BertModel
    from bert_tf.tasks.task import Task
    from bert_tf.text.tokenizer import Tokenizer
    from bert_tf.training.loop import Evaluator

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
    "optimizer": "lamb",  # with adamw at its best rate, 1e-3, the loss is 0.6 higher after as many steps
    "learning_rate": 1.5e-2,
    "num_train_steps": 2400,
    "warmup_proportion": 0.1,
    "save_checkpoints_steps": 600,
}
DEMO_SENTENCES = (
    "Return True [MASK] the file exists.",
    "Raises an [MASK] if the value is not valid.",
    "If the expression is not given, the [MASK] is None.",
)


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
        ("", *pretraining_recipes.RECIPES),
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
        "eval_batch_size max_eval_steps num_train_steps save_checkpoints_steps keep_checkpoint_max".split()
    )
    | DEVICE_FLAGS
)
# Of the others, those that determine the vocabulary and the records: all that matters before the first checkpoint.
TEXT_FLAGS = frozenset(
    "input_file eval_file text_layout text_field language vocab_file vocab_size do_lower_case init_checkpoint "
    "special_tokens_in_strings max_seq_length short_seq_prob short_seq_per_document dupe_factor compress_records "
    "chinese_word_segmentation random_seed".split()
)


def main() -> None:
    """Runs all phases of the recipe in turn; each resumes, and does nothing once it is finished."""
    phases = read_phases()
    for options in phases[1:]:  # what is wrong in a later phase is an error before the first begins
        lengths_only = dataclasses.replace(options, init_checkpoint=phases[0].init_checkpoint)
        pretraining_preparation.resolve(
            pretraining_preparation.with_computed_defaults(lengths_only),
            lower_case_given=flags.is_given("do_lower_case"),
        )
    for options in phases:
        run_phase(options)


def read_phases() -> list[Flags]:
    """The flags of each phase: one, but for recipes that have several."""
    given = read_flags()
    settings = pretraining_recipes.settings(given.recipe, given.recipe_scale)
    return pretraining_recipes.in_turn([read_flags(phase) for phase in settings])


def run_phase(options: Flags) -> None:
    """Runs all stages: vocabulary and records, then task, training, evaluation and export, then the report."""
    options = flags.with_earlier_defaults(options, recorded_flags(options.output_dir))
    options = pretraining_preparation.with_computed_defaults(options)
    accelerators.cache_compiled_programs(options.xla_cache)
    train_config, masking = flags.part(TrainConfig, options), flags.part(MaskingConfig, options)
    start = pretraining_preparation.resolve(options, lower_case_given=flags.is_given("do_lower_case"))
    teacher = initialization.read_teacher(options, start)
    options = without_pairs(options, start.config)
    with contextlib.closing(RunFolder(options.output_dir, writes=worker_number() == 0)) as folder:
        run(options, start, teacher, train_config, masking, folder)


def run(
    options: Flags,
    start: Initialization,
    teacher: Initialization | None,
    train_config: TrainConfig,
    masking: MaskingConfig,
    folder: RunFolder,
) -> None:
    """Everything that is written into the folder of the run."""
    open_run(folder, options)
    with folder.phase("prepare"):
        if folder.writes:
            config, manifest = pretraining_preparation.prepare(start, options, folder)
        else:
            config, manifest = pretraining_preparation.wait_for_chief(options, folder)
    start = dataclasses.replace(start, config=config)
    print(describe(manifest), flush=True)
    for warning in manifest["warnings"]:
        print(f"Warning: {warning}", flush=True)
    if options.prepare_only:
        print(f"The records are in {pretraining_preparation.records_folder(options, folder)}.")
        return
    if is_finished(folder, options):
        print(f"This run is finished; its results are in {folder.path}.")
        return
    if options.do_train and not options.budget_minutes and "statistics" in manifest:
        for line in advice.before_pretraining(config, options, manifest["statistics"]["train"]["tokens"]):
            print(line, flush=True)
    run_model(options, start, teacher, train_config, masking, manifest, folder)
    if folder.writes:
        ending.finish(folder)


def describe(manifest: Mapping[str, Any]) -> str:
    """What the records hold, for the terminal."""
    if "statistics" in manifest:
        return records.describe(manifest["statistics"])
    train, held_out = (len(manifest[f"{split}_files"]) for split in ("train", "eval"))
    return f"{train} files of records that another program masked, {held_out} held out"


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


def _with_passes(options: Flags) -> Flags:
    """The flags with one pass over the text where all passes would have the same texts."""
    has_pairs = options.next_sentence_weight or options.keep_pairs
    if has_pairs or options.static_masking or flags.is_given("dupe_factor"):
        return options
    return dataclasses.replace(options, dupe_factor=1)


def open_run(folder: RunFolder, options: Flags) -> None:
    """Starts or resumes the run; raises UserError for flags that do not match the existing run."""
    if not (options.do_train or options.prepare_only or options.init_checkpoint or folder.last_step()):
        raise UserError(f"There is no checkpoint in {folder.path}: train first, or give init_checkpoint.")
    values = dataclasses.asdict(options)
    decisive = {name: value for name, value in values.items() if name not in FREE_FLAGS}
    if folder.last_step():
        compared = decisive
    else:
        has_vocabulary = files.exists(folder.file("vocab.txt"))
        compared = {name: value for name, value in decisive.items() if has_vocabulary and name in TEXT_FLAGS}
    upgrade = functools.partial(flags.upgrade, Flags)
    folder.open(
        name="pretraining",
        command=flags.command(),
        flags=values,
        decisive=decisive,
        compared=compared,
        upgrade=upgrade,
    )


def is_finished(folder: RunFolder, options: Flags) -> bool:
    """Whether the same command finished before and all its outputs exist."""
    outputs = [
        ("report.html",),
        ("eval_results.json",) * options.do_eval,
        ("export", "saved_model.pb") * options.do_export,
    ]
    exist = all(files.exists(folder.file(*names)) for names in outputs)
    exist &= not options.export_attention or bool(loaded_model.about(folder.file("export")).get("attention"))
    is_trained = not options.do_train or folder.last_step() >= options.num_train_steps
    if options.do_train and options.budget_minutes:
        is_trained = folder.last_step() > 0 and folder.run.get("budget_seconds", 0) >= 60 * options.budget_minutes
    finished = folder.run["finished"] if exist and is_trained else None
    folder.update(finished=finished)
    return bool(finished)


def run_model(
    options: Flags,
    start: Initialization,
    teacher: Initialization | None,
    train_config: TrainConfig,
    masking: MaskingConfig,
    manifest: Mapping[str, Any],
    folder: RunFolder,
) -> None:
    """Creates task and model, trains, evaluates and exports."""
    start_if_silenced()
    from bert_tf.model import weights
    from bert_tf.text import tokenizer_kinds
    from bert_tf.training import checkpointing
    from bert_tf.training.loop import Evaluator, explain_damaged_records, train

    strategy = create_strategy(options, start.config)
    tokenizer = tokenizer_kinds.from_file(
        folder.file("vocab.txt"), start.lower_case, special_tokens_in_strings=start.special_tokens
    )
    task = create_task(options, start.config, masking, manifest, tokenizer)
    model = create_model(task, options, start, strategy)
    taught = teaching.with_teacher(task, model, teacher, options, strategy)
    evaluator = Evaluator(task, model, train_config, strategy)
    with explain_damaged_records(task):
        record_model(model, evaluator, options, folder)
    if options.do_train:
        with folder.phase("train"):
            train(taught, model, train_config, strategy, folder, evaluator)
    elif folder.last_step():
        checkpointing.load_weights(weights.variables(model), folder.checkpoints)
    if options.do_eval:
        with folder.phase("evaluate"):
            results = evaluator()
            report_results(results, evaluator, train_config, manifest, folder)
    if options.do_export and folder.writes:
        with folder.phase("export"):
            export_and_demo(task, model, tokenizer, evaluator, options, folder)


def create_strategy(options: Flags, config: BertConfig) -> "tf.distribute.Strategy":
    """The distribution strategy; UserError if the encoder has no attention to export."""
    from bert_tf.export import attention_signature
    from bert_tf.training import distribute

    if options.export_attention:
        attention_signature.check(config)
    return distribute.strategy_of(options)


def create_task(
    options: Flags, config: BertConfig, masking: MaskingConfig, manifest: Mapping[str, Any], tokenizer: "Tokenizer"
) -> "Task":
    """Masked LM, and next-sentence prediction if it has weight, on the records."""
    from bert_tf.tasks import catalog
    from bert_tf.tasks.pretraining.mask_filling import lm_kind, task_name

    return catalog.get(task_name(config))(
        manifest,
        tokenizer,
        masking,
        next_sentence_weight=options.next_sentence_weight,
        lm_kind=lm_kind(config),
        masked_lm_epsilon=options.masked_lm_epsilon,
    )


def create_model(
    task: "Task", options: Flags, start: Initialization, strategy: "tf.distribute.Strategy"
) -> "BertModel":
    """The model on the devices of the strategy, with the weights of the checkpoint if there is one."""
    import keras

    from bert_tf.model import weights
    from bert_tf.training import precision

    keras.utils.set_random_seed(options.random_seed)
    with strategy.scope():
        model = task.create_model(start.config, dtype=precision.configure(options.precision))
        if start.weights:
            print(weights.assign(model, start.weights))
    return model


def record_model(model: "BertModel", evaluator: "Evaluator", options: Flags, folder: RunFolder) -> None:
    """Adds the configuration, the number of parameters and the lengths of the rows to run.json."""
    from bert_tf.tasks import text_lengths

    splits = {split: evaluator.batches(split) for split in ("train", "eval")}
    rows = {split: text_lengths.of_rows(batches, options.max_seq_length) for split, batches in splits.items()}
    folder.update(config=model.config.to_dict(), parameters=model.count_params(), text_statistics=rows)
    print(f"Training {model.count_params():,} parameters", flush=True)


def report_results(
    results: dict[str, float],
    evaluator: "Evaluator",
    train_config: TrainConfig,
    manifest: Mapping[str, Any],
    folder: RunFolder,
) -> None:
    """Prints and writes the results on held-out text, with the loss of a unigram model for comparison."""
    from bert_tf.tasks.pretraining.held_out import unigram_loss

    held_out = evaluator.batches("eval").take(train_config.max_eval_steps)
    results["unigram_masked_lm_loss"] = unigram_loss(records.token_counts(manifest), held_out)
    folder.write_json("eval_results.json", results)
    step = folder.last_step() if train_config.budget_minutes else train_config.num_train_steps
    folder.log(step, {f"eval_{name}": value for name, value in results.items()})
    print("On held-out text:")
    for name, value in results.items():
        print(f"  {name:26} {value:.4f}")
    for line in advice.after_pretraining(results):
        print(line, flush=True)


def export_and_demo(
    task: "Task",
    model: "BertModel",
    tokenizer: "Tokenizer",
    evaluator: "Evaluator",
    options: Flags,
    folder: RunFolder,
) -> None:
    """Exports the model, fills masks with the export, and writes examples for the report."""
    import tensorflow as tf

    from bert_tf.export.saved_model import export
    from bert_tf.tasks.pretraining.held_out import held_out_examples, masked_sentences

    held_out = held_out_examples(evaluator.batches("eval"), model, tokenizer)
    sentences = masked_sentences(held_out) if options.input_file else list(DEMO_SENTENCES)
    examples = {"serving_default": {"text": sentences}}
    if options.next_sentence_weight:
        examples["next_sentence"] = {"text_a": sentences, "text_b": [*sentences[1:], sentences[0]]}
    with_attention = options.export_attention
    about = {"attention": with_attention}
    exported = export(
        task, model, tokenizer, folder.file("export"), examples=examples, about=about, with_attention=with_attention
    )
    outputs = exported.signatures["serving_default"](text=tf.constant(sentences))
    filled = []
    print("The export fills masks:")
    for sentence, tokens, scores in zip(sentences, outputs["pieces"].numpy(), outputs["scores"].numpy(), strict=True):
        best = [{"piece": t.decode(), "score": float(s)} for t, s in zip(tokens[0][:5], scores[0][:5], strict=True)]
        filled.append({"text": sentence, "answers": best})
        print(f"  {sentence}  ->  " + "; ".join(f"{answer['piece']} {answer['score']:.0%}" for answer in best[:3]))
    folder.write_json("examples.json", {"fill_mask": filled, "held_out": held_out})
