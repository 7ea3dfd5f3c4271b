"""gatehand.py - a gateway takes over from another one, under load; what clients learn while a model is loaded.

usage: gatehand.py loading HTTP                          the model m is being loaded
       gatehand.py queue PROCESS HTTP GRPC               it is ended while connections wait to be accepted
       gatehand.py restart passed|reuse WIREMILL MODEL FOLDER TIMES RATE
                                                         gateways follow each other on sockets that are passed to them as
                                                         systemd does it, or by --reuse-port, at RATE requests a second
"""
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import framing
from framing import DATA, GOAWAY, GREETING, HEADERS, LIVE, USUAL, frame, heads, read_frame
from gatemodels import call

READY = tuple((name, "/inference.GRPCInferenceService/ServerReady" if name == ":path" else value) for name, value in USUAL)


def infer_request(side, *lines):
    tensor = struct.pack("<f", 1.0) * side * side
    head = json.dumps({"inputs": [{"name": "main_input", "shape": [1, side, side, 1], "datatype": "FP32",
                                   "parameters": {"binary_data_size": len(tensor)}}]}).encode()
    return b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: %d\r\nContent-Length: %d\r\n" % (
        len(head), len(head) + len(tensor)) + b"".join(one + b"\r\n" for one in lines) + b"\r\n" + head + tensor


# ---- while a model is loaded ---------------------------------------------------------------------

def loading():
    web = sys.argv[2]
    for path, name in (("m", "'m' is"), ("m/versions/1", "'m' version 1 is")):
        for method, what in (("POST", "/infer"), ("GET", ""), ("GET", "/config")):
            code, fields, data = call(web, method, f"/v2/models/{path}{what}", b"{}" if method == "POST" else None)
            if (method, what) == ("POST", "/infer"):
                body = b'{"inputs":[{"name":"main_input","shape":[1],"datatype":"FP32","data":[1]}]}'
                code, fields, data = call(web, method, f"/v2/models/{path}{what}", body)
            assert code == 503 and fields["Retry-After"] == "1", (path, what, code, data)
            assert json.loads(data)["error"] == f"Model {name} loading: try again in a second", data
    for path in ("none", "m/versions/7"):
        code, fields, data = call(web, "GET", f"/v2/models/{path}")
        assert code == 404 and "Retry-After" not in fields and b"unknown model" in data, (path, code, data)
    for path in ("/v2/health/ready", "/v2/models/m/ready"):
        code, _, data = call(web, "GET", path)
        assert code == 400 and json.loads(data) == {"ready": False, "error": "Model 'm' is loading: try again in a second"}, data


# ---- who waits to be accepted --------------------------------------------------------------------

def queue():
    process, web, grpc = int(sys.argv[2]), *sys.argv[3:5]
    metadata = tuple((name, "/inference.GRPCInferenceService/ServerMetadata" if name == ":path" else value) for name, value in USUAL)
    slow = socket.socket()  # has not taken its answers when the gateway ends, and sends more
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    slow.settimeout(60)
    slow.connect((grpc.rsplit(":", 1)[0], int(grpc.rsplit(":", 1)[1])))
    slow.sendall(GREETING + b"".join(frame(HEADERS, 4, i, heads(metadata)) + frame(DATA, 1, i, b"\0\0\0\0\0") for i in range(1, 400, 2)))
    slow.recv(1, socket.MSG_PEEK)
    os.kill(process, signal.SIGSTOP)
    asked = [framing.connect(web) for _ in range(100)]
    for said in asked:
        said.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
    called = [framing.connect(grpc) for _ in range(100)]
    for said in called:
        said.sendall(GREETING + frame(HEADERS, 4, 1, heads(USUAL)) + frame(DATA, 1, 1, LIVE))
    os.kill(process, signal.SIGTERM)
    time.sleep(0.5)  # its sweep is due when it goes on
    os.kill(process, signal.SIGCONT)
    try:
        for _ in range(20):
            slow.sendall(frame(6, 0, 0, bytes(8)))
            time.sleep(0.01)
    except ConnectionError:
        pass
    answers, kinds = set(), set()
    while got := read_frame(slow):
        kinds.add(got[0])
        answers |= {got[2]} if got[0] == DATA else set()
    assert len(answers) == 200 and GOAWAY in kinds, (len(answers), kinds)
    for said in asked:
        assert [code for code, _ in framing.answers(said)] == [200]
    for said in called:
        got = True
        while got := read_frame(said):
            if got[0] == DATA:
                break
        assert got and got[3] == b"\0\0\0\0\2\x08\1", got


# ---- a restart -----------------------------------------------------------------------------------

class Load:
    """Threads that ask at `rate` requests a second together, each on connections of its own kind."""

    def __init__(self, web, grpc, side, rate):
        self.web, self.grpc, self.ask = web, grpc, infer_request(side)
        self.wrong, self.n, self.ends = [], 0, False
        kinds = 8 * [self.fresh] + 4 * [self.kept] + 4 * [self.calls]
        self.threads = [threading.Thread(target=self.run, args=(kind, len(kinds) / rate)) for kind in kinds]
        self.begun = time.monotonic()
        for thread in self.threads:
            thread.start()

    def run(self, kind, pause):
        state, due = {}, time.monotonic()
        while not self.ends and len(self.wrong) < 5:
            try:
                kind(state)
                self.n += 1
            except Exception as error:
                self.wrong.append(f"{kind.__name__}: {error!r}")
                state = {}
            due += pause
            time.sleep(max(0, due - time.monotonic()))

    def answered(self, said, ask):
        said.sendall(ask)
        data = b""
        while b"\r\n\r\n" not in data or len(data) < data.index(b"\r\n\r\n") + 4 + int(data.split(b"Content-Length: ")[1].split(b"\r")[0]):
            piece = said.recv(65536)
            assert piece, ("closed", data)
            data += piece
        assert data.startswith(b"HTTP/1.1 200"), data[:300]
        return b"Connection: close" in data

    def fresh(self, state):
        said = framing.connect(self.web)
        self.answered(said, self.ask)
        said.close()

    def kept(self, state):
        if "said" not in state:
            state["said"] = framing.connect(self.web)
        if self.answered(state["said"], self.ask):
            state.pop("said").close()

    def calls(self, state):
        """A call that a GOAWAY leaves out is not processed, and made again: RFC 9113 6.8."""
        while True:
            if "said" not in state:
                state["said"], state["stream"] = framing.connect(self.grpc), 1
                state["said"].sendall(GREETING)
            said, stream = state["said"], state["stream"]
            state["stream"] += 2
            try:
                said.sendall(frame(HEADERS, 4, stream, heads(READY)) + frame(DATA, 1, stream, LIVE))
            except ConnectionError:
                pass  # what has come before is still to be read
            last, data, is_done = None, b"", False
            while not is_done and (last is None or last >= stream) and (got := read_frame(said)):
                if got[0] == GOAWAY:
                    last = int.from_bytes(got[3][:4], "big")
                    state["goes"] = True
                elif got[2] == stream and got[0] == DATA:
                    data += got[3]
                is_done = got[2] == stream and got[0] == HEADERS and got[1] & 1
            if is_done:
                assert data == b"\0\0\0\0\2\x08\1", data
            else:
                assert last is not None and last < stream, ("closed", last, stream)
            if not is_done or state.pop("goes", False):
                state.pop("said").close()
            if is_done:
                return

    def end(self):
        self.ends = True
        for thread in self.threads:
            thread.join()
        return time.monotonic() - self.begun


def until(condition, process, what):
    end = time.monotonic() + 120
    while not condition():
        assert process.poll() is None and time.monotonic() < end, what
        time.sleep(0.01)


def restart():
    how, program, model, folder, times, rate = *sys.argv[2:6], *map(int, sys.argv[6:8])
    listeners = []
    for _ in range(2):
        one = socket.socket()
        if how == "reuse":
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        one.bind(("127.0.0.1", 0))
        if how == "passed":
            one.listen(4096)
        listeners.append(one)
    grpc, web = (f"127.0.0.1:{one.getsockname()[1]}" for one in listeners)
    names = [f"{folder}/notify-{how}-{i}" for i in range(times + 1)]

    def start(i):
        """As systemd starts a service that has sockets."""
        told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        told.bind(names[i])
        told.settimeout(0)
        ours = {"NOTIFY_SOCKET": names[i]}
        ports = ["--reuse-port", "--grpc", grpc, "--http", web] if how == "reuse" else []

        def pass_them():
            copies = [os.dup2(one.fileno(), 100 + k) for k, one in enumerate(listeners)]
            for k, one in enumerate(copies):
                os.dup2(one, 3 + k)
            os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="2", LISTEN_FDNAMES="grpc:http")
            os.environ.update(ours)
            os.execv(program, [program, "gateway", "--threads", "1", "--model", f"m={model}"])

        with open(f"{folder}/log-{how}-{i}", "w") as log:
            if how == "passed":
                process = subprocess.Popen([program], preexec_fn=pass_them, stderr=log, close_fds=False)
            else:
                process = subprocess.Popen([program, "gateway", "--threads", "1", "--model", f"m={model}", *ports], stderr=log,
                                           env={**os.environ, **ours})
        process.told = told
        return process

    def is_ready(process):
        try:
            return b"READY=1" in process.told.recv(4096)
        except BlockingIOError:
            return False

    side = 16 if "small" in os.path.basename(model) else 48
    running, load = [], None
    try:
        running.append(start(0))
        until(lambda: is_ready(running[0]), running[0], "the first gateway does not become ready")
        load = Load(web, grpc, side, rate)
        for i in range(times):
            before = load.n
            running.append(start(i + 1))
            until(lambda: is_ready(running[1]), running[1], "the next gateway does not become ready")
            assert load.n > before or load.wrong, "nothing is answered"
            old = running.pop(0)
            old.terminate()
            assert old.wait(120) == 0
            after = load.n
            until(lambda: load.n > after + 100 or load.wrong, running[0], "nothing is answered")
        seconds = load.end()
        print(*load.wrong, sep="\n")
        assert not load.wrong
        print(f"{times} restarts: {load.n} requests answered, {load.n / seconds:.0f} a second, none refused")
        running[0].terminate()
        assert running[0].wait(120) == 0
    finally:
        if load:
            load.ends = True
        for process in running:
            if process.poll() is None:
                process.kill()


globals()[sys.argv[1]]()
