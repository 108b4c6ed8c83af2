"""Compares models with real weights to recorded outputs of the reference, array by array.

    python benchmarks/parity.py --goldens=GOLDENS --weights=WEIGHTS [--write=docs/parity.md]

A golden is a folder with golden.npz (arrays), golden.json (texts, configuration) and optionally recorded training steps
(see parity_steps.py). Its weights are the folder of the same name in WEIGHTS, or the golden folder itself if that is a
checkpoint. Prints a table per golden; exit code 1 if a difference exceeds its tolerance.

B texts, T positions per text, D hidden size, V vocabulary.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from bert_tf.checkpoints.checkpoint import Checkpoint  # noqa: E402
from bert_tf.runtime.tensorflow_startup import start_tensorflow  # noqa: E402

start_tensorflow()

import keras  # noqa: E402
import numpy as np  # noqa: E402
import parity_steps  # noqa: E402
import tensorflow as tf  # noqa: E402

from bert_tf.checkpoints import formats  # noqa: E402
from bert_tf.config.bert_config import BertConfig  # noqa: E402
from bert_tf.errors import UserError  # noqa: E402
from bert_tf.model import weights  # noqa: E402
from bert_tf.model.heads import Pretrainer  # noqa: E402
from bert_tf.runtime import backend  # noqa: E402

# Fair in float32: a plain NumPy BERT is 6e-6 from the recorded hidden states and 3.3e-5 from the masked-LM logits.
TOLERANCES = {"hidden states": 1e-5, "masked-LM logits": 5e-5, "next-sentence logits": 1e-4}
BEGIN, END = "<!-- parity begins -->", "<!-- parity ends -->"


@dataclasses.dataclass(frozen=True)
class Row:
    """One comparison: the largest difference found in `what`, and the largest that is right."""

    what: str
    difference: float
    tolerance: float

    @property
    def is_right(self):
        """False for a difference that is not a number, too."""
        return bool(self.difference <= self.tolerance)


@dataclasses.dataclass(frozen=True)
class Golden:
    """A folder of recorded numbers, and the checkpoint that made them."""

    folder: pathlib.Path
    facts: dict
    arrays: dict
    checkpoint: Checkpoint

    @property
    def config(self):
        """The checkpoint's without dropout, and with the activation of the reference, where "gelu" is the exact one."""
        recorded = BertConfig.from_dict(self.facts["config"], gelu="gelu_erf")
        no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        return dataclasses.replace(self.checkpoint.config, hidden_act=recorded.hidden_act, **no_dropout)

    @property
    def is_token(self):
        """Which positions hold a token: bool [B, T]."""
        return self.arrays["attention_mask"] == 1

    def new_model(self):
        """A model with the checkpoint's weights, and what became of them."""
        model = Pretrainer(self.config)
        return model, weights.assign(model, self.checkpoint.weights)


def read_golden(folder, weights_folder):
    """Reads a golden, or returns None where its weights are in neither place."""
    candidates = [pathlib.Path(weights_folder, folder.name), folder, folder / "bert_model.ckpt"]
    for candidate in candidates:
        if any(formats.load(name).recognizes(str(candidate)) for name in formats.names()):
            facts = json.loads((folder / "golden.json").read_text(encoding="utf-8"))
            arrays = dict(np.load(folder / "golden.npz"))
            return Golden(folder, facts, arrays, formats.read(str(candidate)))
    return None


def compare(golden):
    """Every comparison this golden allows."""
    model, report = golden.new_model()
    needed = [name for name in report.newly_initialized if name.startswith("encoder/") or "mlm_logits" in golden.arrays]
    rows = [Row("weights the checkpoint lacks", len(needed), 0)]
    rows += text_rows(golden)
    rows += encoder_rows(golden, model)
    if "mlm_logits" in golden.arrays:
        rows += head_rows(golden, model)
    if (golden.folder / "pretraining_steps.json").exists():
        rows += [Row(*comparison) for comparison in parity_steps.compare(golden.folder, model)]
    return rows


def inputs_of(golden, token_ids):
    """Model inputs of recorded ids [B, T], every slot as a masked position."""
    batch, length = token_ids.shape
    return {
        "token_ids": tf.constant(token_ids, tf.int32),
        "segment_ids": tf.constant(golden.arrays["token_type_ids"], tf.int32),
        "lengths": tf.constant(golden.is_token.sum(1), tf.int32),
        "masked_lm_positions": tf.tile(tf.range(length)[None], [batch, 1]),  # [B, T]
    }


def text_rows(golden):
    """Our tokenizer's ids of the recorded texts; not where there are none, or nothing says how to tokenise them."""
    recorded = golden.facts.get("inputs", ())
    has_texts = bool(recorded) and all("text" in expected for expected in recorded)
    if golden.checkpoint.vocabulary is None or golden.checkpoint.lower_case is None or not has_texts:
        return []
    from bert_tf.text.tokenizer import Tokenizer, pack

    tokenizer = Tokenizer(golden.checkpoint.vocabulary, lower_case=golden.checkpoint.lower_case)
    wrong = 0
    for expected in recorded:
        texts = [text for text in (expected["text"], expected.get("text_pair")) if text is not None]
        packed = pack(tokenizer, [tf.constant([text]) for text in texts], golden.config.max_position_embeddings)
        length = int(packed["lengths"][0])
        for ours, theirs in (("token_ids", "input_ids"), ("segment_ids", "token_type_ids")):
            wrong += packed[ours].numpy()[0, :length].tolist() != expected[theirs]
    return [Row(f"ids of {len(recorded)} texts that differ", wrong, 0)]


def encoder_rows(golden, model):
    """Hidden states, the pooled vector, and what sentence embeddings are made of."""
    outputs = model.encoder(inputs_of(golden, golden.arrays["input_ids"]), return_hidden_states=True)
    states, is_token = [state.numpy() for state in outputs["hidden_states"]], golden.is_token
    ours = {f"hidden_state_{number}": state[is_token] for number, state in enumerate(states)}
    ours["last_hidden_state"], ours["pooler_output"] = states[-1][is_token], outputs["pooled"].numpy()
    mean = (states[-1] * is_token[..., None]).sum(1) / is_token.sum(1, keepdims=True)  # [B, D]
    embedding = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    ours |= {"mean_pooled": mean, "sentence_embedding": embedding, "cosine": embedding @ embedding.T}
    rows = []
    for name, array in ours.items():
        if name in golden.arrays:
            recorded = golden.arrays[name]
            recorded = recorded[is_token] if recorded.ndim == 3 else recorded
            rows.append(Row(name, largest(array - recorded), TOLERANCES["hidden states"]))
    return rows


def head_rows(golden, model):
    """The logits of both pre-training heads, of the recorded texts and of those with a token masked."""
    arrays, rows = golden.arrays, []
    for ids, logits in (("input_ids", "mlm_logits"), ("masked_input_ids", "masked_mlm_logits")):
        if logits in arrays:
            outputs = model(inputs_of(golden, arrays[ids]))
            difference = outputs["masked_lm_logits"].numpy() - arrays[logits]  # [B, T, V]
            rows.append(Row(logits, largest(difference[golden.is_token]), TOLERANCES["masked-LM logits"]))
            if ids == "input_ids":
                difference = outputs["next_sentence_logits"].numpy() - arrays["nsp_logits"]  # [B, 2]
                rows.append(Row("nsp_logits", largest(difference), TOLERANCES["next-sentence logits"]))
    return rows


def largest(difference):
    """The largest size of any number in an array; not a number if one of them is not."""
    return float(np.abs(np.asarray(difference, np.float64)).max())


def markdown(name, rows):
    """A table of the comparisons of one golden."""
    lines = [f"### {name}", "", "| what | largest difference | tolerance | |", "|---|---:|---:|---|"]
    for row in rows:
        verdict = "ok" if row.is_right else "**MISS**"
        lines.append(f"| {row.what} | {row.difference:.2g} | {row.tolerance:g} | {verdict} |")
    return "\n".join(lines)


def write_between_markers(path, text):
    """Replaces what stands between the two markers of a file, with the date, the commit and the command."""
    page = path.read_text(encoding="utf-8") if path.exists() else f"# Parity\n\n{BEGIN}\n{END}\n"
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise UserError(f"{path} lacks the lines {BEGIN} and {END}, between which the table goes; add them.")
    git = ["git", "-C", str(pathlib.Path(__file__).resolve().parent), "describe", "--always", "--dirty"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip() or "no commit"
    versions = f"TensorFlow {tf.__version__}, Keras {keras.__version__}"
    note = (
        f"{datetime.date.today()}, commit {commit}, {versions}, CPU, float32:\n"
        "`python benchmarks/parity.py --goldens=GOLDENS --weights=WEIGHTS --write=docs/parity.md`"
    )
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    partial = path.with_name(path.name + ".partial")
    partial.write_text(f"{before}{BEGIN}\n{note}\n\n{text}\n{END}{after}", encoding="utf-8")
    os.replace(partial, path)


def run(arguments):
    """Prints a table for each golden; returns the exit code."""
    folders = sorted(file.parent for file in pathlib.Path(arguments.goldens).glob("*/golden.npz"))
    if not folders:
        raise UserError(f"No folder in {arguments.goldens} holds a golden.npz.")
    tables, all_right = [], True
    for folder in folders:
        golden = read_golden(folder, arguments.weights)
        if golden is None:
            tables.append(f"### {folder.name}\n\nLeft out: no checkpoint of that name among the weights.")
        else:
            rows = compare(golden)
            all_right &= all(row.is_right for row in rows)
            tables.append(markdown(folder.name, rows))
        print(tables[-1] + "\n", flush=True)
    if arguments.write:
        write_between_markers(pathlib.Path(arguments.write), "\n\n".join(tables))
    return 0 if all_right else 1


def main():
    """Reads the command line; a mistake in it is one sentence and exit code 2."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--goldens", required=True, help="folder of goldens")
    parser.add_argument("--weights", required=True, help="folder of checkpoints with the names of the goldens")
    parser.add_argument("--write", help="Markdown file to write the tables to, between markers")
    backend.allow_tf32(False)  # as scripts and commands do: float32 is float32 on GPUs, too
    try:
        return run(parser.parse_args())
    except UserError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
