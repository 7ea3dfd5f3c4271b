"""models.py - what the models of others must answer, by their stored pairs or by their definition.

usage: models.py pairs FOLDER PATCHES.npy WANT.npy   the stored pairs of an ONNX test folder
       models.py keras FOLDER PATCHES.npy WANT.npy   the sample of the Keras network, computed in NumPy
       models.py scores SCORES.h5 WANT.npy LIMIT     compares, relative to the largest score
"""
import glob
import re
import sys

import h5py
import numpy as np


def pairs(folder, patches, want):
    import onnx
    from onnx import numpy_helper

    def read(kind):
        return np.concatenate([numpy_helper.to_array(onnx.load_tensor(p))
                               for p in sorted(glob.glob(f"{folder}/test_data_set_*/{kind}_0.pb"))])
    np.save(patches, read("input"))
    np.save(want, read("output").reshape(-1, 10))


def keras(folder, patches, want):
    """Convolutions as Theano's (kernel turned around), in double."""
    with open(f"{folder}/sample_mnist.dat") as f:
        x = np.array([float(v) for v in re.findall(r"[-\d.e+]+", f.read())])[3:].reshape(1, 28, 28)
    np.save(patches, x[None].astype(np.float32))
    with h5py.File(f"{folder}/my_nn_weights.h5") as f:
        def get(name, part):
            return f[f"{name}/{name}_{part}"][:].astype(float)
        for name in ("convolution2d_1", "convolution2d_2"):
            w, padded = get(name, "W")[:, :, ::-1, ::-1], np.pad(x, ((0, 0), (1, 1), (1, 1)))
            x = sum(np.einsum("oc,chw->ohw", w[:, :, i, j], padded[:, i:i + 28, j:j + 28])
                    for i in range(3) for j in range(3)) + get(name, "b")[:, None, None]
            x = np.maximum(x, 0)
        x = x.reshape(4, 14, 2, 14, 2).max((2, 4)).ravel()
        x = np.maximum(x @ get("dense_1", "W") + get("dense_1", "b"), 0) @ get("dense_2", "W") + get("dense_2", "b")
    x = np.exp(x - x.max()) / np.exp(x - x.max()).sum()
    assert x.argmax() == 5                  # what the sample shows
    np.save(want, x[None])


def scores(path, want, limit):
    want = np.load(want)
    with h5py.File(path) as f:
        table = f["emtrkmichel"]
        labels = sorted(k for k in table if re.search(r"_\d+$", k) and table[k].dtype == np.float32)
        got = np.stack([table[k][:] for k in labels], 1)
        assert (table["status"][:] == 0).all()
    assert got.shape == want.shape, (got.shape, want.shape, labels)
    difference = np.abs(got - want).max() / np.abs(want).max()
    print(f"{labels[0]} ...: largest difference {difference:.2g} of the largest score, limit {limit}")
    sys.exit(not difference <= float(limit))


if __name__ == "__main__":
    {"pairs": pairs, "keras": keras, "scores": scores}[sys.argv[1]](*sys.argv[2:])
