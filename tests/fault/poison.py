"""poison.py - bad hits among good ones, and whether exactly these are held.

usage: poison.py make EVENTS.h5 OUT.h5 CELLS N_BAD N_KILL HOW...
           N_BAD hits lie outside their plane or at no time; N_KILL others are named in CELLS, as
           "wire column how" lines, the ways of dying one after another
       poison.py check CLEAN.h5 SCORES.h5 N_BAD N_KILL
           SCORES holds what CLEAN holds and N_KILL poisoned hits, all else has the same bits
"""
import shutil
import sys

import h5py
import numpy as np

WINDOW = 6  # ticks a drift bin, protodune-2021
POISON = 4


def make(source, target, cells, n_bad, n_kill, *ways):
    shutil.copy(source, target)
    n_bad, n_kill = int(n_bad), int(n_kill)
    with h5py.File(target, "r+") as f, open(cells, "w") as out:
        hits = f["hit_table"]
        wire, time = hits["wire"][:], hits["time"][:]
        column = (time.astype(np.float32) / np.float32(WINDOW)).astype(np.int64).ravel()
        cell = wire.ravel().astype(np.int64) << 32 | column
        _, first, count = np.unique(cell, return_index=True, return_counts=True)
        alone = np.sort(first[count == 1])  # no other hit of any plane or event has this cell
        chosen = alone[np.linspace(0, len(alone) - 1, n_bad + n_kill).astype(int)]
        kill = np.sort(np.random.default_rng(1).permutation(chosen)[:n_kill])
        for i, row in enumerate(kill):
            out.write(f"{int(wire.ravel()[row])} {column[row]} {ways[i % len(ways)]}\n")
        bad = np.setdiff1d(chosen, kill)
        wire.ravel()[bad[::2]], time.ravel()[bad[1::2]] = 99999, np.inf
        hits["wire"][:], hits["time"][:] = wire, time
    print(f"{len(cell)} hits, {len(bad)} bad, {len(kill)} kill")


def check(clean, given, n_bad, n_kill):
    with h5py.File(clean) as a, h5py.File(given) as b:
        a, b = a["emtrkmichel"], b["emtrkmichel"]
        before, after = a["status"][:].ravel(), b["status"][:].ravel()
        poisoned = after == POISON
        print(f"{len(after)} hits: {np.sum(before != 0)} bad, {np.sum(poisoned)} poisoned")
        assert np.sum(before != 0) == int(n_bad) and np.sum(poisoned) == int(n_kill)
        assert np.array_equal(before[~poisoned], after[~poisoned])
        for name in a:
            x, y = a[name][:], b[name][:]
            if name != "status":
                assert x[~poisoned].tobytes() == y[~poisoned].tobytes(), f"{name}: neighbours differ"
        assert np.all(np.isnan(b["track"][:].ravel()[poisoned])), "a poisoned hit has a score"


{"make": make, "check": check}[sys.argv[1]](*sys.argv[2:])
