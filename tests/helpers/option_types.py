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
# Those that the functions have as arguments, and one that only commands have.
OWN = {"output_dir", "train_file", "text_columns", "label_column", "dry_run"}
PATHS = ("_file", "_dir", "checkpoint", "teacher", "_cache", "write_examples")


def render() -> str:
    """The text of the file."""
    scripts = {"finetune": (finetune.Flags, OWN), "pretrain": (pretrain.Flags, {"output_dir", "input_file", "dry_run"})}
    lines = {
        command: {name: _line(name, field) for name, field in fields_of(kind).items() if name not in own}
        for command, (kind, own) in scripts.items()
    }
    both = {name: line for name, line in lines["finetune"].items() if lines["pretrain"].get(name) == line}
    parts = [HEAD, _class("Options", "TypedDict, total=False", "The flags that both commands have.", both)]
    for name, command in (("FineTuneOptions", "finetune"), ("PretrainOptions", "pretrain")):
        own = {option: line for option, line in lines[command].items() if option not in both}
        parts.append(_class(name, "Options, total=False", f"The flags of `bert-tf {command}`.", own))
    return "".join(parts)


def _class(name: str, bases: str, doc: str, lines: Any) -> str:
    return f'\n\nclass {name}({bases}):\n    """{doc}"""\n\n' + "".join(lines[option] for option in sorted(lines))


def _line(name: str, field: Any) -> str:
    return f"    {name}: {_type(name, field)}  # {_summary(field)}\n"


def _type(name: str, field: Any) -> str:
    choices = choices_of(field.metadata)
    if choices:
        literal = f"Literal[{', '.join(repr(choice).replace(chr(39), chr(34)) for choice in choices)}]"
        return f"{literal} | str" if field.metadata["names_code"] else literal
    kinds = {bool: "bool", int: "int", float: "float", float | None: "float | None", str: "str"}
    kind = "StrPath" if field.type is str and name.endswith(PATHS) else kinds[field.type]
    words = "".join(f', "{word}"' for word in field.metadata["words"])
    return f"{kind} | Literal[{words[2:]}]" if words else kind


def _summary(field: Any) -> str:
    return " ".join(field.metadata["help"].split())


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
