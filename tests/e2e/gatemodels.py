"""gatemodels.py - a client of the gateway's HTTP side, from Python's standard library and NumPy.

usage: gatemodels.py PART FOLDER ...      parts are functions below; FOLDER has the repository `models`
"""
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np

WIDE = 8192  # scores of a value, of the model `wide`
TYPES = {"BOOL": "?", "UINT8": "u1", "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4",
         "FP64": "<f8"}


def call(address, method, path, body=None, headers=None):
    """An answer's code, headers and body."""
    connection = http.client.HTTPConnection(address, timeout=300)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, answer.headers, data


def ask(address, path, method="GET", body=None, code=200):
    status, _, data = call(address, method, path, body)
    assert status == code, (status, path, data[:300])
    return json.loads(data or "{}")


def infer(address, model, tensors, outputs=(), code=200):
    """Binary tensors there and back; tensors: (name, type, array)."""
    head = {"inputs": [{"name": name, "shape": array.shape, "datatype": kind,
                        "parameters": {"binary_data_size": array.nbytes}} for name, kind, array in tensors],
            "parameters": {"binary_data_output": True}}
    if outputs:
        head["outputs"] = [{"name": name, "parameters": {"binary_data": True}} for name in outputs]
    head = json.dumps(head).encode()
    body = head + b"".join(np.ascontiguousarray(array).tobytes() for _, _, array in tensors)
    status, headers, data = call(address, "POST", f"/v2/models/{model}/infer", body,
                                 {"Inference-Header-Content-Length": str(len(head))})
    assert status == code, (status, data[:300])
    if code != 200:
        return json.loads(data)["error"]
    at = int(headers["Inference-Header-Content-Length"])
    answer = json.loads(data[:at])
    found = {}
    for one in answer["outputs"]:
        size = one["parameters"]["binary_data_size"]
        found[one["name"]] = np.frombuffer(data[at:at + size], TYPES[one["datatype"]]).reshape(one["shape"])
        at += size
    return found


def infer_json(address, model, tensors, outputs=(), code=200):
    """The same by JSON there and back, as Python's json writes it: Infinity, NaN."""
    head = {"inputs": [{"name": name, "shape": array.shape, "datatype": kind, "data": array.tolist()} for name, kind, array in tensors]}
    if outputs:
        head["outputs"] = [{"name": name} for name in outputs]
    answer = ask(address, f"/v2/models/{model}/infer", "POST", json.dumps(head), code)
    if code != 200:
        return answer["error"]
    return {one["name"]: np.array([np.nan if value is None else value for value in one["data"]], TYPES[one["datatype"]]).reshape(one["shape"])
            for one in answer["outputs"]}


# ---- files ---------------------------------------------------------------------------------------

def save(path, nodes, inputs, outputs, constants, opset=18):
    """An ONNX file: nodes of onnx.helper, (name, type, shape) of inputs and outputs, arrays by name."""
    import onnx
    from onnx import helper, numpy_helper
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value(*one) for one in inputs], [value(*one) for one in outputs],
                              [numpy_helper.from_array(array, name) for name, array in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    onnx.save(model, path)


def write_models(folder):
    from onnx import TensorProto as T, helper

    node, inputs = helper.make_node, (("a", T.INT32, 4), ("b", T.UINT8, 3), ("c", T.FLOAT, 2), ("d", T.BOOL, 1),
                                      ("e", T.INT64, 1), ("f", T.FLOAT16, 1))
    save(f"{folder}/typed/1/model.onnx",
         [node("Cast", [name], [name + "_"], to=T.FLOAT) for name, _, _ in inputs] +
         [node("Concat", [name + "_" for name, _, _ in inputs], ["x"], axis=1), node("MatMul", ["x", "w"], ["y"]),
          node("ArgMax", ["y"], ["top"], axis=1, keepdims=1), node("Cast", ["y"], ["half"], to=T.FLOAT16),
          node("Cast", ["b_"], ["bytes"], to=T.UINT8)],
         [(name, kind, ["n", n]) for name, kind, n in inputs],
         [("y", T.FLOAT, ["n", 5]), ("top", T.INT64, ["n", 1]), ("half", T.FLOAT16, ["n", 5]),
          ("bytes", T.UINT8, ["n", 3])], {"w": weights()})
    save(f"{folder}/whole/1/model.onnx", [node("MatMul", ["x", "w"], ["y"])], [("x", T.FLOAT, [7, 12])],
         [("y", T.FLOAT, [7, 5])], {"w": weights()})
    save(f"{os.path.dirname(folder)}/wide/1/model.onnx", [node("MatMul", ["x", "w"], ["y"])], [("x", T.FLOAT, ["n", 1])],
         [("y", T.FLOAT, ["n", WIDE])], {"w": np.arange(WIDE, dtype=np.float32)[None]})
    save(f"{folder}/image/1/model.onnx", [node("Mul", ["x", "two"], ["y"])], [("x", T.FLOAT, ["n", 3, 800, 600])],
         [("y", T.FLOAT, ["n", 3, 800, 600])], {"two": np.array(2, np.float32)})


def weights():
    return (np.arange(60).reshape(12, 5) % 7 - 3).astype(np.float32) / 8


# What sites have in config.pbtxt, beside what the gateway reads.
SITE = """instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] } ]  # the site's
optimization { execution_accelerators { gpu_execution_accelerator : [ { name : "tensorrt"
    parameters { key: "precision_mode" value: "FP16" } } ] cpu_execution_accelerator: [{name:"openvino"}] } graph { level: -1 } }
parameters { key: "execution_mode" value: { string_value: "0" } }
model_warmup [ { name: "w" inputs { key: "main_input" value: { data_type: TYPE_FP32 dims: [ 16, 16, 1 ] zero_data: true } } } ]
dynamic_batching { preferred_batch_size: [ 64, 256 ] default_queue_policy { timeout_action: REJECT max_queue_size: 128 } }
model_transaction_policy { decoupled: False } some_later_field { deep < deeper: [ 1.5e-3, -2, inf ] > }
"""
# Models that are not loaded: what is in config.pbtxt, which file lies there, and what the gateway tells of it.
REFUSED = {"ensemble": ("ensemble_scheduling { step [ { model_name: 'a' } ] }", "", "ensembles are not supported"),
           "sequence": ("sequence_batching { }", "model.onnx", "sequences are not supported"),
           "negative": ("max_batch_size: -1", "model.onnx", "'max_batch_size' must be non-negative value"),
           "torch": ('platform: "pytorch_libtorch"', "model.pt", "has no version to load"),
           "damaged": ("max_batch_size 3", "model.onnx", "config.pbtxt:1: a ':' or '{' is missing")}


def files(work, model):
    folder = f"{work}/models"
    for version in (1, 3):
        os.makedirs(f"{folder}/emtrk/{version}")
        os.symlink(model, f"{folder}/emtrk/{version}/net.onnx")
    with open(f"{folder}/emtrk/config.pbtxt", "w") as out:
        out.write('name: "emtrk" platform: "tensorflow_graphdef" max_batch_size: 256\n'
                  'default_model_filename: "net.onnx"\nversion_policy { all { } }\n'
                  'output [ { name: "michel_netout/Sigmoid" data_type: TYPE_FP32 dims: [ 1 ]\n'
                  'label_filename: "labels.txt" } ] input { name: "main_input" format: FORMAT_NHWC }\n' + SITE)
    with open(f"{folder}/emtrk/labels.txt", "w") as out:
        out.write("Michel\n")
    os.makedirs(f"{folder}/broken/1")
    with open(f"{folder}/broken/1/model.onnx", "w") as out:
        out.write("this is no model")
    os.makedirs(f"{folder}/wrong")
    with open(f"{folder}/wrong/config.pbtxt", "w") as out:
        out.write('name: "other"')
    for name, (text, file, _) in REFUSED.items():
        os.makedirs(f"{folder}/{name}/1")
        with open(f"{folder}/{name}/config.pbtxt", "w") as out:
            out.write(text)
        if file:
            os.symlink(model, f"{folder}/{name}/1/{file}")
    write_models(folder)


# ---- what is asked -------------------------------------------------------------------------------

def index(address):
    return {(one["name"], one.get("version")): one for one in ask(address, "/v2/repository/index", "POST")}


def wait_for(check, seconds=60):
    until = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < until, "not within its time"
        time.sleep(0.02)


def ready(_, address):
    wait_for(lambda: all(one.get("state") not in ("LOADING", "UNLOADING") for one in index(address).values()))
    states = index(address)
    assert {states[name, number]["state"] for name, number in (("emtrk", "1"), ("emtrk", "3"), ("given", "7"))} == {"READY"}
    assert states["broken", "1"]["state"] == "UNAVAILABLE" and "model.onnx" in states["broken", "1"]["reason"], states
    for name, why in (("wrong", "unexpected directory name"), *((name, told[2]) for name, told in REFUSED.items())):
        assert states[name, ""]["state"] == "UNAVAILABLE" and why in states[name, ""]["reason"], (name, states)
    assert call(address, "GET", "/v2/health/live")[0] == 200
    assert call(address, "GET", "/v2/health/ready")[0] != 200  # one model is broken
    assert call(address, "GET", "/v2/models/emtrk/ready")[0] == 200
    assert call(address, "GET", "/v2/models/broken/ready")[0] != 200


def words(_, address):
    metadata = ask(address, "/v2/models/emtrk")
    assert metadata["versions"] == ["1", "3"] and metadata["platform"] == "tensorflow_graphdef", metadata
    assert metadata["inputs"][0]["name"] == "main_input" and metadata["inputs"][0]["shape"][0] == -1
    assert [one["name"] for one in metadata["outputs"]] == ["em_trk_none_netout/Softmax", "michel_netout/Sigmoid"]
    config = ask(address, "/v2/models/emtrk/versions/1/config")
    assert config["max_batch_size"] == 256 and config["default_model_filename"] == "net.onnx", config
    assert config["dynamic_batching"]["max_queue_delay_microseconds"] == 1000, config
    assert config["parameters"] == {"execution_mode": {"string_value": "0"}}, config
    assert config["input"][0]["format"] == "FORMAT_NHWC" and config["output"][1]["label_filename"] == "labels.txt", config
    assert config["version_policy"] == {"all": {}} and config["input"][0]["data_type"] == "TYPE_FP32"
    assert ask(address, "/v2/models/given/config")["max_batch_size"] > 0
    error = ask(address, "/v2/models/none", code=404)["error"]
    assert error == "Request for unknown model: 'none' is not found", error
    error = ask(address, "/v2/models/emtrk/versions/2", code=404)["error"]
    assert error == "Request for unknown model: 'emtrk' version 2 is not found", error
    count = ask(address, "/v2/models/emtrk/stats")["model_stats"]
    assert [one["version"] for one in count] == ["3", "1"] and count[0]["inference_stats"]["fail"]["count"] == 0


def patches(model):
    import wiremill
    net = wiremill.Model(model)
    side = int(round(net.n_value ** 0.5))
    rng = np.random.default_rng(5)
    values = (rng.random((300, side, side, 1)) * (rng.random((300, side, side, 1)) < 0.1) * 9).astype(np.float32)
    return values, net.score(values.reshape(300, -1))


def check_bits(address, values, want, at, n):
    found = infer(address, "emtrk", [("main_input", "FP32", values[at:at + n])])
    rows = np.concatenate([found["em_trk_none_netout/Softmax"], found["michel_netout/Sigmoid"]], 1)
    assert np.array_equal(rows.view(np.uint32), want[at:at + n].view(np.uint32)), (at, n)


def scores(_, address, model):
    values, want = patches(model)
    wait_for(lambda: call(address, "GET", "/v2/models/emtrk/ready")[0] == 200)
    for at, n in ((0, 1), (1, 0), (1, 299), (7, 2)):
        check_bits(address, values, want, at, n)
    bad = values[:3].copy()
    bad[1, 2, 3] = np.inf
    found = infer(address, "emtrk", [("main_input", "FP32", bad)], ["michel_netout/Sigmoid"])["michel_netout/Sigmoid"]
    assert np.isnan(found[1, 0]) and found[0, 0] == want[0, 3] and found[2, 0] == want[2, 3], found


def kills(work, address, model):
    """24 clients at a time; whose process of model `emtrk` is killed as soon as the work has got further."""
    values, want = patches(model)
    done, failed, n = [], [], 240

    def client(first):
        try:
            for i in range(first, n, 24):
                check_bits(address, values, want, i * 37 % 250, 1 + i % 40)
                done.append(i)
        except BaseException as error:  # told by the main thread
            failed.append(repr(error))

    threads = [threading.Thread(target=client, args=(first,)) for first in range(24)]
    for thread in threads:
        thread.start()
    killed = set()
    for i, what in enumerate(("wiremill-worker", "wiremill-broker", "wiremill-producer client", "wiremill run") * 2):
        wait_for(lambda: len(done) + len(failed) >= 20 * i)
        for pid in subprocess.run(["pgrep", "-f", f"^[^ ]*{what}.*{work}/wiremill-gateway-"], capture_output=True,
                                  text=True).stdout.split()[-1:]:
            try:
                os.kill(int(pid), signal.SIGKILL)
                killed.add(what)
            except ProcessLookupError:
                pass
    for thread in threads:
        thread.join()
    assert not failed and sorted(done) == list(range(n)), (failed[:3], len(done))
    assert len(killed) == 4, killed


def types(_, address):
    rng = np.random.default_rng(2)
    n = 9
    given = [("f", "FP16", rng.standard_normal((n, 1)).astype("f2")), ("a", "INT32", rng.integers(-99, 99, (n, 4)).astype("i4")),
             ("b", "UINT8", rng.integers(0, 255, (n, 3)).astype("u1")), ("c", "FP32", rng.standard_normal((n, 2)).astype("f4")),
             ("d", "BOOL", rng.integers(0, 2, (n, 1)).astype(bool)), ("e", "INT64", rng.integers(-9, 9, (n, 1)))]
    inputs = {one["name"]: one["datatype"] for one in ask(address, "/v2/models/typed")["inputs"]}
    assert inputs == {name: kind for name, kind, _ in given}, inputs
    found = infer(address, "typed", given)
    rows = np.concatenate([array.astype("f4") for _, _, array in sorted(given)], 1)
    want = rows.astype("f8") @ weights()
    assert np.abs(found["y"] - want).max() < 1e-4
    assert np.array_equal(found["top"][:, 0], found["y"].argmax(1)) and found["top"].dtype == np.int64
    assert np.array_equal(found["half"], found["y"].astype("f2")) and np.array_equal(found["bytes"], given[2][2])
    assert list(infer(address, "typed", given, ["bytes", "y"])) == ["bytes", "y"]
    given[1][2][3, 2] = 2 ** 24 + 1  # exact in its type, and rounded by the model's own Cast
    rows = np.concatenate([array.astype("f4") for _, _, array in sorted(given)], 1)
    assert np.allclose(infer(address, "typed", given)["y"], rows.astype("f8") @ weights(), 1e-6)
    given[1][2][3, 2] = 0
    given[3][2][5, 1] = np.nan  # an integer cannot be NaN: the row is refused where one is wanted
    for wanted in ((), ("top",), ("y", "bytes")):
        error = infer(address, "typed", given, wanted, code=400)
        assert "1 of 9 rows" in error and "rows 5 (from 0)" in error and "integers" in error, error
    found = infer(address, "typed", given, ["y", "half"])
    assert np.isnan(found["y"][5]).all() and np.isnan(found["half"][5]).all() and np.isfinite(np.delete(found["y"], 5, 0)).all()


def whole(_, address):
    config = ask(address, "/v2/models/whole/config")
    assert config["max_batch_size"] == 0 and config["input"][0]["dims"] == [7, 12], config
    x = np.arange(84, dtype=np.float32).reshape(7, 12) % 5
    found = infer(address, "whole", [("x", "FP32", x)])["y"]
    assert found.shape == (7, 5) and np.abs(found - x @ weights()).max() < 1e-5
    bare = {"Inference-Header-Content-Length": "0"}  # the input's bytes, no JSON
    status, _, data = call(address, "POST", "/v2/models/whole/infer", x.tobytes(), bare)
    assert status == 200 and data[-140:] == found.tobytes(), data[:300]
    status, _, data = call(address, "POST", "/v2/models/typed/infer", x.tobytes(), bare)
    assert status == 400 and b"got 6 inputs in 'typed' model configuration: send JSON" in data, data
    error = infer(address, "whole", [("x", "FP32", x[:6])], code=400)
    assert error == "unexpected shape for input 'x' for model 'whole'. Expected [7,12], got [6,12]", error


def image(_, address):
    """Of 5.8 MB each: a patch larger than a batch of several may be."""
    x = np.random.default_rng(3).random((3, 3, 800, 600), np.float32)
    found = infer(address, "image", [("x", "FP32", x)])["y"]
    assert found.shape == x.shape and np.array_equal(found, 2 * x)
    # the same as JSON takes long to write: others are answered meanwhile
    head = {"inputs": [{"name": "x", "shape": x.shape, "datatype": "FP32", "parameters": {"binary_data_size": x.nbytes}}]}
    head, done, longest = json.dumps(head).encode(), [], 0
    heads = {"Inference-Header-Content-Length": str(len(head))}
    thread = threading.Thread(target=lambda: done.append(call(address, "POST", "/v2/models/image/infer", head + x.tobytes(), heads)))
    begun = time.monotonic()
    thread.start()
    while thread.is_alive():
        before = time.monotonic()
        ask(address, "/v2/health/live")
        longest = max(longest, time.monotonic() - before)
    took = time.monotonic() - begun
    thread.join()
    status, _, data = done[0]
    assert status == 200 and np.array_equal(np.array(json.loads(data)["outputs"][0]["data"], "f4"), found.ravel())
    assert longest < took / 3, (longest, took)


def wide(_, address, worker):
    """Small requests with large answers, more at once than the memory: they wait, and are answered. `worker` is stopped meanwhile."""
    def held():
        lines = call(address, "GET", "/metrics")[2].decode().splitlines()
        found = dict(line.rsplit(" ", 1) for line in lines if line[0] != "#")
        return int(found["wiremill_gateway_memory_bytes"]), int(found["wiremill_gateway_memory_limit_bytes"])

    def client(i):
        x = np.arange(250 * i, 250 * (i + 1), dtype=np.float32)[:, None]
        y = infer(address, "wide", [("x", "FP32", x)])["y"]
        same.append(np.array_equal(y, x * np.arange(WIDE, dtype=np.float32)))

    same, most = [], 0
    error = infer(address, "wide", [("x", "FP32", np.zeros((257, 1), np.float32))], code=413)
    assert error.startswith(f"the answer would be {257 * 4 * WIDE} bytes") and "send fewer rows" in error, error
    text = {"inputs": [{"name": "x", "shape": [250, 1], "datatype": "FP32", "data": list(range(250))}]}
    error = ask(address, "/v2/models/wide/infer", "POST", json.dumps(text), 413)["error"]
    assert "the answer in JSON is larger" in error and "binary_data_output" in error, error
    os.kill(int(worker), signal.SIGSTOP)
    threads = [threading.Thread(target=client, args=(i,)) for i in range(30)]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: held()[0] > 250 * 4 * WIDE)
    finally:
        os.kill(int(worker), signal.SIGCONT)
    while any(thread.is_alive() for thread in threads):
        bytes_held, limit = held()
        most = max(most, bytes_held)
        time.sleep(0.01)
    # One request that has begun may exceed the memory, and one of each address its share.
    assert same == [True] * 30 and most < limit + 250 * 4 * WIDE, (len(same), most, limit)


def load(work, address):
    def post(name, what, code=200):
        return ask(address, f"/v2/repository/models/{name}/{what}", "POST", "{}", code)

    post("emtrk", "unload")
    assert ("emtrk", "1") not in index(address)
    assert call(address, "GET", "/v2/models/emtrk/ready")[0] != 200
    post("emtrk", "load")
    assert index(address)["emtrk", "3"]["state"] == "READY"
    error = post("wrong", "load", 400)["error"]
    assert "unexpected directory name 'wrong' for model 'other'" in error, error
    error = post("broken", "load", 400)["error"]
    assert "failed to load 'broken'" in error and "model.onnx" in error, error
    assert post("nothing", "load", 400)["error"] == "failed to load 'nothing', failed to poll from model repository"
    os.makedirs(f"{work}/models/later/1")
    os.symlink(os.path.realpath(f"{work}/models/emtrk/1/net.onnx"), f"{work}/models/later/1/model.onnx")
    post("later", "load")
    assert ask(address, "/v2/models/later")["versions"] == ["1"]
    post("broken", "unload")
    assert ("broken", "1") not in index(address)


def poll(work, address, model):
    """The gateway follows its repository; clients may not load."""
    def state(name, version):
        return index(address).get((name, version), {}).get("state")

    folder, new = f"{work}/polled", f"{work}/new"
    error = ask(address, "/v2/repository/models/first/load", "POST", "{}", 503)["error"]
    assert "--model-control-mode" in error, error
    error = ask(address, "/v2/repository/models/first/unload", "POST", "{}", 503)["error"]
    wait_for(lambda: state("first", "1") == "READY")
    data = open(model, "rb").read()
    os.makedirs(f"{folder}/later/1")
    with open(f"{folder}/later/1/model.onnx", "wb") as out:  # a copy that stands still half way
        out.write(data[:9999])
    wait_for(lambda: state("later", "1") == "UNAVAILABLE")
    assert "model.onnx" in index(address)["later", "1"]["reason"]
    with open(f"{folder}/later/1/model.onnx", "ab") as out:  # ... and goes on
        out.write(data[9999:])
    wait_for(lambda: state("later", "1") == "READY")
    os.makedirs(new)
    os.symlink(os.path.realpath(model), f"{new}/model.onnx")
    os.rename(new, f"{folder}/later/4")
    wait_for(lambda: state("later", "4") == "READY" and state("later", "1") is None)
    with open(f"{folder}/later/config.pbtxt", "w") as out:  # one that is wrong leaves what is loaded
        out.write("what {")
    os.rename(f"{folder}/first", f"{work}/first")
    wait_for(lambda: state("first", "1") is None)
    assert call(address, "GET", "/v2/models/later/versions/4/ready")[0] == 200


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
