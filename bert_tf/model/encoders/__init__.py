"""What may stand in the place of BERT's encoder, one file each, so that every head and task can be compared on them.

An encoder is a ConfiguredLayer with `token_table`, `layout` and `call`, as `model.encoder.BertEncoder` has them.
"""

import importlib

from bert_tf.model.encoder import BertEncoder


def create(config, **options):
    """The encoder that `config.encoder` names: "bert", or a module in this folder, which has it as `Encoder`."""
    if config.encoder == "bert":
        return BertEncoder(config, **options)
    return importlib.import_module(f"{__name__}.{config.encoder}").Encoder(config, **options)
