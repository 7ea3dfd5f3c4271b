"""quantiles.py - two files of events side by side: charge, run lengths, occupancy, angles, as quantiles.

    python ops/train/quantiles.py A.h5 B.h5

Reads the exchange layout (`wiremill synth` writes it) and OpenSamples (wire_table/adc, dense). Induction planes (the first
two) and the collection plane (the third) are apart. Angles are those of the principal axis of the hits within 12 wires and
75 ticks of a hit: 0 degrees across the wires, 90 along the drift; for wires 0.47 cm and ticks 0.078 cm apart.
"""
import sys

import h5py
import numpy as np

WIRE_CM, TICK_CM = 0.47, 0.078
AT = (1, 10, 25, 50, 75, 90, 99)
SAMPLE = 4000  # hits whose neighbours are looked at


def runs_of(adc):
    """Runs of a dense (wire, tick) array that are not zero: wire, first tick, length."""
    edge = np.diff(np.pad((adc != 0).astype(np.int8), ((0, 0), (1, 1))), axis=1)
    (wire, first), (_, end) = np.nonzero(edge == 1), np.nonzero(edge == -1)
    return wire, first, end - first


def dense(f):
    """OpenSamples: one readout of each plane; every wire is a channel."""
    table, hit = f["wire_table"], f["hit_table"]
    wire, plane, adc = table["local_wire"][:, 0], table["local_plane"][:, 0], table["adc"]
    for p in range(3):
        mine = plane == p
        values = adc[np.flatnonzero(mine)]
        row, first, n = runs_of(values)
        at = np.repeat(np.cumsum(n) - n, n)
        tick = np.arange(n.sum()) - at + np.repeat(first, n)
        here = hit["local_plane"][:, 0] == p
        yield {"plane": p, "n_channel": int(mine.sum()), "n_tick": values.shape[1], "channel": wire[mine][row],
               "first": first, "n": n, "adc": values[np.repeat(row, n), tick], "wire": hit["local_wire"][:, 0][here],
               "time": hit["local_time"][:, 0][here], "on": hit["local_wire"][:, 0][here]}


def exchange(f):
    """The exchange layout: one plane of one TPC of one event at a time."""
    wires, hit, roi = f["wire_table"], f["hit_table"], f["roi_table"]
    tables = {t: {c: f[t][c][:] for c in cs} for t, cs in (
        ("wire_table", ("channel", "tpc", "plane", "wire")), ("hit_table", ("event_id", "tpc", "plane", "wire", "time")),
        ("roi_table", ("event_id", "channel", "tick", "n")), ("event_table", ("event_id", "n_tick")))}
    wires, hit, roi, event = (tables[t] for t in ("wire_table", "hit_table", "roi_table", "event_table"))
    start = np.concatenate([[0], np.cumsum(roi["n"])])
    adc = f["roi_value/adc"][:]
    for id_, n_tick in zip(event["event_id"], event["n_tick"]):
        of_event = (roi["event_id"] == id_).all(axis=1)
        hit_of_event = (hit["event_id"] == id_).all(axis=1)
        for tpc in np.unique(wires["tpc"]):
            for p in range(3):
                here = (wires["tpc"] == tpc) & (wires["plane"] == p)
                channels = np.unique(wires["channel"][here])
                to_channel = np.zeros(wires["wire"][here].max() + 1, np.int64)
                to_channel[wires["wire"][here]] = wires["channel"][here]
                mine = np.flatnonzero(of_event & np.isin(roi["channel"], channels))
                h = hit_of_event & (hit["tpc"] == tpc) & (hit["plane"] == p)
                n = roi["n"][mine]
                at = np.repeat(start[mine] - (np.cumsum(n) - n), n) + np.arange(n.sum())
                yield {"plane": p, "n_channel": len(channels), "n_tick": int(n_tick), "channel": roi["channel"][mine],
                       "first": roi["tick"][mine], "n": n, "adc": adc[at], "wire": hit["wire"][h],
                       "time": hit["time"][h], "on": to_channel[hit["wire"][h]]}


def planes(path):
    with h5py.File(path) as f:
        if "roi_table" in f:
            yield from exchange(f)
        elif "wire_table/adc" in f:
            yield from dense(f)
        else:
            raise SystemExit(f"{path}: neither roi_table nor wire_table/adc; give the exchange layout or OpenSamples")


def samples(plane):
    """A (channel, tick) array of the plane, and the row of each channel in it."""
    channels, row = np.unique(plane["channel"], return_inverse=True)
    full = np.zeros((len(channels) + 1, plane["n_tick"] + 64), np.float32)  # the last row: channels without runs
    n = plane["n"]
    tick = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n) + np.repeat(plane["first"], n)
    full[np.repeat(row, n), np.minimum(tick + 32, full.shape[1] - 1)] = plane["adc"]
    found = np.searchsorted(channels, plane["on"])
    found[(found == len(channels)) | (channels[np.minimum(found, len(channels) - 1)] != plane["on"])] = len(channels)
    return full, found


def of_hits(plane, random):
    """Charge, peak and width of each hit; neighbours and angle of some."""
    full, row = samples(plane)
    near = np.clip(plane["time"].astype(np.int64), 0, plane["n_tick"] - 1)[:, None] + 32 + np.arange(-10, 11)
    around = np.maximum(full[row[:, None], near], 0)
    got = {"charge of a hit (21 ticks)": around.sum(axis=1), "peak of a hit": around.max(axis=1)}
    got["width of a hit (charge / peak, ticks)"] = got["charge of a hit (21 ticks)"] / np.maximum(got["peak of a hit"], 1e-6)
    order = np.argsort(plane["wire"], kind="stable")
    wire, time = plane["wire"][order].astype(np.int64), plane["time"][order]
    neighbours, angles = [], []
    for k in random.choice(len(wire), min(len(wire), SAMPLE), replace=False):
        low, high = np.searchsorted(wire, wire[k] - 24), np.searchsorted(wire, wire[k] + 24)
        w, t = wire[low:high] - wire[k], time[low:high] - time[k]
        neighbours.append(np.count_nonzero(np.abs(t) < 144))
        close = (np.abs(w) <= 12) & (np.abs(t) <= 75)
        if np.count_nonzero(close) >= 5:
            x, y = w[close] * WIRE_CM, t[close] * TICK_CM
            angle = 0.5 * np.arctan2(2 * np.cov(x, y)[0, 1], np.var(x, ddof=1) - np.var(y, ddof=1))
            angles.append(abs(np.degrees(angle)))
    got["hits in a patch"], got["angle to the wires' axis (degrees)"] = np.array(neighbours), np.array(angles)
    return got


def measure(path):
    """(kind of plane, quantity) -> values."""
    random, got = np.random.default_rng(1), {}
    for plane in planes(path):
        values = of_hits(plane, random) if len(plane["wire"]) else {}
        least = 0.2 * np.median(values["peak of a hit"]) if values else 1
        above = np.split(plane["adc"] > least, np.cumsum(plane["n"])[:-1]) if len(plane["n"]) else []
        values["run as stored (ticks)"] = plane["n"]
        values["run above a fifth of the median peak (ticks)"] = np.array([a.sum() for a in above if a.any()])
        values["runs of a channel"] = np.array([len(plane["n"]) / plane["n_channel"]])
        values["hits of a channel"] = np.array([len(plane["wire"]) / plane["n_channel"]])
        values["samples that are not zero (%)"] = np.array(
            [100 * np.count_nonzero(plane["adc"]) / plane["n_channel"] / plane["n_tick"]])
        for name, v in values.items():
            got.setdefault(("collection" if plane["plane"] == 2 else "induction", name), []).append(v)
    return {k: np.concatenate(v).astype(float) for k, v in got.items()}


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    both = [measure(path) for path in sys.argv[1:]]
    for which, path in zip("AB", sys.argv[1:]):
        print(f"{which} {path}")
    for kind in "induction", "collection":
        print(f"\n{kind + ' planes, quantiles (%)':<48}{'n':>8}" + "".join(f"{q:>10}" for q in AT))
        for key in both[0]:
            if key[0] != kind:
                continue
            at = [np.percentile(b[key], AT) if len(b.get(key, [])) else None for b in both]
            for which, b, q in zip("AB", both, at):
                print(f"{key[1] if which == 'A' else '':<46}{which} {len(b.get(key, [])):>8}" +
                      ("" if q is None else "".join(f"{v:>10.4g}" for v in q)))
            if at[0] is not None and at[1] is not None:
                print(f"{'':<46}B/A{'':>7}" + "".join(f"{y / x if x else float('nan'):>10.2f}" for x, y in zip(*at)))


if __name__ == "__main__":
    main()
