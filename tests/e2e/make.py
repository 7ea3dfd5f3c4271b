"""make.py - inputs that a shell cannot make, and looks into outputs, for the tests beside it.

usage: make.py bad EVENTS.h5 OUT.h5        a NaN pixel under hit 0, hit 1 on wire 99999, hit 2 at time inf
       make.py empty EVENTS.h5 OUT.h5      the first event loses its hits
       make.py held SCORES.h5 N            exactly N rows are held: NaN scores, a status, a reason in `held`
       make.py cnn MODEL.onnx PATCHES.npy  a network outside the family, and patches for it
       make.py turn PATCHES.npy TURNED.npy PATCHES.h5  them channels last, and in HDF5
       make.py pair FOLDER              pair.onnx of two inputs and outputs, its values in pair.npy, pair.h5
       make.py paired FOLDER SCORES.h5  the scores are ONNX Runtime's
       make.py second MODEL.onnx           the family for another detector: 44 x 48, two convolutions 3 x 3 x 32
       make.py crowd EVENTS.h5 OUT.h5 N    one event of N hits: the first event's, again and again
       make.py blank EVENTS.h5 OUT.h5      its hits, but nothing on its planes
       make.py fed EVENTS.h5 OUT.h5        the map has two channels for wire 17 of the first plane: rows 17 and 30
       make.py opensamples OUT.h5 N        OpenSamples: two events of three wires, the last of all is wire N
       make.py alike SCORES.h5             rows of one hit_id are the same bits
       make.py constant SCORES.h5          all rows are the same bits
       make.py promised SCORES.h5          how far from double the engine that scored may be
       make.py precision SCORES.h5 SIGNATURE MAX_ERROR   one of them made rows; "any": whichever; "strict": fp32
       make.py steep MODEL.onnx OUT.onnx F   the weights of the layers that end in outputs times F
       make.py near A.h5 B.h5 LIMIT        two outputs differ by no more, relative above 1
       make.py faint PATCHES.npy N S       N patches of 48 x 48 with a line in them, S high
       make.py spoil SCORES.h5 ROW         one score of this row is off by 0.01
       make.py nudge PATCHES.npy ROW       one patch is another, with the file's time as it was
       make.py bound SCORES.h5 OUT.h5 TEXT the same scores, with this error promised (none: without)
       make.py engines SCORES.h5 OUT.h5    the same scores, every second row by another engine
       make.py scored_by SAID              the second output's rows that differ are by these
       make.py agrees MODEL.onnx PATCHES.npy SCORES.h5 LIMIT   with ONNX Runtime
"""
import os
import shutil
import sys

import h5py
import numpy as np


def bad(source, target):
    shutil.copy(source, target)
    with h5py.File(target, "r+") as f:
        hits, rois = f["hit_table"], f["roi_table"]
        event, wires = hits["event_id"][0], f["wire_table"]
        same = np.ones(len(wires["wire"]), bool)
        for column in ("cryostat", "tpc", "plane", "wire"):
            same &= wires[column][:] == hits[column][0]
        channel = wires["channel"][:][same][0]
        mine = np.all(rois["event_id"][:] == event, axis=1) & (rois["channel"][:].ravel() == channel)
        time = hits["time"][0]
        first = np.concatenate(([0], np.cumsum(rois["n"][:].ravel())))
        near = [i for i in np.flatnonzero(mine) if abs(rois["tick"][i] - time) < 100]
        f["roi_value/adc"][first[near[0]]] = np.nan
        wire, when = hits["wire"][:], hits["time"][:]
        wire[1], when[2] = 99999, np.inf
        hits["wire"][:], hits["time"][:] = wire, when


def empty(source, target):
    with h5py.File(source) as old, h5py.File(target, "w") as new:
        for key, value in old.attrs.items():
            new.attrs[key] = value
        for name in old:
            if name != "hit_table":
                old.copy(name, new)
        hits = old["hit_table"]
        keep = np.any(hits["event_id"][:] != old["event_table/event_id"][0], axis=1)
        for column in hits:
            new[f"hit_table/{column}"] = hits[column][:][keep]


def hitless(source, target):
    shutil.copy(source, target)
    with h5py.File(target, "r+") as f:
        for name in list(f["hit_table"]):
            none = f["hit_table"][name][:0]
            del f["hit_table"][name]
            f["hit_table"][name] = none


def held(scores, count):
    with h5py.File(scores) as f:
        table = f["emtrkmichel"]
        status, track = table["status"][:].ravel(), table["track"][:].ravel()
        assert np.array_equal(status != 0, np.isnan(track)), "NaN and status do not agree"
        found = int(np.sum(status != 0))
        print(f"{found} of {len(status)} hits are held, statuses {sorted(set(status[status != 0]))}")
        if count == "some":
            assert {1, 2, 3} <= set(status.tolist()), "a kind of bad hit is missing"
        else:
            assert found == int(count), f"wanted {count}"
        assert "held" in f, "no table of reasons"


def cnn(model, patches):
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    random = np.random.default_rng(1)

    def weight(name, *shape):
        return numpy_helper.from_array((random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32), name)
    nodes = [helper.make_node("Conv", ["x", "w1", "b1"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1], name="squeeze"),
             helper.make_node("LeakyRelu", ["a"], ["b"], alpha=0.1),
             helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
             helper.make_node("Conv", ["c", "w2", "b2"], ["d"], name="expand"),
             helper.make_node("GlobalAveragePool", ["d"], ["e"]),
             helper.make_node("Flatten", ["e"], ["f"]),
             helper.make_node("Softmax", ["f"], ["y"])]
    graph = helper.make_graph(nodes, "cnn", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 32, 32])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])],
                              [weight("w1", 8, 3, 3, 3), weight("b1", 8), weight("w2", 5, 8, 3, 3), weight("b2", 5)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
    np.save(patches, random.standard_normal((700, 3, 32, 32)).astype(np.float32))


def turn(patches, turned, hdf5):
    p = np.load(patches)
    np.save(turned, np.ascontiguousarray(p.transpose(0, 2, 3, 1)))
    with h5py.File(hdf5, "w") as f:
        f["views"] = p


def pair(folder):
    """Three views of a hit, channels first, and five facts of it."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    random = np.random.default_rng(4)

    def weight(name, *shape):
        return numpy_helper.from_array((random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32), name)

    def port(name, *shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", *shape])
    nodes = [helper.make_node("Conv", ["views", "w1"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("Flatten", ["b"], ["c"]), helper.make_node("Concat", ["c", "facts"], ["d"], axis=1),
             helper.make_node("MatMul", ["d", "w2"], ["e"]), helper.make_node("Softmax", ["e"], ["kind"]),
             helper.make_node("MatMul", ["d", "w3"], ["energy"])]
    flat = 4 * 10 * 7 + 5
    graph = helper.make_graph(nodes, "pair", [port("views", 3, 12, 9), port("facts", 5)],
                              [port("kind", 3), port("energy", 1)],
                              [weight("w1", 4, 3, 3, 3), weight("w2", flat, 3), weight("w3", flat, 1)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), f"{folder}/pair.onnx")
    values = random.standard_normal((300, 3 * 12 * 9 + 5)).astype(np.float32)
    np.save(f"{folder}/pair.npy", values)
    with h5py.File(f"{folder}/pair.h5", "w") as f:
        f["values"] = values


def paired(folder, scores):
    import onnxruntime
    values = np.load(f"{folder}/pair.npy")
    session = onnxruntime.InferenceSession(f"{folder}/pair.onnx", providers=["CPUExecutionProvider"])
    kind, energy = session.run(None, {"views": values[:, :324].reshape(-1, 3, 12, 9), "facts": values[:, 324:]})
    with h5py.File(scores) as f:
        table = f["emtrkmichel"]
        given = np.stack([table[name][:] for name in ("kind_0", "kind_1", "kind_2", "energy")], axis=1)
    assert np.abs(given - np.concatenate([kind, energy], 1)).max() < 1e-4


def second(model):
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    random = np.random.default_rng(2)

    def weight(name, *shape, inputs):
        return numpy_helper.from_array((random.standard_normal(shape) / np.sqrt(inputs)).astype(np.float32), name)
    flat = 40 * 44 * 32
    nodes = [helper.make_node("Conv", ["x", "w1", "b1"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("Conv", ["b", "w2", "b2"], ["c"]), helper.make_node("Relu", ["c"], ["d"]),
             helper.make_node("Flatten", ["d"], ["e"]),
             helper.make_node("Gemm", ["e", "w3", "b3"], ["f"]), helper.make_node("Relu", ["f"], ["g"]),
             helper.make_node("Gemm", ["g", "w4", "b4"], ["h"]), helper.make_node("Softmax", ["h"], ["y"])]
    weights = [weight("w1", 32, 1, 3, 3, inputs=9), weight("b1", 32, inputs=100),
               weight("w2", 32, 32, 3, 3, inputs=288), weight("b2", 32, inputs=100),
               weight("w3", flat, 60, inputs=flat), weight("b3", 60, inputs=100),
               weight("w4", 60, 4, inputs=60), weight("b4", 4, inputs=100)]
    graph = helper.make_graph(nodes, "second", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 44, 48])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)


def crowd(source, target, count):
    with h5py.File(source) as old, h5py.File(target, "w") as new:
        for key, value in old.attrs.items():
            new.attrs[key] = value
        event = old["event_table/event_id"][0]
        for name in old:
            table = old[name]
            if not isinstance(table, h5py.Group) or "event_id" not in table:
                old.copy(name, new)
                continue
            mine = np.flatnonzero(np.all(table["event_id"][:] == event, axis=1))
            if name == "hit_table":
                mine = np.resize(mine, int(count))
            for column in table:
                if len(table[column]) == len(table["event_id"]):
                    new[f"{name}/{column}"] = table[column][:][mine]
                else:
                    old.copy(f"{name}/{column}", new.require_group(name), name=column)


def blank(source, target):
    """Its hits on planes that hold nothing."""
    with h5py.File(source) as old, h5py.File(target, "w") as new:
        for key, value in old.attrs.items():
            new.attrs[key] = value
        for name in old:
            if name not in ("roi_table", "roi_value"):
                old.copy(name, new)
                continue
            for column in old[name]:
                new[f"{name}/{column}"] = old[name][column][:0]


def fed(source, target):
    shutil.copy(source, target)
    with h5py.File(target, "r+") as f:
        f["wire_table/wire"][30] = f["wire_table/wire"][17]


def opensamples(target, wire):
    event, n = [[1, 0, 1], [1, 0, 2]], 3
    adc = np.zeros((2 * n, 600), np.float32)
    adc[::n, 100:120] = 20
    with h5py.File(target, "w") as f:
        f["event_table/event_id"] = event
        f["wire_table/event_id"] = np.repeat(event, n, axis=0)
        f["wire_table/local_plane"] = f["wire_table/tpc"] = np.zeros(2 * n, int)
        f["wire_table/local_wire"] = [3, 4, 5, 3, 4, int(wire)]
        f["wire_table/adc"] = adc
        f["hit_table/event_id"] = event
        f["hit_table/hit_id"], f["hit_table/local_time"] = [0, 1], np.float32([110, 111])
        f["hit_table/local_plane"] = f["hit_table/tpc"] = [0, 0]
        f["hit_table/local_wire"] = [3, 4]


def alike(scores):
    with h5py.File(scores) as f:
        table = f["emtrkmichel"]
        ids = table["hit_id"][:].ravel()
        rows = np.stack([table[name][:].ravel().view(np.uint32) for name in ("track", "em", "none", "michel")], axis=1)
    first, where = np.unique(ids, return_index=True)
    assert len(first) < len(ids), "no hit comes twice"
    assert np.array_equal(rows, rows[where[np.searchsorted(first, ids)]]), "equal hits differ"


def constant(scores):
    with h5py.File(scores) as f:
        table = f["emtrkmichel"]
        for name in ("track", "em", "none", "michel"):
            assert len(set(table[name][:].ravel().view(np.uint32))) == 1, f"{name} is not one number"


def promised(scores):
    """Of plain fp32 we ask 2e-6."""
    with h5py.File(scores) as f:
        by = f["engine/signature"].asstr()[0]
    print(next((limit for kind, limit in {"/int16/": "5e-3", "/bf16/": "5e-3", "/bf16x3/": "1e-5"}.items() if kind in by), "2e-6"))


def shaped(session, patches):
    shape = session.get_inputs()[0].shape[1:]
    patches = patches.reshape(len(patches), *shape)
    return [patches[i:i + 256] for i in range(0, len(patches), 256)]


def agrees(model, patches, scores, limit):
    import onnxruntime
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    wanted = np.concatenate([session.run(None, {"x": part})[0] for part in shaped(session, np.load(patches))])
    with h5py.File(scores) as f:
        tables = [f[name] for name in f if isinstance(f[name], h5py.Group)]
        table = next(t for t in tables if "y_0" in t)
        names = [f"y_{i}" for i in range(wanted.shape[1])]
        given = np.stack([table[name][:].ravel() for name in names], axis=1)
    difference = float(np.abs(given - wanted).max())
    print(f"{len(given)} patches, largest difference {difference:.3g}, limit {limit}")
    assert given.shape == wanted.shape and difference <= float(limit)


LABELS = ("track", "em", "none", "michel")


def precision(scores, signature, most):
    with h5py.File(scores) as f:
        by = list(f["engine/signature"].asstr()[:])
        assert signature == "any" or signature in by, by
        if most == "strict":
            assert by == [signature] and "max_error" not in f.attrs and "error" not in f["engine"]
            return
        promised = f.attrs["max_error"]
        assert (promised.decode() if isinstance(promised, bytes) else promised) == most, promised
        for name, error in zip(by, f["engine/error"][:]):
            assert error == 0 if "/fp32/" in name else 0 < error < float(most), (name, error)


def steep(source, target, factor):
    import onnx
    from onnx import numpy_helper
    model = onnx.load(source)
    ends = {o.name for o in model.graph.output}
    by_output = {n.output[0]: n for n in model.graph.node}
    weights = {w.name: w for w in model.graph.initializer}
    for name in ends:
        node = by_output[name]
        while not any(i in weights for i in node.input):
            node = by_output[node.input[0]]
        while node.op_type not in ("Gemm", "MatMul"):  # the bias is added by a node of its own
            node = by_output[node.input[0]]
        for i in node.input:
            if i in weights and len(weights[i].dims) == 2:
                weights[i].CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weights[i]) * np.float32(factor), i))
    onnx.save(model, target)


def near(one, other, limit):
    with h5py.File(one) as f, h5py.File(other) as g:
        a, b = (np.stack([t["emtrkmichel"][n][:].ravel() for n in LABELS]).astype(float) for t in (f, g))
    off = np.nanmax(np.abs(a - b) / np.maximum(1, np.abs(b)))
    print(f"largest difference {off:.3g}, limit {limit}")
    assert a.shape == b.shape and off <= float(limit)


def faint(target, count, size):
    patches = np.zeros((int(count), 48, 48), np.float32)
    patches[:, 20:28, 24] = float(size) * (1 + np.arange(int(count))[:, None] % 7)
    np.save(target, patches)


def spoil(scores, row):
    """One score of one hit is off by 0.01, as a bad disk would have it."""
    with h5py.File(scores, "r+") as f:
        column = f["emtrkmichel/em"]
        column[int(row)] += np.float32(0.01)


def nudge(patches, row):
    """One patch becomes another, and nobody sees it by size and time: its stored scores are wrong now."""
    when = os.stat(patches)
    p = np.load(patches)
    p[int(row)] = p[int(row)][::-1]
    np.save(patches, p)
    os.utime(patches, ns=(when.st_atime_ns, when.st_mtime_ns))


def bound(source, target, error):
    """The output with that text as the error that its campaign promises; "none": without."""
    shutil.copy(source, target)
    with h5py.File(target, "r+") as f:
        f.attrs.pop("max_error", None)
        if error != "none":
            f.attrs["max_error"] = error


def engines(source, target):
    """The same scores, every second row by another engine, which comes first."""
    shutil.copy(source, target)
    with h5py.File(target, "r+") as f:
        names = [b"other/fp32/v1"] + list(f["engine/signature"][:])
        del f["engine/signature"]
        f["engine/signature"] = np.array(names, "S64")
        by = f["emtrkmichel/engine"]
        by[:] = np.where(np.arange(len(by)) % 2, 0, by[:] + 1)


def scored_by(output):
    """From the output of the worker: the rows that differ are each by the engine that `engines` gave them."""
    bad = [line.split() for line in open(output) if line.startswith("bad ")]
    assert {int(b[5]) % 2 for b in bad if b[1] == "1"} == {0, 1} == {int(b[1]) for b in bad}, bad
    for b in bad:
        assert b[9] == "other/fp32/v1" if b[1] == "1" and int(b[5]) % 2 else b[9].startswith("sparse/"), b


{"spoil": spoil, "nudge": nudge, "bound": bound, "engines": engines, "scored_by": scored_by, "bad": bad, "empty": empty, "hitless": hitless, "held": held, "cnn": cnn, "turn": turn, "pair": pair, "paired": paired, "second": second, "crowd": crowd, "blank": blank, "fed": fed, "opensamples": opensamples, "alike": alike, "constant": constant, "agrees": agrees, "precision": precision, "steep": steep, "near": near, "faint": faint, "promised": promised}[sys.argv[1]](*sys.argv[2:])
