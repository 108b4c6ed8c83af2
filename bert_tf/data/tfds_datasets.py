"""Examples from tensorflow-datasets: what it has prepared on this machine, or else downloads.

The package is an extra, loaded only here and only when asked. Free of TensorFlow until then.
"""

import glob
import os
import re
import urllib.error
import urllib.parse
import urllib.request

from bert_tf.data.examples import Example
from bert_tf.errors import UserError, reason_of

PATIENCE = 5  # seconds in which the server must answer; the package itself tries for minutes


def read(name, part, *, data_dir, texts, label, names=(), number="idx"):
    """The examples of a part of a dataset, in the order in which they were stored: list of Example.

    name: of the dataset with its configuration, "glue/cola". data_dir: where prepared datasets are; "" is the
        package's own folder. It is downloaded only if it is not there.
    texts: the features with the texts. label: the feature with the label, None leaves it unread; -1 is no label.
    names: the labels, if they are wanted as the dataset names its classes; without them its numbers stay.
    number: the feature that becomes the id.
    Raises UserError where the package, the dataset and the network are all not to be had, and for a part that is none.
    """
    builder = _builder(name, data_dir)
    if part not in builder.info.splits:
        raise UserError(f"{builder.data_dir} has no part {part!r}; its parts: {', '.join(builder.info.splits)}.")
    missing = {*texts, number, *filter(None, [label])} - set(builder.info.features)
    if missing:
        raise UserError(
            f"{builder.data_dir} has no {', '.join(sorted(missing))}; there are {', '.join(builder.info.features)}."
        )
    known = builder.info.features[label].names if label and names else ()
    found = []
    for row in _rows(builder, part):
        place = f"example {row[number]} of {part} in {builder.data_dir}"
        label_here = _label(row[label].item(), known) if label else None
        strings = tuple(row[text].decode() for text in texts)
        found.append(Example(str(row[number]), strings, label_here, place))
    return found


def _label(value, names):
    if value == -1:
        return None
    return names[value] if names else value


def _rows(builder, part):
    import tensorflow as tf
    import tensorflow_datasets as tfds

    try:
        yield from tfds.as_numpy(builder.as_dataset(split=part, shuffle_files=False))
    except (tf.errors.OpError, OSError, AssertionError) as error:
        raise UserError(
            f"{builder.data_dir} is damaged ({reason_of(error)}): remove this folder, so that it is made again."
        ) from None


def _builder(name, data_dir):
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise UserError(
            f'use_tfds needs the package tensorflow-datasets ({error}): pip install "bert-tf[tfds]", or leave the flag '
            "out and give the files as data_dir."
        ) from None
    data_dir = os.path.expanduser(data_dir) or tfds.core.constants.DATA_DIR
    folder = _prepared(name, data_dir)
    if folder is None:
        builder = tfds.builder(name, data_dir=data_dir)
        _download(builder, name, data_dir)
        folder = str(builder.data_dir)
    return tfds.builder_from_directory(folder)  # what lies there, whatever version the package would make now


def _prepared(name, data_dir):
    """The folder of the newest version of a dataset that is there whole; None if there is none."""
    pattern = os.path.join(glob.escape(data_dir), *name.split("/"), "*", "dataset_info.json")
    folders = [os.path.dirname(path) for path in glob.glob(pattern)]
    versions = {tuple(map(int, re.findall(r"\d+", os.path.basename(folder)))): folder for folder in folders}
    return versions[max(versions)] if versions else None


def _download(builder, name, data_dir):
    """Downloads a dataset and prepares it; UserError at once where the server cannot be reached."""
    url = next(config.data_url for config in (builder.builder_config, *builder.BUILDER_CONFIGS) if config.data_url)
    sentence = (
        f"{data_dir} does not hold {name}, and it cannot be downloaded from {urllib.parse.urlsplit(url).netloc} "
        "({reason}): connect to the internet, or give as tfds_dir a folder that tensorflow-datasets has prepared."
    )
    try:
        urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=PATIENCE).close()
    except urllib.error.HTTPError:
        pass  # it answers, if only that it wants to be asked otherwise
    except OSError as error:
        raise UserError(sentence.format(reason=getattr(error, "reason", error))) from None
    print(f"Downloading {name} into {data_dir}", flush=True)
    try:
        builder.download_and_prepare()
    except Exception as error:  # whatever the package and its dozen of dependencies raise
        raise UserError(sentence.format(reason=reason_of(error))) from None
