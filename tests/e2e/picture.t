#!/bin/bash
# picture.t - pictures of events: wiremill show --output, against the same made of input and output by NumPy.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_labelled || bail "no model or events"
cp "$made/layout.h5" "$work/layout.h5"
"$bin/wiremill" run --quiet --model "$made/model-${small}1.wmm" --input "$work/layout.h5" --output "$work/out" \
    --spec "$work/labels.yaml" >/dev/null || bail "no scores"
"$bin/wiremill" cut --input "$work/layout.h5" --spec "$work/labels.yaml" --patches "$work/patches.npy" || bail "no patches"
scores=$work/out/layout.scores.h5
cat >"$work/picture.py" <<'PYTHON'
"""picture.py - make SCORES EVENTS FOLDER: files to draw, and a range with hits; look FOLDER SCORES EVENTS: into all pictures"""
import base64, hashlib, re, shutil, struct, sys, traceback, zlib
import xml.etree.ElementTree as xml
import h5py, numpy as np

SVG = "{http://www.w3.org/2000/svg}"
COLOUR = {"track": "#0b5fb4", "em": "#a81420", "michel": "#cf7d00", "none": "#8a8a8a"}
COLUMNS = ["wire-0", "tick-0", "status-0", "id-0", "truth-0"] + ["score-%d" % k for k in range(4)]
SCRIPTS = {""} | {' type="text/plain" data-name="%s"' % name for name in COLUMNS}
LABELS = list(("track", "em", "none", "michel"))

def decode(href):
    """pixels of a PNG with a palette"""
    data = base64.b64decode(href.removeprefix("data:image/png;base64,"), validate=True)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body, ended = 8, b"", False
    while at < len(data):
        n, kind = struct.unpack(">I4s", data[at:at + 8])
        part = data[at + 8:at + 8 + n]
        assert struct.unpack(">I", data[at + 8 + n:at + 12 + n])[0] == zlib.crc32(kind + part), kind
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", part[:10])
            assert (depth, colour) == (8, 3)
        body += part if kind == b"IDAT" else b""
        ended = kind == b"IEND"
        at += 12 + n
    assert ended
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    return rows[:, 1:]

class Plot:
    def __init__(self, element):
        self.title = element.find(SVG + "title").text
        self.about = element.find(SVG + "desc").text
        image = element.find(".//" + SVG + "image")
        self.frame = [float(image.get(a)) for a in ("x", "y", "width", "height")]
        self.pixel = decode(image.get("href"))
        self.dots = {}
        for path in element.findall(SVG + "path"):
            if path.get("stroke-linecap"):
                self.dots[path.get("stroke")] = [tuple(map(float, p)) for p in re.findall(r"M(\S+) (\S+?)h0", path.get("d"))]
        self.cm = []  # (place on an edge, the edge, cm)
        for tick in element.findall(SVG + "g[@class='cm']/" + SVG + "path"):
            x0, y0, x1, y1 = map(float, re.findall(r"[\d.]+", tick.get("d")))
            value = float(element.findall(SVG + "g[@class='cm']/" + SVG + "text")[len(self.cm)].text.removesuffix(" cm"))
            self.cm.append((x0, y0, value) if x0 == x1 else (y0, x0, value))
        self.marks = [c for c in element.findall(SVG + "circle") if c.get("r") == "9"]
        self.boxes = [[float(r.get(a)) for a in ("x", "y", "width", "height")] for r in element.findall(SVG + "rect[@class='patch']")]

def plots(path):
    text = open(path, encoding="utf-8").read()
    if text.startswith("<!doctype html>"):
        assert text.count("<script>") == 1 and set(re.findall(r"<script([^>]*)>", text)) <= SCRIPTS
        digest = hashlib.sha256(re.search(r"<script>(.*?)</script>", text, re.S)[1].encode()).digest()
        assert "script-src 'sha256-%s'\"" % base64.b64encode(digest).decode() in text
        assert not re.search(r'(src|href)="(?!data:|#)', text) and not re.search(r"https?://(?!www.w3.org/2000/svg)", text)
        charge = dict(re.findall(r'(?s)<g id="(charge-\d+)"[^>]*>(.*?)</g>', text))
        text = re.sub(r'<use href="#(charge-\d+)"/>', lambda use: charge[use[1]], text)
        text = re.sub(r"(?s)<div hidden><svg.*?</div>", "", text)  # what only the script draws
        return [Plot(xml.fromstring(s)) for s in re.findall(r"<svg.*?</svg>", text, re.S)]
    return [Plot(e) for e in xml.fromstring(text).findall(SVG + "svg")]

def tables(scores, events):
    with h5py.File(scores) as f, h5py.File(events) as g:
        t = {n: f["emtrkmichel"][n][:] for n in f["emtrkmichel"]}
        h = {n: g["hit_table"][n][:].squeeze() for n in ("wire", "time", "truth")}
    s = np.stack([t[n] for n in LABELS])
    return t, h, s, np.where(s[3] >= .5, 3, s[:3].argmax(0))

def table_plane(g):
    return g["plane_table/plane"][:].squeeze()

def hits(path, scores, events, event, plane):
    """every hit of the plane is a dot of its colour at its place; beside it the same by truth"""
    t, h, s, best = tables(scores, events)
    on = (t["event"] == int(event)) & (t["plane"] == int(plane)) & (t["tpc"] == 0)
    found = plots(path)
    assert len(found) == 2, len(found)
    for plot, label in zip(found, (best, h["truth"])):
        x, y, w, height = plot.frame
        with h5py.File(events) as g:
            table = g["plane_table"]
            n_wire = table["n_wire"][:].squeeze()[(table["plane"][:].squeeze() == int(plane))][0]
            n_tick = g["event_table/n_tick"][:].squeeze()[0]
        for k, name in enumerate(LABELS):
            mine = on & (label == k) & (t["status"] == 0)
            wanted = sorted((x + w * (h["wire"][mine] + .5) / n_wire).tolist())
            got = sorted(d[0] for d in plot.dots.get(COLOUR[name], []))
            assert len(got) == mine.sum() and np.allclose(got, wanted, atol=.06), (name, len(got), mine.sum())
            wanted = sorted((y + height * (1 - (h["time"][mine] + .5) / n_tick)).tolist())
            assert np.allclose(sorted(d[1] for d in plot.dots.get(COLOUR[name], [])), wanted, atol=.06), name
    with h5py.File(events) as g:
        pitch = g["plane_table/pitch_cm"][:][table_plane(g) == int(plane)][0]
        cm_tick = g["event_table/drift_cm_us"][0] * g["event_table/tick_us"][0]
        zero = g["event_table/trigger_offset"][0]
    for place, end, value in found[0].cm:  # scales along the top and the right edge, inside
        wanted = y + height * (1 - (value / cm_tick + zero) / n_tick) if end == x + w else x + w * value / pitch / n_wire
        assert abs(place - wanted) < .06, (place, wanted, value)
    assert len(found[0].cm) > 6 and {end for _, end, _ in found[0].cm} == {y, x + w}
    assert "%d hits" % on.sum() in found[0].about and on.sum() > 50

def charge(path, scores, events, zoom, plane):
    """where there is charge the background is not white, and nowhere else; more charge is not lighter"""
    w0, w1, t0, t1 = map(int, re.split("[:,]", zoom))
    with h5py.File(events) as g:
        wire = g["wire_table"]
        cell = {n: wire[n][:].squeeze() for n in wire}
        roi = {n: g["roi_table"][n][:].squeeze() for n in ("channel", "tick", "n")}
        first = (g["roi_table/event_id"][:] == [1, 1, 1]).all(1)
        adc = g["roi_value/adc"][:].squeeze()
    start = np.concatenate([[0], np.cumsum(roi["n"])])
    value = np.zeros((t1 - t0, w1 - w0))
    for i in np.flatnonzero(first):
        for k in np.flatnonzero((cell["channel"] == roi["channel"][i]) & (cell["plane"] == int(plane))):
            if w0 <= cell["wire"][k] < w1:
                for j in range(roi["n"][i]):
                    if t0 <= roi["tick"][i] + j < t1:
                        value[roi["tick"][i] + j - t0, cell["wire"][k] - w0] = abs(adc[start[i] + j])
    got = plots(path)[0].pixel[::-1]
    assert got.shape == value.shape, (got.shape, value.shape)
    assert ((got > 0) == (value > 0)).all() and (value > 0).sum() > 100, (value > 0).sum()
    order = np.argsort(value.ravel(), kind="stable")
    assert (np.diff(got.ravel()[order].astype(int)) >= 0).all()

def worst(path, scores, events, patches, name):
    """the scored hit whose truth has the lowest score, and its patch"""
    t, h, s, best = tables(scores, events)
    of_truth = s[h["truth"], np.arange(len(h["truth"]))]
    row = int(of_truth.argmin())
    found = plots(path)
    assert len(found) == 3 + 2 * path.endswith(".html"), [p.title for p in found]
    assert all(len(p.marks) == 1 for p in (found if path.endswith(".svg") else found[:-1]))
    near = [p for p in found[:-1] if p.boxes]  # the outline of the patch: its ring is in the cell behind its middle
    assert len(near) == 2 and all(len(p.boxes) == 1 for p in near), [p.boxes for p in found]
    for p in near:
        (x, y, w, height), (left, top, wide, high) = p.boxes[0], p.frame
        assert left - 0.1 <= x and x + w <= left + wide + 0.1 and top - 0.1 <= y and y + height <= top + high + 0.1
        n = np.load(patches).shape[1]
        cx, cy = (float(p.marks[0].get(a)) for a in ("cx", "cy"))
        if left + 0.1 < x and x + w < left + wide - 0.1:
            assert abs((cx - x) / w - (n // 2 + 0.5) / n) < 0.01, (cx, x, w)
        if top + 0.1 < y and y + height < top + high - 0.1:
            assert n // 2 - 0.01 <= (y + height - cy) / height * n <= n // 2 + 1.01, (cy, y, height)
        assert x < cx < x + w and y < cy < y + height
    assert found[-1].title == "The patch of hit %d as the network saw it" % t["hit_id"][row], found[-1].title
    patch = np.load(patches)[row].astype(float)
    wanted = (128 + 127 * patch / np.abs(patch).max()).astype(np.uint8)
    assert (found[-1].pixel[::-1].T == wanted).all() and (wanted != 128).any()
    assert "%d:%d:%d:%d" % tuple(t[n][row] for n in ("run", "subrun", "event", "hit_id")) == name

def score(path, scores, events):
    """dots by bands of one score, in the colours of the legend's bar"""
    t, h, s, best = tables(scores, events)
    on = (t["event"] == 1) & (t["plane"] == 2)
    bar = xml.parse(path).find(".//" + SVG + "g[@class='scale']")
    assert [text.text for text in bar.findall(SVG + "text")] == ["em", "0", "1"]
    shades = [rect.get("fill") for rect in bar.findall(SVG + "rect")]
    n = len(shades)
    bands = np.bincount(np.clip((s[1][on].astype(float) * n).astype(int), 0, n - 1), minlength=n)
    got = [len(plots(path)[0].dots.get(c, [])) for c in shades]
    assert n > 9 and got == bands.tolist(), (got, bands)

def make(scores, events, folder):
    shutil.copy(scores, folder + "/held.h5"), shutil.copy(events, folder + "/no-truth.h5")
    with h5py.File(folder + "/held.h5", "r+") as f:
        n = len(f["emtrkmichel/em"])
        f["emtrkmichel/status"][:9] = 5
        f["emtrkmichel/em"][[3, 700]] += np.float32(0.5), np.float32(-0.25)
        other = ":".join(str(f["emtrkmichel"][c][700]) for c in ("run", "subrun", "event", "hit_id"))
        em = float(f["emtrkmichel/em"][700])
        order = np.random.default_rng(1).permutation(n)
    shutil.copy(events, folder + "/no-place.h5")
    with h5py.File(folder + "/no-place.h5", "r+") as f:
        f["hit_table/wire"][0], f["hit_table/time"][1] = 99999, np.inf
    shutil.copy(scores, folder + "/lost.h5"), shutil.copy(events, folder + "/lost-events.h5")
    with h5py.File(folder + "/lost.h5", "r+") as f, h5py.File(folder + "/lost-events.h5", "r+") as g:
        f["emtrkmichel/run"][0], g["hit_table/event_id"][0] = 9, (9, 1, 1)
    shutil.copy(scores, folder + "/many.h5"), shutil.copy(events, folder + "/many-events.h5")
    with h5py.File(folder + "/many.h5", "r+") as f, h5py.File(folder + "/many-events.h5", "r+") as g:
        id = np.tile([9, 1, 1], (n, 1))  # 1001 events without planes, and then those with planes
        id[:, 2] = np.minimum(np.arange(n) + 1, 1001)
        id[-50:] = np.stack([f["emtrkmichel"][c][-50:] for c in ("run", "subrun", "event")], 1)
        for k, c in enumerate(("run", "subrun", "event")):
            f["emtrkmichel"][c][:] = id[:, k]
        g["hit_table/event_id"][:] = id
    shutil.copy(folder + "/held.h5", folder + "/shuffled.h5")
    with h5py.File(folder + "/shuffled.h5", "r+") as f:
        for c in f["emtrkmichel"]:
            f["emtrkmichel"][c][:] = f["emtrkmichel"][c][:][order]
    with h5py.File(folder + "/no-truth.h5", "r+") as f:
        t = f["hit_table"]
        del t["truth"]
        i = np.flatnonzero(t["plane"][:].squeeze() == 2)[40]
        w, tick = max(0, int(t["wire"][i]) - 40), max(0, int(t["time"][i]) - 100)
    t, h, s, best = tables(scores, events)
    row = int(s[h["truth"], np.arange(len(h["truth"]))].argmin())
    print("%d:%d,%d:%d" % (w, w + 80, tick, tick + 200), ":".join(str(t[n][row]) for n in ("run", "subrun", "event", "hit_id")), other, "%.7g" % em)

def look(folder, scores, events, zoom, name):
    """each check leaves a file with what is wrong, empty where nothing is"""
    patches = folder + "/patches.npy"
    for what, check, more in (("e.svg", hits, (2, 2)), ("z.svg", charge, (zoom, 2)), ("w.svg", worst, (patches, name)),
                              ("w.html", worst, (patches, name)), ("s.svg", score, ())):
        with open(folder + "/" + what + ".wrong", "w") as wrong:
            try:
                check(folder + "/" + what, scores, events, *more)
            except Exception:
                traceback.print_exc(file=wrong)

dict(make=make, look=look)[sys.argv[1]](*sys.argv[2:])
PYTHON
read -r zoom worst other em < <($python "$work/picture.py" make "$scores" "$work/layout.h5" "$work") || bail "nothing to draw"
show () { keep "$bin/wiremill" show "$scores" "$@"; }

plane () { show --event 1:1:2 --plane 2 --output "$work/e.svg" && [ ! -s "$work/said" ]; }
ok "a plane as SVG" plane
again () { cp "$work/e.svg" "$work/first.svg" && show --event 1:1:2 --plane 2 -o "$work/e.svg" && cmp "$work/e.svg" "$work/first.svg"; }
ok "the same bytes again" again
ok "a part of it" show --event 1:1:1 --plane 2 --zoom "$zoom" --output "$work/z.svg"
ok "the worst hit" show --worst --output "$work/w.svg"
hit () { show --hit "$worst" --output "$work/h.svg" && cmp "$work/h.svg" "$work/w.svg"; }
ok "... by its name" hit
ok "by one score" show --event 1:1:1 --plane 2 --score em --output "$work/s.svg"
page ()
{
    show --worst --output "$work/w.html" && show --event 1:1:3 --output "$work/e.html" &&
        [ "$(grep -c '<h2 id="plane-[012]">Cryostat 0, TPC 0, plane [012] ([UVW])</h2>' "$work/e.html")" = 3 ] &&
        [ "$(grep -c '<image' "$work/e.html")" = 3 ] && [ "$(grep -c '<use' "$work/e.html")" = 3 ] && grep -q '<h1>Event 1:1:3</h1>' "$work/e.html"
}
ok "a page of all planes of an event" page
against ()
{
    show --worst --against "$work/shuffled.h5" --output "$work/a.html" && show --hit "$other" --output "$work/o.svg" &&
        grep -q "<h3>Hit ${other##*:} on wire" "$work/a.html" && grep -q ">$em</td>" "$work/a.html" &&
        show --worst --against "$work/shuffled.h5" --output "$work/a.svg" && cmp "$work/a.svg" "$work/o.svg"
}
ok "the hit that differs most from another output; one that is held there does not count" against
$python "$work/picture.py" look "$work" "$scores" "$work/layout.h5" "$zoom" "$worst" || bail "pictures could not be looked into"
right () { cat "$work/$1.wrong" && [ ! -s "$work/$1.wrong" ]; } # picture
ok "each hit is a dot of its score's colour at its place, and of its truth's" right e.svg
ok "the charge behind the hits is that of the input" right z.svg
ok "the worst hit is that by NumPy, and its patch that of wiremill cut" right w.svg
ok "... on a page" right w.html
ok "bands of one score" right s.svg
colours ()
{
    "$bin/wiremill" show "$work/held.h5" --event 1:1:1 --plane 0 --score em -o "$work/shades.svg" >/dev/null &&
        keep python3 tests/e2e/colours.py "$work/w.html" "$work/shades.svg"
}
ok "colours of labels, scores and held hits are seen and told apart, on white and on dark, by colour-blind eyes too" colours
elsewhere ()
{
    mv "$work/layout.h5" "$work/moved.h5"
    refused 5 "the input $work/layout.h5 of .* cannot be read here: No such file.*--input" "$bin/wiremill" show "$scores" -o "$work/m.svg" &&
        show --event 1:1:2 --plane 2 --input "$work/moved.h5" -o "$work/m.svg" && mv "$work/moved.h5" "$work/layout.h5" &&
        cmp "$work/m.svg" "$work/e.svg"
}
ok "an input that was moved" elsewhere
held () { "$bin/wiremill" show "$work/held.h5" -o "$work/held.svg" --event 1:1:1 --plane 0 && grep -q '>held 9</text>' "$work/held.svg"; }
ok "held hits are drawn as such" held

nowhere () # hit_id, wire, reason: the page has the whole plane, no patch, and why the hit is held
{
    "$bin/wiremill" show "$work/held.h5" --input "$work/no-place.h5" --hit "1:1:1:$1" --output "$work/nowhere.html" &&
        [ "$(sed '/^<div hidden><svg/,/<.div>$/d' "$work/nowhere.html" | grep -c '<image\|<use')" = 2 ] && grep -q "<h3>Hit $1 on wire $2 at tick $3" "$work/nowhere.html" &&
        grep -q '<p>Held: held</p>' "$work/nowhere.html" && ! grep -q 'nan\|r="9"' "$work/nowhere.html"
}
ok "a hit on no wire" nowhere 0 99999 '[0-9]'
ok "a hit at no time" nowhere 1 '[0-9]*' inf

no () # code, pattern, arguments...
{
    local code=$1 pattern=$2
    shift 2
    refused "$code" "$pattern" "$bin/wiremill" show "$scores" "$@"
}
for ending in png jpg; do
    ok "another kind of picture: $ending" no 2 "name a file that ends in .svg or .html .rsvg-convert .* PNG" -o "$work/e.$ending"
done
ok "an event that is not there" no 2 'has no hits of event 1:1:9' --event 1:1:9 -o "$work/n.svg"
ok "a hit that is not there" no 2 'has no hits of event 1:1:1 with this hit_id' --hit 1:1:1:99999 -o "$work/n.svg"
ok "a plane that is not there" no 2 'the event has no such plane; it has 3' --plane 7 -o "$work/n.svg"
ok "an event that the input lacks" refused 2 'lost-events.h5: event 9:1:1 has no planes there.*: choose another by --event' \
    "$bin/wiremill" show "$work/lost.h5" --input "$work/lost-events.h5" -o "$work/n.svg"
many () { "$1" 2 "$2" "$bin/wiremill" show "$work/many.h5" --input "$work/many-events.h5" --events "$3" -o "$work/many.html"; } # refused, message, events
drawn ()
{
    "$bin/wiremill" show "$work/many.h5" --input "$work/many-events.h5" --events 1000-1002 -o "$work/many.html" && [ "$(grep -c '<section class="event">' "$work/many.html")" = 1 ] &&
        [ "$(grep -o '<p>Not drawn: .*: event 9:1:[0-9]* has no planes there' "$work/many.html" | sed 's/.* event //; s/ has.*//' | xargs)" = '9:1:1000 9:1:1001' ]
}
ok "a page of events beyond the thousandth: those without planes are named, the others are drawn" drawn
ok "... none of which has planes" many refused 'many-events.h5: event 9:1:3 has no planes there' 3-5
ok "... more than a page has" many refused '1002 events are asked for, and a page has at most 1000: name some of the 1002 ' all
ok "a score that is not there" no 2 'no such score' --score muon -o "$work/n.svg"
ok "no event's name" no 2 "takes RUN:SUBRUN:EVENT, not '1:2'" --event 1:2 -o "$work/n.svg"
ok "no hit's name" no 2 'takes RUN:SUBRUN:EVENT:HIT_ID' --hit 1:2:3 -o "$work/n.svg"
ok "no range" no 2 'zoom takes WIRE:WIRE,TICK:TICK' --zoom 5:3,1:2 -o "$work/n.svg"
ok "a hit and an event" no 2 'leave out --event and --worst' --hit 1:1:1:1 --worst -o "$work/n.svg"
ok "an event and the worst hit" no 2 'worst chooses the event' --event 1:1:1 --worst -o "$work/n.svg"
ok "another output without --worst" no 2 'against is for --worst' --against "$scores" -o "$work/n.svg"
gone='none.h5 does not exist'
ok "another output that is not there" no 2 "$gone" --worst --against "$work/none.h5" -o "$work/n.svg"
ok "an input that is not there" no 2 "$gone" --input "$work/none.h5" -o "$work/n.svg"
ok "... planes" no 2 "$gone" --planes "$work/none.h5" --channels "$scores" -o "$work/n.svg"
ok "... channels" no 2 "$gone" --channels "$work/none.h5" -o "$work/n.svg"
ok "... the output itself" refused 2 "$gone" "$bin/wiremill" show "$work/none.h5" -o "$work/n.svg"
ok "planes without channels" no 2 'planes needs the channel map' --planes "$work/held.h5" -o "$work/n.svg"
ok "options of pictures without one" no 2 'event is for a picture: add --output' --event 1:1:1
ok "... of joined files" no 2 'pedestal is for a picture' --pedestal none
ok "a part outside the plane" no 2 'zoom lies outside the plane, which has 1148 wires and 6000 ticks' --event 1:1:1 --plane 0 \
    --zoom 1148:1200,0:9 -o "$work/n.svg"
ok "two outputs" no 2 'draws one output' "$scores" -o "$work/n.svg"
printf 'x: 1\n' >"$work/labels.html"
ok "a file that is no picture is not replaced" no 2 'labels.html is no picture or page of wiremill show; give another name, or --force' -o "$work/labels.html"
make_events one --events 1 --seed 6 --hits 3000 --tpcs 1
ok "another input" no 5 "one.h5: has 4383 hits, the output" --input "$made/one.h5" -o "$work/n.svg"
ok "no output" refused 5 'is not an output of wiremill' "$bin/wiremill" show "$work/layout.h5" --input "$work/layout.h5" -o "$work/n.svg"
ok "... that names no input" refused 5 'layout.h5 states no input: it is no output of wiremill' "$bin/wiremill" show "$work/layout.h5" -o "$work/n.svg"
# Hits and planes in files of their own give the same picture.
joined ()
{
    make_events join --events 3 --seed 8 --hits 600 --tpcs 1 && $python tests/e2e/join.py make "$made/join.h5" "$work" &&
        sed '1i tau_us: 10000\ntrigger_offset: 500' "$work/labels.yaml" >"$work/facts.yaml" &&
        cp "$made/join.h5" "$work" || return
    local run=("$bin/wiremill" run --quiet --model "$made/model-${small}1.wmm" --spec "$work/facts.yaml")
    local planes=(--planes "$work/frames.h5" --channels "$work/channels.csv")
    "${run[@]}" --input "$work/join.h5" --output "$work/one" && "${run[@]}" --input "$work/numl.h5" "${planes[@]}" --output "$work/two" &&
        "$bin/wiremill" show "$work/two/numl.scores.h5" "${planes[@]}" --event 1:1:2 --plane 2 --output "$work/two.svg" &&
        $python -c 'import h5py, sys
with h5py.File (sys.argv[1], "r+") as f: del f["hit_table/truth"], f["plane_table/pitch_cm"], f["event_table/drift_cm_us"]' "$work/join.h5" &&
        "$bin/wiremill" show "$work/one/join.scores.h5" --event 1:1:2 --plane 2 --output "$work/one.svg" && cmp "$work/one.svg" "$work/two.svg"
}
[ "${WM_SIZE:-test}" = test ] || ok "joined files" joined
truthless ()
{
    no 2 'worst compares with the truth, and .*no-truth.h5 has none' --worst --input "$work/no-truth.h5" -o "$work/n.svg" &&
        show --input "$work/no-truth.h5" -o "$work/t.svg" && [ "$(grep -c '<image' "$work/t.svg")" = 1 ]
}
ok "no truth" truthless
none () { [ ! -e "$work/n.svg" ]; }
ok "what failed left no file" none
done_testing
