"""What a run begins with: a configuration, a vocabulary, casing and weights, from flags and from beside a checkpoint.

`options` are the flags of any of the scripts.
"""

import dataclasses
import glob
import os

from bert_tf.config import flags
from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.runtime.tensorflow_startup import start_tensorflow
from bert_tf.text import vocabulary
from bert_tf.training.run_directory import RunFolder

OF_BERT = ("bert", "bilstm_on_top")  # encoders with the same layers
PRETRAINING = "runs/pretraining"  # where run_pretraining.py leaves its run if no flag says otherwise


@dataclasses.dataclass(frozen=True, kw_only=True)
class StartingPoint:
    """What the flags come to, found without writing anything.

    vocabulary: the pieces; None: to be learned. weights: {canonical name: array}; None: to be drawn. labels: what the
    head of a fine-tuned checkpoint sorts into; None: it does not say.
    """

    config: BertConfig
    vocabulary: list | None
    lower_case: bool
    weights: dict | None = None
    labels: list | None = None


def demonstration(settings, question, folder):
    """The settings of a demonstration of fine-tuning in a folder, and what it starts from; says so, and what is asked.

    That is what the flag init_checkpoint says; without it the encoder which run_pretraining.py left in its folder;
    without one it is from scratch, in another folder, so that both can be compared.
    """
    print(f"No flag says what to learn: a demonstration on Python's manual. {question}", flush=True)
    if flags.is_given("init_checkpoint"):
        return settings
    if RunFolder(PRETRAINING).last_step() and os.path.exists(os.path.join(PRETRAINING, "vocab.txt")):
        print(f"It starts from the encoder in {PRETRAINING}.", flush=True)
        return {**settings, "init_checkpoint": PRETRAINING}
    print(f"It starts from scratch, as {PRETRAINING} holds no encoder: run_pretraining.py makes one.", flush=True)
    return {**settings, "output_dir": f"{folder}_from_scratch"}


def find(options, *, lower_case_given):
    """Reads `init_checkpoint`, `bert_config_file` and `vocab_file`; what no flag says is taken from the checkpoint.

    Raises UserError where there is no such file, or where they do not go together: another casing than the
    checkpoint's, a vocabulary of another size than the model's, a max_seq_length beyond its positions.
    """
    checkpoint = _checkpoint(options.init_checkpoint)
    config = _config(options, checkpoint)
    if checkpoint:
        _expect_encoder(options.init_checkpoint, checkpoint.config.encoder, config.encoder)
    known = checkpoint.vocabulary if checkpoint else None
    if options.vocab_file:
        known = vocabulary.read(
            options.vocab_file, config.vocab_size if options.bert_config_file or checkpoint else None
        )
    if checkpoint and known is None:
        raise UserError(f"{options.init_checkpoint} has no vocab.txt beside it: give its vocabulary as vocab_file.")
    if known:
        config = dataclasses.replace(config, vocab_size=len(known))
    if options.max_seq_length > config.max_position_embeddings:
        longer = "`bert-tf convert` it with more" if checkpoint else "give a bert_config_file with more"
        raise UserError(
            f"max_seq_length is {options.max_seq_length}, but the model has {config.max_position_embeddings} "
            f"positions: choose a shorter length, or {longer}."
        )
    return StartingPoint(
        config=config,
        vocabulary=known,
        lower_case=_lower_case(options, checkpoint, lower_case_given),
        weights=checkpoint.weights if checkpoint else None,
        labels=checkpoint.labels if checkpoint else None,
    )


def _checkpoint(path):
    if not path:
        return None
    if os.path.isabs(path) and not glob.glob(f"{glob.escape(path)}*"):
        raise UserError(f"There is no checkpoint {path}: give the folder, or the path up to .index or .ckpt, of one.")
    start_tensorflow()
    from bert_tf.checkpoints import formats

    return formats.read(path)


def _expect_encoder(path, there, wanted):
    """Raises UserError where the weights of one encoder are of no use to another, which would begin from nothing."""
    if wanted != there and not (there in OF_BERT and wanted in (*OF_BERT, "static")):
        raise UserError(f"{path} has the encoder {there}, of which {wanted} can take nothing: choose encoder={there}.")


def _config(options, checkpoint):
    config = _config_of_files(options, checkpoint)
    encoder = getattr(options, "encoder", "") or config.encoder
    is_causal = getattr(options, "left_to_right", False) or config.is_causal
    return dataclasses.replace(config, encoder=encoder, is_causal=is_causal)


def _config_of_files(options, checkpoint):
    if options.bert_config_file:
        return BertConfig.from_json_file(options.bert_config_file)
    if checkpoint:
        return checkpoint.config
    dropout = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), options.dropout_prob)
    return BertConfig.of_size(options.model_size, vocab_size=options.vocab_size, **dropout)


def _lower_case(options, checkpoint, given):
    if checkpoint is None or checkpoint.lower_case is None:
        return options.do_lower_case
    if given and checkpoint.lower_case != options.do_lower_case:
        raise UserError(
            f"do_lower_case is {options.do_lower_case}, but {options.init_checkpoint} was trained with "
            f"{checkpoint.lower_case}: leave the flag out."
        )
    return checkpoint.lower_case
