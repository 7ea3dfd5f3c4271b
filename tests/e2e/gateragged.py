"""gateragged.py - models whose inputs change their length from request to request, through the gateway.

usage: gateragged.py PART FOLDER ...      parts are functions below; FOLDER has the repository `models`
"""
import os
import random
import signal
import subprocess
import sys
import threading

import numpy as np

from gatemodels import ask, call, index, infer, save, wait_for

HITS = ("hit_table_hit_id", "hit_table_local_plane", "hit_table_local_time", "hit_table_local_wire", "hit_table_integral",
        "hit_table_rms")
POINTS = ("spacepoint_table_spacepoint_id", "spacepoint_table_hit_id_u", "spacepoint_table_hit_id_v",
          "spacepoint_table_hit_id_y")
FLOATS = {"hit_table_local_time", "hit_table_integral", "hit_table_rms"}
LONG = "spacepoint_table_hit_id_v"  # INT64, all others are INT32


# ---- files ---------------------------------------------------------------------------------------

def nugraph(path, n_hit, n_point):
    """Hits are embedded; space points gather theirs, and give their sum back to the hits of the first plane."""
    from onnx import TensorProto as T, helper
    node, nodes = helper.make_node, []
    rng = np.random.default_rng(1)
    constants = {name: (rng.standard_normal(shape) / 3).astype(np.float32)
                 for name, shape in {"embed": (6, 8), "classes": (8, 5), "filter": (8, 1), "pair": (16, 4)}.items()}
    constants.update(first=np.array([0], np.int64), last=np.array([1], np.int64), width=np.array([1, 8], np.int64))
    for name in HITS:
        nodes += [node("Cast", [name], [name + "|f"], to=T.FLOAT), node("Unsqueeze", [name + "|f", "last"], [name + "|c"])]
    nodes += [node("Concat", [name + "|c" for name in HITS], ["table"], axis=1), node("MatMul", ["table", "embed"], ["sum"]),
              node("Tanh", ["sum"], ["hit"])]
    for i, name in enumerate(POINTS[1:]):
        nodes += [node("Cast", [name], [name + "|i"], to=T.INT64), node("Gather", ["hit", name + "|i"], [f"at{i}"], axis=0)]
    nodes += [node("Sum", ["at0", "at1", "at2"], ["point"]), node("Concat", ["at0", "at1"], ["both"], axis=1),
              node("MatMul", ["both", "pair"], ["edge"]), node("Unsqueeze", [POINTS[1] + "|i", "last"], ["column"]),
              node("Tile", ["column", "width"], ["where"]),
              node("ScatterElements", ["hit", "where", "point"], ["mixed"], axis=0, reduction="add"),
              node("MatMul", ["mixed", "classes"], ["logit"]), node("Softmax", ["logit"], ["x_semantic"], axis=1),
              node("MatMul", ["mixed", "filter"], ["kept"]), node("Squeeze", ["kept", "last"], ["flat"]),
              node("Sigmoid", ["flat"], ["x_filter"]), node("ReduceSum", ["point", "first"], ["vertex"], keepdims=0),
              node("ArgMax", ["logit"], ["label"], axis=1, keepdims=0),
              node("Cast", [POINTS[0]], ["point_id"], to=T.FLOAT)]

    def kind(name):
        return T.FLOAT if name in FLOATS else T.INT64 if name == LONG else T.INT32

    save(path, nodes, [(name, kind(name), [n_hit]) for name in HITS] + [(name, kind(name), [n_point]) for name in POINTS],
         [("x_semantic", T.FLOAT, [n_hit, 5]), ("x_filter", T.FLOAT, [n_hit]), ("edge", T.FLOAT, [n_point, 4]),
          ("vertex", T.FLOAT, [8]), ("label", T.INT64, [n_hit]), ("point_id", T.FLOAT, [n_point])], constants)


def files(work):
    from onnx import TensorProto as T, helper
    node, folder = helper.make_node, f"{work}/models"
    nugraph(f"{folder}/nugraph/1/model.onnx", None, None)  # nameless: only config.pbtxt tells that there is no batch
    with open(f"{folder}/nugraph/config.pbtxt", "w") as out:
        out.write('max_batch_size: 0\n' + "".join(f'input {{ name: "{name}" data_type: TYPE_{kind_of(name)} dims: [ -1 ] }}\n'
                                                  for name in HITS + POINTS))
    nugraph(f"{folder}/named/1/model.onnx", "n_hit", "n_point")
    nugraph(f"{folder}/nameless/1/model.onnx", None, None)
    nugraph(f"{folder}/fixed/1/model.onnx", 40, 9)
    rng = np.random.default_rng(4)
    weight = (rng.standard_normal((4, 3, 3, 3)) / 5).astype(np.float32)
    for name, shape, out in (("image", ["n", 3, "h", "w"], ["n", 4, "a", "b"]), ("single", [1, 3, "h", "w"], [1, 4, "a", "b"])):
        save(f"{folder}/{name}/1/model.onnx",
             [node("Conv", ["x", "weight"], ["conv"], strides=[2, 2], pads=[1, 1, 1, 1]), node("Relu", ["conv"], ["y"])],
             [("x", T.FLOAT, shape)], [("y", T.FLOAT, out)], {"weight": weight})
    save(f"{folder}/kinds/1/model.onnx",
         [node("Cast", [name], [name + "_"], to=T.FLOAT) for name in "bhu"] +
         [node("Sum", ["b_", "h_", "u_"], ["s"]), node("Cast", ["s"], ["half"], to=T.FLOAT16),
          node("Cast", ["s"], ["whole"], to=T.INT64), node("Cast", ["s"], ["any"], to=T.BOOL),
          node("Identity", ["s"], ["sum"])],
         [("b", T.BOOL, ["n", "k"]), ("h", T.FLOAT16, ["n", "k"]), ("u", T.UINT8, ["n", "k"])],
         [("half", T.FLOAT16, ["n", "k"]), ("whole", T.INT64, ["n", "k"]), ("any", T.BOOL, ["n", "k"]),
          ("sum", T.FLOAT, ["n", "k"])], {})
    save(f"{folder}/uneven/1/model.onnx",
         [node("NonZero", ["x"], ["all"]), node("Gather", ["all", "column"], ["where"], axis=0)],
         [("x", T.FLOAT, ["n", "k"])], [("where", T.INT64, [1, "m"])], {"column": np.array([1], np.int64)})
    value = helper.make_tensor_value_info
    body = helper.make_graph([node("Identity", ["go"], ["on"]), node("Add", ["v", "one"], ["w"])], "body",
                             [value("i", T.INT64, []), value("go", T.BOOL, []), value("v", T.FLOAT, ["n"])],
                             [value("on", T.BOOL, []), value("w", T.FLOAT, ["n"])])
    save(f"{folder}/turns/1/model.onnx",
         [node("ReduceMax", ["turns"], ["times"], keepdims=0), node("Loop", ["times", "", "x"], ["y"], body=body)],
         [("x", T.FLOAT, ["n"]), ("turns", T.INT64, ["k"])], [("y", T.FLOAT, ["n"])], {"one": np.array(1, np.float32)})


def kind_of(name):
    return "FP32" if name in FLOATS else "INT64" if name == LONG else "INT32"


# ---- requests ------------------------------------------------------------------------------------

def draw(rng, n_hit, n_point):
    tensors = []
    for name in HITS + POINTS:
        n = n_hit if name in HITS else n_point
        if name in FLOATS:
            array = rng.standard_normal(n).astype(np.float32)
        else:
            array = rng.integers(0, n_hit if name in POINTS[1:] else 3, n).astype("<i8" if name == LONG else "<i4")
        tensors.append((name, kind_of(name), array))
    return tensors


def cases(n=30):
    rng = np.random.default_rng(7)
    sizes = [(1, 1), (40, 9), (3, 0), (4000, 2500)] + [(int(rng.integers(1, 300)), int(rng.integers(1, 200))) for _ in range(n - 4)]
    return [draw(rng, *size) for size in sizes]


def close(found, want):
    assert found.shape == want.shape and found.dtype == want.dtype, (found.shape, want.shape, found.dtype, want.dtype)
    off = np.abs(found.astype("f8") - want.astype("f8")) / np.maximum(1, np.abs(want.astype("f8")))
    assert found.size == 0 or off.max() <= 1e-5, off.max()


def compare(work, address, model, tensors):
    import onnxruntime
    session = onnxruntime.InferenceSession(f"{work}/models/{model}/1/model.onnx")
    found = infer(address, model, tensors)
    names = [one.name for one in session.get_outputs()]
    for name, want in zip(names, session.run(None, {name: array for name, _, array in tensors})):
        close(found[name], want)
    return found


def bits(found):
    return {name: (array.shape, array.tobytes()) for name, array in found.items()}


# ---- what is asked -------------------------------------------------------------------------------

def ready(_, address):
    wait_for(lambda: all(one.get("state") not in ("LOADING", "UNLOADING") for one in index(address).values()), 100)
    assert {one["state"] for one in index(address).values()} == {"READY"}, index(address)


def words(_, address):
    metadata = ask(address, "/v2/models/nugraph")
    assert [(one["name"], one["datatype"], one["shape"]) for one in metadata["inputs"]] == \
        [(name, kind_of(name), [-1]) for name in HITS + POINTS], metadata
    assert {one["name"]: one["shape"] for one in metadata["outputs"]} == {
        "x_semantic": [-1, 5], "x_filter": [-1], "edge": [-1, 4], "vertex": [8], "label": [-1], "point_id": [-1]}, metadata
    for name in ("nugraph", "named", "nameless"):
        config = ask(address, f"/v2/models/{name}/config")
        assert config["max_batch_size"] == 0 and config["input"][0]["dims"] == [-1], config
    assert ask(address, "/v2/models/fixed")["inputs"][0]["shape"] == [40]
    image = ask(address, "/v2/models/image")
    assert image["inputs"][0]["shape"] == [-1, 3, -1, -1] and image["outputs"][0]["shape"] == [-1, 4, -1, -1], image
    assert ask(address, "/v2/models/image/config")["max_batch_size"] > 0


def answers(work, address):
    for tensors in cases():
        found = [bits(compare(work, address, model, tensors)) for model in ("nugraph", "named", "nameless")]
        assert found[0] == found[1] == found[2]
    compare(work, address, "fixed", draw(np.random.default_rng(8), 40, 9))
    assert list(infer(address, "named", cases(4)[1], ["label", "edge"])) == ["label", "edge"]


def images(work, address):
    rng = np.random.default_rng(9)
    rows = {}
    for shape in ((1, 3, 5, 7), (3, 3, 64, 48), (2, 3, 200, 333), (1, 3, 1000, 999)):  # the last: 12.0 MB of the 12.6
        x = rng.standard_normal(shape).astype(np.float32)
        found = compare(work, address, "image", [("x", "FP32", x)])["y"]
        for i, row in enumerate(x):  # a row's bits are those that it has alone, in either model
            for model in ("image", "single"):
                alone = infer(address, model, [("x", "FP32", row[None])])["y"]
                assert alone.tobytes() == found[i:i + 1].tobytes(), (shape, i, model)
        rows[shape] = found
    error = infer(address, "image", [("x", "FP32", np.zeros((1, 3, 1100, 1000), np.float32))], code=400)
    assert "more than 3145727 float32s" in error, error


def kinds(work, address):
    rng = np.random.default_rng(6)
    for n, k in ((1, 1), (3, 17), (2, 400)):
        tensors = [("b", "BOOL", rng.integers(0, 2, (n, k)).astype(bool)), ("u", "UINT8", rng.integers(0, 255, (n, k)).astype("u1")),
                   ("h", "FP16", rng.integers(-9, 9, (n, k)).astype("f2"))]
        found = infer(address, "kinds", tensors)
        total = tensors[0][2] + tensors[1][2].astype("f4") + tensors[2][2].astype("f4")
        for name, dtype in (("sum", "f4"), ("half", "f2"), ("whole", "i8"), ("any", bool)):
            assert np.array_equal(found[name], total.astype(dtype)) and found[name].dtype == dtype, (name, found[name])


def refusals(work, address):
    tensors = cases(5)[4]
    good = bits(infer(address, "named", tensors))

    def refused(name, array, *texts, model="named"):
        error = infer(address, model, [(one, kind, array if one == name else its) for one, kind, its in tensors], code=400)
        assert all(text in error for text in texts), error

    error = infer(address, "named", tensors[:-1], code=400)
    assert error == "expected 10 inputs but got 9 inputs for model 'named'", error
    time = tensors[2][2]
    refused("hit_table_local_time", time[:, None],
            f"unexpected shape for input 'hit_table_local_time' for model 'named'. Expected [-1], got [{len(time)},1]")
    refused("hit_table_local_time", np.full_like(time, np.nan), "'hit_table_local_time'", "value 0 is not a number")
    refused("hit_table_hit_id", np.full_like(tensors[0][2], 2 ** 24 + 1), "value 0, 16777217, is not one that FP32 holds")
    refused("spacepoint_table_hit_id_v", np.full_like(tensors[8][2], 2 ** 60 + 1), "OpenVINO computes integers in 32 bits")
    for _ in range(6):  # more often than a batch may fail: the model is not given up for it
        refused("hit_table_local_time", np.append(time, time), "cannot compute row 0 of the request")
    error = infer(address, "fixed", tensors, code=400)
    assert "unexpected shape for input 'hit_table_hit_id' for model 'fixed'. Expected [40]" in error, error
    x = np.array([[1, 0, 2], [4, 0, 3], [0, 0, 5]], np.float32)
    assert infer(address, "uneven", [("x", "FP32", x[:2])])["where"].tolist() == [[0, 2], [0, 2]]
    error = infer(address, "uneven", [("x", "FP32", x)], code=400)
    assert "output 'where' of model 'uneven' has another shape in row 2 than in row 0" in error, error
    assert bits(infer(address, "named", tensors)) == good


def together(work, address):
    """Bits in any order and any mix of lengths, from many clients, while processes are killed."""
    given = cases()
    want = [bits(infer(address, "named", tensors)) for tensors in given]
    order = list(range(len(given))) * 8
    random.Random(3).shuffle(order)
    done, failed = [], []

    def client(part):
        try:
            for i in part:
                assert bits(infer(address, "named", given[i])) == want[i], i
                done.append(i)
        except BaseException as error:  # told by the main thread
            failed.append(repr(error))

    threads = [threading.Thread(target=client, args=(order[k::12],)) for k in range(12)]
    for thread in threads:
        thread.start()
    killed = set()
    for i, what in enumerate(("wiremill-worker", "wiremill-broker", "wiremill-producer client", "wiremill-worker")):
        wait_for(lambda: len(done) + len(failed) >= 40 * i + 10)
        for pid in subprocess.run(["pgrep", "-f", f"^[^ ]*{what}.*{work}/wiremill-gateway-"], capture_output=True,
                                  text=True).stdout.split():
            try:
                os.kill(int(pid), signal.SIGKILL)
                killed.add(what)
            except ProcessLookupError:
                pass
    for thread in threads:
        thread.join()
    assert not failed and len(done) == len(order), (failed[:3], len(done))
    assert len(killed) == 3, killed


def poison(_, address):
    """A row that never ends, so that its engine is ended: its request alone fails."""
    def row(turns):
        return [("x", "FP32", np.arange(5, dtype=np.float32)), ("turns", "INT64", np.array([turns], "<i8"))]

    failed = []

    def client():
        try:
            for turns in range(40):
                found = infer(address, "turns", row(turns))["y"]
                assert np.array_equal(found, np.arange(5, dtype=np.float32) + turns), (turns, found)
        except BaseException as error:  # told by the main thread
            failed.append(repr(error))

    threads = [threading.Thread(target=client) for _ in range(3)]
    for thread in threads:
        thread.start()
    error = infer(address, "turns", row(2 ** 30), code=500)
    assert error == "model 'turns' cannot compute row 0 of the request: the engine ends of it", error
    for thread in threads:
        thread.join()
    assert not failed, failed[:3]


def library(work, address, endpoint):
    """libwiremill refuses such a model, and such a broker, and names a way."""
    import wiremill
    for make in (lambda: wiremill.Model(f"{work}/models/named/1/model.onnx"), lambda: wiremill.Client(endpoint)):
        try:
            make()
        except Exception as error:
            assert "free dimension" in str(error) and "wiremill gateway" in str(error), error
        else:
            raise AssertionError("it was taken")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
