"""Writes bert_tf/api/options.py, the types of the options of `fine_tune` and `pretrain`, from the flags:

python tests/helpers/option_types.py
"""

import pathlib
from typing import Any

import bert_tf
from bert_tf.config.options import choices_of, fields_of
from bert_tf.recipes import finetune, pretrain

PATH = pathlib.Path(bert_tf.__file__).parent / "api" / "options.py"
HEAD = '''"""Types of the options of `bert_tf.fine_tune` and `bert_tf.pretrain`, for editors and type checkers.

Each option is a flag of `bert-tf finetune` or `bert-tf pretrain`, whose help is the comment. This file is written from
the flags by tests/helpers/option_types.py.
"""

# ruff: noqa: E501
# fmt: off

import os
from typing import Literal, TypedDict

StrPath = str | os.PathLike[str]
'''
# Those that the functions have as arguments.
OWN = {"output_dir", "train_file", "text_columns", "label_column"}
PATHS = ("_file", "_dir", "checkpoint", "teacher", "_cache", "write_examples")


def render() -> str:
    """The text of the file."""
    parts = [HEAD]
    for name, kind, own in (
        ("FineTuneOptions", finetune.Flags, OWN),
        ("PretrainOptions", pretrain.Flags, {"output_dir", "input_file"}),
    ):
        command = "finetune" if kind is finetune.Flags else "pretrain"
        parts.append(f'\n\nclass {name}(TypedDict, total=False):\n    """The flags of `bert-tf {command}`."""\n\n')
        for option, field in sorted(fields_of(kind).items()):
            if option not in own:
                parts.append(f"    {option}: {_type(option, field)}  # {_summary(field)}\n")
    return "".join(parts)


def _type(name: str, field: Any) -> str:
    choices = choices_of(field.metadata)
    if choices and not field.metadata["names_code"]:
        return f"Literal[{', '.join(repr(choice).replace(chr(39), chr(34)) for choice in choices)}]"
    kinds = {bool: "bool", int: "int", float: "float", float | None: "float | None", str: "str"}
    kind = "StrPath" if field.type is str and name.endswith(PATHS) else kinds[field.type]
    words = "".join(f', "{word}"' for word in field.metadata["words"])
    return f"{kind} | Literal[{words[2:]}]" if words else kind


def _summary(field: Any) -> str:
    return " ".join(field.metadata["help"].split())


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
