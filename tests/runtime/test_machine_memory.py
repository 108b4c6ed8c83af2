"""The memory of this machine is counted within the limit of its container."""

from bert_tf.runtime import machine_memory


def test_container_limit_is_respected(monkeypatch, tmp_path):
    limits = tmp_path / "memory.max"
    monkeypatch.setattr(machine_memory, "CONTROL_GROUP", str(limits))
    free_of_limits = machine_memory.machine_memory()
    limits.write_text("max\n")
    assert machine_memory.machine_memory()[0] == free_of_limits[0] > 0
    limits.write_text("1048576\n")
    assert machine_memory.machine_memory() == (1048576, 1048576)
