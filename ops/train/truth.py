"""truth.py - how well scores agree with the truth of synthetic events: AUC, ROC, confusion matrix, where it fails.

    python ops/train/truth.py EVENTS.h5 SCORES.h5 ...      pairs of files of `wiremill synth` and `wiremill run`
    ... --picture FILE.svg                                 also draws the curves and the matrix; --force replaces any file
"""
import sys

import h5py
import numpy as np

from target import Refused, Target

TRACK, EM, NONE, MICHEL = range(4)
NAMES = "track", "em", "none", "michel"
PICTURE = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 400" width="820" height="400" role="img" '
           'aria-label="ROC curves and confusion matrix"')


def read(events, scores):
    """Truth, scores (n, 4) and what is known of each hit of a file; rows of both are in one order."""
    with h5py.File(events) as f, h5py.File(scores) as s:
        if "hit_table" not in f or "emtrkmichel" not in s:
            raise SystemExit(f"{events} and {scores}: name pairs, events before their scores: e1.h5 e1.scores.h5 e2.h5 ...")
        hit, out = f["hit_table"], s["emtrkmichel"]
        if not np.array_equal(hit["key"][:], out["hit_id"][:]):
            raise SystemExit(f"{scores}: its hits are not those of {events}; score that file and try again")
        plane = hit["plane"][:]
        place = np.stack([np.unique(hit["event_id"][:], axis=0, return_inverse=True)[1].ravel(), hit["tpc"][:], plane])
        return {"truth": hit["truth"][:], "score": np.stack([out[n][:] for n in NAMES], axis=1), "plane": plane,
                "charge": charge(f), "length": length(hit["truth"][:], place, hit["wire"][:], hit["time"][:])}


def charge(f):
    """ADC above zero within 10 ticks of each hit, on its channel (ADC ticks)."""
    hit, roi, wires = f["hit_table"], f["roi_table"], f["wire_table"]
    map_ = {c: wires[c][:] for c in wires}
    channel = np.full((map_["tpc"].max() + 1, 3, map_["wire"].max() + 1), -1)
    channel[map_["tpc"], map_["plane"], map_["wire"]] = map_["channel"]
    ids, event = np.unique(np.concatenate([hit["event_id"][:], roi["event_id"][:]]), axis=0, return_inverse=True)
    event, n = event.ravel(), len(hit["wire"])
    # every sample has a place on one long line: (event, channel, tick); sums between places are differences
    line = (event[n:] * (channel.max() + 1) + roi["channel"][:]).astype(np.int64) * 8192
    counts, first = roi["n"][:], roi["tick"][:]
    start = np.concatenate([[0], np.cumsum(counts)])
    at = np.repeat(line + first, counts) + np.arange(start[-1]) - np.repeat(start[:-1], counts)
    order = np.argsort(at, kind="stable")
    total = np.concatenate([[0], np.cumsum(np.maximum(f["roi_value/adc"][:], 0)[order].astype(np.float64))])
    here = (event[:n] * (channel.max() + 1) + channel[hit["tpc"][:], hit["plane"][:], hit["wire"][:]]).astype(np.int64)
    here = here * 8192 + hit["time"][:].astype(np.int64)
    return total[np.searchsorted(at[order], here + 11)] - total[np.searchsorted(at[order], here - 10)]


def length(truth, place, wire, time):
    """Hits with the same truth within a hit's patch (24 wires and 144 ticks to each side), itself among them."""
    counts = np.zeros(len(truth), np.int64)
    group = np.unique(np.concatenate([place, truth[None]]), axis=1, return_inverse=True)[1].ravel()
    for g in range(group.max() + 1):
        rows = np.flatnonzero(group == g)
        rows = rows[np.argsort(wire[rows], kind="stable")]
        w, t = wire[rows].astype(np.int64), time[rows]
        low, high = np.searchsorted(w, w - 24), np.searchsorted(w, w + 24)
        counts[rows] = [np.count_nonzero(np.abs(t[a:b] - own) < 144) for a, b, own in zip(low, high, t)]
    return counts


def auc(signal, rest):
    """The chance that a hit of `signal` has a higher score than one of `rest`; equal scores count half."""
    both, signal = np.sort(rest), np.asarray(signal)
    if not len(signal) or not len(both):
        return float("nan")
    return float((np.searchsorted(both, signal, "left") + np.searchsorted(both, signal, "right")).mean() / 2 / len(both))


def em_like(score):
    return score[:, EM] / (score[:, EM] + score[:, TRACK] + 1e-12)


def aucs(truth, score):
    """The two that the project asks for, and three more."""
    em, michel, none = em_like(score), score[:, MICHEL], score[:, NONE]
    return {"em against track": auc(em[truth == EM], em[truth == TRACK]),
            "em and michel against track": auc(em[(truth == EM) | (truth == MICHEL)], em[truth == TRACK]),
            "none against the rest": auc(none[truth == NONE], none[truth != NONE]),
            "michel against the rest": auc(michel[truth == MICHEL], michel[truth != MICHEL]),
            "michel against em": auc(michel[truth == MICHEL], michel[truth == EM])}


def roc(signal, rest, wrong=(0.001, 0.01, 0.05, 0.1, 0.2)):
    """The share of `signal` that is found where these shares of `rest` are taken for it."""
    return [(p, float((signal > np.quantile(rest, 1 - p)).mean())) for p in wrong]


def called(score):
    """The label of a hit: michel from a michel score of a half on, else the largest of the three others."""
    return np.where(score[:, MICHEL] >= 0.5, MICHEL, score[:, :3].argmax(axis=1))


def print_parts(title, value, edges, truth, score):
    print(f"\n{title:<24}{'hits':>9}{'em/track':>10}{'michel':>9}")
    for low, high in zip(edges[:-1], edges[1:]):
        part = (value >= low) & (value < high)
        got = aucs(truth[part], score[part])
        print(f"{low:>10.0f} to {high - 1:<10.0f}{part.sum():>9,}{got['em against track']:>10.3f}"
              f"{got['michel against the rest']:>9.3f}")


def report(data):
    """Prints everything; returns the AUCs."""
    truth, score = data["truth"], data["score"]
    good = np.isfinite(score).all(axis=1)
    truth, score = truth[good], score[good]
    got = aucs(truth, score)
    print(f"{len(truth):,} hits: " + ", ".join(f"{(truth == k).sum():,} {n}" for k, n in enumerate(NAMES)))
    print("\nAUC")
    for name, value in got.items():
        print(f"  {name:<30}{value:.4f}")
    print("\nROC: of the background taken" + "".join(f"{p:>8.1%}" for p, _ in roc(score[:, 0], score[:, 0])))
    em, michel = em_like(score), score[:, MICHEL]
    for name, points in (("em, of track", roc(em[truth == EM], em[truth == TRACK])),
                         ("michel, of the rest", roc(michel[truth == MICHEL], michel[truth != MICHEL]))):
        print(f"  {name:<26}" + "".join(f"{found:>8.1%}" for _, found in points))
    guess = called(score)
    print("\ntruth \\ called" + "".join(f"{n:>9}" for n in NAMES) + "    right")
    for k, name in enumerate(NAMES):
        row = [np.count_nonzero((truth == k) & (guess == j)) for j in range(4)]
        print(f"{name:<14}" + "".join(f"{n:>9,}" for n in row) + f"{row[k] / max(1, sum(row)):>9.1%}")
    print("of it is true " + "".join(f"{(truth[guess == k] == k).mean() if (guess == k).any() else 0:>9.1%}"
                                     for k in range(4)))
    print_parts("charge (ADC ticks)", data["charge"][good], [0, 60, 100, 150, 250, 500, 100000], truth, score)
    print_parts("hits of its kind", data["length"][good], [1, 4, 11, 26, 51, 101, 100000], truth, score)
    print_parts("plane", data["plane"][good], [0, 1, 2, 3], truth, score)
    return got


COLOURS = "#0b5fb4", "#a81420", "#8a8a8a", "#cf7d00"  # of track, em, none, michel, as wiremill show has them


def picture_at(path, inputs=(), force=False):
    return Target(path, "picture of truth.py", lambda begin: PICTURE.encode() == begin[:len(PICTURE)], inputs, force)


def picture(data, target):
    """Draws the ROC curves and the confusion matrix as one SVG."""
    truth, score = data["truth"], data["score"]
    good = np.isfinite(score).all(axis=1)
    truth, score = truth[good], score[good]
    em, michel, guess = em_like(score), score[:, MICHEL], called(score)
    out = [PICTURE + ' font-family="sans-serif" font-size="12" fill="#222">'
           '<rect width="820" height="400" fill="#fff"/>']

    def text(x, y, words, more=""):
        out.append(f'<text x="{x:.1f}" y="{y:.1f}" {more}>{words}</text>')

    for k in range(5):  # from 1e-4 of the background to all of it; the share that is found, linear
        x, y = 50 + 80 * k, 350 - 80 * k
        out.append(f'<path stroke="#ddd" d="M{x} 30V350M50 {y}H370"/>')
        text(x, 366, f"{100 * 10.0 ** (k - 4):g} %", 'text-anchor="middle"')
        text(46, y + 4, f"{25 * k} %", 'text-anchor="end"')
    text(210, 388, "of the background taken", 'text-anchor="middle"')
    for i, (name, kind, signal, rest) in enumerate((
            ("em, of track", EM, em[truth == EM], em[truth == TRACK]),
            ("michel, of the rest", MICHEL, michel[truth == MICHEL], michel[truth != MICHEL]))):
        if len(signal) and len(rest):
            points = roc(signal, rest, 10.0 ** np.linspace(-4, 0, 161))
            line = " ".join(f"{370 + 80 * np.log10(p):.1f},{350 - 320 * found:.1f}" for p, found in points)
            out.append(f'<polyline fill="none" stroke="{COLOURS[kind]}" stroke-width="2" points="{line}"/>')
            text(60, 46 + 16 * i, f"{name}: AUC {auc(signal, rest):.3f}", f'style="fill:{COLOURS[kind]}"')
    text(640, 40, "called", 'text-anchor="middle"')
    text(450, 46, "truth")
    for k, name in enumerate(NAMES):
        text(535 + 70 * k, 62, name, 'text-anchor="middle"')
        text(450, 105 + 70 * k, name)
        row = [np.count_nonzero((truth == k) & (guess == j)) for j in range(4)]
        for j, n in enumerate(row):
            share = n / max(1, sum(row))
            out.append(f'<rect x="{500 + 70 * j}" y="{70 + 70 * k}" width="68" height="68" fill="{COLOURS[k]}" '
                       f'fill-opacity="{0.05 + 0.6 * share:.3f}"/>')
            text(534 + 70 * j, 102 + 70 * k, f"{share:.1%}", 'text-anchor="middle"')
            text(534 + 70 * j, 120 + 70 * k, f"{n:,}", 'text-anchor="middle" font-size="10"')
    target.write(("\n".join(out) + "\n</svg>\n").encode())


def read_all(pairs):
    parts = [read(*pair) for pair in pairs]
    return {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}


if __name__ == "__main__":
    force = "--force" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--force"]
    drawn = sys.argv[-1] if sys.argv[-2:-1] == ["--picture"] else None
    pairs = sys.argv[1:-2] if drawn else sys.argv[1:]
    if not pairs or len(pairs) % 2:
        raise SystemExit(__doc__)
    try:
        drawn = picture_at(drawn, pairs, force) if drawn else None
    except Refused as reason:
        raise SystemExit(f"truth.py: --picture {reason}")
    everything = read_all(zip(pairs[::2], pairs[1::2]))
    report(everything)
    if drawn:
        picture(everything, drawn)
