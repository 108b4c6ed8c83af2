"""Models of `transformers` here and back: outputs, 12 steps of training, and both ways of their folders.

    python benchmarks/huggingface_roundtrip.py --torch_python=PYTHON [--encoders=bert,xlnet] [--checkpoint=FOLDER]

PYTHON, which has torch and transformers and need not have TensorFlow, makes a small random model of every class of
every encoder (of tests/goldens/make_family.py), or takes a folder in Hugging Face's layout, answers with it and trains
it: AdamW and clipping as its Trainer, no dropout. We read the folder, answer and train, with one text per row and
packed, and write it; PYTHON reads that. Each kind of our heads is written for each encoder too, or refused. Prints the
largest differences of each encoder as a table; exit code 1 if one exceeds its tolerance.

B texts, T positions per text, C outputs of a head.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
SAME, LOSSES, TRAINED = 1e-4, 1e-4, 2e-3  # tolerances: of outputs, relative of losses, of outputs after training
SLOTS, LENGTHS = 40, np.array([40, 27, 13, 6, 3, 2])
STEPS, RATE, DECAY, EPSILON = 12, 1e-3, 0.01, 1e-6
PROBLEMS = ("single_label_classification", "multi_label_classification", "regression")
ENDINGS = (
    *("Model", "ForPreTraining", "ForMaskedLM", "ForNextSentencePrediction"),
    *(f"ForSequenceClassification/{problem}" for problem in PROBLEMS),
    *("ForMultipleChoice", "ForTokenClassification", "ForQuestionAnswering", "ForQuestionAnsweringSimple"),
)
OUTPUTS = {  # of transformers -> ours; "logits" depends on the model
    "last_hidden_state": "tokens",
    "prediction_logits": "masked_lm_logits",
    "seq_relationship_logits": "next_sentence_logits",
    "sop_logits": "next_sentence_logits",
    "start_logits": "start_logits",
    "end_logits": "end_logits",
}
UNUSED = "mask_emb"  # of XLNet's second stream, which is not here
KEYS = ("missing_keys", "unexpected_keys", "mismatched_keys")
LOGITS = ("masked_lm_logits", "replaced_token_logits", "next_sentence_logits", "values", "logits")


def texts(vocab_size):
    """Random texts of different lengths: ids and segments [B, T]; ids are above those that may be special."""
    used = np.arange(SLOTS) < LENGTHS[:, None]  # [B, T]
    ids = np.random.default_rng(1).integers(6, vocab_size, used.shape)
    ids[:, 0] = 2
    return ids * used, (np.arange(SLOTS) > 8) & used


def rows_of(outputs):
    """Yields arrays of outputs as (name, [N, C]) without padding, to be compared and learned."""
    used = np.arange(SLOTS) < LENGTHS[:, None]
    for name, x in outputs.items():
        x = x[used] if x.shape[:2] == used.shape else x
        yield name, x[:, None] if len(x.shape) == 1 else x


def difference(ours, theirs):
    """The largest difference of outputs of the same names; infinite if one is missing."""
    ours, theirs = dict(rows_of(ours)), dict(rows_of(theirs))
    if ours.keys() != theirs.keys() or any(ours[name].shape != theirs[name].shape for name in ours):
        return np.inf
    return max(float(np.abs(ours[name] - theirs[name]).max(initial=0)) for name in ours)


# What runs in the Python that has torch.


def their_models(encoders, checkpoint):
    """Yields (name, model) of each class."""
    import torch
    import transformers

    if checkpoint:
        name = transformers.AutoConfig.from_pretrained(checkpoint).architectures[0]
        yield "checkpoint/" + name, getattr(transformers, name).from_pretrained(checkpoint)
        return
    sys.path.append(str(ROOT / "tests" / "goldens"))
    import make_family

    bert = ("Bert", "", make_family.SHAPE | make_family.DROPOUT)
    models = {"bert": bert, "camembert": ("Camembert", *make_family.MODELS["roberta"][1:]), **make_family.MODELS}
    for encoder in encoders or sorted(models):
        begin, _, settings = models[encoder]
        settings = dict(settings)
        if "max_position_embeddings" in settings:
            settings["max_position_embeddings"] += SLOTS
        for ending in ENDINGS:
            ending, _, problem = ending.partition("/")
            has_span_search = (encoder, ending) == ("xlnet", "ForQuestionAnswering")
            if not hasattr(transformers, begin + ending) or has_span_search:
                continue
            labels = {"num_labels": 1 if problem == "regression" else 3} if problem or "Token" in ending else {}
            more = labels | ({"problem_type": problem} if problem else {})
            config = getattr(transformers, f"{begin}Config")(**settings, **more, attn_implementation="eager")
            torch.manual_seed(0)
            model = getattr(transformers, begin + ending)(config)
            with torch.no_grad():
                for key, tensor in model.named_parameters():
                    is_scale = tensor.ndim == 1 and key.endswith("weight")
                    tensor.copy_(torch.randn(tensor.shape) * 0.2 + is_scale)
            yield "/".join(filter(None, (encoder, ending, problem))), model


def their_inputs(model, name):
    """Tensors of the texts, and the place of each token in them [B, T]."""
    import torch

    config = model.config
    ids, segments = texts(config.vocab_size)
    used = np.arange(SLOTS) < LENGTHS[:, None]
    ids, places = np.where(used, ids, config.pad_token_id or 0), np.tile(np.arange(SLOTS), (len(ids), 1))
    if config.model_type == "xlnet":  # its rows end in <cls>, with a segment of its own, and are padded on the left
        places = np.where(used, places - 1 + SLOTS - LENGTHS[:, None], places - LENGTHS[:, None])
        places[:, 0] = SLOTS - 1
        sources = places.argsort(1)
        ids, segments, used = (np.take_along_axis(x, sources, 1) for x in (ids, segments * 1, used))
        segments[:, -1] = 2
    values = {"input_ids": ids, "attention_mask": used, "token_type_ids": segments}
    if (getattr(config, "type_vocab_size", 0) or 0) < 2 and config.model_type != "xlnet":
        del values["token_type_ids"]
    tensors = {key: torch.from_numpy(x.astype(np.int64)) for key, x in values.items()}
    if "ForMultipleChoice" in name:
        tensors = {key: x.reshape(-1, 2, SLOTS) for key, x in tensors.items()}
    return tensors, torch.from_numpy(places)


def their_outputs(model, inputs, places, *, with_hidden_states=True):
    """{name: tensor}, tokens in our order: the logits of the head, and the last hidden state."""
    import torch

    outputs = model(**inputs)
    found = {name: x for name, x in outputs.items() if name.endswith("logits")}
    if "NextSentence" in type(model).__name__:  # so that its name tells what they are
        found = {"seq_relationship_logits": found["logits"]}
    if not found or with_hidden_states:
        flat = {name: x.reshape(-1, SLOTS) for name, x in inputs.items()}
        found["last_hidden_state"] = model.base_model(**flat).last_hidden_state
    rows = torch.arange(len(LENGTHS))[:, None]
    return {name: x[rows, places] if x.shape[:2] == places.shape else x for name, x in found.items()}


def their_loss(outputs):
    """The mean over outputs of a head, of the cross entropy with labels 0, 1, 2, 0, ... or of the square of x - 1."""
    import torch

    losses = [
        torch.nn.functional.cross_entropy(x, torch.arange(len(x)) % x.shape[1])
        if x.shape[1] > 1
        else ((x - 1) ** 2).mean()
        for _, x in rows_of(outputs)
    ]
    return sum(losses) / len(losses)


def train_theirs(model, inputs, places):
    """The losses of steps as the Trainer makes them, without a schedule."""
    import torch
    import transformers

    decaying = set(transformers.Trainer.get_decay_parameter_names(None, model))
    named = dict(model.named_parameters())
    groups = [
        {"params": [x for name, x in named.items() if (name in decaying) == decays], "weight_decay": DECAY * decays}
        for decays in (True, False)
    ]
    optimizer, losses = torch.optim.AdamW(groups, lr=RATE, eps=EPSILON), []
    for _ in range(STEPS):
        loss = their_loss(their_outputs(model, inputs, places, with_hidden_states=False))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(named.values(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def make(folder, encoders, checkpoint):
    """Writes a folder for each model: its files, answers.npz, trained.npz, and losses.json."""
    import torch
    import transformers

    torch.set_num_threads(1)
    for name, model in their_models(encoders, checkpoint):
        here = pathlib.Path(folder, name.replace("/", "-"))
        model.eval().save_pretrained(here / "theirs")
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        inputs, places = their_inputs(model, name)
        with torch.no_grad():
            np.savez(here / "answers.npz", **their_outputs(model, inputs, places))
        (here / "losses.json").write_text(json.dumps(train_theirs(model, inputs, places)))
        with torch.no_grad():
            np.savez(here / "trained.npz", **their_outputs(model, inputs, places))
    print(f"transformers {transformers.__version__}, torch {torch.__version__}", flush=True)


def check(folder):
    """Writes what `transformers` says of each folder that we wrote, to back.json."""
    import torch
    import transformers

    for here in sorted(pathlib.Path(folder).iterdir()):
        if not (here / "ours" / "config.json").exists():
            continue
        architecture = json.loads((here / "ours" / "config.json").read_text())["architectures"][0]
        kind = getattr(transformers, architecture, None)
        back = {"class": architecture, "exists": kind is not None}
        if kind is not None:
            model, info = kind.from_pretrained(here / "ours", output_loading_info=True, attn_implementation="eager")
            back |= {key: sorted(name for name in map(str, info[key]) if UNUSED not in name) for key in KEYS}
            with torch.no_grad():
                outputs = their_outputs(model.eval(), *their_inputs(model, architecture))
            if (here / "answers.npz").exists():
                back["difference"] = difference(numpy(outputs), np.load(here / "answers.npz"))
        (here / "back.json").write_text(json.dumps(back))


# What runs here.


def our_outputs(model, packing, names):
    """Our model's answers under these names of transformers."""
    import tensorflow as tf

    ids, segments = texts(model.config.vocab_size)
    inputs = {"token_ids": ids, "segment_ids": segments, "lengths": LENGTHS}
    inputs = flat = {name: tf.constant(x, tf.int32) for name, x in inputs.items()}
    if type(model).__name__ == "MultipleChoice":
        inputs = {name: tf.reshape(x, [-1, 2, *x.shape[1:]]) for name, x in inputs.items()}
    seed, found = tf.constant([1, 2]), {}
    if set(names) - {"last_hidden_state"}:
        outputs = model(inputs, seed=seed, packing=packing)
        one = next((each for each in LOGITS if each in outputs), None)  # "logits" of theirs
        found = {name: outputs[OUTPUTS.get(name, one)] for name in names if name != "last_hidden_state"}
    if "last_hidden_state" in names:
        found["last_hidden_state"] = model.encoder(flat, seed=seed, packing=packing)["tokens"]
    return found


def our_loss(outputs):
    """As `their_loss`."""
    import tensorflow as tf

    losses = [
        tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(len(x)) % x.shape[1], x)
            if x.shape[1] > 1
            else (x - 1) ** 2
        )
        for _, x in rows_of({name: tf.convert_to_tensor(x) for name, x in outputs.items()})
    ]
    return sum(losses) / len(losses)


def train_ours(model, packing, names):
    """As `train_theirs`, by our optimizer."""
    import tensorflow as tf

    from bert_tf.model import weights
    from bert_tf.training.gradients import to_dense
    from bert_tf.training.optimizers import adamw_corrected

    named, losses = weights.variables(model), []
    optimizer = adamw_corrected.create(named, lambda step: tf.constant(RATE), weight_decay=DECAY)
    for _ in range(STEPS):
        with tf.GradientTape() as tape:
            loss = our_loss(our_outputs(model, packing, names))
        gradients = [None if x is None else to_dense(x) for x in tape.gradient(loss, list(named.values()))]
        optimizer.apply(gradients, tf.linalg.global_norm([x for x in gradients if x is not None]))
        optimizer.step.assign_add(1)
        losses.append(float(loss))
    return losses


def model_of(checkpoint):
    """Our model with the weights of a checkpoint and without dropout."""
    from bert_tf.checkpoints import pretrained
    from bert_tf.model import heads, weights

    has_pairs_alone = "next_sentence/bias" in checkpoint.weights and "masked_lm/output_bias" not in checkpoint.weights
    model = heads.Pretrainer(checkpoint.config) if has_pairs_alone else pretrained.model_of(checkpoint)
    weights.assign(model, checkpoint.weights)
    if hasattr(model, "dropout"):
        model.dropout.rate = 0.0
    return model


def measured(here):
    """{what: difference} of one model of transformers, read, answered, trained and written."""
    from safetensors.numpy import load_file

    from bert_tf.checkpoints import formats
    from bert_tf.model.packing import PackingSpec

    checkpoint = formats.read(here / "theirs")
    checkpoint = dataclasses.replace(checkpoint, config=without_dropout(checkpoint.config))
    answers, trained = np.load(here / "answers.npz"), np.load(here / "trained.npz")
    to_learn = [name for name in answers if name != "last_hidden_state"] or ["last_hidden_state"]
    expected, found = np.array(json.loads((here / "losses.json").read_text())), {}
    for way, packing in (("padded", None), ("packed", PackingSpec())):
        model = model_of(checkpoint)
        found[f"read, {way}"] = difference(numpy(our_outputs(model, packing, answers)), answers)
        losses = np.array(train_ours(model, packing, to_learn))
        found[f"losses, {way}"] = float(np.abs(losses / expected - 1).max())
        found[f"trained, {way}"] = difference(numpy(our_outputs(model, packing, answers)), trained)
    lost = formats.write(checkpoint, here / "ours", "huggingface")
    theirs, ours = (load_file(here / way / "model.safetensors") for way in ("theirs", "ours"))
    theirs = {name: x for name, x in theirs.items() if UNUSED not in name}
    same = [name for name in theirs.keys() & ours.keys() if np.array_equal(theirs[name], ours[name])]
    again = formats.read(here / "ours")
    is_same = (again.kind, again.labels, again.config) == (checkpoint.kind, checkpoint.labels, checkpoint.config)
    found["weights"] = len(theirs.keys() | ours.keys()) - len(same) + len(lost) + (not is_same)
    return found


def written(base, kind, here):
    """Writes a model with a head of that kind; says what was lost, or why it is refused."""
    from bert_tf import heads
    from bert_tf.checkpoints import formats
    from bert_tf.errors import UserError
    from bert_tf.model import heads as model_heads
    from bert_tf.model import weights

    labels = ["a", "b", "c"] if heads.get(kind).is_labelled else None
    try:
        model = model_heads.of_head(heads.get(kind), base.config, 3)
        weights.assign(model, base.weights)
        arrays = {name: x.numpy() for name, x in weights.variables(model).items()}
        checkpoint = dataclasses.replace(base, weights=arrays, kind=kind, labels=labels)
        lost = formats.write(checkpoint, here / "ours", "huggingface")
        again = formats.read(here / "ours")
    except UserError as error:
        return str(error)
    lost = {*lost, *(name for name, x in arrays.items() if not np.array_equal(again.weights.get(name), x))}
    return f"lost {', '.join(sorted(lost))} " * bool(lost) + f"is {again.kind}" * (again.kind not in (kind, None))


def without_dropout(config):
    """The configuration for training that is compared."""
    return dataclasses.replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def numpy(outputs):
    """Tensors as arrays."""
    return {name: x.numpy() for name, x in outputs.items()}


def print_table(measures):
    """Prints the largest number of each column for each encoder; returns whether all are small enough."""
    largest = {}
    for name, found in measures.items():
        row = largest.setdefault(name.split("-")[0], {"classes": 0})
        row["classes"] += 1
        row |= {column: max(row.get(column, 0), value) for column, value in found.items()}
    columns = list(next(iter(largest.values())))
    print("| encoder |", " | ".join(columns), "|\n|---|" + "---:|" * len(columns))
    for encoder, row in sorted(largest.items()):
        shown = (f"{row[column]:.1e}" if isinstance(row[column], float) else str(row[column]) for column in columns)
        print("| " + " | ".join([encoder, *shown]) + " |")
    limits = {"losses": LOSSES, "trained": TRAINED, "weights": 0, "keys": 0}
    missed = {(name, column): value for name, found in measures.items() for column, value in found.items()
              if not value <= limits.get(column.split(",")[0], SAME)}  # fmt: skip
    for (name, column), value in missed.items():
        print(f"MISS {name}: {column} {value}")
    return not missed


def back(here):
    """What `transformers` said of our folder, and {what: difference} for those that came from it."""
    said = json.loads((here / "back.json").read_text())
    return said, {"written": said.get("difference", np.inf), "keys": sum(len(said.get(key, ())) for key in KEYS)}


def main():
    """Prints the tables; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", help="folder in Hugging Face's layout, instead of random models")
    parser.add_argument("--encoders", default="", help="of the random models; default: all")
    parser.add_argument("--torch_python", default=sys.executable, help="Python with torch and transformers")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--there", choices=("make", "check"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.there == "make":
        return make(options.folder, list(filter(None, options.encoders.split(","))), options.checkpoint)
    if options.there == "check":
        return check(options.folder)
    sys.path.insert(0, str(ROOT))
    from bert_tf.runtime.tensorflow_startup import start_tensorflow

    start_tensorflow()
    from bert_tf import heads
    from bert_tf.checkpoints import formats
    from bert_tf.errors import UserError

    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.folder or temporary)
        there = [options.torch_python, __file__, *sys.argv[1:], f"--folder={folder}"]
        subprocess.run([*there, "--there=make"], check=True)
        measures, said = {}, {}
        for here in sorted(folder.iterdir()):
            try:
                measures[here.name] = measured(here)
            except UserError as error:
                print(f"{here.name} is refused: {error}", flush=True)
            if here.name.endswith("-Model"):
                for kind in heads.known():
                    own = folder / here.name.replace("-Model", f"={kind}")
                    said[own] = written(formats.read(here / "theirs"), kind, own)
        subprocess.run([*there, "--there=check"], check=True)
        for name, found in measures.items():
            found |= back(folder / name)[1]
        all_right = print_table(measures)
        for own, why in said.items():
            about = back(own)[0] if (own / "back.json").exists() else {}
            missing = [name for key in KEYS for name in about.get(key, ()) if key != "unexpected_keys"]
            if missing or why or not about.get("exists"):
                lacks = ", which transformers lacks" * (about.get("exists") is False)
                print(f"{own.name}: {about.get('class', 'refused')}{lacks} {' '.join(missing)} {why}")
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
