"""Hugging Face transformers and torch in a race: see race_bert_tf.py. Needs no bert_tf."""

import turns


def main():
    arguments = turns.parse_arguments(__doc__, ("float32", "bfloat16"))
    turns.keep_freed_memory()
    import torch

    torch.manual_seed(0)
    config = config_of(arguments)
    kinds = {"encode": encoding, "classify": classifying, "fine_tune": fine_tuning, "pretrain": pretraining}
    turns.serve(kinds[arguments.work["kind"]](arguments.work, config, arguments.precision))


def config_of(arguments):
    """The transformers.BertConfig of a size, for the vocabulary of the workload."""
    import transformers

    layers, width, heads = turns.SHAPES[arguments.size]
    return transformers.BertConfig(
        vocab_size=arguments.work["vocab_size"],
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
    )


def inputs_of(texts, seq_length=None):
    import torch

    padded, lengths = turns.padded(texts, seq_length)
    mask = torch.arange(len(padded[0]))[None, :] < torch.tensor(lengths)[:, None]
    return {"input_ids": torch.tensor(padded), "attention_mask": mask.long()}


def encoding(work, config, precision):
    """Sorted by length, padded to the longest of each batch."""
    import torch
    import transformers

    model = transformers.BertModel(config).eval()
    model = model.to(torch.bfloat16) if precision == "bfloat16" else model
    texts = work["texts"]
    inputs = [inputs_of([texts[i] for i in rows]) for rows in turns.batches(texts, work["batch_size"])]

    def encode():
        with torch.inference_mode():
            return [model(**batch).last_hidden_state.float().numpy() for batch in inputs]

    return encode


def classifying(work, config, precision):
    import tokenizers
    import torch
    import transformers

    model = transformers.BertForSequenceClassification(config).eval()
    model = model.to(torch.bfloat16) if precision == "bfloat16" else model
    tokenizer = tokenizers.BertWordPieceTokenizer(work["vocab_file"])

    def logits():
        texts = [encoded.ids for encoded in tokenizer.encode_batch(work["texts"])]
        with torch.inference_mode():
            for rows in turns.batches(texts, work["batch_size"]):
                model(**inputs_of([texts[i] for i in rows])).logits.float().numpy()

    return logits


def stepping(model, batches, precision):
    import torch

    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.01)

    def steps():
        for batch in batches:
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
                loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

    return steps


def fine_tuning(work, config, precision):
    """Dynamic padding, as its own collator does: to the longest of a batch."""
    import torch
    import transformers

    batches = [inputs_of(texts) | {"labels": torch.zeros(len(texts), dtype=torch.long)} for texts in work["batches"]]
    return stepping(transformers.BertForSequenceClassification(config), batches, precision)


def pretraining(work, config, precision):
    import torch
    import transformers

    batches = []
    for texts in work["batches"]:
        labels = torch.full([len(texts), work["seq_length"]], -100)
        labels[:, 1 : 1 + work["num_predictions"]] = 1000
        known = {"labels": labels, "next_sentence_label": torch.zeros(len(texts), dtype=torch.long)}
        batches.append(inputs_of(texts, work["seq_length"]) | known)
    return stepping(transformers.BertForPreTraining(config), batches, precision)


if __name__ == "__main__":
    main()
