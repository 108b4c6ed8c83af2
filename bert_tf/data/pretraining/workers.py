"""Jobs to worker processes: each bucket becomes a shard, in any order, by any number of processes, with the same bytes.

No TensorFlow in this process; the workers are fresh interpreters, because a forked TensorFlow hangs.
"""

import concurrent.futures
import multiprocessing
import os
import shutil

from bert_tf.data.pretraining.shards import start_worker, write_shard
from bert_tf.errors import UserError
from bert_tf.runtime.json_files import require_json

FULL = 1_000_000  # bytes; with so few left that is why writing failed


def write_missing(jobs, num_workers, report):
    """Writes the shards of those jobs (`bert_tf.data.pretraining.shards.Job`) that no earlier call has finished.

    num_workers: processes, at least one; below 0 it is this process that works. report(done, total=..., text=...) is
    called after each shard. Raises one UserError when a worker fails; finished shards are kept.
    """
    missing = [job for job in jobs if not _is_done(job)]
    done = len(jobs) - len(missing)
    report(done, total=len(jobs), text="writing records")
    for _ in _results(missing, num_workers):
        done += 1
        report(done, total=len(jobs), text="writing records")


def _is_done(job):
    """Whether an earlier call finished this shard: its statistics are written last."""
    if not (os.path.exists(job.statistics) and os.path.exists(job.shard)):
        return False
    return require_json(job.statistics, "statistics of a shard")["bytes"] == os.path.getsize(job.shard)


def _results(jobs, num_workers):
    """Yields once per finished job; raises one UserError when a worker fails."""
    if num_workers < 0 or not jobs:
        yield from map(write_shard, jobs)
        return
    context = multiprocessing.get_context("spawn")
    workers = min(max(1, num_workers), len(jobs))
    with concurrent.futures.ProcessPoolExecutor(workers, context, initializer=start_worker) as pool:
        waiting = {pool.submit(write_shard, job): job for job in jobs}
        try:
            for future in concurrent.futures.as_completed(waiting):
                shard = waiting[future].shard
                yield future.result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise UserError(
                "A worker process was killed, most often because memory ran out; the same command goes on where it "
                "stopped, with fewer --num_workers if memory is short."
            ) from error
        except UserError:
            raise
        except Exception as error:
            full = shutil.disk_usage(os.path.dirname(shard)).free < FULL
            reason = f"{'no room on the disk' if full else type(error).__name__}: {error}"
            raise UserError(f"Writing {shard} failed ({reason}); finished shards are kept.") from error
        except BaseException:  # Ctrl-C does not wait for the shards that are being written
            for process in multiprocessing.active_children():
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
