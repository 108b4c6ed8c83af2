"""SavedModels that read or write files, or run code, are refused before anything of them runs."""

import re

import pytest
import quick_exports
import tensorflow as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.client import pywrap_tf_session

from bert_tf.errors import UserError
from bert_tf.export import graph_operations, loaded_model

TEXT = ("text", tf.string, ())
# What the words below find of TensorFlow's operations, though these only compute or cannot run outside of their place.
HARMLESS = """
_CopyFromGpuToHost _CopyFromHostToGpu _HostCast CopyOp CopyToMesh CopyToMeshGrad DeepCopy HostConst ShardedFilename
ShardedFilespec Print ReadVariableOp ReadVariableXlaSplitND DisableCopyOnRead TensorArrayWrite TensorArrayWriteV2
TensorArrayWriteV3 TensorArrayRead TensorArrayReadV2 TensorArrayReadV3 BoostedTreesExampleDebugOutputs ThreadPoolHandle
ThreadUnsafeUnigramCandidateSampler ExperimentalThreadPoolHandle LookupTableImport LookupTableImportV2 LookupTableExport
LookupTableExportV2 SentencepieceVocabSizeOp _ReadVariablesOp RngReadAndSkip CTCBeamSearchDecoder
""".split()


def saved(folder, function):
    return str(quick_exports.saved(folder, function, TEXT))


def printed(text):
    tf.print(text, output_stream="file:///tmp/none")
    return {"text": text}


def written(text):
    tf.io.write_file("written", text[0])
    return {"text": text}


def in_branch(text):
    """The operation lies in the function of a branch within a loop."""

    def step(number, value):
        return number + 1, tf.cond(number > 5, lambda: value, lambda: tf.io.read_file("secret"))

    return {"text": tf.while_loop(lambda number, _: number < 2, step, (0, text[0]))[1][None]}


def read_with_a_dataset(text):
    rows = tf.data.TextLineDataset("secret").batch(1)
    return {"text": rows.reduce(text, lambda _, row: row)}


def of_python(text):
    return {"text": tf.py_function(lambda x: x, [text], tf.string)}


def summarized(text):
    return {"text": tf.raw_ops.ScalarSummary(tags="a", values=1.0)[None]}


def restored(text):
    return {
        "x": tf.raw_ops.RestoreV2(prefix="secret", tensor_names=["a"], shape_and_slices=[""], dtypes=[tf.float32])[0]
    }


def saving(text):
    tf.raw_ops.SaveV2(prefix="written", tensor_names=["a"], shape_and_slices=[""], tensors=[1.0])
    return {"text": text}


BAD = {
    "PrintV2": printed,
    "WriteFile": written,
    "ReadFile": in_branch,
    r"\w*Dataset": read_with_a_dataset,
    "EagerPyFunc": of_python,
    "ScalarSummary": summarized,
    "RestoreV2": restored,
    "SaveV2": saving,
    "MatchingFiles": lambda text: {"text": tf.io.matching_files("/*")},
    "Abort": lambda text: {"text": text, "x": tf.raw_ops.Abort(error_msg="a") and tf.constant(1)},
    "DecodeProtoV2": lambda text: {
        "x": tf.io.decode_proto(text, "a.B", ["c"], [tf.int32], descriptor_source="secret").sizes
    },
}


@pytest.mark.parametrize("operation", BAD)
def test_operations_that_do_more_than_compute_are_refused(tmp_path, monkeypatch, operation):
    monkeypatch.chdir(tmp_path)
    folder = saved(tmp_path / "export", BAD[operation])
    for load in (loaded_model.on_strings, loaded_model.signatures):
        with pytest.raises(UserError, match=rf"export contains the operation {operation}\w*, which may read"):
            load(folder)
    assert not (tmp_path / "written").exists()


@pytest.mark.parametrize("command", [["predict", "--text=a"], ["predict", "--file=a.txt"], ["serve", "--port=0"]])
def test_commands_refuse_them(tmp_path, monkeypatch, capsys, command):
    from bert_tf.cli import main

    (tmp_path / "a.txt").write_text("a\n")
    folder = saved(tmp_path / "export", written)
    monkeypatch.chdir(tmp_path)
    assert main.main([command[0], folder, *command[1:]]) == 2
    assert "contains the operation WriteFile" in capsys.readouterr().err and not (tmp_path / "written").exists()


@pytest.fixture
def plain(tmp_path):
    """The content of an export with a variable, and what writes it back and checks it."""
    module = tf.Module()
    module.a = tf.Variable([1.0])
    spec = [tf.TensorSpec([None], tf.string, "text")]
    module.f = tf.function(lambda text: {"x": tf.cast(tf.strings.length(text), tf.float32) + module.a}, spec)
    folder = tmp_path / "plain"
    tf.saved_model.save(module, str(folder), signatures=module.f)
    model = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())

    def check():
        (folder / "saved_model.pb").write_bytes(model.SerializeToString())
        graph_operations.check(str(folder))

    return model.meta_graphs[0], check


def test_savers_may_save_and_restore(plain):
    _, check = plain
    check()


def node(graph, name):
    return next(each for each in graph.graph_def.node if each.name == name.partition(":")[0])


def change_nested(graph):
    """Another function calls that of the saver."""
    saver = node(graph, graph.saver_def.save_tensor_name)
    function = next(f for f in graph.graph_def.library.function if "traced" not in f.signature.name)
    function.node_def.add(name="x", op="StatefulPartitionedCall").attr["f"].CopyFrom(saver.attr["f"])


def change_signature(graph):
    """A signature returns what the saver returns."""
    graph.signature_def["serving_default"].outputs["x"].name = graph.saver_def.save_tensor_name


def change_input(graph):
    """A node waits for the saver."""
    node(graph, "StatefulPartitionedCall").input.append(f"^{graph.saver_def.save_tensor_name.partition(':')[0]}")


def change_main_operation(graph):
    """The saver runs after loading."""
    names = graph.collection_def["saved_model_main_op"].node_list.value
    names[:] = [graph.saver_def.save_tensor_name.partition(":")[0]]


def change_restore(graph):
    """The loader saves instead of restoring."""
    graph.saver_def.restore_op_name = graph.saver_def.save_tensor_name.partition(":")[0]


def change_objects(graph):
    """A function of an object is that of the saver."""
    name = node(graph, graph.saver_def.save_tensor_name).attr["f"].func.name
    graph.object_graph_def.concrete_functions[name].bound_inputs.append(0)


def change_second_caller(graph):
    """Another node calls the function of the saver."""
    graph.graph_def.node.add().CopyFrom(node(graph, graph.saver_def.save_tensor_name))
    graph.graph_def.node[-1].name = "other"


def change_restoring(graph):
    """The function that restores also writes a file."""
    name = node(graph, graph.saver_def.restore_op_name).attr["f"].func.name
    function = next(f for f in graph.graph_def.library.function if f.signature.name == name)
    function.node_def.add(name="x", op="WriteFile")


def change_calls_by_name(graph):
    """A node calls the function of the saver as an operation."""
    graph.graph_def.node.add(name="x", op=node(graph, graph.saver_def.save_tensor_name).attr["f"].func.name)


CHANGES = [value for name, value in globals().items() if name.startswith("change_")]


@pytest.mark.parametrize("change", CHANGES)
def test_functions_of_savers_serve_nothing_else(plain, change):
    graph, check = plain
    change(graph)
    with pytest.raises(UserError, match="contains the operation (SaveV2|MergeV2Checkpoints|RestoreV2|WriteFile)"):
        check()


@pytest.mark.parametrize("name", ["saved_model.cpb", "saved_model.pbtxt"])
def test_second_graph_is_refused(tmp_path, name):
    folder = saved(tmp_path / "export", lambda text: {"text": text})
    (tmp_path / "export" / name).write_bytes(b"")
    with pytest.raises(UserError, match=f"contains both {name} and saved_model.pb"):
        loaded_model.signatures(folder)


def test_every_operation_of_tensorflow_with_a_suspicious_name_or_attribute_is_forbidden():
    buffer = pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    names = re.compile(
        "File|Reader|Write|^Save|Restore|Checkpoint|PyFunc|Print|Record|Rpc|Debug|Summary|Dataset|Iterator|Remote|Custom"
        "Call|Mlir|TPU|Nccl|Collective|Send|Recv|Dump|Copy|Host|Import|Abort|Vocab|Read[A-Z]"
    )
    attributes = re.compile("file|path|url|stream$|region_name|descriptor_source|debug_ops")
    found = [
        operation.name
        for operation in op_def_pb2.OpList.FromString(buffer).op
        if names.search(operation.name) or any(attributes.search(attribute.name) for attribute in operation.attr)
    ]
    assert len(found) > 300
    missing = {name for name in found if not graph_operations.FORBIDDEN.fullmatch(name)} - set(HARMLESS)
    assert missing == set()
