"""onnxsuite.py - ONNX's own backend tests, as tests of wiremill: each case gives the suite's outputs or is refused by name.

usage: onnxsuite.py [--all | --drawn N --wrong] [--seed TEXT] [--jobs N] [--results FILE.json] [NAME...]
                       all cases; or N that the seed draws (by default the commit), those of onnxwrong.txt, and those named
       onnxsuite.py --record           runs all cases and writes onnxpassed.txt, the cases that must go on passing
       onnxsuite.py --peer onnxruntime|openvino      runs all cases by that package; --all prints its column from then on
Environment: WM_BUILD (build/release), PYTHONPATH with ops/python (and openvino for --peer openvino).

A case is imported, by a process (`wiremill import`; with --whole where the first refuses), and scored by libwiremill. What that
does not take (free dimensions, values that are not finite, no float32) goes through a gateway, which loads the model, answers
one request and unloads it. The judge is the suite: its outputs, with the tolerances of its own runner; types aside, since the
library's scores are float32; of FP16 and smaller floating-point types one step of the type more, of BF16 two, as
there; of floating-point outputs a millionth of the largest value.
"""
import argparse
import atexit
import collections
import http.client
import importlib
import json
import multiprocessing
import os
import pickle
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile

import ml_dtypes
import numpy as np

BUILD = os.path.abspath(os.environ.get("WM_BUILD", "build/release"))
HERE = os.path.dirname(os.path.abspath(__file__))
PASSED, ONCE_WRONG = f"{HERE}/onnxpassed.txt", f"{HERE}/onnxwrong.txt"
LIMIT_S = int(os.environ.get("LIMIT_S", 60))    # of an import, of a scoring, of a load and of a request: longer is a hang
SUM_ERROR = 2**-20   # float32 sums of large values that should be 0 (DFT), as a part of the output's largest value
KINDS = {"BOOL": "?", "INT8": "i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "UINT8": "u1", "UINT16": "<u2",
         "UINT32": "<u4", "UINT64": "<u8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8", "BF16": ml_dtypes.bfloat16}
NAMES = {np.dtype(kind): name for name, kind in KINDS.items()}
OUTCOMES = ("passed", "refused", "held", "refused without a reason", "wrong", "hang", "crash")
Case = collections.namedtuple("Case", "name model sets rtol atol")   # sets: [(inputs by name, outputs)]
Result = collections.namedtuple("Result", "outcome by why seconds")  # by: plain, whole or gateway


# ---- the suite -----------------------------------------------------------------------------------

def suite_cases():
    """All cases of the wheel `onnx`, drawn by one seed; of models that are downloaded, those whose graph the wheel has."""
    import onnx
    from onnx import numpy_helper
    from onnx.backend.test.loader import load_model_tests
    from onnx.backend.test.runner import Runner

    def array(value):
        if isinstance(value, list):
            return [array(one) for one in value]
        return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(
            value) if isinstance(value, (np.generic, int, float)) else value

    def read(folder, what, types):
        found = []
        for i, one in enumerate(types):
            if not os.path.exists(f"{folder}/{what}_{i}.pb"):
                break
            Runner._load_proto(None, f"{folder}/{what}_{i}.pb", found, one.type)
        return found

    np.random.seed(0)
    random.seed(0)
    warnings.simplefilter("ignore")
    def by_name(model, values):
        return dict(zip((port.name for port in model.graph.input), values))

    for one in load_model_tests(kind="node"):
        sets = [(by_name(one.model, map(array, given)), list(map(array, wanted))) for given, wanted in one.data_sets]
        yield Case(one.name, one.model.SerializeToString(), sets, one.rtol, one.atol)
    for kind in "simple", "pytorch-converted", "pytorch-operator":
        for one in load_model_tests(kind=kind):
            model = onnx.load(f"{one.model_dir}/model.onnx")
            sets = [(by_name(model, read(f.path, "input", model.graph.input)), read(f.path, "output", model.graph.output))
                    for f in sorted(os.scandir(one.model_dir), key=lambda f: f.name) if f.name.startswith("test_data_set")]
            yield Case(one.name, model.SerializeToString(), sets, one.rtol, one.atol)
    for one in load_model_tests(kind="real"):
        path = os.path.join(os.path.dirname(onnx.__file__), os.path.relpath(one.url, "onnx"))
        model = onnx.load(path)
        weights = {w.name for w in model.graph.initializer}
        inputs = {i.name: Runner.generate_dummy_data(i) for i in model.graph.input if i.name not in weights}
        outputs = [numpy_helper.to_array(onnx.load_tensor(path.replace(".onnx", f"_output_{i}.pb")))
                   for i in range(len(model.graph.output))]
        yield Case(one.name, model.SerializeToString(), [(inputs, outputs)], one.rtol, one.atol)


class Suite:
    """The cases, made once a build: a zip of pickles."""
    def __init__(self):
        import onnx
        self.path = f"{BUILD}/made/onnx-{onnx.__version__}.zip"
        if not os.path.exists(self.path):
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with zipfile.ZipFile(f"{self.path}.{os.getpid()}", "w") as out:
                for case in suite_cases():
                    assert case.sets and case.name not in out.namelist(), case.name
                    out.writestr(case.name, pickle.dumps(tuple(case)))
            os.rename(f"{self.path}.{os.getpid()}", self.path)
        self.zip = zipfile.ZipFile(self.path)
        self.names = self.zip.namelist()

    def __getitem__(self, name):
        return Case(*pickle.loads(self.zip.read(name)))


def step_of(want):
    """What rounding may add at each value: two steps of BF16, as in the suite's runner, one of FP16 and smaller types."""
    if want.dtype == ml_dtypes.bfloat16:
        return np.abs(want.astype("f8")) * 2**-6
    if want.dtype.kind not in "iub?" and want.dtype.itemsize < 4:
        try:
            info = ml_dtypes.finfo(want.dtype)
            return np.abs(want.astype("f8")) * float(info.eps) + float(info.smallest_subnormal)
        except ValueError:   # INT4, UINT2
            pass
    return 0


def difference(got, want, rtol, atol, shaped=True):
    """What is wrong with an output, or None."""
    if not isinstance(want, np.ndarray) or want.dtype.kind in "OUSc":
        return None if isinstance(got, type(want)) and np.array_equal(got, want) else "not the suite's value"
    if got.shape != want.shape if shaped else got.size != want.size:
        return f"of shape {got.shape}, not {want.shape}"
    with np.errstate(all="ignore"):
        g, w = got.astype("f8").ravel(), want.astype("f8").ravel()
        limit = atol + rtol * np.abs(w) + np.ravel(step_of(want))
        if want.dtype.kind not in "iub":
            limit = limit + SUM_ERROR * np.max(np.abs(w), where=np.isfinite(w), initial=0)
        far = ~((g == w) | (np.isnan(g) & np.isnan(w)) | (np.abs(g - w) <= limit))
    if far.any():
        i = int(np.flatnonzero(far)[0])
        return f"{int(far.sum())} of {g.size} values differ, value {i}: {g[i]:.7g}, not {w[i]:.7g}"
    return None


def finite(*values):
    return all(np.isfinite(one.astype("f8")).all() for one in values
               if isinstance(one, np.ndarray) and one.dtype.kind not in "OUSc")


def differs_held(got, want, case):
    """Whether an output is the suite's but for rows that are NaN, of which a client sees that they have no scores."""
    if got.shape != want.shape or got.dtype.kind in "iub":
        return False
    rows = got.reshape(len(got) if got.ndim else 1, -1)
    scored = ~np.isnan(rows.astype("f4")).all(1)
    return difference(rows[scored], want.reshape(rows.shape)[scored], case.rtol, case.atol) is None


# ---- processes with a time limit -----------------------------------------------------------------

class Hang(Exception):
    pass


class Crash(Exception):
    pass


class Refused(Exception):
    """.args[0] is the message that the user gets."""


def refusal(text):
    """Refused; or Crash, where the text says that of a process behind it."""
    text = text.strip()
    return (Crash if re.search(r"\bcrash|\bsignal \d", text) else Refused)(text)


def command(*words, seconds=LIMIT_S):
    """What a program prints; its group is killed at the limit. Refused where it exits with an error."""
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    try:
        said = process.communicate(timeout=seconds)[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise Hang(f"{words[1]} for {seconds} s") from None
    if process.returncode < 0 or process.returncode > 128:
        raise Crash(f"{words[1]} ended by {process.returncode}: {said[-300:]}")
    if process.returncode:
        raise refusal(said)
    return said


def apart(function, *arguments, seconds=LIMIT_S):
    """A function's value, or its Refused, by a child of this process."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.close(reads)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            answer = True, function(*arguments)
        except Exception as error:
            answer = False, str(error) or repr(error)
        with os.fdopen(writes, "wb") as out:
            out.write(pickle.dumps(answer))
        os._exit(0)
    os.close(writes)
    end, data = time.monotonic() + seconds, b""
    with os.fdopen(reads, "rb", 0) as pipe:
        while select.select([pipe], [], [], max(0, end - time.monotonic()))[0]:
            piece = pipe.read(1 << 20)
            if not piece:
                break
            data += piece
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise Hang(f"{function.__name__} for {seconds} s")
    status = os.waitpid(child, 0)[1]
    if status:
        raise Crash(f"{function.__name__} ended by {os.waitstatus_to_exitcode(status)}")
    good, value = pickle.loads(data)
    if not good:
        raise Refused(value)
    return value


# ---- by libwiremill ------------------------------------------------------------------------------

def exact(array):
    """Whether float32 holds the values of an input: what the library takes."""
    if not isinstance(array, np.ndarray) or array.dtype.kind in "OUSc":
        return False
    return array.dtype.kind == "f" or np.array_equal(array.astype("f4").astype(array.dtype), array)


def score(wmm, rows):
    import wiremill
    with wiremill.Model(wmm) as model:
        return model.score(rows, status=True)


def by_library(case, wmm, whole, said):
    """None where the outputs are the suite's, else (outcome, why)."""
    for feed, wanted in case.sets:
        given = [feed[name] for name in re.findall(r"^ +input '(.*)':", said, re.M) or feed]
        if not all(map(exact, given)):
            return "refused", "float32 does not hold the inputs"
        n = 1 if whole else len(given[0])
        with np.errstate(over="ignore"):
            rows = np.concatenate([one.reshape(n, -1).astype("f4") for one in given], 1)
        scores, status = apart(score, wmm, rows)
        columns = sum(np.size(one) for one in wanted) // n
        if scores.shape[1] != columns:
            return "wrong", f"{scores.shape[1]} scores, not {columns}"
        held, at = status != 0, 0
        for one in wanted:
            size = one.size // n
            got = scores[:, at:at + size]
            at += size
            why = difference(got[~held], one.reshape(n, -1)[~held], case.rtol, case.atol)
            if why:
                return "wrong", why
        if held.any():
            return "held", f"status {status[held][0]}"
    return None


def whole_only(case):
    """Whether a first dimension cannot be a batch: inputs and outputs have not all the same."""
    sizes = {np.shape(one)[:1] for given, wanted in case.sets[:1] for one in (*given.values(), *wanted)}
    return len(sizes) != 1 or sizes == {()}


# ---- by a gateway --------------------------------------------------------------------------------

class Gateway:
    """A gateway of this process: loads one model at a time."""
    def __init__(self, folder):
        self.folder, self.process, self.number = folder, None, 0

    def start(self):
        if self.process and self.process.poll() is None:
            return
        self.number += 1
        os.makedirs(f"{self.folder}/models", exist_ok=True)
        log = f"{self.folder}/log-{self.number}"
        with open(log, "w") as out:
            self.process = subprocess.Popen(
                [f"{BUILD}/bin/wiremill", "gateway", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--threads", "1",
                 "--model-repository", f"{self.folder}/models", "--state", f"{self.folder}/state-{self.number}"],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end and self.process.poll() is None:
            found = re.search(r" HTTP on (\S+:\d+)", open(log).read())
            if found:
                self.address = found[1].rstrip(",")
                return
            time.sleep(0.02)
        raise RuntimeError(f"the gateway does not start: {open(log).read()[-500:]}")

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def ask(self, path, body=b"", headers={}, what=""):
        """An answer's headers and body. Refused where it is an error."""
        connection = http.client.HTTPConnection(self.address, timeout=LIMIT_S)
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
        except TimeoutError:
            raise Hang(f"{what} for {LIMIT_S} s") from None
        except OSError as error:
            raise Crash(f"the gateway, at {what}: {error}") from None
        finally:
            connection.close()
        if answer.status != 200:
            raise refusal(json.loads(data)["error"])
        return answer.headers, data

    def infer(self, name, feed):
        raw = [np.ascontiguousarray(value).tobytes() for _, value in feed]
        head = json.dumps({"inputs": [{"name": port, "shape": value.shape, "datatype": NAMES[value.dtype],
                                       "parameters": {"binary_data_size": len(data)}} for (port, value), data in zip(feed, raw)],
                           "parameters": {"binary_data_output": True}}).encode()
        headers, data = self.ask(f"/v2/models/{name}/infer", head + b"".join(raw),
                                 {"Inference-Header-Content-Length": str(len(head))}, "a request")
        at = int(headers["Inference-Header-Content-Length"])
        found = {}
        for one in json.loads(data[:at])["outputs"]:
            size = one["parameters"]["binary_data_size"]
            found[one["name"]] = np.frombuffer(data[at:at + size], KINDS[one["datatype"]]).reshape(one["shape"])
            at += size
        return found

    def run(self, case, graph):
        """None where the outputs are the suite's, else (outcome, why)."""
        self.start()
        name = case.name
        folder = f"{self.folder}/models/{name}"
        os.makedirs(f"{folder}/1")
        with open(f"{folder}/1/model.onnx", "wb") as out:
            out.write(case.model)
        with open(f"{folder}/config.pbtxt", "w") as out:
            out.write("max_batch_size: 0\n")
        try:
            self.ask(f"/v2/repository/models/{name}/load", what="loading")
            for given, wanted in case.sets:
                cannot = [port for port, value in given.items() if not (isinstance(value, np.ndarray) and value.dtype in NAMES)]
                if cannot:
                    return "refused", f"input '{cannot[0]}' is of a type that the protocol does not have"
                try:
                    found = self.infer(name, list(given.items()))
                except Refused as refused:
                    return "refused" if finite(*given.values(), *wanted) else "held", said_of(refused.args[0], name)
                for port, want in zip(graph.output, wanted):
                    why = difference(found[port.name], want, case.rtol, case.atol) if port.name in found else "not answered"
                    if why:
                        got = found.get(port.name)   # a row that is held is all NaN, in the shape that the model states
                        is_held = got is not None and (np.isnan(got.astype("f4")).all() or differs_held(got, want, case))
                        return "held" if is_held else "wrong", f"output '{port.name}': {why}"
            return None
        finally:
            shutil.rmtree(folder)
            if self.process.poll() is None:
                try:
                    self.ask(f"/v2/repository/models/{name}/unload", what="unloading")
                except (Refused, Hang, Crash):
                    pass


# ---- a case --------------------------------------------------------------------------------------

def names_of(graph):
    """Names of ports, weights and nodes of a graph and of those in it, and of operators."""
    yield from (one.name for one in (*graph.input, *graph.output, *graph.initializer))
    for node in graph.node:
        yield from (node.name, node.op_type, *node.output)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from names_of(inner)


def has_reason(text, model):
    """Whether a refusal says where: something in the model, quoted, perhaps cut, or an operator, or a row of the request."""
    if re.search("no reason given", text):
        return False
    if re.search(r"\brows? \d", text) or not model.graph.input and re.search(r"\bno inputs?\b", text):
        return True
    known = {*names_of(model.graph), *(one.name for one in model.functions)} - {""}
    quoted = {one for pair in re.findall(r"'([^']+)'|\"([^\"]+)\"", text) for one in pair if one}
    return any(one == name or len(one) > 40 and name.startswith(one) for one in quoted for name in known) or any(
        re.search(rf"\b{re.escape(name)}\b" if len(name) > 3 else rf"\({re.escape(name)}\)", text) for name in known)


def said_of(text, path):
    """A program's last line, without names of programs and files before it."""
    text = (text.strip().splitlines() or [""])[-1].replace(path, "model.onnx")
    return re.sub(r"^(wiremill \w+: |failed to load '[^']*', version 1: |\S*model.onnx: )*", "", text)


def run_case(name):
    """Outcome of a case by wiremill."""
    import onnx
    begun = time.monotonic()
    case = worker.suite[name]
    model = onnx.load_from_string(case.model)
    path = f"{worker.folder}/{name}.onnx"
    with open(path, "wb") as out:
        out.write(case.model)
    first, by = None, ""   # (outcome, why) of the library
    try:
        for how in ("plain", "whole"):
            by = how
            wmm = f"{path[:-5]}.wmm"
            try:
                said = command(f"{BUILD}/bin/wiremill", "import", path, "-o", wmm, "--force", *["--whole"] * (how == "whole"))
                if how == "plain" and whole_only(case):
                    continue
                first = by_library(case, wmm, how == "whole", said)
            except Refused as refused:
                first = "refused", said_of(refused.args[0], path)
            if not first or first[0] in ("wrong", "held"):
                break
        if first and first[0] in ("refused", "held"):
            by = "gateway"
            try:
                first = worker.gateway.run(case, model.graph)
            except Refused as refused:
                first = "refused", said_of(refused.args[0], path)
        outcome, why = first or ("passed", "")
    except Hang as hang:
        outcome, why = "hang", hang.args[0]
    except Crash as crash:
        outcome, why = "crash", crash.args[0]
    except Exception as error:
        outcome, why = "crash", f"of this test: {error!r}"
    finally:
        for end in (".onnx", ".wmm"):
            if os.path.exists(path[:-5] + end):
                os.remove(path[:-5] + end)
    if outcome == "refused" and not has_reason(why, model):
        outcome = "refused without a reason"
    return name, Result(outcome, by, why, time.monotonic() - begun)


# ---- other engines -------------------------------------------------------------------------------

def answer_onnxruntime(model, feed):
    """Also of models that are newer than it, where it knows their operators."""
    import onnx
    import onnxruntime
    os.environ["ALLOW_RELEASED_ONNX_OPSET_ONLY"] = "0"
    onnxruntime.set_default_logger_severity(4)
    graph = onnx.load_from_string(model)
    graph.ir_version = min(graph.ir_version, 12)
    return onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)


def answer_openvino(model, feed):
    import openvino
    path = f"{worker.folder}/model.onnx"
    with open(path, "wb") as out:
        out.write(model)
    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled([value for value in feed.values() if value is not None])
    return [found[port] for port in compiled.outputs]


def run_peer(name):
    begun = time.monotonic()
    case = worker.suite[name]
    outcome, why = "passed", ""
    try:
        for given, wanted in case.sets:
            found = apart(globals()[f"answer_{worker.peer}"], case.model, given)
            for got, want in zip(found, wanted):
                pairs = zip(got, want) if isinstance(want, list) else [(got, want)]
                whys = [difference(*pair, case.rtol, case.atol) for pair in pairs]
                if any(whys) or isinstance(want, list) and len(want) != len(got):
                    outcome, why = "wrong", next(filter(None, whys), "not as many")
    except Hang as hang:
        outcome, why = "hang", hang.args[0]
    except Crash as crash:
        outcome, why = "crash", crash.args[0]
    except Refused as refused:
        outcome, why = "refused", refused.args[0][:500]
    return name, Result(outcome, worker.peer, why, time.monotonic() - begun)


# ---- all of it -----------------------------------------------------------------------------------

class Worker:
    def __init__(self, folder, peer):
        self.suite, self.peer = Suite(), peer
        self.folder = f"{folder}/{os.getpid()}"
        os.makedirs(self.folder)
        self.gateway = Gateway(self.folder)


def begin(folder, peer):
    global worker
    worker = Worker(folder, peer)
    multiprocessing.util.Finalize(None, worker.gateway.stop, exitpriority=1)


def run(names, jobs, peer=None):
    importlib.import_module(peer or "wiremill")   # once: cases are run by children
    folder = tempfile.mkdtemp(prefix="onnx-", dir=os.environ.get("work"))
    atexit.register(shutil.rmtree, folder, True)
    results = {}
    pool = multiprocessing.get_context("fork").Pool(jobs, begin, (folder, peer))
    with open(f"{folder}/results", "w") as out:
        for name, result in pool.imap_unordered(run_peer if peer else run_case, names):
            results[name] = result
            print(name, *result, file=out, flush=True)
    pool.close()
    pool.join()
    return results


def kind_of(why):
    """A reason without names and numbers, so that equal ones are counted together."""
    why = re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", why)
    return re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "N", why)[:150]


def table(results, columns):
    """Outcomes side by side, then reasons of what did not pass."""
    columns = {"wiremill": results, **columns}
    print(f"\n{'outcome':26}" + "".join(f"{name:>22}" for name in columns))
    for outcome in OUTCOMES:
        print(f"{outcome:26}" + "".join(f"{sum(one.outcome == outcome for one in c.values()):22,}" for c in columns.values()))
        if outcome == "passed":
            for by in "plain", "whole", "gateway":
                print(f"{'  by ' + by:26}{sum(one.outcome == outcome and one.by == by for one in results.values()):22,}")
    for outcome in OUTCOMES[1:]:
        reasons = collections.defaultdict(list)
        for name, one in sorted(results.items()):
            if one.outcome == outcome:
                reasons[kind_of(one.why) if outcome != "wrong" else name].append((name, one.why))
        if reasons:
            print(f"\n{outcome}:")
        for reason, found in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0])):
            print(f"{len(found):6}  {found[0][0]}: {found[0][1]}")


def lines(path):
    """The words behind each name of a list."""
    found = [line.split() for line in open(path) if line[0] != "#"] if os.path.exists(path) else []
    return {words[0]: words[1:] for words in found}


def head():
    try:
        return subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no git"


def peer_file(peer):
    return f"{BUILD}/made/onnx-by-{peer}.json"


def save(path, results):
    with open(path, "w") as out:
        json.dump({name: one._asdict() for name, one in sorted(results.items())}, out, indent=0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--drawn", type=int, default=0)
    parser.add_argument("--seed", default="")
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--results")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--peer", choices=("onnxruntime", "openvino"))
    parser.add_argument("name", nargs="*")
    given = parser.parse_args()
    suite = Suite()
    if given.peer:
        return save(peer_file(given.peer), run(suite.names, given.jobs, given.peer))
    seed = given.seed or head()
    names = suite.names if given.all or given.record else sorted(
        {*given.name, *(lines(ONCE_WRONG) if given.wrong else ()), *random.Random(seed).sample(suite.names, given.drawn)})
    print(f"{len(names)} cases of {len(suite.names)}" + (f"; {given.drawn} drawn by the seed '{seed}'" if given.drawn else ""))
    results = run(names, given.jobs)
    peers = {}
    for peer in "onnxruntime", "openvino":
        if given.all and os.path.exists(peer_file(peer)):
            peers[peer] = {name: Result(**one) for name, one in json.load(open(peer_file(peer))).items()}
    table(results, peers)
    if given.results:
        save(given.results, results)
    if given.record:
        with open(PASSED, "w") as out:
            out.write("# ONNX's backend tests that pass, some by a gateway. Written by: WM_ONNX=record make golden T=onnx\n")
            out.writelines(name + " gateway" * (one.by == "gateway") + "\n" for name, one in sorted(results.items())
                           if one.outcome == "passed")
    must = lines(PASSED)
    failed = 0
    for name, one in sorted(results.items()):
        lost = name in must and (one.outcome != "passed" or one.by == "gateway" and not must[name])
        if lost or one.outcome in OUTCOMES[3:]:
            failed += 1
            before = " (it passed before)" if lost and must[name] else " (it passed before, without a gateway)" if lost else ""
            print(f"failed: {name}: {one.outcome}{before}, by {one.by}: {one.why}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
