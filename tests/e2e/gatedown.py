"""gatedown.py - models that give NaN or infinities on some values, or NaN on all, through the gateway.

usage: gatedown.py files FOLDER     writes the repository FOLDER/models
       gatedown.py ask ADDRESS      asks each of them
"""
import json
import sys
import time
import urllib.error
import urllib.request

import numpy as np

from gatemodels import infer, save


def files():
    from onnx import TensorProto as T, helper
    node, folder = helper.make_node, f"{sys.argv[2]}/models"
    inf, mask = np.array(-np.inf, np.float32), np.array([[True, True, False, True]])
    for name, op, length in (("log", "Log", 4), ("sqrt", "Sqrt", "k"), ("reciprocal", "Reciprocal", "k")):
        save(f"{folder}/{name}/1/model.onnx", [node(op, ["x"], ["y"])], [("x", T.FLOAT, ["n", length])],
             [("y", T.FLOAT, ["n", length])], {})
    save(f"{folder}/masked/1/model.onnx", [node("Where", ["mask", "x", "inf"], ["m"]), node("Identity", ["m"], ["y"]),
                                           node("Softmax", ["m"], ["z"], axis=1)],
         [("x", T.FLOAT, ["n", 4])], [("y", T.FLOAT, ["n", 4]), ("z", T.FLOAT, ["n", 4])], {"mask": mask, "inf": inf})
    save(f"{folder}/never/1/model.onnx", [node("Abs", ["x"], ["a"]), node("Neg", ["a"], ["b"]), node("Sub", ["b", "one"], ["c"]),
                                          node("Log", ["c"], ["y"])],
         [("x", T.FLOAT, ["n", 4])], [("y", T.FLOAT, ["n", 4])], {"one": np.array(1, np.float32)})
    for type_, name in ((T.FLOAT16, "half"), (T.DOUBLE, "double")):
        save(f"{folder}/{name}/1/model.onnx", [node("Identity", ["x"], ["y"])], [("x", type_, ["n", "h", "w"])],
             [("y", type_, ["n", "h", "w"])], {})


def same(model, kind, x, **wanted):
    """Asks, and compares; a row with a NaN is all NaN."""
    got = infer(sys.argv[2], model, [("x", kind, x)])
    for name, want in wanted.items():
        assert got[name].dtype == want.dtype and np.allclose(got[name], want, rtol=1e-5, equal_nan=True), (model, x, got, want)


def wait(model):
    end = time.time() + 60
    while time.time() < end:
        try:
            return urllib.request.urlopen(f"http://{sys.argv[2]}/v2/models/{model}/ready").status
        except urllib.error.HTTPError:
            time.sleep(0.1)
    request = urllib.request.Request(f"http://{sys.argv[2]}/v2/repository/index", method="POST")
    raise AssertionError((model, json.load(urllib.request.urlopen(request))))


def ask():
    inf = np.float32(np.inf)
    x = np.array([[1, 4, 9, 2]], np.float32)
    for model, function in (("log", np.log), ("sqrt", np.sqrt), ("reciprocal", np.reciprocal)):
        wait(model)
        same(model, "FP32", x, y=function(x))
        with np.errstate(all="ignore"):
            for bad in (np.array([[1, 2, -3, 4]], np.float32), np.array([[0, 2, 3, inf]], np.float32)):
                want = function(bad)
                same(model, "FP32", bad, y=np.full_like(want, np.nan) if np.isnan(want).any() else want)
    wait("masked")
    e = np.exp(x - x[:, [0, 1, 3]].max()) * [1, 1, 0, 1]
    same("masked", "FP32", x, y=np.where([True, True, False, True], x, -inf), z=(e / e.sum()).astype(np.float32))
    for model, kind, type_ in (("half", "FP16", np.float16), ("double", "FP64", np.float64)):
        wait(model)
        for shape in ((32, 32), (64, 7), (2, 3), (1, 1), (31, 32), (5, 0)):
            values = (np.arange(np.prod(shape)) % 1000).reshape((1,) + shape).astype(type_)
            same(model, kind, values, y=values)


globals()[sys.argv[1]]()
