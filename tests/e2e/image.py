"""image.py - whole planes as images, for image.t: a network from images to images, events, and the oracle.

usage: image.py make FOLDER             unet, turned and mask.onnx, image.yaml, events.h5, frames.h5, channels.csv
       image.py stack FOLDER            the same of three frame tags: stack.onnx, tags.h5, stack.yaml
       image.py check FOLDER SCORES.h5 [channels|stack]   frames as ONNX Runtime makes them from the same tiles
       image.py holes FOLDER SCORES.h5  frames have NaN where, and only where, tiles are held
       image.py masked SCORES.h5 MASK.h5   the network's mask, a bool, against its values
       image.py others SCORES.h5 FOLDER   copies that differ: pixel, other, flat, scores, wide.h5
       image.py equal A.h5 B.h5         the same frames, bit for bit
       image.py drawn PAGE SCORES.h5 EVENT PLANE...   the pictures in the page are these planes of the frame
"""
import base64
import os
import re
import shutil
import struct
import sys
import zlib

import h5py
import numpy as np

from join import frame

SIDES, STEPS, WINDOW, TICKS = (32, 64), (24, 48), 4, 1000  # 250 bins: the last tiles are moved back
PLANES = {0: 70, 1: 33, 2: 20}  # wires; plane 2 is smaller than a tile
EVENTS, FIRST = 2, 5
if os.environ.get("WM_TILE") == "large":  # one tile of ProtoDUNE-VD's DNN-ROI: 20 MB as three channels, 7 MB as an image
    SIDES, STEPS, TICKS, PLANES = (1984, 856), (1984, 856), 3424, {0: 1984}
MASK = 0.1  # the mask's threshold
SCALE = 4000.0  # as Wire-Cell's input_scale 1/4000
TAGS = ("loose_lf", "mp2_roi", "mp3_roi")


def unet(path, channels, turned=False, mask=False):
    """Two levels with a skip: Conv, Relu, MaxPool, ConvTranspose, Resize, Concat, Sigmoid; seeded."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    random = np.random.default_rng(19 + channels)
    nodes, weights = [], []

    def conv(x, n_in, n_out, size, to, kind="Conv", **how):
        shape = (n_in, n_out, size, size) if kind == "ConvTranspose" else (n_out, n_in, size, size)
        w = random.standard_normal(shape) * np.sqrt(2 / (n_in * size * size))
        weights.append(numpy_helper.from_array(w.astype(np.float32), to + "_w"))
        weights.append(numpy_helper.from_array((random.standard_normal(n_out) / 10).astype(np.float32), to + "_b"))
        nodes.append(helper.make_node(kind, [x, to + "_w", to + "_b"], [to], **how))
        return to

    def relu(x):
        nodes.append(helper.make_node("Relu", [x], [x + "_r"]))
        return x + "_r"

    def pool(x):
        nodes.append(helper.make_node("MaxPool", [x], [x + "_p"], kernel_shape=[2, 2], strides=[2, 2]))
        return x + "_p"

    def concat(a, b):
        nodes.append(helper.make_node("Concat", [a, b], [a + "_c"], axis=1))
        return a + "_c"
    same = {"pads": [1, 1, 1, 1]}
    one = relu(conv("x", channels, 4, 3, "one", **same))
    two = relu(conv(pool(one), 4, 6, 3, "two", **same))
    three = relu(conv(pool(two), 6, 6, 3, "three", **same))
    weights.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"))
    nodes.append(helper.make_node("Resize", [three, "", "scales"], ["wide"], mode="nearest",
                                  coordinate_transformation_mode="asymmetric", nearest_mode="floor"))
    four = relu(conv(concat("wide", two), 12, 6, 3, "four", **same))
    up = conv(four, 6, 4, 2, "up", "ConvTranspose", strides=[2, 2])
    five = relu(conv(concat(up, one), 8, 4, 3, "five", **same))
    last = conv(five, 4, 1, 1, "last")
    for w in weights[-2:]:  # so that the image has values far apart
        w.CopyFrom(numpy_helper.from_array(40 * numpy_helper.to_array(w), w.name))
    nodes.append(helper.make_node("Sigmoid", [last], ["s" if turned or mask else "y"]))
    out, kind = SIDES, TensorProto.FLOAT
    if turned:
        out = SIDES[::-1]
        nodes.append(helper.make_node("Transpose", ["s"], ["y"], perm=[0, 1, 3, 2]))
    if mask:
        kind = TensorProto.BOOL
        weights.append(numpy_helper.from_array(np.array(MASK, np.float32), "most"))
        nodes.append(helper.make_node("Greater", ["s", "most"], ["y"]))
    graph = helper.make_graph(nodes, "unet",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", channels, *SIDES])],
                              [helper.make_tensor_value_info("y", kind, ["n", 1, *out])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def images(seed=1):
    """(event, plane) -> (wires, ticks): tracks and noise, whole numbers of ADC."""
    random = np.random.default_rng(seed)
    found = {}
    for event in range(FIRST, FIRST + EVENTS):
        for plane, n_wire in PLANES.items():
            image = np.zeros((n_wire, TICKS), np.float32)
            for wire in range(n_wire):
                for start in random.integers(0, TICKS - 60, 3):
                    n = random.integers(10, 60)
                    image[wire, start:start + n] = np.round(random.standard_normal(n) * 400 + 300)
            found[event, plane] = image
    return found


def number(plane, wire):
    return 1000 * plane + wire + 7


def exchange(path, content):
    with h5py.File(path, "w") as f:
        f.attrs["layout"] = np.bytes_("wiremill-exchange-1")
        events = [[1, 0, e] for e in range(FIRST, FIRST + EVENTS)]
        f["event_table/event_id"] = np.array(events, np.int32)
        f["event_table/n_tick"] = np.full(EVENTS, TICKS, np.int32)
        for name, value in (("tick_us", 0.5), ("trigger_offset", 0.0), ("tau_us", 10000.0)):
            f["event_table/" + name] = np.full(EVENTS, value)
        keys = list(content)
        f["plane_table/event_id"] = np.array([[1, 0, e] for e, _ in keys], np.int32)
        for name in ("cryostat", "tpc"):
            f["plane_table/" + name] = np.zeros(len(keys), np.int32)
        f["plane_table/plane"] = np.array([p for _, p in keys], np.int32)
        f["plane_table/n_wire"] = np.array([PLANES[p] for _, p in keys], np.int32)
        wires = np.array([(number(p, w), 0, 0, p, w) for p, n in PLANES.items() for w in range(n)], np.int32)
        for i, name in enumerate(("channel", "cryostat", "tpc", "plane", "wire")):
            f["wire_table/" + name] = wires[:, i]
        rows, values = [], []
        for (event, plane), image in content.items():
            for wire, line in enumerate(image):
                edge = np.flatnonzero(np.diff(np.concatenate(([0], line != 0, [0]))))
                for a, b in edge.reshape(-1, 2):
                    rows.append((event, number(plane, wire), a, b - a))
                    values.append(line[a:b])
        rows = np.array(rows, np.int32)
        f["roi_table/event_id"] = np.stack([np.ones(len(rows)), np.zeros(len(rows)), rows[:, 0]], 1).astype(np.int32)
        for i, name in enumerate(("channel", "tick", "n")):
            f["roi_table/" + name] = rows[:, i + 1]
        f["roi_value/adc"] = np.concatenate(values).astype(np.float32)


def frames(path, contents):
    """Wire-Cell's frames, one for each tag, of all planes."""
    channels = np.array([number(p, w) for p, n in PLANES.items() for w in range(n)])
    with h5py.File(path, "w") as f:
        for event in range(FIRST, FIRST + EVENTS):
            for tag, content in contents.items():
                frame(f, event, tag, channels, np.concatenate([content[event, p] for p in PLANES]), compression=None)


def spec(path, more=""):
    with open(path, "w") as f:
        f.write(f"table: dnnroi\nresult: image\npoints: windows\npatch: [{SIDES[0]}, {SIDES[1]}]\n"
                f"step_wire: {STEPS[0]}\nstep_bin: {STEPS[1]}\ndrift_window: {WINDOW}\ndownscale: mean\nview: full\n"
                f"adc: [-{SCALE:g}, {SCALE:g}]\nout: [-1, 1]\namplitude: [1]\nlifetime: none\n{more}")


def make(folder):
    unet(folder + "/unet.onnx", 1)
    unet(folder + "/turned.onnx", 1, turned=True)
    unet(folder + "/mask.onnx", 1, mask=True)
    exchange(folder + "/events.h5", images())
    frames(folder + "/frames.h5", {"gauss": images()})
    with open(folder + "/channels.csv", "w") as f:
        f.write("channel,cryostat,tpc,plane,wire\n")
        f.writelines(f"{number(p, w)},0,0,{p},{w}\n" for p, n in PLANES.items() for w in range(n))
    spec(folder + "/image.yaml")


def stack(folder):
    unet(folder + "/stack.onnx", len(TAGS))
    frames(folder + "/tags.h5", {tag: images(k + 1) for k, tag in enumerate(TAGS)})
    spec(folder + "/stack.yaml", f"channels: {len(TAGS)}\ntags: [{', '.join(TAGS)}]\n")


# ---- the oracle ------------------------------------------------------------------------------------------------

def starts(size, side, step):
    """Tiles from 0 on; the last is moved back so that it ends with the plane."""
    return [0] if size <= side else list(range(0, size - side, step)) + [size - side]


def owner(size, side, first):
    """For each cell the tile whose centre is nearest, the earlier of two."""
    centre = np.array(first) + (side - 1) / 2
    return np.argmin(np.abs(np.arange(size)[:, None] - centre), axis=1)


def pixels(image):
    """(wires, ticks) -> (wires, bins): the mean of WINDOW ticks, scaled."""
    image = image.astype(np.float64).reshape(len(image), -1, WINDOW).mean(axis=2)
    return (np.clip(image, -SCALE, SCALE) / SCALE).astype(np.float32)


def run(session, channels):
    """channels (n, wires, bins) -> (wires, bins), tile by tile."""
    n, n_wire, n_bin = channels.shape
    wires, bins = starts(n_wire, SIDES[0], STEPS[0]), starts(n_bin, SIDES[1], STEPS[1])
    padded = np.zeros((n, max(n_wire, SIDES[0]), max(n_bin, SIDES[1])), np.float32)
    padded[:, :n_wire, :n_bin] = channels
    tiles = [padded[:, w:w + SIDES[0], b:b + SIDES[1]] for w in wires for b in bins]
    out = session.run(None, {"x": np.stack(tiles)})[0][:, 0]
    own_wire, own_bin = owner(n_wire, SIDES[0], wires), owner(n_bin, SIDES[1], bins)
    result = np.empty((n_wire, n_bin), np.float32)
    for w in range(n_wire):
        for b in range(n_bin):
            i, j = own_wire[w], own_bin[b]
            result[w, b] = out[i * len(bins) + j, w - wires[i], b - bins[j]]
    return result


def check(folder, scores, what=""):
    import onnxruntime
    session = onnxruntime.InferenceSession(f"{folder}/{'stack' if what == 'stack' else 'unet'}.onnx",
                                           providers=["CPUExecutionProvider"])
    contents = [images(k + 1) for k in range(len(TAGS) if what == "stack" else 1)]
    worst = 0
    with h5py.File(scores) as f:
        assert np.all(f["dnnroi/status"][:] == 0) and len(f["held/row"]) == 0
        assert {"run", "wire", "time", "engine"} <= set(f["dnnroi"]) and "out_0" not in f["dnnroi"], list(f["dnnroi"])
        for event in range(FIRST, FIRST + EVENTS):
            group = f[str(event)]
            found, row = group["frame_dnnroi"][:], 0
            assert found.dtype == np.float32 and found.shape == (sum(PLANES.values()), TICKS // WINDOW), found.shape
            assert list(group["tickinfo_dnnroi"][:]) == [0, 500 * WINDOW, 0] and group.attrs["event"] == event
            channels = [number(p, w) for p, n in PLANES.items() for w in range(n)]
            assert list(group["channels_dnnroi"][:]) == (channels if what else list(range(len(channels))))
            for plane, n_wire in PLANES.items():
                wanted = run(session, np.stack([pixels(c[event, plane]) for c in contents]))
                part = found[row:row + n_wire]
                assert np.all(group["wires_dnnroi"][row:row + n_wire, 2] == plane)
                assert wanted.std() > 0.02, "the network's answer is flat"
                worst = max(worst, np.abs(part - wanted).max())
                row += n_wire
    print(f"largest difference {worst:.2e}")
    assert worst <= 1e-5, worst


def holes(folder, scores):
    with h5py.File(scores) as f:
        table, held = f["dnnroi"], f["held/row"][:]
        assert len(held) and set(held) == set(np.flatnonzero(table["status"][:]))
        for event in range(FIRST, FIRST + EVENTS):
            row = 0
            for plane, n_wire in PLANES.items():
                mine = np.flatnonzero((table["event"][:] == event) & (table["plane"][:] == plane))
                wires, bins = table["wire"][:][mine], table["time"][:][mine] // WINDOW
                first_wire, first_bin = sorted(set(wires)), sorted(set(bins))
                at = {(first_wire.index(w), first_bin.index(b)): r for w, b, r in zip(wires, bins, mine)}
                rows = [[at[i, j] for j in owner(TICKS // WINDOW, SIDES[1], first_bin)]
                        for i in owner(n_wire, SIDES[0], first_wire)]
                part = f[f"{event}/frame_dnnroi"][row:row + n_wire]
                assert np.array_equal(np.isnan(part), np.isin(rows, held)), (event, plane)
                row += n_wire
        print(f"{len(held)} tiles held")


def masked(scores, mask):
    """The second has 1 where the first is above MASK, else 0; near it either."""
    with h5py.File(scores) as a, h5py.File(mask) as b:
        for event in range(FIRST, FIRST + EVENTS):
            value, bit = a[f"{event}/frame_dnnroi"][:], b[f"{event}/frame_dnnroi"][:]
            assert set(np.unique(bit)) == {0, 1}, np.unique(bit)
            sure = np.abs(value - MASK) > 1e-5
            assert np.array_equal((value > MASK)[sure], (bit == 1)[sure])


def equal(one, other):
    with h5py.File(one) as a, h5py.File(other) as b:
        for event in range(FIRST, FIRST + EVENTS):
            assert a[f"{event}/frame_dnnroi"][:].tobytes() == b[f"{event}/frame_dnnroi"][:].tobytes(), event


def others(scores, folder):
    """Copies that differ: a pixel, frames and wires, no frame; and scores without images."""
    for kind in ("pixel", "other", "flat", "scores", "wide"):
        shutil.copy(scores, f"{folder}/{kind}.h5")
    with h5py.File(folder + "/pixel.h5", "r+") as f:
        f[f"{FIRST + 1}/frame_dnnroi"][PLANES[0] + 2, 5] = 4
    with h5py.File(folder + "/other.h5", "r+") as f:
        del f[str(FIRST + 1)]
        f[f"{FIRST}/wires_dnnroi"][0] = [0, 1, 0, 0]
    with h5py.File(folder + "/flat.h5", "r+") as f:
        del f[f"{FIRST}/frame_dnnroi"]
        f[f"{FIRST}/frame_dnnroi"] = np.zeros(9)
    with h5py.File(folder + "/wide.h5", "r+") as f:  # a plane of 2^31 cells
        del f[f"{FIRST}/frame_dnnroi"], f[f"{FIRST}/wires_dnnroi"]
        f[f"{FIRST}/frame_dnnroi"] = np.zeros((1, 1 << 11), np.float32)
        f[f"{FIRST}/wires_dnnroi"] = np.array([[0, 0, 0, (1 << 20) - 1]], np.int32)
    with h5py.File(folder + "/scores.h5", "r+") as f:
        f.attrs["specification"] = np.bytes_("table: dnnroi\n")


def palette(href):
    """The numbers of colours of a PNG, from the top."""
    data = base64.b64decode(href.removeprefix("data:image/png;base64,"), validate=True)
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    assert (depth, colour) == (8, 3)
    at, body = 8, b""
    while at < len(data):
        n, kind = struct.unpack(">I4s", data[at:at + 8])
        body += data[at + 8:at + 8 + n] if kind == b"IDAT" else b""
        at += 12 + n
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    return rows[:, 1:]


def drawn(page, scores, event, *planes):
    """The page's pictures are those of these planes of the frame, and of no other: a pixel for each cell."""
    text = open(page, encoding="utf-8").read()
    titles = re.findall(r"<title>Event 1:0:(\d+), TPC 0 plane (\d), dnnroi</title>\s*<desc>", text)
    assert titles == [(event, p) for p in planes], titles
    pictures = [palette(href) for href in re.findall(r'href="(data:image/png;base64,[^"]*)"', text)]
    most = [float(m) for m in re.findall(r"<desc>[^<]*the darkest grey is ([^< ]*)</desc>", text)]
    first = np.cumsum([0] + list(PLANES.values()))
    with h5py.File(scores) as f:
        frame = f[f"{event}/frame_dnnroi"][:]
    for plane, picture, darkest in zip(map(int, planes), pictures, most, strict=True):
        value = np.abs(np.nan_to_num(frame[first[plane]:first[plane + 1]]))  # (wire, bin)
        level = 255 * np.sqrt(np.minimum(1, value.T[::-1] / darkest))
        assert picture.shape == level.shape and level.std() > 5, (picture.shape, level.shape, level.std())
        assert np.abs(picture - level).max() < 255 / 48 + 3, np.abs(picture - level).max()


if __name__ == "__main__":
    {f.__name__: f for f in (make, stack, check, holes, masked, equal, others, drawn)}[sys.argv[1]](*sys.argv[2:])
