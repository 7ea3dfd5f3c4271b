#!/usr/bin/env python3
"""nnet2onnx.py - turns a Keras 1 network, as LArSoft keeps it, into an ONNX file.

usage: nnet2onnx.py [--force] NETWORK.nnet OUT.onnx --shape ROWS,COLUMNS
       nnet2onnx.py [--force] ARCHITECTURE.json WEIGHTS.h5 OUT.onnx
The first form is the text that keras2cpp dumps, which does not say the size of the image; the second
is what Keras 1 saved. Layers: Convolution2D (valid or same, channels first, as Theano: the kernel is
turned around), MaxPooling2D, Flatten, Dense, Dropout (left out), Activation. Needs numpy and onnx from
PyPI, the second form h5py too. OUT.onnx replaces what this program made before; --force: any other file, too.
"""
import json
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from target import Refused, Target

MAKER = "wiremill nnet2onnx"
ACTIVATIONS = {"relu": "Relu", "softmax": "Softmax", "sigmoid": "Sigmoid", "tanh": "Tanh", "linear": None}


def read_text(path):
    """Layers of a .nnet: dictionaries of what each needs."""
    with open(path, encoding="utf-8-sig") as f: # any end of a line
        words = iter(f.read().replace("[", " ").replace("]", " ").split())

    def numbers(n):
        return np.array([next(words) for _ in range(n)], np.float32)

    def layer():
        word, _, kind = next(words), next(words), next(words)
        if word != "layer":
            raise Refused(f"'{word}' where a layer should begin")
        if kind == "Convolution2D":
            f, c, h, w = (int(next(words)) for _ in range(4))
            border = next(words)
            return dict(kind=kind, border=border, w=numbers(f * c * h * w).reshape(f, c, h, w), b=numbers(f))
        if kind == "Dense":
            n_in, n_out = int(next(words)), int(next(words))
            return dict(kind=kind, w=numbers(n_in * n_out).reshape(n_in, n_out), b=numbers(n_out))
        if kind == "MaxPooling2D":
            return dict(kind=kind, pool=[int(next(words)), int(next(words))])
        return dict(kind=kind, activation=next(words) if kind == "Activation" else "linear")

    if next(words) != "layers":
        raise Refused("it does not begin with its number of layers")
    return [layer() for _ in range(int(next(words)))]


def read_keras(architecture, weights):
    """The same of a JSON and an HDF5 file, and the shape of the image."""
    import h5py
    with open(architecture, encoding="utf-8-sig") as f:
        described = json.load(f)["config"]
    layers, shape = [], described[0]["config"]["batch_input_shape"][1:]
    with h5py.File(weights) as stored:
        stored = stored.get("model_weights", stored)
        for one in described:
            kind, config = one["class_name"], one["config"]
            if config.get("dim_ordering", "th") != "th" or config.get("subsample", [1, 1]) != [1, 1]:
                raise Refused(f"layer {config['name']}: channels last, or strides; export it with tf2onnx")
            if kind == "MaxPooling2D" and (config["border_mode"] != "valid" or config["strides"] != config["pool_size"]):
                raise Refused(f"layer {config['name']}: its strides are not its pool size")
            group = stored.get(config["name"], {})
            names = [n.decode() for n in group.attrs["weight_names"]] if group else []
            values = [group[n][:].astype(np.float32) for n in names] + [None, None]
            layers.append(dict(kind=kind, border=config.get("border_mode"), pool=config.get("pool_size"), w=values[0],
                               b=values[1], activation=config.get("activation") or "linear"))
    return layers, shape[-2:]


def build(layers, shape):
    nodes, tensors, value = [], [], "image"

    def add(op, *weights, **attributes):
        nonlocal value
        names = []
        for weight in weights:
            names.append(f"w{len(tensors)}")
            tensors.append(numpy_helper.from_array(np.ascontiguousarray(weight), names[-1]))
        nodes.append(helper.make_node(op, [value, *names], [f"v{len(nodes)}"], name=f"{op}_{len(nodes)}", **attributes))
        value = nodes[-1].output[0]

    for layer in layers:
        kind = layer["kind"]
        if kind == "Convolution2D":
            turned = layer["w"][:, :, ::-1, ::-1]
            if layer["border"] not in ("same", "valid"):
                raise Refused(f"border mode '{layer['border']}'")
            h, w = turned.shape[2:]
            pads = [(h - 1) // 2, (w - 1) // 2, h // 2, w // 2] if layer["border"] == "same" else [0] * 4
            add("Conv", turned, layer["b"], pads=pads, kernel_shape=[h, w])
        elif kind == "Dense":
            add("Gemm", layer["w"], layer["b"])
        elif kind == "MaxPooling2D":
            add("MaxPool", kernel_shape=layer["pool"], strides=layer["pool"])
        elif kind == "Flatten":
            add("Flatten")
        elif kind not in ("Dropout", "Activation"):
            raise Refused(f"layer {kind} is not known here")
        activation = layer.get("activation", "linear")
        if activation not in ACTIVATIONS:
            raise Refused(f"activation '{activation}' is not known here")
        if ACTIVATIONS[activation]:
            add(ACTIVATIONS[activation])
    first = next(l for l in layers if l["kind"] == "Convolution2D")["w"].shape[1]
    last = [l for l in layers if l["kind"] == "Dense"][-1]["w"].shape[1]
    nodes[-1].output[0] = "netout"
    graph = helper.make_graph(
        nodes, "nnet", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", first, *shape])],
        [helper.make_tensor_value_info("netout", TensorProto.FLOAT, ["N", last])], tensors)
    model = helper.make_model(graph, producer_name=MAKER,
                              opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def main(words):
    shape, force = None, "--force" in words
    words = [word for word in words if word != "--force"]
    if "--shape" in words:
        at = words.index("--shape")
        shape = [int(n) for n in words[at + 1].split(",")]
        words = words[:at] + words[at + 2:]
    if len(words) in (2, 3):
        try:
            target = Target(words[-1], "ONNX file of nnet2onnx.py", lambda begin: MAKER.encode() in begin[:200], words[:-1], force)
        except Refused as reason:
            sys.exit(f"nnet2onnx.py: {reason}")
    if len(words) == 2 and shape and len(shape) == 2:
        layers = read_text(words[0])
    elif len(words) == 3 and not shape:
        layers, shape = read_keras(*words[:2])
    else:
        sys.exit(__doc__)
    target.write(build(layers, shape).SerializeToString())
    print(f"{words[-1]}: {len(layers)} layers")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (Refused, StopIteration, OSError, KeyError, ValueError) as reason:
        sys.exit(f"nnet2onnx.py: {sys.argv[1]}: {type(reason).__name__}: {reason}")
