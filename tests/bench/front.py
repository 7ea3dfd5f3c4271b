"""front.py - what people do today, in one process: h5py, patches cut by NumPy, ONNX Runtime, scores into HDF5.

usage: front.py opensamples EVENTS.h5 TARGET.h5            synthetic events as OpenSamples: dense waveforms, gzip
       front.py score MODEL.onnx EVENTS.h5 SCORES.h5 SETTING  prints "HITS SECONDS": from opening the events to
                                                           closing the scores, with imports and sessions made before

It stands for a client with its server, without the network between them, whose time comes on top. The patches are
those of the preset protodune-2021 without lifetime correction. SETTING as of peers.py.
"""
import sys
import time

import h5py
import numpy as np

AMPLITUDE = (1.3285, 1.1665, 1.3636)
WINDOW, PATCH = 6, 48
NAMES = ("track", "em", "none", "michel")
PACKED = dict(compression="gzip", compression_opts=4, shuffle=True)


def opensamples(source, target):
    """Every wire of every event gets a row, as such files have."""
    with h5py.File(source) as old, h5py.File(target, "w") as new:
        rows = {name: {k: v[:] for k, v in old[name].items()} for name in ("event_table", "plane_table", "wire_table",
                                                                           "roi_table", "hit_table")}
        adc, value = old["roi_value/adc"][:], 0
        ids, n_tick = rows["event_table"]["event_id"], int(rows["event_table"]["n_tick"][0])
        place = {c: (p, w) for c, p, w in zip(*(rows["wire_table"][k] for k in ("channel", "plane", "wire")))}
        width = rows["plane_table"]["n_wire"][:3]
        first = np.concatenate([[0], np.cumsum(width)])
        n = int(first[-1])
        wire = dict(event_id=np.repeat(ids, n, 0), local_plane=np.tile(np.repeat(np.arange(3), width), len(ids)),
                    local_wire=np.tile(np.concatenate([np.arange(w) for w in width]), len(ids)))
        for k, v in wire.items():
            new[f"wire_table/{k}"] = v.astype("i4").reshape(len(v), -1)
        new["wire_table/tpc"] = np.zeros((n * len(ids), 1), "i4")
        new["event_table/event_id"] = ids
        waves = new.create_dataset("wire_table/adc", (n * len(ids), n_tick), "f4", chunks=(64, n_tick), **PACKED)
        for e, event in enumerate(ids):
            dense = np.zeros((n, n_tick), "f4")
            for r in np.flatnonzero((rows["roi_table"]["event_id"] == event).all(1)):
                channel, tick, count = (int(rows["roi_table"][k][r]) for k in ("channel", "tick", "n"))
                plane, w = place[channel]
                dense[first[plane] + w, tick:tick + count] = adc[value:value + count]
                value += count
            waves[e * n:(e + 1) * n] = dense
        hit = rows["hit_table"]
        for k, v in dict(event_id=hit["event_id"], local_plane=hit["plane"], local_wire=hit["wire"], tpc=0 * hit["tpc"],
                         hit_id=hit["key"].astype("i4"), local_time=hit["time"]).items():
            new.create_dataset(f"hit_table/{k}", data=v.reshape(len(v), -1), chunks=(min(2048, len(v)), 1), **PACKED)


def images(table, rows, planes):
    """The planes' images, with a border of half a patch."""
    adc = table["adc"][rows]
    bins = adc[:, :adc.shape[1] // WINDOW * WINDOW].reshape(len(adc), -1, WINDOW).mean(2, dtype="f8")
    wire = table["local_wire"][rows, 0]
    for plane in range(3):
        mine = planes == plane
        image = np.zeros((wire[mine].max(initial=-1) + 1, bins.shape[1]), "f4")
        image[wire[mine]] = -5 + 0.5 * (np.clip(bins[mine] * AMPLITUDE[plane], -10, 30) + 10)
        yield np.pad(image, PATCH // 2)


def score(model, source, target, setting):
    import onnxruntime as ort
    batch, sessions, threads = map(int, setting.split(","))
    options = ort.SessionOptions()
    options.intra_op_num_threads = sessions * threads
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    start = time.monotonic()
    with h5py.File(source) as f:
        hits, table = {k: v[:] for k, v in f["hit_table"].items()}, f["wire_table"]
        wires, planes = table["event_id"][:], table["local_plane"][:, 0]
        scores = np.empty((len(hits["event_id"]), len(NAMES)), "f4")
        for event in f["event_table/event_id"][:]:
            rows = np.flatnonzero((wires == event).all(1))
            rows = slice(rows[0], rows[-1] + 1)
            of_event = (hits["event_id"] == event).all(1)
            for plane, image in enumerate(images(table, rows, planes[rows])):
                mine = np.flatnonzero(of_event & (hits["local_plane"][:, 0] == plane))
                window = np.lib.stride_tricks.sliding_window_view(image, (PATCH, PATCH))
                bins = (hits["local_time"][mine, 0] / np.float32(WINDOW)).astype(int)
                for i in range(0, len(mine), batch):
                    some = mine[i:i + batch]
                    x = window[hits["local_wire"][some, 0], bins[i:i + batch], :, :, None]
                    scores[some] = np.concatenate(session.run(None, {name: x}), 1)
    with h5py.File(target, "w") as f:
        for k, label in enumerate(NAMES):
            f.create_dataset(f"emtrkmichel/{label}", data=scores[:, k], **PACKED)
    print(len(scores), time.monotonic() - start)


if __name__ == "__main__":
    if sys.argv[1:2] == ["opensamples"] and len(sys.argv) == 4:
        opensamples(*sys.argv[2:])
    elif sys.argv[1:2] == ["score"] and len(sys.argv) == 6:
        score(*sys.argv[2:])
    else:
        sys.exit(__doc__)
