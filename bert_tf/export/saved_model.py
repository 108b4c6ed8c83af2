"""Task + model + tokenizer -> a SavedModel on raw strings, checked against the live model.

It loads without this package: with `tf.saved_model.load` after `import tensorflow_text`, in TensorFlow Serving, in C.
With it, it is a checkpoint too: `checkpoints.formats.saved_model` reads its weights and what `assets.extra` tells.
"""

import os
import shutil

import numpy as np
import tensorflow as tf

from bert_tf.errors import TrainingError, UserError, reason_of
from bert_tf.export import attention_signature
from bert_tf.model import weights
from bert_tf.runtime import atomic_files

EXTRA = "assets.extra"  # TensorFlow's own place in a SavedModel for what its loaders pass over
# Of what is compared with an export, as a share of the largest number of an output.
TOLERANCES = {"float32": 1e-4, "bfloat16": 0.1, "float16": 2e-2}


def export(task, model, tokenizer, folder, *, examples, about=None, precision="float32", with_attention=False):
    """Writes the SavedModel of a trained model whole or not at all.

    examples: {signature: {input: list of strings}} to compare the export with the live model on; UserError if they
        differ, and nothing is written.
    about: plain data for `about.json` beside the graph: "labels" and "kind" of its head, how files of it are read.
    with_attention: add the signature of `attention_signature`.
    precision: of its weights and of what it computes; bfloat16 wants a CPU that multiplies it.
    """
    twin = task.create_model(model.config, dtype=precision)  # on one device, whatever the training was
    live = {model.dtype_policy.compute_dtype: signatures_of(task, model, tokenizer, with_attention=with_attention)}
    examples = {**examples, attention_signature.SIGNATURE: attention_signature.EXAMPLES} if with_attention else examples
    weights.assign(twin, {name: v.value.numpy() for name, v in weights.named(model).items()})
    beside = f"{folder}.partial"
    shutil.rmtree(beside, ignore_errors=True)
    try:
        functions = signatures_of(task, twin, tokenizer, with_attention=with_attention)
        _save(_Serving(twin, functions), beside, {"task": task.name, **(about or {})})
        _write_checkpoint_side(os.path.join(beside, EXTRA), model.config, tokenizer, about or {})
        for kind, signatures in {precision: functions, **live}.items():
            _compare(beside, signatures, examples, max(TOLERANCES[kind], TOLERANCES[precision]))
        _replace(beside, folder)
    except (tf.errors.OpError, OSError) as error:
        raise TrainingError(
            f"The export could not be written to {folder} ({reason_of(error)}): make room, or see that it can be "
            "written to, and start the same command again."
        ) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def signatures_of(task, model, tokenizer, *, with_attention=False):
    """{name: tf.function on strings}: the task's signatures, and that of `attention_signature` if it is wanted."""
    signatures = task.signatures(model, tokenizer)
    if with_attention:
        signatures = {**signatures, attention_signature.SIGNATURE: attention_signature.signature(model, tokenizer)}
    return signatures


class _Serving(tf.Module):
    """Raw variables and functions; the Keras model is in the closures only: an attribute breaks the C++ loader.

    The variables are saved under their canonical names, as in the checkpoints of a run.
    """

    def __init__(self, model, signatures):
        super().__init__()
        self.weights = {name: variable.value for name, variable in weights.named(model).items()}
        self.functions = dict(signatures)


def _save(serving, folder, about):
    tf.saved_model.save(serving, folder, signatures=serving.functions)
    atomic_files.write_json(os.path.join(folder, "about.json"), about)


def _write_checkpoint_side(folder, config, tokenizer, about):
    """What makes the variables a checkpoint: configuration, vocabulary, casing, labels."""
    os.makedirs(folder)
    config.write(os.path.join(folder, "bert_config.json"))
    with open(os.path.join(folder, "vocab.txt"), "wb") as file:
        file.write("".join(f"{piece}\n" for piece in tokenizer.vocabulary).encode())
    told = {"tokenizer_config.json": {"do_lower_case": getattr(tokenizer, "lower_case", True)}}
    told["labels.json"] = {"labels": list(about.get("labels") or ()), "kind": about.get("kind")}
    for name, values in told.items():
        atomic_files.write_json(os.path.join(folder, name), values)


def _compare(folder, signatures, examples, tolerance):
    reloaded = tf.saved_model.load(folder)
    for name, inputs in examples.items():
        inputs = {key: tf.constant(value) for key, value in inputs.items()}
        expected, given = signatures[name](**inputs), reloaded.signatures[name](**inputs)
        for key in expected:
            difference = _difference(expected[key].numpy(), given[key].numpy(), tolerance)
            if not difference <= tolerance:
                raise UserError(
                    f"The export answers otherwise than the model: output {key!r} of {name!r} differs by "
                    f"{difference:.2g} of its size, expected at most {tolerance:.2g}. "
                    f"Nothing was written to {folder.removesuffix('.partial')}."
                )


def _difference(expected, given, tolerance):
    """Largest difference of numbers, as a share of the largest one that was expected, or of 1 where all are smaller.

    What goes into the last layer is of size 1, so that its errors are too. Strings are the order of numbers, which a
    small difference may turn round; with a tolerance above that of float32 so are places, and how many there are.
    """
    is_rough = tolerance > TOLERANCES["float32"]
    if expected.dtype.kind not in ("f" if is_rough else "fiu"):
        return 0.0
    if expected.shape != given.shape:
        return 0.0 if is_rough else np.inf
    expected = expected.astype(np.float64)
    return float(np.max(np.abs(expected - given), initial=0.0) / np.max(np.abs(expected), initial=1.0))


def _replace(beside, folder):
    old = f"{folder}.old"
    shutil.rmtree(old, ignore_errors=True)
    if os.path.exists(folder):
        os.rename(folder, old)
    os.rename(beside, folder)
    shutil.rmtree(old, ignore_errors=True)
