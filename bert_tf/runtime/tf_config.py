"""The content of TF_CONFIG: the number of processes that train together, and which one this is. No TensorFlow."""

import os
from typing import Any

from bert_tf.errors import UserError
from bert_tf.runtime import json_files

EXAMPLE = '{"cluster": {"worker": ["host1:port", "host2:port"]}, "task": {"type": "worker", "index": 0}}'


def number_of_workers() -> int:
    """Returns the number of processes in TF_CONFIG; 0 without it."""
    cluster = _tf_config()["cluster"]
    return sum(len(cluster.get(kind, ())) for kind in ("chief", "worker"))


def expect_workers() -> None:
    """Raises UserError if TF_CONFIG names no workers."""
    if not number_of_workers():
        raise UserError(
            "distribution_strategy=multi_worker needs TF_CONFIG in the environment with the workers of the cluster, "
            f"for instance {EXAMPLE}."
        )


def worker_number() -> int:
    """Returns the number of this process among them; 0 is the chief, which writes the run folder."""
    config = _tf_config()
    kind, index = config["task"].get("type"), int(config["task"].get("index", 0))
    return index + (1 if kind == "worker" and config["cluster"].get("chief") else 0)


def _tf_config() -> dict[str, Any]:
    text = os.environ.get("TF_CONFIG") or "{}"
    lists: list[Any]
    try:
        config = {"cluster": {}, "task": {}, **json_files.parse(text)}
        lists = [config["cluster"].get(kind, []) for kind in ("chief", "worker")]
        int(config["task"].get("index", 0))
    except (ValueError, TypeError, AttributeError):  # not JSON, or of another structure
        lists = [None]
    if not all(isinstance(addresses, list) for addresses in lists):
        raise UserError(f"TF_CONFIG is {text!r}; expected JSON such as {EXAMPLE}.")
    return config
