"""weights.py - weights in every type and encoding that ONNX has, as onnx's own reader has them.

usage: weights.py make FOLDER                    models, patches and what the scores must be
       weights.py check FOLDER NAME SCORES.h5    compares: the weights are the scores
       weights.py names FOLDER                   the models' names
"""
import os
import re
import sys

import h5py
import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VALUES = [0, 1, -2, 3, 5.5, -0.75, 6]                  # 7: an odd number of elements of 4 bits
WHOLE = [0, 1, 2, 3, 5, 7, 6]
SIGNED = [0, 1, -2, 3, -5, 7, -8]
FLOATS = {"FLOAT": "float32", "FLOAT16": "float16", "DOUBLE": "float64", "BFLOAT16": "bfloat16",
          "FLOAT8E4M3FN": "float8_e4m3fn", "FLOAT8E5M2": "float8_e5m2"}
WHOLES = {"INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64", "INT4": "int4"}
UNSIGNED = {"UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "UINT4": "uint4", "BOOL": "bool"}
# What OpenVINO does not know may be refused, never wrong.
DOUBTFUL = {"FLOAT8E4M3FNUZ": "float8_e4m3fnuz", "FLOAT8E5M2FNUZ": "float8_e5m2fnuz", "FLOAT4E2M1": "float4_e2m1fn",
            "FLOAT8E8M0": "float8_e8m0fnu"}


def dtype(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def values(kind):
    if kind in FLOATS:
        return np.array(VALUES + ([65504] if kind == "FLOAT16" else [])).astype(dtype(FLOATS[kind]))
    if kind in DOUBTFUL:
        return np.array([1, 2, 0.5, 4, 1, 2, 4]).astype(dtype(DOUBTFUL[kind]))
    if kind in WHOLES:
        last = [] if kind == "INT4" else [np.iinfo(WHOLES[kind]).min]
        return np.array(SIGNED + last).astype(dtype(WHOLES[kind]))
    last = [] if kind in ("UINT4", "BOOL") else [np.iinfo(UNSIGNED[kind]).max // 2 + 1]
    return np.array(WHOLE + last).astype(dtype(UNSIGNED[kind]))


def packed(data, kind):
    """The bytes of raw_data, by the definition."""
    if kind in ("INT4", "UINT4", "FLOAT4E2M1"):
        b = data.view("u1") & 15
        b = np.append(b, np.zeros(len(b) % 2, "u1"))
        return (b[::2] | b[1::2] << 4).astype("u1")
    return data


def tensor(name, kind, how):
    data = values(kind)
    bits = packed(data, kind)
    if kind == "BOOL" and how != "typed":              # every byte but 0 is true
        bits = data.view("u1") * np.uint8(255)
    t = TensorProto(name=name, data_type=getattr(TensorProto, kind), dims=[len(data)])
    if how == "raw":
        t.raw_data = bits.tobytes()
    elif kind == "FLOAT":
        t.float_data.extend(data.tolist())
    elif kind == "DOUBLE":
        t.double_data.extend(data.tolist())
    elif kind == "INT64":
        t.int64_data.extend(data.tolist())
    elif kind in ("UINT32", "UINT64"):
        t.uint64_data.extend(data.tolist())
    else:                                              # signed, as the type is, or its bits
        own = how == "typed" and kind in ("INT8", "INT16") or kind == "INT32"
        t.int32_data.extend(bits.astype(int).tolist() if own else bits.view(f"u{bits.itemsize}").astype(int).tolist())
    return t


def sparse(name, indices, rank):
    """A sparse (3, 4) of three values."""
    value = numpy_helper.from_array(np.array([1.5, -2, 7], "f4"), name)
    index = np.array(indices, "i8").reshape(3, rank) if rank > 1 else np.array(indices, "i8")
    return helper.make_sparse_tensor(value, numpy_helper.from_array(index, name + "_i"), [3, 4])


class Model:
    def __init__(self):
        self.nodes, self.inits, self.sparse, self.parts, self.want = [], [], [], [], []

    def add(self, name, want, shape=None):
        """`name` becomes part of the scores."""
        self.nodes += [helper.make_node("Cast", [name], [name + "_f"], to=1),
                       helper.make_node("Reshape", [name + "_f", "row"], [name + "_r"])]
        self.parts.append(name + "_r")
        self.want.append(np.asarray(want).astype(np.float32).ravel())

    def save(self, folder, name, ir=10, opset=21, inputs=(), domain=(), functions=()):
        row = helper.make_tensor("row", TensorProto.INT64, [2], [1, -1])
        nodes = self.nodes + [helper.make_node("Concat", self.parts, ["all"], axis=1), helper.make_node("Mul", ["x", "all"], ["y"])]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, ["N", 1]), *inputs],
                                  [helper.make_tensor_value_info("y", 1, ["N", sum(map(len, self.want))])],
                                  [row, *self.inits], sparse_initializer=self.sparse)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = ir
        with open(f"{folder}/{name}.onnx", "wb") as f:
            f.write(model.SerializeToString())
        np.save(f"{folder}/{name}.want.npy", np.concatenate(self.want))


def all_of(kinds):
    """Initializers and Constants, in bytes and in lists."""
    model = Model()
    for kind in kinds:
        for how in ("raw", "typed", "bits"):
            t = tensor(f"i_{kind}_{how}", kind, how)
            model.inits.append(t)
            want = values(kind) if kind == "BOOL" else numpy_helper.to_array(t)
            model.add(t.name, want)
            c = tensor("", kind, how)
            model.nodes.append(helper.make_node("Constant", [], [f"c_{kind}_{how}"], value=c))
            model.add(f"c_{kind}_{how}", want)
    return model


def branch(kind, how, name):
    """A graph of If: an initializer and a Constant, added in float."""
    a, c = tensor(f"{name}_a", kind, how), tensor("", kind, how)
    nodes = [helper.make_node("Constant", [], [f"{name}_c"], value=c), helper.make_node("Cast", [f"{name}_a"], [f"{name}_af"], to=1),
             helper.make_node("Cast", [f"{name}_c"], [f"{name}_cf"], to=1),
             helper.make_node("Add", [f"{name}_af", f"{name}_cf"], [f"{name}_o"])]
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(f"{name}_o", 1, [7])], [a])


def make(folder):
    all_of([*FLOATS, *WHOLES, *UNSIGNED]).save(folder, "types")
    for kind in DOUBTFUL:
        all_of([kind]).save(folder, f"doubtful_{kind}", ir=13, opset=24)
    m = Model()                                        # graphs inside nodes
    m.inits.append(helper.make_tensor("yes", TensorProto.BOOL, [], [1]))
    for how in ("raw", "typed"):
        m.nodes.append(helper.make_node("If", ["yes"], [f"if_{how}"], then_branch=branch("BFLOAT16", how, f"t{how}"),
                                        else_branch=branch("BFLOAT16", how, f"e{how}")))
        m.add(f"if_{how}", 2 * values("BFLOAT16").astype("f4"))
    m.save(folder, "inner")
    m = Model()                                        # sparse
    want = np.zeros((3, 4), "f4")
    want[0, 1], want[1, 3], want[2, 0] = 1.5, -2, 7
    m.sparse = [sparse("linear", [1, 7, 8], 1), sparse("pairs", [[0, 1], [1, 3], [2, 0]], 2)]
    m.nodes = [helper.make_node("Constant", [], ["value"], sparse_value=sparse("", [[0, 1], [1, 3], [2, 0]], 2))]
    for name in ("linear", "pairs", "value"):
        m.add(name, want)
    m.save(folder, "sparse")
    m = Model()                                        # scalars, empty ones, numbers and lists of Constant
    m.inits = [helper.make_tensor("scalar", 16, [], [1.5]), TensorProto(name="none", data_type=1, dims=[0]),
              TensorProto(name="axes", data_type=7, dims=[0], raw_data=b""), helper.make_tensor("tail", 1, [2], [5, 6])]
    m.nodes = [helper.make_node("Constant", [], ["float"], value_float=2.5), helper.make_node("Constant", [], ["ints"], value_ints=[3, -4]),
               helper.make_node("Constant", [], ["floats"], value_floats=[0.5, 8]), helper.make_node("Constant", [], ["int"], value_int=9),
               helper.make_node("Concat", ["none", "tail"], ["joined"], axis=0), helper.make_node("ReduceSum", ["tail", "axes"], ["sum"]),
               helper.make_node("Reshape", ["sum", "axes"], ["number"])]
    for name, want in (("number", 11), ("scalar", 1.5), ("float", 2.5), ("ints", [3, -4]), ("floats", [0.5, 8]), ("int", 9), ("joined", [5, 6])):
        m.add(name, want)
    m.save(folder, "shapes")
    m = Model()                                        # initializers that are inputs too, as before IR 4
    m.inits = [tensor("w", "FLOAT16", "typed"), tensor("v", "FLOAT", "typed")]
    for t in m.inits:
        m.add(t.name, numpy_helper.to_array(t))
    m.save(folder, "old", ir=3, opset=8, inputs=[helper.make_tensor_value_info("w", 10, [8]), helper.make_tensor_value_info("v", 1, [7]),
                                                  helper.make_tensor_value_info("row", 7, [2])])


def check(folder, name, path):
    want = np.load(f"{folder}/{name}.want.npy")
    with h5py.File(path) as f:
        table = f["emtrkmichel"]
        labels = sorted((k for k in table if re.search(r"_\d+$", k) and k != "hit_id"), key=lambda k: int(k.rsplit("_", 1)[1]))
        got = np.stack([table[k][:] for k in labels], 1)
    wrong = np.flatnonzero((got != want).any(0)) if got.shape[1] == len(want) else None
    print(f"{name}: {got.shape[1]} weights, {len(want)} expected; wrong: {wrong}", *(
        (int(i), float(got[0, i]), float(want[i])) for i in (wrong if wrong is not None else [])[:8]))
    sys.exit(wrong is None or len(wrong) > 0)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2])
        np.save(f"{sys.argv[2]}/x.npy", np.ones((3, 1), "f4"))
    elif sys.argv[1] == "check":
        check(*sys.argv[2:])
    else:
        print("\n".join(sorted(n[:-5] for n in os.listdir(sys.argv[2]) if n.endswith(".onnx"))))
