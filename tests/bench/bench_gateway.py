"""bench_gateway.py - the part `gateway` of bench.py: gRPC requests to a gateway, beside the engine in one process.

One gateway; its worker has as many threads as there are CPUs (WORKERS=n workers share them). Requests come from gateway_bench, a client in
C on the same CPUs that costs little. "In process" is the engine alone (lib_bench), as many threads, calls of as many
patches as requests have. A ratio of CPU time counts what the client, the gateway, its broker and worker have used;
where others use the machine it says more than one of time. Triton itself is in no package registry; the peer that is,
MLServer with ONNX Runtime, speaks the same protocol and is measured where `make deps-peer` has installed it.
"""
import json
import os
import re
import signal
import socket
import subprocess
import time

import numpy as np

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PEER = "build/venv-peer/bin/mlserver"
WORKERS = int(os.environ.get("WORKERS", 1))


def do_nothing(path):
    """A model of the golden model's input, whose work is next to nothing: the largest pixel of a patch."""
    import onnx
    from onnx import TensorProto, helper
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("ReduceMax", ["main_input"], ["y"], axes=[1, 2], keepdims=0)], "nothing",
                              [value("main_input", TensorProto.FLOAT, ["n", 48, 48, 1])],
                              [value("y", TensorProto.FLOAT, ["n", 1])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, path)


def processes():
    """Of each process: its parent, its command, its CPU time in seconds."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as f:
                fields = f.read().rpartition(")")[2].split()
            with open(f"/proc/{name}/cmdline") as f:
                command = f.read().split("\0")
        except OSError:
            continue
        found[int(name)] = int(fields[1]), command, (int(fields[11]) + int(fields[12])) * TICK_S
    return found


class Server:
    """A program that answers gRPC and writes a log. `close` ends it."""

    def __init__(self, log, command, **more):
        self.log = log
        with open(log, "w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, **more)
        self.address = self.wait_for_address()

    def wait_for_address(self):
        for _ in range(3000):
            with open(self.log) as f:
                found = re.search(r"gRPC (?:on |server running on http://)(127\.0\.0\.1:\d+)", f.read())
            if found or self.process.poll() is not None:
                break
            time.sleep(0.01)
        if not found:
            self.close()
            raise RuntimeError(f"{os.path.basename(self.process.args[0])} does not serve: {self.text()[-300:]}")
        return found[1]

    def text(self):
        with open(self.log) as f:
            return " ".join(f.read().split())

    def cpu_s(self):
        """CPU time of the server and all that it has started; a gateway's helpers are nobody's children."""
        found, me = processes(), str(self.process.pid)

        def is_mine(pid):
            while pid in found:
                parent, command, _ = found[pid]
                if str(pid) == me or ("client" in command and ["--of", me] == command[command.index("client") + 1:][:2]):
                    return True
                pid = parent
            return False
        return sum(found[pid][2] for pid in found if is_mine(pid))

    def measure(self, client, model, rows, in_flight, patches, seconds):
        """A point of gateway_bench, with the CPU time of everybody, microseconds a request."""
        command = [client, self.address, model, "main_input", str(rows), "48,48,1", patches, str(in_flight)]
        subprocess.run([*command, "0.2"], capture_output=True, timeout=120)     # until the model is ready
        before = self.cpu_s()
        done = subprocess.run([*command, str(seconds)], capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise RuntimeError(f"{done.stderr.strip()}; the server's log: {self.text()[-300:]}")
        point = json.loads(done.stdout)["points"][0]
        point["cpu_gateway_us"] = (self.cpu_s() - before) * 1e6 / point["requests"]
        point["cpu_hits_s"] = rows * 1e6 / (point["cpu_gateway_us"] + point["cpu_client_us"])
        return point

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def raw(source, target, n, random):
    """n patches of an .npy, drawn by lot, as float32 without a header."""
    patches = np.load(source, mmap_mode="r")
    np.nan_to_num(patches[random.permutation(len(patches))[:n]]).astype("f4").tofile(target)


def gateway(program, work, threads, models):
    return Server(f"{work}/gateway.log", [program, "gateway", "--grpc", "127.0.0.1:0", "--http", "none", "--workers",
                                          str(WORKERS), "--threads", str(max(1, threads // WORKERS)), "--state", f"{work}/gateway",
                                          *(f"--model={name}={path}" for name, path in models.items())])


def mlserver(work, model):
    """MLServer in one process, whose ONNX Runtime has a thread for each CPU."""
    os.makedirs(f"{work}/mlserver/golden")
    with socket.socket() as a, socket.socket() as b, socket.socket() as c:
        for one in (a, b, c):
            one.bind(("127.0.0.1", 0))
        ports = dict(zip(("http_port", "grpc_port", "metrics_port"), (one.getsockname()[1] for one in (a, b, c))))
    for path, settings in (("settings.json", dict(host="127.0.0.1", parallel_workers=0, grpc_max_message_length=1 << 26, **ports)),
                           ("golden/model-settings.json", dict(name="golden", implementation="mlserver_onnx.Onnx",
                                                               parameters=dict(uri=model)))):
        with open(f"{work}/mlserver/{path}", "w") as f:
            json.dump(settings, f)
    return Server(f"{work}/mlserver.log", [os.path.abspath(PEER), "start", "."], cwd=f"{work}/mlserver",
                  env={**os.environ, "PYTHONPATH": os.path.abspath("tests/bench")})


# ---- the part of bench.py ------------------------------------------------------------------------

def requests_of(bench, server, name, model, rows, in_flight, patches, key="hits_s"):
    """Requests of so many patches, so many under way."""
    def measure():
        try:
            point = server.measure(f"{bench.BUILD}/bench/gateway_bench", model, rows, in_flight, f"{bench.WORK}/{patches}.f4",
                                 bench.SECONDS)
        except (RuntimeError, subprocess.TimeoutExpired) as why:
            raise bench.Failed(str(why)) from None
        bench.points.setdefault(name, []).append(point)
        bench.rates.setdefault(name + "_cpu", []).append(point["cpu_hits_s"])
        return point[key]
    return name, measure


def in_process(bench, name, rows, patches):
    def measure():
        point = bench.measured(f"{bench.BUILD}/bench/lib_bench", "engine", f"{bench.WORK}/model.wmm",
                               f"{bench.WORK}/{patches}.f4", bench.CPUS * float(bench.SECONDS), rows, bench.CPUS)[0]
        bench.points.setdefault(name, []).append(point)
        bench.rates.setdefault(name + "_cpu", []).append(point["hits_s"])
        return point["wall_hits_s"]
    return name, measure


def single(bench, name, patches):
    """libwiremill where it is fastest: calls of 256 patches, one thread each, of which no part is shared."""
    return name, lambda: bench.measured(f"{bench.BUILD}/bench/lib_bench", "calls", f"{bench.WORK}/model.wmm",
                                        f"{bench.WORK}/{patches}.f4", bench.SECONDS)[0]["hits_s"]


def each(bench, name):
    """What a request of the median round cost, by CPU time."""
    point = sorted(bench.points[name], key=lambda p: p["requests_s"])[len(bench.points[name]) // 2]
    return f"CPU of a request: gateway, broker and worker {point['cpu_gateway_us']:.0f} us, client {point['cpu_client_us']:.0f} us"


def nothing_rows(bench, server):
    alternate = [requests_of(bench, server, "gateway_one", "nothing", 1, 64, "dense", "requests_s")]
    alternate += [requests_of(bench, server, f"gateway_mb_{kind}", "nothing", 256, 4, kind, "requests_s") for kind in ("dense", "noise")]
    bench.alternate(bench.ROUNDS, *alternate)
    for name, what in (("gateway_one", "gateway, a model of no work, one patch, 64 in flight (goal 8,000)"),
                       ("gateway_mb_dense", "... 256 patches of 2.36 MB, 4 in flight (goal 350)"),
                       ("gateway_mb_noise", "... 256 patches of noise, 4 in flight (goal 350)")):
        if bench.known(name):
            bench.row(what, f"{bench.middle(bench.rates[name])} requests/s; {each(bench, name)}")


def golden_rows(bench, server, kind, goal):
    for rows in (64, 256):
        over, under, calls = f"gateway_{rows}_{kind}", f"in_process_{rows}_{kind}", f"single_{rows}_{kind}"
        bench.alternate(bench.ROUNDS, requests_of(bench, server, over, "golden", rows, 4, kind),
                        in_process(bench, under, rows, kind), single(bench, calls, kind))
        bench.rate_row(f"gateway, {kind} patches, {rows} a request, 4 in flight", over)
        bench.rate_row("... the engine in process", under)
        bench.ratio(f"gateway_over_in_process, {rows} {kind} (goal {goal})", over, under)
        bench.ratio(f"... by CPU time, {rows} {kind}", over + "_cpu", under + "_cpu")
        bench.ratio(f"... by CPU time, over one-threaded calls of 256, {rows} {kind}", over + "_cpu", calls)


def peer_rows(bench):
    """The peer is measured after the gateway, in the same minutes: both at once would share the CPUs."""
    if not os.access(PEER, os.X_OK):
        print("no MLServer here (make deps-peer installs it): its rows are left out", flush=True)
        return
    server = mlserver(bench.WORK, f"{bench.WORK}/model.onnx")
    try:
        bench.alternate(bench.LONG_ROUNDS, *(requests_of(bench, server, f"mlserver_{rows}_dense", "golden", rows, 4, "dense")
                                             for rows in (64, 256)))
    finally:
        server.close()
    for rows in (64, 256):
        over, under = f"gateway_{rows}_dense", f"mlserver_{rows}_dense"
        bench.rate_row(f"MLServer with ONNX Runtime, {rows} a request, 4 in flight", under)
        if bench.known(over, under):
            wall, cpu = (np.median(bench.rates[over + by]) / np.median(bench.rates[under + by]) for by in ("", "_cpu"))
            bench.row(f"gateway_over_mlserver, {rows} dense", f"{wall:.1f}, of the medians; by CPU time {cpu:.1f}")


def latency_rows(bench, server):
    for rows in (1, 64):
        over, under = f"gateway_latency_{rows}", f"in_process_latency_{rows}"
        bench.alternate(bench.LONG_ROUNDS, requests_of(bench, server, over, "golden", rows, 1, "dense"),
                        in_process(bench, under, rows, "dense"))
        if bench.known(over, under):
            took, own = ([p["p50_ms"] for p in bench.points[name]] for name in (over, under))
            bench.row(f"gateway, one in flight, {rows} a request: p50", f"{bench.middle(took, 2)} ms; the engine in process "
                      f"{bench.middle(own, 2)} ms, so that the goal is {1.3 * float(np.median(own)) + 1:.2f} ms")


def part(bench):
    has_real = os.access(bench.REAL, os.R_OK)
    print(f"\n== gateway: gRPC on these CPUs, beside the engine in process; {'real' if has_real else 'synthetic'} patches",
          flush=True)
    work, random = bench.WORK, np.random.default_rng(3)
    if has_real:
        bench.run(f"{bench.BIN}/wiremill", "cut", "--spec", f"{bench.GOLDEN}/spec.yaml", "--input", bench.REAL,
                  "--patches", f"{work}/real.npy")
    raw(f"{work}/{'real' if has_real else 'synth'}.npy", f"{work}/dense.f4", 2048, random)
    random.uniform(-1, 1, (2048, 48, 48)).astype("f4").tofile(f"{work}/noise.f4")
    do_nothing(f"{work}/nothing.onnx")
    try:
        measure_both(bench)
    except RuntimeError as why:
        raise bench.Failed(str(why)) from None


def measure_both(bench):
    work = bench.WORK
    server = gateway(f"{bench.BIN}/wiremill", work, bench.CPUS,
                   {"golden": f"{work}/model.wmm", "nothing": f"{work}/nothing.onnx"})
    try:
        nothing_rows(bench, server)
        golden_rows(bench, server, "dense", 0.7)
        golden_rows(bench, server, "noise", 0.9)
        latency_rows(bench, server)
    finally:
        server.close()
    peer_rows(bench)
