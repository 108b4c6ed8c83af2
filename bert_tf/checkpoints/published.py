"""Names of published checkpoints: `bert-base-uncased` is hf://google-bert/bert-base-uncased."""

import difflib
import os

# Name -> owner on the Hugging Face hub and purpose; docs/checkpoints.md shows the same table.
PUBLISHED = {
    "bert-base-uncased": ("google-bert", "English; the usual start for fine-tuning"),
    "bert-base-cased": ("google-bert", "English where case matters, as in names"),
    "bert-large-uncased": ("google-bert", "English, three times the parameters, one to three points better"),
    "bert-large-cased": ("google-bert", "the large model with case"),
    "bert-large-uncased-whole-word-masking": ("google-bert", "English; the best BERT for questions"),
    "bert-base-multilingual-cased": ("google-bert", "104 languages"),
    "bert-base-multilingual-uncased": ("google-bert", "102 languages, without case and accents"),
    "bert-base-chinese": ("google-bert", "Chinese, a token for each character"),
    "bert-base-german-cased": ("google-bert", "German"),
    "bert_uncased_L-2_H-128_A-2": ("google", "English, BERT-tiny: 4 million parameters"),
    "bert_uncased_L-4_H-256_A-4": ("google", "English, BERT-mini: 11 million parameters"),
    "bert_uncased_L-4_H-512_A-8": ("google", "English, BERT-small: 29 million parameters"),
    "bert_uncased_L-8_H-512_A-8": ("google", "English, BERT-medium: 41 million parameters"),
    "MiniLM-L12-H384-uncased": ("microsoft", "English, distilled: a third of base, nearly its scores"),
    "all-MiniLM-L6-v2": ("sentence-transformers", "embeddings of English sentences, small and fast"),
    "all-MiniLM-L12-v2": ("sentence-transformers", "embeddings of English sentences"),
    "bge-small-en-v1.5": ("BAAI", "embeddings for search in English"),
    "bge-base-en-v1.5": ("BAAI", "embeddings for search in English, better and slower"),
    "scibert_scivocab_uncased": ("allenai", "scientific articles"),
    "biobert-v1.1": ("dmis-lab", "biomedical articles, with case"),
}
_LOWER = {name.lower(): name for name in PUBLISHED}


def handle(name: str) -> str | None:
    """The hf:// handle of a published checkpoint by its name, in any case; None if there is none of that name."""
    published = _LOWER.get(name.lower())
    return f"hf://{PUBLISHED[published][0]}/{published}" if published else None


def suggestion(path: str) -> str:
    """What a user may have meant by a path that does not exist: a sentence that begins with a space, or ""."""
    if close := difflib.get_close_matches(path.lower(), _LOWER, n=3):
        return f" Did you mean {' or '.join(_LOWER[name] for name in close)}?"
    parts = path.split("/")
    if len(parts) == 2 and all(parts) and not os.path.exists(parts[0]):
        return f" If it is a model of the Hugging Face hub, write hf://{path}."
    return ""
