"""stream.py - streams of more ticks than are read at once, and NumPy's own patches of their hits.

usage: stream.py files FOLDER TICKS CLUSTERS        long.h5, and what of it lies around two borders of segments as
                                        an event from tick 0 (short.h5); others, `files` says which
       stream.py cut WIREMILL STREAM.h5 WORK SHORT.h5|none VIEW,MODE[,TAU_US]...  patches are NumPy's, and have the
                                        short event's bits
       stream.py scores SCORES.h5 STREAM.h5 MODEL.onnx N SHORT-SCORES.h5  ONNX Runtime's of NumPy's patches, of N
                                        hits; hits that are in both outputs have the same bits
Patches are made from the definition, in whole ticks and double, without segments.
"""
import json
import shutil
import subprocess
import sys

import h5py
import numpy as np

WIRES = [40, 30]
WINDOW, SIDE = 6, 16  # ticks a drift bin; the patch is 16 x 16
CORE = 4096 * WINDOW  # ticks of a segment
SPEC = dict(patch=[SIDE, SIDE], drift_window=WINDOW, adc=[-10, 30], out=[-5, 15], lifetime="none")
AMPLITUDE = [1.3285, 1.1665]


def clusters(n_tick, n, rng):
    """Ticks where charge lies: the stream's ends, borders of segments and around them, anywhere."""
    last = (n_tick - 1) // CORE * CORE
    edges = [0, 90, n_tick - 60, n_tick - 400]
    for border in (CORE, 2 * CORE, 3 * CORE, last // 2 // CORE * CORE, last):
        edges += [border - 150, border - 49, border - 6, border, border + 47, border + 100]
    return np.concatenate((edges, rng.integers(0, n_tick - 1000, n))).astype(np.int64)


def files(folder, n_tick, n_cluster):
    n_tick = int(n_tick)
    make(f"{folder}/long.h5", n_tick, int(n_cluster))
    short(f"{folder}/long.h5", f"{folder}/short.h5", 2 * CORE - 6000, 4 * CORE + 6000)
    make(f"{folder}/odd.h5", 16800001, 5, "shuffled", "bad")      # rows in no order, and what holds hits
    make(f"{folder}/facts.h5", 16800001, 1, "facts", "narrow")     # a lifetime of 10 ms; 32-bit columns
    for name, dataset, row, value in (("ticks", "event_table/n_tick", 0, 2**32 + 1), ("before", "roi_table/tick", 5, -1),
                                      ("behind", "roi_table/tick", 5, 16800001 - 3), ("many", "roi_table/n", 0, 10**6)):
        shutil.copy(f"{folder}/odd.h5", f"{folder}/{name}.h5")
        with h5py.File(f"{folder}/{name}.h5", "r+") as f:
            f[dataset][row] = value
    wide(folder)


def make(target, n_tick, n_cluster, *how):
    rng = np.random.default_rng(5)
    rois, hits = [], []  # (channel, tick, samples); (plane, wire, time)
    for at in clusters(n_tick, n_cluster, rng):
        plane = int(rng.integers(2))
        first, steep = int(rng.integers(WIRES[plane] - 12)), int(rng.integers(-12, 13))
        for k in range(10):
            tick = int(np.clip(at + k * steep, 0, n_tick - 1))
            adc = np.round(8 * 60 * np.hanning(int(rng.integers(20, 70)) + 2)[1:-1]) / 8 + rng.integers(-3, 4)
            rois.append((100 * plane + first + k, tick, adc[:n_tick - tick]))
            hits.append((plane, first + k, tick + rng.integers(0, 16 * 40) / 16))
    for channel, tick in ((38, 3 * CORE - 100), (139, last_border(n_tick) - 2 * CORE)):  # over three segments
        adc = rng.integers(-40, 80, 2 * CORE + 200) / 8
        rois.append((channel, tick, adc))
        hits += [(channel // 100, 36 - channel // 100 * 9, tick + 500 * k + 0.75) for k in range(0, 98, 7)]
    hits += [(0, 36, 3 * CORE + 600 - 1e-6)]  # as float32 it would be in the next bin
    hits += [(0, 3, n_tick + 40.0), (0, 3, -0.5), (1, 29, -40.0), (0, 5, n_tick - 0.5), (1, 2, CORE - 1 / 16)]
    if "bad" in how:
        hits += [(0, 9, np.nan), (0, 9, np.inf), (1, 99, CORE + 20.25), (0, 9, 1e300), (0, 3, n_tick + 5000.0)]
        rois.append((9, 5 * CORE + 10, np.array([1, np.nan, 1])))
        hits.append((0, 10, 5 * CORE + 11.5))
    rois = disjoint(rois)
    order = rng.permutation(len(rois)) if "shuffled" in how else np.argsort([r[1] for r in rois], kind="stable")
    rois = [rois[i] for i in order]
    hits = [hits[i] for i in rng.permutation(len(hits))] if "shuffled" in how else sorted(hits, key=lambda h: h[2])
    write(target, n_tick, rois, hits, "narrow" in how, "facts" in how)


def last_border(n_tick):
    return (n_tick - 1) // CORE * CORE


def disjoint(rois):
    """Leaves out regions that begin inside another of their channel."""
    kept, end = [], {}
    for channel, tick, adc in sorted(rois, key=lambda r: (r[0], r[1])):
        if tick >= end.get(channel, 0) and len(adc):
            kept.append((channel, tick, adc))
            end[channel] = tick + len(adc)
    return kept


def write(target, n_tick, rois, hits, narrow, facts, keys=None):
    """Channel 100 p + w fills wire w of plane p; 139 is wrapped: wires 28 and 29 of plane 1."""
    event, big = [7, 0, 1], np.int32 if narrow else np.int64
    wires = [(100 * p + w, p, w) for p in range(2) for w in range(WIRES[p] - 2 * p)] + [(139, 1, 28), (139, 1, 29)]
    with h5py.File(target, "w") as f:
        def put(name, values, kind):
            values = np.asarray(values, kind)
            f.create_dataset(name, data=values, chunks=(min(len(values), 4096),) + values.shape[1:] if len(values) else None,
                             compression="gzip" if len(values) else None, shuffle=bool(len(values)))
        f.attrs["layout"] = "wiremill-exchange-1"
        f["event_table/event_id"] = [event]
        f["event_table/n_tick"] = np.array([n_tick], np.uint64 if not narrow else np.int32)
        if facts:
            f["event_table/tick_us"], f["event_table/trigger_offset"], f["event_table/tau_us"] = [0.5], [0.], [1e4]
            f["event_table/lifetime"] = np.ones((1, 10), np.float32)
        f["plane_table/event_id"] = [event] * 2
        f["plane_table/cryostat"] = f["plane_table/tpc"] = [0, 0]
        f["plane_table/plane"], f["plane_table/n_wire"] = [0, 1], WIRES
        for i, name in enumerate(("channel", "plane", "wire")):
            f["wire_table/" + name] = [w[i] for w in wires]
        f["wire_table/cryostat"] = f["wire_table/tpc"] = np.zeros(len(wires), int)
        f["bad_channel/event_id"], f["bad_channel/channel"] = [event], [104]
        put("roi_table/event_id", np.tile(event, (len(rois), 1)), np.int64)
        put("roi_table/channel", [r[0] for r in rois], np.int32)
        put("roi_table/tick", [r[1] for r in rois], big)
        put("roi_table/n", [len(r[2]) for r in rois], np.int32)
        put("roi_value/adc", np.concatenate([r[2] for r in rois]), np.float32)
        put("hit_table/event_id", np.tile(event, (len(hits), 1)), np.int64)
        put("hit_table/cryostat", np.zeros(len(hits)), np.int32)
        put("hit_table/tpc", np.zeros(len(hits)), np.int32)
        put("hit_table/plane", [h[0] for h in hits], np.int32)
        put("hit_table/wire", [h[1] for h in hits], np.int32)
        put("hit_table/time", [h[2] for h in hits], np.float32 if narrow else np.float64)
        put("hit_table/key", np.arange(len(hits)) if keys is None else keys, np.int64)


class Stream:
    """What a file holds: hits, and the samples of each wire."""

    def __init__(self, path):
        with h5py.File(path) as f:
            self.n_tick = int(f["event_table/n_tick"][0])
            self.channel, self.tick, n = (f["roi_table/" + c][:].astype(np.int64) for c in ("channel", "tick", "n"))
            self.start = np.concatenate(([0], np.cumsum(n)))
            self.adc = f["roi_value/adc"][:].astype(np.float64)
            self.plane, self.wire = f["hit_table/plane"][:], f["hit_table/wire"][:]
            self.time = f["hit_table/time"][:].astype(np.float64)
            self.key = f["hit_table/key"][:]
            bad = set(f["bad_channel/channel"][:])
            table = zip(f["wire_table/channel"][:], f["wire_table/plane"][:], f["wire_table/wire"][:])
            self.feeds = {(p, w): c for c, p, w in table if c not in bad}
        self.of = {}
        for c in np.unique(self.channel):
            rows = np.flatnonzero(self.channel == c)
            rows = rows[np.argsort(self.tick[rows])]
            self.of[c] = rows, self.tick[rows]

    def samples(self, plane, wire, first, end):
        """Ticks [first, end) of a wire; 0 where there is nothing, also outside the readout."""
        out = np.zeros(end - first)
        rows, ticks = self.of.get(self.feeds.get((plane, wire)), ([], []))
        at = max(int(np.searchsorted(ticks, first, "right")) - 1, 0)
        for row in rows[at:]:
            tick, adc = self.tick[row], self.adc[self.start[row]:self.start[row + 1]]
            if tick >= end:
                break
            a, b = max(tick, first), min(tick + len(adc), end)
            if a < b:
                out[a - first:b - first] = adc[a - tick:b - tick]
        return out

    def patch(self, plane, wire, time, mode, view, tau_us=0.0):
        scale = (30 + 10) / (15 + 5)
        z = -5 + 10 / scale
        out = np.full((SIDE, SIDE), z)
        n = SIDE * WINDOW
        if view == "full":
            first = (int(time / WINDOW) - SIDE // 2) * WINDOW if time < 0 else (int(time // WINDOW) - SIDE // 2) * WINDOW
            stay = np.array([0 <= first + k * WINDOW and first + (k + 1) * WINDOW <= self.n_tick for k in range(SIDE)])
            length, readout = n, (0, self.n_tick)
        else:
            first = max(int(time) - n // 2, 0)
            stay, length = np.ones(SIDE, bool), int(time) + n // 2 - first
            readout = (first, first + n)
        for k in range(SIDE):
            w = wire - SIDE // 2 + k
            if not 0 <= w < WIRES[plane]:
                continue
            s = np.zeros(n + 2)  # one tick more on both sides
            if view == "full":
                s[:] = self.samples(plane, w, first - 1, first + n + 1)
                if tau_us:
                    s *= np.exp(np.arange(first - 1, first + n + 1) * 0.5 / tau_us).astype(np.float32)
            elif length > 0:
                s[1:1 + min(length, n)] = self.samples(plane, w, first, first + min(length, n))
            v = downscale(s, first, readout, mode)
            v = (np.clip(v * AMPLITUDE[plane], -10, 30) + 10) / scale - 5
            out[k, stay] = v[stay]
        return out.astype(np.float32)


def downscale(s, first, readout, mode):
    """The bins of s[1:-1], whose first sample is tick `first`."""
    bins = s[1:-1].reshape(SIDE, WINDOW)
    if mode == "mean":
        return bins.sum(1) / WINDOW
    if mode == "maxpool":
        return bins.max(1)
    top = bins.argmax(1) + np.arange(SIDE) * WINDOW
    left, right = first + top - 1 >= readout[0], first + top + 1 < readout[1]
    return (s[1 + top] + left * s[top] + right * s[2 + top]) / (1 + left + right)


def run_cut(wiremill, spec, source, work):
    subprocess.run([wiremill, "cut", "--spec", spec, "--input", source, "--patches", work + "/cut.npy"], check=True)
    return np.load(work + "/cut.npy")


def cut(wiremill, source, work, other, *cases):
    stream, few = Stream(source), Stream(other) if other != "none" else None
    row = {int(k): i for i, k in enumerate(stream.key)}
    for case in cases:
        view, mode, tau_us = (case.split(",") + ["0"])[:3]
        life = dict(lifetime="exp", tau_us=float(tau_us), tick_us=0.5, trigger_offset=0) if float(tau_us) else {}
        with open(work + "/cut.yaml", "w") as f:
            for key, value in dict(SPEC, view=view, downscale=mode, amplitude=AMPLITUDE, **life).items():
                f.write(f"{key}: {json.dumps(value).strip(chr(34))}\n")
        got = run_cut(wiremill, work + "/cut.yaml", source, work)
        want = np.stack([stream.patch(*h, mode, view, float(tau_us))
                         for h in zip(stream.plane, stream.wire, stream.time)])
        off = np.abs(got - want).max(axis=(1, 2))
        worst = int(np.argmax(off))
        print(f"{view} {mode}: {len(got)} patches, {np.count_nonzero(want.any(axis=(1, 2)))} not empty, largest difference "
              f"{off[worst]:.3g} (plane {stream.plane[worst]} wire {stream.wire[worst]} time {stream.time[worst]})")
        assert off[worst] <= 4e-6  # NaN is not
        assert np.count_nonzero(want.any(axis=(1, 2))) > len(want) / 2
        if few and not life:
            own = run_cut(wiremill, work + "/cut.yaml", other, work)
            mine = got[[row[int(k)] for k in few.key]]
            assert len(own) > 50 and mine.tobytes() == own.tobytes(), "the short event's patches are other bits"


def short(source, target, first, end):
    s = Stream(source)
    assert first % WINDOW == 0
    rois = []
    for r in range(len(s.tick)):
        adc, tick = s.adc[s.start[r]:s.start[r + 1]], s.tick[r]
        a, b = max(tick, first), min(tick + len(adc), end)
        if a < b:
            rois.append((s.channel[r], a - first, adc[a - tick:b - tick]))
    rows = np.flatnonzero((s.time >= first + 500) & (s.time < end - 500) & (s.time * 16 % 1 == 0))  # exact as float32
    write(target, end - first, rois, [(s.plane[i], s.wire[i], s.time[i] - first) for i in rows], False, False, s.key[rows])


def scores(path, source, model, count, short_path):
    same(path, short_path)
    import onnxruntime
    stream = Stream(source)
    with h5py.File(path) as f:
        table = f["emtrkmichel"]
        assert np.array_equal(table["hit_id"][:].ravel(), stream.key), "rows are not in input order"
        got = np.stack([table[c][:] for c in ("track", "em", "none", "michel")], 1)
        assert set(table["event"][:]) == {1} and set(table["run"][:]) == {7}
        fiducial = table["in_fiducial"][:].astype(bool)
    margin, bins = SIDE // 8, stream.n_tick // WINDOW
    bin_of = np.trunc(stream.time / WINDOW)
    n_wire = np.take(WIRES, stream.plane)
    inside = (stream.wire >= margin) & (stream.wire < n_wire - margin) & (bin_of >= margin) & (bin_of < bins - margin)
    assert np.array_equal(fiducial, inside), "in_fiducial"
    rows = np.unique(np.concatenate((np.arange(min(len(got), 40)), np.linspace(0, len(got) - 1, int(count)).astype(int))))
    x = np.stack([stream.patch(stream.plane[i], stream.wire[i], stream.time[i], "mean", "full") for i in rows])
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    shape = [len(x) if not isinstance(d, int) else d for d in session.get_inputs()[0].shape]
    want = np.concatenate(session.run(None, {session.get_inputs()[0].name: x.reshape(shape)}), 1)
    off = np.abs(got[rows] - want).max()
    print(f"{len(rows)} of {len(got)} hits: largest difference {off:.3g}")
    assert off <= 1e-5


def same(path, short_path):
    columns = ("track", "em", "none", "michel", "status")
    with h5py.File(path) as a, h5py.File(short_path) as b:
        row = {int(k): i for i, k in enumerate(a["emtrkmichel/hit_id"][:])}
        rows = [row[int(k)] for k in b["emtrkmichel/hit_id"][:]]
        assert len(rows) > 50
        for c in columns:
            assert a["emtrkmichel/" + c][:][rows].tobytes() == b["emtrkmichel/" + c][:].tobytes(), c
    print(f"{len(rows)} hits have the same bits")


def wide(folder):
    """Waveforms of 2^24 + 1 ticks in other layouts; none are stored."""
    def waves(f, name):
        f.create_dataset(name, (1, 2**24 + 1), np.float32, chunks=(1, 2**20))
        f["filler"] = np.zeros(1 << 17, np.uint8)  # a smaller file could not hold that many zeros
    hit = ("tpc", "plane", "wire", "time", "hit_id")
    with h5py.File(f"{folder}/samples.h5", "w") as f:
        for name in ("event_table", "wire_table", "hit_table"):
            f[name + "/event_id"] = [[1, 0, 1]]
        for name in ("wire_table/tpc", "wire_table/local_plane", "wire_table/local_wire", "hit_table/tpc", "hit_table/hit_id",
                     "hit_table/local_plane", "hit_table/local_wire", "hit_table/local_time"):
            f[name] = [0]
        waves(f, "wire_table/adc")
    with h5py.File(f"{folder}/frames.h5", "w") as f:
        waves(f, "1/frame_gauss")
        f["1/channels_gauss"], f["1/tickinfo_gauss"] = [0], [0., 500., 0.]
    with h5py.File(f"{folder}/hits.h5", "w") as f:
        f["hit_table/event_id"] = [[1, 0, 1]]
        for name in hit:
            f["hit_table/" + name] = [0]


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
