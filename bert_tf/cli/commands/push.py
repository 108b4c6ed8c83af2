"""Uploads a model to the Hugging Face hub, with a model card.

  bert-tf push runs/sst2 my-name/sst2
  bert-tf push my-bert my-name/my-bert --private
  bert-tf push runs/sst2 my-name/sst2 --dry_run

FOLDER is the folder of a run, which is uploaded in Hugging Face's layout, with its card and its tokenizer; or a folder
that bert-tf convert or bert-tf export wrote, which is uploaded as it is. Both are loaded again by --init_checkpoint=
hf://my-name/sst2, and Hugging Face's layout by transformers too. The repository is created if there is none of that
name. Log in before with `hf auth login`, or set HF_TOKEN; HF_ENDPOINT names another server.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Sequence

from bert_tf.checkpoints import formats
from bert_tf.errors import UserError, count_text
from bert_tf.recipes import publishing
from bert_tf.reports import model_card
from bert_tf.runtime import files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="run, export or converted checkpoint")
    parser.add_argument("repository", metavar="OWNER/NAME", help="repository on the hub")
    parser.add_argument("--private", action="store_true", help="create a private repository")
    parser.add_argument("--revision", help="branch to upload to (main)")
    parser.add_argument("--message", default="Upload with bert_tf", help="commit message")
    parser.add_argument("--dry_run", action="store_true", help="list the files and show the card; upload nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> None:
    name = publishing.name_of(arguments.repository)
    if not files.is_folder(arguments.folder):
        raise UserError(f"There is no folder {arguments.folder}: pass a run, an export or a converted checkpoint.")
    with tempfile.TemporaryDirectory() as work:
        folder = arguments.folder
        if files.exists(os.path.join(folder, "run.json")):
            folder = os.path.join(work, name)
            checkpoint = formats.read(arguments.folder)
            formats.write(checkpoint, folder, publishing.format_for(checkpoint))
            model_card.write_of_run(arguments.folder, [folder])
        elif not files.exists(os.path.join(folder, model_card.CARD)):
            raise UserError(
                f"{folder} has no {model_card.CARD}, which the hub shows: pass a folder written by bert-tf convert or "
                "bert-tf export, or a run."
            )
        names = sorted(_names(folder))
        if arguments.dry_run:
            _show(folder, names, arguments)
            return
        options = {name: getattr(arguments, name) for name in ("private", "revision", "message")}
        url = publishing.upload(folder, arguments.repository, **options)
    if arguments.json:
        print(json.dumps({"repository": arguments.repository, "url": url, "files": names}))
        return
    print(f"Uploaded {count_text(len(names), 'file')} of {arguments.folder} to {url}: {', '.join(names)}.")


def _show(folder: str, names: Sequence[str], arguments: argparse.Namespace) -> None:
    """Prints the files that would be uploaded, with their sizes, and the card."""
    sizes = {name: files.size(os.path.join(folder, name)) for name in names}
    if arguments.json:
        print(json.dumps({"repository": arguments.repository, "files": sizes}))
        return
    print(f"{arguments.repository} would get {count_text(len(names), 'file')} of {sum(sizes.values()) / 1e6:,.1f} MB:")
    for name, size in sizes.items():
        print(f"  {size:>15,}  {name}")
    with files.open_text(os.path.join(folder, model_card.CARD)) as card:
        print("", card.read(), sep="\n")


def _names(folder: str) -> Iterator[str]:
    for path, _, names in os.walk(folder):
        for name in names:
            yield os.path.relpath(os.path.join(path, name), folder)
