"""Uploads model folders to the Hugging Face hub."""

import os

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import UserError, reason_of
from bert_tf.runtime.lazy import module

huggingface_hub = module("huggingface_hub")


def name_of(repository: str) -> str:
    """The name in owner/name; UserError for anything else."""
    owner, slash, name = repository.partition("/")
    if not (owner and slash and name) or "/" in name:
        raise UserError(f"{repository} is not a repository: pass owner/name.")
    return name


def format_for(checkpoint: Checkpoint) -> str:
    """Hugging Face's format, or this package's own if that lacks the encoder or pooling."""
    has_layout = checkpoint.config.encoder in formats.load("huggingface").ENCODERS and not checkpoint.reads_mean
    return "huggingface" if has_layout else "native"


def upload(folder: str, repository: str, *, private: bool, revision: str | None, message: str) -> str:
    """Creates the repository if it does not exist and uploads the files in one commit; returns its address."""
    api = huggingface_hub.HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    try:
        url = api.create_repo(repository, private=private or None, exist_ok=True)
        api.upload_folder(repo_id=repository, folder_path=folder, revision=revision, commit_message=message)
    except Exception as error:  # from the network or the hub
        raise UserError(
            f"{repository} could not be uploaded ({reason_of(error)}): log in with `hf auth login` or "
            "set HF_TOKEN, and check the name and the network."
        ) from None
    return str(url)
