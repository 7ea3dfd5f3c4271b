"""nan.py - NaNs that a model makes of finite patches: the rows that are held, and the scores of the others, by onnx.reference.

usage: nan.py makers|keepers|values WORK [EVERY TURN]    of the models every EVERY-th is tried, from TURN on
Needs WIREMILL_LIBRARY. Prints one line a model; exits 1 if one is wrong.

A model of `makers` has one way to make a NaN and every operator that would lose it, each on columns of its own; row j has
what makes a NaN in the columns of operator j alone. So each row shows whether one operator is watched.
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../ops/python"))
import wiremill  # noqa: E402

WIDE = 6             # columns of an operator
WORK = sys.argv[2]
failed = False


class Graph:
    """A graph of x (N, columns); values that are made get names of their own."""

    def __init__(self, columns):
        self.columns, self.nodes, self.constants, self.outputs = columns, [], [], []

    def constant(self, value, kind=np.float32):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def ints(self, *value):
        return self.constant(value, np.int64)

    def __call__(self, op, *values, results=1, **attributes):
        values = [v if isinstance(v, str) else self.constant(v) for v in values]
        names = [f"v{len(self.nodes)}{'' if k == 0 else f'_{k}'}" for k in range(results)]
        self.nodes.append(helper.make_node(op, values, names, **attributes))
        return names[0] if results == 1 else names

    def floats(self, value):
        return self("Cast", value, to=TensorProto.FLOAT)

    def part(self, j):
        return self("Slice", "x", self.ints(j * WIDE), self.ints((j + 1) * WIDE), self.ints(1))

    def model(self, opset=17):
        flat = [self("Reshape", y, self.ints(0, -1)) for y in self.outputs]
        self.nodes.append(helper.make_node("Concat", flat, ["y"], axis=1))
        kind = helper.make_tensor_value_info
        graph = helper.make_graph(self.nodes, "g", [kind("x", TensorProto.FLOAT, ["N", self.columns])],
                                  [kind("y", TensorProto.FLOAT, ["N", None])], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 8 if opset < 20 else 10
        return model


# ---- what makes a NaN: of s, which is 0.5 to 2.5 but for one or all of its values in a row --------------------------------

def softmax_of_nothing(g, s):
    return g("Softmax", g("Where", g("Greater", s, 50), -np.inf, s), axis=1)


def overflow(g, s):
    t = s
    for _ in range(3):
        t = g("Mul", t, t)
    return g("Add", s, g("Sub", t, g("Abs", t)))


def of_infinities(g, s):
    return g("Sub", g("Reciprocal", g("Sub", s, 1)), g("Reciprocal", g("Abs", g("Sub", s, 1))))


def matrix(g, s):
    return g("MatMul", g("Exp", s), np.random.default_rng(1).normal(0, .02, (WIDE, WIDE)))


def variance(g, s):
    """A normalisation that subtracts too much: the root of a negative mean."""
    mean = g("ReduceMean", s, axes=[1], keepdims=1)
    return g("Div", g("Sub", s, mean), g("Sqrt", g("Sub", g("ReduceMean", g("Mul", s, s), axes=[1], keepdims=1), .2)))


MAKERS = {  # name: what is made of s, what s is where that is a NaN, in how many of its values
    "Sqrt": (lambda g, s: g("Sqrt", s), -1, 1),
    "Log": (lambda g, s: g("Log", s), -1, 1),
    "Pow": (lambda g, s: g("Pow", s, .5), -2, 1),
    "0 / 0": (lambda g, s: g("Div", g("Mul", s, g("Sub", s, 1)), g("Abs", g("Sub", s, 1))), 1, 1),
    "inf - inf": (lambda g, s: g("Sub", g("Exp", s), g("Exp", g("Add", s, 1))), 100, 1),
    "inf * 0": (lambda g, s: g("Mul", g("Exp", s), g("Sub", s, 100)), 100, 1),
    "1 / 0 - 1 / 0": (of_infinities, 1, 1),
    "MatMul (Exp)": (matrix, 100, WIDE),
    "Acos": (lambda g, s: g("Acos", g("Mul", s, .25)), 5, 1),
    "Asin": (lambda g, s: g("Asin", g("Mul", s, .25)), 5, 1),
    "Acosh": (lambda g, s: g("Acosh", g("Add", s, 1)), -1, 1),
    "Atanh": (lambda g, s: g("Atanh", g("Mul", s, .25)), 5, 1),
    "Softmax": (softmax_of_nothing, 100, WIDE),
    "overflow": (overflow, 1e10, 1),
    "variance": (variance, 0, WIDE),
}


# ---- what would lose it ---------------------------------------------------------------------------------------------------

def every(j):
    return np.random.default_rng(j).normal(0, .3, (WIDE, WIDE)).astype(np.float32)


def plane(g, q):
    return g("Reshape", q, g.ints(0, 1, 2, 3))


def conv(g, q):
    return g("Conv", plane(g, q), np.random.default_rng(2).normal(0, .3, (2, 1, 2, 2)))


def deep(g, q):
    """Layers behind what may be infinite: each may make a NaN of it."""
    for k in range(3):
        q = g("Relu", g("MatMul", q, every(10 + k)))
    return q


LOSERS = {
    "three layers": deep,
    "Relu": lambda g, q: g("Relu", q),
    "Max": lambda g, q: g("Max", q, .75),
    "Min": lambda g, q: g("Min", q, .75),
    "Max, second": lambda g, q: g("Max", .75, q),
    "Clip": lambda g, q: g("Clip", q, -1, 1),
    "Clip from": lambda g, q: g("Clip", q, -1),
    "ReduceMax": lambda g, q: g("ReduceMax", q, axes=[1], keepdims=1),
    "ReduceMin": lambda g, q: g("ReduceMin", q, axes=[1], keepdims=1),
    "MaxPool": lambda g, q: g("MaxPool", plane(g, q), kernel_shape=[2, 2]),
    "GlobalMaxPool": lambda g, q: g("GlobalMaxPool", plane(g, q)),
    "Greater": lambda g, q: g.floats(g("Greater", q, .5)),
    "Less": lambda g, q: g.floats(g("Less", q, .5)),
    "GreaterOrEqual": lambda g, q: g.floats(g("GreaterOrEqual", q, .5)),
    "LessOrEqual": lambda g, q: g.floats(g("LessOrEqual", .5, q)),
    "Equal": lambda g, q: g.floats(g("Equal", q, .5)),
    "Where": lambda g, q: g("Where", g("Less", q, .5), 1, 2),
    "Cast to INT32": lambda g, q: g.floats(g("Cast", q, to=TensorProto.INT32)),
    "Cast to INT64": lambda g, q: g.floats(g("Cast", q, to=TensorProto.INT64)),
    "Cast to BOOL": lambda g, q: g.floats(g("Cast", q, to=TensorProto.BOOL)),
    "Sign": lambda g, q: g("Sign", q),
    "ArgMax": lambda g, q: g.floats(g("ArgMax", q, axis=1)),
    "ArgMin": lambda g, q: g.floats(g("ArgMin", q, axis=1)),
    "TopK": lambda g, q: g("TopK", q, g.ints(2), results=2)[0],
    "TopK, places": lambda g, q: g.floats(g("TopK", q, g.ints(2), results=2, largest=0)[1]),
    "HardSigmoid": lambda g, q: g("HardSigmoid", q),
    "ThresholdedRelu": lambda g, q: g("ThresholdedRelu", q),
    "Shrink": lambda g, q: g("Shrink", q),
    "Celu": lambda g, q: g("Celu", q),
    "Exp": lambda g, q: g("Exp", g("Neg", g("Abs", q))),
    "Hardmax": lambda g, q: g("Hardmax", q, axis=1),
    "Conv, Relu": lambda g, q: g("Relu", conv(g, q)),
    "Sigmoid, Max": lambda g, q: g("Max", g("Sigmoid", q), .6),
    "twice": lambda g, q: g("Max", g("Relu", q), .1),
    "beside": lambda g, q: g("Add", g("Relu", q), g("Tanh", q)),
}


ONES = np.ones(1, np.float32)
KEEPERS = {op: (lambda g, q, op=op: g(op, q)) for op in (
    "Abs Sigmoid Tanh Log Neg Sqrt Erf Elu Selu LeakyRelu HardSwish Softplus Softsign Floor Ceil Round Reciprocal Sin Cos Tan "
    "Atan Sinh Cosh Asinh Identity").split()} | {
    "Acos": lambda g, q: g("Acos", g("Mul", q, .5)),
    "Asin": lambda g, q: g("Asin", g("Mul", q, .5)),
    "Acosh": lambda g, q: g("Acosh", g("Add", q, 1)),
    "Atanh": lambda g, q: g("Atanh", g("Mul", q, .5)),
    "Softmax": lambda g, q: g("Softmax", q, axis=1),
    "LogSoftmax": lambda g, q: g("LogSoftmax", q, axis=1),
    "Add": lambda g, q: g("Add", 1, q),
    "Sub": lambda g, q: g("Sub", q, 1),
    "Mul": lambda g, q: g("Mul", q, 0),
    "Div": lambda g, q: g("Div", 1, q),
    "Mod": lambda g, q: g("Mod", q, 2, fmod=1),
    "Pow": lambda g, q: g("Pow", q, 2),
    "PRelu": lambda g, q: g("PRelu", q, [.5]),
    "Sum": lambda g, q: g("Sum", q, 1, q),
    "Mean": lambda g, q: g("Mean", q, 1),
    "MatMul": lambda g, q: g("MatMul", q, every(1)),
    "Gemm": lambda g, q: g("Gemm", q, every(2), transB=1),
    "Einsum": lambda g, q: g("Einsum", q, every(3), equation="ij,jk->ik"),
    "Conv": conv,
    "Conv, Add, Sigmoid": lambda g, q: g("Sigmoid", g("Add", conv(g, q), 1)),
    "ConvTranspose": lambda g, q: g("ConvTranspose", plane(g, q), np.ones((1, 2, 2, 2))),
    "AveragePool": lambda g, q: g("AveragePool", plane(g, q), kernel_shape=[2, 2]),
    "GlobalAveragePool": lambda g, q: g("GlobalAveragePool", plane(g, q)),
    "BatchNormalization": lambda g, q: g("BatchNormalization", plane(g, q), ONES, ONES, ONES, ONES),
    "InstanceNormalization": lambda g, q: g("InstanceNormalization", plane(g, q), ONES, ONES),
    "LayerNormalization": lambda g, q: g("LayerNormalization", q, np.ones(WIDE)),
    "MeanVarianceNormalization": lambda g, q: g("MeanVarianceNormalization", plane(g, q), axes=[1, 2, 3]),
    "Resize": lambda g, q: g("Resize", plane(g, q), "", [1, 1, 2, 2], mode="linear"),
    "ReduceSum": lambda g, q: g("ReduceSum", q, g.ints(1)),
    "ReduceMean": lambda g, q: g("ReduceMean", q, axes=[1]),
    "ReduceProd": lambda g, q: g("ReduceProd", q, axes=[1]),
    "ReduceL2": lambda g, q: g("ReduceL2", q, axes=[1]),
    "ReduceSumSquare": lambda g, q: g("ReduceSumSquare", q, axes=[1]),
    "CumSum": lambda g, q: g("CumSum", q, g.constant(1, np.int64)),
    "Concat": lambda g, q: g("Concat", q, q, axis=1),
    "Transpose": lambda g, q: g("Transpose", plane(g, q), perm=[0, 3, 2, 1]),
    "Pad": lambda g, q: g("Pad", plane(g, q), g.ints(0, 0, 1, 1, 0, 0, 1, 1)),
}


# ---- numbers that look like it --------------------------------------------------------------------------------------------

def attention(g, s):
    scores = g("Add", g("MatMul", s, every(4)), [0, -np.inf, 0, -np.inf, 0, 0])
    return g("Relu", g("MatMul", g("Softmax", scores, axis=1), every(5)))


def masked(g, s):
    above = g("GreaterOrEqual", s, g("ReduceMean", s, axes=[1], keepdims=1))
    return g("Relu", g("Softmax", g("Where", above, s, -np.inf), axis=1))


def log(g, s):
    return g("Log", s)


VALUES = {  # rows have numbers from -3 to 3, and 0, 100 and -100
    "a mask of -inf, then Softmax": masked,
    "a sum with a mask of -inf": attention,
    "Log (0) into Max": lambda g, s: g("Max", log(g, g("Relu", s)), -5),
    "1 / 0 into Min": lambda g, s: g("Min", g("Reciprocal", g("Abs", s)), 7),
    "1 / 0 into Sigmoid": lambda g, s: g("Relu", g("Sigmoid", g("Div", 1, g("Abs", s)))),
    "Exp (100) into Clip": lambda g, s: g("Clip", g("Exp", s), 0, 9),
    "Log of what is positive": lambda g, s: g("Relu", g("Where", g("Greater", s, 0), log(g, s), -1)),
    "IsNaN, Where": lambda g, s: g("Relu", g("Where", g("IsNaN", log(g, s)), .5, log(g, s))),
    "Equal to itself": lambda g, s: g("Relu", (lambda q: g("Where", g("Equal", q, q), q, .5)) (log(g, s))),
    "IsInf": lambda g, s: g("Where", g("IsInf", g("Reciprocal", s)), 3, s),
    "a norm with an epsilon": lambda g, s: g("Relu", g("Div", s, g("Sqrt", g("Add", g("ReduceMean", g("Mul", s, s), axes=[1]),
                                                                              1e-5)))),
    "a Slice that drops it": lambda g, s: g("Relu", g("Slice", g("Sqrt", g("Concat", g("Abs", s), s, axis=1)),
                                                      g.ints(0), g.ints(WIDE), g.ints(1))),
    "a sigmoid by Exp": lambda g, s: g("Relu", g("Reciprocal", g("Add", 1, g("Exp", g("Neg", s))))),
    "1 / 0 into sums with positive weights": lambda g, s: g("Min", g("MatMul", g("Reciprocal", g("Abs", s)),
                                                                     np.abs(every(6)) + .1), 7),
    "1 / 0 into two of them": lambda g, s: g("Sigmoid", g("MatMul", g("Relu", g("MatMul", g("Reciprocal", g("Abs", s)),
                                                          np.abs(every(6)) + .1)), np.abs(every(7)) + .1)),
    "a constant NaN that is not taken": lambda g, s: g("Relu", (lambda q: g("Where", g("IsNaN", q), .5, q)) (
        g("Where", g("Greater", s, 0), s, np.nan))),
}

# ---- the judge ------------------------------------------------------------------------------------------------------------

def computed(model, x):
    with np.errstate(all="ignore"):
        return np.asarray(ReferenceEvaluator(model).run(["y"], {"x": x})[0])


def judge(what, model, x, names, bad, limit=2e-5):
    """`bad`: the rows that must be held (N,) bool."""
    global failed
    path = os.path.join(WORK, "m.onnx")
    onnx.save(model, path)
    want = computed(model, np.where(bad[:, None], x[~bad][:1], x))
    try:
        got, status = wiremill.Model(path).score(x, status=True)
    except wiremill.WiremillError as error:
        failed = True
        print(f"BAD  {what}: {error}", flush=True)
        return
    wrong = np.flatnonzero(status != np.where(bad, 6, 0))
    off = np.abs(got - want)[~bad & (status == 0)]
    off = np.nanmax(off / np.maximum(1, np.abs(want[~bad & (status == 0)])), initial=0) if np.isfinite(off).all() else np.inf
    fine = not len(wrong) and off <= limit and np.isnan(got[status != 0]).all()
    failed |= not fine
    print(f"{'good' if fine else 'BAD '} {what}: {len(x)} rows, {int(bad.sum())} must be held, {int((status != 0).sum())} are, "
          f"largest difference {off:.2g}; wrong: {', '.join(names(r) for r in wrong[:9]) or 'none'}", flush=True)


def columns(what, operators, make, value, many, limit=2e-5):
    """Every operator on columns of its own, which hold what `make` makes of x + 1.5; row j is bad for operator j."""
    g, made, r = Graph(len(operators) * WIDE), Graph(len(operators) * WIDE), np.random.default_rng(3)
    for j, operator in enumerate(operators.values()):
        g.outputs.append(operator(g, make(g, g("Add", g.part(j), 1.5))))
        made.outputs.append(make(made, made("Add", made.part(j), 1.5)))
    x = r.uniform(-1, 1, (len(operators) + 120, g.columns)).astype(np.float32)
    row = r.permutation(len(x))[:len(operators)]
    for j in range(len(operators)):
        x[row[j], j * WIDE + WIDE - many:(j + 1) * WIDE] = value - 1.5
    nan = np.isnan(computed(made.model(), x)).reshape(len(x), len(operators), WIDE).any(2)
    assert nan.sum() == len(operators) and all(nan[row[j], j] for j in range(len(operators))), (what, nan.sum(0))
    label = {row[j]: name for j, name in enumerate(operators)}
    judge(what, g.model(), x, lambda k: label.get(k, f"row {k}"), nan.any(1), limit)


def values():
    r = np.random.default_rng(4)
    for what, make in turns(VALUES).items():
        g = Graph(WIDE)
        g.outputs.append(make(g, "x"))
        x = r.uniform(-3, 3, (150, WIDE)).astype(np.float32)
        x[r.random(x.shape) < .1] = 0
        x[::7, 1], x[::11, 2] = 100, -100
        judge(what, g.model(), x, str, np.zeros(len(x), bool))


def turns(table):
    every_, turn = (int(a) for a in sys.argv[3:5]) if sys.argv[4:] else (1, 0)
    return {k: v for i, (k, v) in enumerate(table.items()) if i % every_ == turn % every_}


if __name__ == "__main__":
    if sys.argv[1] == "makers":
        for name, (make, value, many) in turns(MAKERS).items():
            columns(f"{name}, {len(LOSERS)} operators behind it", LOSERS, make, value, many)
    elif sys.argv[1] == "keepers":
        columns(f"{len(KEEPERS)} operators that keep it", KEEPERS, MAKERS["Sqrt"][0], -1, 1, limit=1e-4)
    elif sys.argv[1] == "values":
        values()
    else:
        sys.exit(__doc__)
    sys.exit(failed)
