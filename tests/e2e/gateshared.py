"""gateshared.py - a client's tensors in files of /dev/shm, by HTTP and gRPC, without a library of Triton's.

usage: gateshared.py PART FOLDER GRPC HTTP ...      parts are functions below; of gatewire.py it has the wires
"""
import http.client
import json
import mmap
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np

from gatewire import INPUT, MODEL, OUTPUT, ask, call, fields, framed, http_scores, patches, web
from protobuf import field

SHM = "/dev/shm"
part, KEY = sys.argv[1], f"wm-gateshared-{os.getpid()}"
OTHER = "em_trk_none_netout/Softmax"
made = []


class Region:
    """A file of /dev/shm, registered under its own key, in which a client writes and reads."""

    def __init__(self, name, size, offset=0, register=True):
        self.key = f"{KEY}-{name}"
        self.name, self.size, self.offset, self.path = name, size, offset, f"{SHM}/{self.key}"
        made.append(self.path)
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.ftruncate(self.fd, offset + size)
        if register:
            self.register()

    def register(self, **changes):
        body = {"key": "/" + self.key, "offset": self.offset, "byte_size": self.size, **changes}
        return ask(f"/v2/systemsharedmemory/region/{self.name}/register", json.dumps(body))

    def put(self, values, offset=0):
        os.pwrite(self.fd, values.tobytes(), self.offset + offset)

    def get(self, count, offset=0):
        return np.frombuffer(os.pread(self.fd, 4 * count, self.offset + offset), "<f4")


def parameters(region, size, offset=0):
    given = {"shared_memory_region": region, "shared_memory_byte_size": size}
    return {**given, "shared_memory_offset": offset} if offset else given


def http_infer(shape, source, targets, code=200, **more):
    """The answer to a request whose tensors are in regions: (region, bytes[, offset]); targets: by their output."""
    outputs = [{"name": name, "parameters": parameters(*target) if target else {"binary_data": False}} for name, target in targets.items()]
    head = {"inputs": [{"name": INPUT, "shape": shape, "datatype": "FP32", "parameters": parameters(*source), **more}], "outputs": outputs}
    return json.loads(ask(f"/v2/models/{MODEL}/infer", json.dumps(head), code=code))


def message(shape, source, targets, *more):
    def given(tag, where):
        return b"".join(field(tag, field(1, key) + field(2, field(3 if isinstance(value, str) else 2, value)))
                        for key, value in (parameters(*where) if where else {}).items())
    tensor = field(1, INPUT) + field(2, "FP32") + b"".join(field(3, n) for n in shape) + given(4, source)
    wanted = b"".join(field(6, field(1, name) + given(2, target)) for name, target in targets.items())
    return framed(field(1, MODEL) + field(5, tensor) + wanted + b"".join(more))


def grpc_infer(shape, source, targets, *more, **status):
    found = call("ModelInfer", message(shape, source, targets, *more), **status)
    return fields(found[0]) if found else None


def off():
    """Without the option: refused by words, and not among the extensions."""
    for path, body in (("status", None), ("region/r/status", None), ("region/r/register", b'{"key": "a", "byte_size": 4}'),
                       ("unregister", b"")):
        assert b"--shared-memory" in ask("/v2/systemsharedmemory/" + path, body, code=501)
    assert "system_shared_memory" not in json.loads(ask("/v2"))["extensions"]
    values = patches(1)
    refusal = http_infer(values.shape, ("r", values.nbytes), {OUTPUT: None}, 501)
    assert "send the tensors in the request" in refusal["error"]
    grpc_infer(values.shape, ("r", values.nbytes), {OUTPUT: None}, status=12, text="--shared-memory")
    call("SystemSharedMemoryStatus", framed(b""), status=12, text="--shared-memory")


def answers():
    """Inputs and outputs in regions: the bits of a request that has them itself; the regions' status; the same regions again."""
    assert "system_shared_memory" in json.loads(ask("/v2"))["extensions"]
    assert (3, b"system_shared_memory") in fields(call("ServerMetadata", framed(b""))[0])
    values = patches(40)
    want, n = http_scores(values), values.nbytes
    given, got = Region("in", 2 * n, offset=4096), Region("out", 8192)
    page = json.loads(ask("/v2/systemsharedmemory/status"))
    assert page == [{"name": one.name, "key": "/" + one.key, "offset": one.offset, "byte_size": one.size} for one in (given, got)], page
    assert json.loads(ask("/v2/systemsharedmemory/region/out/status")) == page[1:]
    ask("/v2/systemsharedmemory/region/none/status", code=404)
    known = dict(fields(dict(fields(call("SystemSharedMemoryStatus", framed(field(1, "in")))[0]))[1]))
    assert known[1] == b"in" and dict(fields(known[2])) == {1: b"in", 2: b"/" + given.key.encode(), 3: 4096, 4: 2 * n}, known
    for turn, rows in enumerate((values, values[::-1], values[7:])):  # the same regions, with other values in them
        wanted, at = np.array([want[k] for k in range(40)])[::-1] if turn == 1 else want[7 * (turn == 2):], n * (turn == 1)
        given.put(rows, at)
        where = ("in", rows.nbytes, at)
        answer = http_infer(rows.shape, where, {OUTPUT: ("out", 4000, 128)})["outputs"][0]
        assert np.array_equal(got.get(len(rows), 128), wanted)
        assert answer == {"name": OUTPUT, "datatype": "FP32", "shape": [len(rows), 1]}, answer  # as Triton's clients want it
        got.put(np.zeros(1024, "<f4"))
        answer = http_infer(rows.shape, where, {OUTPUT: None})["outputs"][0]
        assert np.array_equal(np.array(answer["data"], "<f4"), wanted)
        answer = grpc_infer(rows.shape, where, {OTHER: None, OUTPUT: ("out", 4000)})
        assert np.array_equal(got.get(len(rows)), wanted)
        raw = [value for tag, value in answer if tag == 6]
        assert [len(one) for one in raw] == [12 * len(rows), 0]  # the other output is in the message
        got.put(np.zeros(1024, "<f4"))
    body = b"".join(message(values[:1].shape, ("in", values[0].nbytes, k * values[0].nbytes), {OUTPUT: ("out", 4, 4 * k)}) for k in range(40))
    given.put(values)
    assert len(call("ModelStreamInfer", body)) == 40 and np.array_equal(got.get(40), want)
    ask("/v2/systemsharedmemory/region/in/unregister", b"")
    ask("/v2/systemsharedmemory/region/in/unregister", b"")  # there is none any more
    assert [one["name"] for one in json.loads(ask("/v2/systemsharedmemory/status"))] == ["out"]
    call("SystemSharedMemoryUnregister", framed(b""))
    assert json.loads(ask("/v2/systemsharedmemory/status")) == []
    request = field(1, "in") + field(2, "/" + given.key) + field(3, 4096) + field(4, n)
    call("SystemSharedMemoryRegister", framed(request))
    assert np.array_equal(np.array(http_infer(values.shape, ("in", n), {OUTPUT: None})["outputs"][0]["data"], "<f4"), want)


def refused(region, text, code=400, **changes):
    body = {"key": "/" + region.key, "offset": region.offset, "byte_size": region.size, **changes}
    said = ask(f"/v2/systemsharedmemory/region/{region.name}/register", json.dumps(body), code=code)
    assert text in json.loads(said)["error"], said


def hostile():
    """Keys that name something else, sizes that are not there, tensors outside of their region."""
    region = Region("r", 16384, register=False)
    secret = os.path.join(sys.argv[2], "secret")
    with open(secret, "wb") as out:
        out.write(bytes(8192))
    for kind, make in (("link", lambda path: os.symlink(secret, path)), ("fifo", os.mkfifo), ("dir", os.mkdir)):
        path = f"{SHM}/{KEY}-{kind}"
        made.append(path)
        make(path)
    inside = f"{KEY}-dir/inside"
    made.insert(0, f"{SHM}/{inside}")
    with open(f"{SHM}/{inside}", "wb") as out:
        out.write(bytes(8192))
    up = os.path.relpath(secret, SHM)
    for key in ("", "/", ".", "..", "/..", secret, up, "//" + region.key, inside, f"{KEY}-dir/../{region.key}", "x" * 256, 7, None):
        refused(region, "must be a file's name in /dev/shm", key=key)
    refused(region, "it is a symbolic link", 500, key=f"{KEY}-link")
    refused(region, "is no regular file", 500, key=f"{KEY}-fifo")
    refused(region, "directory", 500, key=f"{KEY}-dir")
    refused(region, "No such file", 500, key=f"{KEY}-none")
    if os.geteuid() == 0:
        theirs = Region("theirs", 16384, register=False)
        os.chown(theirs.path, 12345, 12345)
        os.chmod(theirs.path, 0o666)
        refused(theirs, "belongs to user 12345", 500)
    for sizes in ({"byte_size": 0}, {"byte_size": -1}, {"byte_size": "4"}, {"byte_size": None}, {"offset": -1}, {"offset": 1.5},
                  {"byte_size": 1 << 70}):
        refused(region, "must be an integer above 0" if sizes != {"byte_size": 1 << 70} else "file's name", **sizes)
    most = (1 << 63) - 1
    for sizes in ({"byte_size": 16385}, {"offset": 1}, {"byte_size": most, "offset": most}, {"byte_size": most}, {"offset": most, "byte_size": 1}):
        refused(region, "which has 16384", **sizes)
    for offset, size in ((1 << 63, 16384), ((1 << 64) - 16384, 16384), (0, 1 << 63), ((1 << 64) - 1, 1)):  # of gRPC: 64 bits without a sign
        call("SystemSharedMemoryRegister", framed(field(1, "r") + field(2, region.key) + field(3, offset) + field(4, size)),
             status=3, text="must be an integer above 0")
    assert json.loads(ask("/v2/systemsharedmemory/status")) == []
    region.register()
    refused(region, "already in manager")

    one = patches(1)
    shape, n = one.shape, one.nbytes
    region.put(one)

    def both(text, source, targets={OUTPUT: None}):
        assert text in http_infer(shape, source, targets, 400)["error"]
        grpc_infer(shape, source, targets, status=3, text=text)
    both("Unable to find", ("none", n))
    for offset, size in ((16384 - n + 1, n), (most, n), (-4, n), (0, most), (most, most), (0, -1), (16384, n)):
        both("Invalid offset + byte size", ("r", size, offset))
        both("Invalid offset + byte size", ("r", n), {OUTPUT: ("r", size, offset)})
    both("Unable to find", ("r", n), {OUTPUT: ("none", 4)})
    both("byte size mismatch", ("r", n - 4))
    both("should be at least 4 bytes", ("r", n), {OUTPUT: ("r", 3)})
    assert "goes without 'data'" in http_infer(shape, ("r", n), {OUTPUT: None}, 400, data=[0])["error"]
    grpc_infer(shape, ("r", n), {OUTPUT: None}, field(7, one.tobytes()), status=3, text="expected 0 raw input")
    assert b"CUDA shared memory is not supported" in ask("/v2/cudasharedmemory/region/r/status", code=501)
    assert json.loads(ask("/v2/cudasharedmemory/status")) == []
    assert b"invalid args: 'byte_size'" in ask("/v2/cudasharedmemory/region/r/register", b'{"byte_size": 0}', code=400)
    assert b"CUDA shared memory is not supported" in ask("/v2/cudasharedmemory/region/r/register", b'{"byte_size": 4}', code=501)
    call("CudaSharedMemoryRegister", framed(field(1, "r")), status=3, text="failed to register shared memory region 'r': invalid args")
    call("CudaSharedMemoryRegister", framed(field(2, b"\xff") + field(4, 4)), status=12, text="CUDA shared memory is not supported")
    call("SystemSharedMemoryRegister", framed(field(1, "other") + field(2, KEY + "-none")), status=13, text=f"Unable to open shared memory region: '{KEY}-none'")
    for method in ("CudaSharedMemoryUnregister", "CudaSharedMemoryStatus"):
        call(method, framed(b""))
    ask("/v2/cudasharedmemory/unregister", b"")
    for k in range(1023):
        ask(f"/v2/systemsharedmemory/region/{k}/register", json.dumps({"key": region.key, "byte_size": 4}))
    refused(Region("more", 4, register=False), "already: unregister some", code=413)


def alive():
    assert json.loads(ask("/v2/health/live"))["live"]


def cut():
    """A client cuts a file short: before its request, in the midst of it, and again and again meanwhile."""
    worker = int(sys.argv[5])
    values = patches(400)
    want, n = http_scores(values), values.nbytes
    given, got = Region("in", n), Region("out", 4096)
    given.put(values)
    os.ftruncate(given.fd, n - 1)
    assert "is shorter than" in http_infer(values.shape, ("in", n), {OUTPUT: None}, 400)["error"]
    grpc_infer(values.shape, ("in", n), {OUTPUT: None}, status=3, text="is shorter than")
    os.ftruncate(given.fd, n)
    given.put(values)
    for cut_out in (0, 100, 1599):  # while it is computed: both files; the input was copied
        os.kill(worker, signal.SIGSTOP)
        found = []
        one = threading.Thread(target=lambda: found.append(http_infer(values.shape, ("in", n), {OUTPUT: ("out", 4096)}, 400)))
        two = threading.Thread(target=lambda: found.append(http_infer(values.shape, ("in", n), {OUTPUT: None})))
        one.start()
        two.start()
        waits(2 * n)
        for _ in range(20):  # rounds of the gateway's loop, in each of which it copies 256 KiB
            alive()
        os.ftruncate(given.fd, 0)
        os.ftruncate(got.fd, cut_out)
        os.kill(worker, signal.SIGCONT)
        one.join()
        two.join()
        texts = sorted(len(answer.get("error", "")) for answer in found)
        assert texts[0] == 0 and texts[1] > 0, found
        assert os.fstat(got.fd).st_size == cut_out  # it did not grow again
        assert any("outputs" in answer and np.array_equal(np.array(answer["outputs"][0]["data"], "<f4"), want) for answer in found)
        os.ftruncate(got.fd, 4096)
        os.ftruncate(given.fd, n)
        given.put(values)
    stop = threading.Event()

    def saw():  # a mapping of the gateway's would end it by SIGBUS
        while not stop.is_set():
            os.ftruncate(given.fd, 0)
            os.ftruncate(got.fd, 7)
            os.ftruncate(given.fd, n)
            os.ftruncate(got.fd, 4096)
    thread = threading.Thread(target=saw)
    thread.start()
    codes = set()
    connection = http.client.HTTPConnection(web, timeout=300)
    for _ in range(60):
        head = {"inputs": [{"name": INPUT, "shape": values.shape, "datatype": "FP32", "parameters": parameters("in", n)}],
                "outputs": [{"name": OUTPUT, "parameters": parameters("out", 4096)}]}
        connection.request("POST", f"/v2/models/{MODEL}/infer", json.dumps(head))
        answer = connection.getresponse()
        answer.read()
        codes.add(answer.status)
    stop.set()
    thread.join()
    assert codes <= {200, 400}, codes
    alive()


def waits(size):
    """Until requests hold so many bytes."""
    while True:
        for line in ask("/metrics").decode().splitlines():
            if line.startswith("wiremill_gateway_memory_bytes ") and float(line.split()[1]) >= size:
                return
        time.sleep(0.02)


def dies():
    """A client is killed with requests under way, its files are gone; a region is unregistered while it is in use."""
    worker = int(sys.argv[5])
    values = patches(400)
    want, n = http_scores(values), values.nbytes
    given, got = Region("in", n), Region("out", 4096)
    given.put(values)
    os.kill(worker, signal.SIGSTOP)
    client = subprocess.Popen([sys.executable, __file__, "ask_for_ever", *sys.argv[2:5], str(n), *map(str, values.shape)])
    found = []
    other = threading.Thread(target=lambda: found.append(http_infer(values.shape, ("in", n), {OUTPUT: ("out", 4096)})))
    other.start()
    waits(2 * n)
    client.kill()
    client.wait()
    os.unlink(given.path)
    os.unlink(got.path)
    ask("/v2/systemsharedmemory/unregister", b"")
    assert json.loads(ask("/v2/systemsharedmemory/status")) == []
    os.kill(worker, signal.SIGCONT)
    other.join()
    assert "outputs" in found[0] and np.array_equal(got.get(400), want)  # by the descriptor that this client has
    assert "Unable to find" in http_infer(values.shape, ("in", n), {OUTPUT: None}, 400)["error"]
    alive()


def ask_for_ever():
    n, shape = int(sys.argv[5]), [int(word) for word in sys.argv[6:]]
    while True:
        http_infer(shape, ("in", n), {OUTPUT: ("out", 4096)})


def memory():
    """What is copied counts: more than --max-message is refused, more than --memory waits."""
    worker, gateway, most = int(sys.argv[5]), int(sys.argv[6]), int(sys.argv[7])
    values = patches(1)
    side, n = values.shape[1], values.nbytes
    rows = most // n
    given = Region("in", (rows + 1) * n)
    given.put(np.repeat(values, rows + 1, axis=0))
    want = http_scores(values)[0]
    refusal = http_infer((rows + 1, side, side, 1), ("in", (rows + 1) * n), {OUTPUT: None}, 413)
    assert "--max-message" in refusal["error"], refusal
    os.kill(worker, signal.SIGSTOP)
    found = []
    threads = [threading.Thread(target=lambda: found.append(http_infer((rows, side, side, 1), ("in", rows * n), {OUTPUT: None})))
               for _ in range(12)]
    for thread in threads:
        thread.start()
    waits(rows * n)
    time.sleep(0.5)
    for line in ask("/metrics").decode().splitlines():
        if line.startswith("wiremill_gateway_memory_bytes "):
            assert float(line.split()[1]) <= 4.5 * most, line
    os.kill(worker, signal.SIGCONT)
    for thread in threads:
        thread.join()
    assert len(found) == 12 and all((np.array(answer["outputs"][0]["data"], "<f4") == want).all() for answer in found)
    with open(f"/proc/{gateway}/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(f"peak {peak} kB")


if __name__ == "__main__":
    try:
        globals()[part]()
    finally:
        part == "off" or ask("/v2/systemsharedmemory/unregister", b"")
        for path in made:
            os.path.isdir(path) and not os.path.islink(path) and os.rmdir(path)
            os.path.lexists(path) and os.unlink(path)
