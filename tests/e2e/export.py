"""export.py - what `wiremill export` writes, against the outputs themselves, for export.t and python.t.

usage: export.py make SCORES.h5 BIG.h5      an output of 40,001 rows of any numbers, some not finite
       export.py csv SCORES.h5 FILE.csv     the same numbers, to the last digit
       export.py npy SCORES.h5 FILE.npy     the same bits
       export.py scores SCORES.h5 FILE.npy  the scores alone
       export.py parquet SCORES.h5 FILE.parquet   the same bits, and names of statuses and engines; needs pyarrow
"""
import csv
import sys

import h5py
import numpy as np

LABELS = ["track", "em", "none", "michel"]


def make(source, big):
    rng = np.random.default_rng(3)
    with h5py.File(source) as old, h5py.File(big, "w") as new:
        for key, value in old.attrs.items():
            new.attrs[key] = value
        for name, data in old["emtrkmichel"].items():
            values = rng.integers(0, 256, 40001 * data.dtype.itemsize, np.uint8).view(data.dtype)
            new[f"emtrkmichel/{name}"] = values
        new["emtrkmichel/em"][:3] = [np.nan, np.inf, -0.0]
        new["emtrkmichel/time"] = rng.random(40001) * 2e8  # float64
        new["emtrkmichel/odd name"] = np.zeros(40001)


def columns(f):
    """Columns by name, in no order."""
    table = f["emtrkmichel"] if "emtrkmichel" in f else f["emtrkmichel_table"]
    found = {}
    for name, data in table.items():
        if name == "event_id":
            for k, part in enumerate(("run", "subrun", "event")):
                found[part] = data[:, k]
        elif "." not in name and " " not in name:
            found[name] = data[:].reshape(-1)
    return found


def check(names, wanted):
    ids = ["run", "subrun", "event", "hit_id", "cryostat", "tpc", "plane", "wire", "time"]
    assert sorted(names) == sorted(wanted), (names, sorted(wanted))
    first = [n for n in ids if n in wanted] + LABELS
    assert list(names[:len(first)]) == first, names


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape and np.array_equal(np.isnan(a.astype(float)), np.isnan(b.astype(float)))
    there = ~np.isnan(a.astype(float))
    assert np.array_equal(a[there], b[there]) and np.array_equal(np.signbit(a[there].astype(float)), np.signbit(b[there].astype(float)))


def csv_(scores, path):
    with h5py.File(scores) as f, open(path, newline="") as text:
        wanted, rows = columns(f), csv.reader(text)
        names = next(rows)
        check(names, wanted)
        for name, cells in zip(names, zip(*rows)):
            kind = wanted[name].dtype
            same(np.array([int(c) for c in cells] if kind.kind in "iu" else [float(c) for c in cells]).astype(kind), wanted[name])
            assert "-nan" not in cells


def npy(scores, path):
    array = np.load(path, allow_pickle=False)
    with h5py.File(scores) as f:
        wanted = columns(f)
        check(array.dtype.names, wanted)
        for name in wanted:
            same(array[name], wanted[name])
            assert array.dtype[name].kind == ("f" if wanted[name].dtype.kind == "f" else "i")


def scores(path, file):
    array = np.load(file, allow_pickle=False)
    with h5py.File(path) as f:
        wanted = np.stack([columns(f)[label] for label in LABELS], axis=1)
    assert array.dtype == np.float32 and array.tobytes() == wanted.tobytes()


def parquet(path, file):
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(file)
    with h5py.File(path) as f:
        wanted, engines = columns(f), [e.decode() for e in f["engine/signature"][:]] if "engine/signature" in f else []
        check(table.column_names, wanted)
        for name in set(wanted) - {"status", "engine"}:
            same(table[name].to_numpy(), wanted[name])
        status = table["status"].to_pylist()
        assert [s == "scored" for s in status] == (wanted["status"] == 0).tolist() and len(set(status)) > 1
        if "engine" in wanted:
            assert table["engine"].to_pylist() == [engines[e] if e < len(engines) else None for e in wanted["engine"]]


if __name__ == "__main__":
    {"csv": csv_}.get(sys.argv[1], globals()[sys.argv[1]])(*sys.argv[2:])
