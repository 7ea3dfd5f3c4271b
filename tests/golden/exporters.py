"""exporters.py - one network, written as the exporters write it, through wiremill and ONNX Runtime.

usage: exporters.py WIREMILL WORK

Each form below was met in the output of PyTorch (1.13 and 2.15, TorchScript and dynamo), of tf2onnx and Keras,
of keras2onnx, or of ONNX's version converter. Says for each which engine takes it, and compares the scores.
"""
import concurrent.futures
import os
import subprocess
import sys

import h5py
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

H, W, K, F, D = 11, 13, 4, 6, 20
R, C = H - K + 1, W - K + 1
LIMIT = 2e-6
rng = np.random.default_rng(5)


class Graph:
    """Nodes one after another; `at` is the name of the value that the next one reads."""

    def __init__(self, opset, shape, reverse=False):
        self.opset, self.shape, self.reverse = opset, shape, reverse
        self.nodes, self.constants, self.outputs, self.at, self.n = [], [], [], "x", 0
        self.judge = None                   # an equivalent graph, if ONNX Runtime does not take this one

    def name(self, op):
        self.n += 1
        return f"{op.lower()}_{self.n}"

    def const(self, value):
        array = np.asarray(value)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        self.constants.append(numpy_helper.from_array(array, self.name("c")))
        return self.constants[-1].name

    def node(self, op, *inputs, output=None, **attributes):
        output = output or self.name(op)
        self.nodes.append(helper.make_node(op, list(inputs), [output], **attributes))
        return output

    def put(self, op, *more, **attributes):
        self.at = self.node(op, self.at, *more, **attributes)
        return self

    def axes(self, op, value, axes):
        """An attribute, and from operator set 13 on an input."""
        if self.opset < 13:
            return self.node(op, value, axes=axes)
        return self.node(op, value, self.const(np.array(axes)))

    def conv(self, filters=F, channels=1, kernel=K, bias=True, columns=None, **attributes):
        shape = [kernel, columns or kernel]
        w = rng.normal(0, 1.5 / kernel / channels ** .5, (filters, channels, *shape))
        more = [self.const(rng.normal(0, .2, filters))] if bias else []
        return self.put("Conv", self.const(w), *more, kernel_shape=shape, **attributes)

    def dense(self, n_in, n_out, product=False, source=None, **attributes):
        w, b = rng.normal(0, 1.5 / n_in ** .5, (n_in, n_out)), self.const(rng.normal(0, .2, n_out))
        source = source or self.at
        if product:
            return self.node("Add", self.node("MatMul", source, self.const(w)), b)
        return self.node("Gemm", source, self.const(w.T), b, transB=1, **attributes)

    def batchnorm(self, n):
        parts = [rng.uniform(.5, 1.5, n), rng.normal(0, .3, n), rng.normal(0, .3, n), rng.uniform(.5, 2, n)]
        return self.put("BatchNormalization", *map(self.const, parts), epsilon=1e-3)

    def heads(self, n_in, product=False, join=False):
        body = self.at
        names = ("a", "b") if join else ("em_trk_none", "michel")
        self.node("Softmax", self.dense(n_in, 3, product, body), output=names[0], axis=1 if self.opset < 13 else -1)
        self.node("Sigmoid", self.dense(n_in, 1, product, body), output=names[1])
        if join:
            self.node("Concat", *names, output="all", axis=1)
        self.outputs = [("all", 4)] if join else [("em_trk_none", 3), ("michel", 1)]
        return self

    def tail(self, n_in=F * R * C, act="Relu", product=False, join=False):
        """From the flat values on."""
        self.at = self.dense(n_in, D, product)
        return self.put(act).heads(D, product, join)

    def save(self, path):
        def port(name, shape):
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *shape])
        nodes = self.nodes[::-1] if self.reverse else self.nodes
        graph = helper.make_graph(nodes, "g", [port("x", self.shape)], [port(n, [k]) for n, k in self.outputs],
                                  self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 7 if self.opset < 18 else 10
        onnx.save(model, path)


def nchw(opset):
    return Graph(opset, (1, H, W))


def nhwc(opset, **how):
    g = Graph(opset, (H, W, 1), **how)
    return g.put("Transpose", perm=[0, 3, 1, 2])


def torch_view(opset):                      # x.view (x.size (0), -1)
    g = nchw(opset).conv().put("Relu")
    batch = g.node("Gather", g.node("Shape", g.at), g.const(np.array(0)), axis=0)
    target = g.node("Concat", g.axes("Unsqueeze", batch, [0]), g.const(np.array([-1])), axis=0)
    return g.put("Reshape", target).tail()


def torch_sizes(opset):                     # x.reshape (x.shape[0], x.shape[1] * x.shape[2] * x.shape[3])
    g = nchw(opset).conv().put("Relu")
    size = [g.node("Gather", g.node("Shape", g.at), g.const(np.array(d)), axis=0) for d in range(4)]
    product = g.node("Mul", g.node("Mul", size[1], size[2]), size[3])
    target = g.node("Concat", *(g.axes("Unsqueeze", s, [0]) for s in (size[0], product)), axis=0)
    return g.put("Reshape", target).tail()


def dynamo(opset):                          # Shape with its ends, Reshape with allowzero
    g = nchw(opset).conv().put("Relu")
    target = g.node("Concat", g.node("Shape", g.at, start=0, end=1), g.const(np.array([F * R * C])), axis=0)
    return g.put("Reshape", target, allowzero=1).put("Dropout").tail(join=True)


def tf2onnx(opset):                         # one channel: a Reshape turns NHWC into NCHW
    g = Graph(opset, (H, W, 1))
    g.put("Reshape", g.const(np.array([-1, 1, H, W]))).conv(auto_pad="VALID", strides=[1, 1]).put("Relu")
    g.put("Transpose", perm=[0, 2, 3, 1]).put("Reshape", g.const(np.array([-1, F * R * C])))
    return g.tail(product=True)


def keras2onnx(opset):                      # unsorted, the bias beside the convolution, back and forth
    g = nhwc(opset, reverse=True).conv(bias=False).put("Transpose", perm=[0, 2, 3, 1])
    g.put("Add", g.const(rng.normal(0, .2, F))).put("Relu").put("Identity").put("Flatten")
    return g.tail(product=True)


def scaled(opset):                          # a Rescaling layer, and (x - a) / b
    g = nchw(opset)
    g.put("Mul", g.const(0.25)).put("Add", g.const([[[-0.3]]])).put("Sub", g.const(1.5)).put("Div", g.const(4.))
    return g.conv().put("Relu").put("Flatten").tail()


def turned(opset):                          # a constant less the input, and a kernel of 2 x 6
    g = nchw(opset)
    g.at = g.node("Sub", g.const(0.5), g.at)
    return g.conv(kernel=2, columns=6).put("Relu").put("Flatten").tail(F * (H - 1) * (W - 5))


def norms(opset):                           # before and behind activations, of convolutions and dense layers
    g = nchw(opset).conv(bias=False).batchnorm(F).put("Relu").batchnorm(F)
    g.conv(8, F, 3).put("Relu").batchnorm(8).put("Flatten")
    g.at = g.dense(8 * (R - 2) * (C - 2), D, product=True)
    g.batchnorm(D).put("Relu").put("Mul", g.const(rng.uniform(.5, 1.5, D))).put("Add", g.const(rng.normal(0, .3, D)))
    return g.heads(D)


def rank3(opset):
    g = Graph(opset, (H, W))
    g.at = g.axes("Unsqueeze", "x", [1])
    g.conv().put("Relu").put("Flatten").put("Cast", to=1).put("Dropout")
    g.at = g.axes("Unsqueeze", g.at, [2])
    g.at = g.axes("Squeeze", g.at, [2])
    return g.tail()


def activation(opset, op, *more, dense=False, **attributes):
    g = nchw(opset).conv()
    g.put("Relu" if dense else op, *(() if dense else map(g.const, more)), **({} if dense else attributes)).put("Flatten")
    g.at = g.dense(F * R * C, D)
    return g.put(op, *map(g.const, more), **attributes).heads(D)


def gated(opset, act):
    """An activation of several nodes, behind the convolution and behind the dense layer."""
    g = nchw(opset).conv()
    act(g)
    g.put("Flatten")
    g.at = g.dense(F * R * C, D, product=True)
    act(g)
    return g.heads(D)


def silu(g, beta=1.):                       # PyTorch up to operator set 23, Keras
    x = g.at
    gate = g.node("Sigmoid", x if beta == 1 else g.node("Mul", x, g.const(beta)))
    g.at = g.node("Mul", x, gate)


def gelu_torch(g):                          # up to operator set 19
    x = g.at
    g.put("Div", g.const(2 ** .5)).put("Erf").put("Add", g.const(1.))
    g.at = g.node("Mul", g.node("Mul", x, g.at), g.const(.5))


def gelu_keras(g):                          # 0.5 x first, a product for the quotient
    x = g.at
    share = g.node("Add", g.const([1.]), g.node("Erf", g.node("Mul", g.const(.5 ** .5), x)))
    g.at = g.node("Mul", g.node("Mul", g.const(.5), x), share)


def gelu_tanh(g, power=False):
    x = g.at
    cube = g.node("Pow", x, g.const(3.)) if power else g.node("Mul", x, g.node("Mul", x, x))
    inner = g.node("Add", x, g.node("Mul", cube, g.const(.044715)))
    tanh = g.node("Tanh", g.node("Mul", inner, g.const((2 / np.pi) ** .5)))
    g.at = g.node("Mul", g.node("Mul", x, g.const(.5)), g.node("Add", tanh, g.const(1.)))


def hard_swish(g, opset):
    x = g.at
    if opset < 11:                          # x relu6 (x + 3) / 6
        g.put("Add", g.const(3.)).put("Clip", min=0., max=6.)
        g.at = g.node("Div", g.node("Mul", x, g.at), g.const(6.))
    else:
        g.at = g.node("Mul", x, g.node("HardSigmoid", x, alpha=1 / 6))


def mish(g):
    x = g.at
    g.put("Softplus").put("Tanh")
    g.at = g.node("Mul", x, g.at)


def foreign(opset):                         # tf2onnx leaves these as they are; ONNX Runtime is asked otherwise
    def network(erfc, expm1):
        g = nchw(opset).conv(pads=[1] * 4)
        x = g.at
        g.put("Neg").put("Mul", g.const(.5 ** .5))
        erfc(g)
        g.at = x = g.node("Mul", g.node("Mul", g.const(.5), x), g.at)
        g.put("Min", g.const(0.))
        expm1(g)
        g.at = g.node("Add", g.node("Relu", x), g.at)
        return g.put("Flatten").tail(F * (R + 2) * (C + 2))

    def one_minus_erf(g):
        g.at = g.node("Sub", g.const(1.), g.node("Erf", g.at))
    state = rng.bit_generator.state
    judge = network(one_minus_erf, lambda g: g.put("Exp").put("Sub", g.const(1.)))
    rng.bit_generator.state = state
    g = network(lambda g: g.put("Erfc"), lambda g: g.put("Expm1"))
    g.judge = judge
    return g


def residual(g):                            # x + sigmoid (x): no activation by any name
    g.at = g.node("Add", g.at, g.node("Sigmoid", g.at))


def prelu(opset, slope):
    g = nchw(opset).conv()
    return g.put("PRelu", g.const(slope)).put("Flatten").tail()


def gemm(opset):                            # alpha and beta, and weights that nodes turn
    g = nhwc(opset).conv().put("Relu").put("Flatten")
    g.at = g.dense(F * R * C, D, alpha=0.5, beta=2.0)
    g.put("Tanh")
    w = g.node("Transpose", g.const(rng.normal(0, .3, (8, D))), perm=[1, 0])
    return g.put("MatMul", w).put("Relu").heads(8)


def padded(opset, how):
    g = nchw(opset)
    if how == "Pad" and opset < 11:
        g.put("Pad", pads=[0, 0, 1, 1, 0, 0, 1, 1])
    elif how == "Pad":
        g.put("Pad", g.const(np.array([0, 0, 1, 1, 0, 0, 1, 1])))
    same = how == "SAME_UPPER"
    g.conv(**({"auto_pad": how} if same else {})).put("Relu").put("Flatten")
    return g.tail(F * (H * W if same else (R + 2) * (C + 2)))


def pooled(opset):
    g = nchw(opset).conv().put("Relu").put("MaxPool", kernel_shape=[2, 2], strides=[2, 2]).put("Flatten")
    return g.tail(F * (R // 2) * (C // 2))


def one_dimension(opset):                   # waveforms: padded, dilated, in groups, pooled
    g = Graph(opset, (3, 40))
    g.put("Conv", g.const(rng.normal(0, .3, (8, 3, 5))), g.const(rng.normal(0, .2, 8)), kernel_shape=[5], pads=[2, 2])
    g.put("Relu").put("MaxPool", kernel_shape=[2], strides=[2])
    g.put("Conv", g.const(rng.normal(0, .3, (6, 4, 3))), kernel_shape=[3], group=2, dilations=[2], strides=[2])
    return g.batchnorm(6).put("LeakyRelu", alpha=.1).put("Flatten").tail(6 * 8)


def one_dimension_family(opset):            # the family's form, but for its dimension
    g = Graph(opset, (1, 60))
    g.put("Conv", g.const(rng.normal(0, .5, (F, 1, 7))), g.const(rng.normal(0, .2, F))).put("Relu").put("Flatten")
    return g.tail(F * 54)


def softmax_rank3(opset):                   # up to operator set 12 it runs over all that is behind the axis
    g = nchw(opset).conv().put("Relu").put("Flatten")
    g.at = g.dense(F * R * C, 4)
    g.put("Reshape", g.const(np.array([-1, 2, 2]))).put("Softmax", axis=1)
    g.node("Reshape", g.at, g.const(np.array([-1, 4])), output="all")
    g.outputs = [("all", 4)]
    return g


def over_batch(opset):                      # no score of one patch
    g = nchw(opset).conv().put("Relu").put("Flatten")
    g.at = g.dense(F * R * C, 4)
    g.node("Softmax", g.at, output="all", axis=0)
    g.outputs = [("all", 4)]
    return g


def wide(columns):                          # a kernel as wide as almost the patch
    g = Graph(17, (1, 8, 80))
    g.put("Conv", g.const(rng.normal(0, .1, (F, 1, 3, columns))), g.const(rng.normal(0, .2, F)))
    return g.put("Relu").put("Flatten").tail(F * 6 * (81 - columns))


def plain(opset):
    return nchw(opset).conv().put("Relu").put("Flatten").tail()


SPARSE, GENERAL = "sparse", "general"
FORMS = [(f"opset {o}", SPARSE, lambda o=o: plain(o)) for o in (9, 13, 25)] + [
    ("torch view, 9", SPARSE, lambda: torch_view(9)), ("torch view, 18", SPARSE, lambda: torch_view(18)),
    ("torch sizes, 9", SPARSE, lambda: torch_sizes(9)), ("torch sizes, 17", SPARSE, lambda: torch_sizes(17)),
    ("dynamo", SPARSE, lambda: dynamo(20)), ("tf2onnx", SPARSE, lambda: tf2onnx(9)),
    ("keras2onnx", SPARSE, lambda: keras2onnx(11)), ("scaled input", SPARSE, lambda: scaled(13)),
    ("norms, 9", SPARSE, lambda: norms(9)), ("norms, 18", SPARSE, lambda: norms(18)),
    ("rank 3, 11", SPARSE, lambda: rank3(11)), ("rank 3, 23", SPARSE, lambda: rank3(23)),
    ("gemm", SPARSE, lambda: gemm(13)),
    ("LeakyRelu", SPARSE, lambda: activation(16, "LeakyRelu", alpha=0.2)),
    ("one slope", SPARSE, lambda: prelu(9, [[[0.1]]])),
    ("a slope a channel", GENERAL, lambda: prelu(16, rng.uniform(0, .5, (F, 1, 1)))),
    ("Relu6 by attributes", SPARSE, lambda: activation(9, "Clip", min=0.0, max=0.8)),
    ("Hardtanh by inputs", SPARSE, lambda: activation(13, "Clip", -0.7, 0.8)),
    ("Elu", SPARSE, lambda: activation(18, "Elu", alpha=0.7)), ("Selu", SPARSE, lambda: activation(9, "Selu")),
    ("HardSigmoid", SPARSE, lambda: activation(13, "HardSigmoid", dense=True, alpha=0.3)),
    ("Sigmoid", SPARSE, lambda: activation(13, "Sigmoid")), ("Softplus", SPARSE, lambda: activation(9, "Softplus")),
    ("Gelu", SPARSE, lambda: activation(20, "Gelu")), ("Gelu, tanh", SPARSE, lambda: activation(20, "Gelu", approximate="tanh")),
    ("HardSwish", SPARSE, lambda: activation(14, "HardSwish")), ("Mish", SPARSE, lambda: activation(18, "Mish")),
    ("x sigmoid (x)", SPARSE, lambda: gated(9, silu)), ("x sigmoid (1.702 x)", SPARSE, lambda: gated(17, lambda g: silu(g, 1.702))),
    ("GELU by erf, PyTorch", SPARSE, lambda: gated(17, gelu_torch)), ("GELU by erf, Keras", SPARSE, lambda: gated(13, gelu_keras)),
    ("GELU by tanh", SPARSE, lambda: gated(18, gelu_tanh)), ("GELU by tanh and Pow", SPARSE, lambda: gated(12, lambda g: gelu_tanh(g, True))),
    ("x relu6 (x + 3) / 6", SPARSE, lambda: gated(9, lambda g: hard_swish(g, 9))),
    ("x hardsigmoid (x)", SPARSE, lambda: gated(13, lambda g: hard_swish(g, 13))),
    ("x tanh (softplus (x))", SPARSE, lambda: gated(13, mish)), ("x + sigmoid (x)", GENERAL, lambda: gated(13, residual)),
    ("Erfc and Expm1, 9", GENERAL, lambda: foreign(9)), ("Erfc and Expm1, 18", GENERAL, lambda: foreign(18)),
    ("Pad, 9", GENERAL, lambda: padded(9, "Pad")), ("Pad, 13", GENERAL, lambda: padded(13, "Pad")),
    ("64 columns", SPARSE, lambda: wide(64)), ("65 columns", GENERAL, lambda: wide(65)),
    ("auto_pad", GENERAL, lambda: padded(13, "SAME_UPPER")), ("MaxPool", GENERAL, lambda: pooled(12)),
    ("one dimension, 9", GENERAL, lambda: one_dimension(9)), ("one dimension, 20", GENERAL, lambda: one_dimension(20)),
    ("one dimension, 13", GENERAL, lambda: one_dimension_family(13)),
    ("Softmax of rank 3, 11", GENERAL, lambda: softmax_rank3(11)),
    ("Softmax of rank 3, 13", GENERAL, lambda: softmax_rank3(13)),
    ("0.5 - input, 2 x 6", SPARSE, lambda: turned(13)),
]


def command(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: exit {done.returncode}: {done.stderr}")
    return done.stdout + done.stderr


def scores(path):
    with h5py.File(path) as f:
        table = f["emtrkmichel"]
        assert (table["status"][:] == 0).all()
        columns = [n for n in ("em_trk_none_0", "em_trk_none_1", "em_trk_none_2", "michel") if n in table]
        return np.stack([table[n][:] for n in columns or [f"all_{k}" for k in range(4)]], 1)


def check(wiremill, work, number, name, engine, graph):
    path, folder = f"{work}/{number}.onnx", f"{work}/{number}"
    os.mkdir(folder)
    graph.save(path)
    x = np.random.default_rng(number).normal(0, 2, (9, *graph.shape)).astype(np.float32)
    x[1:6] *= np.random.default_rng(1).random(x[1:6].shape) < 0.1
    x[6] = 0
    np.save(f"{folder}/x.npy", x)
    if graph.judge:
        graph.judge.save(f"{folder}/judge.onnx")
    session = onnxruntime.InferenceSession(f"{folder}/judge.onnx" if graph.judge else path, providers=["CPUExecutionProvider"])
    want = np.concatenate([o.reshape(len(x), -1) for o in session.run(None, {"x": x})], 1)
    said = command(wiremill, "import", path, "-o", f"{folder}/m.wmm")
    command(wiremill, "run", "--model", f"{folder}/m.wmm", "--input", f"{folder}/x.npy", "--output", f"{folder}/out", "-w", "1",
            "--quiet")
    difference = np.abs(scores(f"{folder}/out/x.scores.h5") - want).max()
    good = f"{engine} engine:" in said and difference <= LIMIT and want.std(0).max() > 1e-3
    return good, f"{'good' if good else 'BAD '} {name}: {engine}, largest difference {difference:.2g}" + (
        "" if good else f"\n{said}")


def main(wiremill, work):
    graphs = [(number, name, engine, make()) for number, (name, engine, make) in enumerate(FORMS)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda a: check(wiremill, work, *a), graphs))
    for good, line in done:
        print(line)
    for opset in range(9, 26):
        plain(opset).save(f"{work}/opset.onnx")
        assert "sparse engine:" in command(wiremill, "import", f"{work}/opset.onnx", "-o", f"{work}/opset.wmm"), opset
    for opset in (9, 13):
        over_batch(opset).save(f"{work}/batch.onnx")
        tried = subprocess.run([wiremill, "import", f"{work}/batch.onnx", "-o", f"{work}/batch.wmm"],
                               capture_output=True, text=True)
        assert tried.returncode == 5 and "depend on the other patches" in tried.stderr, tried
    sys.exit(not all(good for good, _ in done))


if __name__ == "__main__":
    main(*sys.argv[1:])
