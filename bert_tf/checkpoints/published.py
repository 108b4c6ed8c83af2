"""Names of published checkpoints: `bert-base-uncased` is hf://google-bert/bert-base-uncased."""

import difflib
import os
import re
from typing import NamedTuple


class Published(NamedTuple):
    """A checkpoint on the Hugging Face hub: its owner, the license in its model card ("": none), its purpose."""

    owner: str
    license: str
    purpose: str


# By name; docs/checkpoints.md shows the same table.
PUBLISHED = {
    "bert-base-uncased": Published("google-bert", "apache-2.0", "English; the usual start for fine-tuning"),
    "bert-base-cased": Published("google-bert", "apache-2.0", "English where case matters, as in names"),
    "bert-large-uncased": Published("google-bert", "apache-2.0", "English, three times as large, 1 to 3 points better"),
    "bert-large-cased": Published("google-bert", "apache-2.0", "the large version with case"),
    "bert-large-uncased-whole-word-masking": Published("google-bert", "apache-2.0", "English; best for questions"),
    "bert-base-multilingual-cased": Published("google-bert", "apache-2.0", "104 languages"),
    "bert-base-multilingual-uncased": Published("google-bert", "apache-2.0", "102 languages, without case and accents"),
    "bert-base-chinese": Published("google-bert", "apache-2.0", "Chinese, one token per character"),
    "bert-base-german-cased": Published("google-bert", "mit", "German"),
    "bert_uncased_L-2_H-128_A-2": Published("google", "apache-2.0", "English, BERT-tiny: 4 million parameters"),
    "bert_uncased_L-4_H-256_A-4": Published("google", "apache-2.0", "English, BERT-mini: 11 million parameters"),
    "bert_uncased_L-4_H-512_A-8": Published("google", "apache-2.0", "English, BERT-small: 29 million parameters"),
    "bert_uncased_L-8_H-512_A-8": Published("google", "apache-2.0", "English, BERT-medium: 41 million parameters"),
    "MiniLM-L12-H384-uncased": Published("microsoft", "mit", "English, distilled: a third of base, nearly its scores"),
    "distilbert-base-uncased": Published(
        "distilbert", "apache-2.0", "English, half as deep as base, nearly its scores"
    ),
    "distilroberta-base": Published("distilbert", "apache-2.0", "English with case, half as deep as roberta-base"),
    "roberta-base": Published("FacebookAI", "mit", "English with case, any characters; better than BERT"),
    "roberta-large": Published("FacebookAI", "mit", "the large version"),
    "albert-base-v2": Published("albert", "apache-2.0", "English, 12 million parameters, as slow as base"),
    "electra-small-discriminator": Published("google", "apache-2.0", "English, small and fast, better than its size"),
    "electra-base-discriminator": Published("google", "apache-2.0", "English, better than BERT"),
    "all-MiniLM-L6-v2": Published("sentence-transformers", "apache-2.0", "English sentence embeddings; small, fast"),
    "all-MiniLM-L12-v2": Published("sentence-transformers", "apache-2.0", "English sentence embeddings"),
    "bge-small-en-v1.5": Published("BAAI", "mit", "embeddings for search in English"),
    "bge-base-en-v1.5": Published("BAAI", "mit", "embeddings for search in English, better and slower"),
    "xlm-roberta-base": Published(
        "FacebookAI", "mit", "a hundred languages, with case; fine-tuning in one carries over to all"
    ),
    "xlm-roberta-large": Published("FacebookAI", "mit", "the large version"),
    "mpnet-base": Published("microsoft", "", "English; the start of all-mpnet-base-v2"),
    "camembert-base": Published("almanach", "mit", "French"),
    "gbert-base": Published("deepset", "mit", "German, better than bert-base-german-cased"),
    "chinese-roberta-wwm-ext": Published("hfl", "apache-2.0", "Chinese, better than bert-base-chinese"),
    "xlnet-base-cased": Published("xlnet", "mit", "English with case; deberta-v3-base is newer and better"),
    "ModernBERT-base": Published(
        "answerdotai", "apache-2.0", "English and code, texts of up to 8,192 tokens; better, faster"
    ),
    "ModernBERT-large": Published("answerdotai", "apache-2.0", "the large version"),
    "deberta-v3-small": Published("microsoft", "mit", "English, half as deep as deberta-v3-base"),
    "deberta-v3-base": Published("microsoft", "mit", "English; the best of its size, 1.5 times the time of BERT"),
    "deberta-v3-large": Published("microsoft", "mit", "the large version"),
    "mdeberta-v3-base": Published("microsoft", "mit", "a hundred languages; better than xlm-roberta-base"),
    "all-mpnet-base-v2": Published(
        "sentence-transformers", "apache-2.0", "English sentence embeddings; better, slower"
    ),
    "paraphrase-multilingual-MiniLM-L12-v2": Published(
        "sentence-transformers", "apache-2.0", "sentence embeddings in 50 languages"
    ),
    "multilingual-e5-small": Published("intfloat", "mit", "embeddings for search in a hundred languages; small"),
    "multilingual-e5-base": Published("intfloat", "mit", "embeddings for search in a hundred languages"),
    "bge-m3": Published("BAAI", "mit", "embeddings for search in a hundred languages, of up to 8,192 tokens; large"),
    "gte-modernbert-base": Published(
        "Alibaba-NLP", "apache-2.0", "embeddings for search in English, up to 8,192 tokens"
    ),
    "nomic-embed-text-v1.5": Published(
        "nomic-ai", "apache-2.0", "embeddings for search in English, up to 2,048 tokens"
    ),
    "ms-marco-MiniLM-L6-v2": Published("cross-encoder", "apache-2.0", "re-ranks search results, English"),
    "bge-reranker-v2-m3": Published("BAAI", "apache-2.0", "re-ranks search results, a hundred languages; large"),
    "nli-deberta-v3-base": Published(
        "cross-encoder", "apache-2.0", "English entailment (NLI); zero-shot classification"
    ),
    "mDeBERTa-v3-base-mnli-xnli": Published("MoritzLaurer", "mit", "the same in a hundred languages"),
    "scibert_scivocab_uncased": Published("allenai", "", "scientific articles"),
    "biobert-v1.1": Published("dmis-lab", "", "biomedical articles, with case"),
}
# Supported checkpoint -> unsupported architectures for which it is the nearest: prefixes of their checkpoint names, or
# with a colon their model_type. docs/encoders.md lists them.
NEAREST = {
    "bert-base-cased": "fnet",
    "bert-base-chinese": "ernie|nezha|roc-bert|roformer",
    "bert-base-uncased": "layoutlm|layoutlmv2|tapas",
    "bert-large-uncased": "bert-generation",
    "bert-large-uncased-whole-word-masking": "splinter",
    "bge-m3": "arctic-embed-m-v2|bge-multilingual-gemma2|gemma-?2|gte:|gte-qwen2|jina-embeddings-v3|lfm2|mistral|"
    "qwen[23]|stella-en-1",
    "camembert-base": "flaubert",
    "deberta-v3-base": "deberta:|deberta-(base|large|xlarge)",
    "distilbert-base-uncased": "squeezebert",
    "electra-base-discriminator": "conv-?bert|funnel:|funnel-transformer",
    "gte-modernbert-base": "gte-[a-z]+-en-v1.5|gte-multilingual|jina-bert|jina-embeddings-v2|new:|stella-en-400m",
    "mdeberta-v3-base": "u?mt5",
    "MiniLM-L12-H384-uncased": "mobilebert",
    "ModernBERT-base": "big-?bird|dnabert|esm[12c:]|ettin-decoder|gpt-neox|llama|long-?t5|longformer|"
    "modernbert-decoder|modernvbert|mosaic-bert|mra|neobert|nystromformer|phi-?3|pythia|reformer|ultrabert|yoso",
    "multilingual-e5-base": "embedding-?gemma|gemma3-text|nomic-embed-text-v2-moe",
    "roberta-base": "bart|data2vec-text|efficient-mlm|gpt2|ibert|layoutlmv3|luke|markuplm|roberta-prelayernorm|t5\\b",
    "xlm-roberta-base": "bertweet|canine|ernie-m|eurobert|lilt|mmbert|phobert|xlm:|xlm-(mlm|clm)|xmod",
    "xlm-roberta-large": "rembert|xlm-roberta-xl",
}
_LOWER = {name.lower(): name for name in PUBLISHED}


def handle(name: str) -> str | None:
    """The hf:// handle of a published checkpoint by its name, in any case; None for an unknown name."""
    published = _LOWER.get(name.lower())
    return f"hf://{PUBLISHED[published].owner}/{published}" if published else None


def license_of(name: str) -> str | None:
    """The license of a published checkpoint by its name or hf:// handle; None if unknown."""
    published = _LOWER.get(name.rpartition("/")[2].lower())
    if published is None or name not in (published, handle(published)) and name.lower() != published.lower():
        return None
    return PUBLISHED[published].license or None


def nearest(name: str) -> str | None:
    """The checkpoint to use instead of one with an unsupported architecture; None if unknown.

    name: the name of the checkpoint, or its model_type and a colon.
    """
    plain = name.lower().replace("_", "-")
    found = {near: re.search(f"(^|[/-])({words})", plain) for near, words in NEAREST.items()}
    lengths = {near: len(match[2]) for near, match in found.items() if match}
    return max(lengths, key=lambda near: lengths[near]) if lengths else None


def suggestion(path: str) -> str:
    """Suggestion for a path that does not exist: a sentence that begins with a space, or ""."""
    if near := nearest(path):
        return f" Its architecture is not supported; the nearest supported checkpoint is {near}."
    if close := difflib.get_close_matches(path.lower(), _LOWER, n=3):
        return f" Did you mean {' or '.join(_LOWER[name] for name in close)}?"
    parts = path.split("/")
    if len(parts) == 2 and all(parts) and not os.path.exists(parts[0]):
        return f" If it is a Hugging Face Hub model, write hf://{path}."
    return ""
