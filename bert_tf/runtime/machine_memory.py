"""The memory of this machine."""

import psutil

CONTROL_GROUP = "/sys/fs/cgroup/memory.max"


def machine_memory() -> tuple[int, int]:
    """Returns (bytes of memory, bytes of it that are free), within the limit of the container if there is one."""
    memory = psutil.virtual_memory()
    limit = memory.total
    try:
        with open(CONTROL_GROUP, encoding="ascii") as file:
            limit = min(limit, int(file.read()))
    except (OSError, ValueError):  # no control groups, or "max"
        pass
    return limit, min(limit, memory.available)
