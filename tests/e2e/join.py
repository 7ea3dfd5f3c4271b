"""join.py - hits and planes in files of their own, as their makers write them, for join.t.

usage: join.py make EXCHANGE.h5 FOLDER   numl.h5, chargehits.h5, frames.h5, tags.h5, raw.h5, channels.csv of these events
       join.py texts EXCHANGE.h5 FOLDER  hits.csv, channels.csv and frames.h5 alone
       join.py hostile FOLDER/KIND.tar...   archives that are refused
       join.py same PATCHES.npy OTHER.npy [ORDER.npy]   the same bits; row i of OTHER is row ORDER[i] of PATCHES
       join.py status SCORES.h5 STATUS N   N hits have this status, and NaN for scores
       join.py text SCORES.h5 NAME         prints an attribute
"""
import io
import sys
import tarfile

import numpy as np

SUFFIX = {"i": np.int32, "u": np.uint32, "f": np.float32}


def column(f, name, values, kind, width=1):
    """A column of hep_hpc's Ntuple: rows without a limit, in chunks, of `width` values."""
    values = np.asarray(values).astype(SUFFIX[kind]).reshape(-1, width)
    f.create_dataset(name, data=values, maxshape=(None, width), chunks=(512, width), compression="gzip")


def read(path):
    with h5py.File(path) as f:
        return {f"{g}/{c}": f[g][c][:] for g in f for c in f[g]}


def numl(path, d, order):
    """numl's HDF5Maker: one event_id of three integers a row."""
    event = d["hit_table/event_id"][order]
    with h5py.File(path, "w") as f:
        column(f, "event_table/event_id", d["event_table/event_id"], "i", 3)
        column(f, "event_table/is_cc", np.ones(len(d["event_table/n_tick"])), "i")
        n = len(order)
        column(f, "hit_table/event_id", event, "i", 3)
        column(f, "hit_table/hit_id", d["hit_table/key"][order], "i")
        for name in ("integral", "rms", "proj", "drift"):
            column(f, "hit_table/" + name, np.arange(n), "f")
        column(f, "hit_table/view", np.zeros(n), "i")
        column(f, "hit_table/tpc", d["hit_table/tpc"][order], "i")
        column(f, "hit_table/plane", d["hit_table/plane"][order], "i")
        column(f, "hit_table/wire", d["hit_table/wire"][order], "f")
        column(f, "hit_table/time", d["hit_table/time"][order], "f")
        column(f, "spacepoint_table/event_id", event[:1], "i", 3)
        column(f, "spacepoint_table/spacepoint_id", [0], "i")
        column(f, "spacepoint_table/position", [[1, 2, 3]], "f", 3)
        column(f, "spacepoint_table/hit_id", [[0, -1, -1]], "i", 3)


def larrecodnn(path, d, order, tick_us=0.5):
    """larrecodnn's HDF5Maker: run, subrun and event in columns of their own, times in microseconds."""
    n = len(order)
    with h5py.File(path, "w") as f:
        for i, name in enumerate(("run", "subrun", "event")):
            column(f, "chargehits/" + name, d["hit_table/event_id"][order, i], "u")
            column(f, "evtids/" + name, d["event_table/event_id"][:, i], "u")
        column(f, "chargehits/ch_id", d["hit_table/key"][order], "u")
        for name in ("integral", "rms", "proj", "drift"):
            column(f, "chargehits/" + name, np.arange(n), "f")
        column(f, "chargehits/view", np.zeros(n), "u")
        column(f, "chargehits/tpc_id", d["hit_table/tpc"][order], "u")
        column(f, "chargehits/plane", d["hit_table/plane"][order], "u")
        column(f, "chargehits/wire", d["hit_table/wire"][order], "f")
        column(f, "chargehits/time", d["hit_table/time"][order].astype(np.float64) * tick_us, "f")


def images(d):
    """(event number, channels, (channels, ticks)) of each event: all channels that have signal."""
    roi = {c: d["roi_table/" + c] for c in ("event_id", "channel", "tick", "n")}
    first = np.concatenate(([0], np.cumsum(roi["n"])))
    for event, n_tick in zip(d["event_table/event_id"], d["event_table/n_tick"]):
        mine = np.flatnonzero(np.all(roi["event_id"] == event, axis=1))
        channels = np.unique(d["wire_table/channel"])
        place = {c: i for i, c in enumerate(channels)}
        image = np.zeros((len(channels), n_tick), np.float32)
        for r in mine:
            t = roi["tick"][r]
            image[place[roi["channel"][r]], t:t + roi["n"][r]] += d["roi_value/adc"][first[r]:first[r + 1]]
        yield int(event[2]), channels.astype(np.int32), image


def frame(f, number, tag, channels, image, tick=0, compression="gzip"):
    """Wire-Cell's HDF5FrameTap."""
    chunk = {} if compression is None else {"chunks": (min(256, len(image)), 1024), "compression": compression, "compression_opts": 1}
    f.create_dataset(f"{number}/frame_{tag}", data=image, **chunk)
    f.create_dataset(f"{number}/channels_{tag}", data=channels.astype(np.int32))
    f.create_dataset(f"{number}/tickinfo_{tag}", data=np.array([0, 500, tick], np.float64))


def lively(channels, image):
    """The channels that have signal, and every 50th."""
    rows = np.any(image != 0, axis=1)
    rows[::50] = True
    return channels[rows], image[rows]


def member(tar, name, array, order="C"):
    """One array of FrameFileSink; its own are in Fortran order."""
    data = io.BytesIO()
    np.save(data, np.asarray(array, order=order))
    info = tarfile.TarInfo(name + ".npy")
    info.size = len(data.getvalue())
    info.mtime = 0.5  # a pax record
    tar.addfile(info, io.BytesIO(data.getvalue()))


def archives(whole, folder):
    """Wire-Cell's FrameFileSink: members in other orders, types and tars than one program would write."""
    with tarfile.open(folder + "/sink.tar.bz2", "w:bz2", compresslevel=1) as sink, tarfile.open(folder + "/sink.tar.gz", "w:gz", compresslevel=1) as other, \
            tarfile.open(folder + "/sink.tar", "w", format=tarfile.GNU_FORMAT) as plain:
        folder_of = "a-folder-with-a-long-name/" * 8
        for tar in (other, plain):
            info = tarfile.TarInfo(folder_of)
            info.type = tarfile.DIRTYPE
            tar.addfile(info)
        for number, channels, image in whole:
            channels, image = lively(channels, image)
            cut = np.flatnonzero(np.any(image != 0, axis=0))[0] // 2
            member(sink, f"frame_gauss1_{number}", image, "F")
            member(sink, f"channels_gauss1_{number}", channels)
            member(sink, f"tickinfo_gauss1_{number}", np.array([0, 500, 0.]))
            for part, rows in (("wiener_b", image[:9] * 2), ("a", image[:1])):
                member(sink, f"frame_{part}_{number}", rows, "F")
                member(sink, f"channels_{part}_{number}", channels[:len(rows)])
                member(sink, f"tickinfo_{part}_{number}", np.array([0, 500, 0.]))
            member(sink, f"summary_wiener_{number}", np.zeros(3))
            member(sink, f"chanmask_bad_{number}", np.array([[1, 2, 3]], np.int32), "F")
            member(other, f"{folder_of}tickinfo__{number}", np.array([0, 500, cut], np.float32))
            member(other, f"{folder_of}channels__{number}", channels.astype(np.int64))
            member(other, f"{folder_of}frame__{number}", image[:, cut:].astype(np.float64))
            member(plain, f"{folder_of}frame_raw_{number}", image.astype(np.int16), "F")
            member(plain, f"{folder_of}channels_raw_{number}", channels)
            member(plain, f"{folder_of}tickinfo_raw_{number}", np.array([0, 500, 0.]))


def hostile(*files):
    """Archives that are refused: FOLDER/KIND.tar..."""
    for path in files:
        one_hostile(path.split("/")[-1].split(".")[0], path)


def one_hostile(kind, path):
    mode = "w:gz" if path.endswith("gz") else "w:bz2" if path.endswith("bz2") else "w"
    with tarfile.open(path, mode) as tar:
        image, name = np.ones((4, 9), np.float32), "frame_x_1"
        if kind == "above":
            name = "../../frame_x_1"
        elif kind == "big":
            image = image.astype(">f4")
        elif kind == "object":
            image = np.array([[{}, None]], object)
        elif kind == "text":
            image = np.array([["a", "b"]])
        elif kind == "flat":
            image = image[0]
        elif kind == "link":
            info = tarfile.TarInfo("frame_x_1.npy")
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(info)
            return
        elif kind in ("huge", "bomb"):
            shape = (2560, 200000) if kind == "huge" else (2, 3)
            head = io.BytesIO()
            np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": True, "shape": shape})
            info = tarfile.TarInfo("frame_x_1.npy")
            info.size = len(head.getvalue()) + (4 * 2560 * 200000 if kind == "huge" else 1 << 45)
            tar.fileobj.write(info.tobuf(tarfile.GNU_FORMAT) + head.getvalue())
            tar.offset = 0
            return
        member(tar, name, image)
        if kind == "twice":
            member(tar, name, image)
        if kind == "mask":
            member(tar, "chanmask_bad_1", np.ones((4, 2), int))
        member(tar, "channels_x_1", np.arange(4) * (1e3 if kind == "real" else 1 << 40 if kind == "wide" else 1))
        if kind != "part":
            member(tar, "tickinfo_x_1", np.array([0, 500, 0.]))
    data = open(path, "rb").read()
    if kind == "flip":
        open(path, "wb").write(data[:100] + b"1" + data[101:])
    elif kind == "zip":
        open(path, "wb").write(b"PK\3\4" + data)


def masked(d, events, folder):
    """An archive with masks of bad channels, and the frames that it means; prints how many hits are on them."""
    wires = {tuple(w[1:]): w[0] for w in np.stack([d["wire_table/" + c] for c in ("channel", "tpc", "plane", "wire")], 1).tolist()}
    channel = np.array([wires[tuple(w)] for w in np.stack([d["hit_table/" + c] for c in ("tpc", "plane", "wire")], 1).tolist()])
    time, number = d["hit_table/time"], d["hit_table/event_id"][:, 2]
    n_bad = 0
    with h5py.File(folder + "/masked.h5", "w") as plain, tarfile.open(folder + "/masked.tar", "w") as tar:
        for event, channels, image in events:
            mine = np.flatnonzero(number == event)
            middle = int(np.median(time[mine]))
            names = np.unique(channel[mine])
            masks = [[c, 0, 1 << 20] for c in names[::7]] + [[c, middle, 1 << 20] for c in names[1::7]]
            masks += [[c, a, b] for c in names[2::7] for a, b in ((-5, 9), (7, middle), (middle, middle))]
            if event == 3:
                masks = []
            copy = image.copy()
            for c, first, end in masks:
                copy[np.searchsorted(channels, c), max(first, 0):end] = 0
                n_bad += np.sum((channel[mine] == c) & (time[mine] >= first) & (time[mine] < end))
            assert event == 3 or np.any(copy != image)
            frame(plain, event, "gauss", channels, copy)
            member(tar, f"chanmask_bad_{event}", np.array(masks[::-1], np.int64).reshape(-1, 3), "F" if event == 1 else "C")
            member(tar, f"chanmask_noisy_{event}", np.array([[c, 0, 1 << 20] for c in channels]))
            member(tar, f"frame_gauss_{event}", image)
            member(tar, f"channels_gauss_{event}", channels)
            member(tar, f"tickinfo_gauss_{event}", np.array([0, 500, 0.]))
    return n_bad


def tables(d, folder, order):
    """hits.csv, channels.csv, and fewer.csv, a map that lacks the wire of the first hit."""
    with open(folder + "/hits.csv", "w") as f:
        f.write("# hits\n hit_id, time,wire,plane,tpc,cryostat,event,subrun,run,amplitude\n")
        for i in order:
            h = {c: d["hit_table/" + c][i] for c in ("event_id", "key", "tpc", "plane", "wire", "time")}
            r, s, e = h["event_id"]
            f.write(f"{h['key']}, {h['time']},{h['wire']}.0,{h['plane']},{h['tpc']},0,{e},{s},{r},x\r\n")
    wires = np.stack([d["wire_table/" + c] for c in ("channel", "cryostat", "tpc", "plane", "wire")], 1)
    with open(folder + "/channels.csv", "w") as f, open(folder + "/fewer.csv", "w") as fewer:
        f.write("# what a geometry dump writes\nchannel,cryostat,tpc,plane,wire\n")
        fewer.write("wire, plane, tpc, cryostat, name, channel\n")
        hit = [d["hit_table/" + c][0] for c in ("tpc", "plane", "wire")]
        for row in wires:
            f.write(",".join(map(str, row)) + "\n")
            if list(row[2:]) != hit:
                fewer.write(f"{row[4]}, {row[3]}, {row[2]}, {row[1]}, x, {row[0]}\n")


def texts(source, folder):
    d = read(source)
    tables(d, folder, np.arange(len(d["hit_table/wire"])))
    with h5py.File(folder + "/frames.h5", "w") as f:
        for number, channels, image in images(d):
            frame(f, number, "gauss", channels, image)


def make(source, folder):
    d = read(source)
    n = len(d["hit_table/wire"])
    order = np.random.default_rng(1).permutation(n)
    np.save(folder + "/order.npy", order)
    numl(folder + "/numl.h5", d, np.arange(n))
    numl(folder + "/shuffled.h5", d, order)
    larrecodnn(folder + "/chargehits.h5", d, order)
    ticks = dict(d)
    ticks["hit_table/time"] = d["hit_table/time"] * 2  # what is written as us are ticks
    larrecodnn(folder + "/mistaken.h5", ticks, np.arange(n))
    events = list(images(d))
    archives(events, folder)
    tables(d, folder, order)
    late = dict(d)
    late["hit_table/time"] = d["hit_table/time"] - np.float32(25.5)
    numl(folder + "/late.h5", late, np.arange(n))
    twice = dict(d)
    twice["hit_table/event_id"] = d["hit_table/event_id"].copy()
    twice["hit_table/event_id"][0] = [1, 2, 1]  # event 1 of another subrun
    numl(folder + "/twice.h5", twice, np.arange(n))
    with h5py.File(folder + "/frames.h5", "w") as whole, h5py.File(folder + "/tags.h5", "w") as tags, \
            h5py.File(folder + "/part.h5", "w") as part, h5py.File(folder + "/both.h5", "w") as both, \
            h5py.File(folder + "/units.h5", "w") as units:
        for number, channels, image in events:
            frame(whole, number, "gauss", channels, image)
            half = len(channels) // 2
            used = np.flatnonzero(np.any(image != 0, axis=0))
            cut = used[0] // 2
            turned = np.random.default_rng(number).permutation(half)
            frame(tags, number, "gauss0", channels[:half][turned], image[:half][turned])
            frame(tags, number, "gauss1", channels[half:], image[half:, cut:], cut, None)
            frame(tags, number, "raw", channels[::-1], image[::-1].astype(np.int16))
            few, image = lively(channels, image)
            pedestal = 500 + np.arange(len(few))[:, None] % 700
            frame(tags, number, "adc", few, (image.astype(np.int16) + pedestal).astype(np.int16))
            frame(tags, number, "flat", few, image.astype(np.int16) + np.int16(900))
            for other in (part, both, units) if number != 2 else (both, units):
                whole.copy(str(number), other)
            whole.copy(f"{number}/frame_gauss", both[str(number)], "frame_wiener")
            for name in ("channels", "tickinfo"):
                both[f"{number}/{name}_wiener"] = both[f"{number}/{name}_gauss"]
            units[f"{number}/tickinfo_gauss"][1] = 0.5
        whole.copy(str(number), part, "77")
    whole = (d["roi_value/adc"]).astype(np.int16)
    with h5py.File(source) as old, h5py.File(folder + "/whole.h5", "w") as new:
        for key, value in old.attrs.items():
            new.attrs[key] = value
        for name in old:
            old.copy(name, new)
        new["roi_value/adc"][:] = whole
    same = np.all([d["hit_table/" + c] == d["hit_table/" + c][0] for c in ("tpc", "plane", "wire")], axis=0)
    lost = d["hit_table/event_id"][:, 2] == 2
    print(np.sum(same), np.sum(lost), np.sum(same) + np.sum(same | lost), n, masked(d, events, folder))


def same(a, b, order=None):
    a, b = np.load(a), np.load(b)
    if order:
        a = a[np.load(order)]
    assert a.shape == b.shape and len(a) > 100 and np.any(a != a[0]), (a.shape, b.shape)
    assert a.tobytes() == b.tobytes(), f"{np.sum(np.any(a != b, axis=(1, 2)))} patches differ"


def status(scores, wanted, count):
    with h5py.File(scores) as f:
        t = f["emtrkmichel"]
        found = t["status"][:] == int(wanted)
        assert found.sum() == int(count), (found.sum(), count)
        assert np.array_equal(t["status"][:] != 0, np.isnan(t["em"][:]))


def text(scores, name):
    with h5py.File(scores) as f:
        print(f.attrs[name].decode().rstrip("\0"))


if __name__ == "__main__":
    if sys.argv[1] not in ("same", "hostile"):
        import h5py  # takes a third of a second
    globals()[sys.argv[1]](*sys.argv[2:])
