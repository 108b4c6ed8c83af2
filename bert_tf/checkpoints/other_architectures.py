"""Published architectures that are not supported, and for each the nearest checkpoint that is.

docs/encoders.md shows the same table.
"""

import re
from typing import NamedTuple


class Other(NamedTuple):
    """An architecture of `transformers`: its name, the name of a checkpoint in `published.PUBLISHED` to take instead.

    pattern: what the names of its checkpoints have in them; "": its model_type.
    """

    name: str
    nearest: str
    pattern: str = ""


OTHERS = {  # by the model_type of config.json, with " of " where others of the type are supported
    "bart": Other("BART", "roberta-base"),
    "bert of MosaicBERT": Other("MosaicBERT or DNABERT-2", "ModernBERT-base", "mosaic-bert|dnabert"),
    "bert-generation": Other("BertGeneration", "bert-large-uncased"),
    "big_bird": Other("BigBird", "ModernBERT-base", "bigbird"),
    "canine": Other("CANINE", "xlm-roberta-base"),
    "convbert": Other("ConvBERT", "electra-base-discriminator", "convbert|conv-bert"),
    "data2vec-text": Other("data2vec", "roberta-base"),
    "deberta": Other("DeBERTa (v1)", "deberta-v3-base", "deberta-(base|large|xlarge)"),
    "embedding_gemma2": Other("EmbeddingGemma 2", "multilingual-e5-base", "embeddinggemma-2"),
    "embedding_gemma2_text": Other("EmbeddingGemma 2", "multilingual-e5-base"),
    "ernie": Other("ERNIE", "bert-base-chinese"),
    "ernie_m": Other("ERNIE-M", "xlm-roberta-base", "ernie-m"),
    "esm": Other("ESM", "ModernBERT-base", r"esm[12]"),
    "esmc": Other("ESM C", "ModernBERT-base"),
    "eurobert": Other("EuroBERT", "xlm-roberta-base"),
    "flaubert": Other("FlauBERT", "camembert-base"),
    "fnet": Other("FNet", "bert-base-cased"),
    "funnel": Other("Funnel Transformer", "electra-base-discriminator", "funnel-transformer"),
    "gemma2": Other("Gemma 2", "bge-m3", "[a-z0-9-]*gemma-?2"),
    "gemma3_text": Other("EmbeddingGemma", "multilingual-e5-base", "embeddinggemma"),
    "gpt2": Other("GPT-2", "roberta-base"),
    "gpt_neox": Other("GPT-NeoX", "ModernBERT-base", "gpt-neox|pythia"),
    "gte": Other("GTE v1.5 of Snowflake", "bge-m3", "arctic-embed-m-v2"),
    "ibert": Other("I-BERT", "roberta-base"),
    "jina_bert": Other("JinaBERT", "gte-modernbert-base", "jina-bert|jina-embeddings-v2"),
    "jina_embeddings_v3": Other("Jina embeddings v3", "bge-m3", "jina-embeddings-v3"),
    "layoutlm": Other("LayoutLM", "bert-base-uncased"),
    "layoutlmv2": Other("LayoutLMv2", "bert-base-uncased"),
    "layoutlmv3": Other("LayoutLMv3", "roberta-base"),
    "lfm2": Other("LFM2", "bge-m3"),
    "lilt": Other("LiLT", "xlm-roberta-base"),
    "llama": Other("Llama", "ModernBERT-base"),
    "longformer": Other("Longformer", "ModernBERT-base"),
    "longt5": Other("LongT5", "ModernBERT-base", "long-?t5"),
    "luke": Other("LUKE", "roberta-base"),
    "markuplm": Other("MarkupLM", "roberta-base"),
    "mistral": Other("Mistral", "bge-m3"),
    "mobilebert": Other("MobileBERT", "MiniLM-L12-H384-uncased"),
    "modernbert of mmBERT": Other("The tokenizer of mmBERT", "xlm-roberta-base", "mmbert"),
    "modernbert-decoder": Other("ModernBERT as a decoder", "ModernBERT-base", "ettin-decoder"),
    "modernvbert": Other("ModernVBERT", "ModernBERT-base"),
    "mra": Other("MRA", "ModernBERT-base"),
    "mt5": Other("mT5", "mdeberta-v3-base"),
    "neobert": Other("NeoBERT", "ModernBERT-base"),
    "new": Other("GTE v1.5", "gte-modernbert-base", "gte-[a-z]+-en-v1.5|gte-multilingual|stella_en_400m"),
    "nezha": Other("NEZHA", "bert-base-chinese"),
    "nomic_bert of experts": Other("NomicBERT with experts", "multilingual-e5-base", "nomic-embed-text-v2-moe"),
    "nystromformer": Other("Nyströmformer", "ModernBERT-base"),
    "phi3": Other("Phi-3", "ModernBERT-base", "phi-3"),
    "qwen2": Other("Qwen2", "bge-m3", "(gte-)?qwen2|stella_en_1"),
    "qwen3": Other("Qwen3", "bge-m3"),
    "reformer": Other("Reformer", "ModernBERT-base"),
    "rembert": Other("RemBERT", "xlm-roberta-large"),
    "roberta of PhoBERT": Other("The tokenizer of PhoBERT or BERTweet", "xlm-roberta-base", "phobert|bertweet"),
    "roberta-prelayernorm": Other("RoBERTa-PreLayerNorm", "roberta-base", "efficient_mlm"),
    "roc_bert": Other("RoCBert", "bert-base-chinese", "roc-bert"),
    "roformer": Other("RoFormer", "bert-base-chinese"),
    "splinter": Other("Splinter", "bert-large-uncased-whole-word-masking"),
    "squeezebert": Other("SqueezeBERT", "distilbert-base-uncased"),
    "t5": Other("T5", "roberta-base", r"t5\b"),
    "tapas": Other("TAPAS", "bert-base-uncased"),
    "ultrabert": Other("UltraBERT", "ModernBERT-base"),
    "umt5": Other("UMT5", "mdeberta-v3-base"),
    "xlm": Other("XLM", "xlm-roberta-base", "xlm-(mlm|clm)"),
    "xlm-roberta-xl": Other("XLM-RoBERTa-XL", "xlm-roberta-large"),
    "xmod": Other("X-MOD", "xlm-roberta-base"),
    "yoso": Other("YOSO", "ModernBERT-base"),
}


def advice(model_type: str) -> str:
    """Advice instead of a model of that type: the end of a sentence, or "" if it is not in the table."""
    other = OTHERS.get(model_type)
    return f"{other.name} is not supported, and {other.nearest} is the nearest that is" if other else ""


def advice_for_name(name: str) -> str:
    """The same for the name of a checkpoint."""
    patterns = ((kind, other.pattern or kind.replace("_", "[_-]")) for kind, other in OTHERS.items())
    found = [kind for kind, pattern in patterns if re.search(f"(^|[/_-])({pattern})", name.lower())]
    return advice(max(found, key=len)) if found else ""
