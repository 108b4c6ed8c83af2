"""The content of TF_CONFIG: the number of processes that train together, and which one this is. No TensorFlow."""

import os
from typing import Any

from bert_tf.errors import UserError
from bert_tf.runtime import json_files

KINDS = ("chief", "worker")  # of processes
EXAMPLE = '{"cluster": {"worker": ["host1:port", "host2:port"]}, "task": {"type": "worker", "index": 0}}'


def number_of_workers() -> int:
    """Returns the number of processes in TF_CONFIG; 0 without it."""
    cluster = _tf_config()["cluster"]
    return sum(len(cluster.get(kind, ())) for kind in ("chief", "worker"))


def check_workers() -> None:
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
    return index + (len(config["cluster"].get("chief", ())) if kind == "worker" else 0)


def _tf_config() -> dict[str, Any]:
    """The content of TF_CONFIG; raises UserError unless its task is one of those in its cluster."""
    text = os.environ.get("TF_CONFIG") or "{}"
    try:
        config = {"cluster": {}, "task": {}, **json_files.parse(text)}
        cluster, kind, index = config["cluster"], config["task"].get("type"), int(str(config["task"].get("index", 0)))
        lists = [cluster.get(each, []) for each in KINDS]
        is_valid = all(isinstance(address, str) for addresses in lists for address in addresses)
        is_valid &= all(isinstance(addresses, list) for addresses in lists)
    except (ValueError, TypeError, AttributeError):  # not JSON, or of another structure
        is_valid = False
    if not is_valid:
        raise UserError(f"TF_CONFIG is {text!r}; expected JSON such as {EXAMPLE}.")
    if "ps" in cluster:
        raise UserError("The cluster in TF_CONFIG has parameter servers (ps); expected chief and worker alone.")
    if any(lists) and kind not in KINDS:
        raise UserError(f"The task in TF_CONFIG has the type {kind!r}; expected {' or '.join(KINDS)}.")
    if any(lists) and not 0 <= index < len(cluster.get(kind, ())):
        raise UserError(
            f"The task in TF_CONFIG is {kind} {index}, and its cluster has {len(cluster.get(kind, ()))} of these: pass "
            "an index from 0, below that."
        )
    return config
