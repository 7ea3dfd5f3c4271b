"""gatewire.py - clients of the gateway's wires: gRPC by curl, HTTP, and raw frames of HTTP/2 as hostile peers send them.

usage: gatewire.py PART FOLDER GRPC HTTP ...      parts are functions below
"""
import collections
import gzip
import http.client
import json
import os
import random
import select
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import zlib

import numpy as np

from protobuf import field

SERVICE = "/inference.GRPCInferenceService/"
MODEL, INPUT, OUTPUT = "m", "main_input", "michel_netout/Sigmoid"
part, work, grpc, web = sys.argv[1:5]


# ---- protobuf ------------------------------------------------------------------------------------

def fields(data):
    """(tag, value) of each field of a message."""
    def number():
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift += 7
            at += 1
            if data[at - 1] < 128:
                return value
    at, found = 0, []
    while at < len(data):
        head = number()
        value = number()
        if head & 7 == 2:
            value, at = data[at:at + value], at + value
        found.append((head >> 3, value))
    return found


def request(patches, model=MODEL, ident="", *more):
    tensor = field(1, INPUT) + field(2, "FP32") + b"".join(field(3, n) for n in patches.shape)
    return (field(1, model) + field(3, ident) + b"".join(more) + field(5, tensor) + field(6, field(1, OUTPUT)) +
            field(7, patches.tobytes()))


def scores_of(message):
    raw = [value for tag, value in fields(message) if tag == 6]
    assert len(raw) == 1
    return np.frombuffer(raw[0], "<f4")


def framed(message, flag=0):
    return bytes([flag]) + struct.pack(">I", len(message)) + message


def messages(body):
    found = []
    while body:
        n = struct.unpack(">I", body[1:5])[0]
        assert body[0] == 0 and len(body) >= 5 + n, body[:20]
        found.append(body[5:5 + n])
        body = body[5 + n:]
    return found


# ---- clients -------------------------------------------------------------------------------------

def call(method, body, *headers, status=0, text="", options=("--http2-prior-knowledge",), scheme="http", service=SERVICE):
    """The messages that answer a call; its status and a part of its text are as given."""
    at = f"{work}/curl-{threading.get_ident()}"
    with open(at, "wb") as out:
        out.write(body)
    sent = [word for one in ("content-type: application/grpc", "te: trailers", *headers) for word in ("-H", one)]
    done = subprocess.run(["curl", "-sS", "-m", "300", *options, *sent, "-D", at + ".heads", "-o", at + ".body", "--data-binary",
                           "@" + at, f"{scheme}://{grpc}{service}{method}"], capture_output=True, text=True)
    assert done.returncode == 0, done
    heads = dict(line.strip().split(": ", 1) for line in open(at + ".heads") if ": " in line)
    assert heads.get("grpc-status") == str(status), (method, heads)
    assert text in heads.get("grpc-message", "") and bool(status) == ("grpc-message" in heads), heads
    body = open(at + ".body", "rb").read() if os.path.exists(at + ".body") else b""
    for end in (".heads", ".body"):
        os.path.exists(at + end) and os.remove(at + end)
    return messages(body)


def ask(path, body=None, headers={}, code=200, method=None, packed=...):
    connection = http.client.HTTPConnection(web, timeout=300)
    connection.request(method or ("POST" if body is not None else "GET"), path, body, headers)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    assert answer.status == code, (path, answer.status, data[:300])
    assert packed is ... or answer.headers["Content-Encoding"] == packed, (path, answer.headers)
    if answer.headers["Content-Encoding"]:
        data = zlib.decompress(data, 47)
    return data


def patches(n, seed=1):
    side = json.loads(ask(f"/v2/models/{MODEL}"))["inputs"][0]["shape"][1]
    rng = np.random.default_rng(seed)
    return (rng.random((n, side, side, 1)) * (rng.random((n, side, side, 1)) < 0.1) * 9).astype("<f4")


def http_scores(values, headers={}, pack=lambda data: data):
    head = json.dumps({"inputs": [{"name": INPUT, "shape": values.shape, "datatype": "FP32",
                                   "parameters": {"binary_data_size": values.nbytes}}],
                       "outputs": [{"name": OUTPUT}]}).encode()
    answer = json.loads(ask(f"/v2/models/{MODEL}/infer", pack(head + values.tobytes()),
                            {"Inference-Header-Content-Length": str(len(head)), **headers}))
    return np.array(answer["outputs"][0]["data"], "<f4")


def starts(raw):
    """Where the texts of a BYTES tensor begin."""
    at = 0
    while at < len(raw):
        yield at
        at += 4 + struct.unpack_from("<I", raw, at)[0]


# ---- parts ---------------------------------------------------------------------------------------

def calls():
    values = patches(40)
    want = http_scores(values)
    assert want.shape == (40,) and np.isfinite(want).all()
    plain = request(values, ident="7")
    answer = call("ModelInfer", framed(plain))[0]
    assert np.array_equal(scores_of(answer), want) and dict(fields(answer))[3] == b"7"
    each, k = field(1, "em_trk_none_netout/Softmax"), field(2, 2)  # the classification extension
    wanted = field(6, each + field(2, field(1, "classification") + field(2, k)))
    tensor = field(1, INPUT) + field(2, "FP32") + b"".join(field(3, n) for n in values.shape)
    answer = fields(call("ModelInfer", framed(field(1, MODEL) + field(5, tensor) + wanted + field(7, values.tobytes())))[0])
    output, raw = dict(fields(dict(answer)[5])), dict(answer)[6]
    assert output[2] == b"BYTES" and output[3] == bytes([40, 2]), output
    texts = [raw[at + 4:at + 4 + struct.unpack_from("<I", raw, at)[0]] for at in starts(raw)]
    order = [[float(one.split(b":")[0]) for one in texts[i:i + 2]] for i in range(0, 80, 2)]
    assert len(texts) == 80 and all(a >= b > 0 for a, b in order) and {one.split(b":")[1] for one in texts} <= {b"0", b"1", b"2"}, texts
    for kind, packed in (("gzip", gzip.compress(plain)), ("deflate", zlib.compress(plain))):
        assert np.array_equal(scores_of(call("ModelInfer", framed(packed, 1), f"grpc-encoding: {kind}")[0]), want)
    assert fields(call("ServerLive", framed(b""))[0]) == [(1, 1)] == fields(call("ModelReady", framed(field(1, MODEL)))[0])
    assert fields(call("ModelReady", framed(field(1, "none")))[0]) == [(1, 0)]
    assert dict(fields(call("ModelMetadata", framed(field(1, MODEL)))[0]))[1] == MODEL.encode()
    config = dict(fields(dict(fields(call("ModelConfig", framed(field(1, MODEL)))[0]))[1]))
    assert config[1] == MODEL.encode() and config[4] > 0
    assert fields(dict(fields(call("ModelStatistics", framed(field(1, MODEL)))[0]))[1])[0] == (1, MODEL.encode())
    assert len(call("RepositoryIndex", framed(b""))) == len(call("ServerMetadata", framed(b""))) == 1
    # a stream answers in order, errors too
    stream = b"".join(framed(request(values[i:i + 1 + 9 * (i % 3 == 0)], "none" if i == 5 else MODEL, str(i))) for i in range(12))
    for i, answer in enumerate(call("ModelStreamInfer", stream)):
        got = dict(fields(answer))
        assert dict(fields(got[2]))[3] == str(i).encode()
        if i == 5:
            assert b"triton_final_response" not in got[2] and b"unknown model" in got[1]
        else:
            assert np.array_equal(scores_of(got[2]), want[i:i + 1 + 9 * (i % 3 == 0)])
            assert dict(fields(dict(fields(got[2]))[4])) == {1: b"triton_final_response", 2: field(1, 1)}
    assert i == 11 and call("ModelStreamInfer", b"") == []


SERVING, SERVICE_UNKNOWN = [(1, 1)], [(1, 3)]
HEALTH = "/grpc.health.v1.Health/"


class Watch:
    """Health/Watch of one service, by curl; `sees` waits until the last status that came is this one."""

    def __init__(self, service, *headers):
        self.at = f"{work}/watch-{service or 'all'}"
        with open(self.at, "wb") as out:
            out.write(framed(field(1, service)))
        open(self.at + ".body", "wb").close()
        sent = [word for one in ("content-type: application/grpc", "te: trailers", *headers) for word in ("-H", one)]
        self.curl = subprocess.Popen(["curl", "-sSN", "--http2-prior-knowledge", *sent, "-o", self.at + ".body", "-D", self.at + ".heads",
                                      "--data-binary", "@" + self.at, f"http://{grpc}{HEALTH}Watch"])

    def sees(self, status):
        until = time.monotonic() + 120
        while [fields(one) for one in messages(open(self.at + ".body", "rb").read())][-1:] != [status]:
            assert time.monotonic() < until, status
            time.sleep(0.05)

    def ends(self, status):
        self.curl.wait(60)
        assert f"grpc-status: {status}" in open(self.at + ".heads").read()


def health():
    """grpc.health.v1.Health: Check, List, and Watch, which sees a model go and come back."""
    def check(service, **how):
        got = call("Check", framed(field(1, service)), service=HEALTH, **how)
        return fields(got[0]) if got else None
    assert check("") == check("inference.GRPCInferenceService") == check(MODEL) == SERVING
    assert fields(call("Check", framed(b""), service=HEALTH)[0]) == SERVING  # no service is ""
    check("none", status=5, text="unknown service: 'none'")
    call("Check", framed(b"\x0a\x05a"), service=HEALTH, status=3, text="no message")
    call("Nothing", b"", service=HEALTH, status=12, text="there is no method")
    def listed():
        entries = [dict(fields(entry)) for _, entry in fields(call("List", framed(b""), service=HEALTH)[0])]
        return {entry.get(1, b"").decode(): fields(entry[2]) for entry in entries}
    assert listed() == {"": SERVING, "inference.GRPCInferenceService": SERVING, MODEL: SERVING}
    everything, model, none = Watch(""), Watch(MODEL), Watch("none")
    for one in (everything, model):
        one.sees(SERVING)
    none.sees(SERVICE_UNKNOWN)
    call("RepositoryModelUnload", framed(field(2, MODEL)))
    model.sees(SERVICE_UNKNOWN)
    check(MODEL, status=5, text="unknown service")
    call("RepositoryModelLoad", framed(field(2, MODEL)))
    model.sees(SERVING)
    short = Watch(MODEL, "grpc-timeout: 1S")
    short.sees(SERVING)
    short.ends(4)
    for one in (everything, model, none):
        one.curl.kill()
    assert check(MODEL) == SERVING


def refused():
    plain = request(patches(1))
    call("Nothing", b"", status=12, text="there is no method")
    call("SystemSharedMemoryStatus", framed(b""), status=12, text="send the tensors in the request")
    off = field(1, field(1, "trace_level") + field(2, field(1, "OFF")))
    for message in (b"", off, off + field(2, MODEL), field(1, field(1, "trace_rate") + field(2, b"")), field(1, field(1, "trace_rate"))):
        assert call("TraceSetting", framed(message)) == [off], message
    assert len(fields(call("LogSettings", framed(field(1, field(1, "log_error") + field(2, field(1, 1)))))[0])) == 5
    call("TraceSetting", framed(field(2, "none")), status=5, text="unknown model")
    for method, key, value in (("TraceSetting", "trace_level", field(1, "OFF") + field(1, "TIMESTAMPS")), ("LogSettings", "log_verbose_level", field(2, 1)),
                               ("LogSettings", "log_file", field(3, "f")), ("LogSettings", "log_info", field(1, 0))):
        call(method, framed(field(1, field(1, key) + field(2, value))), status=12, text=f"to change '{key}' is not supported")
    for message in (field(1, field(2, b"")), field(1, b"\x0a\x05a"), field(1, 7), b"\x0a\x05a", field(1, field(1, b"\xff"))):
        call("TraceSetting", framed(message), status=3, text="no message")
    call("ModelInfer", framed(plain), "grpc-encoding: snappy", status=12, text="gzip or deflate")
    call("ModelInfer", framed(plain, 1), status=13, text="no header says how")
    call("ModelInfer", framed(plain, 2), status=13)
    call("ModelInfer", framed(plain[:-1]), status=3, text="protobuf")
    call("ModelConfig", framed(b"\x0a\x05a"), status=3, text="no message")
    call("ModelInfer", framed(request(patches(1), "none")), status=5, text="unknown model: 'none'")
    call("ModelConfig", framed(field(1, "none")), status=5, text="unknown model")
    call("RepositoryModelLoad", framed(field(2, "none")), status=3, text="failed to load 'none'")
    call("ModelInfer", framed(plain)[:-1], status=13, text="in the middle of a message")
    call("ModelInfer", b"", status=13)
    call("ModelInfer", framed(plain) + framed(plain), status=13, text="one message")
    call("ModelInfer", b"\0" + struct.pack(">I", 3 << 30), status=8, text="--max-message")
    call("ModelInfer", framed(gzip.compress(bytes(40 << 20)), 1), "grpc-encoding: gzip", status=8, text="inflates to more than")
    damaged = bytearray(gzip.compress(plain))
    damaged[-3] ^= 1
    call("ModelInfer", framed(bytes(damaged), 1), "grpc-encoding: gzip", status=13, text="damaged")
    timeout = field(4, field(1, "timeout") + field(2, field(2, 1)))
    os.kill(int(sys.argv[5]), signal.SIGSTOP)  # the worker
    call("ModelInfer", framed(request(patches(1, 9), MODEL, "", timeout)), status=14, text="Request timeout expired")
    answers, row = {}, framed(request(patches(1, 9)))
    def within(timeout, **how):   # of these a minute and an hour are not over when the others are
        answers[timeout] = call("ModelInfer", row, "grpc-timeout: " + timeout, **how)
    short, long = ([threading.Thread(target=within, args=(one,), kwargs=how) for one in units] for units, how in (
        (("50m", "500000u", "99999999n", "1S"), {"status": 4, "text": "Deadline Exceeded"}), (("2M", "1H"), {})))
    for one in (*long, *short):
        one.start()
    for one in short:
        one.join()
    assert len(answers) == 4, answers
    os.kill(int(sys.argv[5]), signal.SIGCONT)
    for one in long:
        one.join()
    assert len(answers) == 6 and all(scores_of(answers[one][0]).size for one in ("2M", "1H")), answers
    answer = call("ModelStreamInfer", framed(request(patches(1), MODEL, "a", timeout)) + framed(b"\xff"))
    assert [tag for tag, _ in fields(answer[1])][0] == 1
    # who still sends gets the status first, RST_STREAM with NO_ERROR then
    said = raw(GREETING + frame(HEADERS, 4, 1, heads()) + frame(0, 0, 1, b"\0" + struct.pack(">I", 3 << 30)))
    kinds = []
    while not kinds or kinds[-1] != RST:
        head = said.recv(9, socket.MSG_WAITALL)
        assert len(head) == 9, kinds
        body = said.recv(int.from_bytes(head[:3], "big"), socket.MSG_WAITALL)
        if int.from_bytes(head[5:], "big") == 1:
            kinds.append(head[3])
    assert kinds == [HEADERS, RST] and body == bytes(4), kinds


def strict():
    """--strict: a request with a row of NaN is refused by every way in, and the row is named; others are as ever."""
    fine, bad = patches(3), patches(3)
    bad[1, 2, 3] = np.nan
    want, why = http_scores(fine), "1 of 3 rows of the request to model 'm' have no scores, rows 1 (from 0)"
    head = json.dumps({"inputs": [{"name": INPUT, "shape": bad.shape, "datatype": "FP32",
                                   "parameters": {"binary_data_size": bad.nbytes}}]}).encode()
    error = json.loads(ask(f"/v2/models/{MODEL}/infer", head + bad.tobytes(), {"Inference-Header-Content-Length": str(len(head))}, 400))
    assert why in error["error"] and "--strict" in error["error"], error
    call("ModelInfer", framed(request(bad)), status=3, text=why)
    answers = [dict(fields(one)) for one in call("ModelStreamInfer", framed(request(bad, ident="a")) + framed(request(fine, ident="b")))]
    assert why.encode() in answers[0][1] and dict(fields(answers[0][2]))[3] == b"a", answers
    assert np.array_equal(scores_of(answers[1][2]), want)


def counted():
    """What one request by HTTP and one by gRPC add to the metrics and to the model's statistics, and their lines in the access log."""
    def now():
        page = dict(line.rsplit(" ", 1) for line in ask("/metrics").decode().splitlines() if f'{{model="{MODEL}",version="1"' in line)
        stats = json.loads(ask(f"/v2/models/{MODEL}/stats"))["model_stats"][0]
        page = {name.replace(f'{{model="{MODEL}",version="1"', "").strip("}"): int(value) for name, value in page.items()}
        return page, stats
    before, _ = now()
    values = patches(7)
    values[3, 1, 1] = np.nan
    head = json.dumps({"inputs": [{"name": INPUT, "shape": values.shape, "datatype": "FP32", "parameters": {"binary_data_size": values.nbytes}}]}).encode()
    answer = ask(f"/v2/models/{MODEL}/infer", head + values.tobytes(), {"Inference-Header-Content-Length": str(len(head))})
    assert json.loads(answer)["parameters"]["wiremill_held"] == 1, answer
    call("ModelInfer", framed(request(patches(40))))
    page, stats = now()
    added = {name: page[name] - before[name] for name in page}
    assert [added["nv_inference_" + name] for name in ("request_success", "count", "exec_count")] == [2, 47, 2], added
    assert added["wiremill_gateway_rows_held_total"] == 1 and not any(added[name] for name in added if "failure" in name or "again" in name), added
    assert page["nv_inference_queue_duration_us"] >= 0 and page["nv_inference_compute_infer_duration_us"] > 0, page
    assert page["nv_inference_queue_duration_us"] != page["nv_inference_compute_infer_duration_us"], page   # one is not the other
    once = stats["inference_stats"]
    for name, metric in (("success", "request"), ("queue", "queue"), ("compute_infer", "compute_infer")):
        assert once[name] == {"count": page["nv_inference_request_success"], "ns": 1000 * page[f"nv_inference_{metric}_duration_us"]}, (name, stats, page)
    assert (stats["inference_count"], stats["execution_count"]) == (page["nv_inference_count"], page["nv_inference_exec_count"]), stats
    assert abs(stats["last_inference"] / 1000 - time.time()) < 600, stats   # milliseconds
    until = time.monotonic() + 60
    while True:   # it is written within a second
        lines = [line.split() for line in open(sys.argv[5]).read().rpartition("\n")[0].splitlines()]
        by_http = [line for line in lines if line[3] == f"POST:/v2/models/{MODEL}/infer" and line[6:8] == [str(len(head) + values.nbytes), str(len(answer))]]
        by_grpc = [line for line in lines if line[3] == "ModelInfer" and int(line[6]) > patches(40).nbytes > int(line[7]) > 160]
        if by_http and by_grpc:
            break
        assert time.monotonic() < until, lines
        time.sleep(0.05)


def pages():
    values = patches(40)
    want = http_scores(values)
    # scores alone are compressed, as Triton does: clients who ask for gzip always inflate nothing else
    head = json.dumps({"inputs": [{"name": INPUT, "shape": [400, *values.shape[1:]], "datatype": "FP32",
                                   "parameters": {"binary_data_size": 10 * values.nbytes}}]}).encode()
    bulk = (head + values.tobytes() * 10, {"Inference-Header-Content-Length": str(len(head))})
    for path, body, heads, code in ((f"/v2/models/{MODEL}/infer", *bulk, 200), (f"/v2/models/{MODEL}/infer", b"[" * 9000, {}, 400),
                                    (f"/v2/models/{MODEL}/config", None, {}, 200), (f"/v2/models/{MODEL}/stats", None, {}, 200),
                                    (f"/v2/models/{MODEL}", None, {}, 200), ("/v2", None, {}, 200), ("/metrics", None, {}, 200),
                                    ("/v2/repository/index", b"", {}, 200)):
        for accept in ("gzip", "deflate", "gzip, deflate, br"):
            ask(path, body, {"Accept-Encoding": accept, **heads}, code, packed=accept.split(",")[0] if path.endswith("infer") and code == 200 else None)
    for accept, packed in (("gzip; q=0", None), ("GZIP;Q=0.000 , br", None), ("identity, *;q=0", None), ("gzipped, x-deflate", None),
                           ("gzip;q=0, Deflate", "deflate"), ("br;q=0,\tgzip ; q=0.01", "gzip"), ("deflate;q=1.0, gzip;q=0.5", "gzip")):
        ask(f"/v2/models/{MODEL}/infer", bulk[0], {"Accept-Encoding": accept, **bulk[1]}, packed=packed)
    for kind, pack in (("gzip", gzip.compress), ("deflate", zlib.compress)):
        assert np.array_equal(http_scores(values, {"Content-Encoding": kind, "Accept-Encoding": kind}, pack), want)
    assert np.array_equal(http_scores(values, {"Expect": "100-continue"}), want)
    assert np.array_equal(http_scores(values, {}, lambda data: iter([data[:999], data[999:]])), want)  # chunked
    infer = f"/v2/models/{MODEL}/infer"
    bare = {"Inference-Header-Content-Length": "0", "Content-Type": "application/octet-stream"}  # the bytes of one row, no JSON
    for version, packed in (("", values[3].tobytes()), ("/versions/1", iter([values[3].tobytes()]))):
        answer = ask(f"/v2/models/{MODEL}{version}/infer", packed, bare)
        assert b'"binary_data_size"' in answer and np.frombuffer(answer[-4:], "<f4") == want[3]
    for body in (b"", values[:2].tobytes(), values[3].tobytes()[:-1]):
        error = json.loads(ask(infer, body, bare, 400))["error"]
        assert f"Expected {values[3].nbytes}, got {len(body)}" in error, error
    assert "unknown model: 'none'" in json.loads(ask("/v2/models/none/infer", b"1234", bare, 404))["error"]
    for body, heads, code in ((b"{", {}, 400), (b"{}", {"Inference-Header-Content-Length": "x"}, 400),
                              (b"{}", {"Inference-Header-Content-Length": "9"}, 400), (b"{}", {"Content-Encoding": "br"}, 501),
                              (b"{}", {"Content-Encoding": "gzip"}, 400),
                              (gzip.compress(bytes(40 << 20)), {"Content-Encoding": "gzip"}, 413)):
        assert "error" in json.loads(ask(infer, body, heads, code))
    assert ask(f"/v2/models/{MODEL}/ready") == ask("/v2/health/ready") == b'{"ready":true}'
    assert ask("/v2/health/live/") == b'{"live":true}' and ask("/v2/models/none/ready", code=400) == b'{"ready":false}'
    trace, log = b'{"trace_level":["OFF"]}', b'{"log_file":"","log_info":true,"log_warning":true,"log_error":true,"log_verbose_level":0}'
    for path, want, same, other in (("/v2/trace/setting", trace, b'{"trace_level": "OFF", "trace_rate": null}', b'{"trace_level": ["TIMESTAMPS"]}'),
                                    (f"/v2/models/{MODEL}/trace/setting", trace, trace, b'{"trace_rate": "9"}'),
                                    ("/v2/logging", log, b'{"log_info": true}', b'{"log_verbose_level": 1}')):
        assert ask(path) == ask(path, same) == ask(path, b"") == ask(path, b"{}") == want, (path, ask(path))
        assert b"is not supported: " in ask(path, other, code=501) and b"JSON object" in ask(path, b"[]", code=400)
    for path, body, code in (("/v2/models/none/trace/setting", None, 404), ("/v2/models/none", None, 404), ("/nothing", None, 404), (infer, None, 405), ("/v2", b"{}", 405), ("/v2/systemsharedmemory/status", None, 501),
                             ("/v2/repository/models/none/load", b"", 400), ("/v2/models/" + "x" * 1100, None, 404)):
        assert ask(path, body, code=code) == b"" or code != 200
    assert json.loads(ask("/v2/repository/index", b"{\"ready\": true}"))[0]["name"] == MODEL
    for wrong in (b"[" * 90 + b"]" * 90, b"1", b"null", b'"true"'):
        assert b"'ready': expected a boolean" in ask("/v2/repository/index", b'{"ready": ' + wrong + b"}", code=400)
    numbers = dict(line.rsplit(" ", 1) for line in ask("/metrics").decode().splitlines() if line[0] != "#")
    assert int(numbers['nv_inference_request_success{model="m",version="1"}']) > 4
    assert int(numbers['wiremill_gateway_requests_total{protocol="http",code="ok"}']) > 4
    late = int(numbers['nv_inference_request_failure{model="m",version="1",reason="REJECTED"}'])
    assert late >= 2 and int(numbers['nv_inference_request_failure{model="m",version="1",reason="OTHER"}']) == 0, numbers
    assert numbers['nv_inference_pending_request_count{model="m",version="1"}'] == "0"
    assert numbers['wiremill_gateway_model_ready{model="m",version="1"}'] == "1"
    assert int(numbers["wiremill_gateway_memory_limit_bytes"]) > int(numbers["wiremill_gateway_memory_bytes"]) >= 0
    said = socket.create_connection(web.split(":"))
    said.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n" % infer.encode())
    assert b" 413 " in said.recv(4096)
    # who still sends the body of a refused request has its answer behind it; one that never ends is cut off
    for headers, code in ((b"", b" 413 "), (b"Content-Encoding: br\r\n", b" 501 ")):
        for size, is_read in ((20 << 20, True), (200 << 20, False)):
            said = socket.create_connection(web.split(":"), timeout=60)
            said.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n" % (infer.encode(), headers, size))
            try:
                said.sendall(bytes(size))
                assert is_read and code in said.recv(4096)
            except ConnectionError:
                assert not is_read
            said.close()
    said = socket.create_connection(web.split(":"))  # goes away while its request is computed
    said.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n{" % infer.encode())
    said.close()


# ---- raw frames ----------------------------------------------------------------------------------

def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def heads(path=SERVICE + "ModelInfer"):
    pairs = ((":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"), ("content-type", "application/grpc"))
    return b"".join(b"\0" + bytes([len(a)]) + a.encode() + bytes([len(b)]) + b.encode() for a, b in pairs)


GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0)
HEADERS, RST, PING, WINDOW, CONTINUATION = 1, 3, 6, 8, 9


def raw(data):
    said = socket.create_connection(grpc.split(":"), timeout=60)
    try:
        said.sendall(data)
    except OSError:
        pass  # it has been closed
    return said


def is_closed(said):
    try:
        while said.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


def loads():
    """A configuration and files that come with a load, by gRPC."""
    data = open(sys.argv[5], "rb").read()

    def load(name, status=0, text="", **given):
        entries = b"".join(field(3, field(1, key.replace("_", "/").replace("|", ":")) + field(2, value)) for key, value in given.items())
        return call("RepositoryModelLoad", framed(field(2, name) + entries), status=status, text=text)

    config, file = {"config": field(3, '{"max_batch_size": 7}')}, {"file|1_model.wmm": field(4, data)}
    load("more", **config, **file)
    assert json.loads(ask("/v2/models/more/config"))["max_batch_size"] == 7
    load("more", 3, "need its parameter 'config'", **file)
    load("more", 3, "is no string_param", config=field(4, b"{}"), **file)
    load("more", 3, "is no bytes_param", **config, **{"file|1_model.wmm": field(3, "x")})
    load("more", 3, "names no file", **config, **{"file|1_.._x": field(4, b"x")})
    load("more", 3, "model.wmm", **config, **{"file|1_model.wmm": field(4, data[:999])})
    assert fields(call("ModelReady", framed(field(1, "more")))[0]) == [(1, 1)]
    call("RepositoryModelUnload", framed(field(2, "more")))
    load("more", 3, "failed to poll")
    call("RepositoryModelUnload", framed(field(2, "more")), status=5)


def hostile():
    rng = random.Random(int(os.environ.get("SEED", 1)))
    assert is_closed(raw(b"GET / HTTP/1.1\r\n\r\n"))
    assert is_closed(raw(GREETING + frame(0, 0, 0, b"data of no stream")))
    assert is_closed(raw(GREETING + frame(CONTINUATION, 0, 1)))
    assert is_closed(raw(GREETING + struct.pack(">I", 1 << 23)[1:] + b"\0\0\0\0\0\1"))
    assert is_closed(raw(GREETING + frame(HEADERS, 0, 1) + frame(CONTINUATION, 0, 1) * 2000))
    assert is_closed(raw(GREETING + b"".join(frame(HEADERS, 4, i, heads()) + frame(RST, 0, i, b"\0\0\0\x08")
                                             for i in range(1, 8001, 2))))  # cancels 4,000 streams
    for i in range(200):
        data = GREETING + frame(HEADERS, 4, 1, heads())
        for _ in range(rng.randrange(20)):
            data += frame(rng.randrange(11), rng.randrange(256), rng.choice((0, 1, 1, 3)), rng.randbytes(rng.choice((0, 4, 5, 40))))
        raw(data + rng.randbytes(rng.randrange(30))).close()
    plain = bytearray(request(patches(1)))
    for i in range(20):
        data = GREETING
        for stream in range(1, 41, 2):
            message = plain[:]
            for _ in range(3):
                message[rng.randrange(60)] = rng.randrange(256)
            data += frame(HEADERS, 4, stream, heads(SERVICE + rng.choice(("ModelInfer", "ModelStreamInfer", "ModelConfig"))))
            data += frame(0, 1, stream, framed(bytes(message))[:16000])
        raw(data).close()
    for path in ("/v2/repository/index", f"/v2/repository/models/{MODEL}/load"):
        ask(path, b'{"parameters": [' + b"[]," * 2000000 + b"[]]}", code=400)  # as a tree it would take 300 MB
    # 3 million messages of no bytes, in streams whose answers nobody takes
    said = raw(GREETING[:24] + frame(4, 0, 0, struct.pack(">HI", 4, 0)) + b"".join(
        frame(HEADERS, 4, i, heads(SERVICE + "ModelStreamInfer")) + 4 * frame(0, 0, i, bytes(16350)) for i in range(1, 501, 2)))
    ask("/v2/health/live")
    said.close()
    # 1,000 messages of 1 MB that never come: others do not wait for them for long, nor is memory taken
    many = [raw(GREETING + b"".join(frame(HEADERS, 4, i, heads()) + frame(0, 0, i, b"\0\0\x0f\0\0" + b"z" * 50)
                                    for i in range(1, 501, 2))) for _ in range(4)]
    for said in many:
        said.close()
    values = patches(3)
    assert np.array_equal(scores_of(call("ModelInfer", framed(request(values)))[0]), http_scores(values))


def windows():
    """Messages that wait for memory fill the windows of connections: 30 are 480 MB, of which most are refused."""
    def most():
        return next(int(line.split()[1]) for line in open(f"/proc/{sys.argv[5]}/status") if line.startswith("VmHWM"))

    before, said = most(), []
    for _ in range(30):
        said.append(raw(GREETING + b"".join(
            frame(HEADERS, 4, i, heads()) + frame(0, 0, i, framed(bytes(1000000))[:16384]) + 3 * frame(0, 0, i, bytes(16380))
            for i in range(1, 480, 2))))
    ask("/v2/health/live")
    for one in said:
        one.close()
    assert os.environ.get("SAN") or most() < before + 200000, (before, most())


def queued():
    """A stream with more requests than a connection's share of the memory holds: some of them wait for it, with what is behind
    them, the stream's end too. All are answered, in order."""
    values = patches(1)
    share = numbers()["memory_limit_bytes"] // 8
    held = share // (values.nbytes + 4096)  # about as many
    want = http_scores(values)
    for n in (held + 40000 // values.nbytes, 3 * held):
        found = []
        os.kill(int(sys.argv[5]), signal.SIGSTOP)  # the worker
        body = b"".join(framed(request(values, MODEL, str(i))) for i in range(n))
        thread = threading.Thread(target=lambda: found.extend(call("ModelStreamInfer", body)))
        thread.start()
        try:
            while numbers()["memory_bytes"] < share - 2 * (values.nbytes + 4096):
                time.sleep(0.02)
            time.sleep(0.2)
        finally:
            os.kill(int(sys.argv[5]), signal.SIGCONT)
        thread.join()
        answers = [dict(fields(dict(fields(one))[2])) for one in found]
        assert [int(one[3]) for one in answers] == list(range(n)), (n, len(answers))
        assert all(np.array_equal(scores_of(dict(fields(one))[2]), want) for one in found)


def many():
    """More at once than --memory holds: they wait, and all are answered."""
    values = patches(200)
    want, failed = http_scores(values), []

    def client(i):
        try:
            for k in range(2):
                got = (scores_of(call("ModelInfer", framed(request(values)))[0]) if (i + k) % 2 else http_scores(values))
                assert np.array_equal(got, want)
        except BaseException as error:
            failed.append(repr(error))

    threads = [threading.Thread(target=client, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[:2]


def numbers():
    lines = [line for line in ask("/metrics").decode().splitlines() if line.startswith("wiremill_gateway_")]
    return {line.rsplit(" ", 1)[0][17:]: int(line.rsplit(" ", 1)[1]) for line in lines}


def slow():
    """Clients at two addresses take no answer, and would fill the memory many times: a client at another one is answered while
    none of them has been cut off. (It waits for that where it shares their memory.)"""
    gone = 'requests_total{protocol="grpc",code="cancelled"}'
    body = framed(request(patches(1)))
    settings = GREETING[:24] + frame(4, 0, 0, struct.pack(">HI", 4, 0))  # no window: no byte of an answer can be sent
    said = []
    for i in range(24):
        said.append(socket.create_connection(grpc.split(":"), timeout=60, source_address=(f"127.0.0.{2 + i % 2}", 0)))
        said[-1].sendall(settings + b"".join(frame(HEADERS, 4, i, heads()) + frame(0, 1, i, body) for i in range(1, 2001, 2)))
    while numbers()["memory_bytes"] < numbers()["memory_limit_bytes"] * 3 // 5:
        time.sleep(0.05)
    values = patches(200)
    for _ in range(3):  # on a machine that has stopped for half a minute some were cut off
        before = numbers()[gone]
        assert np.array_equal(scores_of(call("ModelInfer", framed(request(values)))[0]), http_scores(values))
        if numbers()[gone] == before:
            break
    else:
        raise AssertionError("it was answered only when others were cut off")
    for one in said:
        one.close()


def crowd():
    """An address with as many connections as it may have gets no more; another one does."""
    most = int(sys.argv[5])
    said = [socket.create_connection(at.split(":"), timeout=60, source_address=("127.0.0.4", 0))
            for _ in range(most // 2 + 4) for at in (grpc, web)]
    while numbers()["connections_refused_total"] < 8:  # each is accepted in its turn
        time.sleep(0.05)
    assert scores_of(call("ModelInfer", framed(request(patches(1))))[0]).size
    assert numbers()["connections_refused_total"] == 8
    for one in said:
        one.close()
    while sum(numbers()[f'connections{{protocol="{one}"}}'] for one in ("grpc", "http")) > 1:
        time.sleep(0.05)
    one = http.client.HTTPConnection(web, timeout=60, source_address=("127.0.0.4", 0))
    one.request("GET", "/v2/health/live")
    assert one.getresponse().status == 200
    one.close()


class Asker:
    """A connection with calls of this body, one a stream, all at once; the gateway has read all of them once this returns. None: of
    streams without a message."""

    def __init__(self, source, n, body):
        self.said = socket.create_connection(grpc.split(":"), timeout=300, source_address=(source, 0))
        self.peer, self.open, self.seen = "%s:%d" % self.said.getsockname(), set(range(1, 2 * n, 2)), b""
        self.window = collections.defaultdict(lambda: 65535)
        calls = b"".join(frame(HEADERS, 4, i, heads()) + frame(0, 1, i, body) if body else
                         frame(HEADERS, 4, i, heads(SERVICE + "ModelStreamInfer")) for i in range(1, 2 * n, 2))
        self.said.sendall(GREETING + frame(WINDOW, 0, 0, struct.pack(">I", 1 << 30)) + calls)
        self.ping()

    def ping(self):
        """The gateway has read all that was sent; after a second one, what it answered to that at once is here, too."""
        self.said.sendall(frame(PING, 0, 0, b"read all"))
        while self.read() != (PING, 1, 0):
            pass

    def receive(self):
        piece = self.said.recv(1 << 20)
        assert piece, "the connection has ended"
        self.seen += piece

    def has_frame(self):
        return len(self.seen) >= 9 and len(self.seen) >= 9 + int.from_bytes(self.seen[:3], "big")

    def read(self):
        """The kind, flags and stream of the next frame."""
        def take(n):
            while len(self.seen) < n:
                self.receive()
            taken, self.seen = self.seen[:n], self.seen[n:]
            return taken
        head = take(9)
        payload = take(int.from_bytes(head[:3], "big"))
        stream = int.from_bytes(head[5:], "big")
        if head[3] == WINDOW:
            self.window[stream] += int.from_bytes(payload, "big")
        if head[3] == RST or (head[3] in (0, HEADERS) and head[4] & 1):
            self.open.discard(stream)
        return head[3], head[4], stream

    def finish(self):
        while self.open:
            self.read()


def fair():
    """Connections of one address flood the model, more than their address may hold in memory. A client at another address, and
    one on another connection from that address where there is memory, has its answers before most of theirs: by the order of
    lines in the access log, which does not depend on how fast anybody is."""
    worker, log = int(sys.argv[5]), sys.argv[6]
    body = framed(request(patches(1)))
    for source, n_many, n, most in (("127.0.0.1", 10, 800, 1500), ("127.0.0.2", 4, 250, 800)):
        os.kill(worker, signal.SIGSTOP)
        try:
            many = [Asker("127.0.0.2", n, body) for _ in range(n_many)]
            one = Asker(source, 20, body)
        finally:
            os.kill(worker, signal.SIGCONT)
        threads = [threading.Thread(target=asker.finish) for asker in (*many, one)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        peers = {asker.peer for asker in (*many, one)}
        for asker in (*many, one):
            asker.said.close()
        lines = []
        while len(lines) < n_many * n + 20:  # they are written within a second
            time.sleep(0.05)
            lines = [line.split() for line in open(log).read().rpartition("\n")[0].splitlines()]
            lines = [line for line in lines if line[1] in peers]
        assert all(line[5] == "ok" for line in lines), [line for line in lines if line[5] != "ok"][:3]
        its = [at for at, line in enumerate(lines) if line[1] == one.peer]
        assert len(its) == 20 and its[-1] < most, (source, its)


def idle():
    """Streams without a message: an address may have 32,768 of them, and each connection some more. The gateway
    refuses further ones and says why. It answers other addresses and calls with a message as before, and takes new streams once
    these are gone."""
    def open_some():
        many = []
        for _ in range(35):
            many.append(Asker("127.0.0.5", 1000, None))
            many[-1].ping()
        return many

    for _ in range(2):
        many = open_some()
        refused = sum(1000 - len(one.open) for one in many)
        assert abs(refused - (35000 - 32768)) < 100 and all(len(one.open) == 1000 for one in many[:32]), refused
        assert scores_of(call("ModelInfer", framed(request(patches(1))))[0]).size
        call("ModelInfer", framed(request(patches(1))), options=("--http2-prior-knowledge", "--interface", "127.0.0.5"))

        for one in many:
            one.said.close()
        while numbers()['connections{protocol="grpc"}']:
            time.sleep(0.05)



def large():
    """One connection with 600 requests, each of more than a stream's first window: most of them wait for memory, and what they have
    sent by then would fill the connection's window. A client that keeps to its windows has all answers."""
    values = patches(1)
    body = framed(request(np.repeat(values, 150000 // values.nbytes + 1, 0)))
    one, streams = Asker("127.0.0.6", 0, body), range(1, 1200, 2)
    one.open, left, answered = set(streams), dict.fromkeys(streams, len(body)), set()
    window, room = one.window, threading.Condition()
    one.said.sendall(b"".join(frame(HEADERS, 4, i, heads()) for i in streams))

    def read():
        while one.open:
            one.receive()
            with room:
                while one.has_frame():
                    kind, _, stream = one.read()
                    if kind == 0:
                        answered.add(stream)
                room.notify()

    reader = threading.Thread(target=read)
    reader.start()
    while any(left.values()) and reader.is_alive():
        pieces = b""
        with room:
            for i in streams:
                n = min(left[i], window[i], window[0], 16384)
                if n > 0:
                    pieces += frame(0, n == left[i], i, body[len(body) - left[i]:][:n])
                    for at in (0, i):
                        window[at] -= n
                    left[i] -= n
            if not pieces:
                room.wait(1)
        one.said.sendall(pieces)
    reader.join()
    one.said.close()
    assert answered == set(streams), f"{len(answered)} of {len(streams)} are answered"


def flood():
    """Clients at once (argument), each with JSON of so many bytes (argument), with `contents` and with JSON that is meant badly.
    All are answered; the caller looks at the memory."""
    clients, size = int(sys.argv[5]), int(sys.argv[6])
    infer, failed = f"/v2/models/{MODEL}/infer", []

    def numbers(data, n, kind="FP32"):
        return b'{"inputs": [{"name": "%s", "shape": [%d], "datatype": "%s", "data": %s}]}' % (INPUT.encode(), n, kind.encode(), data)

    count = size // 4 - 100  # FP32: as many bytes
    ones = numbers(b"[" + b"1," * (count - 1) + b"1]", count)
    some = min(count // 8, 4_000_000)  # values of 1 byte become 4
    tensor = field(1, INPUT) + field(2, "INT32") + field(3, some) + field(5, field(2, b"\1" * some))
    bad = [(numbers(b"[" * 10000 + b"1" + b"]" * 10000, 1), "JSON nesting depth exceeds maximum allowed limit (100)"),
           (numbers(b"[" + b"9" * (size - 200) + b"]", 1), "Unable to parse 'data'"),
           (numbers(b"[1e" + b"9" * (size - 200) + b"]", 1), "Unable to parse 'data'"),
           (b"[" * (size - 200), "without the tensors' 'data'"), (b"[" * 200000, "failed to parse"),
           (numbers(b"[1]", 1 << 50), "fewer values than its shape"), (numbers(b"[1]" + b" " * (size * 3 // 2), 1), "--max-message), or"),
           (b'{"inputs":[' + b"[]," * 80000 + b"[]]}", "there are too many; give an array of at most")]

    def client(i):
        try:
            for k in range(2):
                if (i + k) % 2:
                    text, why = (ones, "unexpected shape") if k else bad[i // 2 % len(bad)]
                    is_chunked = i % 4 < 2 or "--max" in why
                    answer = json.loads(ask(infer, iter([text]) if is_chunked else text, code=413 if "--max" in why else 400))
                    assert why in answer["error"], answer
                else:
                    call("ModelInfer", framed(field(1, MODEL) + field(5, tensor)), status=3, text="data-type is 'INT32'")
        except BaseException as error:
            failed.append(repr(error))

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[:2]
    for header, words in (({}, "request JSON size"), ({"Inference-Header-Content-Length": "2"}, "request size")):
        error = json.loads(ask(infer, bytes(2 * size), header, 413))["error"]
        assert error.startswith(f"{words} of {2 * size} bytes exceeds the maximum allowed input size of "), error


def drain():
    """A request that has begun when SIGTERM comes is answered; no connection is accepted any more. Streams that stay open are
    ended with UNAVAILABLE, also where one goes on sending."""
    body = framed(request(patches(1)))
    begin = GREETING + frame(HEADERS, 4, 1, heads(SERVICE + "ModelStreamInfer"))
    ask_health = framed(field(1, MODEL))
    watch = raw(GREETING + frame(HEADERS, 4, 1, heads(HEALTH + "Watch")) + frame(0, 1, 1, ask_health))
    idle, busy = raw(begin), raw(begin)
    half = raw(GREETING + frame(HEADERS, 0, 1, heads()))  # headers that do not end
    said = raw(GREETING + frame(HEADERS, 4, 1, heads()) + frame(0, 0, 1, body[:20]))
    while not said.recv(65536):
        pass
    time.sleep(0.05)
    os.kill(int(sys.argv[5]), signal.SIGTERM)
    while True:
        try:
            raw(b"").close()
            time.sleep(0.01)
        except ConnectionError:  # refused, or reset where it was about to be accepted
            break
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            busy.sendall(frame(0, 0, 1, body) if len(body) < 16384 else frame(0, 0, 1, body[:16000]) + frame(0, 0, 1, body[16000:]))
            time.sleep(0.01)
            if select.select([busy], [], [], 0)[0] and b"\x0214" in busy.recv(65536):
                break
        else:
            raise AssertionError("a stream goes on")
    except ConnectionError:
        pass  # its end was in what was not read
    for open_call in (idle, watch):
        answer = b""
        while piece := open_call.recv(65536):
            answer += piece
        assert b"\x0214" in answer, answer  # grpc-status
    assert b"\0\0\0\0\2\x08\1" in answer  # SERVING came before
    said.sendall(frame(0, 1, 1, body[20:]))
    answer = b""
    while piece := said.recv(65536):
        answer += piece
    assert OUTPUT.encode() in answer
    assert is_closed(half)


def tls():
    """`web` is the authority's certificate here."""
    options = ("--http2", "--cacert", web)
    live = framed(b"")
    if len(sys.argv) > 5:  # a client's certificate is wanted
        context = ssl.create_default_context(cafile=web)
        context.set_alpn_protocols(["h2"])
        try:
            said = context.wrap_socket(socket.create_connection(grpc.split(":")), server_hostname="127.0.0.1")
            assert said.recv(1) == b""
        except (ssl.SSLError, ConnectionError):
            pass
        options += ("--cert", sys.argv[5], "--key", sys.argv[6])
    assert fields(call("ServerLive", live, options=options, scheme="https")[0]) == [(1, 1)]


if __name__ == "__main__":
    globals()[part]()
