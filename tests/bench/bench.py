"""bench.py - measures wiremill beside other engines: `make bench`, `make bench ONLY=pipeline`.

RESULTS.md keeps the numbers.

usage: bench.py [kernels] [broker] [ledger] [growth] [engines] [library] [general] [gateway] [pipeline] [elsewhere]  (all)

Every measurement is a list of points as `wiremill bench --json` prints them (schema wiremill-bench-1), and is shown
under the same names: `wiremill bench` itself, and the programs sparse_bench, broker_bench and core_bench.

Nothing that is compared is measured on its own: the things to compare are measured one after another, round after
round, and every second round goes backwards. A rate is the median of its rounds; a ratio is the median of the rounds'
ratios, with the least and the most beside it, so that one slow minute decides nothing. Other engines run with the
batch, streams and threads that a sweep finds best here, just before. Where something fails it is reported once, its
rows are left out, and the exit code is 1.

EVENTS=n (20) synthetic events; FILES=n (3000) files of two patches, GROWTH=n (100000) at most of those of `growth`; FINISHED=n (1000000) events and
RETURNED=n (100000) batches of the ledger; LINK=n (50e6) bytes/s of a link; ROUNDS=n (5; of whole synthetic campaigns and of
noise 3); SECONDS_EACH=s (2) for an engine; WORKERS=n (1) of the gateway. The last thing printed is one table; build/bench.json has the table and
more (of a part: build/bench-part.json).
"""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import bench_gateway
import bench_general

BUILD = os.environ.get("WM_BUILD", "build/release")
BIN, WORK = os.path.abspath(f"{BUILD}/bin"), tempfile.mkdtemp()
PARTS = ("kernels", "broker", "ledger", "growth", "engines", "library", "general", "gateway", "pipeline",
         "elsewhere")
LINK = int(os.environ.get("LINK", 50e6))    # bytes/s
EVENTS = int(os.environ.get("EVENTS", 20))
FILES = int(os.environ.get("FILES", 3000))
GROWTH = int(os.environ.get("GROWTH", 100000))
FINISHED = int(os.environ.get("FINISHED", 1000000))     # events of the ledger's start
RETURNED = int(os.environ.get("RETURNED", 100000))      # batches of it
ROUNDS = int(os.environ.get("ROUNDS", 5))
LONG_ROUNDS = min(3, ROUNDS)
SECONDS = os.environ.get("SECONDS_EACH", "2")
TOO_LONG_S = 600            # of one program
CPUS = len(os.sched_getaffinity(0))
REAL, GOLDEN = "../shared/data/protodune-hd/pdhd_run27409_evt40896_apa1.h5", "../shared/data/golden"
ISAS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_bf16", "amx_int8")

peers, settings = {}, {}    # other engines: what a sweep found; the same as text, by name of what is measured
rates, points = {}, {}      # by name: the rate of each round, None where it failed; the points of all rounds
report, table = {}, []      # bench.json; (what, measured) of the table at the end
failed = set()


# ---- running ---------------------------------------------------------------------------------------

class Failed(Exception):
    pass


def run(*command, env=None):
    """A program's standard output."""
    try:
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=TOO_LONG_S, env={**os.environ, **(env or {})})
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(map(str, command))}: did not end within {TOO_LONG_S} s") from None
    if done.returncode:
        why = " ".join((done.stderr or done.stdout).split())
        raise Failed(f"{os.path.basename(str(command[0]))} exit {done.returncode}: {why[-300:]}")
    return done.stdout


def measured(*command, env=None):
    """The points of a program that prints wiremill-bench-1."""
    whole = json.loads(run(*command, env=env))
    assert whole["schema"] == "wiremill-bench-1", command
    if "not_tested" in whole.get("machine", {}):
        report["not_tested"] = whole["machine"]["not_tested"]
    return whole["points"]


def show(rows):
    """Points as a table, under the names that they have in JSON."""
    cells = [[k for k in rows[0] if k != "bench"]]
    cells += [[str(p.get(k, "-")) for k in cells[0]] for p in rows]
    width = [max(map(len, column)) for column in zip(*cells)]
    for line in cells:
        print("  " + "  ".join(f"{c:>{w}}" for c, w in zip(line, width)), flush=True)


def bench(name, which, source, spec, *options, env=None):
    """One point of `wiremill bench`: hits a second, of the pipeline those of the whole command."""
    points.setdefault(name, []).append(measured(
        f"{BIN}/wiremill", "bench", which, "--quiet", "--json", "-", "--folder", WORK, "--model",
        f"{WORK}/model.{'wmm' if which == 'engine' else 'onnx'}",     # a campaign finds it imported before
        "--input-list" if source.endswith(".list") else "--input", source, "--spec", spec, *options, env=env)[0])
    return points[name][-1]["hits_s" if which == "engine" else "whole_hits_s"]


def engine(name, source, spec, precision, *options, env=None, seconds=SECONDS, threads=CPUS):
    batch = 4096 if "openvino" in options else 16384    # as campaigns of such models take by default
    return name, lambda: bench(name, "engine", source, spec, "--precision", precision, "--batch", batch, "--threads",
                               threads, "--seconds", seconds, "--judged", 200, *options, env=env)


def pipeline(name, source, spec, precision):
    return name, lambda: bench(name, "pipeline", source, spec, "--precision", precision)


def plan(name, source, spec, precision):
    """What wiremill plan, which measures by itself, says of the same run: wall times in a million seconds."""
    def measure():
        d = json.loads(run(f"{BIN}/wiremill", "plan", "--json", "--quiet", "--model", f"{WORK}/model.onnx",
                           "--input", source, "--spec", spec, "--precision", precision))
        points.setdefault(name, []).append(next(t for t in d["times"] if t["on"] == "here"))
        return 1e6 / points[name][-1]["wall_s"]
    return name, measure


def plan_rows(name, whole):
    """Predicted over measured, of the same round: wall time, and the CPU time of engine and producer."""
    if not known(name, whole):
        return
    both = list(zip(points[name], points[whole]))
    for key, each in (("wall", [p["wall_s"] / w["seconds"] for p, w in both]),
                      ("cpu", [p["cpu_s"] / (w["cpu_engine_s"] + w["cpu_producer_s"]) for p, w in both])):
        report[f"{name}_{key}_over_measured"] = round(statistics.median(each), 3)
        row(f"{name}_{key}_over_measured", middle(each, 2))


def peer(name, kind, patches, precision="fp32", env=None):
    """Another engine at its best setting. It computes every patch in full, so that one sweep finds the setting for all
    patches of a size."""
    command = [sys.executable, "tests/bench/peers.py", kind, f"{WORK}/model.onnx", patches, precision]
    key = f"{kind}, {precision}{', held to ' + env['ONEDNN_MAX_CPU_ISA'] if env else ''}"
    if key not in peers:
        try:
            tried = run(*command, 0.3 * float(SECONDS), env=env).splitlines()
        except Failed as why:
            return name, lambda why=why: fail(why)
        setting, _, took, _ = tried[-1].split()
        batch, side, threads = setting.split(",")
        peers[key] = {"setting": setting, "tried": tried, "took": took, "text":
                      f"{took}, batches of {batch}, {side} side by side, {threads} thread{'s' * (threads != '1')}"}
        print(f"{key}: best of {len(tried)} settings: {peers[key]['text']}; the slowest: {tried[0]}", flush=True)
    settings[name] = peers[key]["text"]

    def measure():
        _, rate, _, share = run(*command, SECONDS, peers[key]["setting"], env=env).split()
        if float(share) < 0.95:
            print(f"  {name} had {100 * float(share):.0f} % of the CPUs only: other programs use this machine",
                  flush=True)
        return float(rate)
    return name, measure


def front(name, events):
    """What people do today, whole: h5py, NumPy, ONNX Runtime at its best setting, h5py (front.py)."""
    setting = peers["onnxruntime, fp32"]["setting"] if "onnxruntime, fp32" in peers else "64,1,%d" % CPUS

    def measure():
        hits, seconds = run(sys.executable, "tests/bench/front.py", "score", f"{WORK}/model.onnx", events,
                            f"{WORK}/front.h5", setting).split()
        return float(hits) / float(seconds)
    return name, measure


def fail(why):
    raise why


def alternate(rounds, *things):
    """Measures each thing (name, function) once a round, every second round backwards."""
    for r in range(rounds):
        for name, measure in things if r % 2 == 0 else things[::-1]:
            rate = None
            if name not in failed:
                try:
                    rate = measure()
                    print(f"  {r + 1}/{rounds} {name:34} {rate:12,.1f}", flush=True)
                except Failed as why:
                    failed.add(name)
                    print(f"  {name} failed and is left out: {why}", flush=True)
            rates.setdefault(name, []).append(rate)


# ---- the table -------------------------------------------------------------------------------------

def known(*names):
    return all(None not in rates.get(name, [None]) for name in names)


def middle(values, digits=0):
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def row(what, measured):
    table.append((what, measured))


def rate_row(what, name, more=""):
    if known(name):
        report.setdefault("hits_s", {})[name] = round(statistics.median(rates[name]), 1)
        row(what, f"{middle(rates[name])} hits/s; {more or settings.get(name, '')}".rstrip("; "))


def ratio(key, over, under):
    """Of what was measured in the same rounds; where OpenVINO has no 16 bit here, under another key."""
    if "fast" in under and peers.get("openvino, fast", {}).get("took") == "f32":
        key = key.replace("openvino", "openvino_f32")
    if known(over, under):
        each = [a / b for a, b in zip(rates[over], rates[under])]
        report[key] = round(statistics.median(each), 3)
        report[key + "_range"] = [round(min(each), 3), round(max(each), 3)]
        row(key, middle(each, 2))


def typical(name):
    """The point of the median round."""
    return sorted(points[name], key=lambda p: p.get("whole_hits_s", p["hits_s"]))[len(points[name]) // 2]


def engine_row(what, name):
    if known(name):
        p = typical(name)
        share = f", {100 * p['cpu_peak_share']:.0f} % of peak executed" if "cpu_peak_share" in p else ""
        rate_row(what, name, f"{p['signature']}{share}, from double {p['error']:.1e}")


# ---- parts -----------------------------------------------------------------------------------------

def kernels():
    print("\n== engine alone: every kernel this CPU can run, on straight tracks", flush=True)
    report["kernels"] = measured(f"{BUILD}/bench/sparse_bench", f"{WORK}/model.wmm",
                                 "--threads", f"1,{CPUS}" if CPUS > 1 else "1")
    show(report["kernels"])


def noise():
    """Planes where nothing is zero: against the engine's own dense form, and OpenVINO on the same patches."""
    print("\n== noise: nothing can be skipped", flush=True)
    random, wires, bins, hits = np.random.default_rng(1), 960, 1000, 3000
    image = random.uniform(-1, 1, (wires, bins)).astype("f4")
    hit = np.stack([random.integers(0, wires, hits), random.integers(0, bins, hits)], 1).astype("i4")
    image.tofile(f"{WORK}/noise.f4")
    hit.tofile(f"{WORK}/noise.i4")
    window = np.lib.stride_tricks.sliding_window_view(np.pad(image, 24), (48, 48))
    np.save(f"{WORK}/noise.npy", window[hit[:, 0], hit[:, 1]])

    def ours(name, precision, isa, *options):
        def measure():
            return measured(f"{BUILD}/bench/sparse_bench", f"{WORK}/model.wmm", "--threads", CPUS, "--repeat", 1,
                            "--wires", wires, "--plane", f"{WORK}/noise.f4", "--hitfile", f"{WORK}/noise.i4", *options,
                            env={"WM_ISA": f"{isa}/{precision}"})[0]["best_hits_s"]
        return name, measure

    things = []
    for precision in ("fp32", "fast"):
        _, isa, kind, *_ = chosen(precision).split("/")
        isa = strict_isa() if kind == "fp32" else isa
        things += [ours(f"noise_{precision}", kind, isa), ours(f"noise_{precision}_dense", kind, isa, "--full"),
                   peer(f"noise_openvino_{precision}", "openvino", f"{WORK}/noise.npy", precision)]
    alternate(LONG_ROUNDS, *things)
    for precision, fast in (("fp32", ""), ("fast", "fast_")):
        rate_row(f"noise, {precision}", f"noise_{precision}")
        rate_row(f"noise, {precision}, OpenVINO", f"noise_openvino_{precision}")
        ratio(f"{fast}noise_over_dense_form", f"noise_{precision}", f"noise_{precision}_dense")
        ratio(f"{fast}noise_over_openvino", f"noise_{precision}", f"noise_openvino_{precision}")


def chosen(precision):
    """The signature that this precision takes here, asked of the engine itself once."""
    name = f"chosen_{precision}"
    if name not in points:
        bench(name, "engine", f"{WORK}/one.h5", "protodune-2021", "--precision", precision,
              "--batch", 512, "--hits", 512, "--threads", 1, "--seconds", 0.05)
    report[f"{precision}_engine"] = points[name][0]["signature"]
    return points[name][0]["signature"]


def in_full(precision):
    """With what it takes here."""
    return precision if precision == "fp32" else f"{precision} ({chosen(precision).split('/')[2]})"


def strict_isa():
    """The instruction set that computes fp32 here: its signature names none."""
    sets = report["instruction_sets"]
    return "avx512" if "avx512f" in sets else "avx2" if "avx2" in sets else "c"


def precisions():
    """split where it is something else than fp32 here."""
    return ("fp32", "split", "fast") if chosen("split").split("/")[2] != "fp32" else ("fp32", "fast")


def other_16bit():
    """WM_ISA of the 16-bit form that fast did not take; None: this CPU has no other."""
    has = report["instruction_sets"]
    if report["fast_took"] != "int16":
        return "avx512-vnni/int16" if "avx512_vnni" in has and report["fast_took"] == "bf16" else None
    return "amx/bf16" if "amx_bf16" in has else "avx512/bf16" if "avx512_bf16" in has else None


PYTHON = """
import sys, time, numpy as np, wiremill
model, least = wiremill.Model(sys.argv[1]), float(sys.argv[3])
patches = np.resize(np.fromfile(sys.argv[2], "f4").reshape(-1, *model.shape), (10000, *model.shape))
model.score(patches[:512])
start, n = time.process_time(), 0
while not n or time.process_time() - start < least:
    n += len(model.score(patches))
print(n / (time.process_time() - start))
"""


def library():
    """Calls of libwiremill, 256 dense patches each, against the engine that they reach, by CPU time."""
    print("\n== libwiremill: calls of 256 dense patches, one thread and eight, and the engine alone", flush=True)
    patches = np.load(f"{WORK}/synth.npy", mmap_mode="r")[:5120]
    np.nan_to_num(patches).astype("f4").tofile(f"{WORK}/library.f4")

    def rate(which):
        return which, lambda: measured(f"{BUILD}/bench/lib_bench", which, f"{WORK}/model.wmm", f"{WORK}/library.f4",
                                       SECONDS)[0]["hits_s"]

    def python():
        """One call of 10,000 patches, by the package of ops/python."""
        return float(run(sys.executable, "-c", PYTHON, f"{WORK}/model.wmm", f"{WORK}/library.f4", SECONDS, env={
            "PYTHONPATH": "ops/python", "WIREMILL_LIBRARY": f"{BUILD}/lib/libwiremill.so.1"}))

    alternate(ROUNDS, rate("engine"), rate("calls"), rate("eight"), ("python", python))
    for name, what in (("engine", "dense patches, one thread: the engine alone"),
                       ("calls", "... libwiremill, 256 a call"), ("eight", "... by eight threads on one handle"),
                       ("python", "... by the Python package, 10,000 a call")):
        if known(name):
            row(what, f"{middle(rates[name])} hits a second of CPU time")
    ratio("library_over_engine (goal 0.95)", "calls", "engine")
    ratio("library_eight_threads_over_one", "eight", "calls")
    ratio("python_over_library (goal 0.9)", "python", "calls")


def broker_point(*options):
    """Of broker_bench, which prints one point."""
    shutil.rmtree(f"{WORK}/broker", ignore_errors=True)
    return json.loads(run(f"{BUILD}/bench/broker_bench", f"{WORK}/broker", "--json", *options))


def ledger():
    print(f"\n== ledger: {FINISHED:,} finished events, {RETURNED:,} returned batches, and a million hits", flush=True)
    starts = [broker_point("--finished", -(-FINISHED // 1000), "--returned", RETURNED, "--hits", 1) for _ in range(LONG_ROUNDS)]
    hits = [broker_point("--returned", 1000, "--hits", 1000) for _ in range(LONG_ROUNDS)]
    show(starts + hits)
    of = lambda points, name, digits: middle([p[name] for p in points], digits)
    row(f"ledger: start on {FINISHED:,} events, {RETURNED:,} batches", f"serves after {of(starts, 'serves_s', 2)} s; after "
        f"{of(starts, 'rebuilt_serves_s', 2)} s where the ledger is made again from the journal")
    row(f"... a commit of {starts[0]['commit_records']:,} records", f"{of(starts, 'commit_ms', 1)} ms; the longest "
        f"{max(p['commit_most_ms'] for p in starts):.1f} ms of {starts[0]['commits']}; ledger {starts[0]['ledger_mb']:.0f} MB")
    row("... a million hits in 1,000 results", f"journaled and committed in {of(hits, 'returned_s', 2)} s; journal "
        f"{hits[0]['journal_mb']:.0f} MB, ledger {hits[0]['ledger_mb']:.1f} MB")


def broker():
    def beside(name, idle, hostile=False):
        def measure():
            flood = subprocess.Popen(["nice", "-n", "19", f"{BUILD}/tests/fault/hostile",
                                      f"ipc://{WORK}/broker/b", "600"],
                                     stdout=subprocess.DEVNULL) if hostile else None
            try:
                p = broker_point("--batches", 200000, "--task", 100, "--hits", 1, "--idle", idle)
            finally:
                if flood:
                    flood.kill()
                    flood.wait()
            rates.setdefault(name + "_cpu", []).append(p["cpu_broker_s"] / p["batches_s"] / p["seconds"] * 1e6)
            points.setdefault(name, []).append(p)
            return p["batches_s"]
        return name, measure

    print("\n== broker: 100 KB tasks, 16 KB results, workers that do no work", flush=True)
    batches = os.environ.get("BATCHES", 20000)
    p = broker_point("--batches", batches, "--task", 102400, "--hits", 960, "--workers", 2, "--resume")
    show([p])
    row("broker: 100 KB tasks, 16 KB results", f"{p['batches_s']:,.0f} batches/s committed and acknowledged")
    row(f"... killed with {int(batches):,} returned", f"serves after {p['serves_s']:.2f} s, its worker is back after "
        f"{p['worker_back_s']:.2f} s")
    print("\n== broker: tasks and results of no size, alone, beside idle connections, and beside hostile peers",
          flush=True)
    alternate(ROUNDS, beside("idle_0", 0), beside("idle_10", 10), beside("idle_500", 500), beside("hostile", 0, True))
    for name, what in (("idle_0", "broker: tasks of no size"), ("idle_10", "... beside 10 idle connections"),
                       ("idle_500", "... beside 500 idle connections"), ("hostile", "... beside hostile peers")):
        if known(name):
            p = sorted(points[name], key=lambda p: p["batches_s"])[len(points[name]) // 2]
            row(what, f"{middle(rates[name])} batches/s, "
                f"{statistics.median(rates[name + '_cpu']):.2f} us of the broker's CPU "
                f"each; acknowledged after {p['p50_ms']:.1f} ms (median), {p['p99_ms']:.1f} (99 of 100)")
    ratio("broker_500_idle_over_10", "idle_500", "idle_10")
    ratio("broker_hostile_over_alone", "hostile", "idle_0")
    ratio("broker_hostile_cpu_over_alone", "hostile_cpu", "idle_0_cpu")
    encrypted_broker()
    print("\n== broker: 100,000 inputs, 1e8 hits announced", flush=True)
    p = broker_point("--announced", os.environ.get("INPUTS", 100000), "--hits", 1000)
    show([p])
    row(f"broker: {p['announced']:,} inputs, {p['hits']:.0e} hits announced",
        f"status after {p['announced_status_ms']:.1f} ms (median; at most {p['announced_status_most_ms']:.1f}; "
        f"{p['announced_status_cpu_ms']:.1f} of CPU), {p['announced_memory_mb']:.0f} MB; killed, it serves after "
        f"{p['serves_s']:.2f} s, status after {p['started_status_ms']:.1f} ms, {p['started_memory_mb']:.0f} MB")
    print("\n== wm_core alone: batches a second it decides, 100,000 events announced", flush=True)
    report["core"] = measured(f"{BUILD}/bench/core_bench")
    show(report["core"])
    row("wm_core alone, " + " / ".join(f"{p['workers']:,}" for p in report["core"]) + " workers", " / ".join(
        f"{p['batches_s'] / 1e6:.1f}" for p in report["core"]) + " million batches/s decided")


def encrypted_broker():
    """The broker over TCP, with keys and encryption and without, and beside handshakes by an unknown key."""
    print("\n== broker over TCP: 100 KB tasks, 16 KB results, with keys (CURVE) and without, beside a handshake storm",
          flush=True)
    batches = int(os.environ.get("BATCHES", 20000)) // 4

    def over(name, *options):
        def measure():
            p = broker_point("--batches", batches, "--task", 102400, "--hits", 960, "--workers", 2, *options)
            n = p["batches_s"] * p["seconds"]
            rates.setdefault(name + "_cpu", []).append((p["cpu_broker_s"] + p["cpu_clients_s"]) / n * 1e6)
            points.setdefault(name, []).append(p)
            return p["batches_s"]
        return name, measure

    alternate(LONG_ROUNDS, over("tcp", "--tcp"), over("keys", "--keys"), over("storm", "--keys", "--storm", 1000))
    for name, what in (("tcp", "broker over TCP"), ("keys", "... with keys (CURVE; goal 1,500)"),
                       ("storm", "... beside 1,000 handshakes/s by an unknown key, lowest priority")):
        if known(name):
            cpu = statistics.median(rates[name + "_cpu"])
            more = (f"; {statistics.median(p['handshakes_s'] for p in points[name]):,.0f} handshakes/s were refused"
                    if name == "storm" else "")
            row(what, f"{middle(rates[name])} batches/s; {cpu:,.0f} us of CPU each, broker and peers: two cores of their "
                f"own do {2e6 / cpu:,.0f} a second{more}")
    ratio("broker_keys_over_plain", "keys", "tcp")
    ratio("broker_keys_cpu_over_plain", "keys_cpu", "tcp_cpu")
    ratio("broker_storm_over_keys (goal 0.8)", "storm", "keys")


def encrypted():
    """A whole campaign over TCP, with keys and encryption and without: broker, worker and producer by hand."""
    print(f"\n== {EVENTS} synthetic events over TCP on loopback: with keys (CURVE) and without", flush=True)
    for precision in precisions():
        names = f"plain_{precision}", f"curve_{precision}"
        alternate(LONG_ROUNDS, by_hand(names[0], precision, "--insecure"), by_hand(names[1], precision, "--keys"))
        for name, what in zip(names, ("without keys", "with keys")):
            if known(name):
                row(f"campaign over TCP, {precision}, {what}", f"{middle(rates[name])} hits/s; "
                    f"{statistics.median(rates[name + '_cpu']):.2f} us of CPU a hit, all processes")
        ratio(f"{precision}_curve_over_plain (goal 0.97)", names[1], names[0])
        ratio(f"{precision}_curve_cpu_over_plain (goal 1.03)", names[1] + "_cpu", names[0] + "_cpu")


def by_hand(name, precision, *options):
    wiremill, out = f"{BIN}/wiremill", f"{WORK}/by-hand"

    def start(*command):
        return subprocess.Popen([wiremill, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def used(process, stop):
        """CPU seconds of it and its children, when it has ended."""
        if stop:
            process.terminate()
        why = process.stderr.read().decode(errors="replace")
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 75):
            raise Failed(f"{name}: exit {process.returncode}: {' '.join(why.split())[-300:]}")
        return usage.ru_utime + usage.ru_stime

    def measure():
        for folder in (out, f"{out}.wiremill"):
            shutil.rmtree(folder, ignore_errors=True)
        running = [start("broker", "--model", f"{WORK}/model.wmm", "--output", out, "--precision", precision,
                         "--listen", "tcp://127.0.0.1:0", *options)]
        try:
            until = time.time() + 60
            while not os.path.exists(f"{out}.wiremill/endpoint.json"):
                if running[0].poll() is not None or time.time() > until:
                    raise Failed(f"{name}: no broker")
                time.sleep(0.02)
            began = time.time()
            running.append(start("work", out, "--threads", CPUS, "--cache", f"{WORK}/cache"))
            running.append(start("produce", "--campaign", out, "--quiet", "--input", f"{WORK}/events.h5"))
            cpu = used(running.pop(), False)
            took = time.time() - began
            hits = json.loads(run(wiremill, "status", "--json", out))["hits"]["done"]
            while running:
                cpu += used(running.pop(), True)
        finally:
            for process in running:
                process.kill()
                process.wait()
        rates.setdefault(name + "_cpu", []).append(cpu / hits * 1e6)
        return hits / took
    return name, measure


def synthetic(with_peers):
    """The synthetic events: engine, whole command and other engines, on the same hits."""
    print(f"\n== {EVENTS} synthetic events: the engine alone, the whole command, other engines", flush=True)
    events, things = f"{WORK}/events.h5", []
    for precision in precisions():
        long = f"{min(40, (1.3 if precision == 'fast' else 1.7) * EVENTS):.1f}"     # here it sees all of them once
        things += [engine(f"synth_{precision}", events, "protodune-2021", precision, seconds=long),
                   pipeline(f"pipeline_{precision}", events, "protodune-2021", precision)]
        if precision != "split":
            things.append(plan(f"plan_{precision}", events, "protodune-2021", precision))
        if with_peers and precision != "split":
            things.append(peer(f"openvino_synth_{precision}", "openvino", f"{WORK}/synth.npy", precision))
    alternate(LONG_ROUNDS, *things)
    for precision in precisions():
        fast = "" if precision == "fp32" else precision + "_"
        other = "openvino_synth_fast" if precision == "fast" else "openvino_synth_fp32"
        engine_row(f"synthetic, {in_full(precision)}, engine alone", f"synth_{precision}")
        if known(f"pipeline_{precision}"):
            p = typical(f"pipeline_{precision}")
            rate_row(f"synthetic, {precision}, whole command", f"pipeline_{precision}",
                     f"{p['seconds']:.1f} s for {p['hits']:,.0f} hits, {p['hits_s']:,.0f} hits/s while there was work")
        rate_row(f"synthetic, {precision}, OpenVINO", f"openvino_synth_{precision}")
        plan_rows(f"plan_{precision}", f"pipeline_{precision}")
        ratio(f"{fast}pipeline_over_engine", f"pipeline_{precision}", f"synth_{precision}")
        ratio(f"{precision}_over_openvino_synth", f"synth_{precision}", other)
        if known(f"pipeline_{precision}", f"synth_{precision}"):
            edges(f"{fast}pipeline", f"pipeline_{precision}", f"synth_{precision}")
            profile(precision, typical(f"pipeline_{precision}"), typical(f"synth_{precision}"))


def small_files(count):
    """Files of two patches each, as many as are not there yet."""
    os.makedirs(f"{WORK}/small", exist_ok=True)
    patches = np.load(f"{WORK}/synth.npy", mmap_mode="r")
    for i in range(len(os.listdir(f"{WORK}/small")), count):
        at = 2 * i % (len(patches) - 1)
        np.save(f"{WORK}/small/{i:06}.npy", np.nan_to_num(patches[at:at + 2]))


def powers(first, last):
    return [10 ** k for k in range(1, 10) if first <= 10 ** k <= last]


def growth():
    """What a file, a batch and a worker cost as there are more of them."""
    print(f"\n== growth: files of two patches, 10 to {GROWTH:,}; batches, and connected workers", flush=True)
    for n in powers(10, GROWTH):
        small_files(n)
        bench(f"growth_{n}", "pipeline", f"{WORK}/small/*.npy", "protodune-2021", "--precision", "fp32")
        p, waits = points[f"growth_{n}"][-1], broker_point("--announced", n, "--hits", 2)
        each = ", ".join(f"{who} {p[f'cpu_{who}_s'] / n * 1e3:.2f}" for who in ("producer", "broker", "worker", "engine"))
        row(f"growth: {n:,} files", f"{n / p['seconds']:,.0f} files/s; ms of CPU a file: {each}; producer "
            f"{p['memory_producer_mb']:.0f} MB, broker {p['memory_broker_mb']:.0f} MB; all announced and none scored: broker "
            f"{waits['announced_memory_mb']:.0f} MB, status {waits['announced_status_ms']:.1f} ms")
    shutil.rmtree(f"{WORK}/small")
    for what, least, option, other in (("batches", 1000, "--batches", ("--idle", 0)),
                                       ("connected workers", 10, "--idle", ("--batches", 200000))):
        for n in powers(least, 1000000 if option == "--batches" else 1000):
            p = broker_point(option, n, *other, "--task", 100, "--hits", 1)
            row(f"growth: {n:,} {what}", f"{p['batches_s']:,.0f} batches/s; "
                f"{p['cpu_broker_s'] / p['batches_s'] / p['seconds'] * 1e6:.2f} us of the broker's CPU a batch; acknowledged "
                f"after {p['p50_ms']:.1f} ms (median)")


def small():
    """Many small files: what a file costs each process, whatever is in it."""
    print(f"\n== {FILES} files of two patches: the whole command", flush=True)
    small_files(FILES)
    alternate(LONG_ROUNDS, pipeline("small", f"{WORK}/small/*.npy", "protodune-2021", "fp32"))
    shutil.rmtree(f"{WORK}/small")
    if known("small"):
        p = typical("small")
        each = {who: p[f"cpu_{who}_s"] / FILES * 1e3 for who in ("producer", "broker", "worker", "engine", "run")}
        report["small_files_s"] = round(statistics.median(FILES / p["seconds"] for p in points["small"]), 1)
        report["small_files_cpu_ms"] = {who: round(ms, 3) for who, ms in each.items()}
        row(f"{FILES:,} files of two patches",
            f"{middle([FILES / p['seconds'] for p in points['small']])} files/s; CPU a file: "
            + ", ".join(f"{who} {ms:.2f} ms" for who, ms in each.items()))


def layouts():
    """The same events as OpenSamples, whose waveforms are dense and packed by gzip: the whole command over its engine,
    and over what people do today."""
    print(f"\n== {EVENTS} synthetic events as OpenSamples: the whole command, its engine, and "
          "h5py + NumPy + ONNX Runtime",
          flush=True)
    with open(f"{WORK}/none.yaml", "w") as f:
        f.write("lifetime: none\n")
    for name in ("events", "one"):
        run(sys.executable, "tests/bench/front.py", "opensamples", f"{WORK}/{name}.h5", f"{WORK}/{name}-open.h5")
    peer("front", "onnxruntime", f"{WORK}/synth.npy")   # finds the best setting
    events, spec, things = f"{WORK}/events-open.h5", f"{WORK}/none.yaml", []
    for precision in precisions():
        long = f"{min(40, (1.3 if precision == 'fast' else 1.7) * EVENTS):.1f}"
        things += [engine(f"open_engine_{precision}", events, spec, precision, seconds=long),
                   pipeline(f"open_{precision}", events, spec, precision)]
    alternate(LONG_ROUNDS, *things, front("front", f"{WORK}/one-open.h5"))
    rate_row("OpenSamples, h5py + NumPy + ONNX Runtime, whole", "front")
    for precision in precisions():
        rate_row(f"OpenSamples, {precision}, whole command", f"open_{precision}")
        ratio(f"open_{precision}_over_engine", f"open_{precision}", f"open_engine_{precision}")
        ratio(f"open_{precision}_over_front", f"open_{precision}", "front")
        if known(f"open_{precision}", f"open_engine_{precision}"):
            edges(f"open_{precision}", f"open_{precision}", f"open_engine_{precision}")
            profile(f"open_{precision}", typical(f"open_{precision}"), typical(f"open_engine_{precision}"))


def elsewhere():
    """The same files here, and behind an xrootd server on a slow link, copied ahead while others are scored."""
    print(f"\n== {EVENTS} synthetic events in files of about 5, here and behind xrootd, {LINK / 1e6:.0f} MB/s", flush=True)
    if not all(map(shutil.which, ("xrootd", "xrdcp", "xrdfs"))):
        print("no xrootd-server or xrootd-client here: these rows are left out")
        return
    port = 16000 + os.getpid() % 1000 * 16
    data = f"{WORK}/data"
    os.mkdir(data)
    os.chmod(WORK, 0o755)
    n_file = max(2, EVENTS // 5)
    for i in range(n_file):
        run(f"{BIN}/wiremill", "synth", "--events", max(1, EVENTS // n_file), "--seed", i + 1, "--output", f"{WORK}/file.h5")
        run(sys.executable, "tests/bench/front.py", "opensamples", f"{WORK}/file.h5", f"{data}/{i:03}.h5")
        os.chmod(f"{data}/{i:03}.h5", 0o644)
    names = sorted(os.listdir(data))
    for name, where in (("here", data), ("staged", f"root://127.0.0.1:{port + 1}//data")):
        with open(f"{WORK}/{name}.list", "w") as f:
            f.writelines(f"{where}/{n}\n" for n in names)
    with open(f"{WORK}/none.yaml", "w") as f:
        f.write("lifetime: none\n")
    os.mkdir(f"{WORK}/admin", 0o777)
    os.chmod(f"{WORK}/admin", 0o777)
    with open(f"{WORK}/xrootd.cfg", "w") as f:
        f.write(f"all.role server\nall.export /data r/o\noss.localroot {WORK}\nxrd.port {port}\n"
                f"xrd.allow host localhost\nxrd.allow host 127.0.0.1\nxrootd.chksum adler32\n"
                f"all.adminpath {WORK}/admin\nall.pidpath {WORK}/admin\n")
    as_user = ["-R", "nobody"] if os.getuid() == 0 else []
    quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    servers = [subprocess.Popen(["xrootd", *as_user, "-c", f"{WORK}/xrootd.cfg", "-l", f"{WORK}/admin/log"], **quiet),
               subprocess.Popen([sys.executable, "tests/fault/elsewhere.py", "slow", str(port + 1), str(port), str(LINK)],
                                **quiet)]
    try:
        until, first = time.time() + 30, f"root://127.0.0.1:{port + 1}//data/{names[0]}"
        while subprocess.run(["xrdcp", "--nopbar", "--force", first, f"{WORK}/probe"], **quiet,
                             env={**os.environ, "XRD_CONNECTIONWINDOW": "1", "XRD_CONNECTIONRETRY": "1"}).returncode:
            if time.time() > until:
                raise Failed("xrootd does not serve")
        began = time.time()
        run("xrdcp", "--nopbar", "--force", first, f"{WORK}/probe")
        link = os.path.getsize(f"{WORK}/probe") / (time.time() - began)
        spec, pairs = f"{WORK}/none.yaml", []
        for name in ("here", "staged"):
            pairs.append((f"files_{name}", lambda name=name: bench(f"files_{name}", "pipeline", f"{WORK}/{name}.list", spec,
                                                                   "--precision", "fp32")))
        alternate(ROUNDS, *pairs)
    finally:
        for server in servers:
            server.kill()
            server.wait()
    if known("files_here", "files_staged"):
        here, staged = points["files_here"], points["files_staged"]
        for name, what in (("here", "here"), ("staged", f"behind xrootd, {LINK / 1e6:.0f} MB/s")):
            rate_row(f"OpenSamples in {len(names)} files, {what}", f"files_{name}")
        ratio("staged_over_here", "files_staged", "files_here")
        scoring = lambda p: p["seconds"] - p["lead_s"] - p["tail_s"]
        gaps = [scoring(s) / scoring(h) for s, h in zip(staged, here)]
        report["staged_while_scoring"] = round(statistics.median(gaps), 3)
        row("... time from the first hits to the last, staged over here", middle(gaps, 3))
        cpu = lambda p: sum(p[f"cpu_{who}_s"] for who in ("engine", "producer", "worker", "broker", "run"))
        used = [cpu(s) / cpu(h) for s, h in zip(staged, here)]
        report["staged_cpu_over_here"] = round(statistics.median(used), 3)
        row("... CPU time of all processes of ours, staged over here", middle(used, 3))
        row("... scoring begins later by", f"{middle([(s['lead_s'] - h['lead_s']) * 1e3 for s, h in zip(staged, here)])} ms")
        total = sum(os.path.getsize(f"{data}/{n}") for n in names) / 1e6
        needs = [total / cpu(h) * CPUS for h in here]       # other programs on this machine do not change it much
        report["staged_link_over_need"] = round(link / 1e6 / statistics.median(needs), 1)
        row("... what is scored by all CPUs, and what xrdcp copies",
            f"{middle(needs, 1)} MB/s of CPU time, {link / 1e6:.0f} MB/s for one file with its start; {total:.0f} MB in all")


def edges(key, whole, alone):
    """How the whole command starts and ends, and its engine's CPU time for a hit over that of all its processes: other
    programs on this machine change wall times, and CPU times much less."""
    begin, end, run = ([p[name] * 1e3 for p in points[whole]] for name in ("lead_s", "tail_s", "cpu_run_s"))
    shares = [a["cpu_s"] / a["hits"] * p["hits"] / sum(p[f"cpu_{k}_s"] for k in ("engine", "producer", "worker",
                                                                                "broker", "run"))
              for a, p in zip(points[alone], points[whole])]
    report[f"{key}_first_hit_ms"], report[f"{key}_end_ms"] = (round(statistics.median(v)) for v in (begin, end))
    report[f"{key}_over_engine_cpu"] = round(statistics.median(shares), 3)
    row(f"{key}_over_engine_cpu", middle(shares, 2))
    row("... scoring begins after, last result to exit", f"{middle(begin)} ms, {middle(end)} ms; wiremill itself "
        f"{statistics.median(run):.0f} ms of CPU")


def profile(name, whole, alone):
    """What the whole command spends its time on, beyond that of the engine alone."""
    hits, n = whole["hits"], CPUS
    engine_s, engine_cpu = hits / alone["hits_s"], hits * alone["cpu_s"] / alone["hits"]
    cpu = {k: whole[f"cpu_{k}_s"] for k in ("engine", "producer", "worker", "broker", "run")}
    idle = n * whole["seconds"] - sum(cpu.values())
    idle_alone = n * engine_s - engine_cpu
    per = lambda seconds: f"{seconds / n / engine_s * 100:.1f} %"
    report[f"{name}_profile"] = {
        "whole_s": whole["seconds"], "engine_s": engine_s, "engine_alone_cpu_s": engine_cpu, "idle_cpu_s": idle,
        "lead_s": whole["lead_s"], "tail_s": whole["tail_s"], **{f"cpu_{k}_s": v for k, v in cpu.items()}}
    row(f"profile, {name}: {whole['seconds']:.1f} s, engine alone {engine_s:.1f} s",
        f"{(whole['seconds'] / engine_s - 1) * 100:.1f} % more: "
        f"producer {per(cpu['producer'])}, broker and its journal "
        f"{per(cpu['broker'])}, worker {per(cpu['worker'])}, command {per(cpu['run'])}, the engine's own CPU "
        f"{per(cpu['engine'] - engine_cpu)} more than alone, waiting {per(idle - idle_alone)} more")
    row("... of it nothing is scored", f"{whole['lead_s']:.2f} s at the start (processes, model, first event), "
        f"{whole['tail_s']:.2f} s at the end (last results, files, processes)")
    row("... memory", ", ".join(f"{who} {whole[f'memory_{who}_mb']:.0f} MB"
                                for who in ("engine", "worker", "broker", "producer"))
        + " at most (a worker's engine process has the model mapped)")
    if "idle_share" in whole:
        report[f"{name}_profile"]["idle_share"] = whole["idle_share"]
        row("... the engine's threads, while they have a batch", f"idle {100 * whole['idle_share']:.1f} % (goal 4)")
    row("... a batch", f"queue {whole['queue_ms']:.0f} ms, stage {whole['stage_ms']:.2f}, "
        f"compute {whole['compute_ms']:.0f}, "
        f"commit {whole['commit_ms']:.1f}")


def real():
    """The event of ../shared: every engine, ours and others."""
    print("\n== the real event: our engine and others", flush=True)
    spec, isa = f"{GOLDEN}/spec.yaml", other_16bit()
    with open(spec) as f, open(f"{WORK}/own.yaml", "w") as own:
        own.write(re.sub(r"(?m)^view:.*", "view: own", f.read()))
    run(f"{BIN}/wiremill", "cut", "--spec", spec, "--input", REAL, "--patches", f"{WORK}/real.npy")
    more = []
    if strict_isa() == "avx512":
        more += [engine("real_fp32_avx2", REAL, spec, "fp32", env={"WM_ISA": "avx2"}),
                 peer("openvino_real_fp32_avx2", "openvino", f"{WORK}/real.npy", env={"ONEDNN_MAX_CPU_ISA": "AVX2"})]
    if isa:
        more.append(engine("real_other_16bit", REAL, spec, "fast", env={"WM_ISA": isa}))
    if CPUS > 2:
        more.append(engine("real_fp32_two_threads", REAL, spec, "fp32", threads=2))
    alternate(ROUNDS, *more,
            engine("real_fp32", REAL, spec, "fp32"),
            peer("openvino_real_fp32", "openvino", f"{WORK}/real.npy"),
            peer("onnxruntime_real", "onnxruntime", f"{WORK}/real.npy"),
            engine("real_fp32_one_thread", REAL, spec, "fp32", threads=1),
            *([engine("real_split", REAL, spec, "split")] if "split" in precisions() else []),
            engine("real_fast", REAL, spec, "fast"),
            peer("openvino_real_fast", "openvino", f"{WORK}/real.npy", "fast"),
            engine("own_fp32", REAL, f"{WORK}/own.yaml", "fp32"),
            pipeline("whole_real", REAL, spec, "fp32"),
            pipeline("whole_own", REAL, f"{WORK}/own.yaml", "fp32"))
    engine_row("real event, fp32, engine alone", "real_fp32")
    engine_row("real event, fp32, one thread", "real_fp32_one_thread")
    engine_row(f"real event, {in_full('split')}, engine alone", "real_split")
    engine_row(f"real event, {in_full('fast')}, engine alone", "real_fast")
    engine_row(f"real event, {str(isa).split('/')[-1]} instead, engine alone", "real_other_16bit")
    engine_row("real event, fp32, held to AVX2", "real_fp32_avx2")
    engine_row("real event, own view, fp32, engine alone", "own_fp32")
    for name, what in (("openvino_real_fp32_avx2", "fp32, OpenVINO, held to AVX2"),
                       ("openvino_real_fp32", "fp32, OpenVINO"), ("openvino_real_fast", "fast, OpenVINO"),
                       ("onnxruntime_real", "fp32, ONNX Runtime")):
        rate_row(f"real event, {what}", name)
    for name, what in (("whole_real", "whole command"), ("whole_own", "own view, whole command")):
        if known(name):
            report[f"{name}_seconds"] = round(statistics.median(p["seconds"] for p in points[name]), 3)
            row(f"real event, fp32, {what}", f"{middle([p['seconds'] for p in points[name]], 2)} s, "
                f"{typical(name)['bytes_per_event'] / 1e6:.2f} MB to workers")
    for key, over, under in (("fp32_over_openvino_real", "real_fp32", "openvino_real_fp32"),
                             ("split_over_openvino_fp32_real", "real_split", "openvino_real_fp32"),
                             ("fast_over_openvino_real", "real_fast", "openvino_real_fast"),
                             ("other_16bit_over_openvino_real", "real_other_16bit", "openvino_real_fast"),
                             ("avx2_fp32_over_openvino_real", "real_fp32_avx2", "openvino_real_fp32_avx2"),
                             ("fp32_over_onnxruntime_real", "real_fp32", "onnxruntime_real")):
        ratio(key, over, under)
    ratio("threads2_over_1", "real_fp32" if CPUS == 2 else "real_fp32_two_threads", "real_fp32_one_thread")


def precision():
    """Every score of the real event against NumPy in double (../shared), by the whole command."""
    print("\n== the real event: largest difference of a score from double", flush=True)
    tool, stem = os.path.abspath("../shared/tools/make_golden.py"), os.path.basename(REAL)[:-3]
    run("env", "-C", WORK, sys.executable, tool, "--model", "golden.onnx")
    want = np.load(f"{GOLDEN}/{stem}.npz")["scores"]
    sys.dont_write_bytecode = True
    sys.path.insert(0, "tests/golden")
    from golden import table as scores
    ways = [(p, p, None) for p in precisions()] + [("other_16bit", "fast", other_16bit())]
    for name, precision, isa in ways:
        if isa or name != "other_16bit":
            run(f"{BIN}/wiremill", "run", "--quiet", "--precision", precision, "--model", f"{WORK}/golden.onnx",
                "--input", REAL, "--spec", f"{GOLDEN}/spec.yaml", "--output", f"{WORK}/out-{name}",
                env={"WM_ISA": isa} if isa else None)
            off = np.abs(scores(f"{WORK}/out-{name}/{stem}.scores.h5") - want).max()
            report[f"{name}_from_double"] = float(f"{off:.2g}")
            row(f"real event, {isa.split('/')[1] if isa else in_full(precision)}, from double",
                f"{off:.1e}, the largest of {want.size:,} scores")


# ---- together --------------------------------------------------------------------------------------

def machine():
    with open("/proc/cpuinfo") as f:
        text = f.read()
    flags = re.search(r"(?m)^flags\s*: (.*)", text)[1].split()
    report["cpu"] = re.search(r"(?m)^model name\s*: (.*)", text)[1]
    report["cpus"], report["instruction_sets"] = CPUS, [i for i in ISAS if i in flags]
    report["commit"] = run("git", "describe", "--always", "--dirty").strip()
    report["date"] = run("date", "+%F").strip()
    report["machine"] = f"{CPUS} CPUs of {report['cpu']}, {' '.join(report['instruction_sets'])}"
    print(f"machine: {report['machine']}\ncommit:  {report['commit']}  date: {report['date']}", flush=True)


def prepare():
    run(f"{BIN}/wiremill", "model", "new", "emtrkmichel", "--seed", 1, "-o", f"{WORK}/model.onnx")
    run(f"{BIN}/wiremill", "import", f"{WORK}/model.onnx", "-o", f"{WORK}/model.wmm")
    for name, events in (("events", EVENTS), ("one", 1)):
        run(f"{BIN}/wiremill", "synth", "--events", events, "--seed", 1, "--output", f"{WORK}/{name}.h5")
    run(f"{BIN}/wiremill", "cut", "--spec", "protodune-2021", "--input", f"{WORK}/one.h5",
        "--patches", f"{WORK}/synth.npy")
    for precision in ("fp32", "split"):
        chosen(precision)
    report["fast_took"] = chosen("fast").split("/")[2]
    report["isa"] = strict_isa()


def finish(part):
    for precision in precisions():
        for name in (f"synth_{precision}", f"real_{precision}"):
            if known(name) and name in points and "cpu_peak_share" in points[name][0]:
                report[f"{name}_share_of_peak"] = round(typical(name)["cpu_peak_share"], 3)
    report["left_out"], report["other_engines"], report["table"] = sorted(failed), peers, table
    path = "build/bench-part.json" if part else "build/bench.json"
    with open(path, "w") as f:
        json.dump(report, f, indent=1)
        f.write("\n")
    print(f"\n== {report['machine']}; fp32 is {chosen('fp32')} by {report['isa']}, split {chosen('split')}, "
          f"fast {chosen('fast')};\n"
          f"   commit {report['commit']}, {report['date']}; "
           f"medians, in brackets the least and the most; also in {path}")
    width = max(len(what) for what, _ in table) if table else 0
    for what, measured in table:
        print(f"{what:{width}}  {measured}")
    for name in sorted(failed):
        print(f"{name:{width}}  failed, left out")
    if report["not_tested"]:
        print(f"not tested here, this CPU cannot run them: {report['not_tested']}")


def main(parts):
    if set(parts) - set(PARTS):
        sys.exit(__doc__)
    wants = lambda *names: not parts or set(names) & set(parts)
    has_real = os.access(REAL, os.R_OK)
    machine()
    prepare()
    try:
        for part, wanted in ((kernels, wants("kernels")), (noise, wants("kernels")), (broker, wants("broker")),
                             (ledger, wants("ledger")), (growth, wants("growth")),
                             (library, wants("library")),
                             (lambda: bench_general.part(sys.modules[__name__]), wants("general")),
                             (lambda: bench_gateway.part(sys.modules[__name__]), wants("gateway")),
                             (lambda: synthetic(wants("engines")), wants("engines", "pipeline")),
                             (encrypted, wants("pipeline")), (layouts, wants("pipeline")), (small, wants("pipeline")),
                             (elsewhere, wants("elsewhere")),
                             (real, wants("engines") and has_real), (precision, wants("engines") and has_real)):
            try:
                wanted and part()
            except Failed as why:
                failed.add(part.__name__)
                print(f"the rest of this part is left out: {why}", flush=True)
    except KeyboardInterrupt:
        failed.add("stopped: what was not yet measured")
        parts = parts or ["some"]
    if wants("engines") and not has_real:
        print("no ../shared here: the real event's rows are left out")
    finish(bool(parts))
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except Failed as why:
        code = f"make bench: {why}"
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    sys.exit(code)
