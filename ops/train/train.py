"""train.py - trains the demonstration's network on synthetic events, and says what it is worth on others.

    make train                      everything: events, patches, training, the stored model, its report
    python ops/train/train.py --help

Events of TRAIN_SEED on are cut by `wiremill cut`; those of HELD_SEED on, which no training sees, are scored by
`wiremill run` with the model as it is stored. Everything follows from the seeds (ops/train/README.md).
"""
import argparse
import os
import subprocess
import tempfile
import time

from net import MAKER, Net, np  # first: it says how many threads NumPy may use
import h5py
import truth

TRAIN_SEED, HELD_SEED = 1001, 2001  # `make run` makes its events with seeds 1 and 2
TAKEN = {truth.TRACK: 3500, truth.EM: 3500, truth.NONE: 1000, truth.MICHEL: 100000}  # hits of an event, at most


def wiremill(args, *words):
    subprocess.run([os.path.join(args.bin, "wiremill"), *map(str, words)], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL if words[0] != "run" else None)


def synth(args, seed):
    path = os.path.join(args.work, f"events-{seed}.h5")
    if not os.path.exists(path):
        wiremill(args, "synth", "--events", 1, "--seed", seed, "--run", seed, "--output", path)
    return path


def identity(path):
    """Where and when the hits of a file are: no two events share it."""
    with h5py.File(path) as f:
        return f["hit_table/wire"][:].tobytes() + f["hit_table/time"][:].tobytes()


def patches(args, random):
    """Patches of the training events (n, 48, 48) in 16 bits, their truth, and how many hits of a kind there were."""
    cut = os.path.join(args.scratch, "patches.npy")
    x, y, all_hits, seen = [], [], np.zeros(4), set()
    for seed in range(TRAIN_SEED, TRAIN_SEED + args.events):
        events = synth(args, seed)
        seen.add(identity(events))
        wiremill(args, "cut", "--input", events, "--patches", cut)
        with h5py.File(events) as f:
            kind = f["hit_table/truth"][:]
        all_hits += np.bincount(kind, minlength=4)
        rows = [random.permutation(np.flatnonzero(kind == k))[:most] for k, most in TAKEN.items()]
        rows = np.sort(np.concatenate(rows))
        x.append(np.load(cut, mmap_mode="r")[rows].astype(np.float16))
        y.append(kind[rows])
        os.remove(cut)
    for seed in range(HELD_SEED, HELD_SEED + args.held):
        if identity(synth(args, seed)) in seen:
            raise SystemExit(f"the event of seed {seed} is among those that the network is trained on")
    return np.concatenate(x), np.concatenate(y), all_hits


def turned(x, random):
    """Half of the patches with wires reversed, half with time reversed, around the hit at [24][24]: nothing in a
    plane tells one from the other, since planes see tracks from both sides."""
    for axis in 1, 2:
        some = np.flatnonzero(random.random(len(x)) < 0.5)
        part = np.flip(x[some], axis)
        part = np.roll(part, 1, axis)
        part[(slice(None), 0, slice(None)) if axis == 1 else (slice(None), slice(None), 0)] = 0
        x[some] = part
    return x


def train(args, net, random, x, y):
    label = np.where(y == truth.MICHEL, truth.EM, y).astype(np.int64)
    michel = (y == truth.MICHEL).astype(np.float32)
    steps = args.epochs * (len(x) // args.batch)
    begun, mean, step = time.process_time(), 0.0, 0
    for epoch in range(args.epochs):
        order = random.permutation(len(x))
        for i in range(0, len(x) - args.batch + 1, args.batch):
            rows = order[i:i + args.batch]
            scores = net.forward(turned(x[rows].astype(np.float32), random))
            loss, gradient = net.backward(*scores, label[rows], michel[rows])
            rate = args.rate * min(1, (step + 1) / 200) * (0.02 + 0.98 * (1 + np.cos(np.pi * step / steps)) / 2)
            net.step(gradient, rate, args.decay)
            mean += 0.01 * (loss - mean) if step else loss
            step += 1
            if step % 200 == 0 or step == steps:
                print(f"  epoch {epoch + 1} of {args.epochs}, step {step} of {steps}: loss {mean:.4f}, "
                      f"{time.process_time() - begun:.0f} CPU-s", flush=True)


def as_in_events(net, y, all_hits):
    """Rare kinds were taken more often than they occur: shifts the last layers' biases so that scores are
    probabilities in an event (Bayes: a logit changes by the logarithm of the ratio)."""
    taken = np.bincount(y, minlength=4)

    def of_label(n):
        return np.array([n[truth.TRACK], n[truth.EM] + n[truth.MICHEL], n[truth.NONE]]) / n.sum()

    net.w["label_b"] += np.log(of_label(all_hits) / of_label(taken)).astype(np.float32)
    odds = [n[truth.MICHEL] / (n.sum() - n[truth.MICHEL]) for n in (all_hits, taken)]
    net.w["michel_b"] += np.float32(np.log(odds[0] / odds[1]))


def held_out(args):
    """Scores of the held-out events by `wiremill run` with the stored model."""
    out = os.path.join(args.scratch, "out")
    files = [synth(args, seed) for seed in range(HELD_SEED, HELD_SEED + args.held)]
    wiremill(args, "run", "--quiet", "--model", args.output, "--output", out, *files)
    return truth.read_all((f, os.path.join(out, os.path.basename(f)[:-3] + ".scores.h5")) for f in files)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default="build/release/bin", help="where wiremill is")
    p.add_argument("--work", default="build/train", help="where events go")
    p.add_argument("--output", default="build/train/emtrkmichel.onnx", help="the model")
    for name, value in ("seed", 1), ("events", 16), ("held", 2), ("filters", 12), ("dense", 32), ("epochs", 4), \
            ("batch", 128):
        p.add_argument("--" + name, type=int, default=value, help=f"default: {value}")
    p.add_argument("--rate", type=float, default=1.5e-3, help="of learning (default: 1.5e-3)")
    p.add_argument("--decay", type=float, default=0.02, help="of weights (default: 0.02)")
    p.add_argument("--only-report", action="store_true", help="train nothing: the report of the model at --output")
    p.add_argument("--force", action="store_true", help="replace what has the names of the model and the picture, whatever it is")
    args = p.parse_args()
    os.makedirs(args.work, exist_ok=True)
    drawn = os.path.join(args.work, "roc.svg")
    try:
        stored = None if args.only_report else truth.Target(args.output, "model of train.py", lambda begin: MAKER.encode() in begin[:200], (),
                                                            args.force)
        picture = truth.picture_at(drawn, (args.output,), args.force)
    except truth.Refused as reason:
        raise SystemExit(f"train.py: {reason}")
    with tempfile.TemporaryDirectory(prefix="train-", dir=args.work) as args.scratch:
        run(args, stored, picture)


def run(args, stored, picture):
    if not args.only_report:
        random = np.random.default_rng(args.seed)
        x, y, all_hits = patches(args, random)
        print(f"{len(x):,} patches of {args.events} events: " +
              ", ".join(f"{(y == k).sum():,} {n}" for k, n in enumerate(truth.NAMES)), flush=True)
        net = Net(random, args.filters, args.dense)
        train(args, net, random, x, y)
        as_in_events(net, y, all_hits)
        net.write(stored, f"ops/train/train.py: seeds {TRAIN_SEED} to {TRAIN_SEED + args.events - 1}")
        print(f"{args.output}: {os.path.getsize(args.output):,} bytes")
    print(f"\nheld out: {args.held} events, seeds {HELD_SEED} to {HELD_SEED + args.held - 1}; none was trained on")
    scored = held_out(args)
    got = truth.report(scored)
    truth.picture(scored, picture)
    print(f"\n{picture.path}: the curves and the confusion matrix")
    wanted = {"em against track": 0.95, "michel against the rest": 0.9}
    for name, least in wanted.items():
        print(f"\n{name}: {got[name]:.4f}, {'at least' if got[name] >= least else 'NOT at least'} {least}", end="")
    print()
    raise SystemExit(any(got[name] < least for name, least in wanted.items()))


if __name__ == "__main__":
    main()
