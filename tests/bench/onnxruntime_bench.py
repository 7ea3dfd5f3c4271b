"""onnxruntime_bench.py - ONNX Runtime on ready-made patches, at its best: 2 sessions of 1 thread, batches of 64.

usage: onnxruntime_bench.py MODEL.onnx PATCHES.npy [patches a session: 2048]   prints patches a second
"""
import sys
import threading
import time

import numpy as np
import onnxruntime as ort

model, patches = sys.argv[1:3]
count = int(sys.argv[3]) if len(sys.argv) > 3 else 2048
x = np.load(patches, mmap_mode="r")
options = ort.SessionOptions()
options.intra_op_num_threads = 1
sessions = [ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]) for _ in range(2)]
name = sessions[0].get_inputs()[0].name
parts = [np.nan_to_num(np.array(x[k * count:(k + 1) * count]))[..., None] for k in range(2)]


def work(k):
    for i in range(0, len(parts[k]), 64):
        sessions[k].run(None, {name: parts[k][i:i + 64]})


for run in range(2):                       # the first warms up
    start = time.monotonic()
    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    took = time.monotonic() - start
print(f"{sum(map(len, parts)) / took:.0f}")
