"""Runs jobs in worker processes: each bucket becomes a shard, in any order, by any number of processes.

No TensorFlow in this process; the workers are fresh interpreters, because a forked TensorFlow hangs.
"""

import concurrent.futures
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator, Sequence

from bert_tf.data.pretraining.shards import ShardJob, start_worker, write_shard
from bert_tf.errors import UserError
from bert_tf.runtime.json_files import require_json

IN_THIS_PROCESS = -1  # as a number of workers
MIN_FREE_BYTES = 1_000_000  # with less disk space left, that is why writing failed


def write_missing_shards(jobs: Sequence[ShardJob], num_workers: int, report: Callable[..., None]) -> None:
    """Writes the shards of the jobs that no earlier call has finished.

    num_workers: number of processes, at least one, or IN_THIS_PROCESS. report(done, total=...,
    text=...) is called after each shard. Raises one UserError if a worker fails; finished shards are kept.
    """
    missing = [job for job in jobs if not _is_done(job)]
    done = len(jobs) - len(missing)
    report(done, total=len(jobs), text="writing records")
    for _ in _run(missing, num_workers):
        done += 1
        report(done, total=len(jobs), text="writing records")


def _is_done(job: ShardJob) -> bool:
    """Whether an earlier call finished this shard: its statistics are written last."""
    if not (os.path.exists(job.statistics) and os.path.exists(job.shard)):
        return False
    return require_json(job.statistics, "statistics of a shard")["bytes"] == os.path.getsize(job.shard)


def _run(jobs: Sequence[ShardJob], num_workers: int) -> Iterator[dict[str, int]]:
    """Yields the statistics of each finished job; raises one UserError if a worker fails."""
    if num_workers == IN_THIS_PROCESS:
        for job in jobs:
            try:
                yield write_shard(job)
            except UserError:
                raise
            except Exception as error:
                raise _writing_error(job.shard, error) from error
        return
    if not jobs:
        return
    context = multiprocessing.get_context("spawn")
    workers = min(max(1, num_workers), len(jobs))
    with concurrent.futures.ProcessPoolExecutor(workers, context, initializer=start_worker) as pool:
        futures = {pool.submit(write_shard, job): job for job in jobs}
        try:
            for future in concurrent.futures.as_completed(futures):
                shard = futures[future].shard
                yield future.result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise UserError(
                "A worker process was killed, most often because memory ran out; the same command continues where it "
                "stopped, with fewer --num_workers if memory is short."
            ) from error
        except UserError:
            raise
        except Exception as error:
            raise _writing_error(shard, error) from error
        except BaseException:  # Ctrl-C does not wait for the shards that are being written
            for process in multiprocessing.active_children():
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _writing_error(shard: str, error: Exception) -> UserError:
    is_full = shutil.disk_usage(os.path.dirname(shard)).free < MIN_FREE_BYTES
    reason = f"{'no room on the disk' if is_full else type(error).__name__}: {error}"
    return UserError(f"Writing {shard} failed ({reason}); finished shards are kept.")
