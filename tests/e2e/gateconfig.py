"""gateconfig.py - models whose config.pbtxt gives them other shapes, labels and batches than their files have.

usage: gateconfig.py PART[,PART...] FOLDER ...      parts are functions below; FOLDER has the repository `models`
"""
import base64
import glob
import json
import os
import struct
import sys
from concurrent import futures

import numpy as np

from gatemodels import ask, call, index, infer, save, wait_for

LABELS = ["ant", "bee: a \"kind\"", "cat", "", "été", "fox", "gnu", "hen"]  # of ten classes


# ---- files ---------------------------------------------------------------------------------------

def config(folder, name, batch, inputs, outputs=(), more=""):
    """ports: (name, type, dims, reshape or None, more)"""
    def port(what, name, kind, dims, reshape=None, more=""):
        shape = "" if reshape is None else f"reshape {{ shape: {reshape} }} "
        return f'{what} {{ name: "{name}" data_type: TYPE_{kind} dims: {dims} {shape}{more} }}\n'
    os.makedirs(f"{folder}/{name}", exist_ok=True)
    with open(f"{folder}/{name}/config.pbtxt", "w") as out:
        out.write((f"max_batch_size: {batch}\n" if batch is not None else "") + more +
                  "".join(port("input", *one) for one in inputs) + "".join(port("output", *one) for one in outputs))


def doubled(folder, name, shapes, kind="FP32"):
    """y0 = 2 x0, y1 = 2 x1 ..., of these shapes."""
    from onnx import TensorProto as T, helper
    kind, dtype = {"FP32": (T.FLOAT, np.float32), "INT32": (T.INT32, np.int32)}[kind]
    shapes = [[f"{name}{i}_{d}" if size in (-1, "n") else size for d, size in enumerate(shape)] for i, shape in enumerate(shapes)]
    save(f"{folder}/{name}/1/model.onnx", [helper.make_node("Mul", [f"x{i}", "two"], [f"y{i}"]) for i in range(len(shapes))],
         [(f"x{i}", kind, shape) for i, shape in enumerate(shapes)], [(f"y{i}", kind, shape) for i, shape in enumerate(shapes)],
         {"two": np.array(2, dtype)})


def dense(folder, name, side):
    """As densenet_onnx of Triton's example: data_0 [1,3,side,side] -> fc6_1 [1,10,1,1]."""
    from onnx import TensorProto as T, helper
    node, rng = helper.make_node, np.random.default_rng(3)
    nodes = [node("Conv", ["data_0", "w"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["r"]), node("GlobalAveragePool", ["r"], ["p"]),
             node("Conv", ["p", "v", "b"], ["fc6_1"])]
    save(f"{folder}/{name}/1/model.onnx", nodes, [("data_0", T.FLOAT, [1, 3, side, side])], [("fc6_1", T.FLOAT, [1, 10, 1, 1])],
         {"w": rng.standard_normal((6, 3, 3, 3)).astype(np.float32), "v": rng.standard_normal((10, 6, 1, 1)).astype(np.float32),
          "b": np.arange(10, dtype=np.float32) / 7 - 1})


def mixed(folder):
    """As Silero's: a sequence and a state of one row."""
    from onnx import TensorProto as T, helper
    save(f"{folder}/mixed/1/model.onnx", [helper.make_node("Add", ["x", "h"], ["y"]), helper.make_node("Mul", ["h", "two"], ["g"])],
         [("x", T.FLOAT, ["l", 4]), ("h", T.FLOAT, [1, 4])], [("y", T.FLOAT, ["l", 4]), ("g", T.FLOAT, [1, 4])],
         {"two": np.array(2, np.float32)})
    config(folder, "mixed", 0, [("x", "FP32", [-1, 4]), ("h", "FP32", [1, 4])])


# What is asked of `doubled`: the model's shapes, dims and reshape of its config, max_batch_size.
SHAPES = {  # name: (model's, dims, reshapes, max_batch_size)
    "fixed": ([["n", 16], ["n", 1, 2], ["n", 3, 2, 2]], [[4, 4], [2], [2, 2, 3]], [[16], [1, 2], [3, 2, 2]], 8),
    "fixed0": ([[16], [1, 2], [3, 2, 2]], [[4, 4], [2], [2, 2, 3]], [[16], [1, 2], [3, 2, 2]], 0),
    "scalar": ([["n"], ["n", 4, 1, 2]], [[1], [8]], [[], [4, 1, 2]], 8),
    "free": ([["n", 8, -1, 1, 6]], [[2, 4, -1, 6]], [[8, -1, 1, 6]], 8),
    "free0": ([[8, -1, 1, 6]], [[2, 4, -1, 6]], [[8, -1, 1, 6]], 0),
    "lists": ([["n", -1], ["n", 1, -1, 1], ["n", 3, 2, 2]], [[1, -1, 1], [-1], [2, 2, 3]], [[-1], [1, -1, 1], [3, 2, 2]], 8),
    "lists0": ([[-1], [1, -1, 1], [3, 2, 2]], [[1, -1, 1], [-1], [2, 2, 3]], [[-1], [1, -1, 1], [3, 2, 2]], 0),
    "first": ([[1, 3, -1, -1]], [[3, -1, -1]], [[1, 3, -1, -1]], 0),
    "narrow": ([["n", 3, -1, -1]], [[1, 3, 5, -1]], [None], 0),  # one row, one size fixed
    "one": ([[1, 4]], [[1, 4]], [None], 0),
    "rows": ([["n", 3, 4]], [[-1, 3, 4]], [None], 0),
    "flat": ([["n", 3, 4]], [[-1, 12]], [[-1, 3, 4]], 0),
    "flatter": ([["n", 3, 4]], [[12]], [None], 8),
}
# What is refused: the same, and a part of the reason. tests/unit/gateway/test_gateway_config.c has more.
REFUSED = {
    "between": ([[8, -1, 1, 6]], [[2, -1, 4, 6]], [[8, -1, 1, 6]], 0, "states dims [2,-1,4,6] with reshape [8,-1,1,6] of 'x0'"),
    "batch": ([[7, 4]], [[7, 4]], [None], 8, "max_batch_size 8, and the model has no batch dimension"),
    "row": ([["n", 3, 4]], [[3, 4]], [None], 0, "states dims [3,4] of 'x0', and the model has [-1,3,4] there"),
}
OUTSIDE = {"outside": "../dense/labels.txt", "absent": "labels.txt", "up": "1/.."}  # no files of labels


def files(work):
    folder = f"{work}/models"
    for name, (model, dims, reshapes, batch, *_) in {**SHAPES, **REFUSED}.items():
        kind = "INT32" if name.startswith("free") else "FP32"
        doubled(folder, name, model, kind)
        config(folder, name, batch, [(f"x{i}", kind, *one) for i, one in enumerate(zip(dims, reshapes))],
               [(f"y{i}", kind, *one) for i, one in enumerate(zip(dims, reshapes))])
    dense(folder, "dense", 8)
    config(folder, "dense", 0, [("data_0", "FP32", [3, 8, 8], [1, 3, 8, 8])], [("fc6_1", "FP32", [10], [1, 10, 1, 1], 'label_filename: "labels.txt"')])
    with open(f"{folder}/dense/labels.txt", "w") as out:
        out.write("one")  # `named` writes others
    for name, path in OUTSIDE.items():
        doubled(folder, name, [["n", 4]])
        config(folder, name, 8, [], [("y0", "FP32", [4], None, f'label_filename: "{path}"')])
    mixed(folder)


# ---- requests ------------------------------------------------------------------------------------

def ready(_, address):
    def done():
        states = {name: one.get("state") for (name, _), one in index(address).items()}
        return all(states.get(name) == "READY" for name in [*SHAPES, "dense", "mixed"]) and all(
            states.get(name) == "UNAVAILABLE" for name in [*REFUSED, *OUTSIDE])
    wait_for(done)


def words(_, address):
    """Metadata and configuration have what clients send."""
    for name, (_, dims, reshapes, batch) in SHAPES.items():
        first = [-1] if batch else []
        page, conf = ask(address, f"/v2/models/{name}"), ask(address, f"/v2/models/{name}/config")
        for what in ("input", "output"):
            assert [one["shape"] for one in page[what + "s"]] == [first + one for one in dims], (name, page)
            assert [one["dims"] for one in conf[what]] == dims, (name, conf)
            found = [one["reshape"].get("shape", []) if "reshape" in one else None for one in conf[what]]
            assert found == reshapes, (name, conf)
        assert conf["max_batch_size"] == batch, (name, conf)


def shapes(_, address):
    rng = np.random.default_rng(1)
    for name, (_, dims, _, batch) in SHAPES.items():
        kind = next(one["datatype"] for one in ask(address, f"/v2/models/{name}")["inputs"])
        dtype = np.int32 if kind == "INT32" else np.float32
        for rows in (1, 3) if batch else (1,):
            for long in (1, 5, 2):
                sent = [([rows] if batch else []) + [long if size < 0 else size for size in one] for one in dims]
                arrays = [rng.integers(-9, 9, one).astype(dtype) for one in sent]
                found = infer(address, name, [(f"x{i}", kind, one) for i, one in enumerate(arrays)])
                for i, one in enumerate(arrays):
                    assert found[f"y{i}"].shape == one.shape and np.array_equal(found[f"y{i}"], 2 * one), (name, one.shape, found)
        wrong = [np.zeros((7, 7) + one.shape, dtype) for one in arrays]
        error = infer(address, name, [(f"x{i}", kind, one) for i, one in enumerate(wrong)], code=400)
        assert "unexpected shape for input 'x0'" in error, error
    error = infer(address, "one", [("x0", "FP32", np.zeros((2, 4), np.float32))], code=400)
    assert error == "unexpected shape for input 'x0' for model 'one'. Expected [1,4], got [2,4]", error
    error = infer(address, "narrow", [("x0", "FP32", np.zeros((1, 3, 6, 2), np.float32))], code=400)
    assert error == "unexpected shape for input 'x0' for model 'narrow'. Expected [1,3,5,-1], got [1,3,6,2]", error


def sequence(_, address):
    """A sequence of any length beside a state of one row."""
    h = np.arange(4, dtype=np.float32)[None]
    for n in (1, 5, 2):
        x = np.arange(4 * n, dtype=np.float32).reshape(n, 4)
        found = infer(address, "mixed", [("x", "FP32", x), ("h", "FP32", h)])
        assert np.array_equal(found["y"], x + h) and np.array_equal(found["g"], 2 * h), found


def refusals(_, address):
    reasons = {name: one.get("reason", "") for (name, _), one in index(address).items()}
    for name, (*_, reason) in REFUSED.items():
        assert reason in reasons[name], (name, reasons[name])
    for name, path in OUTSIDE.items():
        assert f"has no file of labels '{path}'" in reasons[name], (name, reasons[name])


def printed(scores, k, labels=()):
    """What Triton answers to a request for k classes."""
    order = np.argsort(-scores, kind="stable")[:k]
    label = [labels[i] if i < len(labels) else "" for i in order]
    return [f"{scores[i]:f}:{i}" + (f":{one}" if one else "") for i, one in zip(order, label)]


def classify(address, model, name, array, output, k, binary=False, code=200):
    """Classes of an output, and the shape of their tensor."""
    head = json.dumps({"inputs": [{"name": name, "shape": array.shape, "datatype": "FP32", "data": array.ravel().tolist()}],
                       "outputs": [{"name": output, "parameters": {"classification": k, "binary_data": binary}}]})
    status, headers, data = call(address, "POST", f"/v2/models/{model}/infer", head)
    assert status == code, (status, data[:300])
    if code != 200:
        return json.loads(data)["error"]
    at = int(headers["Inference-Header-Content-Length"]) if binary else len(data)
    answer, texts = json.loads(data[:at])["outputs"][0], []
    assert answer["datatype"] == "BYTES" and answer["name"] == output, answer
    while at < len(data):
        n, = struct.unpack_from("<I", data, at)
        texts.append(data[at + 4:at + 4 + n].decode())
        at += 4 + n
    return answer["shape"], texts if binary else answer["data"]


def classes(_, address):
    """The classification extension: labels, all of an output with max_batch_size 0, else row by row."""
    assert "classification" in ask(address, "/v2")["extensions"]
    x = np.random.default_rng(5).random((3, 8, 8), np.float32)
    scores = infer(address, "dense", [("data_0", "FP32", x)])["fc6_1"]
    for k in (1, 3, 10, 11, 2 ** 40):
        for binary in (False, True):
            shape, texts = classify(address, "dense", "data_0", x, "fc6_1", k, binary)
            assert shape == [min(k, 10)] and texts == printed(scores, k, LABELS), (k, shape, texts, printed(scores, k, LABELS))
    assert any(one.endswith(":\u00e9t\u00e9") for one in texts) and any(one.count(":") == 1 for one in texts), texts
    rows = np.array([[3, -1, 3, 0.5] * 3, [1e-7, -2e38, 7, 1] * 3], np.float32)
    shape, texts = classify(address, "flatter", "x0", rows, "y0", 4)
    assert shape == [2, 4] and texts == printed(2 * rows[0], 4) + printed(2 * rows[1], 4), texts
    assert classify(address, "flatter", "x0", rows[:0], "y0", 4)[0] == [0, 4]
    shape, texts = classify(address, "flat", "x0", rows, "y0", 5)  # max_batch_size 0: one list
    assert shape == [5] and texts == printed(2 * rows.ravel(), 5), texts
    free = np.arange(15, dtype=np.float32).reshape(3, 1, 5) % 7
    shape, texts = classify(address, "first", "x0", free, "y0", 2)
    assert shape == [2] and texts == printed(2 * free.ravel(), 2), texts
    for wrong in (-1, 1.5, "3", True):
        error = classify(address, "dense", "data_0", x, "fc6_1", wrong, code=400)
        assert "'classification' of output 'fc6_1' is a number of classes" in error, error


def named(work, address):
    """With --model-control-mode explicit, --load-model dense and --server-name triton."""
    assert ask(address, "/v2")["name"] == "triton"
    wait_for(lambda: call(address, "GET", "/v2/health/ready")[0] == 200)
    loaded = [one["name"] for one in ask(address, "/v2/repository/index", "POST", '{"ready": true}')]
    assert loaded == ["dense", "given"], loaded
    assert call(address, "GET", "/v2/models/one/ready")[0] == 400
    ask(address, "/v2/repository/models/one/load", "POST", "{}")
    assert call(address, "GET", "/v2/models/one/ready")[0] == 200
    x = np.random.default_rng(6).random((3, 8, 8), np.float32)
    scores = infer(address, "dense", [("data_0", "FP32", x)])["fc6_1"]
    assert classify(address, "dense", "data_0", x, "fc6_1", 10)[1] == printed(scores, 10, ["one"])
    with open(f"{work}/models/dense/labels.txt", "w") as out:  # other labels, the same model: it is loaded again
        out.write("\r\n".join(LABELS))
    ask(address, "/v2/repository/models/dense/load", "POST", "{}")
    assert classify(address, "dense", "data_0", x, "fc6_1", 10)[1] == printed(scores, 10, LABELS)


def post(address, model, config=None, files=None, code=200, what="load", **more):
    """Loads as tritonclient does."""
    parameters = dict(more, **({} if config is None else {"config": config if isinstance(config, str) else json.dumps(config)}))
    parameters.update({"file:" + name: base64.b64encode(data).decode() for name, data in (files or {}).items()})
    return ask(address, f"/v2/repository/models/{model}/{what}", "POST", json.dumps({"parameters": parameters}), code).get("error", "")


def alone(address):
    """A configuration alone, of a model of the repository; a load without one takes its own again."""
    post(address, "flatter", {"maxBatchSize": "3", "input": [{"name": "x0", "dims": [2, 6]}], "parameters": {"k": {"string_value": "v"}}})
    conf = ask(address, "/v2/models/flatter/config")
    assert (conf["input"][0]["dims"], conf["max_batch_size"], conf["parameters"]) == ([2, 6], 3, {"k": {"string_value": "v"}}), conf
    post(address, "flatter")
    assert ask(address, "/v2/models/flatter/config")["input"][0]["dims"] == [12]
    error = post(address, "flatter", {"parameters": {"row_bytes": {"string_value": "20M"}}}, code=400)
    assert "its rows have one size: leave out" in error and "row_bytes in config.pbtxt" in error, error
    post(address, "given", {"max_batch_size": 0, "input": [{"name": "x0", "dims": [4], "reshape": {"shape": [1, 4]}}]})  # of --model
    assert ask(address, "/v2/models/given")["inputs"][0]["shape"] == [4]


def loads(work, address):
    """Configurations and files that come with a load. The gateway began with a folder of one that was killed."""
    folders = f"{work}/state/wiremill-loaded-*"
    assert not glob.glob(folders), glob.glob(folders)
    with futures.ThreadPoolExecutor() as beside:
        other = beside.submit(alone, address)
        brought(work, address, folders)
        other.result()


def brought(work, address, folders):
    of = {name: open(f"{work}/models/{name}/1/model.onnx", "rb").read() for name in ("dense", "flatter")}
    ports = {"input": [{"name": "data_0", "data_type": "TYPE_FP32", "dims": ["3", 8, 8], "reshape": {"shape": [1, 3, 8, 8]}}],
             "output": [{"name": "fc6_1", "dims": [2, 5], "reshape": {"shape": ["1", "10", 1, 1]}, "labelFilename": "l.txt"}]}
    # a model that the repository does not have, with labels, two versions
    labels = {"l.txt": "\n".join("abcdefghij").encode()}
    post(address, "fresh", {"max_batch_size": 0, "version_policy": {"all": {}}, **ports},
         {"1/model.onnx": of["dense"], "2/model.onnx": of["dense"], **labels}, ignored=3)
    assert ask(address, "/v2/models/fresh")["versions"] == ["1", "2"] and len(glob.glob(folders)) == 1
    x = np.random.default_rng(7).random((3, 8, 8), np.float32)
    want = infer(address, "dense", [("data_0", "FP32", x)])["fc6_1"]
    assert np.array_equal(infer(address, "fresh", [("data_0", "FP32", x)])["fc6_1"], want.reshape(2, 5))
    assert classify(address, "fresh", "data_0", x, "fc6_1", 4) == ([4], printed(want, 4, "abcdefghij"))
    # what is wrong leaves it as it is
    first = glob.glob(folders)
    for config, files, reason in (({**ports}, {"1/model.onnx": b"no model", **labels}, "model.onnx"),
                                  ({**ports}, {"1/model.onnx": of["dense"]}, "no file of labels 'l.txt'"),
                                  ({**ports, "name": "other"}, {"1/model.onnx": of["dense"], **labels}, "name 'fresh' for model 'other'"),
                                  ({**ports, "max_batch_size": -1}, {"1/model.onnx": of["dense"], **labels}, "must be non-negative"),
                                  ({"input": [{"name": "data_0", "dims": [5]}]}, {"1/model.onnx": of["dense"]}, "states dims [5] of 'data_0'"),
                                  ({"default_model_filename": "../../a"}, {"1/a": of["dense"]}, "has no version to load"),
                                  ({}, {"1/other": of["dense"]}, "has no version to load"),
                                  ("{", {"1/model.onnx": of["dense"]}, "'config' is no JSON"),
                                  ("[]", {"1/model.onnx": of["dense"]}, "'config' is no object"),
                                  (None, {"1/model.onnx": of["dense"]}, "need its parameter 'config'"),
                                  ({}, {"../model.onnx": of["dense"]}, "names no file"), ({}, {"1/../m": b""}, "names no file"),
                                  ({}, {"0/model.onnx": b""}, "names no file"), ({}, {"1/.m": b""}, "names no file"), ({}, {"": b""}, "names no file")):
        error = post(address, "fresh", config, files, 400)
        assert reason in error, (reason, error)
        assert np.array_equal(infer(address, "fresh", [("data_0", "FP32", x)])["fc6_1"], want.reshape(2, 5))
        assert glob.glob(folders) == first, glob.glob(folders)
    for text in ("A", "AAAA=", "A===", "AA=A", "AA AA", "AAAA\\u0041AAA", 7, True):
        error = post(address, "fresh", {}, code=400, **{"file:1/model.onnx": text})
        assert "'file:1/model.onnx' is no base64" in error, (text, error)
    # what was not there at the beginning does not make the gateway unready
    post(address, "rubbish", {}, {"1/model.onnx": b"no model"}, 400)
    assert call(address, "GET", "/v2/health/ready")[0] == 200
    error = post(address, "many", {}, {f"{i + 1}/m": b"" for i in range(65)}, 400)
    assert "at most 64 files" in error, error
    # nothing of it stays
    post(address, "fresh", what="unload")
    assert not glob.glob(folders), glob.glob(folders)
    assert not [name for name, _ in index(address) if name in ("fresh", "many")], index(address)
    assert "failed to poll from model repository" in post(address, "fresh", code=400)
    assert "failed to poll from model repository" in post(address, "fresh", {}, code=400)
    # in place of one of the repository, which comes back
    post(address, "dense", {"max_batch_size": 4}, {"3/model.onnx": of["flatter"]})
    assert ask(address, "/v2/models/dense")["versions"] == ["3"] and len(glob.glob(folders)) == 1
    assert infer(address, "dense", [("x0", "FP32", np.ones((2, 3, 4), np.float32))])["y0"].shape == (2, 3, 4)
    post(address, "dense")
    wait_for(lambda: not glob.glob(folders))
    assert np.array_equal(infer(address, "dense", [("data_0", "FP32", x)])["fc6_1"], want)
    post(address, "last", {}, {"1/model.onnx": of["flatter"]})  # the end of the gateway removes it


def fixed(_, address):
    """With --model-control-mode none clients may neither load nor unload; the rest is loaded."""
    for what in ("load", "unload"):
        error = ask(address, f"/v2/repository/models/one/{what}", "POST", "{}", 503)["error"]
        assert error.startswith("explicit model load / unload is not allowed"), error
    assert ask(address, "/v2")["name"] == "wiremill"


def judged(work, address):
    """The first example of Triton: onnxruntime is the judge."""
    import onnxruntime
    session = onnxruntime.InferenceSession(f"{work}/models/dense/1/model.onnx", providers=["CPUExecutionProvider"])
    for seed in range(3):
        x = np.random.default_rng(seed).random((3, 8, 8), np.float32)
        found = infer(address, "dense", [("data_0", "FP32", x)])["fc6_1"]
        want = session.run(None, {"data_0": x[None]})[0].reshape(10)
        assert found.shape == (10,) and np.allclose(found, want, atol=1e-5), (found, want)


if __name__ == "__main__":
    for part in sys.argv[1].split(","):
        globals()[part](*sys.argv[2:])
