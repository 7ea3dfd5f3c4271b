"""plain.py - models that use what ONNX has beside nodes and weights, as onnx's own evaluator computes them.

usage: plain.py WIREMILL FOLDER        (PYTHONPATH and WIREMILL_LIBRARY name the package wiremill)
Prints TAP. A model is right (the scores are the evaluator's), or refused by a text that names what is wrong.
"""
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.inliner import inline_local_functions
from onnx.reference import ReferenceEvaluator

import wiremill

WIREMILL, FOLDER = sys.argv[1:3]
N = helper.make_node
rng = np.random.default_rng(7)
tests = failed = 0


def verdict(good, name, text=""):
    global tests, failed
    tests += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {tests} - {name}", flush=True)
    if not good:
        print("# " + "\n# ".join(str(text).splitlines()[-20:]))


def port(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, inits=(), opset=18, functions=(), sets=(), sparse=()):
    inputs = [port(i, s) if isinstance(s, list) else port(i, *s) for i, s in inputs.items()]
    outputs = [o if isinstance(o, onnx.ValueInfoProto) else port(o, None) for o in outputs]
    inits = [numpy_helper.from_array(np.asarray(v), k) for k, v in dict(inits).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, inits, sparse_initializer=list(sparse))
    sets = [helper.make_opsetid(d, v) for d, v in dict(sets).items()]
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *sets], functions=list(functions),
                             ir_version=10)


def imported(m, *options):
    """The name of a .wmm, or None; what import said."""
    path = f"{FOLDER}/m.onnx"
    with open(path, "wb") as f:
        f.write(m if isinstance(m, bytes) else m.SerializeToString())
    p = subprocess.run([WIREMILL, "import", "--force", *options, path, "--output", f"{FOLDER}/m.wmm"], capture_output=True,
                       text=True, timeout=120)
    return f"{FOLDER}/m.wmm" if p.returncode == 0 else None, p.stdout + p.stderr


def feeds(m, rows):
    """Values of every input, for so many rows where it has a batch dimension."""
    given = {i.name for i in m.graph.initializer}
    out = {}
    for i in m.graph.input:
        if i.name not in given:
            t = i.type.tensor_type
            shape = [d.dim_value if d.HasField("dim_value") else rows for d in t.shape.dim]
            values = rng.integers(0, 2, shape) if t.elem_type != TensorProto.FLOAT else rng.normal(0, 1, shape)
            out[i.name] = np.asarray(values).astype(helper.tensor_dtype_to_np_dtype(t.elem_type))
    return out


def inlined(m):
    return ReferenceEvaluator(inline_local_functions(m))


def runtime(m):
    return onnxruntime.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])


def right(name, m, *options, limit=1e-5, rows=5, judge=ReferenceEvaluator, ragged=False, unless=None):
    """unless: what an engine that does not take it may say."""
    rows = 1 if "--whole" in options else rows
    path, said = imported(m, *options)
    if not path:
        return verdict(unless is not None and unless in said, name, said)
    if "ONNX Runtime scores it" in said and unless is None:  # OpenVINO would be wrong, or does not take it
        return verdict(False, name, said)
    if ragged:                                         # the library takes no free sizes: import has tried them
        return verdict("8 known answers" in said, name, said)
    try:
        feed = feeds(m, rows)
        want = [np.asarray(w, "f4").reshape(rows, -1) for w in judge(m).run(None, feed)]
        want = np.concatenate(want, 1)
        x = np.concatenate([v.reshape(rows, -1).astype("f4") for v in feed.values()], 1)
        with wiremill.Model(path) as loaded:
            got = loaded.score(x).reshape(rows, -1)
        fine = got.shape == want.shape and np.abs(got - want).max() <= limit
        return verdict(fine, name, f"{got.shape}, expected {want.shape}\n{got[:2]}\n{want[:2]}")
    except Exception as why:
        return verdict(False, name, f"{type(why).__name__}: {why}")


def refused(name, m, text, *options):
    path, said = imported(m, *options)
    return verdict(not path and text in said, name, said)


# ---- functions of the model ----------------------------------------------------------------------

def function(name, inputs, outputs, nodes, attributes=(), defaults=(), sets=(("", 18), ("my", 1)), domain="my", overload=""):
    f = helper.make_function(domain, name, inputs, outputs, nodes, [helper.make_opsetid(d, v) for d, v in sets], list(attributes),
                             list(defaults))
    f.overload = overload
    return f


def by_reference(op, inputs, outputs, **references):
    """A node whose attributes are the function's: name=(reference, type)."""
    n = N(op, inputs, outputs)
    for name, (reference, kind) in references.items():
        n.attribute.append(onnx.AttributeProto(name=name, ref_attr_name=reference, type=kind))
    return n


def call(op, inputs, outputs, name="", overload="", **attributes):
    n = N(op, inputs, outputs, name=name, domain="my", **attributes)
    n.overload = overload
    return n


FLOAT, INT = onnx.AttributeProto.FLOAT, onnx.AttributeProto.INT


def functions():
    x = {"x": ["N", 6]}
    act = function("Act", ["a"], ["z"], [N("Sigmoid", ["a"], ["s"]), N("Mul", ["a", "s"], ["z"])])
    twice = function("Twice", ["a"], ["z"], [call("Act", ["a"], ["s"]), call("Act", ["s"], ["z"])])
    slope = function("Slope", ["a"], ["z"], [by_reference("LeakyRelu", ["a"], ["l"], alpha=("slope", FLOAT)),
                                             by_reference("Elu", ["l"], ["z"], alpha=("other", FLOAT))], ["other"],
                     [helper.make_attribute("slope", 0.25)])
    # Its second input may be left out, and so may its first output; an output that is an input, and one that comes twice.
    limit = function("Limit", ["a", "low", "high"], ["n", "z", "a", "z"],
                     [N("Neg", ["a"], ["n"]), N("Clip", ["a", "low", "high"], ["z"])])
    # A graph that reads the function's own values and names some of its own as the model does.
    inner = [N("Constant", [], ["s"], value_float=3.0), N("Mul", ["a", "s"], ["y"])]
    other = [N("Neg", ["m"], ["y"])]
    choice = function("Choice", ["a"], ["z"], [
        N("ReduceSum", ["a"], ["sum"], keepdims=0), N("Constant", [], ["zero"], value_float=0.0),
        N("Greater", ["sum", "zero"], ["is"]),
        N("Add", ["a", "a"], ["m"]), N("If", ["is"], ["z"], then_branch=helper.make_graph(inner, "t", [], [port("y", None)]),
                                       else_branch=helper.make_graph(other, "e", [], [port("y", None)]))])
    right("functions: nested, attributes, defaults", model([
        call("Twice", ["x"], ["t"], "one"), call("Slope", ["t"], ["u"], other=0.5),
        call("Slope", ["t"], ["v"], slope=2.0, other=3.0),
        N("Concat", ["u", "v"], ["y"], axis=1)], x, ["y"], functions=[act, twice, slope], sets={"my": 1}),
        judge=runtime)
    right("functions: inputs and outputs left out, handed on, twice", model([
        call("Limit", ["x", "", "one"], ["", "w", "x2", "w2"]), call("Limit", ["x", "", ""], ["n"]), N("Add", ["w", "x2"], ["s"]),
        N("Concat", ["n", "s", "w2"], ["y"], axis=1)], x, ["y"], {"one": np.float32(0.5)}, functions=[limit], sets={"my": 1}))
    # Judged by onnx's inliner, as the evaluator does not know them: inputs behind the last, an attribute that neither has.
    clamp = function("Clamp", ["a", "low", "high"], ["z"], [
        N("Clip", ["a", "low", "high"], ["c"]), by_reference("LeakyRelu", ["c"], ["z"], alpha=("slope", FLOAT))], ["slope"])
    right("functions: fewer inputs and attributes", model([call("Clamp", ["x", "low"], ["y"])], x, ["y"],
                                                          {"low": np.float32(-0.5)}, functions=[clamp], sets={"my": 1}),
          judge=inlined)
    # Names of the model that a careless copy would take for its own, and two functions of one name.
    more = function("Act", ["a"], ["z"], [N("Neg", ["a"], ["s"]), N("Abs", ["s"], ["z"])], overload="abs")
    right("functions: names that also occur outside, overloads", model([
        N("Neg", ["x"], ["s"]), call("Act", ["s"], ["z"]), call("Act", ["z"], ["wm|f0|s"], "second"),
        call("Act", ["x"], ["a"], overload="abs"),
        N("Sum", ["wm|f0|s", "s", "z", "a"], ["y"])], x, ["y"], functions=[act, more], sets={"my": 1}), judge=inlined)
    then = [call("Act", ["x"], ["b"]), N("Add", ["b", "b"], ["r"])]
    els = [call("Twice", ["x"], ["b"]), N("Neg", ["b"], ["r"])]
    right("functions: in a branch, and branches in a function", model([
        N("ReduceMax", ["x"], ["most"], keepdims=0), N("Constant", [], ["limit"], value_float=0.5),
        N("Greater", ["most", "limit"], ["is"]),
        N("If", ["is"], ["p"], then_branch=helper.make_graph(then, "t", [], [port("r", None)]),
          else_branch=helper.make_graph(els, "e", [], [port("r", None)])), call("Choice", ["x"], ["q"]),
        N("Concat", ["p", "q"], ["y"], axis=0)],
        {"x": [3, 4]}, [port("y", [6, 4])], functions=[act, twice, choice], sets={"my": 1}), "--whole")

    def one(f, name="A", **more):
        f = f if isinstance(f, list) else [f]
        return model([call(name, ["x"], ["y"], "here", **more)], x, ["y"], functions=f, sets={"my": 1})

    a = function("A", ["a"], ["z"], [call("B", ["a"], ["z"])])
    refused("functions: one that calls itself", one([a, function("B", ["a"], ["z"], [call("A", ["a"], ["z"])])]), "calls itself")
    bomb = [function(f"F{i}", ["a"], ["z"], [call(f"F{i + 1}", ["a"], ["b"]), call(f"F{i + 1}", ["b"], ["z"])])
            for i in range(25)]
    refused("functions: 2 ^ 25 calls", one(bomb + [function("F25", ["a"], ["z"], [N("Neg", ["a"], ["z"])])], "F0"), "more than")
    refused("functions: another operator set", one(function("A", ["a"], ["z"], [N("Relu", ["a"], ["z"])], sets=[("", 13)])),
            "has operator 'Relu' of operator set 13, the model of 18")
    refused("functions: reads what is not there", one(function("A", ["a"], ["z"], [N("Add", ["a", "x"], ["z"])])),
            "reads 'x', which nothing")
    refused("functions: makes no output", one(function("A", ["a"], ["z"], [N("Neg", ["a"], ["b"])])), "output 'z', which nothing")
    refused("functions: defined twice", one([act, act], "Act"), "is defined twice")
    refused("functions: a reference outside", model([by_reference("LeakyRelu", ["x"], ["y"], alpha=("slope", FLOAT))], x, ["y"]),
            "takes its attribute 'alpha' from a function")
    refused("functions: another type of attribute", one([slope], "Slope", slope=3), "another type of attribute")


# ---- inputs and outputs --------------------------------------------------------------------------

def ends():
    x = {"x": ["N", 8]}
    w = {"w": rng.normal(0, 1, (8, 3)).astype("f4")}
    for opset in (7, 17):
        right(f"Dropout first, operator set {opset}", model([N("Dropout", ["x"], ["d"]), N("Relu", ["d"], ["y"])], x, ["y"],
                                                            opset=opset))
    right("Dropout first and last, both outputs, two inputs", model([
        N("Dropout", ["a"], ["d"]), N("Dropout", ["b"], ["e"]), N("MatMul", ["d", "w"], ["f"]), N("MatMul", ["e", "w"], ["g"]),
        N("Sub", ["f", "g"], ["h"]), N("Dropout", ["h"], ["y"])], {"a": ["N", 8], "b": ["N", 8]}, ["h", "y"], w))
    right("an output that is an input", model([N("Relu", ["x"], ["y"])], x, ["x", "y"]))
    right("an output that is an input behind Identity", model([N("Identity", ["x"], ["z"]), N("Relu", ["x"], ["y"])], x,
                                                              ["z", "y"]))
    right("an input that is not read", model([N("Relu", ["a"], ["y"])], {"u": ["N", 2], "a": ["N", 3], "v": ["N", 1]}, ["y"]))
    right("an input that is not read beside a Dropout", model([N("Dropout", ["a"], ["d"]), N("Relu", ["d"], ["y"])],
                                                              {"u": ["N", 2], "a": ["N", 3]}, ["y"]), unless="renames input 'u'")
    right("one value as two outputs", model([N("Relu", ["x"], ["y"]), N("Identity", ["y"], ["z"])], x, ["y", "z"]))
    refused("an output twice", model([N("Relu", ["x"], ["y"])], x, ["y", "y"]), "twice")
    whole = {"x": [8], "s": []}
    right("a scalar, whole", model([N("Mul", ["x", "s"], ["y"])], whole, [port("y", [8])]), "--whole")
    right("scalars only, a scalar out", model([N("Mul", ["s", "t"], ["y"]), N("Neg", ["y"], ["z"])], {"s": [], "t": []},
                                             [port("y", []), port("z", [])]), "--whole")
    right("a scalar out, and one of a whole number", model([
        N("ReduceSum", ["x"], ["y"], keepdims=0), N("Cast", ["i"], ["f"], to=1), N("Add", ["y", "f"], ["z"])],
        {"x": [8], "i": ([], TensorProto.INT64)}, [port("y", []), port("z", [])]), "--whole")
    right("a scalar and free sizes", model([N("Mul", ["x", "s"], ["y"]), N("ReduceSum", ["y"], ["z"], keepdims=0)],
                                           {"x": ["a", "b"], "s": []}, ["y", "z"]), "--whole", ragged=True)
    right("all sizes 1", model([N("Mul", ["x", "s"], ["y"])], {"x": [1, 1], "s": [1]}, [port("y", [1, 1])]), "--whole")
    both = model([N("Mul", ["x", "s"], ["y"])], {"x": ["N", 8], "s": []}, ["y"])
    refused("a scalar beside a batch", both, "'s' is one number, without a batch dimension")
    right("the same, whole", both, "--whole", ragged=True)


# ---- what is refused -----------------------------------------------------------------------------

def refusals():
    x = {"x": ["N", 3, 4, 4]}
    four = {k: np.ones(3, "f4") for k in "abmv"}
    norm = N("BatchNormalization", ["x", "a", "b", "m", "v"], ["y", "m2", "v2"], "norm", training_mode=1)
    refused("BatchNormalization that trains", model([norm], x, ["y"], four),
            "node 'norm' (BatchNormalization) is in training mode")
    drop = N("Dropout", ["x", "rate", "t"], ["y"], "drop")
    refused("Dropout that a patch may train", model([drop], {**x, "t": ([], TensorProto.BOOL)}, ["y"], {"rate": np.float32(0.5)}),
            "node 'drop' (Dropout) is in training mode, or a patch decides that", "--whole")
    refused("no input", model([N("Constant", [], ["y"], value_float=1.0)], {}, ["y"]), "the graph has no input: every score")
    refused("seven dimensions", model([N("Relu", ["x"], ["y"])], {"x": ["N", 1, 1, 1, 1, 1, 1, 2]}, ["y"]),
            "'x' has 7 dimensions behind its batch dimension, and 6 are possible")
    refused("text", model([N("Identity", ["x"], ["y"])], {"x": (["N", 2], TensorProto.STRING)}, ["y"]),
            "'x' is not a tensor of numbers")


functions()
ends()
refusals()
print(f"1..{tests}")
sys.exit(failed > 0)
