"""unet.py - a small U-Net of Wire-Cell's shapes, and its values by ONNX Runtime.

usage: unet.py make HEIGHT WIDTH MODEL.onnx          (N, 3, HEIGHT, WIDTH) -> (N, 1, HEIGHT, WIDTH), INPUT__0 -> OUTPUT__0
       unet.py input N HEIGHT WIDTH OUT.f4           so many tensors
       unet.py compare MODEL.onnx IN.f4 OUT.f4       whether OUT.f4 is what ONNX Runtime computes of IN.f4
"""
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

CLOSE = 1e-5


def make(height, width, path):
    rng, weights = np.random.default_rng(43), []

    def weight(name, *shape):
        values = rng.normal(size=shape).astype(np.float32) / np.float32(np.sqrt(np.prod(shape[1:])))
        weights.append(numpy_helper.from_array(values, name))
        return name

    def conv(node, to, *shape):
        return helper.make_node("Conv", [node, weight(f"w_{to}", *shape), weight(f"b_{to}", shape[0])], [to], kernel_shape=shape[2:],
                                pads=[shape[2] // 2, shape[3] // 2] * 2)

    nodes = [conv("INPUT__0", "down", 4, 3, 3, 3), helper.make_node("Relu", ["down"], ["kept"]),
             helper.make_node("MaxPool", ["kept"], ["half"], kernel_shape=[2, 2], strides=[2, 2]),
             conv("half", "deep", 8, 4, 3, 3), helper.make_node("Relu", ["deep"], ["deeper"]),
             helper.make_node("ConvTranspose", ["deeper", weight("w_up", 8, 4, 2, 2)], ["up"], kernel_shape=[2, 2], strides=[2, 2]),
             helper.make_node("Concat", ["kept", "up"], ["both"], axis=1), conv("both", "last", 1, 8, 3, 3),
             helper.make_node("Sigmoid", ["last"], ["OUTPUT__0"])]
    sizes = int(height), int(width)
    graph = helper.make_graph(nodes, "unet", [helper.make_tensor_value_info("INPUT__0", TensorProto.FLOAT, ["N", 3, *sizes])],
                              [helper.make_tensor_value_info("OUTPUT__0", TensorProto.FLOAT, ["N", 1, *sizes])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def tensors(n, height, width):
    """Noise with a track across it; each of its own values."""
    values = np.random.default_rng(7).normal(scale=0.1, size=(int(n), 3, int(height), int(width))).astype(np.float32)
    rows = np.arange(int(height))
    for i in range(int(n)):
        values[i, :, rows, (rows * (i + 1) // 3) % int(width)] += 1 + i
    return values


def computed(model, values):
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(["OUTPUT__0"], {"INPUT__0": values})[0]


def compare(model, source, to):
    shape = [d.dim_value for d in onnx.load(model).graph.input[0].type.tensor_type.shape.dim][1:]
    wanted = computed(model, np.fromfile(source, np.float32).reshape(-1, *shape))
    found = np.fromfile(to, np.float32).reshape(wanted.shape)
    assert wanted.std() > 0.01, "the values are all the same"
    worst = np.abs(found - wanted).max()
    assert worst <= CLOSE, f"{worst} apart"


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(*sys.argv[2:])
    elif sys.argv[1] == "input":
        tensors(*sys.argv[2:5]).tofile(sys.argv[5])
    else:
        compare(*sys.argv[2:])
