"""The memory of this machine is counted within the limit of its container."""

from bert_tf.runtime import memory_estimate


def test_container_limit_is_respected(monkeypatch, tmp_path):
    limits = tmp_path / "memory.max"
    monkeypatch.setattr(memory_estimate, "CONTROL_GROUP", str(limits))
    free_of_limits = memory_estimate.machine_memory()
    limits.write_text("max\n")
    assert memory_estimate.machine_memory()[0] == free_of_limits[0] > 0
    limits.write_text("1048576\n")
    assert memory_estimate.machine_memory() == (1048576, 1048576)
