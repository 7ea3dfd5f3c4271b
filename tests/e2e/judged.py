"""judged.py - models that OpenVINO computes as ONNX defines, or otherwise, and what an output states of that.

usage: judged.py make FOLDER           up.onnx (ConvTranspose with output_shape), pool.onnx (MaxPool whose last window is beyond
                                       the end), shape.onnx (nothing but that), plain.onnx, bfloat.onnx (of a type that ONNX Runtime does not pool); patches.npy
       judged.py states SCORES.h5 TEXT the attribute judged_by, which is absent if TEXT is ""
       judged.py differs MODEL.onnx PATCHES.npy SCORES.h5  from ONNX Runtime, by more than 0.01
"""
import sys

import h5py
import numpy as np
import onnx
from onnx import TensorProto
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from onnx.numpy_helper import from_array


def make(folder):
    draw = np.random.default_rng(1)
    weights = from_array(draw.normal(0, .4, (3, 3, 3, 3)).astype("f4"), "w")

    def save(name, nodes, mean=True):
        nodes += [make_node("GlobalAveragePool", ["u"], ["m"]), make_node("Flatten", ["m"], ["y"])] if mean else []
        ports = [make_tensor_value_info(port, TensorProto.FLOAT, shape)
                 for port, shape in (("x", [None, 3, 6, 6]), ("y", [None, 3] if mean else [None, 3, None, None]))]
        model = make_model(make_graph(nodes, name, ports[:1], ports[1:], [weights]), opset_imports=[make_opsetid("", 13)],
                           ir_version=8)
        onnx.checker.check_model(model)
        onnx.save(model, f"{folder}/{name}.onnx")

    save("up", [make_node("ConvTranspose", ["x", "w"], ["u"], name="up3", strides=[2, 2], output_shape=[12, 12])])
    save("pool", [make_node("MaxPool", ["x"], ["u"], name="thin", kernel_shape=[1, 1], strides=[2, 2], ceil_mode=1)])
    save("shape", [make_node("MaxPool", ["x"], ["y"], name="thin", kernel_shape=[1, 1], strides=[2, 2], ceil_mode=1)], False)
    save("plain", [make_node("Conv", ["x", "w"], ["u"])])
    save("bfloat", [make_node("Cast", ["x"], ["b"], to=TensorProto.BFLOAT16), make_node("Relu", ["b"], ["r"]),
                    make_node("Cast", ["r"], ["u"], to=TensorProto.FLOAT)])
    np.save(f"{folder}/patches.npy", draw.normal(0, 1, (50, 3 * 6 * 6)).astype("f4"))


def states(scores, text):
    with h5py.File(scores) as f:
        given = f.attrs.get("judged_by", b"")
        given = given.decode() if isinstance(given, bytes) else given
    assert given == text, (given, text)


def differs(model, patches, scores):
    import onnxruntime
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"x": np.load(patches).reshape(-1, 3, 6, 6)})[0]
    with h5py.File(scores) as f:
        table = next(f[name] for name in f if isinstance(f[name], h5py.Group) and "y_0" in f[name])
        given = np.stack([table[f"y_{i}"][:].ravel() for i in range(3)], axis=1)
    assert given.shape == wanted.shape and np.abs(given - wanted).max() > 0.01, np.abs(given - wanted).max()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
