"""gpu_torch.py - the same network in PyTorch, same weights and patches, on the same GPU.

usage: gpu_torch.py DIR [SECONDS [DEVICE]]    (DIR: what `gpu_check dump DIR` wrote)

Half, channels_last, patches on the device already; eager, eager as a CUDA graph, and compiled; every
way at several batch sizes, the best of five passes. A way that does not work here says why; no new
one begins after SECONDS (120). Prints two Markdown tables, the largest difference from our scores in
the last column, and the fastest on a line of its own. Needs torch with CUDA and numpy. DEVICE cpu:
only to see that the network is the right one, on machines without a GPU.
"""
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

HITS = 55000  # of the event that tables speak of


def load(folder, name, *shape):
    return torch.from_numpy(np.fromfile(f"{folder}/{name}", np.float32).reshape(shape))


class Net(torch.nn.Module):
    """Convolution 5x5x48, Dense 128, Dense 32, softmax 3 and sigmoid 1."""

    def __init__(self, folder, device):
        super().__init__()
        w = load(folder, "conv.w", 5, 5, 1, 48).permute(3, 2, 0, 1)
        self.conv = (w.to(device).half().contiguous(memory_format=torch.channels_last),
                     load(folder, "conv.b", 48).to(device).half())
        # Channels come last in memory, so that flattening is (row, column, filter), as in the file.
        self.dense = [(load(folder, f"dense{i}.w", n_in, n_out).t().contiguous().to(device).half(),
                       load(folder, f"dense{i}.b", n_out).to(device).half())
                      for i, (n_in, n_out) in enumerate([(92928, 128), (128, 32), (32, 3), (32, 1)])]

    def forward(self, x):
        x = F.relu(F.conv2d(x, *self.conv))
        x = x.permute(0, 2, 3, 1).reshape(x.shape[0], -1)
        x = F.relu(F.linear(x, *self.dense[0]))
        x = F.relu(F.linear(x, *self.dense[1]))
        return torch.cat([F.softmax(F.linear(x, *self.dense[2]).float(), 1),
                          torch.sigmoid(F.linear(x, *self.dense[3]).float())], 1)


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def best(net, patches, batch, rounds=5):
    """Patches a second, and the scores. Every pass scores all whole batches."""
    n, device = len(patches) // batch * batch, patches.device.type

    def run():
        return torch.cat([net(patches[i:i + batch]) for i in range(0, n, batch)])
    scores, seconds = run(), []
    for _ in range(rounds):
        wait(device)
        start = time.perf_counter()
        run()
        wait(device)
        seconds.append(time.perf_counter() - start)
    return n / min(seconds), scores.float().cpu().numpy()


def graphed(net, patches, batch):
    """The eager network captured once for this batch size: no launch costs are left."""
    x = patches[:batch].clone()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            net(x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = net(x)

    def run(part):
        x.copy_(part)
        graph.replay()
        return y.clone()
    return run


def ceilings():
    """The two numbers every gap is measured against."""
    def timed(work, rounds=10):
        work()
        times = []
        for _ in range(rounds):
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record()
            work()
            b.record()
            torch.cuda.synchronize()
            times.append(a.elapsed_time(b))
        return sorted(times)[len(times) // 2]
    print("| ceiling, by PyTorch | measured |\n|---|---|")
    x = torch.empty(2 ** 30, dtype=torch.uint8, device="cuda").random_()
    y = torch.empty_like(x)
    print(f"| copy on the device, read + written | {2 * 2 ** 30 / timed(lambda: y.copy_(x)) / 1e6:.0f} GB/s |")
    del x, y
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.half) for _ in range(2))
    print(f"| product of random halves, 8192 a side | {2 * 8192 ** 3 / timed(lambda: a @ b) / 1e9:.0f} TFLOP/s |\n")


def ways(net, device):
    """Name, and what makes a callable of a batch size."""
    yield "eager", lambda patches, batch: net
    if device == "cuda":
        yield "eager, as a CUDA graph", lambda patches, batch: graphed(net, patches, batch)
    yield "compiled", lambda patches, batch: torch.compile(net)
    yield "compiled, max-autotune", lambda patches, batch: torch.compile(net, mode="max-autotune-no-cudagraphs")


def main():
    folder, device = sys.argv[1], sys.argv[3] if len(sys.argv) > 3 else "cuda"
    end = time.monotonic() + (float(sys.argv[2]) if len(sys.argv) > 2 else 120)
    if device == "cuda" and not torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} (CUDA {torch.version.cuda}) finds no GPU.")
        return 1
    gpu = torch.cuda.get_device_name() if device == "cuda" else "the CPU"
    print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN "
          f"{torch.backends.cudnn.version() if device == 'cuda' else '-'}, on {gpu}; half, channels_last, "
          "patches on the device:\n")
    if device == "cuda":
        torch.backends.cudnn.benchmark = True
        ceilings()
    patches = torch.from_numpy(np.fromfile(f"{folder}/patches", np.float32).reshape(-1, 1, 48, 48))
    patches = patches.to(device).half().contiguous(memory_format=torch.channels_last)
    ours = np.fromfile(f"{folder}/scores", np.float32).reshape(-1, 4)
    net, fastest, worst = Net(folder, device), (0, "nothing"), 0
    print(f"| way | batch | million patches/s | ms for {HITS} | off from ours |\n|---|---|---|---|---|")
    with torch.no_grad():
        for name, make in ways(net, device):
            for batch in (1024, 4096, 16384):
                if batch > len(patches) or time.monotonic() > end:
                    continue
                try:
                    speed, scores = best(make(patches, batch), patches, batch)
                except Exception as why:  # whatever a compiler needs and lacks, or memory
                    print(f"| {name} | {batch} | {(str(why).splitlines() or [type(why).__name__])[0][:120]} | | |")
                    break
                off = np.abs(scores - ours[:len(scores)]).max()
                fastest, worst = max(fastest, (speed, f"{name}, {batch} a batch")), max(worst, off)
                print(f"| {name} | {batch} | {speed / 1e6:.3f} | {HITS / speed * 1e3:.2f} | {off:.1e} |",
                      flush=True)
    print(f"\nFastest: {fastest[0] / 1e6:.3f} million patches/s ({fastest[1]}).")
    if not worst <= 5e-3:  # half in other orders of summation; another network would be off by 0.1
        print("Its scores are not ours: the comparison is void.")
        return 1
    return 0


sys.exit(main())
