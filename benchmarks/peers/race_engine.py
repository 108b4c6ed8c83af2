"""An export answered by an engine in a race, without TensorFlow; see ../race.py.

--precision names the engine, and "-bfloat16" after it the precision of the export. The export is written by another
process, beside the workload, when it is missing.
"""

import pathlib
import subprocess
import sys

import turns

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))

ENGINES = ("openvino-bfloat16", "openvino", "onnx", "openvino_int8", "onnx_int8")


def main():
    arguments = turns.parse_arguments(__doc__, ENGINES)
    workload = pathlib.Path(sys.argv[1].removeprefix("--work="))
    folder = workload.with_name(f"{arguments.work['kind']}_{arguments.size}_{arguments.precision}")
    if not folder.exists():
        subprocess.run([sys.executable, __file__, *sys.argv[1:], f"--write={folder}"], check=True)
    from bert_tf.export.host import Row
    from bert_tf.export.opening import predictor_of

    predictor, texts = predictor_of(str(folder), arguments.precision.partition("-")[0]), arguments.work["texts"]
    rows = [Row(text, [0] * len(text), [0]) for text in texts]
    is_encoding = arguments.work["kind"] == "encode"
    turns.serve(lambda: predictor.numbers(rows) if is_encoding else predictor.outputs([[text] for text in texts]))


def write(work, size, engine, folder):
    """Writes an export with a model for an engine: of vectors, or of a classifier."""
    from bert_tf.config.bert_config import BertConfig
    from bert_tf.export import saved_model
    from bert_tf.heads.classes import Classes
    from bert_tf.heads.vectors.extraction import Features
    from bert_tf.heads.vectors.vector_choice import VectorChoice, choose_layers
    from bert_tf.model import weights
    from bert_tf.runtime.lazy import keras
    from bert_tf.tasks.task import FineTuningTask
    from bert_tf.text import vocabulary
    from bert_tf.text.tokenizer import Tokenizer

    layers, width, heads = turns.SHAPES[size]
    shape = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads}
    config = BertConfig(vocab_size=work["vocab_size"], intermediate_size=4 * width, hidden_act="gelu_erf", **shape)
    is_encoding, texts = work["kind"] == "encode", work["texts"]
    if is_encoding:
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        tokenizer = Tokenizer(special + [f"word{number}" for number in range(5, work["vocab_size"])])
        choice = VectorChoice(layers=choose_layers("last", layers), unit="sentence", max_seq_length=work["seq_length"])
        task = Features(choice)
    else:
        tokenizer = Tokenizer(vocabulary.read(work["vocab_file"]))
        head = Classes(["no", "yes"]).configured(max_seq_length=work["seq_length"])
        task = FineTuningTask("race", {}, head, tokenizer, test_splits=())
    keras.utils.set_random_seed(0)
    model = task.create_model(config)
    if not is_encoding:  # random weights alone give numbers about as small as the error of 8 bits
        weights.variables_by_name(model)["classifier/bias"].assign([1.0, -1.0])
    about = {} if is_encoding else task.about()
    engine, _, precision = engine.partition("-")
    options = {"engine_names": [engine], "precision": precision or "float32"}
    if engine.endswith("_int8"):
        texts = [" ".join(f"word{number}" for number in ids) for ids in texts] if is_encoding else texts
        options["calibration"] = [[text] for text in texts]
    saved_model.export(task, model, tokenizer, folder, examples={}, about=about, **options)


if __name__ == "__main__":
    if sys.argv[-1].startswith("--write="):
        target = sys.argv.pop().removeprefix("--write=")
        arguments = turns.parse_arguments(__doc__, ENGINES)
        write(arguments.work, arguments.size, arguments.precision, target)
    else:
        main()
