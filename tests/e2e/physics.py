"""physics.py - PART PAGE.json ...: what a page of wiremill report has of scores, computed again from the files with NumPy

PAGE.json is what page.py look prints. Numbers of the page are compared as texts.
"""
import base64, datetime, json, pathlib, re, shutil, sys, zlib, xml.etree.ElementTree as xml
import h5py, numpy as np

NAMES = "track", "em", "none", "michel"

def count(n):
    return "{:,}".format(int(n))

def share(part, of):
    return "{:.1f}%".format(100 * part / of) if of else "-"

def page(name):
    d = json.load(open(name))
    return d, {row[0]: row[1:] for row in d["rows"]}

def hits(events, output):
    """Truth, scores (n, 4), cryostat, TPC and plane (n, 3) of the hits of an output that are scored and have truth."""
    with h5py.File(events) as e, h5py.File(output) as o:
        key = {tuple(i) + (int(k),): int(t) for i, k, t in
               zip(e["hit_table/event_id"][:], e["hit_table/key"][:].ravel(), e["hit_table/truth"][:].ravel())}
        t = o["emtrkmichel"]
        done = t["status"][:] == 0
        ids = zip(*(t[n][:][done] for n in ("run", "subrun", "event", "hit_id")))
        return (np.array([key[tuple(map(int, i))] for i in ids]), np.stack([t[n][:][done] for n in NAMES], 1).astype(float),
                np.stack([t[n][:][done] for n in ("cryostat", "tpc", "plane")], 1))

def joined(folder, stems):
    """The same of several outputs."""
    return [np.concatenate(v) for v in zip(*(hits(f"{folder}/{stem}.h5", f"{folder}/out/{stem}.scores.h5") for stem in stems))]

def auc(signal, rest):
    rest = np.sort(rest)
    return (np.searchsorted(rest, signal) + np.searchsorted(rest, signal, "right")).mean() / 2 / len(rest)

def calibration(is_it, score):
    """Hits, mean score and share of ten bins, as scikit-learn's calibration_curve has them."""
    at = np.searchsorted(np.linspace(0, 1, 11)[1:-1], score)
    bins = [(b, (at == b).sum(), score[at == b].mean(), is_it[at == b].mean()) for b in range(10) if (at == b).any()]
    try:
        from sklearn.calibration import calibration_curve
    except ImportError:
        return bins
    other = calibration_curve(is_it, score, n_bins=10)
    assert np.allclose([b[3] for b in bins], other[0]) and np.allclose([b[2] for b in bins], other[1])
    return bins

def drawing(source, title):
    return next(s for s in re.findall(r"<svg.*?</svg>", source, re.S) if f"<title>{title}</title>" in s)

def curve(source, title, nth):
    """The points (share of the width, share of the height) of a picture's nth line."""
    paths = [p.get("d") for p in xml.fromstring(drawing(source, title)) if p.tag.endswith("path")]
    frame = [float(v) for v in re.findall(r"[\d.]+", paths[-1])]  # left, top, right, bottom, left
    lines = [[tuple(map(float, q.split())) for q in re.split("[ML]", p)[1:]] for p in paths if re.fullmatch(r"M[\d. ]+(L[\d. ]+)+", p)]
    return np.array([((x - frame[0]) / (frame[2] - frame[0]), (frame[3] - y) / (frame[3] - frame[1])) for x, y in lines[nth]])

def truth(name, said, folder, *stems):
    d, rows = page(name)
    used = lambda title: set(re.findall(r'(?:stroke|fill)="(#\w+)"', drawing(d["source"], title)))
    labels = {"#0b5fb4", "#a81420", "#cf7d00", "#8a8a8a"}
    assert labels <= used("ROC") and not labels & used("Scores of track"), (used("ROC"), used("Scores of track"))
    t, s, _ = joined(folder, stems)
    called = np.where(s[:, 3] >= 0.5, 3, s[:, :3].argmax(1))
    other = json.load(open(said))  # wiremill truth --json
    assert other["hits"] == len(t) and f"{count(len(t))} hits with truth and scores, of {len(stems)} outputs" in d["text"]
    assert f"{share((called == t).sum(), len(t))} of the hits are called what they are" in d["text"]
    table = [r[1:] for r in d["rows"] if len(r) == 7 and r[0] in NAMES]
    for k, label in enumerate(NAMES):
        is_it, a = t == k, auc(s[t == k, k], s[t != k, k])
        both = (is_it & (called == k)).sum()
        found = (s[is_it, k] > np.sort(s[~is_it, k])[::-1][int(0.05 * (~is_it).sum())]).mean()
        wanted = [count(is_it.sum()), count((called == k).sum()), share(both, is_it.sum()), share(both, (called == k).sum()), f"{a:.4f}"]
        assert table[k][:5] == wanted and abs(float(table[k][5][:-1]) - 100 * found) < 0.11, (label, table[k], wanted, found)
        assert other["labels"][k]["called"] == (called == k).sum() and f"{other['labels'][k]['auc']:.4f}" == wanted[4]
        row = sum(([count((is_it & (called == j)).sum()), share((is_it & (called == j)).sum(), is_it.sum())] for j in range(4)), [])
        assert rows["truth " + label] == row, (rows["truth " + label], row)
        for at in range(0, 11):
            above = s[:, k] >= at / 10
            row = [count(above.sum()), share((above & is_it).sum(), is_it.sum()), share((above & is_it).sum(), above.sum())]
            assert rows[f"{label} from {at / 10:.1f}"] == row, (label, at, row)
        for b, n, mean, part in calibration(is_it.astype(int), s[:, k]):
            row = [count(n), f"{mean:.4f}", f"{part:.4f}"]
            assert rows[f"{label}, {b / 10:.1f} to {b / 10 + 0.1:.1f}"] == row, (label, b, row)
        points = curve(d["source"], "ROC", 1 + k)
        order = np.argsort(-s[:, k], kind="stable")
        x, y = (np.append(0, np.cumsum(m[order]) / m.sum()) for m in (~is_it, is_it))
        off = [np.hypot(x - p, y - q).min() for p, q in points]
        assert max(off) < 0.005 and len(points) > 20, (label, max(off))
        drawn = (np.diff(points[:, 0]) * (points[1:, 1] + points[:-1, 1]) / 2).sum()
        assert abs(drawn - a) < 0.01, (label, drawn, a)

def parts(name, said, folder, *stems):
    """`said`: wiremill truth --json --by plane or tpc. Its parts, and the page's tables and curves."""
    d, rows = page(name)
    t, s, place = joined(folder, stems)
    other = json.load(open(said))
    by_plane = other["by"] == "plane"
    key = place[:, 2] if by_plane else place[:, 0] * 1000 + place[:, 1]
    assert len(other["parts"]) == len(np.unique(key)) > 1, other
    for part, number in zip(other["parts"], np.unique(key)):
        on = key == number
        is_, scores = t[on], s[on]
        called = np.where(scores[:, 3] >= 0.5, 3, scores[:, :3].argmax(1))
        assert (part["plane"] if by_plane else part["cryostat"] * 1000 + part["tpc"]) == number and part["hits"] == on.sum()
        assert part["right"] == (called == is_).sum()
        named = f"plane {number}" if by_plane else f"cryostat {number // 1000}, TPC {number % 1000}"
        for k, label in enumerate(NAMES):
            n, m, both = (is_ == k).sum(), (called == k).sum(), ((is_ == k) & (called == k)).sum()
            a, found = auc(scores[is_ == k, k], scores[is_ != k, k]), part["labels"][k]
            assert (found["true"], found["called"], found["right"]) == (n, m, both) and abs(found["auc"] - a) < 1e-6, (named, found)
            row = [count(n), count(m), share(both, n), share(both, m), f"{a:.4f}"]
            assert rows[f"{named}, {label}"] == row, (rows[f"{named}, {label}"], row)
            if by_plane:
                points = curve(d["source"], "ROC of " + named, 1 + k)
                drawn = (np.diff(points[:, 0]) * (points[1:, 1] + points[:-1, 1]) / 2).sum()
                assert abs(drawn - a) < 0.01, (named, label, drawn, a)

def pixels(source, title):
    """A picture's PNG, rows from the top, as places in its palette; and the palette."""
    data = base64.b64decode(re.search(r'href="data:image/png;base64,([^"]*)"', drawing(source, title))[1])
    chunk, at = {}, 8
    while at < len(data):
        n = int.from_bytes(data[at:at + 4], "big")
        chunk[data[at + 4:at + 8]] = data[at + 8:at + 8 + n]
        at += 12 + n
    rows = np.frombuffer(zlib.decompress(chunk[b"IDAT"]), np.uint8).reshape(64, 65)
    assert not rows[:, 0].any()  # no filter
    return rows[:, 1:].astype(int), np.frombuffer(chunk[b"PLTE"], np.uint8).reshape(-1, 3)

def maps(name, most, folder, *stems):
    """Mean scores by wire and tick of at most `most` hits of each output, in eight pieces that are evenly spaced."""
    d, _ = page(name)
    parts = []
    for stem in stems:
        with h5py.File(f"{folder}/{stem}.h5") as e, h5py.File(f"{folder}/out/{stem}.scores.h5") as o:
            t, n = o["emtrkmichel"], len(o["emtrkmichel/status"])
            take, each = min(n, int(most)), n // 8
            rows = np.concatenate([np.arange(take * (p + 1) // 8 - take * p // 8) + p * each for p in range(8)]) if take < n else np.arange(n)
            rows = rows[t["status"][:][rows] == 0]
            parts.append(np.stack([e["hit_table/" + k][:].ravel()[rows] for k in ("plane", "wire", "time")]
                                  + [t[k][:][rows] for k in NAMES]).astype(float))
    plane, wire, tick, *score = np.concatenate(parts, 1)
    assert set(plane) == {0, 1, 2}
    for p in range(3):
        on = plane == p
        bins = [np.floor((v[on] - np.floor(v[on].min())) / (np.floor(v[on].max()) + 1 - np.floor(v[on].min())) * 64).astype(int)
                for v in (tick, wire)]
        for k, label in enumerate(NAMES):
            n, total = np.zeros((64, 64)), np.zeros((64, 64))
            np.add.at(n, tuple(bins), 1)
            np.add.at(total, tuple(bins), score[k][on])
            mean = (total / np.maximum(n, 1))[::-1]
            hit = n[::-1] > 0
            title = f"Mean score of {label} by wire and tick, plane {p}"
            assert (f"{title}: {count(on.sum())} hits in {hit.sum()} of 4096 cells; means from "
                    f"{mean[hit].min():.4f} to {mean[hit].max():.4f}." in d["text"]), title
            drawn, palette = pixels(d["source"], title)
            assert (palette[0] == 255).all() and ((drawn > 0) == hit).all(), title
            assert np.abs((drawn - 1) / 254 - mean)[hit].max() <= 0.5001 / 254, title
            assert len(np.unique(drawn)) > 20, title

def files(name, said, linked):
    """`said`: status --files --json; `linked`: the input whose event has a page."""
    d, _ = page(name)
    letters = {"open": "O", "written": "W", "held": "H", "changed": "C"}
    wanted = json.load(open(said))["files"]
    section = re.search(r"<h2>Inputs</h2>.*?</section>", d["source"], re.S)[0]
    squares = re.findall(r'<span class="(\w+)" title="([^"]*)">(.)</span>', section)
    table = {r[0]: r[1:] for r in d["rows"] if len(r) == 8}
    assert len(squares) == len(wanted) > 3 and {f["state"] for f in wanted} >= {"written", "held"}
    for f, (_, title, letter) in zip(wanted, squares):
        partly = f["state"] == "written" and f["held"]
        assert letter == ("S" if partly else letters[f["state"]]) and title.startswith(f["path"]), (f, title, letter)
        assert (f["why"] or "") in title or len(f["why"]) > 150
        row, hits = table[f["path"]], f["hits"] or 0
        counts = ["-" if f["state"] == "open" else count(hits), count(f["scored"] or 0), count(f["held"] or 0)]
        assert row[1:4] == counts and row[5] == (f["why"] or ""), (row, f)
        assert row[4] == (f"{100 * f['held'] / hits:.2f}%" if hits else "-") and row[6] == ("event" if f["path"] == linked else "")
    assert sum(int(n) for n in re.findall(r"<small>[^<:]*: (\d+)</small>", section)) == len(wanted)

def origin(name, folder, said, ended, workers):
    """`said`: status --json; `ended`, `workers`: answers of wiremill sql."""
    _, rows = page(name)
    read = lambda path: json.load(open(path))
    time = lambda text: datetime.datetime.fromisoformat(text).timestamp()
    begun = read(said)["campaign"]["submitted"]
    ended = read(ended)[0]["at"]
    assert [time(rows[k][0].replace(" UTC", "+00:00")) for k in ("Begun", "Ended")] == [begun, ended], (rows["Begun"], rows["Ended"])
    assert rows["Wall time"] == [f"{ended - begun:.1f} s"] or ended - begun > 9, rows["Wall time"]
    assert rows["User"] == [pathlib.Path(folder).owner()]
    assert rows["Hosts of workers"] == [", ".join({r["worker"].rsplit(":", 1)[0] for r in read(workers)})], rows["Hosts of workers"]

def copies(source, folder):
    """Eight outputs whose em scores are a little off; those of the sixth are far off, of the third held in part."""
    for k in range(8):
        to = f"{folder}/d{k}.scores.h5"
        shutil.copy(source, to)
        with h5py.File(to, "r+") as f:
            t = f["emtrkmichel"]
            t["em"][:] = t["em"][:] + np.float32(0.001 * (k % 3) + 0.07 * (k == 5))
            if k == 2:
                t["status"][:50] = 3

def drift(name, folder):
    d, _ = page(name)
    means = []
    for k in range(8):
        with h5py.File(f"{folder}/d{k}.scores.h5") as f:
            t = f["emtrkmichel"]
            done = t["status"][:] == 0
            means.append([t[n][:][done].astype(float).mean() for n in NAMES])
            row = next(r for r in d["rows"] if r[0] == f"{k + 1}: {folder}/d{k}.scores.h5")
            assert row[1:] == [count(done.sum())] + [f"{m:.4f}" for m in means[-1]], (row, means[-1])
    means = np.array(means)
    middle = np.median(means, 0)
    most = np.maximum(0.005, 5 * 1.4826 * np.median(np.abs(means - middle), 0))
    named = re.findall(r"(\S+): its mean score of (\w+) is ([\d.]+); the median is ([\d.]+), and ([\d.]+) apart", d["text"])
    wanted = [(f"{folder}/d{i}.scores.h5", NAMES[k], f"{means[i, k]:.4f}", f"{middle[k]:.4f}", f"{most[k]:.4f}")
              for k in range(4) for i in range(8) if abs(means[i, k] - middle[k]) > most[k]]
    assert named == wanted and (wanted[0][0].endswith("d5.scores.h5"), len(wanted)) == (True, 1), (named, wanted)

def sides(a, b):
    """Ids (n, 4), ordered, and scores (n, 4) of the hits that both outputs scored, whose rows are the same; what they are called."""
    with h5py.File(a) as f, h5py.File(b) as g:
        t, u = f["emtrkmichel"], g["emtrkmichel"]
        ids = np.stack([t[n][:] for n in ("run", "subrun", "event", "hit_id")], 1)
        s, r = (np.stack([v[n][:] for n in NAMES], 1).astype(float) for v in (t, u))
        done = (t["status"][:] == 0) & (u["status"][:] == 0)
    order = np.lexsort(ids.T[::-1])
    order = order[done[order]]
    ids, s, r = ids[order], s[order], r[order]
    return ids, s, r, *(np.where(v[:, 3] >= 0.5, 3, v[:, :3].argmax(1)) for v in (s, r))

def hit_rows(ids, s, r, p, q):
    """Rows of hits that are called otherwise, those whose scores differ most first."""
    apart = np.abs(s - r).max(1)
    other = np.flatnonzero(p != q)
    first = other[np.argsort(-apart[other], kind="stable")]
    return [[":".join(map(str, ids[i])), f"{NAMES[p[i]]} {s[i, p[i]]:.4f}", f"{NAMES[q[i]]} {r[i, q[i]]:.4f}", f"{apart[i]:.4f}"] for i in first]

def both_truths(d, *pairs):
    """The section on truth of a page of wiremill compare: INPUT, OUTPUT of A, OUTPUT of B of each pair."""
    side = [[np.concatenate(v) for v in zip(*(hits(p[0], p[1 + k]) for p in pairs))] for k in range(2)]
    called = [np.where(s[:, 3] >= 0.5, 3, s[:, :3].argmax(1)) for _, s, _ in side]
    n = [count(len(t)) for t, _, _ in side]
    assert f"Hits with truth and scores: {n[0]} in A, {n[1]} in B, of {len(pairs)} pair" in d["text"], n
    right = [share((c == t).sum(), len(t)) for c, (t, _, _) in zip(called, side)]
    assert f"Called what they are: {right[0]} of the hits in A, {right[1]} in B." in d["text"], right
    table = [r for r in d["rows"] if r[0] in NAMES and len(r) == 8 and r[2].endswith("%")]
    for k, label in enumerate(NAMES):
        is_ = [t == k for t, _, _ in side]
        found = [(i & (c == k)).sum() for i, c in zip(is_, called)]
        area = [auc(s[i, k], s[~i, k]) for i, (_, s, _) in zip(is_, side)]
        wanted = ([label, count(is_[0].sum())] + [share(f, i.sum()) for f, i in zip(found, is_)] +
                  [share(f, (c == k).sum()) for f, c in zip(found, called)] + [f"{a:.4f}" for a in area])
        assert table[k] == wanted, (table[k], wanted)
        for nth in range(2):
            points = curve(d["source"], f"ROC of {label} in A and B", 1 + nth)
            drawn = (np.diff(points[:, 0]) * (points[1:, 1] + points[:-1, 1]) / 2).sum()
            assert abs(drawn - area[nth]) < 0.01, (label, nth, drawn, area)
    assert any(r[2] != r[3] for r in table), table

def changed(name, events, a, b):
    """The page of wiremill compare A B: hits that are called otherwise, and truth."""
    d, _ = page(name)
    both_truths(d, (events, a, b))
    wanted = hit_rows(*sides(a, b))
    found = [row for row in d["rows"] if re.fullmatch(r"\d+:\d+:\d+:\d+", row[0])]
    assert f"{min(50, len(wanted))} of {count(len(wanted))}, those whose" in d["text"] and len(wanted) > 3, len(wanted)
    assert [row[:4] for row in found] == wanted[:50], (found[:3], wanted[:3])

def campaigns(name, a, b, *pairs):
    """The page of two campaigns: STEM=STEM, and one more output in B; a page of an event beside the first of B."""
    d, rows = page(name)
    sums, listed = np.zeros(4, int), []
    for pair in pairs:
        x, y = pair.split("=")
        with h5py.File(f"{a}/{x}.scores.h5") as f, h5py.File(f"{b}/{y}.scores.h5") as g:
            n = [len(v["emtrkmichel/status"]) for v in (f, g)]
        ids, s, r, p, q = sides(f"{a}/{x}.scores.h5", f"{b}/{y}.scores.h5")
        over = (np.abs(s - r) > 1e-5).any(1).sum()
        named = f"{x}.scores.h5" + (f" and {y}.scores.h5" if x != y else "")
        most = float(f"{np.abs(s - r).max():.3g}")
        row = rows[named]
        assert row[:8] == [count(v) for v in (n[0], n[1], n[0], 0, 0, 0, over, (p != q).sum())], (named, row)
        assert abs(float(row[8]) - most) <= 2e-3 * most, (row, most)
        sums += [n[0], n[1], over, (p != q).sum()]
        for one in hit_rows(ids, s, r, p, q):
            listed.append(one + [named])
    assert sums[3] > 3 and rows["Hits of pairs"] == [count(sums[0]), count(sums[1])], sums
    assert rows["more.scores.h5"][0] == "only in B" and "The same: 2 of 4 outputs; only in A: 0; only in B: 1; not compared: 0." in d["text"]
    listed = sorted(listed, key=lambda h: -float(h[3]))[:50]
    found = [row for row in d["rows"] if re.fullmatch(r"\d+:\d+:\d+:\d+", row[0])]
    assert [f[:4] for f in found] == [h[:4] for h in listed], (found[:3], listed[:3])
    assert all(f[4].startswith(h[4]) for f, h in zip(found, listed)), found[:3]
    assert f'{listed[0][4]} <a href="b/e2.html#{listed[0][0]}">B</a>' in d["source"], listed[0]
    both_truths(d, *((f"{a}/../{p.split('=')[0]}.h5", f"{a}/{p.split('=')[0]}.scores.h5", f"{b}/{p.split('=')[1]}.scores.h5") for p in pairs))
    assert "a <note>" in d["text"] and "No page of an event" not in d["text"]

if __name__ == "__main__":
    dict(truth=truth, parts=parts, maps=maps, files=files, origin=origin, copies=copies, drift=drift, changed=changed, campaigns=campaigns)[sys.argv[1]](*sys.argv[2:])
