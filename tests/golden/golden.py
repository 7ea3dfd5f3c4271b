"""golden.py - compares wiremill's patches and scores with other code's: NumPy's, ONNX Runtime's.

usage: golden.py patches WIREMILL SHARED WORK       stored patches of the golden event, every mode
       golden.py variants WIREMILL SHARED MODEL WORK  patches and scores of the harsher variants
       golden.py few EVENT.h5 OUT.h5 STEP           a file of events with every STEP-th of their hits
       golden.py scores SCORES.h5 GOLDEN.npz LIMIT [STEP]  scores of every hit, or of every STEP-th
       golden.py patchfile NETWORK MODEL.onnx PATCHES.npy  a network of onnx's own and random patches for it
       golden.py dense MODEL.onnx PATCHES.npy SCORES.h5 LIMIT  dense patches against ONNX Runtime
       golden.py same SCORES.h5 SCORES.f4         the same bits, in the order of the file's columns
       golden.py oracle WIREMILL MODEL INPUT.h5 SCORES.h5 SPEC WORK LIMIT  against ONNX Runtime
Prints one line per comparison; exits 1 if one is beyond its limit.
"""
import json
import os
import subprocess
import sys

import h5py
import numpy as np

PATCH_LIMIT = 4e-6
LABELS = ["track", "em", "none", "michel"]
failed = False


def report(what, difference, limit):
    global failed
    bad = not difference <= limit          # NaN is bad
    failed |= bad
    print(f"{'BAD ' if bad else 'good'} {what}: largest difference {difference:.3g}, limit {limit:g}")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")


def cut(wiremill, spec, event, work):
    """Every hit's patch, in input order, by wiremill."""
    out = os.path.join(work, "patches.npy")
    run(wiremill, "cut", "--spec", spec, "--input", event, "--patches", out)
    return np.load(out)


def spec_file(work, name, spec):
    """A specification as YAML; JSON's lists and numbers are YAML too."""
    path = os.path.join(work, name + ".yaml")
    spec = dict(spec)
    if "lifetime" in spec:
        spec["lifetime"] = "exp" if spec["lifetime"] is True else spec["lifetime"] or "none"
    spec["labels"] = LABELS
    with open(path, "w") as f:
        for key, value in spec.items():
            f.write(f"{key}: {json.dumps(value).strip(chr(34))}\n")
    return path


def table(path, name="emtrkmichel"):
    with h5py.File(path) as f:
        return np.stack([f[f"{name}/{label}"][:] for label in LABELS], 1)


def patches(wiremill, shared, work):
    golden = np.load(f"{shared}/data/golden/pdhd_run27409_evt40896_apa1.npz")
    event = f"{shared}/data/protodune-hd/pdhd_run27409_evt40896_apa1.h5"
    base = dict(patch=[48, 48], drift_window=6, adc=[-10, 30], out=[-5, 15],
                amplitude=[0.02, 0.02, 0.02], lifetime="none")
    for view, mode in (("full", "mean"), ("full", "maxpool"), ("full", "maxmean"), ("own", "mean")):
        spec = spec_file(work, f"{view}_{mode}", dict(base, view=view, downscale=mode))
        got = cut(wiremill, spec, event, work)
        for plane in range(3):
            hits = golden[f"hits_plane{plane}"]
            want = golden[f"{view}_{mode}_plane{plane}"]
            report(f"golden patches {view} {mode} plane {plane} ({len(hits)} hits)",
                   np.abs(got[hits] - want).max(), PATCH_LIMIT)


def variants(wiremill, shared, model, work):
    golden = np.load(f"{shared}/data/golden/variants.npz")
    event = f"{shared}/data/golden/variants.h5"
    for name, spec in json.loads(str(golden["specs"])).items():
        path = spec_file(work, name, spec)
        got, hits = cut(wiremill, path, event, work), golden[name + "_hits"]
        report(f"variant patches {name} ({len(hits)} hits)",
               np.abs(got[hits] - golden[name]).max(), PATCH_LIMIT)
        if name + "_scores" in golden:
            out = os.path.join(work, "out-" + name)
            run(wiremill, "run", "--model", model, "--input", event, "--output", out, "--spec", path,
                "--quiet")
            report(f"variant scores {name}",
                   np.abs(table(f"{out}/variants.scores.h5")[hits] - golden[name + "_scores"]).max(), 1e-5)


def few(source, target, step):
    with h5py.File(source) as old, h5py.File(target, "w") as new:
        for name, value in old.attrs.items():
            new.attrs[name] = value
        for name in old:
            if name != "hit_table":
                old.copy(name, new)
        for name, column in old["hit_table"].items():
            new[f"hit_table/{name}"] = column[::step]


def oracle(wiremill, model, event, scores, spec, work, limit):
    import onnxruntime
    x = cut(wiremill, spec, event, work)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    want = np.concatenate([np.concatenate(session.run(None, {name: x[i:i + 256, :, :, None]}), 1)
                           for i in range(0, len(x), 256)])
    got = table(scores)
    assert len(got) == len(want), (got.shape, want.shape)
    print(f"     scores vary: standard deviation {want.std(0).round(4)}")
    report(f"scores of {len(got)} hits against ONNX Runtime", np.abs(got - want).max(), limit)


def patchfile(network, model, npy):
    import onnx
    import onnxruntime
    import shutil
    folder = os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/light")
    shutil.copy(os.path.join(folder, network + ".onnx"), model)
    shape = onnxruntime.InferenceSession(model).get_inputs()[0].shape[1:]
    np.save(npy, np.random.default_rng(1).standard_normal((3, *shape), dtype=np.float32))


def dense(model, npy, scores, limit):
    import onnxruntime
    session, x = onnxruntime.InferenceSession(model), np.load(npy)
    name = session.get_inputs()[0].name
    want = np.concatenate([session.run(None, {name: x[i:i + 1]})[0].reshape(1, -1) for i in range(len(x))])
    with h5py.File(scores) as f:
        t = f["emtrkmichel"]
        got = np.stack([t[f"out_{k}"][:] for k in range(want.shape[1])], 1)
        assert (t["status"][:] == 0).all()
    report(f"{got.shape[1]} outputs of {len(got)} patches", np.abs(got - want).max(), limit)


def main(verb, *a):
    if verb == "patches":
        patches(*a)
    elif verb == "variants":
        variants(*a)
    elif verb == "scores":
        got, want = table(a[0]), np.load(a[1])["scores"][::int(a[3]) if a[3:] else 1]
        report(f"scores of {len(got)} hits of the golden event", np.abs(got - want).max(), float(a[2]))
    elif verb == "same":
        want = table(a[0])
        got = np.fromfile(a[1], "f4").reshape(-1, want.shape[1])
        assert got.shape == want.shape and np.isfinite(want).any(), (got.shape, want.shape)
        report(f"scores of {len(got)} hits, bits that differ", int((got.view("u4") != want.view("u4")).sum()), 0)
    elif verb == "few":
        few(a[0], a[1], int(a[2]))
    elif verb == "patchfile":
        patchfile(*a)
    elif verb == "dense":
        dense(*a[:3], float(a[3]))
    elif verb == "oracle":
        oracle(*a[:6], float(a[6]))
    else:
        sys.exit(__doc__)
    sys.exit(failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
