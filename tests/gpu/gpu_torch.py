"""gpu_torch.py - the same network in PyTorch, same weights and patches, on the same GPU.

usage: gpu_torch.py DIR    (DIR: what `gpu_check dump DIR` wrote)

Half, channels_last, patches on the device already, the best of batch sizes; eager, and compiled
where torch.compile works. Prints rows of a Markdown table; also the largest difference from our
scores. Needs torch with CUDA and numpy.
"""
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F


def load(folder, name, *shape):
    return torch.from_numpy(np.fromfile(f"{folder}/{name}", np.float32).reshape(shape))


class Net(torch.nn.Module):
    """Convolution 5x5x48, Dense 128, Dense 32, softmax 3 and sigmoid 1."""

    def __init__(self, folder):
        super().__init__()
        w = load(folder, "conv.w", 5, 5, 1, 48).permute(3, 2, 0, 1).contiguous()
        self.conv = torch.nn.Parameter(w), torch.nn.Parameter(load(folder, "conv.b", 48))
        # Channels come last in memory, so that flattening is (row, column, filter), as in the file.
        self.dense = []
        for i, (n_in, n_out) in enumerate([(92928, 128), (128, 32), (32, 3), (32, 1)]):
            self.dense.append((load(folder, f"dense{i}.w", n_in, n_out).t().contiguous(),
                               load(folder, f"dense{i}.b", n_out)))

    def to_half(self):
        self.conv = tuple(x.detach().cuda().half() for x in self.conv)
        self.conv = (self.conv[0].to(memory_format=torch.channels_last), self.conv[1])
        self.dense = [(w.cuda().half(), b.cuda().half()) for w, b in self.dense]
        return self

    def forward(self, x):
        x = F.relu(F.conv2d(x, *self.conv))
        x = x.permute(0, 2, 3, 1).reshape(x.shape[0], -1)
        x = F.relu(F.linear(x, *self.dense[0]))
        x = F.relu(F.linear(x, *self.dense[1]))
        return torch.cat([F.softmax(F.linear(x, *self.dense[2]).float(), 1),
                          torch.sigmoid(F.linear(x, *self.dense[3]).float())], 1)


def best(net, patches, batch):
    """Patches a second, the best of five passes, and the scores."""
    def run():
        return torch.cat([net(patches[i:i + batch]) for i in range(0, len(patches), batch)])
    scores, seconds = run(), []
    run()
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return len(patches) / min(seconds), scores


def main():
    folder = sys.argv[1]
    if not torch.cuda.is_available():
        print("PyTorch finds no GPU")
        return 1
    patches = torch.from_numpy(np.fromfile(f"{folder}/patches", np.float32).reshape(-1, 1, 48, 48))
    patches = patches[:len(patches) // 1024 * 1024].cuda().half()
    patches = patches.to(memory_format=torch.channels_last)
    ours = np.fromfile(f"{folder}/scores", np.float32).reshape(-1, 4)[:len(patches)]
    net = Net(folder).to_half()
    ways = [("eager", net)]
    try:
        compiled = torch.compile(net, mode="max-autotune-no-cudagraphs")
        with torch.no_grad():
            compiled(patches[:1024])
        ways.append(("compiled", compiled))
    except Exception as why:  # whatever its compiler needs and lacks
        print(f"torch.compile does not work here: {str(why).splitlines()[0][:100]}\n")
    print(f"\nPyTorch {torch.__version__}, half, channels_last, patches on the device:\n")
    print("| way | batch | million patches/s | ms for 55,000 | off from ours |\n|---|---|---|---|---|")
    with torch.no_grad():
        for name, model in ways:
            for batch in (1024, 4096):
                speed, scores = best(model, patches, batch)
                off = np.abs(scores.float().cpu().numpy() - ours).max()
                print(f"| {name} | {batch} | {speed / 1e6:.3f} | {55000 / speed * 1e3:.2f} | {off:.1e} |",
                      flush=True)
    return 0


sys.exit(main())
