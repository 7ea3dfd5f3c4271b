"""gatelarge.py - a model whose rows are larger than a batch of any other, by HTTP and gRPC, while its worker is killed.

usage: gatelarge.py make FOLDER WIRES BINS [scores|free]    FOLDER/tile.onnx: three channels of such a plane to one (scores: to 8; free:
                                                           of a plane of any size)
       gatelarge.py PART FOLDER GRPC HTTP WIRES BINS ...      parts are functions below; of gatewire.py it has the wires
"""
import http.client
import json
import os
import signal
import sys
import threading
import time

import numpy as np

WEIGHT, BIAS = np.array([0.5, -0.25, 0.125], "f4"), 0.25


def make(folder, wires, bins, scores=""):
    from onnx import TensorProto, checker, helper, numpy_helper, save
    side = ["wires", "bins"] if scores == "free" else [int(wires), int(bins)]
    scores = scores == "scores"
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"]), helper.make_node("Relu", ["c"], ["r" if scores else "y"])]
    if scores:
        nodes += [helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[side[0] // 2, side[1] // 4], strides=[side[0] // 2, side[1] // 4]),
                  helper.make_node("Flatten", ["p"], ["y"])]
    graph = helper.make_graph(nodes, "tile", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, *side])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8] if scores else ["n", 1, *side])],
                              [numpy_helper.from_array(WEIGHT.reshape(1, 3, 1, 1), "w"), numpy_helper.from_array(np.array([BIAS], "f4"), "b")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    checker.check_model(model)
    save(model, folder + "/tile.onnx")


def rows(n, seed=1):
    """Whole numbers, of which float32 has every sum exactly."""
    side = [int(word) for word in sys.argv[5:7]]
    return np.random.default_rng(seed).integers(-1000, 1000, (n, 3, *side)).astype("<f4")


def wanted(values):
    return np.maximum(np.tensordot(values, WEIGHT, (1, 0)) + np.float32(BIAS), 0)[:, None]


def by_http(values, model="m", code=200):
    head = json.dumps({"inputs": [{"name": "x", "shape": values.shape, "datatype": "FP32",
                                   "parameters": {"binary_data_size": values.nbytes}}],
                       "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}).encode()
    connection = http.client.HTTPConnection(sys.argv[4], timeout=300)
    connection.request("POST", f"/v2/models/{model}/infer", head + values.tobytes(), {"Inference-Header-Content-Length": str(len(head))})
    answer = connection.getresponse()
    data = answer.read()
    assert answer.status == code, data[:300]
    if code != 200:
        return json.loads(data)["error"]
    return np.frombuffer(data[int(answer.headers["Inference-Header-Content-Length"]):], "<f4")


def by_grpc(values, model="m"):
    from gatewire import call, fields, framed
    from protobuf import field
    tensor = field(1, "x") + field(2, "FP32") + b"".join(field(3, n) for n in values.shape)
    answer = call("ModelInfer", framed(field(1, model) + field(5, tensor) + field(7, values.tobytes())))[0]
    return np.frombuffer(dict(fields(answer))[6], "<f4")


def answers():
    values = rows(2)
    for ask in (by_http, by_grpc):
        assert np.array_equal(ask(values), wanted(values).ravel()), ask
        assert np.array_equal(ask(values[1:]), wanted(values[1:]).ravel()), ask


def killed():
    """The worker is killed with such rows under way, and again: all are answered."""
    pattern, failed = sys.argv[7], []
    values = rows(1, 7)
    want = wanted(values).ravel()

    def client(ask):
        for _ in range(3):
            if not np.array_equal(ask(values), want):
                failed.append(ask)
    threads = [threading.Thread(target=client, args=(ask,)) for ask in (by_http, by_http, by_grpc)]
    for thread in threads:
        thread.start()
    dead = set()
    while len(dead) < 2 and any(thread.is_alive() for thread in threads):
        for pid in os.popen(f"pgrep -f '{pattern}'").read().split():
            if pid not in dead and len(dead) < 2:
                os.kill(int(pid), signal.SIGKILL)
                dead.add(pid)
        time.sleep(0.1)
    for thread in threads:
        thread.join()
    assert dead and not failed, (dead, failed)


def free():
    """Free sizes: 12 MiB a row, or what the model's row_bytes states; it is loaded again with others."""
    from gatewire import ask
    values = rows(1)

    def load(bytes_of_row, code=200):
        config = {"parameters": {"row_bytes": {"string_value": str(bytes_of_row)}}}
        return ask("/v2/repository/models/free/load", json.dumps({"parameters": {"config": json.dumps(config)}}), code=code)
    error = by_http(values, "free", 400)
    assert "has more than 3145727 float32s" in error and 'parameters { key: "row_bytes" }' in error, error
    for wrong in (7, "x", 1 << 27, ""):
        error = load(wrong, 400).decode()
        assert "row-bytes" in error, error
        few = np.ascontiguousarray(values[:, :, :9])
        assert np.array_equal(by_http(few, "free"), wanted(few).ravel())   # it goes on as it was
    load(values.nbytes + 4096)
    for ask_for in (by_http, by_grpc):
        for some in map(np.ascontiguousarray, (values, values[:, :, :7, :5], values.transpose(0, 1, 3, 2))):
            assert np.array_equal(ask_for(some, "free"), wanted(some).ravel()), (ask_for, some.shape)
    more = np.concatenate([values, values[:, :, :64]], 2)
    error = by_http(more, "free", 400)
    assert f"has more than {(values.nbytes + 4096) // 4 - 1} float32s" in error, error


if __name__ == "__main__":
    make(*sys.argv[2:]) if sys.argv[1] == "make" else globals()[sys.argv[1]]()
