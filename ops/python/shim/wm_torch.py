"""wm_torch.py - TorchScript models as an engine, over the PyTorch of the Python that runs it. The Makefile makes wm_torch.so of it.

A file of torch.jit.save does not state the shapes of its inputs, so `python -m wiremill shape NET.pt 3x32x24` writes them into the file.
A row is computed as a batch of one, in one thread: kernels of larger batches may add in another order. Nor is the graph rewritten
after its first calls, which may change bits.
"""
import json
import sys

import numpy as np
import wiremill

try:
    import torch
except ImportError:
    sys.exit(f"PyTorch is not in {sys.executable}: pip install torch, apt-get install python3-torch, or WIREMILL_PYTHON=PYTHON that has it")


def load(path):
    if not path:
        sys.exit("name a TorchScript file: --model NET.pt")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    extra = {"wiremill.json": ""}
    try:
        net = torch.jit.load(path, map_location="cpu", _extra_files=extra)
    except (RuntimeError, ValueError) as why:
        sys.exit(f"this is no TorchScript file of torch.jit.save: {str(why).strip().splitlines()[0]}")
    if not extra["wiremill.json"]:
        sys.exit("the TorchScript file does not state the shape of its input: python -m wiremill shape NET.pt 3x32x24")
    net.eval()
    shapes = [tuple(shape) for shape in json.loads(extra["wiremill.json"])["inputs"]]
    return net, numbered("input", shapes), {name: values.shape for name, values in
                                            computed(net, *(np.zeros(shape, np.float32) for shape in shapes)).items()}


def numbered(name, values):
    """One by the name alone, several by a number behind it."""
    return {name if len(values) == 1 else f"{name}_{i}": value for i, value in enumerate(values)}


def computed(net, *row):
    """The outputs of one row, by name."""
    with torch.jit.optimized_execution(False):
        answer = net(*(torch.from_numpy(values[np.newaxis].copy()) for values in row))
    named = answer if isinstance(answer, dict) else numbered("output", answer if isinstance(answer, (tuple, list)) else [answer])
    return {name: values[0].float().numpy() for name, values in named.items()}


@wiremill.engine(inputs=lambda loaded: loaded[1], outputs=lambda loaded: loaded[2], load=load, name="torch", version=torch.__version__)
def score(loaded, *row):
    return computed(loaded[0], *row)
