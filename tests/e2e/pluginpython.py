"""pluginpython.py - engines in Python, rows, and TorchScript files, for pluginpython.t.

usage: pluginpython.py rows DIR                   waveforms.npy; bad.npy with rows that crash, raise and give NaN
       pluginpython.py check SCORES.h5 ROWS.npy   peak and sum of each row; the bad rows are held
       pluginpython.py forest DIR                 forest.pkl, features.npy, and what scikit-learn computes of it
       pluginpython.py torch DIR                  net.pt and others, planes.npy, and what torch computes of it
       pluginpython.py same SCORES.h5 WANTED.npy  whether the scores are these bits
       pluginpython.py asked DIR HOST:PORT        whether a gateway answers planes by them
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


def forest(to):
    import joblib
    from sklearn.ensemble import RandomForestClassifier
    features = np.random.default_rng(2).normal(size=(400, 12)).astype(np.float32)
    trained = RandomForestClassifier(20, random_state=1).fit(features[:300], features[:300, :3].sum(1) > 0)
    joblib.dump(trained, f"{to}/forest.pkl")
    np.save(f"{to}/features.npy", features[300:])
    np.save(f"{to}/forest.npy", np.array([[trained.predict_proba(row[None])[0, 1]] for row in features[300:]], np.float32))


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

    class Block(nn.Sequential):
        def __init__(self, n_in, n_out):
            super().__init__(nn.Conv2d(n_in, n_out, 3, padding=1), nn.BatchNorm2d(n_out), nn.ReLU(), nn.Conv2d(n_out, n_out, 3, padding=1), nn.ReLU())

    class UNet(nn.Module):
        """Four levels, as DNNROIFinding's; the plane, and the one of half its size."""

        def __init__(self, named):
            super().__init__()
            self.one, self.two, self.three, self.four = Block(3, 4), Block(4, 8), Block(8, 8), Block(8, 8)
            self.up, self.upper, self.last, self.smaller = Block(16, 8), Block(12, 4), nn.Conv2d(4, 1, 1), nn.Conv2d(8, 2, 1)
            self.wider, self.named = nn.Upsample(scale_factor=2., mode="bilinear", align_corners=True), named

        def forward(self, x):
            one = self.one(x)
            two = self.two(torch.max_pool2d(one, 2))
            deep = self.wider(self.four(self.three(torch.max_pool2d(two, 2))))
            half = self.up(torch.cat([two, deep], 1))
            plane, half = torch.sigmoid(self.last(self.upper(torch.cat([one, self.wider(half)], 1)))), self.smaller(half)
            return {"out_a": plane, "out_b": half} if self.named else (plane, half)

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.planes, self.numbers = nn.Conv2d(3, 2, 3), nn.Linear(5, 2)

        def forward(self, planes, numbers):
            return self.planes(planes).amax((2, 3)) + self.numbers(numbers)

    planes = torch.randn(40, 3, 16, 12)
    np.save(f"{to}/planes.npy", planes.numpy())
    np.save(f"{to}/many.npy", np.tile(planes.numpy(), (150, 1, 1, 1)))
    with torch.no_grad():
        for name, pair in ("net", False), ("pair", True):
            net = Net(pair).eval()
            torch.jit.trace(net, planes[:1]).save(f"{to}/{name}.pt")
            answers = [net(row[None]) for row in planes]
            np.save(f"{to}/{name}.npy", np.stack([np.concatenate([part.numpy().ravel() for part in (a if pair else [a])]) for a in answers]))
        for name, named in ("unet", False), ("named", True):
            net = UNet(named).train()
            net(planes)                                  # statistics of the batch normalizations
            net.eval()
            torch.jit.trace(net, planes[:1], strict=False).save(f"{to}/{name}.pt")
            answers = [net(row[None]) for row in planes]
            answers = [list(a.values()) if named else a for a in answers]
            np.save(f"{to}/{name}.npy", np.stack([np.concatenate([part.numpy().ravel() for part in a]) for a in answers]))
        net, numbers = Both().eval(), torch.randn(40, 5)
        torch.jit.freeze(torch.jit.script(net)).save(f"{to}/both.pt")
        np.save(f"{to}/both.npy", np.stack([net(row[None], number[None]).numpy().ravel() for row, number in zip(planes, numbers)]))
        np.save(f"{to}/rows.npy", np.concatenate([planes.flatten(1).numpy(), numbers.numpy()], 1))
    np.save(f"{to}/many-wanted.npy", np.tile(np.load(f"{to}/net.npy"), (150, 1)))


def same(scores, wanted):
    import h5py
    with h5py.File(scores) as file:
        table = next(group for name, group in file.items() if "status" in group and "hit_id" in group)
        names = sorted((name for name in table if name.startswith("out")), key=lambda name: [int(n) if n.isdigit() else n for n in name.split("_")])
        found = np.stack([table[name][:].ravel() for name in names], 1)
    wanted = np.load(wanted)
    assert found.shape == wanted.shape and wanted.std() > 0.001, (found.shape, wanted.shape, names[:5])
    assert found.tobytes() == wanted.tobytes(), np.abs(found - wanted).max()


def asked(of, address):
    import json
    import urllib.request
    planes, wanted = np.load(f"{of}/planes.npy")[:5], np.load(f"{of}/net.npy")[:5]
    data = {"name": "input", "shape": planes.shape, "datatype": "FP32", "data": planes.ravel().tolist()}
    with urllib.request.urlopen(f"http://{address}/v2/models/m/infer", json.dumps({"inputs": [data]}).encode(), timeout=60) as answer:
        output, = json.load(answer)["outputs"]
    assert output["name"] == "output" and output["shape"] == [5, 1, 16, 12], output["shape"]
    assert np.array(output["data"], np.float32).tobytes() == wanted.tobytes()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
