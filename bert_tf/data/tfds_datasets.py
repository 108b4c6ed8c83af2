"""Examples from tensorflow-datasets: datasets already prepared on this machine, or else downloaded.

The package is a pip extra, imported only when used. Free of TensorFlow until then.
"""

import contextlib
import glob
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bert_tf.data.examples import Example, joined_words
from bert_tf.errors import UserError, reason_of
from bert_tf.runtime import files, json_files, plugins
from bert_tf.runtime.lazy import module, tf

tfds = module(
    "tensorflow_datasets",
    'This needs the package tensorflow-datasets ({reason}): pip install "bert-tf[tfds]", or remove tfds_name and '
    "use_tfds and pass files.",
)
CLASSES = ("type", "pythonClassName", "python_class_name")  # keys in a features.json
TIMEOUT = 5  # seconds for the server to answer; the package itself retries for minutes


def read(
    name: str,
    split: str,
    *,
    data_dir: str,
    texts: Sequence[str],
    label: str | None,
    named: bool = False,
    id_feature: str | None = "idx",
) -> list[Example]:
    """Reads the examples of a dataset split, in storage order.

    Args:
        name: the dataset with its configuration, "glue/cola".
        split: the dataset's own name of the split, such as "validation".
        data_dir: the folder of prepared datasets; "": the package's own. Missing datasets are downloaded.
        texts: the features with the texts.
        label: the feature with the label; None: labels are not read. A label of -1 is not a label.
        named: whether class labels are names; otherwise they are numbers.
        id_feature: the feature that becomes the id; None: the number of the example, from 0.

    Raises:
        UserError: the package, the dataset or the network is not available, or the split does not exist.
    """
    builder = _open_builder(name, data_dir)
    if split not in builder.info.splits:
        raise UserError(f"{builder.data_dir} has no split {split!r}; its splits: {', '.join(builder.info.splits)}.")
    missing = {*texts, *filter(None, [label, id_feature])} - set(builder.info.features)
    if missing:
        raise UserError(
            f"{builder.data_dir} has no {', '.join(sorted(missing))}; there are {', '.join(builder.info.features)}."
        )
    kind = builder.info.features[label] if label and named else None
    class_names = getattr(getattr(kind, "feature", kind), "names", None) or ()  # of a ClassLabel, or of several
    examples = []
    for number, row in enumerate(_rows(builder, split)):
        example_id = str(json_files.plain(row[id_feature]) if id_feature else number)
        location = f"example {example_id} of {split} in {builder.data_dir}"
        strings = tuple(joined_words(json_files.plain(row[text])) for text in texts)
        if not all(isinstance(text, str) for text in strings):
            raise UserError(f"In {location} a text is {strings!r}; expected strings in {', '.join(texts)}.")
        row_label = _label(json_files.plain(row[label]), class_names) if label else None
        examples.append(Example(example_id, strings, row_label, location))
    return examples


def split_names(name: str, data_dir: str) -> list[str]:
    """The names of the splits of a dataset; see `read` for arguments and errors."""
    return list(_open_builder(name, data_dir).info.splits)


def feature_names(name: str, data_dir: str) -> list[str]:
    """The names of the features of a dataset; see `read` for arguments and errors."""
    return list(_open_builder(name, data_dir).info.features)


def _label(value: Any, class_names: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_label(each, class_names) for each in value]
    if value == -1 or value != value:  # NaN
        return None
    return class_names[int(value)] if class_names else value


def _rows(builder: Any, split: str) -> Iterator[Mapping[str, Any]]:
    try:
        yield from tfds.as_numpy(builder.as_dataset(split=split, shuffle_files=False))
    except (tf.errors.OpError, OSError, AssertionError) as error:
        raise UserError(
            f"{builder.data_dir} is damaged ({reason_of(error)}): remove this folder, so that it is made again."
        ) from None


def _open_builder(name: str, data_dir: str) -> Any:
    default = tfds.core.constants.DATA_DIR
    data_dir = os.path.expanduser(data_dir) or default
    _check_own_features(name, data_dir)
    folder = _find_prepared(name, data_dir)
    if folder is None:
        try:
            builder = tfds.builder(name, data_dir=data_dir)
        except Exception as error:  # many types: unknown dataset or configuration, broken dataset
            raise UserError(
                f"{data_dir} does not contain {name}, and tensorflow-datasets cannot make it ({reason_of(error)}): "
                "pass the name of a dataset as dataset/configuration, or the folder that contains it as tfds_dir."
            ) from None
        _download(builder, name, data_dir)
        folder = str(builder.data_dir)
    return tfds.builder_from_directory(folder)  # the version on disk, even if the package would now prepare another


def _check_own_features(name: str, data_dir: str) -> None:
    """Raises UserError if a dataset on disk has feature classes from outside tensorflow-datasets (untrusted).

    The package imports the modules named in features.json. It finds folders by name, ignoring case and "_".
    """
    wanted = _plain_name(re.split("[/:]", name)[0])
    folders = [folder for folder in files.glob(os.path.join(glob.escape(data_dir), "*")) if files.is_folder(folder)]
    for folder in folders:
        paths = files.walk(folder) if _plain_name(os.path.basename(folder)) == wanted else ()
        for path in (path for path in paths if os.path.basename(path) == "features.json"):
            for each in _classes_in(json_files.require_json(path, "features of a dataset")):
                module, _, member = each.rpartition(".")
                if not f"{module}.".startswith("tensorflow_datasets."):
                    plugins.check_trusted(f"{module}:{member}", path)


def _plain_name(name: str) -> str:
    return name.replace("_", "").lower()


def _classes_in(value: Any) -> Iterator[str]:
    """The class names in the content of a features.json."""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if isinstance(each, str) and key in CLASSES and "." in each:
            yield each
        if isinstance(each, str) and key == "json":  # the content of a feature without fields of its own
            with contextlib.suppress(ValueError):  # the package fails at it too
                each = json_files.parse(each, lone_surrogates=True)
        yield from _classes_in(each)


def _find_prepared(name: str, data_dir: str) -> str | None:
    """The folder of the newest complete version of a dataset; None if there is none."""
    pattern = os.path.join(glob.escape(data_dir), *name.split("/"), "*", "dataset_info.json")
    folders = [os.path.dirname(path) for path in files.glob(pattern)]
    versions = {tuple(map(int, re.findall(r"\d+", os.path.basename(folder)))): folder for folder in folders}
    return versions[max(versions)] if versions else None


def _download(builder: Any, name: str, data_dir: str) -> None:
    """Downloads and prepares a dataset; UserError, immediately if its server is known and unreachable."""
    configs = (builder.builder_config, *builder.BUILDER_CONFIGS)
    url = next((url for config in configs if (url := getattr(config, "data_url", None))), "")
    server = f" from {urllib.parse.urlsplit(url).netloc}" if url else ""
    message = (
        f"{data_dir} does not contain {name}, and it cannot be downloaded{server} ({{reason}}): connect to the "
        "internet, or pass as tfds_dir a folder that tensorflow-datasets has prepared."
    )
    try:
        if url:
            request = urllib.request.Request(url, method="HEAD")  # noqa: S310, the address is that of tensorflow-datasets
            urllib.request.urlopen(request, timeout=TIMEOUT).close()  # noqa: S310
    except urllib.error.HTTPError:
        pass  # the server answers, even if it refuses HEAD
    except OSError as error:
        raise UserError(message.format(reason=getattr(error, "reason", error))) from None
    print(f"Downloading {name} into {data_dir}", flush=True)
    try:
        builder.download_and_prepare()
    except Exception as error:  # anything that the package and its dozen dependencies raise
        raise UserError(message.format(reason=reason_of(error))) from None
