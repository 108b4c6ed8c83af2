"""BERT for TensorFlow 2: pre-training from your own text, fine-tuning and serving.

Importing the package imports neither TensorFlow nor Keras, so that user errors are reported at once and worker
processes that only read files stay small. Import the module you need:
`from bert_tf.config.bert_config import BertConfig`.
"""

from typing import TYPE_CHECKING

from bert_tf.errors import TrainingError, UserError
from bert_tf.runtime import keras_import

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence
    from typing import Unpack

    from bert_tf.api.bert import Bert
    from bert_tf.api.keras_layers import EncoderLayer, PreprocessingLayer
    from bert_tf.api.options import FineTuneOptions, PretrainOptions
    from bert_tf.api.training import Data, Run
    from bert_tf.config.segments import Segments
    from bert_tf.export.opening import Engine
    from bert_tf.families.bert.layer import Encoder
    from bert_tf.model.heads import (
        BertModel,
        Classifier,
        MultipleChoice,
        Pretrainer,
        Regressor,
        SpanFinder,
        TokenClassifier,
    )
    from bert_tf.training.run_directory import Callback

__version__ = "0.1.0"
__all__ = [
    "BertModel",
    "Classifier",
    "Encoder",
    "EncoderLayer",
    "MultipleChoice",
    "PreprocessingLayer",
    "Pretrainer",
    "Regressor",
    "SpanFinder",
    "TokenClassifier",
    "TrainingError",
    "UserError",
    "fine_tune",
    "load",
    "pretrain",
]
keras_import.register_classes()


def load(
    path: "str | os.PathLike[str]",
    format_name: str | None = None,
    *,
    special_tokens_in_strings: "bool | Sequence[str] | None" = None,
    segments: "Segments | None" = None,
    trust_code: bool = False,
    engine: "Engine | None" = None,
    labels: "Sequence[str] | int | None" = None,
    kind: str | None = None,
    new_head: bool = False,
) -> "Bert":
    """Reads any checkpoint that `bert-tf convert` takes, a run or an export, as a Keras model that also takes strings.

    The class of the Keras model follows from the head: Classifier, Regressor, MultipleChoice, SpanFinder,
    TokenClassifier, or Pretrainer for a masked LM head. Without a head, and for a tagger on frozen vectors, it is a
    BertModel, which returns the encoder's outputs. Unknown casing means lower case.

    Args:
        path: a folder, a prefix of files, a published name such as "bert-base-uncased", "hf://owner/name" or the name
            of a KerasHub preset.
        format_name: the format; by default detected from the path.
        special_tokens_in_strings: which special tokens are recognized in texts. False: none, "[MASK]" is split as in
            google-research/bert. True: the five and those added by the checkpoint. Tokens: these and the five. By
            default as specified in the checkpoint, else none.
        segments: segments of the texts of a pair: "one", the same for both, or "two"; by default as in the files.
        trust_code: whether files may name modules outside of this package, such as an encoder, which are then imported.
        engine: "openvino" or "onnx", or one of them with "_int8", runs the export's model for that engine,
            without loading TensorFlow, and has methods for texts but no Keras model; "auto" takes the fastest of those,
            else TensorFlow.
        labels: names of the labels to train on, or their number: the model gets a new head with random weights, unless
            the checkpoint has one with these labels.
        kind: the head's kind: "classes" (the default), "multi_label", "regression", "relevance", "tags", "span" or
            "choice".
        new_head: whether to replace the checkpoint's head.

    Raises:
        UserError: no format recognizes the path, a file is damaged or names code outside of this package, a weight of
            the encoder has a shape that does not fit the configuration, or the head has different labels or a different
            kind.

    Example:
        bert = bert_tf.load("my-bert", labels=["bad", "good"])
        bert.model.compile()
        bert.model.fit(bert_tf.PreprocessingLayer(bert)(texts), numbers)  # docs/keras.md
        bert.save("my-classifier")
    """
    from bert_tf.api import call_options, python_words

    with python_words.spoken():
        path = call_options.checked_path(path)
        options = call_options.checked(
            {
                "format_name": format_name,
                "special_tokens_in_strings": special_tokens_in_strings,
                "segments": segments,
                "trust_code": trust_code,
                "labels": labels,
                "kind": kind,
                "new_head": new_head,
            }
        )
        from bert_tf.api import bert

        return bert.load(path, engine=engine, **options)


def fine_tune(
    data: "Data",
    *,
    output_dir: "str | os.PathLike[str] | None" = None,
    text: "str | int | Sequence[str | int] | None" = None,
    label: "str | int | None" = None,
    eval_data: "Data" = None,
    callbacks: "Sequence[Callback]" = (),
    **options: "Unpack[FineTuneOptions]",
) -> "Run":
    """Fine-tunes a model on labeled texts, as `bert-tf finetune TABLE` does; returns the finished run.

    Anything you omit is chosen as in the command, and printed: the columns, the type of the labels,
    max_seq_length, and the checkpoint to start from. Rows without text or label (None, NaN, "") are skipped, and a
    warning counts and names them. Tagged words, in columns such as sentence_id, words and labels, make a tagger. Called
    again with the same arguments it resumes an interrupted run, and returns a finished one.

    Args:
        data: the path of a table; or rows: a pandas DataFrame, a dictionary of columns, a tf.data.Dataset, or an
            iterable of dictionaries or of tuples (text, label).
        output_dir: the run folder. By default runs/NAME for the table NAME.csv, and runs/table for rows; if that has a
            run on other rows, runs/table-2 and so on.
        text: the text column; two for pairs. By default the column named text, or the one with the longest texts.
        label: the label column. By default the column named label, or the only one with few distinct values.
        eval_data: validation data, in the form of `data`; by default a tenth of the data is held out.
        callbacks: functions of the step and {metric: value}, called with the metrics of training and evaluation.
        **options: flags of `bert-tf finetune` by name, such as init_checkpoint, num_train_epochs, learning_rate
            or label_type.

    Raises:
        UserError: an unknown option, a wrong value or wrong data; nothing was trained.
        TrainingError: training cannot continue.
    """
    from bert_tf.api import training

    return training.fine_tune(
        data, output_dir=output_dir, text=text, label=label, eval_data=eval_data, callbacks=callbacks, **options
    )


def pretrain(
    files: "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]" = "",
    *,
    output_dir: "str | os.PathLike[str]" = "runs/pretraining",
    texts: "Iterable[str] | None" = None,
    callbacks: "Sequence[Callback]" = (),
    **options: "Unpack[PretrainOptions]",
) -> "Run":
    """Pre-trains a model on raw text, as `bert-tf pretrain` does; returns the finished run.

    Called again with the same arguments it resumes an interrupted run, and returns a finished one.

    Args:
        files: text files, folders or globs.
        output_dir: the run folder.
        texts: documents, instead of files.
        callbacks: functions of the step and {metric: value}, called with the metrics of training and evaluation.
        **options: flags of `bert-tf pretrain` by name, such as model_size, num_train_steps or init_checkpoint.

    Raises:
        UserError: an unknown option, a wrong value or unreadable text; nothing was trained.
        TrainingError: training cannot continue.
    """
    from bert_tf.api import training

    return training.pretrain(files, output_dir=output_dir, texts=texts, callbacks=callbacks, **options)


# Keras classes -> their modules, which load TensorFlow.
_CLASSES = {
    **dict.fromkeys("BertModel Classifier MultipleChoice Pretrainer".split(), "bert_tf.model.heads"),
    **dict.fromkeys("Regressor SpanFinder TokenClassifier".split(), "bert_tf.model.heads"),
    **dict.fromkeys("EncoderLayer PreprocessingLayer".split(), "bert_tf.api.keras_layers"),
    "Encoder": "bert_tf.families.bert.layer",
}
# Names of these functions in other libraries, and methods of a loaded model.
_ELSEWHERE = {
    **dict.fromkeys(("frompretrained", "loadmodel", "bert", "automodel", "model", "pipeline"), "bert_tf.load(PATH)"),
    **dict.fromkeys(("train", "fit", "trainer"), "bert_tf.fine_tune"),
    **{
        name.replace("_", ""): f"bert_tf.load(PATH).{name}"
        for name in "predict embed entities answer tags fill_mask attribute zero_shot rank tokenizer".split()
    },
}


if not TYPE_CHECKING:  # otherwise every name would exist for type checkers

    def __getattr__(name: str) -> object:
        """A Keras class; AttributeError for an unknown name, with the name that may be meant."""
        import difflib
        import importlib

        if name in _CLASSES:
            return getattr(importlib.import_module(_CLASSES[name]), name)
        hint = _ELSEWHERE.get(name.lower().replace("_", ""))
        if hint is None:
            known = {public.lower().replace("_", ""): public for public in __all__}
            close = difflib.get_close_matches(name.lower().replace("_", ""), known, n=1)
            hint = f"bert_tf.{known[close[0]]}" if close and not name.startswith("__") else None
        meant = f". Did you mean {hint}?" if hint else ""
        raise AttributeError(f"module 'bert_tf' has no attribute {name!r}{meant}")
