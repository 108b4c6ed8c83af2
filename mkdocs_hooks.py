"""What `mkdocs build` adds: a page of all flags, the arguments of everything in the reference, a page not searched."""

import argparse
from collections.abc import Iterator

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from bert_tf.cli import main
from bert_tf.config.entry_point import help_groups
from bert_tf.config.options import choices_of, fields_of
from bert_tf.recipes import finetune, finetune_squad, pretrain

RECIPES = {"pretrain": pretrain.Flags, "finetune": finetune.Flags, "squad": finetune_squad.Flags}
HEAD = """# All flags

Of every command, with defaults in parentheses. `bert-tf COMMAND --help` shows the same. In Python, the flags of
`pretrain`, `finetune` and `squad` are the options of `bert_tf.pretrain` and `bert_tf.fine_tune`, by the same names.
"""

REFERENCE = """

::: bert_tf
    options:
      members: [load, fine_tune, pretrain]
      show_root_heading: false
      show_root_toc_entry: false

::: bert_tf.api.bert.Bert

::: bert_tf.api.results

::: bert_tf.api.training.Run

::: bert_tf.model.heads
    options:
      members: [BertModel, Classifier, Regressor, TokenClassifier, SpanFinder, MultipleChoice, Pretrainer]

::: bert_tf.families.bert.layer.BertEncoder

::: bert_tf.api.keras_layers
    options:
      members: [EncoderLayer, PreprocessingLayer]

::: bert_tf.text.tokenizer.Tokenizer

::: bert_tf.text.tokenizer.pack
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the page to those of docs/."""
    files.append(File.generated(config, "flags.md", content="\n".join(page())))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Adds the arguments to the reference, and keeps the history of all measurements out of the search."""
    if page.file.src_uri == "results_history.md":
        page.meta["search"] = {"exclude": True}
    return markdown + REFERENCE if page.file.src_uri == "api.md" else markdown


def page() -> Iterator[str]:
    """Yields the lines of the page."""
    yield HEAD
    for name, kind in RECIPES.items():
        yield f"## bert-tf {name}"
        fields = fields_of(kind)
        for title, names in help_groups(kind).items():
            yield f"\n**{title}**\n\n| flag | |\n|---|---|"
            yield from (_row(f"--{each}", fields[each].metadata, fields[each].default) for each in names)
        yield ""
    (commands,) = (each for each in main.parser()._actions if isinstance(each, argparse._SubParsersAction))
    for name, command in commands.choices.items():
        if name not in RECIPES:
            yield f"## bert-tf {name}\n\n{command.description.partition(chr(10))[0]}\n\n| flag | |\n|---|---|"
            for action in command._actions:
                if action.help and action.help != argparse.SUPPRESS and action.dest != "help":
                    flag = action.option_strings[0] if action.option_strings else action.metavar or action.dest
                    yield f"| {_code(flag)} | {_cell(action.help % {'default': action.default})} |"
            yield ""


def _row(flag: str, metadata: dict, default: object) -> str:
    default = next((word for word, number in metadata["words"].items() if number == default), default)
    shown = str(default).lower() if isinstance(default, bool) else default
    choices = " ".join(f"`{each}`" for each in choices_of(metadata) if each)
    parts = [
        metadata["help"],
        f"One of {choices}." if choices else "",
        f"(`{shown}`)" if shown not in ("", None) else "",
    ]
    return f"| {_code(flag)} | {_cell(' '.join(filter(None, parts)))} |"


def _code(flag: str) -> str:
    return f'<code style="white-space: nowrap">{flag}</code>'


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
