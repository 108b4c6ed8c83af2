"""The scores of a pre-trained run on text, computed as in its training."""

import dataclasses
import math
import tempfile

from bert_tf.config.device_options import DeviceOptions
from bert_tf.recipes import pretrain, recorded_run
from bert_tf.recipes.finetuning.scored_export import Scored
from bert_tf.recipes.pretraining import facts, preparation
from bert_tf.recipes.pretraining.pretraining_flags import without_pairs
from bert_tf.text.tokenizer import tokenizer_of
from bert_tf.training import distribute
from bert_tf.training.evaluator import Evaluator
from bert_tf.training.run_directory import RunFolder

ALL = 10**9  # batches


def score(path: str, file: str, *, batch_size: int | None, jit_compile: str = "auto") -> Scored:
    """Masks the text as the run masked its held-out text, and predicts it; starts TensorFlow.

    file: like the flag eval_file; with the run's own file, the scores equal those in its eval_results.json, unless
    max_eval_steps cut them off. batch_size: None for eval_batch_size.

    Raises UserError for a file without text, and for a run without a checkpoint.
    """
    options, start = recorded_run.read_pretraining(path)
    options = without_pairs(options, start.config)
    options = options.replace(input_file=file, eval_file=file, records_dir="", prepare_only=True)
    found = facts.of_phase(options)
    facts.check_has_text("file", file, found.sources)
    start.check_vocabulary(path)
    tokenizer = tokenizer_of(start)
    strategy = distribute.strategy_of(DeviceOptions())
    with tempfile.TemporaryDirectory() as place:
        _, manifest = preparation.prepare(start, options, found, RunFolder(place))
        task = pretrain.create_task(options, start, manifest, tokenizer)
        training = dataclasses.replace(
            options.training,
            eval_batch_size=batch_size or options.training.eval_batch_size,
            max_eval_steps=ALL,
            jit_compile=jit_compile,
        )
        scores = Evaluator(task, recorded_run.create_model(task, start), training, strategy)()
    scores["masked_lm_perplexity"] = math.exp(min(scores["masked_lm_loss"], 700))
    count = manifest["statistics"]["eval"]["instances"]
    return Scored(task=task.name, kind="masked_lm", examples=count, scores=scores, details={})
