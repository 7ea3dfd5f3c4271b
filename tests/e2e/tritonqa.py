"""tritonqa.py - the calls of Triton's own QA tests and image clients, by tritonclient, in sources of ours.

usage: tritonqa.py PART FOLDER [GRPC HTTP]     parts are functions below; `files` needs onnx, the others tritonclient
"""
import asyncio
import json
import queue
import sys

import numpy as np

from gateconfig import LABELS, SHAPES, config, dense, doubled, mixed, printed
from gatemodels import save, wait_for

part, work = sys.argv[1:3]
grpc, web = (sys.argv[3:] + ["", ""])[:2]
TYPES = {"FP32": "f4", "INT32": "i4", "INT16": "i2", "INT8": "i1"}
NAMES = [f"label{i}" for i in range(14)]  # of 16 classes


# ---- files ---------------------------------------------------------------------------------------

def add_sub(folder, name, kind, shape, batch, versions=(1,), more=""):
    """INPUT0 + INPUT1, and INPUT0 - INPUT1; labels of the first. Version 3 swaps the outputs."""
    from onnx import TensorProto as T, helper
    of = {"FP32": T.FLOAT, "INT32": T.INT32, "INT16": T.INT16, "INT8": T.INT8}[kind]
    dims = ["n"] * bool(batch) + [f"d{i}" if size < 0 else size for i, size in enumerate(shape)]
    for version in versions:
        outputs = ["OUTPUT1", "OUTPUT0"] if version == 3 else ["OUTPUT0", "OUTPUT1"]
        save(f"{folder}/{name}/{version}/model.onnx",
             [helper.make_node(op, ["INPUT0", "INPUT1"], [output]) for op, output in zip(("Add", "Sub"), outputs)],
             [(port, of, dims) for port in ("INPUT0", "INPUT1")], [(port, of, dims) for port in ("OUTPUT0", "OUTPUT1")], {})
    config(folder, name, batch, [(port, kind, shape) for port in ("INPUT0", "INPUT1")],
           [("OUTPUT0", kind, shape, None, 'label_filename: "output0_labels.txt"'), ("OUTPUT1", kind, shape)], more)
    with open(f"{folder}/{name}/output0_labels.txt", "w") as out:
        out.write("\n".join(NAMES) + "\n")


def files():
    folder = f"{work}/models"
    for kind in TYPES:
        add_sub(folder, f"add_{kind}", kind, [16], 8)
        add_sub(folder, f"add_{kind}_nobatch", kind, [16], 0)
    add_sub(folder, "versions", "FP32", [16], 8, (1, 2, 3), "version_policy { specific { versions: [ 1, 3 ] } }\n")
    add_sub(folder, "latest", "FP32", [16], 8, (1, 2, 3), "version_policy { latest { num_versions: 2 } }\n")
    add_sub(folder, "queue", "FP32", [16], 8, more="dynamic_batching { max_queue_delay_microseconds: 60000000 preferred_batch_size: [ 4, 8 ] "
            "default_queue_policy { max_queue_size: 1 } }\n")
    add_sub(folder, "variable", "FP32", [-1], 8)
    add_sub(folder, "variable2", "FP32", [-1, 2], 8)
    doubled(folder, "zero", [["n", -1]])
    config(folder, "zero", 8, [("x0", "FP32", [-1])], [("y0", "FP32", [-1])])
    doubled(folder, "zero0", [["n", -1]])
    config(folder, "zero0", 0, [("x0", "FP32", [-1, -1])], [("y0", "FP32", [-1, -1])])
    dense(folder, "densenet_onnx", 8)
    config(folder, "densenet_onnx", 0, [("data_0", "FP32", [3, 8, 8], [1, 3, 8, 8], "format: FORMAT_NCHW")],
           [("fc6_1", "FP32", [10], [1, 10, 1, 1], 'label_filename: "densenet_labels.txt"')])
    with open(f"{folder}/densenet_onnx/densenet_labels.txt", "w") as out:
        out.write("\n".join(LABELS))
    for name in ("fixed", "scalar", "free", "free0", "lists", "lists0"):
        model, dims, reshapes, batch = SHAPES[name]
        kind = "INT32" if name.startswith("free") else "FP32"
        doubled(folder, name, model, kind)
        config(folder, name, batch, [(f"x{i}", kind, *one) for i, one in enumerate(zip(dims, reshapes))],
               [(f"y{i}", kind, *one) for i, one in enumerate(zip(dims, reshapes))])
    mixed(folder)


# ---- clients -------------------------------------------------------------------------------------

def clients():
    import tritonclient.grpc as tg
    import tritonclient.http as th
    return ((tg, tg.InferenceServerClient(grpc), {}), (th, th.InferenceServerClient(web), {"binary_data": True}),
            (th, th.InferenceServerClient(web), {"binary_data": False}))


def tensor(kind, name, array, **how):
    one = kind.InferInput(name, list(array.shape), {"f4": "FP32", "i4": "INT32", "i2": "INT16", "i1": "INT8"}[array.dtype.str[1:]])
    one.set_data_from_numpy(array, **how)
    return one


def fails(call, *words):
    from tritonclient.utils import InferenceServerException
    try:
        call()
    except InferenceServerException as error:
        assert all(word in str(error) for word in words), error
        return
    raise AssertionError("it should have failed")


def ranked(rows, k, labels, whole):
    """As Triton prints the k highest, of integers or not."""
    lists = [rows.ravel()] if whole else list(rows.reshape(len(rows), -1))
    found = [printed(one, k, labels) for one in lists]
    return [[text if one.dtype.kind == "f" else f"{int(float(text.split(':')[0]))}:" + text.split(":", 1)[1] for text in texts]
            for one, texts in zip(lists, found)]


def check_add(model, kind, shape, batch, swapped=False, version=""):
    rng = np.random.default_rng(4)
    for rows in (1, 8) if batch else (0,):
        a, b = (rng.integers(-30, 30, ([rows] if batch else []) + shape).astype(TYPES[kind]) for _ in range(2))
        want = {"OUTPUT0": a - b if swapped else a + b, "OUTPUT1": a + b if swapped else a - b}
        for of, client, how in clients():
            inputs = [tensor(of, "INPUT0", a, **how), tensor(of, "INPUT1", b, **how)]
            for classes in ((0, 0), (3, 0), (0, 3), (3, 40)):
                outputs = [of.InferRequestedOutput(name, class_count=k, **how) for name, k in zip(want, classes)]
                result = client.infer(model, inputs, model_version=version, outputs=outputs)
                for (name, array), k in zip(want.items(), classes):
                    got = result.as_numpy(name)
                    if not k:
                        assert got.dtype == array.dtype and np.array_equal(got, array), (model, name)
                        continue
                    texts = [one.decode() if isinstance(one, bytes) else str(one) for one in got.ravel()]
                    lists = ranked(array, k, NAMES if name == "OUTPUT0" else [], not batch)
                    assert texts == sum(lists, []), (model, name, texts, lists)
                    assert list(got.shape) == ([rows] if batch else []) + [len(lists[0])], got.shape


def infer_test():
    """Types, batches and none, raw and classes, versions."""
    for kind in TYPES:
        check_add(f"add_{kind}", kind, [16], True)
        check_add(f"add_{kind}_nobatch", kind, [16], False)
    check_add("versions", "FP32", [16], True, True)
    check_add("versions", "FP32", [16], True, False, "1")
    check_add("latest", "FP32", [16], True, False, "2")
    for model, version in (("versions", "2"), ("latest", "1")):
        fails(lambda: check_add(model, "FP32", [16], True, False, version), f"version {version} is not found")


def infinite():
    """Infinities and NaN, as bytes and as JSON, which has no words for them; -0."""
    a = np.array([[np.inf, -np.inf, -0.0, 0.1] * 4, [np.nan] + [1] * 15], "f4")
    b = np.array([[1, 2, -0.0, 0.2] * 4, [1] * 16], "f4")
    for of, client, how in clients():
        inputs = [tensor(of, "INPUT0", a, **how), tensor(of, "INPUT1", b, **how)]
        outputs = [of.InferRequestedOutput(name, **how) for name in ("OUTPUT0", "OUTPUT1")]
        result = client.infer("add_FP32", inputs, outputs=outputs)
        for name, want in (("OUTPUT0", a + b), ("OUTPUT1", a - b)):
            got = result.as_numpy(name)
            assert got[0].tobytes() == want[0].tobytes() and np.isnan(got[1]).all(), (how, name, got)


def infer_variable():
    for length in (1, 16, 5):
        check_add("variable", "FP32", [length], True)
        check_add("variable2", "FP32", [length, 2], True)


def infer_zero():
    """Tensors of no values."""
    for of, client, how in clients():
        for model, shapes in (("zero", ((1, 0), (3, 0), (2, 3))), ("zero0", ((0, 1), (0, 0), (3, 0), (2, 3)))):
            for shape in shapes:
                x = np.ones(shape, "f4")
                got = client.infer(model, [tensor(of, "x0", x, **how)]).as_numpy("y0")
                assert got.shape == shape and np.array_equal(got, 2 * x), (of, model, shape, got)


def infer_reshape():
    rng = np.random.default_rng(5)
    for name in ("fixed", "scalar", "free", "free0", "lists", "lists0"):
        _, dims, _, batch = SHAPES[name]
        for of, client, how in clients():
            page = client.get_model_metadata(name, **({"as_json": True} if not how else {}))
            assert [[int(d) for d in one["shape"]] for one in page["inputs"]] == [[-1] * bool(batch) + one for one in dims], page
            for long in (1, 4):
                arrays = [rng.integers(-9, 9, [2] * bool(batch) + [long if d < 0 else d for d in one]).astype(
                    "i4" if name.startswith("free") else "f4") for one in dims]
                result = client.infer(name, [tensor(of, f"x{i}", one, **how) for i, one in enumerate(arrays)])
                for i, one in enumerate(arrays):
                    got = result.as_numpy(f"y{i}")
                    assert got.shape == one.shape and np.array_equal(got, 2 * one), (name, got.shape)


def http_test():
    """Bytes alone, what is malformed, loads with files."""
    import tritonclient.http as th
    client = th.InferenceServerClient(web)
    x = np.random.default_rng(6).random((3, 8, 8), np.float32)
    want = client.infer("densenet_onnx", [tensor(th, "data_0", x)]).as_numpy("fc6_1")
    raw = client._post("v2/models/densenet_onnx/infer", x.tobytes(), {"Inference-Header-Content-Length": "0"}, None)
    assert raw.status_code == 200
    assert raw.read()[int(raw.get("Inference-Header-Content-Length")):] == want.tobytes()
    for body in ('{"ready": [[1]]}', '{"ready": 1}', '{"ready":' + "[" * 250000 + "true" + "]" * 250000 + "}", "[]", "ready"):
        assert client._post("v2/repository/index", body, None, None).status_code == 400, body[:20]
    for depth, code in ((99, 200), (101, 400)):
        data = "[" * depth + ",".join(str(float(one)) for one in x.ravel()) + "]" * depth
        head = {"name": "data_0", "shape": [3, 8, 8], "datatype": "FP32", "data": 0}
        text = json.dumps({"inputs": [head]}).replace('"data": 0', '"data": ' + data)
        answer = client._post("v2/models/densenet_onnx/infer", text, None, None)
        assert answer.status_code == code and (code == 200 or b"nesting depth exceeds maximum allowed limit (100)" in answer.read()), depth
    for shape, code, text in (([2, -5], 500, b"'shape': attempt to access JSON non-unsigned-integer as unsigned-integer"), ([2, 1.5], 400, b"integer of 0 or more")):
        head = {"name": "INPUT0", "shape": shape, "datatype": "FP32", "data": [1.0]}
        answer = client._post("v2/models/variable/infer", json.dumps({"inputs": [head]}), None, None)
        assert answer.status_code == code and text in answer.read(), shape
    loads()


def loads():
    """load_model with config and files, by both."""
    model = open(f"{work}/models/densenet_onnx/1/model.onnx", "rb").read()
    given = {"max_batch_size": 0, "input": [{"name": "data_0", "data_type": "TYPE_FP32", "dims": [3, 8, 8], "reshape": {"shape": [1, 3, 8, 8]}}]}
    for of, client, how in clients()[:2]:
        client.load_model("override", config=json.dumps(given), files={"file:1/model.onnx": model})
        assert client.is_model_ready("override") and client.is_model_ready("override", "1")
        fails(lambda: client.load_model("override", config=json.dumps(given), files={"file:1/model.onnx": b"x"}), "failed to load")
        fails(lambda: client.load_model("override", files={"file:1/model.onnx": model}), "'config'")
        fails(lambda: client.load_model("override", config="{}", files={"file:" + "A" * 256: b"a"}), "failed to poll", "500" if how else "INTERNAL")
        assert client.is_model_ready("override")
        client.load_model("add_FP32", config='{"max_batch_size": 2}')
        page = client.get_model_config("add_FP32", **({"as_json": True} if not how else {}))
        assert page.get("config", page)["max_batch_size"] == 2, page
        client.load_model("add_FP32")
        client.unload_model("override")
        assert not client.is_model_ready("override")


def image_client():
    """Classes of a model with reshape, without a batch, as image_client.py and grpc_image_client.py ask; async, streams, HTTP's JSON."""
    for of, client, how in clients():
        x = np.random.default_rng(9).random((3, 8, 8), np.float32)
        page = client.get_model_metadata("densenet_onnx", **({"as_json": True} if not how else {}))
        conf = client.get_model_config("densenet_onnx", **({"as_json": True} if not how else {}))
        conf = conf.get("config", conf)
        assert [int(d) for d in page["inputs"][0]["shape"]] == [3, 8, 8] and [int(d) for d in page["outputs"][0]["shape"]] == [10], page
        assert conf.get("max_batch_size", 0) == 0 and conf["input"][0]["format"] == "FORMAT_NCHW", conf
        scores = client.infer("densenet_onnx", [tensor(of, "data_0", x, **how)]).as_numpy("fc6_1")
        output = of.InferRequestedOutput("fc6_1", class_count=3, **how)

        def check(result):
            texts = [one.decode() if isinstance(one, bytes) else one for one in result.as_numpy("fc6_1")]
            assert texts == printed(scores, 3, LABELS), (texts, scores)

        check(client.infer("densenet_onnx", [tensor(of, "data_0", x, **how)], outputs=[output], request_id="1"))
        if how:
            check(client.async_infer("densenet_onnx", [tensor(of, "data_0", x, **how)], outputs=[output]).get_result())
            continue
        answers = queue.Queue()
        client.async_infer("densenet_onnx", [tensor(of, "data_0", x)], lambda result, error: answers.put((result, error)), outputs=[output])
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("densenet_onnx", [tensor(of, "data_0", x)], outputs=[output])
        for _ in range(2):
            result, error = answers.get(timeout=60)
            assert error is None, error
            check(result)
        client.stop_stream()


def refused():
    """What the gateway has not: it says so, and goes on."""
    for of, client, how in clients()[:2]:
        fails(lambda: client.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"]}), "not supported")
        fails(lambda: client.update_log_settings({"log_verbose_level": 1}), "not supported")
        texts = of.InferInput("INPUT0", [1, 16], "BYTES")
        texts.set_data_from_numpy(np.array([[b"1"] * 16], object), **how)
        fails(lambda: client.infer("add_INT32", [texts, tensor(of, "INPUT1", np.ones((1, 16), "i4"), **how)]), "data-type is 'BYTES'")
    check_add("add_INT32", "INT32", [16], True)


def full_queue():
    """One request may wait in the queue: the next one is refused, whoever it comes by. Enough rows go at once."""
    (tg, client, _), (th, other, _) = clients()[:2]
    row, many, answers = np.ones((1, 16), "f4"), np.ones((4, 16), "f4"), queue.Queue()

    def pending():
        page = other._get("metrics", {}, {}).read().decode()
        return sum(int(line.split()[-1]) for line in page.splitlines() if line.startswith("nv_inference_pending_request_count") and '"queue"' in line)

    page = other.get_model_config("queue")["dynamic_batching"]
    assert page["max_queue_delay_microseconds"] == 60000000 and page["preferred_batch_size"] == [4, 8], page
    assert client.get_model_config("queue").config.dynamic_batching.default_queue_policy.max_queue_size == 1
    assert np.array_equal(other.infer("queue", [tensor(th, "INPUT0", many), tensor(th, "INPUT1", many)]).as_numpy("OUTPUT0"), 2 * many)
    waits = client.async_infer("queue", [tensor(tg, "INPUT0", row), tensor(tg, "INPUT1", row)], lambda result, error: answers.put(error))
    wait_for(lambda: pending() == 1)
    for of, one in ((tg, client), (th, other)):
        fails(lambda: one.infer("queue", [tensor(of, "INPUT0", row), tensor(of, "INPUT1", row)]), "503" if of is th else "UNAVAILABLE", "Exceeds maximum queue")
    waits.cancel()
    assert answers.get(timeout=60) is not None
    wait_for(lambda: pending() == 0)
    assert np.array_equal(other.infer("queue", [tensor(th, "INPUT0", many), tensor(th, "INPUT1", many)]).as_numpy("OUTPUT0"), 2 * many)


async def aio_of(of, address, how):
    from tritonclient.utils import InferenceServerException
    client = of.InferenceServerClient(address)
    page = {"as_json": True} if not how else {}
    assert await client.is_server_live() and await client.is_server_ready() and await client.is_model_ready("add_INT32")
    about = await client.get_server_metadata(**page)
    assert about["name"] == "triton" and "classification" in about["extensions"], about
    assert (await client.get_model_metadata("add_INT32", **page))["name"] == "add_INT32"
    await client.get_model_config("add_INT32", **page)
    await client.get_inference_statistics("add_INT32", **page)
    await client.get_model_repository_index(**page)
    assert await client.get_trace_settings(**page) == await client.update_trace_settings(**page), page
    for register, given in ((client.register_cuda_shared_memory, ("r" if how else "", b"", 0, 0)), (client.register_system_shared_memory, ("none", "/none", 0))):
        try:
            await register(*given)
            raise AssertionError(given)
        except InferenceServerException as error:
            assert any(one in str(error) for one in ("invalid args", "Unable to open shared memory region: '/none'")), error
    assert "OFF" in str(await client.get_trace_settings(**page)) and "log_info" in str(await client.get_log_settings(**page))
    await client.unload_model("add_INT8")
    assert not await client.is_model_ready("add_INT8")
    await client.load_model("add_INT8")
    a, b = np.arange(16, dtype="i4")[None], np.ones((1, 16), "i4")
    result = await client.infer("add_INT32", [tensor(of, "INPUT0", a), tensor(of, "INPUT1", b)],
                                outputs=[of.InferRequestedOutput("OUTPUT0", class_count=2), of.InferRequestedOutput("OUTPUT1")])
    assert [one.decode() for one in result.as_numpy("OUTPUT0")[0]] == ["16:15", "15:14"], result.as_numpy("OUTPUT0")
    assert np.array_equal(result.as_numpy("OUTPUT1"), a - b)
    await client.close()


def aio_test():
    import tritonclient.grpc.aio as tga
    import tritonclient.http.aio as tha
    asyncio.run(aio_of(tga, grpc, False))
    asyncio.run(aio_of(tha, web, True))


if __name__ == "__main__":
    globals()[part]()
