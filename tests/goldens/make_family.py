"""Writes family.npz: what `transformers` computes for BERT's relatives, in small configurations.

    python tests/goldens/make_family.py [ENCODER ...]

It needs torch and transformers, in an environment of their own, and neither TensorFlow nor this package. Weights are
not stored: `golden_weights.weight` makes them from their names. Of each class of an architecture: configuration, names
and shapes of weights, outputs; of the classes that are pre-trained also the norm of the gradient of every weight, and
the losses of steps of gradient descent.
"""

import json
import pathlib
import re
import sys

import numpy as np
import torch
import transformers

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.append(str(FOLDER.parent / "helpers"))

import golden_weights  # noqa: E402

IDS = [[2, 7, 8, 9, 10, 3, 0, 0], [2, 20, 21, 3, 22, 23, 24, 3]]
SEGMENTS = [[0] * 8, [0, 0, 0, 0, 1, 1, 1, 1]]
LENGTHS = [6, 8]
LABELS = [[-100, 11, -100, 12, -100, -100, -100, -100], [-100, -100, 25, -100, -100, 26, 27, -100]]
PAIR_LABELS = [0, 1]
STEPS, RATE = 3, 0.05
SHAPE = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 12,
}
DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
DISTILBERT = {
    "vocab_size": 40,
    "dim": 16,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 24,
    "max_position_embeddings": 12,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "seq_classif_dropout": 0.0,
    "qa_dropout": 0.0,
}
NOMIC = {
    "self_attn.o_proj": "attn.out_proj",
    "up_proj": "fc11",
    "gate_proj": "fc12",
    "down_proj": "fc2",
    "post_attention_layernorm": "norm1",
    "post_mlp_layernorm": "norm2",
}
# {encoder: (how classes begin, class that is pre-trained, configuration)}
MODELS = {
    "distilbert": ("DistilBert", "ForMaskedLM", DISTILBERT),
    "albert": (
        "Albert",
        "ForPreTraining",
        SHAPE
        | DROPOUT
        | {"embedding_size": 8, "num_hidden_groups": 2, "num_hidden_layers": 4, "hidden_act": "gelu_new"},
    ),
    "deberta_v2": (
        "DebertaV2",
        "ForMaskedLM",
        SHAPE
        | DROPOUT
        | {"relative_attention": True, "pos_att_type": "p2c|c2p", "share_att_key": True, "norm_rel_ebd": "layer_norm"}
        | {"position_buckets": 4, "max_relative_positions": 12, "position_biased_input": False, "type_vocab_size": 0}
        | {"conv_kernel_size": 3, "conv_act": "gelu"},
    ),
    "electra": ("Electra", "ForMaskedLM", SHAPE | DROPOUT | {"embedding_size": 8}),
    "modern_bert": (
        "ModernBert",
        "ForMaskedLM",
        SHAPE
        | {"num_hidden_layers": 4, "pad_token_id": 0, "local_attention": 4, "classifier_pooling": "mean"}
        | dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")),
    ),
    "nomic_bert": ("NomicBert", "ForMaskedLM", SHAPE),
    "pre_ln_bert": ("MegatronBert", "ForPreTraining", SHAPE | DROPOUT),
    "roberta": (
        "Roberta",
        "ForMaskedLM",
        SHAPE
        | DROPOUT
        | {"max_position_embeddings": 14, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
        | {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
    ),
    "xlm_roberta": (
        "XLMRoberta",
        "ForMaskedLM",
        SHAPE
        | DROPOUT
        | {"max_position_embeddings": 14, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
        | {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
    ),
    "xlnet": (
        "XLNet",
        "ForTokenClassification",
        {"vocab_size": 40, "d_model": 16, "n_layer": 2, "n_head": 4, "d_inner": 24, "dropout": 0.0}
        | {"cls_token_id": 2, "pad_token_id": 5},
    ),
    "mpnet": (
        "MPNet",
        "ForMaskedLM",
        SHAPE
        | DROPOUT
        | {"max_position_embeddings": 14, "layer_norm_eps": 1e-5}
        | {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
    ),
}
TASKS = ("ForSequenceClassification", "ForMultipleChoice", "ForTokenClassification", "ForQuestionAnswering")
# XLNet's rows end in <cls>, with a segment of its own, and are padded on the left: each the place of its tokens here.
SOURCES = [[7, 7, 1, 2, 3, 4, 5, 0], [*range(1, 8), 0]]
PLACES = [[7, 2, 3, 4, 5, 6, 0, 0], [7, *range(7)]]


def create(name, config):
    """A model with the weights of `golden_weights`, in evaluation."""
    model = getattr(transformers, name)(config)
    with torch.no_grad():
        for key, tensor in parameters(model).items():
            stored, part, count = in_file(key, name)
            shape = (count * tensor.shape[0], *tensor.shape[1:])
            tensor.copy_(torch.from_numpy(np.split(golden_weights.weight(stored, shape), count)[part]))
    return model.eval()


def in_file(key, name):
    """The name of a weight in files, which part of it a parameter is, and of how many."""
    if not name.startswith("NomicBert") or key.startswith("cls."):
        return key, 0, 1
    key = re.sub(r"\blayers", "encoder.layers", key).replace("embeddings.LayerNorm", "emb_ln")
    for ours, theirs in NOMIC.items():
        key = key.replace(ours, theirs)
    part = re.search(r"self_attn\.([qkv])_proj", key)
    return (key.replace(part[0], "attn.Wqkv"), "qkv".index(part[1]), 3) if part else (key, 0, 1)


def parameters(model):
    """{name: parameter}; a tied weight is there once, under the name by which it is saved; those that are used."""
    names = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if "mask_emb" not in name and (parameter not in names or "decoder" in names[parameter]):
            names[parameter] = name
    return {name: parameter for parameter, name in names.items()}


def inputs_of(model, encoder):
    mask = (torch.arange(8)[None] < torch.tensor(LENGTHS)[:, None]).long()
    ids = torch.where(mask > 0, torch.tensor(IDS), model.config.pad_token_id)
    if encoder == "xlnet":
        places = torch.tensor(SOURCES)
        is_cls = torch.arange(8)[None] == 7
        segments = torch.where(is_cls, 2, torch.tensor(SEGMENTS).gather(1, places))
        return {
            "input_ids": ids.gather(1, places),
            "attention_mask": mask.gather(1, places),
            "token_type_ids": segments,
        }
    values = {"input_ids": ids, "attention_mask": mask}
    return values if encoder in WITHOUT_SEGMENTS else values | {"token_type_ids": torch.tensor(SEGMENTS)}


WITHOUT_SEGMENTS = ("distilbert", "roberta", "xlm_roberta", "mpnet", "modern_bert")


def outputs_of(model, inputs, ending):
    if ending == "ForMultipleChoice":
        inputs = {name: value[None] for name, value in inputs.items()}
    with torch.no_grad():
        outputs = model(**inputs)
    names = ("last_hidden_state", "pooler_output", "logits", "prediction_logits", "seq_relationship_logits",
             "sop_logits", "start_logits", "end_logits")  # fmt: skip
    found = {name: outputs[name].numpy() for name in names if outputs.get(name) is not None}
    if isinstance(model.config, transformers.XLNetConfig):
        return {name: x[np.arange(2)[:, None], PLACES] if x.shape[1] == 8 else x for name, x in found.items()}
    return found


def loss_of(model, inputs):
    """Mean masked-LM loss, plus that of the pairs if there is one."""
    outputs = model(**inputs)
    logits = outputs["prediction_logits"] if "prediction_logits" in outputs else outputs["logits"]
    labels = torch.tensor(LABELS)
    if isinstance(model.config, transformers.XLNetConfig):
        labels = torch.where(labels < 0, labels, labels % 2).gather(1, torch.tensor(SOURCES))
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    pairs = outputs.get("seq_relationship_logits", outputs.get("sop_logits"))
    return loss if pairs is None else loss + torch.nn.functional.cross_entropy(pairs, torch.tensor(PAIR_LABELS))


def training(model, inputs, class_name):
    """Norms of the first gradient, and the loss before each step of plain gradient descent."""
    norms, losses = {}, []
    for step in range(STEPS):
        model.zero_grad()
        loss = loss_of(model, inputs)
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            for name, tensor in parameters(model).items():
                if tensor.grad is not None:
                    stored = in_file(name, class_name)[0]
                    norm = np.hypot(norms.get(stored, 0.0), float(tensor.grad.norm()))
                    norms |= {stored: norm} if step == 0 else {}
                    tensor -= RATE * tensor.grad
    return norms, losses


def main():
    path = FOLDER / "family.npz"
    arrays = dict(np.load(path)) if path.exists() else {}
    about = json.loads(str(arrays.pop("about", "{}")))
    for encoder in sys.argv[1:] or MODELS:
        begin, pretrained, settings = MODELS[encoder]
        arrays = {name: array for name, array in arrays.items() if not name.startswith(f"{encoder}/")}
        config_class = getattr(transformers, f"{begin}Config")
        config = config_class(**settings, attn_implementation="eager")
        about[encoder] = {"config": settings | {"model_type": config.model_type}, "classes": {}}
        more = {"electra": "ForPreTraining", "xlnet": "ForQuestionAnsweringSimple"}
        for ending in dict.fromkeys(("Model", pretrained, *TASKS, *([more[encoder]] if encoder in more else []))):
            if (encoder, ending) == ("xlnet", "ForQuestionAnswering"):
                continue
            if not hasattr(transformers, begin + ending):
                continue
            model = create(begin + ending, config)
            entry = {"weights": {}}
            for name, p in parameters(model).items():
                stored, _, count = in_file(name, begin)
                entry["weights"][stored] = [count * p.shape[0], *p.shape[1:]]
            inputs = inputs_of(model, encoder)
            for name, value in outputs_of(model, inputs, ending).items():
                arrays[f"{encoder}/{ending}/{name}"] = value
            if ending == pretrained:
                entry["gradients"], entry["losses"] = training(model, inputs, begin)
            about[encoder]["classes"][begin + ending] = entry
    inputs = {"ids": IDS, "segments": SEGMENTS, "lengths": LENGTHS, "labels": LABELS, "pair_labels": PAIR_LABELS}
    about["inputs"] = inputs | {"rate": RATE}
    about["versions"] = {"torch": torch.__version__, "transformers": transformers.__version__}
    np.savez_compressed(path, about=json.dumps(about, sort_keys=True), **arrays)


if __name__ == "__main__":
    main()
