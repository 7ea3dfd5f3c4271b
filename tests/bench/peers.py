"""peers.py - OpenVINO and ONNX Runtime, from PyPI, on ready-made patches: other engines at their best.

usage: peers.py openvino|onnxruntime MODEL.onnx PATCHES.npy PRECISION SECONDS [SETTING...]

A setting is PATCHES-A-BATCH,SIDE-BY-SIDE,THREADS: OpenVINO's streams and all their threads, ONNX
Runtime's sessions and the threads of each. Several are tried for SECONDS each, in two passes; without
any, a sweep that fits this machine. Prints "SETTING PATCHES-A-SECOND PRECISION SHARE-OF-THE-CPUS" of each
(its better pass), the fastest last. PRECISION fast leaves OpenVINO the one it takes by itself here (bf16 where the
CPU has it). Patches lie in memory, whole batches only, nothing is copied that need not be.
"""
import os
import sys
import threading
import time

import numpy as np

CPUS = len(os.sched_getaffinity(0))


class OpenVino:
    sweep = [(b, s, CPUS) for b in (4, 8, 16, 32, 64, 128, 256, 512) for s in sorted({1, max(1, CPUS // 2), CPUS})]

    def __init__(self, model, precision, setting):
        import openvino as ov
        self.batch, streams, threads = setting
        core = ov.Core()
        graph = core.read_model(model)
        graph.reshape([self.batch, *graph.inputs[0].partial_shape.to_shape()[1:]]
                      if graph.inputs[0].partial_shape.is_static else
                      [self.batch] + [d.get_length() for d in list(graph.inputs[0].partial_shape)[1:]])
        config = {"NUM_STREAMS": str(streams), "INFERENCE_NUM_THREADS": str(threads)}
        if precision == "fp32":
            config["INFERENCE_PRECISION_HINT"] = "f32"
        compiled = core.compile_model(graph, "CPU", config)
        self.queue = ov.AsyncInferQueue(compiled, streams + 1)
        self.precision = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()

    def run(self, x, until):
        done = 0
        while time.monotonic() < until or not done:
            for i in range(0, len(x) - self.batch + 1, self.batch):
                self.queue.start_async({0: x[i:i + self.batch]}, share_inputs=True)
                done += self.batch
                if time.monotonic() >= until:
                    break
        self.queue.wait_all()
        return done


class OnnxRuntime:
    sweep = [(b, s, CPUS // s) for b in (4, 16, 32, 64, 256) for s in sorted({1, max(1, CPUS // 2), CPUS})]

    def __init__(self, model, precision, setting):
        import onnxruntime as ort
        self.batch, sessions, threads = setting
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self.sessions = [ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]) for _ in range(sessions)]
        self.name = self.sessions[0].get_inputs()[0].name
        self.precision = "f32"

    def one(self, k, x, until, done):
        step = self.batch * len(self.sessions)
        while time.monotonic() < until or not done[k]:
            for i in range(k * self.batch, len(x) - self.batch + 1, step):
                self.sessions[k].run(None, {self.name: x[i:i + self.batch]})
                done[k] += self.batch
                if time.monotonic() >= until:
                    break

    def run(self, x, until):
        done = [0] * len(self.sessions)
        threads = [threading.Thread(target=self.one, args=(k, x, until, done)) for k in range(len(done))]
        [t.start() for t in threads]
        [t.join() for t in threads]
        return sum(done)


def main(kind, model, patches, precision, seconds, *settings):
    peer, seconds = {"openvino": OpenVino, "onnxruntime": OnnxRuntime}[kind], float(seconds)
    x = np.load(patches, mmap_mode="r")
    x = np.ascontiguousarray(x[np.linspace(0, len(x) - 1, min(len(x), 8192)).astype(int)])
    x = np.nan_to_num(x, copy=False)
    x = x[..., None] if x.ndim == 3 else x      # patches of planes have one channel, the last
    found = {}
    for passed in range(2 if len(settings) != 1 else 1):
        for setting in [tuple(map(int, s.split(","))) for s in settings] or peer.sweep:
            if setting[0] * setting[1] > len(x):
                continue
            engine = peer(model, precision, setting)
            engine.run(x, time.monotonic() + (1 if len(settings) == 1 else seconds / 4))     # warms up
            start, cpu = time.monotonic(), time.process_time()
            done = engine.run(x, start + seconds)
            took = time.monotonic() - start
            share = (time.process_time() - cpu) / took / CPUS
            found[setting] = max(found.get(setting, (0,)), (done / took, engine.precision, share))
            del engine
    for setting, (rate, precision, share) in sorted(found.items(), key=lambda f: f[1]):
        print(",".join(map(str, setting)), f"{rate:.1f}", precision, f"{share:.2f}")


if __name__ == "__main__":
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    main(*sys.argv[1:])
