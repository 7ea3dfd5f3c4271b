"""triton.py - the real tritonclient, of several versions, gRPC and HTTP, against the gateway.

usage: triton.py PART GRPC HTTP ...      parts are functions below; it serves the models of tritonmodels.py
"""
import asyncio
import os
import queue
import signal
import sys
import threading
import time

import numpy as np
import tritonclient.grpc as tg
import tritonclient.grpc.aio as tga
import tritonclient.http as th
import tritonclient.http.aio as tha

part, grpc, web = sys.argv[1:4]
MODEL, OUTPUTS = "m", ["em_trk_none_netout/Softmax", "michel_netout/Sigmoid"]
PORT = None  # the model's input: name, side


def patches(client):
    """400 patches, and the model's scores of them."""
    global PORT
    port = client.get_model_metadata(MODEL, as_json=True)["inputs"][0]
    PORT, side = port["name"], int(port["shape"][1])
    rng = np.random.default_rng(3)
    values = (rng.random((400, side, side, 1)) * (rng.random((400, side, side, 1)) < 0.1) * 9).astype("f4")
    whole = client.infer(MODEL, given(tg, values))
    want = {output: whole.as_numpy(output) for output in OUTPUTS}
    assert all(want[output].shape[0] == 400 and np.isfinite(want[output]).all() for output in OUTPUTS)
    return values, want


def given(kind, rows, **options):
    tensor = kind.InferInput(PORT, rows.shape, "FP32")
    tensor.set_data_from_numpy(rows, **options)
    return [tensor]


def same(result, want, at, n):
    return all(np.array_equal(result.as_numpy(output), want[output][at:at + n]) for output in OUTPUTS)


def refused(error, *words):
    assert error is not None and all(word in str(error) for word in words), error


def fails(call, *words):
    try:
        call()
    except (tg.InferenceServerException, th.InferenceServerException) as error:
        return refused(error, *words)
    raise AssertionError("it should have failed")


def calls():
    by_grpc, by_http = tg.InferenceServerClient(grpc), th.InferenceServerClient(web, concurrency=8)
    values, want = patches(by_grpc)
    for client in (by_grpc, by_http):
        assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(MODEL)
        assert not client.is_model_ready("none")
        fails(lambda: client.get_model_config("none"), "unknown model")
        fails(lambda: client.get_system_shared_memory_status(), "send the tensors in the request")
        fails(lambda: client.load_model("none"), "failed to load 'none'")
        fails(lambda: client.load_model(MODEL, config='{"max_batch_size": 3}', files={"file:1/model.onnx": b"x"}), f"failed to load '{MODEL}'")
        assert client.is_model_ready(MODEL)
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
        assert same(by_grpc.infer(MODEL, given(tg, values[:70]), compression_algorithm=packed, request_id="a"), want, 0, 70)
        result = by_http.infer(MODEL, given(th, values[:70]), request_id="a", request_compression_algorithm=packed,
                               response_compression_algorithm=packed)
        assert same(result, want, 0, 70) and result.get_response()["id"] == "a"
    result = by_http.infer(MODEL, given(th, values[:3], binary_data=False),
                           outputs=[th.InferRequestedOutput(output, binary_data=False) for output in OUTPUTS])
    assert same(result, want, 0, 3)
    result = by_grpc.infer(MODEL, given(tg, values[:3]), outputs=[tg.InferRequestedOutput(OUTPUTS[1])], priority=1)
    assert [output.name for output in result.get_response().outputs] == OUTPUTS[1:]

    answers = queue.Queue()
    for i in range(200):
        by_grpc.async_infer(MODEL, given(tg, values[i:i + 1 + i % 9]),
                            lambda result, error, i=i: answers.put((i, result, error)))
    for _ in range(200):
        i, result, error = answers.get(timeout=60)
        assert error is None and same(result, want, i, 1 + i % 9), error
    waiting = [by_http.async_infer(MODEL, given(th, values[i:i + 5])) for i in range(40)]
    assert all(same(one.get_result(), want, i, 5) for i, one in enumerate(waiting))

    by_grpc.start_stream(lambda result, error: answers.put((result, error)))
    for i in range(60):
        by_grpc.async_stream_infer("none" if i == 30 else MODEL, given(tg, values[i:i + 1 + i % 40]), request_id=str(i))
    for i in range(60):
        result, error = answers.get(timeout=60)
        if i == 30:
            refused(error, "unknown model")
        else:
            assert error is None and result.get_response().id == str(i) and same(result, want, i, 1 + i % 40), (i, error)
    by_grpc.stop_stream()

    fails(lambda: by_grpc.infer("none", given(tg, values[:1])), "NOT_FOUND", "unknown model: 'none'")
    fails(lambda: by_http.infer("none", given(th, values[:1])), "unknown model: 'none'")
    statistics = by_grpc.get_inference_statistics(MODEL, as_json=True)["model_stats"][0]
    assert int(statistics["inference_count"]) > 400 and int(statistics["inference_stats"]["success"]["count"]) > 300


def aio():
    """The clients of asyncio, by gRPC and by HTTP: many requests at once on one client; an error."""
    values, want = patches(tg.InferenceServerClient(grpc))

    async def ask(kind, aio, address):
        async with aio.InferenceServerClient(address) as client:
            assert await client.is_model_ready(MODEL)
            pages = [client.get_server_metadata(), client.get_model_metadata(MODEL), client.get_model_config(MODEL),
                     client.get_inference_statistics(), client.get_model_repository_index()]
            assert all(await asyncio.gather(*pages))  # the client of HTTP asks for gzip, and inflates scores only
            found = await asyncio.gather(*(client.infer(MODEL, given(kind, values[i:i + 5])) for i in range(100)))
            assert all(same(result, want, i, 5) for i, result in enumerate(found))
            try:
                await client.infer("none", given(kind, values[:1]))
                raise AssertionError("it should have failed")
            except kind.InferenceServerException as error:
                refused(error, "unknown model: 'none'")

    async def both():
        await ask(tg, tga, grpc)
        await ask(th, tha, web)

    asyncio.run(both())


def shared():
    """Shared memory by tritonclient's utils: inputs and outputs in regions that are used again, by HTTP, gRPC and a stream."""
    import tritonclient.utils.shared_memory as shm

    def region(name, size):
        try:
            return shm.create_shared_memory_region(name, f"/wm-{name}-{os.getpid()}", size)
        except shm.SharedMemoryException:  # of versions that want no "/"
            return shm.create_shared_memory_region(name, f"wm-{name}-{os.getpid()}", size)
    values, want = patches(tg.InferenceServerClient(grpc))
    for client, kind in ((tg.InferenceServerClient(grpc), tg), (th.InferenceServerClient(web), th)):
        client.unregister_system_shared_memory()
        size, rows = 200 * values[0].nbytes, 100
        given, got = region("in", size), region("out", 4096)
        client.register_system_shared_memory("in", f"/wm-in-{os.getpid()}", size)
        client.register_system_shared_memory("out", f"/wm-out-{os.getpid()}", 4096)
        fails(lambda: client.register_system_shared_memory("in", f"/wm-in-{os.getpid()}", size), "already in manager")
        status = client.get_system_shared_memory_status()
        assert "byte_size" in str(status) and len(status if kind is th else status.regions) == 2, status
        tensor, outputs = kind.InferInput(PORT, [rows, *values.shape[1:]], "FP32"), [kind.InferRequestedOutput(name) for name in OUTPUTS]
        tensor.set_shared_memory("in", rows * values[0].nbytes, offset=values[0].nbytes)
        outputs[1].set_shared_memory("out", 4 * rows, offset=64)
        for at in (0, 100, 250):
            shm.set_shared_memory_region(given, [values[at:at + rows]], offset=values[0].nbytes)
            result = client.infer(MODEL, [tensor], outputs=outputs)
            assert np.array_equal(result.as_numpy(OUTPUTS[0]), want[OUTPUTS[0]][at:at + rows])
            assert np.array_equal(shm.get_contents_as_numpy(got, np.float32, [rows, 1], offset=64), want[OUTPUTS[1]][at:at + rows])
            assert list(result.get_output(OUTPUTS[1])["shape"] if kind is th else result.get_output(OUTPUTS[1]).shape) == [rows, 1]
        client.unregister_system_shared_memory("in")
        fails(lambda: client.infer(MODEL, [tensor], outputs=outputs), "Unable to find shared memory region: 'in'")
        client.unregister_system_shared_memory()
        assert len(client.get_system_shared_memory_status() if kind is th else client.get_system_shared_memory_status().regions) == 0
        fails(lambda: client.register_cuda_shared_memory("r", b"aGFuZGxl", 0, 64), "CUDA shared memory is not supported")
        assert not client.get_cuda_shared_memory_status(**({} if kind is th else {"as_json": True}))
        shm.destroy_shared_memory_region(given)
        shm.destroy_shared_memory_region(got)


def health():
    """gRPC's own service of health, by its own client."""
    import grpc as rpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    stub = health_pb2_grpc.HealthStub(rpc.insecure_channel(grpc))
    asked = {name: health_pb2.HealthCheckRequest(service=name) for name in ("", "inference.GRPCInferenceService", MODEL, "none")}
    for name in ("", "inference.GRPCInferenceService", MODEL):
        assert stub.Check(asked[name], timeout=60).status == health_pb2.HealthCheckResponse.SERVING
        assert next(stub.Watch(asked[name], timeout=60)).status == health_pb2.HealthCheckResponse.SERVING
    assert next(stub.Watch(asked["none"], timeout=60)).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    try:
        stub.Check(asked["none"], timeout=60)
        raise AssertionError("it should have failed")
    except rpc.RpcError as error:
        assert error.code() == rpc.StatusCode.NOT_FOUND, error


def ghz():
    """The calls of ghz: messages from JSON by a set of descriptors, without generated code; 50 workers, a deadline each."""
    import base64
    import json
    from concurrent import futures
    import grpc as rpc
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
    pool, protoset = descriptor_pool.DescriptorPool(), descriptor_pb2.FileDescriptorSet()
    with open(sys.argv[4], "rb") as given:   # as the manual makes it, for ghz --protoset
        protoset.ParseFromString(given.read())
    for file in protoset.file:
        pool.Add(file)
    service = pool.FindServiceByName("inference.GRPCInferenceService")
    values, want = patches(tg.InferenceServerClient(grpc))
    channels = [rpc.insecure_channel(grpc, [("grpc.use_local_subchannel_pool", 1)]) for _ in range(5)]

    def call(i, name, data):
        method = service.methods_by_name[name]
        request, response = (message_factory.GetMessageClass(one) for one in (method.input_type, method.output_type))
        stub = channels[i % 5].unary_unary(f"/{service.full_name}/{name}", request.SerializeToString, response.FromString)
        return stub(json_format.Parse(json.dumps(data), request()), timeout=20)

    def infer(i):
        rows = values[i % 390:i % 390 + 1 + i % 3]
        tensor = {"name": PORT, "datatype": "FP32", "shape": rows.shape}
        data = {"model_name": MODEL, "inputs": [tensor], "id": str(i)}
        if i % 2:
            tensor["contents"] = {"fp32_contents": rows.ravel().tolist()}
        else:
            data["raw_input_contents"] = [base64.b64encode(rows.tobytes()).decode()]
        answer = call(i, "ModelInfer", data)
        for output, raw in zip(answer.outputs, answer.raw_output_contents):
            assert raw == want[output.name][i % 390:i % 390 + len(rows)].tobytes(), (i, output.name)
        return answer.id == str(i) and len(answer.outputs) == len(OUTPUTS)

    assert call(0, "ServerReady", {}).ready and call(0, "ModelMetadata", {"name": MODEL}).name == MODEL
    assert "k" not in call(0, "ModelConfig", {"name": MODEL}).config.parameters
    with futures.ThreadPoolExecutor(50) as workers:
        assert all(workers.map(infer, range(int(sys.argv[5]))))
    try:   # what ghz asks without --proto and --protoset
        list(channels[0].stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")(iter([b"\x3a\x00"]), timeout=20))
        raise AssertionError("it should have failed")
    except rpc.RpcError as error:
        assert error.code() == rpc.StatusCode.UNIMPLEMENTED, error


def large():
    """500 requests of 150 kB and more on one connection, at a gateway with little memory: most of them wait for it."""
    client, answers = tg.InferenceServerClient(grpc), queue.Queue()
    values, want = patches(client)
    for _ in range(500):
        client.async_infer(MODEL, given(tg, values[:150]), lambda result, error: answers.put((result, error)))
    for _ in range(500):
        result, error = answers.get(timeout=300)
        assert error is None and same(result, want, 0, 150), error


def models():
    """Networks of others against ONNX Runtime; a frozen graph against the same network in ONNX; ten inputs in any order."""
    for client, kind in ((tg.InferenceServerClient(grpc), tg), (th.InferenceServerClient(web), th)):
        for name in ("squeezenet", "resnet50", "ten"):
            known = np.load(f"{sys.argv[4]}/{name}.npz")
            inputs = []
            for key in sorted(known)[::-1]:  # not in the model's order
                if key.startswith("in:"):
                    tensor = kind.InferInput(key[3:], known[key].shape, "INT32" if known[key].dtype == np.int32 else "FP32")
                    tensor.set_data_from_numpy(known[key])
                    inputs.append(tensor)
            result = client.infer(name, inputs)
            for key in known:
                if key.startswith("out:"):
                    got = result.as_numpy(key[4:])
                    assert got.shape == known[key].shape and np.abs(got - known[key]).max() < 1e-4, (name, key)
            other = kind.InferInput("other", [1], "FP32")
            other.set_data_from_numpy(np.zeros(1, "f4"))
            fails(lambda: client.infer(name, [other, *inputs[1:]]), f"unexpected inference input 'other' for model '{name}'")
        values, want = patches(tg.InferenceServerClient(grpc))
        assert same(client.infer("emtrkmichel", given(kind, values)), want, 0, 400)  # more than its max_batch_size
        assert same(client.infer("emtrkmichel", given(kind, values[:0])), want, 0, 0)
        fails(lambda: client.infer("emtrkmichel", given(kind, values[:, 1:])), "unexpected shape for input 'main_input'")
        assert same(client.infer("flat", given(kind, values.reshape(400, -1))), want, 0, 400)
    config = tg.InferenceServerClient(grpc).get_model_config("flat").config
    assert config.input[0].dims[:] == [values[0].size] and config.parameters["k"].string_value == "v", config
    config = tg.InferenceServerClient(grpc).get_model_config("emtrkmichel").config
    assert config.input[0].format == 1  # NHWC
    assert (config.platform, config.max_batch_size, config.default_model_filename) == ("tensorflow_graphdef", 256, "model.graphdef")


def larger():
    """What the server does not take is refused in words while the client still sends."""
    client = tg.InferenceServerClient(grpc)
    values, want = patches(client)
    large = np.concatenate([values] * (1 + int(9e6 / values.nbytes)))
    fails(lambda: client.infer(MODEL, given(tg, large)), "RESOURCE_EXHAUSTED", "--max-message")
    fails(lambda: th.InferenceServerClient(web).infer(MODEL, given(th, large)), "--max-message")
    assert same(client.infer(MODEL, given(tg, values[:9])), want, 0, 9)


def stream():
    """1,000 requests in order, with the flag of decoupled models and without."""
    client = tg.InferenceServerClient(grpc)
    values, want = patches(client)
    for flags in ({}, {"enable_empty_final_response": True}):
        answers = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)))
        for i in range(1000):
            client.async_stream_infer(MODEL, given(tg, values[i % 390:i % 390 + 2]), request_id=str(i), **flags)
        for i in range(1000):
            result, error = answers.get(timeout=60)
            assert error is None and result.get_response().id == str(i) and same(result, want, i % 390, 2), (i, error)
            assert result.get_response().parameters["triton_final_response"].bool_param
        client.stop_stream()
        assert answers.empty()


def cancel():
    client = tg.InferenceServerClient(grpc)
    values, want = patches(client)
    answers = queue.Queue()
    for i in range(60):
        call = client.async_infer(MODEL, given(tg, values), lambda result, error, i=i: answers.put((i, result, error)))
        if i % 2:
            call.cancel()
    for _ in range(60):
        i, result, error = answers.get(timeout=60)
        assert same(result, want, 0, 400) if error is None else i % 2, error
    client.start_stream(lambda result, error: None)
    for _ in range(50):
        client.async_stream_infer(MODEL, given(tg, values))
    client.stop_stream(cancel_requests=True)
    fails(lambda: client.infer(MODEL, given(tg, values), client_timeout=1e-4), "Deadline Exceeded")
    assert same(client.infer(MODEL, given(tg, values)), want, 0, 400)


def many():
    """500 clients at once."""
    values, want = patches(tg.InferenceServerClient(grpc))
    done, failed, all_there = [], [], threading.Barrier(500)

    def client(i):
        try:
            kind = (tg, th)[i % 2]
            options = {"channel_args": [("grpc.use_local_subchannel_pool", 1)]} if kind is tg else {}
            one = kind.InferenceServerClient((grpc, web)[i % 2], **options)
            for round in range(3):
                assert same(one.infer(MODEL, given(kind, values[i % 390:i % 390 + 2])), want, i % 390, 2)
                all_there.wait(120)
            one.close()
            done.append(i)
        except BaseException as error:  # told by the main thread
            failed.append(repr(error))
            all_there.abort()

    threads = [threading.Thread(target=client, args=(i,)) for i in range(500)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and len(done) == 500, (failed[:3], len(done))


CREW = ("wiremill", "wiremill-broker", "wiremill-worker", "wiremill-engine", "wiremill-producer")


def crew_of(gateway, model):
    """Process ids by name, of the processes that work for a model of the gateway. One that comes or goes may be left out."""
    found, parents = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as line, open(f"/proc/{pid}/stat") as stat:
                args, rest = line.read().decode().split("\0"), stat.read().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if rest[0] != "Z":
            parents[pid] = rest[1], args
    run = [pid for pid, (parent, args) in parents.items() if parent == gateway and args[1] == "run" and f"/{model}/1/model.onnx" in " ".join(args)]
    folder = parents[run[0]][1][parents[run[0]][1].index("--campaign") + 1] if run else None
    for pid, (parent, args) in parents.items():
        if pid in run or parent in run or f"ipc://{folder}/broker" in args:
            found[args[0]] = pid
    found.update((args[0], pid) for pid, (parent, args) in parents.items() if args[0] == "wiremill-engine" and parent == found.get("wiremill-worker"))
    return found


def kills():
    """kill -9 of each process of the model, by its name, under calls by gRPC and HTTP: none is lost, and each is answered once."""
    gateway, n_call, n_round = sys.argv[4], int(sys.argv[5]), int(sys.argv[6])
    client = tg.InferenceServerClient(grpc)
    values, want = patches(client)

    def until_there(name, other=None):
        end = time.monotonic() + 120
        while (pid := crew_of(gateway, MODEL).get(name)) in (None, other):
            assert time.monotonic() < end, f"no {name} in place of {other}: {crew_of(gateway, MODEL)}"
            time.sleep(0.05)
        return pid

    def by_http(first, failed):
        try:
            one = th.InferenceServerClient(web)
            for i in range(first, n_call, 20):
                assert same(one.infer(MODEL, given(th, values[i % 390:i % 390 + 2])), want, i % 390, 2), i
            one.close()
        except BaseException as error:  # told by the main thread
            failed.append(repr(error))

    for name in CREW * n_round:
        answers, seen, failed = queue.Queue(), [], []
        victim = until_there(name)
        threads = [threading.Thread(target=by_http, args=(i, failed)) for i in range(0, 20, 5)]
        for thread in threads:
            thread.start()
        for i in range(n_call):
            client.async_infer(MODEL, given(tg, values[i % 390:i % 390 + 1 + i % 9]), request_id=str(i),
                               callback=lambda result, error, i=i: answers.put((i, result, error)))
            if i == n_call // 2:
                os.kill(int(victim), signal.SIGKILL)
        for _ in range(n_call):
            i, result, error = answers.get(timeout=120)
            assert error is None and result.get_response().id == str(i) and same(result, want, i % 390, 1 + i % 9), (name, i, error)
            seen.append(i)
        for thread in threads:
            thread.join()
        assert not failed, (name, failed)
        assert sorted(seen) == list(range(n_call)) and answers.empty(), name
        until_there(name, victim)
    print(f"# {len(CREW)} processes killed {n_round} times, {n_call * len(CREW) * n_round} requests by gRPC answered once each")


def again():
    """Asks until it is ended by a signal; each request is answered, or fails because nobody is there. Prints how many."""
    client = tg.InferenceServerClient(grpc)
    values, want = patches(client)
    ended, n_answered, n_absent = [], 0, 0
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    print("begun", flush=True)
    while not ended or not n_answered:
        try:
            assert same(client.infer(MODEL, given(tg, values[:9])), want, 0, 9)
            n_answered += 1
        except tg.InferenceServerException as error:
            refused(error, "UNAVAILABLE")
            n_absent += 1
            n_answered = 0
            time.sleep(0.02)
    assert n_absent


def tls():
    """`web` is the authority's certificate, "" or the clients' certificate and key."""
    options = dict(zip(("certificate_chain", "private_key"), sys.argv[4:6]))
    client = tg.InferenceServerClient(grpc, ssl=True, root_certificates=web, **options)
    values, want = patches(client)
    assert same(client.infer(MODEL, given(tg, values[:9])), want, 0, 9)
    if options:
        fails(tg.InferenceServerClient(grpc, ssl=True, root_certificates=web).is_server_live, "UNAVAILABLE")


globals()[part]()
