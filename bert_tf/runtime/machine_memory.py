"""The memory of this machine."""

import psutil

CONTROL_GROUP = "/sys/fs/cgroup/memory.max"


def machine_memory() -> tuple[int, int]:
    """Returns (bytes of memory, free bytes), within the container's limit if there is one."""
    memory = psutil.virtual_memory()
    limit = memory.total
    try:
        with open(CONTROL_GROUP, encoding="ascii") as file:
            limit = min(limit, int(file.read()))
    except (OSError, ValueError):  # no cgroups, or "max"
        pass
    return limit, min(limit, memory.available)
