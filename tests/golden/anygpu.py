"""anygpu.py - any CNN through the CUDA engine's steps on the stand-in, against ONNX Runtime.

usage: anygpu.py PROGRAM WORK CASE...    (PROGRAM: any_run; CASE: small, a light network's name, refuse)

small: seeded networks that together have every operator the engine knows. A light network (inside
PyPI's onnx) has its constant weights replaced by random ones, so that its outputs depend on the input.
Exits 1 if a difference is too large.
"""
import os
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(1)
failed = 0


def report(what, ok, more=""):
    global failed
    failed += not ok
    print(f"{'ok' if ok else 'NOT OK'}: {what} {more}")


class Graph:
    """A graph of one input that grows node by node."""

    def __init__(self, *shape, opset=17):
        self.nodes, self.constants, self.n, self.opset = [], [], 0, opset
        self.inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])]

    def constant(self, value):
        self.n += 1
        array = np.asarray(value)
        self.constants.append(numpy_helper.from_array(array, f"c{self.n}"))
        return f"c{self.n}"

    def random(self, *shape, scale=None):
        fan = np.prod(shape[1:]) if len(shape) > 1 else 1
        return self.constant((rng.standard_normal(shape) * (scale or fan ** -0.5)).astype(np.float32))

    def add(self, op, *inputs, **attributes):
        self.n += 1
        self.nodes.append(helper.make_node(op, inputs, [f"v{self.n}"], name=f"{op}_{self.n}", **attributes))
        return f"v{self.n}"

    def norm(self, x, c):
        return self.add("BatchNormalization", x, self.constant(rng.uniform(0.5, 2, c).astype(np.float32)),
                        self.random(c), self.random(c), self.constant(rng.uniform(0.5, 2, c).astype(np.float32)))

    def model(self, *outputs):
        out = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs]
        graph = helper.make_graph(self.nodes, "g", self.inputs, out, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def plain():
    """Convolutions of many kinds, norms in and outside them, a residual, pools, dense layers."""
    g = Graph(3, 17, 15)
    x = g.add("Conv", "x", g.random(8, 3, 3, 3), g.random(8), strides=[2, 1], pads=[1, 0, 2, 1])
    x = g.add("Relu", g.norm(x, 8))
    y = g.add("Conv", x, g.random(8, 2, 3, 3), group=4, dilations=[1, 2], pads=[1, 2, 1, 2])
    y = g.add("Relu", g.add("Add", x, g.add("Sigmoid", y)))
    y = g.add("MaxPool", g.norm(y, 8), kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 0, 1])
    a = g.add("AveragePool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    b = g.add("AveragePool", y, kernel_shape=[2, 2], auto_pad="SAME_LOWER")
    y = g.add("Concat", g.add("Tanh", a), b, y, axis=1)
    f = g.add("Flatten", y)
    n = 24 * 4 * 7
    d = g.add("Relu", g.add("Gemm", f, g.random(n, 20), g.random(20)))
    d = g.add("Add", g.add("MatMul", d, g.random(20, 11)), g.random(11))
    s = g.add("Softmax", g.add("Gemm", d, g.random(5, 11), g.random(5), transB=1), axis=-1)
    m = g.add("Flatten", g.add("GlobalMaxPool", y))
    return g.model(s, g.add("Sigmoid", g.add("Gemm", m, g.random(24, 2), g.random(2))))


def turned():
    """An exporter's channels last: transposes, shapes computed by nodes, squeezes."""
    g = Graph(10, 12, 2)
    x = g.add("Transpose", "x", perm=[0, 3, 1, 2])
    x = g.add("Relu", g.add("Conv", x, g.random(6, 2, 5, 5)))
    x = g.add("Transpose", x, perm=[0, 2, 3, 1])
    shape = g.add("Concat", g.add("Gather", g.add("Shape", x), g.constant(np.array([0])), axis=0),
                  g.constant(np.array([-1])), axis=0)
    f = g.add("Dropout", g.add("Reshape", x, shape))
    d = g.add("Tanh", g.add("Gemm", f, g.random(6 * 6 * 8, 9), g.random(9)))
    u = g.add("Squeeze", g.add("Unsqueeze", d, g.constant(np.array([1]))), g.constant(np.array([1])))
    return g.model(g.add("Softmax", g.add("Identity", u), axis=1))


def line():
    """One dimension, as for waveforms; shuffled channels; a global pool."""
    g = Graph(2, 40)
    x = g.add("Conv", "x", g.random(8, 2, 7), g.random(8), strides=[2], pads=[3, 3])
    x = g.add("MaxPool", g.add("Relu", x), kernel_shape=[2], strides=[2])
    x = g.add("Reshape", x, g.constant(np.array([0, 2, 4, 10])))
    x = g.add("Reshape", g.add("Transpose", x, perm=[0, 2, 1, 3]), g.constant(np.array([-1, 8, 10])))
    x = g.add("Conv", x, g.random(4, 8, 4), auto_pad="SAME_UPPER", strides=[3])
    p = g.add("GlobalAveragePool", x)
    s = g.add("Softmax", x, axis=-1)
    return g.model(g.add("Flatten", p), s, g.add("Sum", x, s, x))


def bent():
    """Activations with a bend, behind a convolution, a sum and a dense layer."""
    g = Graph(2, 9, 8)
    x = g.add("LeakyRelu", g.add("Conv", "x", g.random(6, 2, 3, 3), g.random(6)), alpha=0.2)
    y = g.add("PRelu", g.add("Conv", x, g.random(6, 6, 1, 1), g.random(6)), g.constant(np.array([[[0.6]]], np.float32)))
    s = g.add("Elu", g.add("Add", x, y), alpha=1.3)
    c = g.add("Clip", g.add("LeakyRelu", s), g.constant(np.float32(0)), g.constant(np.float32(0.8)))
    f = g.add("Clip", g.add("Gemm", g.add("Flatten", c), g.random(6 * 7 * 6, 12), g.random(12)), g.constant(np.float32(0)))
    return g.model(f, g.add("Flatten", y))


def curved():
    """Activations of one or two numbers, and a slope for each channel: channels last, not, and dense."""
    g = Graph(3, 6, 5, opset=20)
    x = g.add("PRelu", "x", g.random(3, 1, 1))
    x = g.add("Selu", g.add("Conv", x, g.random(6, 3, 3, 3), g.random(6)))
    x = g.add("PRelu", g.add("Add", x, g.add("Softplus", x)), g.random(1, 6, 1, 1))
    y = [g.add("HardSigmoid", x), g.add("HardSigmoid", x, alpha=0.4, beta=0.1), g.add("HardSwish", x), g.add("Gelu", x),
         g.add("Gelu", x, approximate="tanh"), g.add("Mish", x), g.add("Celu", x, alpha=0.7),
         g.add("Selu", x, alpha=1.2, gamma=0.8), g.add("Clip", x, g.constant(np.float32(-0.5)), g.constant(np.float32(1))),
         g.add("Clip", x, g.constant(np.float32(0.25))), g.add("Clip", x, "", g.constant(np.float32(-0.1)))]
    d = g.add("PRelu", g.add("Gemm", g.add("Flatten", y[0]), g.random(72, 9), g.random(9)), g.random(9))
    p = g.add("PRelu", g.add("Reshape", d, g.constant(np.array([0, 3, 3]))), g.random(3, 1))
    return g.model(g.add("Flatten", g.add("Concat", *y, axis=1)), g.add("Flatten", p))


def renamed():
    """Norms whose channels are not those of the dense layer, or of the convolution, before them."""
    g = Graph(1, 10, 4, opset=12)
    d = g.add("Gemm", g.add("Flatten", "x"), g.random(40, 16), g.random(16))
    d = g.norm(g.add("Reshape", d, g.constant(np.array([-1, 4, 2, 2]))), 4)
    c = g.add("Squeeze", g.add("Conv", "x", g.random(1, 1, 1, 1)), axes=[1])
    return g.model(g.add("Flatten", d), g.add("Flatten", g.norm(c, 10)))


def direct():
    """A first convolution that reads the patch as it came: one channel."""
    g = Graph(1, 13, 9)
    x = g.add("Relu", g.add("Conv", "x", g.random(6, 1, 4, 3), g.random(6)))
    x = g.add("Relu", g.add("Conv", x, g.random(5, 6, 3, 3), g.random(5)))
    return g.model(g.add("Softmax", g.add("Gemm", g.add("Flatten", x), g.random(5 * 8 * 5, 4), g.random(4)), axis=1))


def old():
    """Softmax over everything from its axis on (before opset 13); an input that is read twice."""
    g = Graph(3, 4, 5, opset=11)
    y = g.add("Add", "x", g.add("Relu", "x"))
    return g.model(g.add("Softmax", y, axis=1), g.add("Concat", "x", y, axis=1))


def light(name):
    folder = os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/light")
    model = onnx.load(f"{folder}/light_{name}.onnx")
    shapes = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    positive = {n.input[4] for n in model.graph.node if n.op_type == "BatchNormalization"}
    scale = {n.input[1] for n in model.graph.node if n.op_type == "BatchNormalization"}
    kept = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape, out = shapes[node.input[0]], node.output[0]
        fan = np.prod(shape[1:]) if len(shape) > 1 else 100
        array = rng.standard_normal(shape) * (2 / fan) ** 0.5
        if out in positive or out in scale:
            array = rng.uniform(0.5, 1.0 if out in scale else 2, shape)
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), out))
    del model.graph.node[:]
    # The last softmax would hide what is before it.
    kept[-1].op_type = "Identity" if kept[-1].op_type == "Softmax" else kept[-1].op_type
    if kept[-1].op_type == "Identity":
        del kept[-1].attribute[:]
    model.graph.node.extend(kept)
    return model


def compare(program, work, what, model, n, rows, limit=2e-5, *precision):
    path, patches, scores = (os.path.join(work, name) for name in ("m.onnx", "in", "out"))
    onnx.save(model, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    port = session.get_inputs()[0]
    x = rng.standard_normal((n, *port.shape[1:]), dtype=np.float32)
    x.tofile(patches)
    run = subprocess.run([program, path, patches, scores, str(rows), *precision], capture_output=True, text=True)
    if run.returncode:
        return report(what, False, run.stderr)
    want = np.concatenate([np.concatenate([y.reshape(1, -1) for y in session.run(None, {port.name: x[i:i + 1]})], 1)
                           for i in range(n)])
    got = np.fromfile(scores, np.float32).reshape(n, -1)
    if got.shape != want.shape:
        return report(what, False, f"{got.shape} for {want.shape}")
    off, size = np.abs(got - want).max(), np.abs(want).max()
    # Half holds all of these: a node reported to be beyond it was inspected before all of it was there.
    report(what, off <= limit * max(1, size) and want.std() > 1e-3 * size and "tf32" not in run.stdout,
           f"{got.shape[1]} outputs of {n} patches, up to {size:.2g}, off by {off:.1e}; {run.stdout.strip()}")


def refuse(program, work):
    """What is not known is refused by node and operator."""
    def words(g, out):
        path = os.path.join(work, "r.onnx")
        onnx.save(g.model(out), path)
        run = subprocess.run([program, path, path, path], capture_output=True, text=True)
        return run.stderr if run.returncode == 1 else f"exit {run.returncode}"
    cases = []
    g = Graph(4, 8, 8)
    cases.append(("(LRN): it is not known here", g, g.add("LRN", "x", size=3)))
    g = Graph(4, 8, 8)
    cases.append(("ceil_mode", g, g.add("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)))
    g = Graph(4, 8, 8)
    cases.append(("a constant that is no bias", g, g.add("Add", "x", g.random(4, 1, 1))))
    g = Graph(6)
    d = g.add("Reshape", g.add("Gemm", "x", g.random(6, 16)), g.constant(np.array([-1, 4, 2, 2])))
    cases.append(("a constant that is no bias", g, g.add("Add", d, g.random(1, 4, 1, 1))))
    g = Graph(4, 8, 8)
    cases.append(("it moves the batch", g, g.add("Transpose", "x", perm=[1, 0, 2, 3])))
    g = Graph(6)
    d = g.add("ConstantOfShape", g.constant(np.array([1, 6])), value=helper.make_tensor("v", TensorProto.FLOAT, [0], []))
    cases.append(("it fills with no float32", g, g.add("Add", "x", d)))
    g = Graph(4, 8, 8)
    cases.append(("axis 2", g, g.add("Concat", "x", "x", axis=2)))
    g = Graph(4, 8, 8)
    cases.append(("its weights are no constants", g, g.add("Conv", "x", g.add("Identity", "x"))))
    g = Graph(6)
    cases.append(("transA, alpha or beta", g, g.add("Gemm", "x", g.random(6, 3), alpha=2.0)))
    g = Graph(4, 8, 8)
    cases.append(("axis 1 of 4 dimensions", g, g.add("Softmax", "x", axis=1)))
    g = Graph(4, 8, 8)
    cases.append(("(Clip): its slope or its ends are no constants", g, g.add("Clip", "x", g.add("GlobalMaxPool", "x"))))
    g = Graph(4, 8, 8)
    cases.append(("(PRelu): its slope or its ends are no constants", g, g.add("PRelu", "x", g.add("Relu", "x"))))
    for shape in ((4, 8, 8), (8,), (1, 8, 1)):
        g = Graph(4, 8, 8)
        cases.append(("(PRelu): its slopes are not one, or one a channel", g, g.add("PRelu", "x", g.random(*shape))))
    for op in ("Softsign", "ThresholdedRelu", "LogSoftmax"):
        g = Graph(4, 8, 8)
        cases.append((f"({op}): it is not known here", g, g.add(op, "x")))
    for word, g, out in cases:
        said = words(g, out)
        report(f"refused: {word}", word in said and "use --engine openvino" in said, said.strip())


def keeps_nan(program, work):
    """inf - inf, first or last in its window, is no number behind a MaxPool either."""
    g = Graph(1, 4, 4)
    a, b = (g.add("Conv", "x", g.constant(np.full((1, 1, 1, 1), w, np.float32))) for w in (10, -10))
    onnx.save(g.model(g.add("MaxPool", g.add("Add", a, b), kernel_shape=[2, 2], strides=[2, 2])), f"{work}/n.onnx")
    x = np.zeros((1, 1, 4, 4), np.float32)
    x[0, 0, 0, 0] = x[0, 0, 3, 3] = 1e38
    x.tofile(f"{work}/in")
    subprocess.run([program, f"{work}/n.onnx", f"{work}/in", f"{work}/out", "1"], capture_output=True)
    got = np.isnan(np.fromfile(f"{work}/out", np.float32))
    report(keeps_nan.__doc__, got.tolist() == [True, False, False, True], got)


def main(program, work, *cases):
    for case in cases:
        if case == "small":
            keeps_nan(program, work)
            for make in (plain, turned, line, bent, curved, renamed, direct, old):
                compare(program, work, make.__doc__, make(), 7, 3)
                compare(program, work, make.__doc__ + " In half.", make(), 7, 3, 5e-3, "fp16")
        elif case == "refuse":
            refuse(program, work)
        else:
            compare(program, work, case, light(case), 1, 1)
            if case != "shufflenet":
                compare(program, work, case + " in half", light(case), 1, 1, 5e-3, "fp16")
    sys.exit(failed > 0)


main(*sys.argv[1:])
