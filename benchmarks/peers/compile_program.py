"""Compiles a program in HLO for an accelerator that is not there; see ../programs.py. Needs JAX and its plugins.

    compile_program.py FILE.hlo h100|v5e

Prints the seconds it takes.
"""

import os
import pathlib
import sys
import time

os.environ |= {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1"}


def main():
    import numpy as np
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jaxlib.mlir import ir

    file, target = pathlib.Path(sys.argv[1]), sys.argv[2]
    device = device_of(target)
    computation = xla_client.XlaComputation(file.read_bytes())
    text = xla_client._xla.mlir.xla_computation_to_mlir_module(computation)
    module = ir.Module.parse(text, context=mlir.make_ir_context())
    options = xla_client.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    options.device_assignment = xla_client.DeviceAssignment.create(np.array([[device.id]]))
    start = time.perf_counter()
    device.client.compile(module, xla_client.DeviceList((device,)), options)
    print(f"{time.perf_counter() - start:.1f}")


def device_of(target):
    """A device that exists as a description only."""
    from jax._src import xla_bridge
    from jax.experimental import topologies

    if target == "v5e":
        return topologies.get_topology_desc("v5e:2x2x1", "tpu").devices[0]
    xla_bridge._discover_and_register_pjrt_plugins()
    description = pathlib.Path(__file__).with_name(f"{target}.txt").read_text()
    return topologies.get_topology_desc("1x1x1", "cuda", target_config=description, topology="1x1x1").devices[0]


if __name__ == "__main__":
    main()
