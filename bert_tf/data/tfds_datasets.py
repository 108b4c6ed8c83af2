"""Examples from tensorflow-datasets: datasets that are prepared on this machine, or else downloaded.

The package is an extra, imported only when it is used. Free of TensorFlow until then.
"""

import glob
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bert_tf.data.examples import Example
from bert_tf.errors import UserError, reason_of
from bert_tf.runtime import files

TIMEOUT = 5  # seconds in which the server must answer; the package itself tries for minutes


def read(
    name: str,
    split: str,
    *,
    data_dir: str,
    texts: Sequence[str],
    label: str | None,
    names: Sequence[str] = (),
    id_feature: str = "idx",
) -> list[Example]:
    """Reads the examples of a split of a dataset, in the order in which they are stored.

    Args:
        name: the dataset with its configuration, "glue/cola".
        split: the dataset's own name of the split, such as "validation".
        data_dir: the folder of prepared datasets; "" is the package's own. A dataset that is missing is downloaded.
        texts: the features with the texts.
        label: the feature with the label; None: labels are not read. A label of -1 is no label.
        names: not empty: labels are given by the dataset's class names; empty: they are numbers.
        id_feature: the feature that becomes the id.

    Raises:
        UserError: the package, the dataset or the network is not available, or the split does not exist.
    """
    builder = _open_builder(name, data_dir)
    if split not in builder.info.splits:
        raise UserError(f"{builder.data_dir} has no split {split!r}; its splits: {', '.join(builder.info.splits)}.")
    missing = {*texts, id_feature, *filter(None, [label])} - set(builder.info.features)
    if missing:
        raise UserError(
            f"{builder.data_dir} has no {', '.join(sorted(missing))}; there are {', '.join(builder.info.features)}."
        )
    class_names = builder.info.features[label].names if label and names else ()
    examples = []
    for row in _rows(builder, split):
        location = f"example {row[id_feature]} of {split} in {builder.data_dir}"
        row_label = _label(row[label].item(), class_names) if label else None
        strings = tuple(row[text].decode() for text in texts)
        examples.append(Example(str(row[id_feature]), strings, row_label, location))
    return examples


def _label(value: int | float, class_names: Sequence[str]) -> str | int | float | None:
    if value == -1:
        return None
    return class_names[int(value)] if class_names else value


def _rows(builder: Any, split: str) -> Iterator[Mapping[str, Any]]:
    import tensorflow as tf
    import tensorflow_datasets as tfds

    try:
        yield from tfds.as_numpy(builder.as_dataset(split=split, shuffle_files=False))
    except (tf.errors.OpError, OSError, AssertionError) as error:
        raise UserError(
            f"{builder.data_dir} is damaged ({reason_of(error)}): remove this folder, so that it is made again."
        ) from None


def _open_builder(name: str, data_dir: str) -> Any:
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise UserError(
            f'use_tfds needs the package tensorflow-datasets ({error}): pip install "bert-tf[tfds]", or leave the flag '
            "out and give the files as data_dir."
        ) from None
    data_dir = os.path.expanduser(data_dir) or tfds.core.constants.DATA_DIR
    folder = _find_prepared(name, data_dir)
    if folder is None:
        builder = tfds.builder(name, data_dir=data_dir)
        _download(builder, name, data_dir)
        folder = str(builder.data_dir)
    return tfds.builder_from_directory(folder)  # the version on disk, whichever the package would prepare now


def _find_prepared(name: str, data_dir: str) -> str | None:
    """The folder of the newest complete version of a dataset; None if there is none."""
    pattern = os.path.join(glob.escape(data_dir), *name.split("/"), "*", "dataset_info.json")
    folders = [os.path.dirname(path) for path in files.glob(pattern)]
    versions = {tuple(map(int, re.findall(r"\d+", os.path.basename(folder)))): folder for folder in folders}
    return versions[max(versions)] if versions else None


def _download(builder: Any, name: str, data_dir: str) -> None:
    """Downloads a dataset and prepares it; UserError at once if the server cannot be reached."""
    url = next(config.data_url for config in (builder.builder_config, *builder.BUILDER_CONFIGS) if config.data_url)
    message = (
        f"{data_dir} does not hold {name}, and it cannot be downloaded from {urllib.parse.urlsplit(url).netloc} "
        "({reason}): connect to the internet, or give as tfds_dir a folder that tensorflow-datasets has prepared."
    )
    try:
        urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=TIMEOUT).close()
    except urllib.error.HTTPError:
        pass  # the server answers, even if it refuses HEAD
    except OSError as error:
        raise UserError(message.format(reason=getattr(error, "reason", error))) from None
    print(f"Downloading {name} into {data_dir}", flush=True)
    try:
        builder.download_and_prepare()
    except Exception as error:  # whatever the package and its dozen dependencies raise
        raise UserError(message.format(reason=reason_of(error))) from None
