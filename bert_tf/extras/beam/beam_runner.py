"""Starts Apache Beam pipelines on one of its runners. Beam is imported only here and to build pipelines."""

import importlib.util
import logging
import shutil
from collections.abc import Callable, Sequence
from typing import Any

from bert_tf.errors import UserError, reason_of

RUNNERS = ("DirectRunner", "DaskRunner", "FlinkRunner", "SparkRunner", "DataflowRunner")
CLUSTER_FLAGS = ("--flink_master", "--spark_master_url", "--job_endpoint")  # with one of these, no Java is needed here


def check(runner: str, flags: Sequence[str] = ()) -> None:
    """Raises UserError for an unknown runner, or one with missing packages."""
    if runner not in RUNNERS:
        raise UserError(f"runner={runner}: expected one of {', '.join(RUNNERS)}, or none for this machine.")
    if not _is_installed("apache_beam"):
        raise UserError(f"{runner} needs the package apache-beam: pip install 'bert-tf[beam]'.")
    if runner == "DaskRunner" and not _is_installed("distributed"):
        raise UserError("DaskRunner needs the package distributed: pip install 'dask[distributed]'.")
    if runner == "DataflowRunner" and not _is_installed("apitools"):
        raise UserError("DataflowRunner needs Google's packages: pip install 'apache-beam[gcp]'.")
    if runner in ("FlinkRunner", "SparkRunner"):
        has_cluster = any(flag.partition("=")[0] in CLUSTER_FLAGS for flag in flags)
        if not has_cluster and not shutil.which("java"):
            raise UserError(
                f"{runner} needs Java, which is not installed, or a cluster: --runner_flags with one of "
                f"{', '.join(CLUSTER_FLAGS)}."
            )


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def run(build: Callable[[Any], Any], runner: str, flags: Sequence[str] = (), *, num_workers: int = 0) -> None:
    """Builds a pipeline and waits until it is finished.

    Args:
        build: called with the pipeline.
        runner: its name, which `check` accepts.
        flags: options of the runner, such as "--dask_client_address=tcp://host:8786".
        num_workers: number of processes, if above 1, for runners on this machine.

    Raises:
        UserError: a step failed; with the message of the step's own UserError, if it raised one.
    """
    logging.disable(logging.WARNING)  # about optional Google packages
    try:
        import apache_beam
        from apache_beam.options.pipeline_options import PipelineOptions
    finally:
        logging.disable(logging.NOTSET)
    options = PipelineOptions([*_defaults(runner, flags, num_workers), *flags])
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # it prints the whole traceback of each retry
    try:
        pipeline = apache_beam.Pipeline(runner=_class_of(runner), options=options)
        build(pipeline)
        result = pipeline.run()
        state = result.wait_until_finish()
    except UserError:
        raise
    except Exception as error:
        raise UserError(_sentence(error, runner)) from error
    if state not in (None, "DONE"):
        raise UserError(f"{runner} ended in the state {state}; see its own log, then run the same command again.")


def _class_of(runner: str) -> str:
    """The class for a runner; DirectRunner means Beam's Python engine, since Beam may download another program."""
    names = {"DirectRunner": "FnApiRunner", "DaskRunner": "apache_beam.runners.dask.dask_runner.DaskRunner"}
    return names.get(runner, runner)


def _defaults(runner: str, flags: Sequence[str], num_workers: int) -> list[str]:
    given = {flag.partition("=")[0] for flag in flags}
    if runner == "DirectRunner" and num_workers > 1 and "--direct_num_workers" not in given:
        return [f"--direct_num_workers={num_workers}", "--direct_running_mode=multi_processing"]
    if runner == "DaskRunner" and not given & {"--dask_npartitions", "--dask_partition_size"}:
        return ["--dask_partition_size=1"]  # its default is 128 elements, here 2 GB of text
    return []


def _sentence(error: BaseException, runner: str) -> str:
    """The message of a step's UserError, from whatever machine; else the runner's message."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, UserError):
            return str(cause)
        cause = cause.__cause__ or cause.__context__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    own = next((line for line in reversed(lines) if "bert_tf.errors." in line or ".EmptyInputError: " in line), "")
    if own:
        return own.partition(": ")[2].partition(" [while running")[0]
    return f"{runner} failed ({type(error).__name__}: {reason_of(error)}); run the same command again."
