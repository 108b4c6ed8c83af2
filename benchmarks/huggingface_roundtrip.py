"""Checks that `transformers` loads what we write, and vice versa: compares weights and outputs both ways.

    python benchmarks/huggingface_roundtrip.py [--checkpoint=FOLDER] [--torch_python=PYTHON]

Writes the checkpoint (by default small random BERTs with a random vocabulary: with the pre-training heads, with
each kind of head for whole texts, and with the question answering head) as a Hugging Face folder. PYTHON, which has
torch and transformers and need not have TensorFlow, loads it, computes outputs, and saves it again; we read that.
Prints a table; exit code 1 if something is missing or a difference exceeds its tolerance.

B texts, T positions per text, D hidden size, V vocabulary, C classes or choices.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

TOLERANCE = 1e-4  # float32 on both sides, the logits being of size 10
TEXTS = ("The quick brown fox, caffè latte!", "naïve Ωmega 中文 jumps", "")
ROWS, SLOTS = 3, 24
LABELS = {"class": ["no", "maybe", "y\u00e9s"], "several": ["red", "blue"], "tags": ["O", "B-X", "I-X"]}
KINDS = (None, "class", "several", "number", "choice", "span", "tags")  # of heads; None are those of pre-training
# What its class for a kind of head has no place for, as that head does not read it: our names, and its own.
WITHOUT = dict.fromkeys(("span", "tags"), {"encoder/pooler/kernel", "encoder/pooler/bias"})
UNEXPECTED = dict.fromkeys(("span", "tags"), {"bert.pooler.dense.weight", "bert.pooler.dense.bias"})


def model_for(config, kind, labels):
    """Our model with a head of that kind."""
    from bert_tf.model import heads

    if kind in ("class", "several"):
        return heads.Classifier(config, len(labels))
    if kind == "tags":
        return heads.TokenClassifier(config, len(labels))
    kinds = {"number": heads.Regressor, "choice": heads.MultipleChoice, "span": heads.SpanFinder}
    return (kinds | {None: heads.Pretrainer})[kind](config)


def new_checkpoint(hidden_act, kind=None):
    """A random BERT, its numbers large enough that every part of it matters."""
    from bert_tf.checkpoints.checkpoint import Checkpoint
    from bert_tf.config.bert_config import BertConfig
    from bert_tf.model import weights
    from bert_tf.text.vocabulary import SPECIAL_TOKENS

    letters = [chr(code) for code in range(33, 127) if not 65 <= code <= 90]
    vocabulary = [*SPECIAL_TOKENS, *letters, *(f"##{letter}" for letter in letters), "quick", "fox", "##x"]
    vocabulary = list(dict.fromkeys(vocabulary))
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=48,
        hidden_act=hidden_act,
        layer_norm_eps=1e-12,
    )
    rng = np.random.default_rng(0)
    arrays = {
        name: (rng.normal(0, 0.2, variable.shape) + name.endswith("gamma")).astype(np.float32)
        for name, variable in weights.variables_by_name(model_for(config, kind, LABELS.get(kind))).items()
    }
    text_side = {"vocabulary": vocabulary, "lower_case": True}
    return Checkpoint(config=config, weights=arrays, **text_side, labels=LABELS.get(kind), kind=kind)


def inputs_for(config):
    """Random texts of different lengths: ids, segments [B, T] and lengths [B]."""
    rng = np.random.default_rng(1)
    lengths = np.array([SLOTS, SLOTS // 2, 3])
    used = np.arange(SLOTS) < lengths[:, None]  # [B, T]
    token_ids = rng.integers(5, config.vocab_size, (ROWS, SLOTS)) * used
    return {"token_ids": token_ids, "segment_ids": ((np.arange(SLOTS) > 8) & used).astype(int), "lengths": lengths}


def our_outputs(checkpoint, inputs):
    """Our model's answers under the names of transformers, and our tokenizer's ids of TEXTS."""
    import tensorflow as tf

    from bert_tf.model import weights
    from bert_tf.text.tokenizer import Tokenizer, pack

    model = model_for(checkpoint.config, checkpoint.kind, checkpoint.labels)
    weights.assign(model, checkpoint.weights)
    tensors = {name: tf.constant(values, tf.int32) for name, values in inputs.items()}
    arrays = {"last_hidden_state": model.encoder(tensors)["tokens"].numpy()}  # [B, T, D]
    if checkpoint.kind is None:
        positions = tf.tile(tf.range(SLOTS)[None], [ROWS, 1])  # [B, T]
        outputs = model({**tensors, "masked_lm_positions": positions})
        arrays["prediction_logits"] = outputs["masked_lm_logits"].numpy()  # [B, T, V]
        arrays["seq_relationship_logits"] = outputs["next_sentence_logits"].numpy()  # [B, 2]
    elif checkpoint.kind == "choice":  # the texts are choices of one example: [1, C]
        arrays["logits"] = model({name: tensor[None] for name, tensor in tensors.items()})["logits"].numpy()
    elif checkpoint.kind in ("span", "tags"):
        arrays |= {name: logits.numpy() for name, logits in model(tensors).items()}  # [B, T, ...]
    else:  # [B, C], of a number [B, 1]
        arrays["logits"] = np.reshape(next(iter(model(tensors).values())), [ROWS, -1])
    if checkpoint.vocabulary and checkpoint.lower_case is not None:
        tokenizer = Tokenizer(checkpoint.vocabulary, lower_case=checkpoint.lower_case)
        packed = pack(tokenizer, [tf.constant(TEXTS)], checkpoint.config.max_position_embeddings)
        for number, length in enumerate(packed["lengths"].numpy()):
            arrays[f"ids_{number}"] = packed["token_ids"].numpy()[number, :length]
    return arrays


def answer_with_torch(folder):
    """Runs in the Python that has torch: loads `folder`/written, answers `folder`/inputs.npz, saves `folder`/saved."""
    import torch
    import transformers

    written, inputs = os.path.join(folder, "written"), np.load(os.path.join(folder, "inputs.npz"))
    settings = transformers.AutoConfig.from_pretrained(written)
    kind = getattr(transformers, settings.architectures[0])
    model, info = kind.from_pretrained(written, output_loading_info=True)
    model.eval()
    tensors = {
        "input_ids": torch.tensor(inputs["token_ids"]),
        "token_type_ids": torch.tensor(inputs["segment_ids"]),
        "attention_mask": torch.tensor((np.arange(SLOTS) < inputs["lengths"][:, None]).astype(np.int64)),
    }
    is_choice = kind is transformers.BertForMultipleChoice
    tensors = {name: tensor[None] if is_choice else tensor for name, tensor in tensors.items()}
    with torch.no_grad():
        outputs = model(**tensors, output_hidden_states=True)
    arrays = {name: value.numpy() for name, value in outputs.items() if name.endswith("logits")}
    arrays["last_hidden_state"] = outputs.hidden_states[-1].numpy()
    if os.path.exists(os.path.join(written, "vocab.txt")):
        tokenizer = transformers.AutoTokenizer.from_pretrained(written)
        arrays.update({f"ids_{number}": np.array(tokenizer(text)["input_ids"]) for number, text in enumerate(TEXTS)})
        tokenizer.save_pretrained(os.path.join(folder, "saved"))
    np.savez(os.path.join(folder, "answers.npz"), **arrays)
    model.save_pretrained(os.path.join(folder, "saved"))
    keys = {name: sorted(map(str, info[name])) for name in ("missing_keys", "unexpected_keys", "mismatched_keys")}
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    names = [settings.id2label[i] for i in range(settings.num_labels)]
    head = {"class": kind.__name__, "labels": names, "problem_type": settings.problem_type}
    pathlib.Path(folder, "info.json").write_text(json.dumps({**keys, **versions, **head}), encoding="utf-8")


def compare(checkpoint, torch_python):
    """Yields (what, difference, tolerance) of one checkpoint, written and read back both ways."""
    from bert_tf.checkpoints import formats

    with tempfile.TemporaryDirectory() as folder:
        formats.write(checkpoint, os.path.join(folder, "written"), "huggingface")
        inputs = inputs_for(checkpoint.config)
        np.savez(os.path.join(folder, "inputs.npz"), **inputs)
        subprocess.run([torch_python, __file__, f"--answer={folder}"], check=True)
        info = json.loads(pathlib.Path(folder, "info.json").read_text(encoding="utf-8"))
        print(
            f"transformers {info['transformers']}, torch {info['torch']}, {checkpoint.config.hidden_act}, "
            f"{info['class']}, {info['problem_type'] or 'no problem type'}"
        )
        if checkpoint.labels:
            yield f"labels are {', '.join(info['labels'])}", int(info["labels"] != checkpoint.labels), 0
        for name in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            keys = set(info[name]) - UNEXPECTED.get(checkpoint.kind, set())
            yield f"{name} {' '.join(sorted(keys))}".strip(), len(keys), 0
        theirs, used = np.load(os.path.join(folder, "answers.npz")), inputs["lengths"]
        for name, ours in our_outputs(checkpoint, inputs).items():
            yield name, difference(ours, theirs[name], used), 0 if name.startswith("ids") else TOLERANCE
        saved = formats.read(os.path.join(folder, "saved"))
        expected = {name: x for name, x in checkpoint.weights.items() if name not in WITHOUT.get(checkpoint.kind, ())}
        yield "weights lost by its save_pretrained", len(expected.keys() ^ saved.weights.keys()), 0
        changed = sum(not np.array_equal(saved.weights[name], array) for name, array in expected.items())
        yield "weights changed by its save_pretrained", changed, 0
        yield "labels or kind of head changed by it", int(saved_head(saved) != saved_head(checkpoint)), 0
        yield "configuration changed by it", int(saved.config != checkpoint.config), 0
        yield "vocabulary changed by it", int(saved.vocabulary != checkpoint.vocabulary), 0
        if checkpoint.lower_case is not None:  # else it writes its own default
            yield "casing changed by it", int(saved.lower_case != checkpoint.lower_case), 0


def saved_head(checkpoint):
    """What a checkpoint says on its head."""
    return checkpoint.kind, checkpoint.labels


def difference(ours, theirs, lengths):
    """The largest difference where there are tokens; infinite between different shapes."""
    if ours.shape != theirs.shape:
        return np.inf
    if ours.ndim == 3:
        is_token = np.arange(SLOTS) < lengths[:, None]  # [B, T]
        ours, theirs = ours[is_token], theirs[is_token]
    return float(np.abs(np.asarray(ours, np.float64) - theirs).max(initial=0))


def main():
    """Prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", help="with both pre-training heads or a fine-tuned one, in any format")
    parser.add_argument("--torch_python", default=sys.executable, help="Python with torch and transformers")
    parser.add_argument("--answer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.answer:
        answer_with_torch(arguments.answer)
        return 0
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
    from bert_tf.runtime.tensorflow_startup import start_tensorflow

    start_tensorflow()
    from bert_tf.checkpoints import formats

    checkpoints = [formats.read(arguments.checkpoint)] if arguments.checkpoint else None
    all_right = True
    variants = [("gelu_erf", None), ("gelu_tanh", None), *(("relu", kind) for kind in KINDS)]
    for checkpoint in checkpoints or [new_checkpoint(*each) for each in variants]:
        for what, difference, tolerance in compare(checkpoint, arguments.torch_python):
            all_right &= bool(difference <= tolerance)
            print(f"  {what:40} {difference:10.2g}  {'ok' if difference <= tolerance else 'MISS'}", flush=True)
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
