"""pluginpython.py - engines in Python, rows, and TorchScript files, for pluginpython.t.

usage: pluginpython.py rows DIR                   waveforms.npy; bad.npy with rows that crash, raise and give NaN
       pluginpython.py check SCORES.h5 ROWS.npy   peak and sum of each row; the bad rows are held
       pluginpython.py torch DIR                  net.pt and pair.pt, planes.npy, and what torch computes of it
       pluginpython.py same SCORES.h5 WANTED.npy  whether the scores are these bits
"""
import sys

import numpy as np

CRASHES, RAISES, NONE = 1111, 2222, 3333     # the first value of a row


def rows(to):
    waveforms = np.random.default_rng(5).normal(size=(600, 64)).astype(np.float32)
    np.save(f"{to}/waveforms.npy", waveforms)
    waveforms[77, 0], waveforms[300, 0], waveforms[411, 0] = CRASHES, RAISES, NONE
    np.save(f"{to}/bad.npy", waveforms)


def check(scores, source):
    import h5py
    waveforms = np.load(source)
    bad = np.isin(waveforms[:, 0], (CRASHES, RAISES, NONE))
    with h5py.File(scores) as file:
        table = next(group for name, group in file.items() if "status" in group and "peak" in group)
        peak, total, status = (table[name][:].ravel() for name in ("peak", "sum", "status"))
    assert ((status != 0) == bad).all(), np.flatnonzero((status != 0) != bad)
    assert (peak[~bad] == waveforms.max(axis=1)[~bad]).all()
    assert (total[~bad] == np.array([row.sum() for row in waveforms])[~bad]).all()


def torch(to):
    import torch
    from torch import nn
    torch.manual_seed(3)
    torch.set_num_threads(1)

    class Net(nn.Module):
        def __init__(self, pair):
            super().__init__()
            self.down, self.deep, self.up = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1), nn.ConvTranspose2d(8, 4, 2, stride=2)
            self.last, self.pair = nn.Conv2d(8, 1, 3, padding=1), pair

        def forward(self, x):
            kept = torch.relu(self.down(x))
            up = self.up(torch.relu(self.deep(torch.max_pool2d(kept, 2))))
            plane = torch.sigmoid(self.last(torch.cat([kept, up], 1)))
            return (plane.mean((1, 2, 3)), plane.amax((2, 3))) if self.pair else plane

    planes = torch.randn(40, 3, 16, 12)
    np.save(f"{to}/planes.npy", planes.numpy())
    np.save(f"{to}/many.npy", np.tile(planes.numpy(), (150, 1, 1, 1)))
    with torch.no_grad():
        for name, pair in ("net", False), ("pair", True):
            net = Net(pair).eval()
            torch.jit.trace(net, planes[:1]).save(f"{to}/{name}.pt")
            answers = [net(row[None]) for row in planes]
            np.save(f"{to}/{name}.npy", np.stack([np.concatenate([part.numpy().ravel() for part in (a if pair else [a])]) for a in answers]))
    np.save(f"{to}/many-wanted.npy", np.tile(np.load(f"{to}/net.npy"), (150, 1)))


def same(scores, wanted):
    import h5py
    with h5py.File(scores) as file:
        table = next(group for name, group in file.items() if "status" in group and "hit_id" in group)
        names = [name for name in table if name.startswith("out")]
        found = np.stack([table[name][:].ravel() for name in sorted(names, key=lambda name: [int(n) for n in name.split("_") if n.isdigit()])], 1)
    wanted = np.load(wanted)
    assert found.shape == wanted.shape and wanted.std() > 0.001, (found.shape, wanted.shape, names[:5])
    assert found.tobytes() == wanted.tobytes(), np.abs(found - wanted).max()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
