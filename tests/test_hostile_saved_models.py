"""SavedModels made to read, write or send what is not theirs: each is refused before anything in it runs.

What they would write does not exist, and what they would read does, so that a graph that runs shows it.
"""

import os
import re
import shutil

import pytest
import tensorflow as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.client import pywrap_tf_session

from convnlp import saved_model_operations, saved_model_sums
from convnlp.bulk.model import Predictor
from convnlp.serving.core.loader import Loader
from convnlp.serving.core.metrics import Metrics
from tests.run_program import run_program
from tests.serving.small_models import save_grammar, save_upper

ops = tf.raw_ops
TEXT = tf.TensorSpec([None], tf.string, "text")


def save(folder, answer, module=None):
    """A model that answers {"y": answer(texts)}."""
    function = tf.function(lambda text: {"y": answer(text)}, input_signature=[TEXT])
    tf.saved_model.save(module or tf.Module(), str(folder), {"serving_default": function})
    return folder


def after(operation, text):
    with tf.control_dependencies([operation]):
        return tf.identity(text)


def with_variable(answer):
    """A model with a variable, whose graph restores it."""

    def write(folder, outside):
        module = tf.Module()
        module.scale = tf.Variable(2.0)
        save(folder, lambda text: answer(tf.identity(text), outside, module.scale), module)

    return write


def plain(answer):
    return lambda folder, outside: save(folder, lambda text: answer(text, outside))


def hidden_in_branches(text, outside):
    def write():
        return after(tf.io.write_file(f"{outside}/written", "x"), text)

    return tf.cond(tf.shape(text)[0] > 0, write, lambda: tf.map_fn(tf.identity, text))


def edited(change):
    """A sound model, whose graph is then changed."""

    def write(folder, outside):
        with_variable(lambda text, _, scale: tf.strings.join([text, tf.strings.as_string(scale)]))(
            folder, outside
        )
        edit(folder, lambda meta_graph: change(meta_graph, outside))

    return write


def edit(folder, change):
    path = folder / "saved_model.pb"
    content = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    change(content.meta_graphs[0])
    path.write_bytes(content.SerializeToString())


def constant(nodes, name, value):
    """Adds a string to nodes; returns its name."""
    node = nodes.add(name=name, op="Const")
    node.attr["dtype"].type = tf.string.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    return name


def add_write(nodes, outside, prefix=""):
    """Adds a write of a file to nodes; returns its name."""
    for name, value in (("path", f"{outside}/written"), ("what", "x")):
        constant(nodes, f"{prefix}{name}", value)
    colon = ":output:0" if prefix else ""
    nodes.add(name=f"{prefix}write", op="WriteFile", input=[f"{prefix}path{colon}", f"{prefix}what{colon}"])
    return f"{prefix}write"


def on_restoring(meta_graph, outside):
    name = meta_graph.saver_def.restore_op_name.removesuffix(":0")
    (node,) = [node for node in meta_graph.graph_def.node if node.name == name]
    node.input.append("^" + add_write(meta_graph.graph_def.node, outside))


def in_the_saver(meta_graph, outside):
    (function,) = [
        each for each in meta_graph.graph_def.library.function if "traced_restore" in each.signature.name
    ]
    function.control_ret["write"] = add_write(function.node_def, outside, "own/")
    function.signature.control_output.append("write")


def at_the_start(meta_graph, outside):
    name = add_write(meta_graph.graph_def.node, outside)
    meta_graph.collection_def["saved_model_main_op"].node_list.value.append(name)


def hidden_by_a_name(meta_graph, outside):
    """A later function of the same name is harmless."""
    library = meta_graph.graph_def.library.function
    (name,) = [each.signature.name for each in library if "signature_wrapper" in each.signature.name]
    (sound,) = [each for each in library if each.signature.name == name]
    others = [each for each in library if each.signature.name != name]
    wrong = type(sound).FromString(sound.SerializeToString())
    add_write(wrong.node_def, outside, "own/")
    copies = [each.SerializeToString() for each in (*others, wrong, sound)]
    del library[:]
    library.extend(type(wrong).FromString(each) for each in copies)


def saver_as_signature(meta_graph, outside):
    """A client chooses the path of a checkpoint, which the server writes."""
    signature = meta_graph.signature_def["serving_default"]
    signature.inputs["path"].name = meta_graph.saver_def.filename_tensor_name
    signature.inputs["path"].dtype = tf.string.as_datatype_enum
    signature.outputs["saved"].name = meta_graph.saver_def.save_tensor_name
    signature.outputs["saved"].dtype = tf.string.as_datatype_enum


def saver_as_restorer(meta_graph, outside):
    """What is to restore the variables writes them."""
    meta_graph.saver_def.restore_op_name = meta_graph.saver_def.save_tensor_name


def saver_as_initializer(meta_graph, outside):
    """Only `tf.saved_model.load` calls it."""
    (name,) = [
        each.signature.name
        for each in meta_graph.graph_def.library.function
        if "traced_save" in each.signature.name
    ]
    meta_graph.object_graph_def.concrete_functions[name].SetInParent()


def table(folder, vocabulary, look_up_in_it=True):
    module = tf.Module()
    initializer = tf.lookup.TextFileInitializer(
        str(vocabulary),
        tf.string,
        tf.lookup.TextFileIndex.WHOLE_LINE,
        tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
    )
    module.table = tf.lookup.StaticHashTable(initializer, -1)
    return save(folder, lambda text: tf.strings.as_string(module.table.lookup(text)), module)


def with_table(change):
    def write(folder, outside):
        table(folder, outside / "secret")
        edit(folder, lambda meta_graph: change(meta_graph, outside))

    return write


def not_an_asset(meta_graph, outside):
    """The name of the file stays in the graph, as a constant."""
    (asset,) = meta_graph.asset_file_def
    (node,) = [
        node for node in meta_graph.graph_def.node if node.name == asset.tensor_info.name.partition(":")[0]
    ]
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(f"{outside}/secret"))
    del meta_graph.asset_file_def[:]


def an_asset_outside(meta_graph, outside):
    meta_graph.asset_file_def[0].filename = "../../secret"


def an_absolute_asset(meta_graph, outside):
    meta_graph.asset_file_def[0].filename = f"{outside}/secret"


def set_to_another_path(meta_graph, outside):
    """The variable that holds the path of the asset is set to something else."""
    nodes = meta_graph.graph_def.node
    (assign,) = [node for node in nodes if node.op == "AssignVariableOp"]
    assign.input[1] = constant(nodes, "other", f"{outside}/secret")


def set_by_another_name(meta_graph, outside):
    """A second handle of the same variable."""
    nodes = meta_graph.graph_def.node
    (handle,) = [node for node in nodes if node.op == "VarHandleOp"]
    (assign,) = [node for node in nodes if node.op == "AssignVariableOp"]
    (start,) = [node for node in nodes if node.name == "NoOp"]
    for original, name in ((handle, "twin"), (assign, "twin/Assign")):
        copy = nodes.add()
        copy.CopyFrom(original)
        copy.name = name
    copy.input[:] = ["twin", constant(nodes, "other", f"{outside}/secret")]
    start.input.append("^twin/Assign")


def set_in_a_function(meta_graph, outside):
    """The variable is given to a function, which may do with it what it likes."""
    nodes = meta_graph.graph_def.node
    (handle,) = [node for node in nodes if node.op == "VarHandleOp"]
    (start,) = [node for node in nodes if node.op == "StatefulPartitionedCall" and "_1" in node.name]
    start.input.append(handle.name)


def named_by_a_client(meta_graph, outside):
    signature = meta_graph.signature_def["serving_default"]
    signature.inputs["file"].CopyFrom(meta_graph.asset_file_def[0].tensor_info)


def filled_by_an_answer(meta_graph, outside):
    """Then nobody gives it the path of the asset."""
    start = meta_graph.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name
    name = start.partition(":")[0]
    (answer,) = [node for node in meta_graph.graph_def.node if node.name == "StatefulPartitionedCall"]
    answer.input.append(f"^{name}")


HOSTILE = {
    "reads a file": plain(lambda text, outside: tf.io.read_file(f"{outside}/secret") + text),
    "reads what a client names": plain(lambda text, outside: tf.map_fn(tf.io.read_file, text)),
    "writes a file": plain(lambda text, outside: after(tf.io.write_file(f"{outside}/written", "x"), text)),
    "writes in a branch": plain(hidden_in_branches),
    "lists files": plain(lambda text, outside: tf.io.matching_files(f"{outside}/*")),
    "prints into a file": plain(
        lambda text, outside: after(tf.print("x", output_stream=f"file://{outside}/written"), text)
    ),
    "writes a checkpoint": with_variable(
        lambda text, outside, scale: after(
            ops.SaveV2(
                prefix=f"{outside}/written", tensor_names=["x"], shape_and_slices=[""], tensors=[scale]
            ),
            text,
        )
    ),
    "reads a checkpoint": with_variable(
        lambda text, outside, scale: tf.strings.as_string(
            ops.RestoreV2(
                prefix=f"{outside}/secret", tensor_names=["x"], shape_and_slices=[""], dtypes=[tf.int64]
            )[0]
        )
    ),
    "reads records": plain(
        lambda text, outside: tf.data.Dataset.reduce(
            tf.data.TextLineDataset(f"{outside}/secret"), tf.constant(""), lambda a, b: a + b
        )
    ),
    "maps a file into memory": plain(
        lambda text, outside: tf.strings.as_string(
            ops.ImmutableConst(dtype=tf.int8, shape=[4], memory_region_name=f"{outside}/secret")
        )
    ),
    "calls Python": plain(lambda text, outside: tf.numpy_function(lambda x: x, [text], tf.string)),
    "writes as it restores": edited(on_restoring),
    "writes in the saver": edited(in_the_saver),
    "writes at the start": edited(at_the_start),
    "writes in one of two functions": edited(hidden_by_a_name),
    "saves when asked": edited(saver_as_signature),
    "saves to restore": edited(saver_as_restorer),
    "saves as an initializer": edited(saver_as_initializer),
    "a table of another file": with_table(not_an_asset),
    "an asset outside": with_table(an_asset_outside),
    "an absolute asset": with_table(an_absolute_asset),
    "a table of a changed path": with_table(set_to_another_path),
    "a table of a path with two names": with_table(set_by_another_name),
    "a table of a path that a function gets": with_table(set_in_a_function),
    "a table that a client names": with_table(named_by_a_client),
    "a table that an answer fills": with_table(filled_by_an_answer),
}


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("secret\n")
    (tmp_path / "secret").write_text("secret\n")
    return folder


@pytest.fixture
def nothing_runs(monkeypatch):
    """Fails where TensorFlow would be given a graph."""

    def refuse(*args, **kwargs):
        raise AssertionError("the graph was loaded")

    monkeypatch.setattr(tf.compat.v1, "Session", refuse)
    monkeypatch.setattr(tf.saved_model, "load", refuse)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_model_is_refused(tmp_path, outside, name, nothing_runs):
    """With sums that fit: whoever makes such a model writes them too."""
    model = tmp_path / "model" / "1"
    HOSTILE[name](model, outside)
    saved_model_sums.write(model)
    for load in (
        lambda: Loader(Metrics())("m", 1, str(model)),
        lambda: Predictor(str(model), "serving_default", 8),
    ):
        with pytest.raises(
            ValueError, match=r"its graph must not open files of|an asset must be inside"
        ) as error:
            load()
        assert str(error.value).startswith(f"{model}: ")
        assert "\n" not in str(error.value)
    assert os.listdir(outside) == ["secret"]


def test_verify_refuses_it_before_it_runs(tmp_path, outside):
    HOSTILE["writes a file"](tmp_path / "1", outside)
    done = run_program("convnlp.export.verify", f"--model={tmp_path}/1")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {tmp_path}/1: its graph must not open files of its own choice")
    assert os.listdir(outside) == ["secret"]


def test_a_table_of_an_asset_is_filled(tmp_path):
    """Wherever the model is, and though the file that it was made from is gone."""
    (tmp_path / "words").write_text("a\nb\n")
    table(tmp_path / "made", tmp_path / "words")
    (tmp_path / "words").unlink()
    model = shutil.move(tmp_path / "made", tmp_path / "1")
    servable = Loader(Metrics())("m", 1, str(model))
    signature = servable.signatures["serving_default"]
    (answer,) = servable.run({signature.inputs["text"].name: [b"b", b"c"]}, (signature.outputs["y"].name,))
    assert answer.tolist() == [b"1", b"-1"]
    servable.close()
    answers = Predictor(str(model), "serving_default", 8).predict([(b"b",), (b"c",)])
    assert [each["y"] for each in answers] == [b"1", b"-1"]


def test_a_graph_of_the_first_tensorflow_is_read(tmp_path):
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        (tmp_path / "words").write_text("a\nb\n")
        file = tf.constant(str(tmp_path / "words"))
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.ASSET_FILEPATHS, file)
        initializer = tf.lookup.TextFileInitializer(
            file, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
        )
        words = tf.lookup.StaticHashTable(initializer, -1)
        scale = tf.compat.v1.get_variable("scale", initializer=2.0, use_resource=False)
        text = tf.compat.v1.placeholder(tf.string, [None])
        y = tf.cast(words.lookup(text), tf.float32) * scale
        session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()])
        tf.compat.v1.saved_model.simple_save(
            session, str(tmp_path / "1"), {"text": text}, {"y": y}, tf.compat.v1.tables_initializer()
        )
    servable = Loader(Metrics())("m", 1, str(tmp_path / "1"))
    (answer,) = servable.run({text.name: [b"b", b"c"]}, (y.name,))
    assert answer.tolist() == [2.0, -2.0]
    servable.close()


@pytest.mark.parametrize("write", [save_grammar, save_upper])
def test_it_leaves_the_message_as_it_is(tmp_path, write):
    write(tmp_path)
    content = saved_model_pb2.SavedModel.FromString((tmp_path / "saved_model.pb").read_bytes())
    before = content.SerializeToString(deterministic=True)
    saved_model_operations.check(content, tmp_path)
    assert content.SerializeToString(deterministic=True) == before


def test_a_graph_that_names_a_part_that_is_missing(tmp_path):
    table(tmp_path / "1", _words(tmp_path))
    content = saved_model_pb2.SavedModel.FromString((tmp_path / "1" / "saved_model.pb").read_bytes())
    for function in content.meta_graphs[0].object_graph_def.concrete_functions.values():
        for i, _ in enumerate(function.bound_inputs):
            function.bound_inputs[i] = 10**6
    with pytest.raises(ValueError, match="its graph is damaged: it names a part that is missing"):
        saved_model_operations.check(content, "model")


def _words(folder):
    path = folder / "words"
    path.write_text("a\nb\n")
    return path


# Operations of TensorFlow with an argument of such a name that is no file, address or Python function.
HARMLESS = re.compile(
    r"RegexFullMatch|RegexReplace|RegexSplitWithOffsets|StaticRegex.*|CollectivePermute|RemoteCall|ShardedFile.*|InTopK.*|"
    r".*StatsAggregator.*|TensorSliceDataset|Write\w*Summary|FlushSummaryWriter|CloseSummaryWriter"
)
TELLING = re.compile(
    r"file|_path$|^path$|(?<!row_)prefix|^dir$|directory|url|uri|address|descriptor_source|memory_region|pattern|logdir"
)


def test_every_operation_that_names_a_file_is_known():
    """Of those that TensorFlow has here: a newer one may have more."""
    known = saved_model_operations.NEVER | saved_model_operations.SAVE | saved_model_operations.RESTORE
    known |= saved_model_operations.TABLES
    unknown = {}
    serialized = pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    for op in op_def_pb2.OpList.FromString(serialized).op:
        arguments = {each.name for each in (*op.input_arg, *op.attr)} - set(saved_model_operations.HARMLESS)
        telling = sorted(argument for argument in arguments if TELLING.search(argument))
        if telling and op.name not in known and not HARMLESS.fullmatch(op.name):
            unknown[op.name] = telling
    assert unknown == {}
