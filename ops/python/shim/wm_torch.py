"""wm_torch.py - TorchScript models as an engine, over the PyTorch of the Python that runs it. The Makefile makes wm_torch.so of it.

A file of torch.jit.save does not state the shape of its input, so `python -m wiremill shape NET.pt 3x32x24` writes it into the file.
A row is computed as a batch of one, in one thread: kernels of larger batches may add in another order.
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
    shape = tuple(json.loads(extra["wiremill.json"])["input"])
    return net, shape, [tuple(values.shape) for values in computed(net, np.zeros(shape, np.float32))]


def computed(net, row):
    """The outputs of one row."""
    answer = net(torch.from_numpy(row[np.newaxis].copy()))
    return [values[0].numpy() for values in (answer if isinstance(answer, (tuple, list)) else [answer])]


def outputs(loaded):
    shapes = loaded[2]
    return {"output" if len(shapes) == 1 else f"output_{i}": shape for i, shape in enumerate(shapes)}


@wiremill.engine(inputs=lambda loaded: {"input": loaded[1]}, outputs=outputs, load=load, name="torch", version=torch.__version__)
def score(loaded, row):
    return tuple(computed(loaded[0], row))
