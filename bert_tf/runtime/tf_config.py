"""What TF_CONFIG says: which process this is, and of how many. No TensorFlow here."""

import json
import os

from bert_tf.errors import UserError

EXAMPLE = '{"cluster": {"worker": ["host1:port", "host2:port"]}, "task": {"type": "worker", "index": 0}}'


def number_of_workers():
    """How many processes TF_CONFIG names; 0 without it."""
    cluster = _tf_config()["cluster"]
    return sum(len(cluster.get(kind, ())) for kind in ("chief", "worker"))


def expect_workers():
    """Raises UserError where several workers are asked for and TF_CONFIG names none."""
    if not number_of_workers():
        raise UserError(
            "distribution_strategy=multi_worker needs TF_CONFIG in the environment with the workers of the cluster, "
            f"for instance {EXAMPLE}."
        )


def worker_number():
    """The number of this process among them: 0 is the one that writes the run folder."""
    config = _tf_config()
    kind, index = config["task"].get("type"), int(config["task"].get("index", 0))
    return index + (1 if kind == "worker" and config["cluster"].get("chief") else 0)


def _tf_config():
    given = os.environ.get("TF_CONFIG") or "{}"
    try:
        config = {"cluster": {}, "task": {}, **json.loads(given)}
        lists = [config["cluster"].get(kind, []) for kind in ("chief", "worker")]
        int(config["task"].get("index", 0))
    except (ValueError, TypeError, AttributeError):  # no JSON, or other things in it
        lists = [None]
    if not all(isinstance(addresses, list) for addresses in lists):
        raise UserError(f"TF_CONFIG is {given!r}; expected JSON such as {EXAMPLE}.")
    return config
