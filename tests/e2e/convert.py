"""convert.py - ROOT files that uproot writes, for convert.t: of synthetic events, small ones, and bad ones; what was made of them.

usage: convert.py events EVENTS.h5 DIR      planes, hits and map of the events, in DIR
       convert.py small DIR                 Magnify files and trees whose values are known
       convert.py values DIR                whether what was made of them has these values
       convert.py of_root DIR               the same of what was made of magnify.root
       convert.py equal A.h5 B.h5           whether two files hold the same
       convert.py bad DIR                   files that are refused
"""
import csv
import os
import sys

import h5py
import numpy as np
import uproot
from uproot.writing import identify


def th2(name, values, x, y):
    """A TH2F (TH2D of float64, TH2I of int32): values (channels, ticks), first edges and widths of the axes."""
    flow = np.zeros((values.shape[0] + 2, values.shape[1] + 2), values.dtype)
    flow[1:-1, 1:-1] = values
    axes = [identify.to_TAxis(title, "", n, first, first + n * width)
            for title, n, (first, width) in zip(("xaxis", "yaxis"), values.shape, (x, y))]
    return identify.to_TH2x(name, name, flow.T.ravel(), values.size, 0, 0, 0, 0, 0, 0, 0, np.array([], np.float64), *axes)


def tree(file, name, **columns):
    file.mktree(name, {key: values.dtype if values.ndim == 1 else (values.dtype, values.shape[1:]) for key, values in columns.items()})
    file[name].extend(columns)


def trun(file, run, subrun, event):
    tree(file, "Trun", runNo=np.array([run], np.int32), subRunNo=np.array([subrun], np.int32), eventNo=np.array([event], np.int32))


def events(source, to):
    """Each event of the exchange layout becomes a Magnify file; all hits become one tree."""
    with h5py.File(source) as f:
        wires = {name: f[f"wire_table/{name}"][:] for name in ("channel", "cryostat", "tpc", "plane", "wire")}
        with open(f"{to}/map.csv", "w", newline="") as file:
            csv.writer(file).writerows([wires, *zip(*wires.values())])
        begin = np.cumsum(f["roi_table/n"][:]) - f["roi_table/n"][:]
        adc = f["roi_value/adc"][:]
        for event, n_tick in zip(f["event_table/event_id"][:], f["event_table/n_tick"][:]):
            dense = np.zeros((wires["channel"].max() + 1, n_tick), np.float32)
            mine = np.flatnonzero((f["roi_table/event_id"][:] == event).all(axis=1))
            for i in mine:
                tick, n = f["roi_table/tick"][i], f["roi_table/n"][i]
                dense[f["roi_table/channel"][i], tick:tick + n] = adc[begin[i]:begin[i] + n]
            with uproot.recreate(f"{to}/magnify-{event[2]}.root") as file:
                for plane in range(3):
                    channels = wires["channel"][wires["plane"] == plane]
                    first, last = channels.min(), channels.max()
                    file[f"h{'uvw'[plane]}_gauss"] = th2("h", dense[first:last + 1], (first - 0.5, 1), (0, 1))
                trun(file, *event)
        with uproot.recreate(f"{to}/hits.root") as file:
            table, ids = f["hit_table"], f["hit_table/event_id"][:].astype(np.int32)
            tree(file, "ana/hits", run=ids[:, 0], subrun=ids[:, 1], event=ids[:, 2], peak=table["time"][:].astype(np.float64),
                 number=table["key"][:].astype(np.int64), **{name: table[name][:].astype(np.int32) for name in ("tpc", "plane", "wire")})
        facts = {name: f[f"event_table/{name}"][0] for name in ("tick_us", "trigger_offset", "tau_us")}
    print(" ".join(f"--{name.replace('_', '-')} {value!r}" for name, value in zip(facts, map(float, facts.values()))))


def waves(seed, shape, kind=np.float32):
    """Pulses, the rest 0. In row 1 samples have 7 zeros between them, which join their region, in row 3 8, which do not."""
    rng = np.random.default_rng(seed)
    made = np.zeros(shape, kind)
    for row in range(0, shape[0], 2):
        for start in rng.integers(0, shape[1], 3):
            made[row, start:start + 20] = rng.integers(-40, 400, made[row, start:start + 20].shape)
    made[1, [100, 108]] = made[3, [100, 109]] = 7
    made[0, :2], made[0, -1], made[-1, -1] = 3, 4, 5       # both ends
    return made


U, V, W = waves(1, (40, 300)), waves(2, (40, 300)), waves(3, (60, 300))
HITS = {"event": np.array([7, 7, 7, 8], np.int32), "channel": np.array([0, 41, 100, 139], np.uint16),
        "peak": np.array([1.5, 20.25, 299, 7], np.float64), "plane": np.array([0, 1, 2, 2], np.int8),
        "w": np.array([0, 1, 20, 59], np.float32), "charge": np.array([1, 2, 3, 4], np.float32)}


def small(to):
    with uproot.recreate(f"{to}/two.root") as file:      # as MagnifySink writes, with two tags and a summary
        for name, values, first in ("u", U, 0), ("v", V, 40), ("w", W, 80):
            file[f"h{name}_gauss"] = th2("h", values, (first - 0.5, 1), (0, 1))
            file[f"h{name}_raw"] = th2("h", (values + 900).astype(np.int32), (first - 0.5, 1), (0, 1))
        file["hu_baseline"] = np.histogram([1, 2], bins=40)
        trun(file, 1, 2, 7)
        tree(file, "a", **HITS)
        file["ntuple"] = HITS
        tree(file, "T_bad", chid=np.array([3], np.int32))
    with uproot.recreate(f"{to}/anodes.root") as file:   # two anodes; a readout that begins late; ticks in fours
        for anode in (0, 1):
            for name, values, first in ("u", U, 0), ("w", W, 80):
                file[f"h{name}_decon{anode}"] = th2("h", values.astype(np.float64), (1000 * anode + first - 0.5, 1), (100, 4))
        trun(file, 1, 2, 8)
    with uproot.recreate(f"{to}/wires.root") as file:    # other names, x counts wires from 0
        file["tpc/first"], file["tpc/collection"] = th2("h", U, (0, 1), (0, 1)), th2("h", W, (0, 1), (0, 1))


def planes_of(path):
    """Each plane of a file of one event, dense, from nothing but its tables."""
    with h5py.File(path) as f:
        wires = {name: f[f"wire_table/{name}"][:] for name in f["wire_table"]}
        place = {channel: (tpc, plane, wire) for channel, tpc, plane, wire in
                 zip(wires["channel"], wires["tpc"], wires["plane"], wires["wire"])}
        planes = {(tpc, plane): np.zeros((n, f["event_table/n_tick"][0]), np.float32) for tpc, plane, n in
                  zip(f["plane_table/tpc"], f["plane_table/plane"], f["plane_table/n_wire"])}
        end, adc = np.cumsum(f["roi_table/n"][:]), f["roi_value/adc"][:]
        assert end[-1] == len(adc) and (f["roi_table/event_id"][:] == f["event_table/event_id"][0]).all()
        for channel, tick, n, last in zip(f["roi_table/channel"], f["roi_table/tick"], f["roi_table/n"], end):
            tpc, plane, wire = place[channel]
            assert (planes[tpc, plane][wire, tick:tick + n] == 0).all(), "regions overlap"
            planes[tpc, plane][wire, tick:tick + n] = adc[last - n:last]
        return planes, {name: f[name][:] for name in f["event_table"].values() for name in [name.name]} | \
            {f"/hit_table/{name}": column[:] for name, column in f.get("hit_table", {}).items()}


def same(found, wanted):
    assert found.keys() == wanted.keys(), (found.keys(), wanted.keys())
    for key, values in wanted.items():
        np.testing.assert_array_equal(found[key], values, err_msg=str(key))


def values(of):
    from wiremill._root import _located
    for where, wanted in ("x.root:ana/hits", ("x.root", "ana/hits")), ("root://host//x.root", ("root://host//x.root", None)), \
            ("root://host:1094//x.root", ("root://host:1094//x.root", None)), ("root://host:1094//x.root:t", ("root://host:1094//x.root", "t")):
        assert _located(where) == wanted, _located(where)
    planes, columns = planes_of(f"{of}/gauss.h5")
    same(planes, {(3, 0): U, (3, 1): V, (3, 2): W})
    same({key: columns[f"/hit_table/{key}"] for key in ("event_id", "key", "tpc", "plane", "wire", "time", "charge")},
         {"event_id": [[1, 2, e] for e in HITS["event"]], "key": [0, 1, 2, 3], "tpc": [3, 3, 3, 3], "plane": HITS["plane"],
          "wire": HITS["w"], "time": HITS["peak"], "charge": HITS["charge"]})
    same({key: columns[f"/event_table/{key}"] for key in ("event_id", "n_tick", "tick_us")},
         {"event_id": [[1, 2, 7]], "n_tick": [300], "tick_us": [0.5]})
    with h5py.File(f"{of}/gauss.h5") as f:
        of_row = {row: f["roi_table/n"][:][f["roi_table/channel"][:] == row].tolist() for row in (1, 3)}
        assert of_row == {1: [9], 3: [1, 1]}, of_row
    planes, _ = planes_of(f"{of}/raw.h5")
    same(planes, {(0, k): values + 900 - np.median(values + 900, axis=1, keepdims=True) for k, values in enumerate((U, V, W))})
    planes, _ = planes_of(f"{of}/level.h5")
    same(planes, {(0, k): values for k, values in enumerate((U, V, W))})
    planes, _ = planes_of(f"{of}/anodes.h5")
    late = {k: np.hstack([np.zeros((len(a), 100)), np.repeat(a / 4, 4, axis=1)]) for k, a in ((0, U), (2, W))}
    same(planes, {(anode, k): a for anode in (0, 1) for k, a in late.items()})
    planes, columns = planes_of(f"{of}/wires.h5")
    same(planes, {(5, 0): U, (5, 2): W})
    assert columns["/event_table/event_id"].tolist() == [[9, 8, 7]]
    for name in "numl", "ntuple":
        with h5py.File(f"{of}/{name}.h5") as f:
            same({name: column[:] for name, column in f["hit_table"].items()},
                 {"event_id": [[4, 0, e] for e in HITS["event"]], "hit_id": np.arange(4)[:, None], "tpc": np.full((4, 1), 1),
                  "plane": HITS["plane"][:, None], "wire": HITS["w"][:, None], "time": HITS["peak"][:, None]})
            assert f["event_table/event_id"][:].tolist() == [[4, 0, 7], [4, 0, 8]]


def of_root(of):
    from magnify import HITS as n_hit, PLANES, TICKS, value
    wanted = {(0, k): np.array([[value(first + row, tick) for tick in range(TICKS)] for row in range(n)], np.float32)
              for k, (_, first, n) in enumerate(PLANES)}
    for tag in "gauss", "wiener", "threshold", "raw":
        planes, columns = planes_of(f"{of}/root-{tag}.h5")
        same(planes, wanted)
        same({key: columns[f"/hit_table/{key}"] for key in ("event_id", "key", "plane", "wire", "time")},
             {"event_id": [[27, 4, 409]] * n_hit, "key": 10**10 + np.arange(n_hit), "time": np.arange(n_hit) + 0.25,
              "plane": np.repeat([0, 1, 2], [12, 12, 16]), "wire": np.concatenate([np.arange(12), np.arange(12), np.arange(16)])})
    with h5py.File(f"{of}/root-tuple.h5") as f:
        same({name: f[f"hit_table/{name}"][:].ravel() for name in ("wire", "time")}, {"wire": np.arange(n_hit), "time": np.arange(n_hit) + 0.25})


def equal(*paths):
    def held(path):
        found = {}
        with h5py.File(path) as f:
            f.visititems(lambda name, item: found.update({name: item[:]}) if isinstance(item, h5py.Dataset) else None)
        return found

    same(*map(held, paths))


def bad(to):
    with uproot.recreate(f"{to}/bad.root") as file:
        file.mktree("empty", {"event": np.int32, "plane": np.int32, "wire": np.int32, "time": np.float32})
        import awkward
        n = np.arange(3, dtype=np.int32)
        file.mktree("jagged", {"event": np.int32, "plane": np.int32, "wire": "var * int32", "time": np.float32})
        file["jagged"].extend({"event": n, "plane": n, "wire": awkward.Array([[1, 2], [], [3]]), "time": n.astype(np.float32)})
        file["lists"] = {"event": n, "plane": n, "wire": awkward.Array([[1, 2], [], [3]]), "time": n}
        tree(file, "fixed", event=n, plane=n, wire=np.zeros((3, 2), np.int32), time=n.astype(np.float32))
        tree(file, "infinite", event=n, plane=n, wire=np.full(3, np.inf, np.float32), time=n.astype(np.float32))
        tree(file, "half", event=n, plane=n, wire=n + np.float32(0.5), time=n.astype(np.float32))
    with uproot.recreate(f"{to}/planes.root") as file:
        file["hu_zero"] = th2("h", np.zeros((4, 5), np.float32), (-0.5, 1), (0, 1))
        file["hu_wide"] = th2("h", np.ones((4, 5), np.float32), (-0.5, 2), (0, 1))
        file["hu_half"] = th2("h", np.ones((4, 5), np.float32), (-0.5, 1), (0, 0.5))
        file["hu_below"] = th2("h", np.ones((4, 5), np.float32), (-0.5, 1), (-3, 1))
        for name in "uv":
            file[f"h{name}_twice"] = th2("h", np.ones((4, 5), np.float32), (-0.5, 1), (0, 1))
    for opened in uproot.recreate, uproot.update:        # as MagnifySink's UPDATE: a cycle an event
        with opened(f"{to}/cycles.root") as file:
            file["hu_gauss"] = th2("h", np.ones((4, 5), np.float32), (-0.5, 1), (0, 1))
    for name, first, last in ("few", 0, 100), ("other", 100, 140):
        with open(f"{to}/{name}.csv", "w", newline="") as file:
            csv.writer(file).writerows([("channel", "cryostat", "tpc", "plane", "wire"), *((k, 0, 0, 0, k) for k in range(first, last))])
    # A branch with fewer entries than its tree: the count of entries of one branch, in the bytes of a file.
    with uproot.recreate(f"{to}/whole.root", compression=None) as file:
        tree(file, "t", **{name: np.arange(77777 % 1237, dtype=np.int32) for name in ("event", "plane", "wire", "time")})
    whole, wanted = open(f"{to}/whole.root", "rb").read(), (77777 % 1237).to_bytes(8, "big")
    at = -1
    while (at := whole.find(wanted, at + 1)) >= 0:
        with open(f"{to}/short.root", "wb") as file:
            file.write(whole[:at] + (5).to_bytes(8, "big") + whole[at + 8:])
        try:
            with uproot.open(f"{to}/short.root") as file:
                if file["t"].num_entries == 77777 % 1237 and file["t"]["wire"].num_entries == 5:
                    break
        except Exception:
            continue
    else:
        sys.exit("no byte makes a branch shorter")
    with uproot.recreate(f"{to}/damaged.root") as file:
        file["hu_noise"] = th2("h", np.random.default_rng(4).normal(size=(50, 200)).astype(np.float32), (-0.5, 1), (0, 1))
    with open(f"{to}/damaged.root", "r+b") as file:
        file.seek(20000)
        file.write(bytes(1000))
    with open(f"{to}/two.root", "rb") as file:
        whole = file.read()
    for name, data in ("cut.root", whole[:len(whole) // 3]), ("text.root", b"not ROOT at all\n"), ("nothing.root", b""):
        with open(f"{to}/{name}", "wb") as file:
            file.write(data)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    globals()[sys.argv[1]](*sys.argv[2:])
