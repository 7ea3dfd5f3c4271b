"""plugin.py - rows for plug-ins (tests/e2e/plugin.t), and what their answers must be, computed by NumPy.

    plugin.py make FOLDER                  waveforms.npy, pulses.npy, rows.npy
    plugin.py hits WAVEFORMS SCORES        the rule of ops/lib/examples/engine_hits.c
    plugin.py asked WAVEFORMS HOST:PORT    the same rule, by a gateway
    plugin.py template WAVEFORMS PULSE SCORES   the fit of ops/lib/examples/engine_template.c
    plugin.py network ONNX                 sums the pixels of a patch of planes
    plugin.py same SCORES SCORES           as the first does, in float32
    plugin.py sums ROWS SCORES [HELD...]   sum and largest of tests/lib/engine.c, and which rows are held
"""

import json
import pathlib
import sys
import urllib.request

import h5py
import numpy as np
import onnx

THRESHOLD, HITS = 8, 4
PULSE = np.array ([4, 10, 20, 30, 20, 10, 4], "f4")


def make (folder):
    random = np.random.default_rng (7)
    waves = random.normal (0, 1, (600, 256)).astype ("f4")
    for wave in waves:
        wave += random.integers (0, 900)
        for _ in range (random.integers (0, 7)):
            at = random.integers (3, 252)
            wave[at - 3 : at + 4] += PULSE * np.float32 (random.uniform (0.5, 3))
    np.save (folder / "waveforms.npy", waves)
    pulses = random.normal (0, 0.5, (300, 128)).astype ("f4")
    for wave in pulses:
        at = random.integers (0, 128 - 7)
        wave[at : at + 7] += PULSE * np.float32 (random.uniform (0.5, 3))
    np.save (folder / "pulses.npy", pulses)
    rows = random.normal (0, 1, (400, 8)).astype ("f4")
    rows[[77, 300], 0] = 666
    np.save (folder / "rows.npy", rows)
    np.save (folder / "few.npy", rows[74:78])


def columns (path):
    with h5py.File (path) as file:
        table = next (group for name, group in file.items () if "status" in group and name != "held")
        labels = [s for s in file.attrs["specification"].decode ().splitlines () if s.startswith ("labels: ")]
        names = labels[0][len ("labels: [") : -1].split (", ")
        order = np.argsort (table["hit_id"][:])
        scores = np.stack ([table[name][:][order] for name in names], 1)
        return scores, table["status"][:][order]


def hits_of (wave):
    high = wave - np.float32 (np.median (wave))
    above = np.concatenate (([False], high > THRESHOLD, [False])).astype (int)
    begins, ends = np.flatnonzero (np.diff (above) == 1), np.flatnonzero (np.diff (above) == -1)
    found = [(b + np.argmax (high[b:e]), high[b:e].max (), high[b:e].sum ()) for b, e in zip (begins, ends)]
    answer = np.zeros (1 + 3 * HITS)
    answer[0] = len (found)
    answer[1 : 1 + 3 * min (HITS, len (found))] = np.ravel (found[:HITS])
    return answer


def hits (waves, scores):
    wanted = np.stack ([hits_of (wave) for wave in np.load (waves)])
    given, status = columns (scores)
    assert not status.any () and given.shape == wanted.shape, given.shape
    assert wanted[:, 0].sum () > 500 and wanted[:, 0].max () > HITS
    np.testing.assert_array_equal (given[:, 0], wanted[:, 0])
    np.testing.assert_allclose (given, wanted, rtol=1e-5)


def asked (waves, address):
    """Asks a gateway at HOST:PORT for the first waveforms."""
    waves = np.load (waves)[:20]
    data = {"name": "waveform", "shape": list (waves.shape), "datatype": "FP32", "data": waves.ravel ().tolist ()}
    with urllib.request.urlopen (f"http://{address}/v2/models/m/infer", json.dumps ({"inputs": [data]}).encode (), timeout=60) as answer:
        outputs = json.load (answer)["outputs"]
    given = np.concatenate ([np.reshape (one["data"], (len (waves), -1)) for one in outputs], axis=1)
    np.testing.assert_allclose (given, np.stack ([hits_of (wave) for wave in waves]), rtol=1e-5)


def template (waves, pulse, scores):
    waves, pulse = np.load (waves).astype ("f8"), np.loadtxt (pulse)
    given, status = columns (scores)
    assert not status.any () and given.shape == (len (waves), 4)
    n, ticks = len (pulse), waves.shape[1]
    residuals, fits = [], []
    for first in range (ticks - n + 1):
        basis = np.zeros ((ticks, 2))
        basis[:, 0], basis[first : first + n, 1] = 1, pulse
        fit = np.linalg.lstsq (basis, waves.T, rcond=None)
        fits.append (fit[0])
        residuals.append (fit[1])
    best = np.argmin (residuals, 0)
    np.testing.assert_array_equal (given[:, 2], best)
    at = np.arange (len (waves))
    np.testing.assert_allclose (given[:, 3], np.array (residuals)[best, at], rtol=1e-4)
    np.testing.assert_allclose (given[:, :2], np.array (fits)[best, :, at], rtol=1e-4, atol=1e-5)


def network (path):
    patch = onnx.helper.make_tensor_value_info ("patch", onnx.TensorProto.FLOAT, ["n", 48, 48, 1])
    total = onnx.helper.make_tensor_value_info ("total", onnx.TensorProto.FLOAT, ["n", 1])
    axes = onnx.numpy_helper.from_array (np.array ([1, 2], "i8"), "axes")
    node = onnx.helper.make_node ("ReduceSum", ["patch", "axes"], ["total"], keepdims=0)
    graph = onnx.helper.make_graph ([node], "sum", [patch], [total], [axes])
    model = onnx.helper.make_model (graph, opset_imports=[onnx.helper.make_opsetid ("", 13)], ir_version=8)
    onnx.save (model, path)


def same (wanted, given):
    (wanted, status), (given, other) = columns (wanted), columns (given)
    np.testing.assert_array_equal (status, other)
    good = status == 0
    assert good.sum () > 100 and np.ptp (wanted[good]) > 10
    np.testing.assert_allclose (given[good, :1], wanted[good], rtol=1e-4, atol=1e-2)


def sums (rows, scores, *held):
    rows = np.load (rows)
    given, status = columns (scores)
    good = np.ones (len (rows), bool)
    good[[int (i) for i in held]] = False
    np.testing.assert_array_equal (status == 0, good)
    wanted = np.stack ([rows.astype ("f8").sum (1), rows.max (1)], 1).astype ("f4")
    np.testing.assert_allclose (given[good], wanted[good], rtol=1e-6, atol=1e-6)


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "make":
        make (pathlib.Path (rest[0]))
    else:
        {"hits": hits, "asked": asked, "template": template, "network": network, "same": same, "sums": sums}[what] (*rest)
