"""triton.py - the real tritonclient, gRPC and HTTP, against the gateway: every call, async, streams, compression.

usage: triton.py GRPC HTTP MODEL
"""
import queue
import sys

import numpy as np
import tritonclient.grpc as tg
import tritonclient.http as th

grpc, web, MODEL = sys.argv[1:4]
OUTPUTS = ["em_trk_none_netout/Softmax", "michel_netout/Sigmoid"]
by_grpc, by_http = tg.InferenceServerClient(grpc), th.InferenceServerClient(web, concurrency=8)
name = by_http.get_model_metadata(MODEL)["inputs"][0]["name"]
side = by_http.get_model_metadata(MODEL)["inputs"][0]["shape"][1]
rng = np.random.default_rng(3)
values = (rng.random((400, side, side, 1)) * (rng.random((400, side, side, 1)) < 0.1) * 9).astype("f4")


def given(kind, rows, **options):
    tensor = kind.InferInput(name, rows.shape, "FP32")
    tensor.set_data_from_numpy(rows, **options)
    return [tensor]


def same(result, at, n):
    return all(np.array_equal(result.as_numpy(output), want[output][at:at + n]) for output in OUTPUTS)


def refused(error, *words):
    assert error is not None and all(word in str(error) for word in words), error


def fails(call, *words):
    try:
        call()
    except (tg.InferenceServerException, th.InferenceServerException) as error:
        return refused(error, *words)
    raise AssertionError("it should have failed")


whole = by_grpc.infer(MODEL, given(tg, values))
want = {output: whole.as_numpy(output) for output in OUTPUTS}
assert all(want[output].shape[0] == 400 and np.isfinite(want[output]).all() for output in OUTPUTS)

for client in (by_grpc, by_http):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(MODEL)
    assert not client.is_model_ready("none")
    fails(lambda: client.get_model_config("none"), "unknown model")
    fails(lambda: client.get_system_shared_memory_status(), "send the tensors in the request")
    fails(lambda: client.load_model("none"), "failed to load 'none'")
assert by_grpc.get_server_metadata(as_json=True)["extensions"] == by_http.get_server_metadata()["extensions"]
for one, other in ((by_grpc.get_model_metadata(MODEL, as_json=True), by_http.get_model_metadata(MODEL)),
                   (by_grpc.get_model_config(MODEL, as_json=True)["config"], by_http.get_model_config(MODEL))):
    assert one["name"] == other["name"] and one.get("max_batch_size") == other.get("max_batch_size")
    key = "inputs" if "inputs" in other else "input"
    dims = "shape" if key == "inputs" else "dims"
    assert [int(n) for n in one[key][0][dims]] == other[key][0][dims]
assert by_grpc.get_model_repository_index(as_json=True)["models"][0]["state"] == "READY"
assert by_http.get_model_repository_index()[0]["state"] == "READY"

for packed in (None, "gzip", "deflate"):
    assert same(by_grpc.infer(MODEL, given(tg, values[:70]), compression_algorithm=packed, request_id="a"), 0, 70)
    result = by_http.infer(MODEL, given(th, values[:70]), request_id="a", request_compression_algorithm=packed,
                           response_compression_algorithm=packed)
    assert same(result, 0, 70) and result.get_response()["id"] == "a"
result = by_http.infer(MODEL, given(th, values[:3], binary_data=False),
                       outputs=[th.InferRequestedOutput(output, binary_data=False) for output in OUTPUTS])
assert same(result, 0, 3)
result = by_grpc.infer(MODEL, given(tg, values[:3]), outputs=[tg.InferRequestedOutput(OUTPUTS[1])], priority=1)
assert [output.name for output in result.get_response().outputs] == OUTPUTS[1:]

answers = queue.Queue()
for i in range(200):
    by_grpc.async_infer(MODEL, given(tg, values[i:i + 1 + i % 9]),
                        lambda result, error, i=i: answers.put((i, result, error)))
for _ in range(200):
    i, result, error = answers.get(timeout=60)
    assert error is None and same(result, i, 1 + i % 9), error
waiting = [by_http.async_infer(MODEL, given(th, values[i:i + 5])) for i in range(40)]
assert all(same(one.get_result(), i, 5) for i, one in enumerate(waiting))

by_grpc.start_stream(lambda result, error: answers.put((result, error)))
for i in range(60):
    by_grpc.async_stream_infer("none" if i == 30 else MODEL, given(tg, values[i:i + 1 + i % 40]), request_id=str(i))
for i in range(60):
    result, error = answers.get(timeout=60)
    if i == 30:
        refused(error, "unknown model")
    else:
        assert error is None and result.get_response().id == str(i) and same(result, i, 1 + i % 40), (i, error)
by_grpc.stop_stream()

fails(lambda: by_grpc.infer("none", given(tg, values[:1])), "NOT_FOUND", "unknown model: 'none'")
fails(lambda: by_http.infer("none", given(th, values[:1])), "404", "unknown model: 'none'")
statistics = by_grpc.get_inference_statistics(MODEL, as_json=True)["model_stats"][0]
assert int(statistics["inference_count"]) > 400 and int(statistics["inference_stats"]["success"]["count"]) > 300
