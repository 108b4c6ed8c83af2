"""What TensorFlow makes of a graph on a CPU and on a GPU: its graph optimizer with devices that need not exist.

It chooses implementations and rewrites operations as at run time, but places nothing and runs nothing: that all nodes
lie on the one device is assumed here, and operations that have no kernel for a GPU from the start, as those of strings,
are left to TensorFlow's soft placement.
"""

import os

from tensorflow.core.protobuf import (
    config_pb2,
    device_properties_pb2,
    meta_graph_pb2,
    rewriter_config_pb2,
    saved_model_pb2,
)
from tensorflow.python.framework import kernels
from tensorflow.python.grappler import cluster, tf_optimizer

PROPERTIES = {
    "CPU": {"type": "CPU", "frequency": 2000, "num_cores": 2},
    "GPU": {"type": "GPU", "frequency": 1000, "num_cores": 60, "environment": {"architecture": "8"}},
}


def optimized(graph, outputs, device):
    """The GraphDef with all of its nodes on one "CPU" or "GPU", optimized for the nodes named `outputs`."""
    names = {kind: f"/job:localhost/replica:0/task:0/device:{kind}:0" for kind in PROPERTIES}
    devices = [
        device_properties_pb2.NamedDevice(
            name=names[kind], properties=device_properties_pb2.DeviceProperties(**PROPERTIES[kind])
        )
        for kind in dict.fromkeys(("CPU", device))
    ]
    meta_graph = meta_graph_pb2.MetaGraphDef(graph_def=graph)
    for node in meta_graph.graph_def.node:
        node.device = names[device]
    meta_graph.collection_def["train_op"].node_list.value.extend(outputs)
    config = config_pb2.ConfigProto()
    config.graph_options.rewrite_options.min_graph_nodes = -1  # small graphs too
    config.graph_options.rewrite_options.fail_on_optimizer_errors = True
    config.graph_options.rewrite_options.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    return tf_optimizer.OptimizeGraph(config, meta_graph, cluster=cluster.Cluster(devices=devices))


def operations(graph):
    """The names of the operations in a GraphDef and its functions."""
    return {node.op for nodes in (graph.node, *(f.node_def for f in graph.library.function)) for node in nodes}


def assert_runs_on_a_gpu(graph, outputs):
    """Asserts that on a GPU no operation appears that only CPUs have, nor one that oneDNN rewrites to such."""
    on_gpu = operations(optimized(graph, outputs, "GPU"))
    assert "FusedBatchNormV3" not in on_gpu
    for name in on_gpu - operations(graph):
        devices = {kernel.device_type for kernel in kernels.get_registered_kernels_for_op(name).kernel}
        assert devices & {"GPU", "DEFAULT"}, name


def assert_runs_anywhere(folder):
    """Asserts that the signatures of an export run on GPUs, and have the LayerNorm for CPUs without depending on it."""
    with open(os.path.join(folder, "saved_model.pb"), "rb") as file:
        meta_graph = saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs[0]
    graph = meta_graph.graph_def
    assert not any(function.attr["_XlaMustCompile"].b for function in graph.library.function)
    devices = {
        function.attr["api_preferred_device"].s
        for function in graph.library.function
        if "FusedBatchNormV3" in {node.op for node in function.node_def}
    }
    assert devices == {b"CPU"}
    signatures = [value for name, value in meta_graph.signature_def.items() if not name.startswith("__")]
    assert_runs_on_a_gpu(graph, [x.name.partition(":")[0] for each in signatures for x in each.outputs.values()])
