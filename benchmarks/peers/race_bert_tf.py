"""bert_tf in a race, on texts or in training; see ../race.py. ../encoder.py and ../training_step.py start it."""

import pathlib
import sys

import turns

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))


PRECISIONS = ("auto", "float32", "bfloat16", "float16")


def main():
    arguments = turns.parse_arguments(__doc__, PRECISIONS)
    turns.serve(worker(arguments.work, arguments.size, arguments.precision))


def worker(work, size, precision):
    """A function that does the work of a workload once."""
    from bert_tf.runtime import process
    from bert_tf.runtime.tensorflow_startup import start_tensorflow

    is_trained = work["kind"] in ("fine_tune", "pretrain")
    if not is_trained:
        process.assume_frozen_weights()  # as the commands do that answer
    process.keep_freed_memory()
    start_tensorflow()
    from bert_tf.config.bert_config import BertConfig
    from bert_tf.training import distribute
    from bert_tf.training import precision as precisions

    strategy = distribute.create_strategy("one_device")
    layers, width, num_heads = turns.SHAPES[size]
    shape = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": num_heads}
    config = BertConfig(vocab_size=work["vocab_size"], intermediate_size=4 * width, hidden_act="gelu_erf", **shape)
    kinds = {"encode": encoding, "classify": classifying, "fine_tune": fine_tuning, "pretrain": pretraining}
    kind = {"pool": pooling, "label": labelling, **kinds}[work["kind"]]
    run = kind(work, config, precisions.policy(precision, is_trained=is_trained), strategy)
    return turns.repeated(run, work["repeats"]) if "repeats" in work else run


def rows_of(texts, seq_length):
    """Model inputs [B, seq_length]."""
    import tensorflow as tf

    padded, lengths = turns.padded(texts, seq_length)
    ids = tf.constant(padded, tf.int32)
    return {"token_ids": ids, "segment_ids": tf.zeros_like(ids), "lengths": tf.constant(lengths, tf.int32)}


def encoding(work, config, policy, strategy):
    """Last hidden states and pooled vectors of rows of ids."""
    import tensorflow as tf

    from bert_tf.model import heads
    from bert_tf.model.packing import PackingSpec, local_costs

    encoder = heads.SpanFinder(config, dtype=policy).encoder
    packing = PackingSpec(local_costs())
    encode = tf.function(lambda inputs: encoder(inputs, packing=packing), reduce_retracing=True)
    inputs = rows_of(work["texts"], work["seq_length"])
    return lambda: encode(inputs)["tokens"].numpy()


def pooling(work, config, policy, strategy):
    """Pooled vectors on the host of ids on the host, compiled whole by XLA."""
    import tensorflow as tf

    from bert_tf.model import heads

    encoder = heads.BertModel(config, dtype=policy).encoder
    encode = tf.function(lambda inputs: encoder(inputs)["pooled"], jit_compile=True, autograph=False)
    with tf.device("CPU:0"):
        inputs = rows_of(work["texts"], work["seq_length"])
    return lambda: encode(inputs).numpy()


def labelling(work, config, policy, strategy):
    """From strings to the names of two classes, as `bert-tf predict` does on an export."""
    from bert_tf.data.examples import Example
    from bert_tf.export import host_settings
    from bert_tf.export.batches import predict_in_order
    from bert_tf.export.keras_network import KerasNetwork
    from bert_tf.export.predictor import Predictor
    from bert_tf.export.text_function import BATCH_SIZE, STATIC_BATCH_SIZE
    from bert_tf.heads.classes import Classes
    from bert_tf.tasks.task import FineTuningTask
    from bert_tf.text import vocabulary
    from bert_tf.text.host_tokenizer import create_host_tokenizer
    from bert_tf.text.tokenizer import Tokenizer

    tokenizer = Tokenizer(vocabulary.read(work["vocab_file"]))
    on_host = create_host_tokenizer(tokenizer.vocabulary)
    task = FineTuningTask("race", {}, Classes(["no", "yes"]).configured(max_seq_length=work["seq_length"]), tokenizer)
    model = task.create_model(config, dtype=policy)
    settings = host_settings.of_model(task.host_settings, model, on_host.pad_id)
    network = KerasNetwork(model, "the race", settings, work["jit_compile"])
    batch_size = STATIC_BATCH_SIZE if network.is_static else BATCH_SIZE
    predictor = Predictor("the race", network, settings, task.about(), on_host, batch_size=batch_size)
    examples = [Example(str(number), (text,), None, "") for number, text in enumerate(work["texts"])]
    options = {"batch_size": predictor.batch_size, "window": 4096}
    return lambda: [row["label"] for _, row in predict_in_order(predictor, examples, **options)]


def classifying(work, config, policy, strategy):
    """From strings to the logits of two classes."""
    import tensorflow as tf

    from bert_tf.model import heads
    from bert_tf.model.packing import PackingSpec, local_costs
    from bert_tf.text import vocabulary
    from bert_tf.text.tokenizer import Tokenizer, pack

    tokenizer = Tokenizer(vocabulary.read(work["vocab_file"]))
    model = heads.Classifier(config, 2, dtype=policy)

    @tf.function
    def logits(texts):
        inputs = pack(tokenizer, [texts], work["seq_length"])
        return model(inputs, packing=PackingSpec(local_costs()))["logits"]

    texts = tf.constant(work["texts"])
    return lambda: logits(texts).numpy()


def fine_tuning(work, config, policy, strategy):
    """Training steps of a classifier, one for each of the batches in turn."""
    import tensorflow as tf

    from bert_tf.heads.classes import Classes
    from bert_tf.model import heads
    from bert_tf.training.task import Learnable

    goal = Classes(["0", "1"])

    class Task(Learnable):
        objectives = {"cross_entropy": objective()}

        def loss_weights(self, batch):
            return {"cross_entropy": tf.ones_like(batch["label"], tf.float32)}

        def metrics(self, outputs, batch):
            return {"cross_entropy": (goal.loss(outputs, batch["label"]), self.loss_weights(batch)["cross_entropy"])}

    batches = [
        rows_of(texts, work["seq_length"]) | {"label": tf.zeros([len(texts)], tf.int32)} for texts in work["batches"]
    ]
    return Steps(Task(), heads.Classifier(config, 2, dtype=policy), batches, strategy, recipe_of(work))


def pretraining(work, config, policy, strategy):
    """Training steps of masked-LM and next-sentence prediction."""
    import tensorflow as tf

    from bert_tf.config.train_config import MaskingConfig
    from bert_tf.model import heads
    from bert_tf.tasks.pretraining.pretraining_task import PretrainingTask

    batches = []
    for texts in work["batches"]:
        positions = tf.tile(tf.range(1, 1 + work["num_predictions"])[None, :], [len(texts), 1])
        masks = {"masked_lm_positions": positions, "masked_lm_ids": positions + 1000}
        labels = {
            "next_sentence_labels": tf.zeros([len(texts)], tf.int32),
            "next_sentence_weights": tf.ones([len(texts)]),
        }
        masks |= {"masked_lm_weights": tf.ones(positions.shape), **labels}
        batches.append(rows_of(texts, work["seq_length"]) | masks)
    task = PretrainingTask({}, None, MaskingConfig())
    return Steps(task, heads.Pretrainer(config, dtype=policy), batches, strategy, recipe_of(work))


def recipe_of(work):
    """{name: value} of the TrainConfig that a workload sets."""
    return {name: work[name] for name in ("jit_compile",) if name in work} | work.get("recipe", {})


def objective():
    from bert_tf.training.task import Objective

    return Objective()


class Steps:
    """A function that does a step for each batch; overrides: {name: value} of the TrainConfig."""

    def __init__(self, task, model, batches, strategy, overrides=None):
        from bert_tf.config import train_config
        from bert_tf.training import train_step

        recipe = {"train_batch_size": len(batches[0]["lengths"]), "num_train_steps": 1000, "num_warmup_steps": 1}
        config = train_config.TrainConfig(**recipe | (overrides or {}))
        self.trainer, self.batches = train_step.TrainStep(task, model, config, strategy), batches

    def __call__(self):
        return [self.trainer.step(batch)["gradient_norm"].numpy() for batch in self.batches]


if __name__ == "__main__":
    main()
