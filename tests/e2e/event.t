#!/bin/bash
# event.t - the interactive page of an event: its columns against h5py and, in `make proof`, itself in Chromium.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_labelled && make_events display --events 1 --seed 9 --hits 2000 --tpcs 2 || bail "no model or events"
cp "$made/display.h5" "$work/a<b>.h5"
run () { "$bin/wiremill" run --quiet --model "$1" --input "$work/a<b>.h5" --output "$work/out" "${@:2}" >/dev/null; }
if [ -n "$(size '' 1 1)" ]; then
    "$bin/wiremill" import ops/train/emtrkmichel.onnx -o "$work/trained.wmm" >/dev/null && run "$work/trained.wmm" || bail "no scores"
else
    run "$made/model-${small}1.wmm" --spec "$work/labels.yaml" || bail "no scores"
fi
scores=$work/out/a\<b\>.scores.h5
cat >"$work/look.py" <<'PYTHON'
"""look.py - EVENTS SCORES PAGE STEPS: the page's columns are those of the files; steps for browser.py with what it must show"""
import base64, html, json, re, sys, zlib
import h5py, numpy as np

events, scores, path, steps = sys.argv[1:]
page = open(path, encoding="utf-8").read()
LABELS = ["track", "em", "none", "michel"]
with h5py.File(scores) as f, h5py.File(events) as g:
    t = {n: f["emtrkmichel"][n][:] for n in f["emtrkmichel"]}
    h = {n: g["hit_table"][n][:].squeeze() for n in ("wire", "time", "truth")}
order = np.lexsort((np.arange(len(t["tpc"])), t["plane"], t["tpc"], t["cryostat"]))

def column(name, kind):
    plain = zlib.decompress(base64.b64decode(re.search(r'data-name="%s">([^<]*)<' % name, page)[1], validate=True))
    return np.frombuffer(np.frombuffer(plain, "u1").reshape(np.dtype(kind).itemsize, -1).T.tobytes(), kind)

assert (column("wire-0", "<i4") == h["wire"][order]).all() and (column("tick-0", "<f4") == h["time"][order]).all()
assert (column("id-0", "<i4") == t["hit_id"][order]).all() and (column("truth-0", "u1") == h["truth"][order]).all()
assert (column("status-0", "u1") == t["status"][order]).all()
for k, name in enumerate(LABELS):
    assert (column("score-%d" % k, "<f4").view("<u4") == t[name][order].view("<u4")).all(), name
facts = re.search(r'<div id="facts"[^>]*>', page)[0]
assert html.escape("a<b>.scores.h5") in facts, facts
at = 0
for tpc, plane, first, n in re.findall(r'<b [^>]*data-tpc="(\d+)" data-plane="(\d+)"[^>]* data-first="(\d+)" data-count="(\d+)"', page):
    assert int(first) == at and int(n) == ((t["tpc"] == int(tpc)) & (t["plane"] == int(plane))).sum()
    at += int(n)
assert at == len(order) > 500, at
assert page.count('<g id="charge-') == len(set(zip(t["tpc"], t["plane"]))), page.count('<g id="charge-')

# A hit that no other hit of its plane is near to, so that the pointer finds it; the worst one.
score = np.stack([t[n] for n in LABELS])
on = np.flatnonzero((t["tpc"] == 1) & (t["plane"] == 2))
far = [(np.hypot((h["wire"][on] - h["wire"][i]) / 480 * 200, (h["time"][on] - h["time"][i]) / 6000 * 1000)[on != i].min(), i) for i in on]
row = max(far)[1]
worst = int(score[h["truth"], np.arange(len(order))].argmin())
name = lambda i: "1:1:1:%d" % t["hit_id"][i]
inverse = np.argsort(order)
print("until planes.some((p) => p.level)\nquiet")
print("true state.pin === -1 && facts.n === %d" % len(order))
print("true chooseTpc(1) || true")
print("true !!(window.on = () => [view.panels[2], %d])" % inverse[row])
print("true !!(window.at = () => { const b = element.stage.getBoundingClientRect(), p = place(...on()); return [b.left + p.x, b.top + p.y]; })")
print("until view.panels.length === 3 && at()[1] < innerHeight")
print("until view.panels[2].image && view.t0 === 0")
print("true Math.abs(place(...on()).x - view.panels[2].x - %r * view.panels[2].width) < 0.01" % ((float(h["time"][row]) + 0.5) / 6000))
print("true Math.abs(place(...on()).y - view.panels[2].y - %r * view.panels[2].height) < 0.01" % (1 - (float(h["wire"][row]) + 0.5) / 480))
print("until (() => { const [p, i] = on(), q = place(p, i), x = Math.floor((q.x - p.x) * view.ratio), y = Math.floor((q.y - p.y) * view.ratio); "
      "return new Uint32Array(p.image.data.buffer)[y * p.image.width + x] === theme.label[call[i]]; })()")
print("move at()[0] at()[1]")
print("until document.querySelector('#identity')?.textContent === '%s'" % name(row))
print("true document.querySelector('#position').textContent.includes('plane 2 (W), wire %d, tick ')" % h["wire"][row])
for k in range(4):
    print("true Math.abs(document.querySelectorAll('.score span:last-of-type')[0] && Number(document.querySelectorAll('.score span')[%d].textContent) - %r) < 1e-6"
          % (2 * k + 1, float(score[k, row])))
print("true document.querySelector('#verdict').textContent.includes('truth %s')" % LABELS[h["truth"][row]])
print("true state.pin === -1\nclick at()[0] at()[1]\nuntil location.hash === '#%s'" % name(row))
print("key Escape\nuntil state.pin === -1 && location.hash === ''")
print("key n\nuntil location.hash === '#%s'" % name(worst))
print("true planeOf(state.pin).tpc === %d && state.walk === 'worst' && element.walked.textContent.startsWith('1 of ')" % t["tpc"][worst])
print("key n\ntrue location.hash !== '#%s'\nkey p\ntrue location.hash === '#%s'" % (name(worst), name(worst)))
print("load #%s\nuntil planes.some((p) => p.level)\ntrue state.pin === %d" % (name(row), inverse[row]))
print("true view.t1 - view.t0 < facts.ticks && document.querySelector('#identity').textContent === '%s'" % name(row))
print("key 0\ntrue view.t0 === 0 && view.t1 === facts.ticks")
print("wheel at()[0] at()[1] -300\nuntil view.t1 - view.t0 < 5000\ntrue view.panels[2].w1 - view.panels[2].w0 < 440 && view.panels[0].w1 === 1148")
print("true !!(window.seen = [view.t0, view.t1, at()])")
print("drag at()[0] at()[1] at()[0]+100 at()[1]")
print("until Math.abs(view.t0 - seen[0]) > 1\ntrue Math.abs(at()[0] - seen[2][0] - 100) < 1.5 || view.t0 < 0")
print("key 0\nuntil view.t0 === 0")
print("drag view.panels[2].x+element.stage.getBoundingClientRect().left+1 view.panels[2].y+element.stage.getBoundingClientRect().top+1 "
      "view.panels[2].x+view.panels[2].width+element.stage.getBoundingClientRect().left-1 "
      "view.panels[2].y+view.panels[2].height+element.stage.getBoundingClientRect().top-1 shift")
print("until element.box.textContent.includes('Clear')")
inside = (h["wire"][on] > 5) & (h["wire"][on] < 475) & (h["time"][on] > 20) & (h["time"][on] < 5980)
print("true boxed().length >= %d && boxed().length <= %d" % (inside.sum(), len(on)))
print("true csv([%d]).split('\\n')[1].startsWith('1,1,1,%d,0,1,2,%d,')" % (inverse[row], t["hit_id"][row], h["wire"][row]))
for key in ("score", "truth", "wrong", "charge", "call"):
    print("key l\nuntil state.layer === '%s' && document.querySelector('[data-layer=%s]').getAttribute('aria-pressed') === 'true'" % (key, key))
print("true element.rule.textContent === 'Called: michel if its score is at least 0.5, else the largest of the others.'")
print("quiet")
with open(steps, "w") as out:
    json.dump(len(order), out)
PYTHON
cat >"$work/both.py" <<'PYTHON'
"""both.py - make SCORES OTHER: the same hits in another order, some with other scores, some held, two with another identity, one of them in the event
look SCORES OTHER PAGE EVENTS: the page has both by identity; steps for browser.py with what it must show"""
import base64, re, shutil, sys, zlib
import h5py, numpy as np

task, scores, other = sys.argv[1:4]
LABELS = ["track", "em", "none", "michel"]
if task == "make":
    shutil.copy(scores, other)
    random = np.random.default_rng(4)
    with h5py.File(other, "r+") as f:
        t = f["emtrkmichel"]
        n = len(t["run"])
        t["status"][[20, 21, 22]] = 5
        t["run"][30], t["hit_id"][31] = 9, 10**6
        for name in LABELS:
            t[name][100:400] = np.clip(t[name][100:400] + random.uniform(-0.8, 0.8, 300).astype("f4"), 0, 1)
        order = random.permutation(n)
        for name in t:
            t[name][:] = t[name][:][order]
    sys.exit()
page = open(sys.argv[4], encoding="utf-8").read()

def table(path):
    with h5py.File(path) as f:
        return {name: f["emtrkmichel"][name][:] for name in f["emtrkmichel"]}

def column(name, kind):
    plain = zlib.decompress(base64.b64decode(re.search(r'data-name="%s">([^<]*)<' % name, page)[1], validate=True))
    return np.frombuffer(np.frombuffer(plain, "u1").reshape(np.dtype(kind).itemsize, -1).T.tobytes(), kind)

a, b = table(scores), table(other)
keys = lambda t: list(zip(*(t[name].tolist() for name in ("run", "subrun", "event", "hit_id"))))
at = {key: row for row, key in enumerate(keys(b))}
order = np.lexsort((np.arange(len(a["tpc"])), a["plane"], a["tpc"], a["cryostat"]))
match = np.array([at.get(key, -1) for key in keys(a)])[order]
lacks = match < 0
assert lacks.sum() == 2, lacks.sum()
status = column("status-1", "u1")
assert (status == np.where(lacks, 255, b["status"][match])).all()
B = np.stack([column("other-%d" % k, "<f4") for k in range(4)])
for k, name in enumerate(LABELS):
    assert (B[k].view("<u4")[~lacks] == b[name][match[~lacks]].view("<u4")).all(), name
    assert np.isnan(B[k][lacks]).all()
A = np.stack([a[name][order] for name in LABELS])

def called(score, scored):
    return np.where(~scored, 255, np.where(score[3] >= 0.5, 3, score[:3].argmax(0)))

both = (a["status"][order] == 0) & (status == 0)
of_a, of_b = called(A, a["status"][order] == 0), called(B, (status == 0) & ~lacks)
d = np.where(both, (np.abs(A.astype(float) - B) / np.maximum(1, np.abs(A.astype(float)))).max(0), -1)
most, gone, n = int(d.argmax()), int(np.flatnonzero(lacks)[0]), int((of_a != of_b).sum())
assert n > 20 and d[most] > 0.1, n
with h5py.File(sys.argv[5]) as g:
    truth = g["hit_table/truth"][:].squeeze()[order]
name = lambda i: "1:1:1:%d" % a["hit_id"][order[i]]
print("until planes.some((p) => p.level)\nquiet\ntrue state.walk === 'differs' && state.output === 0")
print("true element.rates.querySelector('#otherwise').textContent === '%d of %s are called otherwise in B. B has 1 more, which A lacks.'" % (n, format(len(order), ",")))
for o, (of, score) in enumerate(((of_a, A), (of_b, B))):
    for k in range(4):
        right = ((of == k) & (truth == k)).sum()
        is_k, as_k = ((truth == k) & (of != 255)).sum(), ((of == k) & (truth >= 0)).sum()
        print("true [...element.rates.querySelectorAll('tbody tr')].some((r) => r.cells[0].textContent === '%s %s' && r.cells[1].textContent === (%d).toLocaleString('en') && "
              "r.cells[2].textContent === (%d).toLocaleString('en') && r.cells[3].textContent === share(%d, %d) && r.cells[4].textContent === share(%d, %d))"
              % (LABELS[k], "AB"[o], is_k, as_k, right, is_k, right, as_k))
print("key n\nuntil location.hash === '#%s'" % name(most))
bars = "[...document.querySelectorAll('.score b')]"
for k in range(4):
    for o, value in enumerate((A[k][most], B[k][most])):
        i = 2 * k + o
        print("true document.querySelectorAll('.score span')[%d].textContent === '%s %s'" % (2 * i, LABELS[k], "AB"[o]))
        print("true Math.abs(Number(document.querySelectorAll('.score span')[%d].textContent) - %r) < 1e-6" % (2 * i + 1, float(value)))
        print("true Math.abs(parseFloat(%s[%d].style.width) - %r) < 0.01" % (bars, i, 100 * max(0, min(1, float(value)))))
print("true Math.abs(Number(document.querySelector('#difference').textContent.split(': ')[1]) - %r) < 1e-6" % float(d[most]))
verdict = lambda k: "held" if k == 255 else "called " + LABELS[k]
print("true document.querySelector('#verdict').textContent.startsWith('A: %s; B: %s')" % (verdict(of_a[most]), verdict(of_b[most])))
for key, of in (("", of_a), ("b", of_b), ("b", of_a), ("b", of_b)):
    print(("key b\n" if key else "") + "true state.output === %d" % (of is of_b))
    print("true [%s].every((k, i) => call[i] === k) && document.querySelector('#output').textContent[0] === '%s'" % (",".join(map(str, of)), "AB"[of is of_b]))
    print("true paint[%d] === %s" % (most, "theme.label[%d]" % of[most]))
print("true document.querySelector('[aria-label=\"whose scores\"] [aria-pressed=true]').textContent === 'B'")
print("true setLayer('differs') || paint.filter(Boolean).length === %d" % n)
print("true (() => { const drawn = [%s]; return drawn.every((i) => paint[i]); })()" % ",".join(map(str, np.flatnonzero(of_a != of_b))))
print("true pin(%d, 'go') || document.querySelector('#verdict').textContent.includes('B: not in this output')" % gone)
print("true element.legend.textContent.includes('held, or not in B') && csv([%d]).includes(',lacking,held,')" % gone)
print("true setBlink() || state.blink !== 0\nuntil state.output === 0\nuntil state.output === 1\ntrue setBlink() || state.blink === 0")
print("quiet")
PYTHON
cat >"$work/cells.py" <<'PYTHON'
"""cells.py - SCORES PAGE [no]: the page of an image's event has its values and its charge; steps for browser.py with what it must show"""
import base64, re, sys, zlib
import h5py, numpy as np
sys.path.insert(0, "tests/e2e")
import image

scores, path = sys.argv[1:3]
page = open(path, encoding="utf-8").read()
n_bin = image.TICKS // image.WINDOW

def column(name):
    found = re.search(r'data-name="%s">([^<]*)<' % name, page)
    plain = found and zlib.decompress(base64.b64decode(found[1], validate=True))
    return found and np.frombuffer(np.frombuffer(plain, "u1").reshape(4, -1).T.tobytes(), "<f4").reshape(-1, n_bin)

first = np.cumsum([0] + list(image.PLANES.values()))
with h5py.File(scores) as f:
    frame = f["5/frame_dnnroi"][:]
value, charge, seen = [], [], image.images()
wire = np.flatnonzero(seen[5, 0].any(1))[0]
seen[5, 0][wire, np.flatnonzero(seen[5, 0][wire])[0] + 5] = 0  # the sample that is NaN in the file
for p in image.PLANES:
    value.append(column("value-%d" % p))
    assert (value[p].view("<u4") == frame[first[p]:first[p + 1]].view("<u4")).all()
    ticks = seen[5, p].reshape(-1, n_bin, image.WINDOW)
    charge.append(np.take_along_axis(ticks, np.abs(ticks).argmax(2)[:, :, None], 2)[:, :, 0])
    got = column("charge-%d" % p)
    wanted = None if len(sys.argv) > 3 else charge[p]
    assert np.array_equal(got, wanted), p
print("until view.panels.length === 3\nquiet")
if len(sys.argv) > 3:
    print("true element.legend.textContent.includes('Without charge: ') && !hasCharge() && state.layer === 'value'")
    sys.exit()
finite = np.concatenate([v[np.isfinite(v)] for v in value])
for least in np.float32(np.quantile(finite, [0.2, 0.5, 0.9])):
    print("true setValue(%r) || true" % float(least))
    for p, (v, c) in enumerate(zip(value, charge)):
        above, c = np.nan_to_num(v, nan=-1) >= least, np.abs(c).astype(float)
        print("true [...element.rates.querySelectorAll('tbody tr')][%d].textContent === '%s' + count(%d) + share(%d, %d) + share(%r, %r)"
              % (p, "plane %d (%s)" % (p, "UVW"[p]), above.sum(), above.sum(), np.isfinite(v).sum(), float(c[above].sum()), float(c.sum())))
print("true !!(window.middle = (k, w, b) => { const p = view.panels[k], box = element.stage.getBoundingClientRect(), at = toScreen(p, b + 0.5, w + 0.5); return [at.x + box.left, at.y + box.top, at.x - p.x, at.y - p.y]; })")
print("true !!(window.pixel = (k, w, b) => { draw(); const { image } = view.panels[k], [, , x, y] = middle(k, w, b); return new Uint32Array(image.data.buffer)[Math.floor(y * view.ratio) * image.width + Math.floor(x * view.ratio)]; })")
held = np.argwhere(np.isnan(value[1]))
places = [(1, *np.argwhere(value[1] >= least)[3]), (1, *np.argwhere(value[1] < least)[5])] + [(2, *np.argwhere(charge[2] > 0)[7])] + ([(1, *held[0])] if len(held) else [])
for p, wire, bin in places:
    v = value[p][wire, bin]
    print("move middle(%d,%d,%d)[0] middle(%d,%d,%d)[1]" % (p, wire, bin, p, wire, bin))
    print("until document.querySelector('#position')?.textContent === 'TPC 0, plane %d (%s), wire %d, drift bin %d (ticks %d to %d)'" % (p, "UVW"[p], wire, bin, 4 * bin, 4 * bin + 3))
    print("true document.querySelector('#value').textContent.includes('held')" if np.isnan(v) else
          "true Math.abs(parseFloat(document.querySelector('#value').textContent.split(': ')[1]) - %r) < 1e-6 && document.querySelector('#value').textContent.includes('below') === %s"
          % (float(v), str(bool(v < least)).lower()))
    print("true parseFloat(document.querySelector('#charge').textContent.split(': ')[1]) === %r" % float(charge[p][wire, bin]))
    for layer in ("value", "charge", "both"):
        print("true setLayer('%s') || (() => { const p = planes[%d], i = %d, c = theme.charge[p.level[i]], { from, to } = facts.span, m = p.value[i] >= state.value ? theme.score[1 + Math.round((p.value[i] - from) / (to - from) * 254)] : 0;"
              "return pixel(%d, %d, %d) === (%s); })()" % (layer, p, wire * n_bin + bin, p, wire, bin, {"value": "m || theme.paper", "charge": "c", "both": "m ? over(c, m, state.opacity) : c"}[layer]))
print("quiet")
PYTHON
show () { keep "$bin/wiremill" show "$scores" "$@"; }
page () { show --output "$work/e.html" && $python "$work/look.py" "$work/a<b>.h5" "$scores" "$work/e.html" "$work/n" >"$work/steps"; }
ok "identity, place, scores, truth and status of each hit are on the page to the last bit" page
both () # a page of two outputs, and steps for it
{
    $python "$work/both.py" make "$scores" "$work/b.scores.h5" && show --against "$work/b.scores.h5" --output "$work/b.html" &&
        $python "$work/both.py" look "$scores" "$work/b.scores.h5" "$work/b.html" "$work/a<b>.h5" >"$work/steps-b"
}
ok "with --against, status and scores of the same hits of the other output, too; a hit that it lacks has none" both
image () # an output of images, with a held tile, and its page
{
    $python tests/e2e/image.py make "$work" && $python -c 'import h5py, sys
with h5py.File (sys.argv[1], "r+") as f: f["roi_value/adc"][5] = float ("nan")' "$work/events.h5" &&
        exits 3 "$bin/wiremill" run --quiet --model "$work/unet.onnx" --spec "$work/image.yaml" --output "$work/image" --input "$work/events.h5" &&
        "$bin/wiremill" show "$work/image/events.scores.h5" --output "$work/i.html"
}
cells () { $python "$work/cells.py" "$work/image/events.scores.h5" "$work/$1.html" "${@:2}" >"$work/steps-$1"; }
if image >"$work/said" 2>&1; then
    ok "a page of images has each value to the last bit, and the charge that the network saw" cells i
    away () { mv "$work/events.h5" "$work/away.h5" && "$bin/wiremill" show "$work/image/events.scores.h5" --output "$work/j.html" && cells j no && grep -q 'not on this page: .*events.h5: No such file' "$work/j.html"; }
    ok "... without its input the page has the values, and the reason" away
else
    cat "$work/said" && bail "no images"
fi
cat >"$work/points.py" <<'PYTHON'
"""points.py - EVENTS SCORES PAGE: each space point is on the page with its hits on the planes; steps for browser.py"""
import base64, re, sys, zlib
import h5py, numpy as np

events, scores, path = sys.argv[1:]
page = open(path, encoding="utf-8").read()

def column(name, kind):
    plain = zlib.decompress(base64.b64decode(re.search(r'data-name="%s">([^<]*)<' % name, page)[1], validate=True))
    return np.frombuffer(np.frombuffer(plain, "u1").reshape(np.dtype(kind).itemsize, -1).T.tobytes(), kind)

with h5py.File(events) as f, h5py.File(scores) as g:
    of = lambda table, k: f[table][k][:]
    hit = {i: (p, w, t) for e, i, p, w, t in zip(of("hit_table", "event_id")[:, 2], *(of("hit_table", k)[:, 0] for k in ("hit_id", "local_plane", "local_wire", "local_time"))) if e == 17}
    mine = of("spacepoint_table", "event_id")[:, 2] == 17
    ids, parts, score = of("spacepoint_table", "spacepoint_id")[mine, 0], of("spacepoint_table", "hit_id")[mine], g["triples/signal"][:][mine]
wanted = {(int(i), *hit[h][:2], np.float32(hit[h][2])): s for i, three, s in zip(ids, parts, score) for h in three if h >= 0}
first = [(int(p), int(a), int(n)) for p, a, n in re.findall(r'data-plane="(\d)"[^>]*data-first="(\d+)" data-count="(\d+)"', page)]
plane = np.concatenate([[p] * n for p, a, n in first])
got = list(zip(column("id-0", "<i4").tolist(), plane.tolist(), column("wire-0", "<i4").tolist(), column("tick-0", "<f4")))
assert len(got) == len(set(got)) == len(wanted) and set(got) == set(wanted), (len(got), len(wanted))
s = column("score-1", "<f4")
assert all(np.float32(wanted[key]).tobytes() == s[i].tobytes() for i, key in enumerate(got))
print("until planes.some((p) => p.level)\nquiet\ntrue facts.count === %d && facts.n === %d && tpcs[0].hits === %d" % (len(ids), len(got), len(ids)))
for i in [i for i, n in zip(ids, (parts >= 0).sum(1)) if n > 1][:2]:
    rows = [(k, key) for k, key in enumerate(got) if key[0] == i]
    print("true pin(%d, 'go') || location.hash === '#1:0:17:%d'" % (rows[-1][0], i))
    print("until !asked")
    for k, (_, p, wire, tick) in rows:
        print("true document.querySelector('#position').textContent.includes('plane %d (%s), wire %d, tick ' + digits(%r))" % (p, "UVW"[p], wire, float(tick)))
        print("true (() => { const at = place(view.panels[%d], %d), p = view.panels[%d], x = at.x > p.x + p.width / 2 ? at.x - 8 : at.x + 8; "
              "return at.x < p.x || at.x > p.x + p.width || element.over.getContext('2d').getImageData(x * view.ratio, at.y * view.ratio, 1, 1).data[3] > 0; })()" % (p, k, p))
print("noise\nkey Escape\ntrue setLayer('call') || paint.filter(Boolean).length === facts.n")
print("true [...element.rates.querySelectorAll('tbody tr')].reduce((n, r) => n + Number(r.cells[1].textContent), 0) === facts.count")
print("key n\ntrue element.walked.textContent.startsWith('1 of ')\nkey p\nkey n\ntrue element.walked.textContent.startsWith('1 of ')\nquiet")
PYTHON
points () # an output of space points, and its page
{
    $python tests/golden/points.py spacepoints "$work/sp.h5" && $python tests/golden/points.py vgg last 12 40 "$work/vgg.onnx" &&
        printf 'table: triples\npoints: spacepoints\nchannels: 3\npatch: [12, 40]\ndrift_window: 2\namplitude: [1]\nlifetime: none\nadc: [-5000, 5000]\nout: [-100, 100]\nlabels: [noise, signal, other]\n' >"$work/triples.yaml" &&
        exits 3 "$bin/wiremill" run --quiet --model "$work/vgg.onnx" --spec "$work/triples.yaml" --output "$work/points" --input "$work/sp.h5" >/dev/null &&
        "$bin/wiremill" show "$work/points/sp.scores.h5" --event 1:0:17 --output "$work/p.html" &&
        $python "$work/points.py" "$work/sp.h5" "$work/points/sp.scores.h5" "$work/p.html" >"$work/steps-p" &&
        "$bin/wiremill" show "$work/points/sp.scores.h5" --hit "1:0:17:$($python -c 'import h5py, sys; f = h5py.File (sys.argv[1]); print (f["triples/hit_id"][:][(f["triples/event"][:] == 17) & (f["triples/status"][:] == 0)][0])' "$work/points/sp.scores.h5")" \
            --output "$work/q.html" && grep -c '>The patch of space point [0-9]* as the network saw it, channel [012]<' "$work/q.html" | grep -qx 3
}
ok "a page of space points has their hits on each plane, and the patch of one" points
none_extra () { "$bin/wiremill" show "$work/points/sp.scores.h5" --event 1:0:17 --against "$work/points/sp.scores.h5" --output "$work/r.html" && grep -q ' data-extra="0"' "$work/r.html"; }
ok "... of two outputs: a point is counted once, not on each plane" none_extra
cat >"$work/several.py" <<'PYTHON'
"""several.py - look EVENTS SCORES PAGE FROM TO: the page has these events' hits; steps for browser.py
many EVENTS SCORES TO N: copies of an event, as an input and its output, TO.h5 and TO.scores.h5"""
import base64, re, sys, zlib
import h5py, numpy as np

task, events, scores, path, *rest = sys.argv[1:]
if task == "many":
    n = int(rest[0])
    with h5py.File(events) as f, h5py.File(path + ".h5", "w") as g:
        g.attrs.update(f.attrs)
        for t in f:
            for c in f[t]:
                v = np.concatenate([f[t][c][:]] * (1 if t in ("wire_table", "lifetime_table") else n))
                if c == "event_id":
                    v[:, 2] = np.repeat(np.arange(n) + 1, len(v) // n)
                g[t + "/" + c] = v
    with h5py.File(scores) as f, h5py.File(path + ".scores.h5", "w") as g:
        g.attrs.update(f.attrs)
        g.attrs["input"] = np.bytes_((path + ".h5").encode())
        t = f["emtrkmichel"]
        for c in t:
            v = np.tile(t[c][:], n)
            g["emtrkmichel/" + c] = np.repeat(np.arange(n) + 1, len(t[c])).astype(v.dtype) if c == "event" else v
            g["emtrkmichel/" + c].attrs.update(t[c].attrs)
        g["emtrkmichel"].attrs.update(t.attrs)
    sys.exit()
page = open(path, encoding="utf-8").read()
with h5py.File(scores) as f:
    t = {n: f["emtrkmichel"][n][:] for n in f["emtrkmichel"]}
names = ["%d:%d:%d" % k for k in dict.fromkeys(zip(t["run"], t["subrun"], t["event"]))][int(rest[0]) - 1:int(rest[1])]
parts = page.split('class="facts" hidden data-event="')[1:]
assert [p.split('"')[0] for p in parts] == names, (names, [p[:9] for p in parts])
assert len(set(re.findall(r' id="([^"]*)"', page))) == len(re.findall(r' id="([^"]*)"', page))
for name, part in zip(names, parts):
    mine = (t["run"] == int(name.split(":")[0])) & (t["event"] == int(name.split(":")[2]))
    order = np.lexsort((np.arange(mine.sum()), t["plane"][mine], t["tpc"][mine], t["cryostat"][mine]))
    plain = zlib.decompress(base64.b64decode(re.search(r'data-name="id-0">([^<]*)<', part)[1]))
    assert (np.frombuffer(np.frombuffer(plain, "u1").reshape(4, -1).T.tobytes(), "<i4") == t["hit_id"][mine][order]).all() and mine.sum() > 9
    assert re.search(r"<h2>Event %s</h2>" % name, part)
n = [int((t["event"] == int(name.split(":")[2])).sum()) for name in names]
print("until planes.some((p) => p.level)\nuntil events.every((e) => e.thumb.dataset.drawn)\nquiet\ntrue events.length === %d && facts.event === '%s' && facts.n === %d" % (len(n), names[0], n[0]))
print("true events.every((e) => new Set(new Uint32Array(e.thumb.getContext('2d').getImageData(0, 0, 132, 44).data.buffer)).size > 3)\nnoise")
print("true events.map((e) => e.button.textContent).join() === '%s'" % ",".join("%s, %s hits" % (a, format(b, ",")) for a, b in zip(names, n)))
print("key n\ntrue location.hash.startsWith('#%s:')" % names[0])
print("key .\nuntil facts.event === '%s' && location.hash === '#%s'" % (names[1], names[1]))
print("true facts.n === %d && paint.length === %d && state.pin === -1 && document.querySelector('h1').textContent === 'Event %s'" % (n[1], n[1], names[1]))
print("true events[1].button.getAttribute('aria-pressed') === 'true' && document.querySelectorAll('.events [aria-pressed=true]').length === 1")
print("true element.rates.textContent.includes('%s hits with truth and scores of the event')" % format(n[1], ","))
print("true setLayer('truth') || setLeast(0.25) || true\nkey ,\nuntil facts.event === '%s' && planes.some((p) => p.level)\ntrue state.layer === 'truth' && state.least === 0.25" % names[0])
row = int(np.flatnonzero(t["event"] == int(names[2].split(":")[2]))[7])
print("true (location.hash = '#%s:%d') || true\nuntil facts.event === '%s' && column.id[state.pin] === %d" % (names[2], t["hit_id"][row], names[2], t["hit_id"][row]))
print("click events[0].button.getBoundingClientRect().left+20 events[0].button.getBoundingClientRect().top+20\nuntil facts.event === '%s' && location.hash === '#%s'" % (names[0], names[0]))
print("true (history.replaceState(null, '', '#%s:%d'), location.reload(), true)\nuntil facts.event === '%s' && column.id[state.pin] === %d" % (names[2], t["hit_id"][row], names[2], t["hit_id"][row]))
print("true enter(1) && enter(0) && true\nuntil facts.event === '%s' && state.wanted === 0\nquiet" % names[0])
print("media print\ntrue [...document.querySelectorAll('section.event')].filter((s) => getComputedStyle(s).display !== 'none').length === 1")
PYTHON
several () # three events of a file on a page
{
    make_events several --events 4 --seed 6 --hits 300 --tpcs 1 &&
        "$bin/wiremill" run --quiet --model "$made/model-${small}1.wmm" --spec "$work/labels.yaml" --input "$made/several.h5" --output "$work/several" >/dev/null &&
        "$bin/wiremill" show "$work/several/several.scores.h5" --events 2-4 --output "$work/s.html" &&
        $python "$work/several.py" look "$made/several.h5" "$work/several/several.scores.h5" "$work/s.html" 2 4 >"$work/steps-s" &&
        "$bin/wiremill" show "$work/several/several.scores.h5" --events 2-9 --output "$work/s2.html" && cmp "$work/s.html" "$work/s2.html" &&
        "$bin/wiremill" show "$work/several/several.scores.h5" --events all --output "$work/s2.html" && [ "$(grep -c '<section class="event">' "$work/s2.html")" = 4 ]
}
ok "several events of a file are on a page" several
none () { refused 2 "$1" "$bin/wiremill" show "$work/several/several.scores.h5" --output "$work/no.html" "${@:2}"; }
ok "... none that the file lacks" none '--events begins with event 5, and .* has 4' --events 5-7
ok "... none backwards" none "takes FROM-TO, counted from 1, or 'all', not '3-2'" --events 3-2
ok "... not with one event" none 'leave out --event, --hit and --worst' --events 1-2 --event 1:1:1
syntax () { node --check producer/pictures/event.js; }
if command -v node >/dev/null; then ok "the script's syntax" syntax; fi

if [ -z "$(size '' 1 1)" ]; then
    done_testing
elif ! command -v chromium >/dev/null; then
    skip "chromium is not installed (make deps-browser)"
    done_testing
fi
browser () { $python tests/e2e/browser.py "file://$work/${page:-e.html}" >"$work/said" 2>&1 || { cat "$work/said"; return 1; }; }
used () { browser <"$work/steps"; }
ok "in Chromium: hover, click, keys, walks, links, zoom, selection and layers" used
switched () { [ -s "$work/steps-b" ] && page=b.html browser <"$work/steps-b"; }
ok "... of two outputs: b switches, hover has both scores, the layer and the walk of what differs, rates of both" switched
masked () { [ -s "$work/steps-i" ] && page=i.html browser <"$work/steps-i" && page=j.html browser <"$work/steps-j"; }
ok "... of images: values below the pointer, what the threshold takes, each layer's pixels" masked
pointed () { [ -s "$work/steps-p" ] && page=p.html browser <"$work/steps-p"; }
ok "... of space points: a hit on each plane is marked, points are counted once" pointed
picked () { [ -s "$work/steps-s" ] && page=s.html browser <"$work/steps-s"; }
ok "... of several events: thumbnails, keys, links, what is kept" picked
rated () # threshold...: the table is that of wiremill truth
{
    local least
    for least in "$@"; do
        "$bin/wiremill" truth "$work/a<b>.h5" "$scores" --threshold "$least" | sed -n '3,6s/  */ /gp' | cut -d' ' -f1-5 >"$work/wanted"
        [ "$(wc -l <"$work/wanted")" = 4 ] && { echo "until planes.some((p) => p.level)" && echo "true setLeast('$least') || true" &&
            echo "show [...element.rates.querySelectorAll('tbody tr')].map((r) => [...r.cells].map((c) => c.textContent.replace(',', '')).join(' ')).join('\n')"; } |
            browser && diff "$work/said" "$work/wanted" || return 1
    done
}
ok "the threshold's found and right are those of wiremill truth" rated 0.5 0.05 0.3 0.93
# The still pictures are not what is looked at; colours and lengths of bars are set by the script, as styles.
looked ()
{
    {
        echo "until planes.some((p) => p.level)"
        echo "key n"
        echo "true document.querySelector('#still').remove() || true"
        for width in 1440 800 360; do for how in light dark; do
            printf '%s\n' "size $width 900 $how" "until dark === $([ $how = dark ] && echo true || echo false) && view.width < $width" fit \
                "true document.querySelectorAll('[style]').forEach((e) => e.removeAttribute('style')) || true" audit
        done; done
        echo quiet
    } | browser
}
ok "at three widths, light and dark: what readers of screens need, and contrast" looked
looked_image ()
{
    {
        echo "until view.panels.length === 3"
        for width in 1440 360; do for how in light dark; do
            printf '%s\n' "size $width 900 $how" "until dark === $([ $how = dark ] && echo true || echo false) && view.width < $width" fit \
                "true document.querySelectorAll('[style]').forEach((e) => e.removeAttribute('style')) || document.querySelector('#still')?.remove() || true" audit
        done; done
        echo quiet
    } | page=i.html browser
}
ok "... of images" looked_image
looked_several ()
{
    {
        echo "until events.every((e) => e.thumb?.dataset.drawn)"
        for width in 1440 360; do for how in light dark; do
            printf '%s\n' "size $width 900 $how" "until dark === $([ $how = dark ] && echo true || echo false) && view.width < $width" fit \
                "true document.querySelectorAll('[style]').forEach((e) => e.removeAttribute('style')) || document.querySelector('#still')?.remove() || true" audit
        done; done
    } | page=s.html browser
}
ok "... of several events" looked_several
looked_both () { page=b.html looked; }
ok "... of two outputs" looked_both
still () { printf '%s\n' 'scripts off' "true getComputedStyle(document.querySelector('#still')).display === 'block'" "true document.querySelectorAll('#still svg').length >= 6" fit | browser; }
ok "without scripts the still pictures are there" still
pixels () # charge of each pixel, hits above it; a pointer that moves draws no picture again
{
    {
        echo "until planes.some((p) => p.level)"
        echo "true setLayer('charge') || planes.forEach((p) => { if (p.level) p.level.fill(99, 0, p.ny), p.pools = pooled(p.level, p.nx, p.ny); }) || true"
        echo "true !!(window.least = (panel, x, y) => { const { plane } = panel, { width, height } = panel.image, of = (n, a, b, from, to, size, i) => Math.floor((a + (b - a) * i / n - from) / (to - from) * size);" \
            "const pool = Math.max(0, Math.min(plane.pools.length - 1, Math.floor(Math.log2((panel.w1 - panel.w0) / plane.wires * plane.nx / height)))), { level, nx } = plane.pools[pool], wires = nx * 2 ** pool;" \
            "const w1 = of(height, panel.w1, panel.w0, 0, wires, nx, y), w0 = Math.min(w1, of(height, panel.w1, panel.w0, 0, wires, nx, y + 1) + 1);" \
            "const c0 = of(width, view.t0, view.t1, 0, facts.ticks, plane.ny, x), c1 = Math.max(c0 + 1, of(width, view.t0, view.t1, 0, facts.ticks, plane.ny, x + 1)); let most = 0;" \
            "for (let w = Math.max(0, w0); w <= Math.min(nx - 1, w1); w++) for (let c = Math.max(0, c0); c < Math.min(plane.ny, c1); c++) most = Math.max(most, level[w * plane.ny + c]); return most; })"
        for zoom in 1.1 0.6 0.2 0.03; do
            echo "true (() => { home(); each((p, k) => { const at = place(p, p.plane.first); zoom(p, at.x, at.y, k ? 1 : $zoom, $zoom); }); draw(); let n = 0; for (const p of view.panels) { const shown = new Uint32Array(p.image.data.buffer);" \
                "for (let y = 0; y < p.image.height; y++) for (let x = 0; x < p.image.width; x += 3) { const v = least(p, x, y); n += v > 0; if (shown[y * p.image.width + x] !== theme.charge[v]) throw Error('pixel ' + x + ' ' + y); } } return n > 50; })()"
        done
        echo "true setLayer('charge') || (() => { home(); each((p, k) => { zoom(p, p.x, p.y + p.height, k ? 1 : 0.2, 0.2); pan(p, 60, -30); }); draw();" \
            "for (const p of view.panels) { const shown = new Uint32Array(p.image.data.buffer); for (let y = p.image.height - 60; y < p.image.height; y++) for (let x = 0; x < 99; x++) if (shown[y * p.image.width + x] !== theme.charge[least(p, x, y)]) throw Error('edge ' + x + ' ' + y); } return view.t0 < 0; })()"
        echo "true setLayer('call') || home() || true"
        echo "until !asked"
        echo "true !!(window.n = 0, window.draw = ((old) => () => { n++; old(); })(draw))"
        echo "true !!(window.at = (i) => { const b = element.stage.getBoundingClientRect(), p = place(view.panels.find((p) => p.plane === planeOf(i)), i); return [b.left + p.x, b.top + p.y]; })"
        echo "true !!(window.i = view.panels[0].plane.first + 1)"
        echo "move at(i)[0] at(i)[1]"
        echo "until state.hover >= 0 && !asked"
        echo "true n === 0 && (ask(), true)"
        echo "until n === 1"
    } | browser
}
ok "each pixel has the most charge below it, at four zooms; marks draw no picture" pixels
labels () # no text of the axes lies on another or outside, at three widths, zooms and first ticks
{
    {
        echo "until planes.some((p) => p.level)"
        echo "true !!(window.boxes = [], window.fill = CanvasRenderingContext2D.prototype.fillText, CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {" \
            "fill.call(this, text, x, y); const w = this.measureText(text).width, l = x - w * { left: 0, center: 0.5, right: 1 }[this.textAlign], m = this.getTransform().scale(1 / view.ratio);" \
            "const a = [[l, y - 8], [l + w, y]].map(([u, v]) => [m.a * u + m.c * v + m.e / view.ratio, m.b * u + m.d * v + m.f / view.ratio]);" \
            "boxes.push({ text, x0: Math.min(a[0][0], a[1][0]), x1: Math.max(a[0][0], a[1][0]), y0: Math.min(a[0][1], a[1][1]), y1: Math.max(a[0][1], a[1][1]) }); })"
        echo "true !!(window.meet = () => { boxes.length = 0; draw(); const bad = boxes.filter((b, k) => b.x0 < 0 || b.x1 > view.width || boxes.some((c, j) => j < k && b.x0 < c.x1 && c.x0 < b.x1 && b.y0 < c.y1 && c.y0 < b.y1));" \
            "return boxes.length > 9 ? bad.map((b) => b.text + ' ' + JSON.stringify(b)).join('; ') : 'no texts'; })"
        for width in 360 400 1000; do
            printf '%s\n' "size $width 800" "until Math.abs(view.width - element.stage.clientWidth) < 1 && view.width < $width"
            for first in 0 1234567890123; do for factor in 1 0.3 0.01; do
                echo "true (() => { facts.firstTick = $first; facts.ticks = 6000; home(); each((p) => zoom(p, p.x + 70, p.y + 50, $factor, $factor)); const bad = meet(); if (bad) throw Error(bad); return true; })()"
            done; done
        done
        echo "true (() => { planes.forEach((p) => { p.wires = 100000; p.range = [0, 100000, 0, 6000]; }); view.panels = []; layOut(); home(); const bad = meet(); if (bad) throw Error(bad); return true; })()"
    } | browser
}
ok "no label of an axis lies on another one" labels
paper ()
{
    printf '%s\n' "until planes.some((p) => p.level)" "media print" "true getComputedStyle(document.querySelector('#still')).display === 'block'" \
        "true getComputedStyle(document.querySelector('#live')).display === 'none'" \
        "paper 3" | browser
}
ok "... and on paper" paper
speed () # hits: printed, not judged
{
    make_events "display-$1" --events 1 --seed 5 --hits "$1" --tpcs 1 || return
    "$bin/wiremill" run --quiet --model "$made/model-small-1.wmm" --spec "$work/small.yaml" --input "$made/display-$1.h5" --output "$work/out-$1" >/dev/null &&
        "$bin/wiremill" show "$work/out-$1/display-$1.scores.h5" --output "$work/e.html" && browser <<'STEPS'
until planes.some((p) => p.level)
show facts.n + ' hits, opened in ' + Math.round(performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd) + ' ms'
show new Promise((done) => { let n = 0, begin = performance.now(); const step = () => { zoom(view.panels[0], 300, 100, n % 40 < 20 ? 0.95 : 1 / 0.95, 1); if (++n < 60) requestAnimationFrame(step); else done(Math.round(60000 / (performance.now() - begin)) + ' frames a second'); }; requestAnimationFrame(step); })
quiet
STEPS
    local code=$?
    sed 's/^/# /' "$work/said"
    return $code
}
printf 'patch: [16, 16]\nlabels: [track, em, none, michel]\n' >"$work/small.yaml"
make_model small-1 || bail "no small model"
large () # a page of several has a bound
{
    $python "$work/several.py" many "$made/display-64000.h5" "$work/out-64000/display-64000.scores.h5" "$work/many" 12 &&
        refused 2 '1[0-9] of 12 events pass the 40 MB .*: name fewer by --events, as 1-(9|1[01])$' "$bin/wiremill" show "$work/many.scores.h5" --events all --output "$work/many.html"
}
small_file () # two outputs of 64,000 hits in less than 6 MB
{
    cp "$work/out-64000/display-64000.scores.h5" "$work/same.scores.h5" &&
        "$bin/wiremill" show "$work/out-64000/display-64000.scores.h5" --against "$work/same.scores.h5" --output "$work/same.html" && [ "$(stat -c %s "$work/same.html")" -lt 6000000 ]
}
for n in 64000 100000; do
    ok "$n hits on one TPC" speed $n
    grep '^# ' "$work/output"
done
ok "a page of two outputs has less than 6 MB" small_file
ok "a page of several events has at most 40 MB" large
done_testing
