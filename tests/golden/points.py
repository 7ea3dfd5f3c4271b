"""points.py - networks other than the first: models with seeded weights, and their scores by NumPy alone.

usage: points.py waveform conv1d|conv1d-last|dense MODEL.onnx    a network of 200 ticks, N to 3 scores
       points.py frames FRAMES.h5 MAP.csv                        Wire-Cell frames with a map of two planes
       points.py opensamples FRAMES.h5 MAP.csv OUT.h5            their planes as OpenSamples, without hits
       points.py windows MODEL.onnx FRAMES.h5 MAP.csv SCORES.h5 STEP...   every row against the oracle
       points.py cut FRAMES.h5 MAP.csv PATCHES.npy WIRES BINS STEP STEP   windows of any size, by `wiremill cut`
       points.py many OUT.h5                                     an exchange file with 2^32 windows of one cell
"""
import sys

import h5py
import numpy as np

LABELS = ["noise", "signal", "other"]


# ---- the networks, and what they compute ----------------------------------------------------------

def weights(seed):
    """Of the 1-D network: 8 filters of 7 ticks every 2, ReLU, then dense layers of 16 and 3."""
    r = np.random.default_rng(seed)
    return {"cw": r.normal(0, .3, (8, 1, 7)), "cb": r.normal(0, .1, 8), "w1": r.normal(0, .03, (8 * 97, 16)),
            "b1": r.normal(0, .1, 16), "w2": r.normal(0, .3, (16, 3)), "b2": r.normal(0, .1, 3)}


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def conv1d(x, w):
    """x (N, 200), as tests/golden/points.py waveform writes it: a convolution, two dense layers, softmax."""
    view = np.lib.stride_tricks.sliding_window_view(x, 7, 1)[:, ::2]                # (N, 97, 7)
    hidden = np.maximum(np.einsum("ntk,ck->nct", view, w["cw"][:, 0]) + w["cb"][:, None], 0)
    return head(hidden.reshape(len(x), -1), w)


def head(x, w):
    return softmax(np.maximum(x @ w["w1"] + w["b1"], 0) @ w["w2"] + w["b2"])


def dense_weights():
    w = weights(7)
    return dict(w, w1=np.random.default_rng(8).normal(0, .05, (200, 16)))


def save(path, nodes, shape, w, more=()):
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    values = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in w.items()]
    values += [numpy_helper.from_array(np.asarray(v, np.int64), k) for k, v in more]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *shape])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])], values)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, path)


def waveform(kind, path):
    from onnx import helper
    node, w, more = helper.make_node, dense_weights() if kind == "dense" else weights(7), []
    nodes, at = [], "x"
    if kind == "conv1d":                                    # (N, 200) -> (N, 1, 200)
        more = [("axes", [1])]
        nodes, at = [node("Unsqueeze", ["x", "axes"], ["u"])], "u"
    elif kind == "conv1d-last":                             # (N, 200, 1) -> (N, 1, 200)
        nodes, at = [node("Transpose", ["x"], ["u"], perm=[0, 2, 1])], "u"
    if kind != "dense":
        nodes += [node("Conv", [at, "cw", "cb"], ["c"], strides=[2]), node("Relu", ["c"], ["r"]),
                  node("Flatten", ["r"], ["f"])]
        at = "f"
    else:
        w = {k: v for k, v in w.items() if k[0] != "c"}
    nodes += [node("Gemm", [at, "w1", "b1"], ["d"]), node("Relu", ["d"], ["e"]),
              node("Gemm", ["e", "w2", "b2"], ["g"]), node("Softmax", ["g"], ["y"])]
    save(path, nodes, [200, 1] if kind == "conv1d-last" else [200], w, more)


# ---- inputs ---------------------------------------------------------------------------------------

def frames(path, mapped):
    """Two frames of 30 channels and 1,030 ticks; a plane of 20 wires, one of 11, of which one has no channel.
    Most is 0; one sample is not a number."""
    r = np.random.default_rng(5)
    with open(mapped, "w") as f:
        f.write("channel,cryostat,tpc,plane,wire\n")
        for c in range(30):
            f.write(f"{100 + c},0,1,{int(c >= 20)},{c if c < 20 else c - 19}\n")
    with h5py.File(path, "w") as f:
        for number in (4, 17):
            adc = np.zeros((30, 1030), np.float32)
            for _ in range(25):
                c, t, n = r.integers(30), r.integers(1000), r.integers(5, 60)
                adc[c, t:t + n] += r.normal(0, 20, len(adc[c, t:t + n])).astype(np.float32)
            if number == 17:
                adc[3, 500] = np.nan
            order = r.permutation(30)
            f[f"{number}/frame_raw0"] = adc[order]
            f[f"{number}/channels_raw0"] = (100 + order).astype(np.int32)
            f[f"{number}/tickinfo_raw0"] = np.array([0, 500., 0])


def planes(path, mapped):
    """[(event, plane, (wires, ticks))] of the frames, by the map."""
    where = {int(c): (int(p), int(w)) for c, _, _, p, w in np.genfromtxt(mapped, delimiter=",", skip_header=1)}
    out = []
    with h5py.File(path) as f:
        for number in sorted(map(int, f)):
            image = [np.zeros((20, 1030), np.float32), np.zeros((11, 1030), np.float32)]
            for c, row in zip(f[f"{number}/channels_raw0"][:], f[f"{number}/frame_raw0"][:]):
                p, w = where[int(c)]
                image[p][w] = row
            out += [(number, p, image[p]) for p in (0, 1)]
    return out


def opensamples(path, mapped, to):
    table = {k: [] for k in ("event_id", "local_plane", "local_wire", "tpc", "adc")}
    for number, p, image in planes(path, mapped):
        for w, row in enumerate(image):
            for k, v in zip(table, ((0, 0, number), p, w, 1, row)):
                table[k].append(v)
    with h5py.File(to, "w") as f:
        f["event_table/event_id"] = np.array([(0, 0, 4), (0, 0, 17)], np.int32)
        for k, v in table.items():
            v = np.array(v, np.float32 if k == "adc" else np.int32)
            f["wire_table/" + k] = v if v.ndim == 2 else v[:, None]


# ---- windows --------------------------------------------------------------------------------------

def starts(size, patch, step):
    last = max(size - patch, 0)
    return [min(i * step, last) for i in range(1 + max(0, -(-(size - patch) // step)))]


def windows(model, path, mapped, scored, *steps):
    """STEP: wires and bins from one window to the next. Compares every row, also those of nothing but zeros."""
    step_wire, step_bin = (int(s) for s in steps)
    kind = model.rsplit("/", 1)[-1].removesuffix(".onnx")
    want, place, held = [], [], []
    for number, p, image in planes(path, mapped):
        for w in starts(len(image), 1, step_wire):
            for t in starts(1030, 200, step_bin):
                want.append(image[w, t:t + 200])
                place.append((number, p, w, t))
    x = np.array(want, np.float64)
    held = ~np.isfinite(x).all(1)
    x[held] = 0
    y = head(x, dense_weights()) if kind == "dense" else conv1d(x, weights(7))
    with h5py.File(scored) as f:
        table = f["waveform"]
        rows = list(zip(*(table[k][:].tolist() for k in ("event", "plane", "wire", "time"))))
        assert rows == place, [(i, a, b) for i, (a, b) in enumerate(zip(rows, place)) if a != b][:3] or len(rows)
        got = np.stack([table[f"y_{i}"][:] for i in range(3)], 1)
        assert np.array_equal(table["status"][:], np.where(held, 3, 0))
        assert np.isnan(got[held]).all() and held.sum() == f.attrs["hits_held"] > 0
        number = np.concatenate([np.arange(n) for n in np.unique([e for e, *_ in place], return_counts=True)[1]])
        assert np.array_equal(table["hit_id"][:], number)
        assert (table["tpc"][:] == 1).all() and (table["in_fiducial"][:] == 1).all()
        empty = ~x.any(1) & ~held
        assert len(np.unique(got[empty], axis=0)) == 1 and 0 < f.attrs["hits_empty"] == empty.sum() < len(x)
    off = np.abs(got - y)[~held].max()
    print(f"{len(rows)} windows, {empty.sum()} of them empty, largest difference {off:.2g}")
    assert off < 1e-5


def cut(path, mapped, patches, *numbers):
    """Mean of two ticks a bin, clamped to -10 .. 30 ADC, scaled to -2 .. 18: a pixel of nothing is 3."""
    wires, bins, step_wire, step_bin = (int(n) for n in numbers)
    got, at = np.load(patches), 0
    for _, _, image in planes(path, mapped):
        image = np.clip(image.reshape(len(image), -1, 2).mean(2, dtype=float), -10, 30) / 2 + 3
        big = np.full((max(len(image), wires), max(image.shape[1], bins)), 3.)
        big[:len(image), :image.shape[1]] = image
        for w in starts(len(image), wires, step_wire):
            for t in starts(image.shape[1], bins, step_bin):
                want = big[w:w + wires, t:t + bins]
                assert np.isnan(got[at]).all() if np.isnan(want).any() else np.abs(got[at] - want).max() < 1e-5, (at, w, t)
                at += 1
    assert at == len(got) and got.shape[1:] == (wires, bins), (at, got.shape)


def many(to):
    with h5py.File(to, "w") as f:
        f.attrs["layout"] = "wiremill-exchange-1"
        for k, v in {"event_table/event_id": [[1, 0, 1]], "event_table/n_tick": [2048],
                     "plane_table/event_id": [[1, 0, 1]] * 2, "plane_table/cryostat": [0, 0],
                     "plane_table/tpc": [0, 0], "plane_table/plane": [0, 1], "plane_table/n_wire": [1 << 20] * 2,
                     "roi_table/event_id": np.zeros((0, 3)), "roi_table/channel": [], "roi_table/tick": [],
                     "roi_table/n": []}.items():
            f[k] = np.array(v, np.int32)
        f["roi_value/adc"] = np.zeros(0, np.float32)
        for k in ("channel", "cryostat", "tpc", "plane", "wire"):
            f["wire_table/" + k] = np.zeros(0, np.int32)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
