"""tritonmodels.py - makes a model repository for triton.t, and what its models answer by ONNX Runtime.

usage: tritonmodels.py FOLDER MODEL.onnx      FOLDER/models is the repository, FOLDER/NAME.npz: inputs and answers
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T, helper, numpy_helper

from protobuf import field

folder, given = sys.argv[1:3]
onnxruntime.set_default_logger_severity(3)  # initializers that nothing uses
LIGHT = os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/light/light_%s.onnx")
FLOAT, INT32 = 1, 3  # TensorFlow's numbers of types


def path_of(name, file):
    os.makedirs(f"{folder}/models/{name}/1", exist_ok=True)
    return f"{folder}/models/{name}/1/{file}"


def keep(name, model, inputs):
    """Writes an ONNX model, and what ONNX Runtime answers."""
    onnx.save(model, path_of(name, "model.onnx"))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    answers = dict(zip(names, session.run(names, inputs)))
    np.savez(f"{folder}/{name}.npz", **{"in:" + key: value for key, value in inputs.items()},
             **{"out:" + key: value for key, value in answers.items()})


# ---- a TensorFlow frozen graph -------------------------------------------------------------------

def shape(dims):
    return b"".join(field(2, field(1, n)) for n in dims)


def node(op, name, inputs, **attributes):
    return field(1, field(1, name) + field(2, op) + b"".join(field(3, one) for one in inputs) +
                 b"".join(field(5, field(1, key) + field(2, value)) for key, value in attributes.items()))


def constant(name, array):
    kind = FLOAT if array.dtype == np.float32 else INT32
    tensor = field(1, kind) + field(2, shape(array.shape)) + field(4, array.tobytes())
    return node("Const", name, [], dtype=field(6, kind), value=field(8, tensor))


def frozen(model):
    """The network that `wiremill model new` writes, as TensorFlow freezes it, with the same weights."""
    weights = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    side = model.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    kind = field(6, FLOAT)
    out = node("Placeholder", "main_input", [], dtype=kind, shape=field(7, shape([-1, side, side, 1])))
    out += constant("conv/kernel", np.ascontiguousarray(weights["conv0_w"].transpose(2, 3, 1, 0)))
    out += node("Conv2D", "conv/Conv2D", ["main_input", "conv/kernel"], T=kind, padding=field(2, "VALID"),
                strides=field(1, field(3, 1) * 4), data_format=field(2, "NHWC"))
    out += constant("conv/bias", weights["conv0_b"]) + node("BiasAdd", "conv/BiasAdd", ["conv/Conv2D", "conv/bias"], T=kind)
    out += node("Relu", "conv/Relu", ["conv/BiasAdd"], T=kind)
    out += constant("flat/shape", np.array([-1, weights["dense0_w"].shape[0]], np.int32))
    out += node("Reshape", "flat", ["conv/Relu", "flat/shape"], T=kind, Tshape=field(6, INT32))
    last = "flat"
    for i, (scope, end) in enumerate((("dense0", "Relu"), ("dense1", "Relu"), ("em_trk_none_netout", "Softmax"),
                                      ("michel_netout", "Sigmoid"))):
        out += constant(scope + "/kernel", weights[f"dense{i}_w"]) + constant(scope + "/bias", weights[f"dense{i}_b"])
        out += node("MatMul", scope + "/MatMul", [last, scope + "/kernel"], T=kind)
        out += node("BiasAdd", scope + "/BiasAdd", [scope + "/MatMul", scope + "/bias"], T=kind)
        out += node(end, f"{scope}/{end}", [scope + "/BiasAdd"], T=kind)
        last = f"{scope}/{end}" if i < 2 else last
    return out


# ---- others' networks ----------------------------------------------------------------------------

def light(name):
    """A network of the onnx package; its weights, which are constants there, are drawn by a seed."""
    model = onnx.load(LIGHT % name)
    rng = np.random.default_rng(4)
    shapes = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    for one in [one for one in model.graph.node if one.op_type == "ConstantOfShape"]:
        dims = shapes[one.input[0]]
        spread = {1: 0, 2: 0.01}.get(len(dims), np.sqrt(2 / np.prod(dims[1:])))  # the last layer's: no class alone
        values = spread * rng.standard_normal(dims) if spread else rng.random(dims) + 0.5
        model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), one.output[0]))
        model.graph.node.remove(one)
    port, = [one for one in model.graph.input if one.name not in {one.name for one in model.graph.initializer}]
    dims = [max(one.dim_value, 1) for one in port.type.tensor_type.shape.dim]
    keep(name, model, {port.name: rng.random(dims, np.float32)})


def ten_inputs():
    """Shaped as NuGraph's: ten inputs of one dimension without a batch, six outputs."""
    names = [f"{what}_{plane}" for plane in "uvy" for what in ("hits", "wires", "edges")] + ["nexus"]
    kinds = [T.INT32 if name.startswith(("edges", "nexus")) else T.FLOAT for name in names]
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Cast", [name], [name + "_"], to=T.FLOAT) for name in names]
    outputs = []
    for i, plane in enumerate("uvy"):
        nodes += [helper.make_node("Sum", [name + "_" for name in names[3 * i:3 * i + 3]] + ["nexus_"], [f"semantic_{plane}"]),
                  helper.make_node("Sigmoid", [f"semantic_{plane}"], [f"filter_{plane}"])]
        outputs += [value(f"semantic_{plane}", T.FLOAT, [40]), value(f"filter_{plane}", T.FLOAT, [40])]
    graph = helper.make_graph(nodes, "g", [value(name, kind, [40]) for name, kind in zip(names, kinds)], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    rng = np.random.default_rng(5)
    keep("ten", model, {name: rng.integers(-9, 9, 40).astype(np.int32) if kind == T.INT32 else rng.random(40, np.float32)
                        for name, kind in zip(names, kinds)})


os.symlink(given, path_of("m", "model.onnx"))
with open(path_of("emtrkmichel", "model.graphdef"), "wb") as out:
    out.write(frozen(onnx.load(given)))
with open(f"{folder}/models/emtrkmichel/config.pbtxt", "w") as out:
    out.write('platform: "tensorflow_graphdef" max_batch_size: 256 input [ { name: "main_input" data_type: TYPE_FP32 format: FORMAT_NHWC '
              'dims: [ -1, -1, 1 ] } ] instance_group [ { kind: KIND_GPU } ]\n')
os.symlink(given, path_of("flat", "model.onnx"))
side = onnx.load(given).graph.input[0].type.tensor_type.shape.dim[1].dim_value
with open(f"{folder}/models/flat/config.pbtxt", "w") as out:
    out.write(f'backend: "onnxruntime" max_batch_size: 8 parameters {{ key: "k" value {{ string_value: "v" }} }} input {{ name: "main_input" '
              f'data_type: TYPE_FP32 dims: {side * side} reshape {{ shape: [ {side}, {side}, 1 ] }} }}\n')
light("squeezenet")
light("resnet50")
ten_inputs()
