"""Starting point of a model: configuration, vocabulary, casing and weights, from flags and a checkpoint."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint, check_rows_for_tokens
from bert_tf.config import segments
from bert_tf.config.bert_config import BertConfig
from bert_tf.config.encoder_traits import traits
from bert_tf.config.flag_groups import ModelOptions, RunOptions
from bert_tf.config.options import Options
from bert_tf.errors import UserError, leave_out
from bert_tf.model.weights import layer_map, select_layers
from bert_tf.runtime import files, terminal
from bert_tf.text import special_tokens, tokenizer_kinds, vocabulary
from bert_tf.training import distribute
from bert_tf.training.run_directory import RunFolder

DEMONSTRATION = "the demonstration on Python's manual"
PRETRAINING_RUN = "runs/pretraining"  # the default output_dir of `bert-tf pretrain`


def start_for_files(options: RunOptions) -> None:
    """Starts TensorFlow on the devices named by the flags, if this process uses them; call it before reading files.

    Files may need TensorFlow, and devices and the connections between workers cannot be configured later.
    """
    if options.needs_devices:
        distribute.strategy_of(options.devices)


def demo_settings(
    options: Options, settings: Mapping[str, Any], question: str, folder: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """({flag: value} of a fine-tuning demonstration, {flag: reason}); prints the question and the starting point.

    It starts from init_checkpoint if specified, else from the encoder that run_pretraining.py has saved in its default
    folder, else from scratch, then in a different folder, so that both can be compared.
    """
    print(f"No training data given: a demonstration on Python's manual. {question}", flush=True)
    reasons = dict.fromkeys([*settings, "output_dir"], DEMONSTRATION)
    if "init_checkpoint" in options.given:
        return dict(settings), reasons
    if RunFolder(PRETRAINING_RUN).last_step() and files.exists(os.path.join(PRETRAINING_RUN, "vocab.txt")):
        print(f"It starts from the encoder in {PRETRAINING_RUN}.", flush=True)
        reasons["init_checkpoint"] = "the encoder saved by run_pretraining.py"
        return {**settings, "init_checkpoint": PRETRAINING_RUN}, reasons
    print(
        f"It starts from scratch because {PRETRAINING_RUN} has no encoder: run_pretraining.py or bert-tf pretrain "
        "trains one.",
        flush=True,
    )
    return {**settings, "output_dir": f"{folder}_from_scratch"}, reasons


def resolve(run: RunOptions, *, left_to_right: bool = False) -> Checkpoint:
    """The starting point specified by `init_checkpoint`, `bert_config_file` and `vocab_file`; nothing is written.

    Anything without a flag comes from the checkpoint; a vocabulary of None is to be learned.
    left_to_right: the model is causal.

    Raises UserError if a file is missing or they do not match: casing different from the checkpoint's, or vocabulary
    size different from the model's.
    """
    options = run.model
    if options.segments and not options.init_checkpoint:
        raise leave_out("segments requires init_checkpoint")
    with segments.choosing(options.segments or None):
        checkpoint = read_checkpoint(options.init_checkpoint, run)
    checkpoint = _with_fewer_layers(checkpoint, options, run.distillation.layer_map)
    config = _resolve_config(options, checkpoint, left_to_right)
    if checkpoint:
        _check_encoder(options.init_checkpoint, checkpoint.config.encoder, config.encoder)
    tokens = checkpoint.vocabulary if checkpoint else None
    if checkpoint and not options.vocab_file:
        check_rows_for_tokens(checkpoint, options.init_checkpoint)
    if options.vocab_file:
        is_size_known = options.bert_config_file or checkpoint
        given = vocabulary.read(options.vocab_file, config.vocab_size if is_size_known else None)
        tokens = vocabulary.with_settings(given, vocabulary.settings_of(tokens)) if tokens else given
    if checkpoint and tokens is None:
        raise UserError(f"{options.init_checkpoint} has no vocab.txt next to it: pass its vocabulary as vocab_file.")
    if tokens:
        _check_padding(config, tokens)
        config = dataclasses.replace(config, vocab_size=len(tokens))
    start = checkpoint or Checkpoint(config=config)
    recognized = special_tokens.parse(options.special_tokens_in_strings, start.special_tokens, start.added_tokens)
    return dataclasses.replace(
        start,
        config=config,
        vocabulary=tokens,
        special_tokens=special_tokens.choose(recognized, tokens) if tokens else recognized,
        lower_case=_resolve_casing(
            options,
            checkpoint,
            vocabulary.kind_of(tokens) if tokens else config.encoder_traits.tokenizer,
            is_given="do_lower_case" in run.given,
        ),
    )


def fitting_rows(run: RunOptions, config: BertConfig, *, may_be_shorter: bool) -> dict[str, Any]:
    """{"max_seq_length": the model's positions} if they are fewer than the default, which is printed; else {}.

    Raises UserError if the user requested longer rows, or if they may not be shorter.
    """
    positions = config.max_position_embeddings
    if run.max_seq_length <= positions:
        return {}
    if may_be_shorter and "max_seq_length" not in run.given:
        terminal.say(f"--max_seq_length={positions}: the model has {positions} positions.")
        return {"max_seq_length": positions}
    solution = "`bert-tf convert` it with more" if run.model.init_checkpoint else "pass a bert_config_file with more"
    raise UserError(
        f"max_seq_length is {run.max_seq_length}, but the model has {positions} positions: choose a shorter length, "
        f"or {solution}."
    )


def _with_fewer_layers(checkpoint: Checkpoint | None, options: ModelOptions, chosen: str) -> Checkpoint | None:
    """The checkpoint with the layers chosen by num_hidden_layers and layer_map."""
    count = options.num_hidden_layers
    if checkpoint is None or not count:
        return checkpoint
    config = checkpoint.config
    if options.bert_config_file:
        raise UserError("Got both num_hidden_layers and bert_config_file: remove one.")
    if not 0 < count <= config.num_hidden_layers:
        raise UserError(
            f"num_hidden_layers is {count}, and {options.init_checkpoint} has {config.num_hidden_layers} layers: "
            "pass a number from 1 to that."
        )
    layers = layer_map(chosen, count, config.num_hidden_layers)
    is_shared = config.layers_with_weights < config.num_hidden_layers  # in ALBERT: there is only one to choose
    kept = checkpoint.weights if is_shared else select_layers(checkpoint.weights, layers)
    return dataclasses.replace(checkpoint, config=dataclasses.replace(config, num_hidden_layers=count), weights=kept)


def _check_padding(config: BertConfig, tokens: list[str]) -> None:
    """Raises UserError if the vocabulary's padding token does not have the id expected by the encoder."""
    if vocabulary.kind_of(tokens) == tokenizer_kinds.XLM_ROBERTA and not config.encoder_traits.position_offset:
        return  # BERT with that tokenizer: its positions do not depend on the padding token
    name, expected = vocabulary.special_tokens(tokens)[0], config.padding_id
    if name in tokens and tokens.index(name) != expected:
        raise UserError(
            f"The encoder {config.encoder} needs a vocabulary with the padding token as number {expected}, but {name} "
            f"is number {tokens.index(name)}: pass the vocabulary that belongs to it."
        )


def read_checkpoint(path: str, run: RunOptions) -> Checkpoint | None:
    """The checkpoint at a path, None for ""; starts TensorFlow if this process needs devices."""
    if not path:
        return None
    path = formats.locate(path)  # a wrong path is an error before TensorFlow is loaded
    start_for_files(run)
    return formats.read(path)


def _check_encoder(path: str, checkpoint_encoder: str, encoder: str) -> None:
    """Raises UserError if the weights of the checkpoint's encoder do not fit the requested one."""
    if checkpoint_encoder not in (encoder, *traits(encoder).initialized_from):
        raise UserError(
            f"{path} has the encoder {checkpoint_encoder}, whose weights do not fit {encoder}: choose "
            f"encoder={checkpoint_encoder}."
        )


def _resolve_config(options: ModelOptions, checkpoint: Checkpoint | None, left_to_right: bool) -> BertConfig:
    config = _base_config(options, checkpoint)
    encoder = options.encoder or config.encoder
    is_causal = left_to_right or config.is_causal
    return dataclasses.replace(config, encoder=encoder, is_causal=is_causal)


def _base_config(options: ModelOptions, checkpoint: Checkpoint | None) -> BertConfig:
    if options.bert_config_file:
        return BertConfig.from_json_file(options.bert_config_file)
    if checkpoint:
        return checkpoint.config
    dropout = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), options.dropout_prob)
    config = BertConfig.of_size(options.model_size, vocab_size=options.vocab_size, **dropout)
    return dataclasses.replace(config, num_hidden_layers=options.num_hidden_layers or config.num_hidden_layers)


def _resolve_casing(options: ModelOptions, checkpoint: Checkpoint | None, kind: str, *, is_given: bool) -> bool:
    """Returns whether texts are lower-cased. kind: the kind of the vocabulary."""
    if tokenizer_kinds.KINDS[kind].is_cased:
        return False
    if checkpoint is None or checkpoint.lower_case is None:
        return options.do_lower_case if is_given or checkpoint is None else checkpoint.lowers_case
    if is_given and checkpoint.lower_case != options.do_lower_case:
        raise UserError(
            f"do_lower_case is {options.do_lower_case}, but {options.init_checkpoint} was trained with "
            f"{checkpoint.lower_case}: remove the flag."
        )
    return checkpoint.lower_case
