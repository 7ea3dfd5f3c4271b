"""bench_general.py - general models beside the libraries below them: `make bench ONLY=general`.

SqueezeNet, ResNet-50 and VGG-19 have the graphs that come inside PyPI's onnx, whose weights are all alike, with weights
drawn anew: of equal weights no difference in rounding shows. The U-Net is made here; its mask is averaged, so that a
patch has two scores. NETWORKS="squeezenet unet" measures some.
"""
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NETWORKS = os.environ.get("NETWORKS", "squeezenet resnet50 vgg19 unet").split()
# of the whole command, and for the engines
PATCHES = {"squeezenet": 960, "unet": 2400, "resnet50": 240, "vgg19": 60}


def drawn(random, shape):
    fan = np.prod(shape[1:]) if len(shape) > 1 else 1e4
    return (random.standard_normal(shape) * np.sqrt(2 / fan)).astype("f4")


def light(network, path):
    """The graph of onnx's own, with weights that are drawn; returns the shape of a patch."""
    model = onnx.load(os.path.join(os.path.dirname(onnx.__file__), f"backend/test/data/light/light_{network}.onnx"))
    graph, random = model.graph, np.random.default_rng(1)
    known = {t.name: t for t in graph.initializer}
    norms = [n.input for n in graph.node if n.op_type == "BatchNormalization"]
    scales = {**{i[1]: .5 for i in norms}, **{i[4]: 1 for i in norms}}      # residual sums stay small
    for node in [n for n in graph.node if n.op_type == "ConstantOfShape"]:
        shape = [int(d) for d in numpy_helper.to_array(known[node.input[0]])]
        scale = scales.get(node.output[0])
        weights = np.full(shape, scale, "f4") if scale else drawn(random, shape)
        graph.initializer.append(numpy_helper.from_array(weights, node.output[0]))
        graph.node.remove(node)
    onnx.save(model, path)
    return 3, 224, 224


def unet(path, side=128, width=16, depth=3):
    random, nodes, weights = np.random.default_rng(1), [], []

    def add(op, inputs, out=None, **attributes):
        out = out or f"t{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [out], f"n{len(nodes)}", **attributes))
        return out

    def weight(*shape):
        weights.append(numpy_helper.from_array(drawn(random, shape), f"w{len(weights)}"))
        return weights[-1].name

    def double(x, n_in, n_out):
        for n in (n_in, n_out):
            x = add("Relu", [add("Conv", [x, weight(n_out, n, 3, 3), weight(n_out)], pads=[1] * 4)])
        return x

    x, n, skipped = "image", 1, []
    for d in range(depth):
        x = double(x, n, width << d)
        n = width << d
        skipped.append(x)
        x = add("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = double(x, n, width << depth)
    n = width << depth
    for d in reversed(range(depth)):
        x = add("ConvTranspose", [x, weight(n, n // 2, 2, 2), weight(n // 2)], strides=[2, 2])
        n //= 2
        x = double(add("Concat", [x, skipped[d]], axis=1), 2 * n, n)
    add("GlobalAveragePool", [add("Conv", [x, weight(2, n, 1, 1), weight(2)])], "mask")
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
             for name, shape in (("image", [1, 1, side, side]), ("mask", [1, 2, 1, 1]))]
    graph = helper.make_graph(nodes, "unet", ports[:1], ports[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return 1, side, side


def network(b, name):
    """Measures one network: our engine at 64 patches and at one, the whole command, and both libraries."""
    stem, n, patches = f"{b.WORK}/{name}", b.CPUS, PATCHES[name]
    shape = unet(f"{stem}.onnx") if name == "unet" else light(name, f"{stem}.onnx")
    np.save(f"{stem}.npy", np.random.default_rng(1).uniform(-1, 1, (patches, *shape)).astype("f4"))
    b.run(f"{b.BIN}/wiremill", "import", f"{stem}.onnx", "-o", f"{stem}.wmm")

    def ours(which, batch):
        def measure():
            options = ["--batch", batch, "--threads", n, "--seconds", b.SECONDS] if which == "engine" else []
            p = b.measured(f"{b.BIN}/wiremill", "bench", which, "--quiet", "--json", "-", "--folder", b.WORK, "--model",
                           f"{stem}.wmm", "--input", f"{stem}.npy", "--precision", "fp32", *options)[0]
            b.points.setdefault(f"{name}_{which}", []).append(p)
            return p["hits_s" if which == "engine" else "whole_hits_s"]
        return measure

    def library(kind, *settings):
        """The library at the best of these settings."""
        command = [b.sys.executable, "tests/bench/peers.py", kind, f"{stem}.onnx", f"{stem}.npy", "fp32"]
        best = b.run(*command, b.SECONDS, *settings).splitlines()[-1].split()[0]
        print(f"  {name}, {kind}: {best} is the best of {' '.join(settings)}", flush=True)
        return lambda: float(b.run(*command, b.SECONDS, best).split()[1])

    blocks = [f"{size},{n},{n}" for size in (1, 2, 4, 8)]
    things = {"engine": ours("engine", 64), "one": ours("engine", 1), "whole": ours("pipeline", 0),
              "openvino": library("openvino", f"1,1,{n}", *blocks), "openvino_one": library("openvino", f"1,1,{n}"),
              "onnxruntime": library("onnxruntime", f"1,1,{n}", f"1,{n},1")}
    b.alternate(b.LONG_ROUNDS, *((f"{name}_{key}", measure) for key, measure in things.items()))
    for key, what in (("engine", "engine alone, 64 a batch"), ("one", "engine alone, one at a time"),
                      ("whole", f"whole command, {patches} patches"), ("openvino", "OpenVINO at its best"),
                      ("openvino_one", "OpenVINO, one at a time"), ("onnxruntime", "ONNX Runtime at its best")):
        if b.known(f"{name}_{key}"):
            b.row(f"general, {name}: {what}", f"{b.middle(b.rates[f'{name}_{key}'], 1)} patches/s")
    b.ratio(f"general_{name}_engine_over_openvino (goal 0.95)", f"{name}_engine", f"{name}_openvino")
    b.ratio(f"general_{name}_one_over_openvino_one (goal 0.8)", f"{name}_one", f"{name}_openvino_one")
    b.ratio(f"general_{name}_whole_over_engine (goal 0.9)", f"{name}_whole", f"{name}_engine")


def part(b):
    print("\n== general models: dense patches, strict fp32, beside OpenVINO and ONNX Runtime by their Python",
          flush=True)
    for name in NETWORKS:
        network(b, name)
        for ending in ("onnx", "npy", "wmm"):
            os.remove(f"{b.WORK}/{name}.{ending}")
