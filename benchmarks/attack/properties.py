"""Property-based tests of every reader with hypothesis: malformed files are a UserError, leave nothing, take no memory.

python benchmarks/attack/properties.py --examples=1000 --readers=table.csv,squad.json

Cases are random bytes, valid files with random edits, and, of JSON, valid objects in which any value may be another.
Each must be read or be a UserError; must leave no file; and must take no more memory than FACTOR times its size plus
SLACK, as tracemalloc counts it. Prints a row for each reader; --seed gives other cases.
"""

import argparse
import dataclasses
import gzip
import io
import json
import sys
import tempfile
import time
import traceback
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import hypothesis
import numpy as np
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/helpers")]

import crafted_checkpoints as crafted  # noqa: E402

from bert_tf.checkpoints import (  # noqa: E402
    checkpoint_files,
    huggingface_layouts,
    huggingface_tokenizers,
    keras_files,
    keras_hub_presets,
    model_garden,
    peft_adapters,
    sentence_transformers,
    tensorflow_weights,
    torch_folders,
    torch_pickle,
)
from bert_tf.checkpoints.formats import huggingface  # noqa: E402
from bert_tf.checkpoints.huggingface_folder import TokenizerFolder  # noqa: E402
from bert_tf.config.bert_config import BertConfig  # noqa: E402
from bert_tf.data import questions, tables  # noqa: E402
from bert_tf.data.conll_files import ColumnLayout, ConllFile  # noqa: E402
from bert_tf.errors import UserError  # noqa: E402
from bert_tf.export import about_file, prediction_inputs  # noqa: E402
from bert_tf.heads.span import squad_files  # noqa: E402
from bert_tf.runtime import run_files  # noqa: E402
from bert_tf.serving import body, values  # noqa: E402
from bert_tf.text import corpus, sentencepiece_model, vocabulary  # noqa: E402
from bert_tf.text.documents import read_documents  # noqa: E402

SLACK, FACTOR = 4 << 20, 64  # bytes of memory that a file may take, and for each byte of it
DEPTH = 100_000  # of nested lists
DATA = "x.ckpt.data-00000-of-00001"  # next to a TensorFlow index

SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": "a",
            "paragraphs": [
                {
                    "context": "The fox runs.",
                    "qas": [
                        {"id": "1", "question": "Who?", "answers": [{"text": "fox", "answer_start": 4}]},
                        {"id": 2, "question": "Where?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ],
}
BERT = {"vocab_size": 30, "hidden_size": 16, "num_attention_heads": 4, "hidden_act": "gelu", "layer_norm_eps": 1e-12}
HUGGING_FACE = BERT | {
    "model_type": "bert",
    "architectures": ["BertForSequenceClassification"],
    "id2label": {"0": "a", "1": "b"},
    "num_labels": 2,
    "problem_type": "regression",
    "position_embedding_type": "absolute",
    "is_decoder": False,
}
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
TOKENIZER = {
    "model": {"type": "WordPiece", "vocab": {token: number for number, token in enumerate(TOKENS)}},
    "normalizer": {"type": "BertNormalizer", "lowercase": True},
    "added_tokens": [{"content": "[PAD]", "id": 0}, {"content": "[E1]", "id": 6}],
}
ABOUT = {
    "task": "table",
    "kind": "classes",
    "labels": ["a", "b"],
    "inputs": {"text_a": None},
    "reads": {"text_columns": "text_a", "label_column": "label"},
    "temperature": 1.5,
    "thresholds": [0.5, 0.5],
}
RUN = {
    "name": "table",
    "command": ["bert-tf", "finetune"],
    "flags": {"output_dir": "run", "do_train": True},
    "config": BERT,
    "training": {"learning_rate": 1e-3},
    "data": {"splits": ["train"], "notes": []},
    "parameters": 10,
}
DETAILS = {"eval": {"per_class": [{"label": "a", "f1": 0.5}], "confusion": [[1, 0], [0, 1]], "values": [0.5]}}
ADAPTER = {
    "peft_type": "LORA",
    "task_type": "SEQ_CLS",
    "base_model_name_or_path": "base",
    "r": 2,
    "lora_alpha": 4,
    "target_modules": ["query"],
    "modules_to_save": ["classifier"],
    "bias": "none",
}
TOKENIZER_CONFIG = {
    "tokenizer_class": "BertTokenizer",
    "do_lower_case": True,
    "model_max_length": 512,
    "special_tokens_in_strings": ["[E1]"],
    "added_tokens_decoder": {"0": {"content": "[PAD]", "special": True}},
}
BACKBONE = {
    "module": "keras_hub.src.models.bert.bert_backbone",
    "class_name": "BertBackbone",
    "registered_name": "keras_hub>BertBackbone",
    "config": {
        "vocabulary_size": 6,
        "num_layers": 1,
        "num_heads": 2,
        "hidden_dim": 4,
        "intermediate_dim": 8,
        "max_sequence_length": 8,
        "num_segments": 2,
    },
}
GARDEN = b"task:\n  model:\n    encoder:\n      type: bert\n      bert: {hidden_size: 4, num_layers: 1}\n"
MODULES = [
    {"type": "sentence_transformers.models.Transformer", "path": ""},
    {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
]
N_BEST = {"1": [{"text": "fox", "start": 4, "end": 7, "probability": 0.5}], "2": [{"text": "", "probability": 0.9}]}
REST = {"signature_name": "serving_default", "instances": [{"text_a": "a", "choices": ["b", "c"], "ids": [1, 2]}]}
SPECS = {"text_a": ("string", (None,)), "choices": ("string", (None, 2)), "ids": ("int32", (None, None))}
INPUTS = {"text_a": None, "choices": 2}


@dataclasses.dataclass(frozen=True)
class Reader:
    """A reader: the name of its file, valid contents (bytes, or JSON values), and what reads it."""

    file: str
    valid: list
    read: Callable
    pack: Callable[[bytes], bytes] = bytes  # what is done with a content before it is written

    def contents(self):
        """Contents to try, a strategy of bytes."""
        plain = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in self.valid]
        shaped = [each for each in self.valid if not isinstance(each, bytes)]
        kinds = [st.binary(max_size=200), *[edited(plain)] * 3]
        if shaped:
            deep = [b"[" * DEPTH, _dumped(shaped[0])[:-1] + b', "x": ' + b'{"a":' * DEPTH]
            kinds += [st.sampled_from(deep), *[st.sampled_from(shaped).flatmap(changed).map(_dumped)] * 5]
        return st.one_of(kinds).map(self.pack)


def _dumped(value):
    return json.dumps(value).encode()


def edited(contents):
    """Some of the contents with a few places cut out and others put in."""
    edit = st.tuples(st.floats(0, 1), st.integers(0, 8), st.binary(max_size=4) | st.sampled_from(SNIPPETS))
    return st.builds(_edit, st.sampled_from(contents), st.lists(edit, max_size=3))


SNIPPETS = [
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b'"',
    b"\t",
    b",",
    b"\r",
    b"\n\n",
    b"[",
    b"{",
    b"-1",
    b"1e999",
]
SNIPPETS += [b"NaN", b"null", b"\\ud800", b"9" * 5000, "\u2028\u0085\ufeff".encode(), b"-DOCSTART-", b"# "]


def _edit(content, edits):
    for share, cut, inserted in edits:
        place = int(share * len(content))
        content = content[:place] + inserted + content[place + cut :]
    return content


# Few characters: to prepare all of Unicode takes hypothesis seconds.
TEXT = st.text(st.sampled_from('aB1 ,_"\u00e9\u2028\u4e00\ufeff\U0001f600'), max_size=4)
WEIRD = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([2**31, 2**63, 10**12, -(10**30), 0.5, 1e308]),
    st.floats(), TEXT, st.sampled_from(["\ud800", "", "x" * 300, "../x", "a\0b", "bert"]),
    st.lists(st.none() | st.integers() | TEXT, max_size=3),
    st.dictionaries(TEXT, st.none() | st.integers(), max_size=2),
)  # fmt: skip


def changed(value):
    """The value with any of its parts left out or replaced by another kind of value."""
    if isinstance(value, dict):
        parts = {name: changed(each) for name, each in value.items()}
        whole = st.fixed_dictionaries({}, optional=parts)
    elif isinstance(value, list):
        whole = st.lists(st.one_of([changed(each) for each in value]), max_size=3) if value else st.just([])
    else:
        whole = st.just(value)
    kept = st.just(value)
    return st.one_of(kept, kept, whole, whole, WEIRD)


def _documents(path):
    for layout in ("auto", "wrapped"):
        for source in corpus.find_sources(path, text_layout=layout):
            for _ in read_documents(source):
                pass


def _table(path):
    for columns in (None, ["a", "b", "c", "d"]):
        malformed = [] if columns else None
        for _ in tables.read(path, columns, malformed=malformed):
            pass
    list(prediction_inputs.read(path, INPUTS))


def _squad(path):
    known = questions.read(path)
    for question in known:
        for answer in question.answers:
            questions.answer_span(question, answer)
    [example.encode() for example in prediction_inputs.read(path, {"question": None, "context": None})]


def _answers(path):
    known = [questions.Question("1", "Who?", "The fox runs.", (("fox", 4),), True), questions.Question("2", "", "")]
    squad_files.score(known, path, has_null=True, null_odds_path=path)


def _n_best(path):
    known = [questions.Question("1", "Who?", "The fox runs.", (("fox", 4),), True), questions.Question("2", "", "")]
    squad_files.ensemble([path, path], known, n_best_size=2, has_null=True)


def _tokenizer(path):
    folder = str(Path(path).parent)
    files = TokenizerFolder(folder)
    huggingface_tokenizers.with_added_tokens(files, huggingface_tokenizers.read(files)[0])


def _tokenizer_config(path):
    folder = str(Path(path).parent)
    checkpoint_files.read_tokenizer_files(folder)
    huggingface_tokenizers.read(TokenizerFolder(folder))


def _h5():
    """A small file as transformers' TensorFlow models wrote it."""
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file["bert/tf_bert_model/bert/pooler/dense/kernel:0"] = np.ones((4, 4), np.float32)
        file["bert/tf_bert_model/bert/pooler/dense/bias:0"] = np.ones(4, np.float32)
    return content.getvalue()


def _keras_file(config):
    """A `.keras` file with this config.json."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("config.json", config)
        file.writestr("model.weights.h5", _h5())
        file.writestr("metadata.json", "{}")
    return content.getvalue()


def _sentencepiece(path):
    model = Path(path).read_bytes()
    sentencepiece_model.parse(model, path)
    sentencepiece_model.added_pieces(model)
    sentencepiece_model.tokens_of(model, path)


def _pieces():
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), ("\u2581a", -1.0), ("b", -2.0)]
    model = sentencepiece_model.UnigramModel(pieces=tuple(pieces), unknown_id=0, charsmap=b"")
    return sentencepiece_model.serialize(model, ("<s>", "</s>"))


def _in_folder(read):
    """A reader of the folder of a file."""
    return lambda path: read(str(Path(path).parent))


def _hugging_face(path):
    folder = str(Path(path).parent)
    huggingface._read_config(torch_folders.settings(folder))
    huggingface.labels(folder)


def _rest(path):
    try:
        request = body._json(Path(path).read_bytes())
        values.count(request)
        values.read(request, SPECS)
    except (body.HTTPException, values.BadRequest) as error:
        raise UserError(str(error)) from None
    except RecursionError:  # as app.Server._predict answers it
        raise UserError("The request is nested too deeply.") from None


CSV = b'text_a,choice 0,choice 1,label\n"a ""b"", c",d,e,x\nf,g,h,y\n'
CONLL = b"-DOCSTART- O\n\nEU B-ORG\nrejects O\n\nPeter B-PER\nBlackburn I-PER\n"
CORPUS = b"The fox runs. It is quick.\nA dog sleeps.\n\nRain falls.\n"
ROW = {"text_a": "a", "choices": ["b", "c"], "label": 1, "a": None}
# {name: Reader}; one more reader is a line here.
READERS = {
    "corpus.txt": Reader("a.txt", [CORPUS], _documents),
    "corpus.txt.gz": Reader("a.txt.gz", [gzip.compress(CORPUS, mtime=0)], _documents),
    "corpus.jsonl": Reader("a.jsonl", [{"text": "The fox runs.\nA dog."}, {"text": "\ud800 b"}], _documents),
    "table.csv": Reader("a.csv", [CSV, CSV.replace(b",", b";")], _table),
    "table.tsv": Reader("a.tsv", [CSV.replace(b",", b"\t"), CSV.decode().replace(",", "\t").encode("utf-16")], _table),
    "table.jsonl": Reader("a.jsonl", [ROW], _table),
    "squad.json": Reader("a.json", [SQUAD], _squad),
    "predictions.json": Reader("a.json", [{"1": "fox", "2": ""}, {"1": 0.5, "2": -1}], _answers),
    "nbest.json": Reader("a.json", [N_BEST], _n_best),
    "conll": Reader("a.conll", [CONLL, CONLL.replace(b" ", b"\t")], lambda path: ConllFile(path, ColumnLayout())),
    "vocab.txt": Reader("vocab.txt", ["\n".join(TOKENS).encode()], vocabulary.read),
    "bert_config.json": Reader("bert_config.json", [BERT], BertConfig.from_json_file),
    "config.json": Reader(
        "config.json", [HUGGING_FACE | {"model_type": kind} for kind in huggingface_layouts.BY_TYPE], _hugging_face
    ),
    "tokenizer.json": Reader("tokenizer.json", [TOKENIZER], _tokenizer),
    "modules.json": Reader(
        "modules.json", [MODULES], _in_folder(lambda folder: sentence_transformers.read(folder, 512))
    ),
    "tokenizer_config.json": Reader("tokenizer_config.json", [TOKENIZER_CONFIG], _tokenizer_config),
    "adapter_config.json": Reader("adapter_config.json", [ADAPTER], _in_folder(peft_adapters.settings_of)),
    "about.json": Reader("about.json", [ABOUT], _in_folder(about_file.read)),
    "run.json": Reader("run.json", [RUN], _in_folder(run_files.read_run)),
    "eval_details.json": Reader("eval_details.json", [DETAILS], _in_folder(run_files.read_details)),
    "sentencepiece": Reader("a.model", [_pieces()], _sentencepiece),
    "tf_model.h5": Reader("tf_model.h5", [_h5()], tensorflow_weights.read_h5),
    "a.keras": Reader("a.keras", [_keras_file(json.dumps(BACKBONE))], keras_files.read),
    "keras_hub.keras": Reader("a.keras", [BACKBONE], keras_hub_presets.read, _keras_file),
    "model.yaml": Reader("model.yaml", [GARDEN], model_garden._read_yaml),
    "safetensors.index.json": Reader(
        "model.safetensors.index.json", [{"weight_map": {"a": "x.safetensors"}}], torch_folders._weight_map
    ),
    "labels.json": Reader(
        "labels.json",
        [{"labels": ["a", "b"], "kind": "class"}],
        _in_folder(checkpoint_files.read_head_file),
    ),
    "safetensors": Reader(
        "a.safetensors",
        [json.loads(header) for header in crafted.headers()],
        checkpoint_files.read_safetensors,
        crafted.safetensors,
    ),
    "pickle": Reader("a.bin", crafted.pickles(), torch_pickle.read, crafted.zipped),
    "pickle_sequence": Reader("a.bin", crafted.pickles(), torch_pickle.read, crafted.sequence),
    "pickle_zip": Reader("a.bin", [crafted.zipped(crafted.pickles()[0])], torch_pickle.read),
    "REST": Reader("a.json", [REST, {"inputs": {"text_a": ["a"], "choices": [["b", "c"]], "ids": [[1]]}}], _rest),
}


def tf_index():
    """The reader of TensorFlow's indices, which loads TensorFlow."""
    return Reader(
        "x.ckpt.index",
        [crafted.block(crafted.entries())],
        lambda path: checkpoint_files.read_tensors(path.removesuffix(".index"), bool),
        crafted.table,
    )


@dataclasses.dataclass
class Counts:
    """What became of the cases of a reader."""

    read: int = 0
    refused: int = 0
    memory: int = 0


def check(reader, content, folder, counts):
    """One case; raises what the reader must not raise, or AssertionError."""
    path = Path(folder, reader.file)
    path.write_bytes(content)
    tracemalloc.start()
    try:
        reader.read(str(path))
        counts.read += 1
    except UserError as error:
        counts.refused += 1
        assert str(error).strip(), "an error without a sentence"
        assert "\n" not in str(error)[:-1] or len(str(error)) < 2000, "an error of many lines"
        str(error).encode(errors="backslashreplace")
    finally:
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    counts.memory = max(counts.memory, taken)
    assert taken <= SLACK + FACTOR * len(content), f"{taken:,} bytes of memory for {len(content):,}"
    assert {each.name for each in Path(folder).iterdir()} <= {reader.file, DATA}, "it leaves files"


def run(reader, examples, **options):
    """Checks so many cases; returns the Counts. Raises the error of the smallest case that fails."""
    counts = Counts()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, DATA).write_bytes(crafted.NUMBERS + crafted.STRINGS)

        @hypothesis.settings(
            max_examples=examples, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck),
            **options,
        )  # fmt: skip
        @hypothesis.given(reader.contents())
        def property_(content):
            check(reader, content, folder, counts)

        property_()
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=1000, help="cases of each reader")
    parser.add_argument("--readers", default="", help="which, with commas; by default all")
    parser.add_argument("--seed", type=int, default=1, help="another number gives other cases")
    options = parser.parse_args()
    names = options.readers.split(",") if options.readers else (*READERS, "tf_index")
    if unknown := set(names) - {*READERS, "tf_index"}:
        parser.error(f"--readers has {', '.join(sorted(unknown))}; expected some of {', '.join(READERS)}, tf_index")
    failed = 0
    print("| reader | read | UserError | memory, MiB | CPU seconds | |")
    print("|---|---:|---:|---:|---:|---|")
    for name in names:
        begin, result, counts = time.process_time(), "", Counts()
        try:
            counts = run_seeded(READERS[name] if name in READERS else tf_index(), options.examples, options.seed)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            failed += 1
            result = "; ".join(map(_described, getattr(error, "exceptions", [error])))
        seconds = time.process_time() - begin
        row = f"| {name} | {counts.read:,} | {counts.refused:,} | {counts.memory / 2**20:.1f} | {seconds:.0f} |"
        print(f"{row} {result} |", flush=True)
    sys.exit(1 if failed else 0)


def _described(error):
    """An error, where it was raised, and the smallest case that raises it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    case = " ".join(getattr(error, "__notes__", []))[:300]
    return f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}: {str(error)[:100]!r}, {case}"


def run_seeded(reader, examples, seed):
    """As `run`, with the cases of a seed."""
    import random

    random.seed(seed)
    return run(reader, examples, phases=[hypothesis.Phase.generate])


if __name__ == "__main__":
    main()
