"""anyrun.py - writes FOLDER/any.onnx, a small CNN that is not of the EmTrkMichelId family, and FOLDER/patches.npy for it."""
import sys

import numpy
import onnx
from onnx import TensorProto, helper

random = numpy.random.default_rng(1)


def constant(name, *shape):
    return helper.make_tensor(name, TensorProto.FLOAT, shape, random.normal(0, 0.4, shape).astype("f4").ravel())


nodes = [
    helper.make_node("Conv", ["x", "kernel"], ["conv"], pads=[1, 1, 1, 1]),
    helper.make_node("Relu", ["conv"], ["relu"]),
    helper.make_node("MaxPool", ["relu"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
    helper.make_node("Conv", ["pool", "second"], ["deep"]),
    helper.make_node("Flatten", ["deep"], ["flat"]),
    helper.make_node("Gemm", ["flat", "weights", "bias"], ["sums"]),
    helper.make_node("Softmax", ["sums"], ["scores"], axis=1),
]
graph = helper.make_graph(
    nodes,
    "any",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1, 8, 8])],
    [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 3])],
    [constant("kernel", 8, 1, 3, 3), constant("second", 8, 8, 3, 3), constant("weights", 32, 3), constant("bias", 3)],
)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), sys.argv[1] + "/any.onnx")
numpy.save(sys.argv[1] + "/patches.npy", random.normal(0, 1, (5, 8, 8)).astype("f4"))
