"""gatetypes.py - every type of ONNX's from a client of the gateway through payload, broker, worker and engine and back.

usage: gatetypes.py PART FOLDER ...      parts are functions below; FOLDER has the repository `models`
Values are the limits of each type, and what float32, 32 bits and 53 bits do not hold. The judge is NumPy.
"""
import sys

import ml_dtypes
import numpy as np

import gatemodels
from gatemodels import call, index, infer, infer_json, save, wait_for

KINDS = {"BOOL": "?", "INT8": "i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "UINT8": "u1", "UINT16": "<u2",
         "UINT32": "<u4", "UINT64": "<u8", "FP16": "<f2", "BF16": ml_dtypes.bfloat16, "FP32": "<f4", "FP64": "<f8"}
WHOLE = [kind for kind in KINDS if "INT" in kind]
REAL = ("FP16", "BF16", "FP32", "FP64")
HALVES = ("FP16", "BF16")   # which JSON has not
gatemodels.TYPES.update(KINDS)
np.seterr(all="ignore")


def onnx_type(kind):
    from onnx import helper
    return helper.np_dtype_to_tensor_dtype(np.dtype(KINDS[kind]))


# ---- models, and what NumPy makes of the same inputs -------------------------------------------------

def of_wholes(kind):
    """Outputs of two tensors of a type of whole numbers: (name, operator, inputs, type, by NumPy)."""
    to = KINDS[kind]
    return [("same", "Identity", "a", kind, lambda a, b: a), ("sum", "Add", "ab", kind, lambda a, b: a + b),
            ("less", "Sub", "ab", kind, lambda a, b: a - b), ("times", "Mul", "ab", kind, lambda a, b: a * b),
            ("not", "BitwiseNot", "a", kind, lambda a, b: ~a), ("xor", "BitwiseXor", "ab", kind, lambda a, b: a ^ b),
            ("and", "BitwiseAnd", "ab", kind, lambda a, b: a & b), ("equal", "Equal", "ab", "BOOL", lambda a, b: a == b),
            ("below", "Less", "ab", "BOOL", lambda a, b: a < b), ("long", "Cast", "a", "INT64", lambda a, b: a.astype("i8")),
            ("word", "Cast", "a", "INT32", lambda a, b: a.astype("i4")), ("byte", "Cast", "a", "UINT8", lambda a, b: a.astype("u1")),
            ("single", "Cast", "a", "FP32", lambda a, b: a.astype("f4")),
            ("double", "Cast", "a", "FP64", lambda a, b: a.astype("f8")), ("any", "Cast", "a", "BOOL", lambda a, b: a != 0)]


def of_reals(kind):
    if kind == "BF16":   # no engine here computes more in it
        return [("same", "Identity", "a", kind, lambda a, b: a), ("single", "Cast", "a", "FP32", lambda a, b: a.astype("f4")),
                ("double", "Cast", "b", "FP64", lambda a, b: b.astype("f8"))]
    return [("same", "Identity", "a", kind, lambda a, b: a), ("sum", "Add", "ab", kind, lambda a, b: a + b),
            ("times", "Mul", "ab", kind, lambda a, b: a * b), ("minus", "Neg", "a", kind, lambda a, b: -a),
            ("equal", "Equal", "ab", "BOOL", lambda a, b: a == b), ("below", "Less", "ab", "BOOL", lambda a, b: a < b),
            ("half", "Cast", "a", "FP16", lambda a, b: a.astype("f2")), ("single", "Cast", "a", "FP32", lambda a, b: a.astype("f4")),
            ("double", "Cast", "a", "FP64", lambda a, b: a.astype("f8")), ("most", "Max", "ab", kind, lambda a, b: np.maximum(a, b))]


NARROW = {"BOOL", "INT8", "INT16", "UINT8", "UINT16", "FP16", "BF16", "FP32"}  # float32 holds all of their values
VARIANTS = ("", "-free", "-narrow")   # rows of one size; ragged rows; nothing wider: OpenVINO may score it


def outputs_of(kind, variant=""):
    if variant == "-narrow":
        return [one for one in outputs_of(kind) if one[3] in NARROW] if kind in NARROW else []
    if kind == "BOOL":
        return [("same", "Identity", "a", kind, lambda a, b: a), ("not", "Not", "a", kind, lambda a, b: ~a),
                ("xor", "Xor", "ab", kind, lambda a, b: a ^ b), ("long", "Cast", "a", "INT64", lambda a, b: a.astype("i8"))]
    return (of_wholes if kind in WHOLE else of_reals)(kind)


def values_of(kind):
    """Pairs of values: a type's limits, and those of narrower ones."""
    if kind == "BOOL":
        return np.array([[0, 0, 1, 1], [0, 1, 0, 1]], bool)
    if kind in WHOLE:
        info = np.iinfo(KINDS[kind])
        some = {0, 1, 2, 3, -1, -2, info.min, info.min + 1, info.max, info.max - 1, 62501, 123456789}
        some |= {sign * 2**bits + off for bits in (7, 8, 15, 16, 24, 31, 32, 53, 63) for off in (-1, 0, 1) for sign in (1, -1)}
        some = [value for value in sorted(some) if info.min <= value <= info.max]
        return np.array([some, some[3:] + some[:3]], KINDS[kind])
    info = ml_dtypes.finfo(KINDS[kind])
    some = [0.0, -0.0, 1, -1, 0.1, 1e-16, 1 / 3, float(info.max), -float(info.max), float(info.tiny), float(info.smallest_subnormal),
            -float(info.smallest_subnormal) * 3, np.inf, -np.inf, 2**24 + 1, 2**53 - 1, 65504, 1e300, -1e-300, 5e-324, np.pi]
    some = [value for value in some if abs(value) <= float(info.max) or np.isinf(value)]
    # a sum, a product of infinities that is no number would hold the row: the partner is finite, and not 0
    return np.array([some, [1.5] * len(some)], "f8").astype(KINDS[kind])


def files(work, *names):
    from onnx import TensorProto as T, helper
    node, folder = helper.make_node, f"{work}/models"
    for name in names:
        if name not in KINDS:
            continue
        for what in VARIANTS:
            outputs, last = outputs_of(name, what), "k" if what == "-free" else 1
            if not outputs:
                continue
            save(f"{folder}/{name}{what}/1/model.onnx",
                 [node(op, list(of), [out], **({"to": onnx_type(kind)} if op == "Cast" else {})) for out, op, of, kind, _ in outputs],
                 [(one, onnx_type(name), ["n", last]) for one in "ab"],
                 [(out, onnx_type(kind), ["n", last]) for out, _, _, kind, _ in outputs], {})
    save(f"{folder}/mask/1/model.onnx",
         [node("Where", ["mask", "x", "low"], ["masked"]), node("Softmax", ["masked"], ["share"], axis=-1),
          node("Identity", ["x"], ["same"]), node("ReduceMax", ["masked"], ["most"], axes=[1])],
         [("x", T.FLOAT, ["n", 4]), ("mask", T.BOOL, ["n", 4])],
         [("masked", T.FLOAT, ["n", 4]), ("share", T.FLOAT, ["n", 4]), ("same", T.FLOAT, ["n", 4]), ("most", T.FLOAT, ["n", 1])],
         {"low": np.array(-np.inf, np.float32)}, 17)
    save(f"{folder}/ids/1/model.onnx", [node("Gather", ["table", "id"], ["row"]), node("Equal", ["id", "none"], ["pad"])],
         [("id", T.INT64, ["n", 3])], [("row", T.FLOAT, ["n", 3, 2]), ("pad", T.BOOL, ["n", 3])],
         {"table": np.arange(20, dtype=np.float32).reshape(10, 2), "none": np.array(0, np.int64)})


def small(path, nodes, kind="INT64", constants={}, out="INT64", width=3):
    from onnx import helper
    model = helper.make_model(helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", onnx_type(kind), ["n", width])],
        [helper.make_tensor_value_info("y", onnx_type(out), None)],
        [array_of(value, name) for name, value in constants.items()]), opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 8
    with open(path, "wb") as to:
        to.write(model.SerializeToString())


def array_of(value, name):
    from onnx import numpy_helper
    return numpy_helper.from_array(np.asarray(value), name)


def scorers(work, program):
    """OpenVINO, which is faster, scores what it computes as ONNX does; ONNX Runtime what needs a type that OpenVINO lacks."""
    import subprocess
    from onnx import TensorProto as T, helper
    node, value = helper.make_node, helper.make_tensor_value_info
    table = np.arange(20, dtype=np.float32).reshape(10, 2)
    body = helper.make_graph([node("Identity", ["go"], ["on"]), node("Add", ["v", "v"], ["w"], "twice")], "body",
                             [value("i", T.INT64, []), value("go", T.BOOL, []), value("v", T.INT64, None)],
                             [value("on", T.BOOL, []), value("w", T.INT64, None)])
    mine, longs = "judged by onnxruntime", dict(zero=np.int64(0), one=np.int64(1), axis=np.int64(1), big=np.int64(2**24 + 1))
    cases = [  # nodes, options, what the importer says of them
        ([node("Gather", ["table", "x"], ["y"])], dict(constants={"table": table}, out="FP32"), mine),
        ([node("Cast", ["x"], ["w"], to=T.INT64), node("Gather", ["table", "w"], ["y"])],
         dict(kind="INT32", constants={"table": table}, out="FP32"), mine),
        ([node("Equal", ["x", "zero"], ["p"]), node("Cast", ["p"], ["y"], to=T.FLOAT)], dict(constants=longs, out="FP32"), mine),
        ([node("Equal", ["x", "big"], ["y"], "far")], dict(constants=longs, out="BOOL"), "'far' (Equal: INT64)"),
        ([node("Identity", ["x"], ["y"])], {}, "output 'y' (INT64)"),
        ([node("Identity", ["x"], ["y"])], dict(kind="INT16", out="INT16"), mine),
        ([node("Unsqueeze", ["x", "axes"], ["y"])], dict(constants={"axes": np.array([1])}), "output 'y' (INT64)"),
        ([node("Add", ["x", "one"], ["s"], "plus"), node("Gather", ["table", "s"], ["y"])],
         dict(constants={**longs, "table": table}, out="FP32"), "'plus' (Add: INT64)"),
        ([node("Equal", ["x", "one"], ["p"]), node("Not", ["p"], ["q"]), node("Cast", ["q"], ["m"], to=T.INT64),   # RoBERTa's
          node("CumSum", ["m", "axis"], ["c"]), node("Mul", ["c", "m"], ["w"]), node("Add", ["w", "one"], ["at"]),
          node("Gather", ["table", "at"], ["y"])], dict(constants={**longs, "table": table}, out="FP32"), mine),
        ([node("ArgMax", ["x"], ["y"], axis=1)], dict(kind="FP32"), mine),
        ([node("Cast", ["x"], ["y"], "whole", to=T.INT64)], dict(kind="FP32"), "'whole' (Cast: INT64)"),
        ([node("Cast", ["x"], ["w"], "wide", to=T.DOUBLE), node("Neg", ["w"], ["y"])],
         dict(kind="FP32", out="FP64"), "'wide' (Cast: FP64)"),
        ([node("ArgMax", ["x"], ["k"], axis=1), node("Gather", ["codes", "k"], ["y"])],
         dict(kind="FP32", constants={"codes": np.array([5, 6, 7])}), mine),
        ([node("ArgMax", ["x"], ["k"], axis=1), node("Gather", ["codes", "k"], ["y"])],
         dict(kind="FP32", constants={"codes": np.array([5, 6, 2**24 + 2])}), "output 'y' (INT64)"),
        ([node("Loop", ["two", "", "x"], ["w"], body=body), node("Cast", ["w"], ["y"], to=T.FLOAT)],
         dict(constants={"two": np.int64(2)}, out="FP32"), "'twice' (Add: INT64)")]
    wrong = []
    for i, (nodes, how, want) in enumerate(cases):
        small(f"{work}/small{i}.onnx", nodes, **how)
        said = subprocess.run([program, "import", "--exact-types", "--force", "-o", f"{work}/small.wmm", f"{work}/small{i}.onnx"],
                              capture_output=True, text=True)
        text = said.stdout + said.stderr
        if want not in text or (want == mine) == ("ONNX Runtime scores it" in text):
            wrong.append(f"{i}, {nodes[-1].op_type}: {text[:400]}")
    assert not wrong, "\n".join(wrong)


# ---- what is asked -----------------------------------------------------------------------------------

def ready(_, address):
    wait_for(lambda: all(one.get("state") not in ("LOADING", "UNLOADING") for one in index(address).values()), 100)
    assert {one["state"] for one in index(address).values()} == {"READY"}, index(address)


def differs(found, want):
    """Where bits are not the judge's; any NaN is one."""
    if found.dtype != want.dtype or found.shape != want.shape:
        return [f"{found.dtype} {found.shape}, not {want.dtype} {want.shape}"]
    return [f"{w!r}: {f!r}" for f, w in zip(found.ravel(), want.ravel()) if f.tobytes() != w.tobytes() and not (f != f and w != w)]


def limits(_, address, *names):
    wrong = []
    for name in names:
        for what, shape in (("", (-1, 1)), ("-free", (1, -1)), ("-free", (-1, 1)), ("-narrow", (-1, 1))):
            a, b = values_of(name)
            if what == "-narrow" and name in REAL:   # OpenVINO takes what is below float32's normal numbers as 0
                keep = (np.abs(a.astype("f8")) >= 2.0**-126) | (a == 0)
                a, b = a[keep], b[keep]
            outputs = outputs_of(name, what)
            if not outputs:
                continue
            given = [("a", name, a.reshape(shape)), ("b", name, b.reshape(shape))]
            wide = [out for out, _, _, kind, _ in outputs if kind not in HALVES]
            try:
                found = [infer(address, name + what, given)] + ([infer_json(address, name + what, given, wide)] if name not in HALVES else [])
            except AssertionError as error:
                wrong.append(f"{name}{what}: refused: {error}")
                continue
            for by, (out, _, _, kind, of) in [(by, one) for by in range(len(found)) for one in outputs if by == 0 or one[0] in wide]:
                off = differs(found[by][out], of(a, b).astype(KINDS[kind]).reshape(shape))
                if off:
                    wrong.append(f"{name}{what} {out}, by {'JSON' if by else 'bytes'}: {len(off)} of {len(a)} differ: " + "; ".join(off[:4]))
    assert not wrong, "\n".join(wrong)


def infinite(_, address):
    """Infinities are values, there and back, in JSON too; a mask of -inf is one; NaN holds its row alone."""
    x = np.array([[1, 2, 3, 4], [np.inf, -np.inf, 0, 1], [0, 1, 2, np.nan], [5, 6, 7, 8]], np.float32)
    mask = np.array([[1, 1, 0, 1], [0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 1, 0]], bool)
    given = [("x", "FP32", x), ("mask", "BOOL", mask)]
    masked = np.where(mask, x, np.float32(-np.inf))
    share = np.exp(masked - masked.max(1, keepdims=True))
    masked[2], share[2] = np.nan, np.nan
    same = x.copy()
    same[2] = np.nan
    for by in (infer, infer_json):
        found = by(address, "mask", given)
        assert not differs(found["masked"], masked) and not differs(found["same"], same), found
        assert np.allclose(found["share"], share / share.sum(1, keepdims=True), 1e-6, equal_nan=True), found["share"]
    again = infer_json(address, "mask", [("x", "FP32", found["masked"]), given[1]])   # what the gateway printed
    assert not differs(again["masked"], masked), again
    page = call(address, "POST", "/v2/models/mask/infer", '{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[null,1e999,-1e999,1e39]},'
                '{"name":"mask","shape":[1,4],"datatype":"BOOL","data":[true,true,true,true]}]}')
    assert page[0] == 400 and b"give an array of FP32 values" in page[2], page   # 1e39 is no infinity
    page = call(address, "POST", "/v2/models/mask/infer", '{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32",'
                '"data":[5,1e999,-1e999,Infinity]},{"name":"mask","shape":[1,4],"datatype":"BOOL","data":[true,false,true,false]}]}')
    assert page[0] == 200 and b'"data":[5,Infinity,-Infinity,Infinity]' in page[2], page
    for kind in HALVES:
        error = infer_json(address, "mask", [("x", kind, x), given[1]], code=400)
        assert error == f"receiving {kind} data via JSON is not supported: send input 'x' as a binary tensor ('binary_data_size')", error
    error = call(address, "POST", "/v2/models/mask/infer", '{"inputs":[{"name":"x","shape":[1],"datatype":"BYTES","data":["a"]}]}')[2]
    assert b"is of type BYTES, and models here take numbers" in error, error


def ids(_, address):
    """An index beyond 32 bits is outside its table, whatever its low bits are."""
    good = np.array([[0, 9, 3]], "<i8")
    found = infer(address, "ids", [("id", "INT64", good)])
    assert found["row"].tolist() == [[[0, 1], [18, 19], [6, 7]]] and found["pad"].tolist() == [[True, False, False]], found
    for bad in (2**32, 2**32 + 1, 2**53 + 1, 2**63 - 1, -2**63, 2**24 + 1, 10, -11):
        status, _, data = call(address, "POST", "/v2/models/ids/infer",
                               '{"inputs":[{"name":"id","datatype":"INT64","shape":[1,3],"data":[0,%d,3]}]}' % bad)
        answer = data.decode()
        assert status == 400 and ("'id'" in answer or "rows of the request" in answer), (bad, answer)


def library(_, wmm):
    import wiremill
    refuses(lambda: wiremill.Model(wmm), "'a' keeps a type that float32 does not hold", "without --exact-types")


def client(_, endpoint):
    import wiremill
    refuses(lambda: wiremill.Client(endpoint), "types that float32 does not hold", "wiremill gateway")


def refuses(make, *texts):
    try:
        make()
    except Exception as error:
        assert all(text in str(error) for text in texts), error
    else:
        raise AssertionError("it was taken")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
