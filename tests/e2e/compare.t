#!/bin/bash
# compare.t - two files of scores, hit by hit: wiremill compare, and verify --against what somebody else computed.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_labelled || bail "no model or events"
"$bin/wiremill" run --quiet --model "$made/model-${small}1.wmm" --input "$made/layout.h5" --output "$work/out" \
    --layout both --spec "$work/labels.yaml" >/dev/null || bail "no scores"
cat >"$work/change.py" <<'PYTHON'
"""SCORES FOLDER: other.h5, their own table shuffled and changed; larsoft.h5, a table in numl's form that knows no status"""
import sys, shutil, json, h5py, numpy as np
source, folder = sys.argv[1:]
r = np.random.default_rng(3)
with h5py.File(source) as f:
    own = {c: f["emtrkmichel"][c][:] for c in f["emtrkmichel"]}
    n = len(own["em"])
    shutil.copy(source, folder + "/same.h5"), shutil.copy(source, folder + "/other.h5")
    with h5py.File(folder + "/same.h5", "r+") as g:
        order = r.permutation(n)
        for c, v in own.items():
            g["emtrkmichel"][c][:] = v[order]
        g.attrs["hits_same_cell"] = np.uint64(7)
    with h5py.File(folder + "/other.h5", "r+") as g:
        t = dict(own)
        t["em"] = (own["em"] + r.normal(size=n) * 1e-3).astype(np.float32)
        t["track"] = own["track"].copy()
        t["track"][5] += np.float32(1e-6)
        t["status"] = own["status"].copy()
        t["status"][[3, 4]] = 2, 5
        t["hit_id"] = own["hit_id"].copy()
        t["hit_id"][[8, 9, 10, 11, 12, 13]] += 1 << 40
        for c in t:
            g["emtrkmichel"][c][:] = t[c][order]
    keep = np.ones(n, bool)
    keep[[3, 4, 8, 9, 10, 11, 12, 13]] = False
    d = (np.abs(own["em"] - t["em"]) / np.maximum(1, np.abs(own["em"])))[keep]
    s = np.sort(d)
    json.dump({"n": n, "scored": int(keep.sum()), "largest": float(d.max()), "mean": float(d.mean()),
               "above": int(np.sum(d.astype(float) > 1e-4)),
               **{q: float(s[int(np.ceil(p * len(s))) - 1]) for q, p in (("q50", .5), ("q90", .9), ("q99", .99), ("q999", .999))}},
              open(folder + "/wanted.json", "w"))
    with h5py.File(folder + "/larsoft.h5", "w") as g:
        ids = np.stack([own["run"], own["subrun"], own["event"]], 1).astype(np.int32)
        for name, v in {"event_id": ids, "hit_id": own["hit_id"].astype(np.int32)[:, None], "em": own["em"][:, None],
                        "track": own["track"][:, None], "none": own["none"][:, None], "other": own["none"][:, None]}.items():
            g["cnn_table/" + name] = v[order]
        g["cnn_table/em"][0] = np.nan
PYTHON
$python "$work/change.py" "$work/out/layout.scores.h5" "$work" || bail "no files"
compare () { keep "$bin/wiremill" compare "$@"; }
ours=$work/out/layout.scores.h5

same () { compare --tolerance 0 "$ours" "$work/same.h5" && says 'the same within 0 ' && says '^em +0 +0 +0 +0 +0 +0$'; }
ok "the same rows in another order are the same" same
json () { exits 1 compare --json --tolerance 1e-4 "$ours" "$work/other.h5"; }
ok "differences: exit 1" json
numbers ()
{
    $python - "$work/said" "$work/wanted.json" <<'PYTHON'
import json, sys
d, w = (json.load(open(a)) for a in sys.argv[1:])
assert d["schema"] == "wiremill-compare-1" and not d["same"] and d["hits_a"] == d["hits_b"] == w["n"], d
assert d["joined"] == w["n"] - 6 and d["scored"] == w["scored"] and d["only_a"] == d["only_b"] == 6 and d["status_differs"] == 2
assert d["statuses"] == [{"a": "scored", "b": "bad wire", "hits": 1}, {"a": "scored", "b": "held", "hits": 1}], d["statuses"]
assert [l["name"] for l in d["labels"]] == ["track", "em", "none", "michel"]
em, track, none = d["labels"][1], d["labels"][0], d["labels"][2]
for name in ("largest", "mean", "q50", "q90", "q99", "q999", "above"):
    assert abs(em[name] - w[name]) <= 1e-6 * w[name], (name, em[name], w[name])
assert 0 < track["largest"] < 2e-6 and track["above"] == 0 and track["q999"] in (0, track["largest"]) and none["largest"] == 0
PYTHON
}
ok "... their numbers are NumPy's" numbers
people ()
{
    exits 1 compare --tolerance 1e-4 "$ours" "$work/other.h5" && says '^6 hits only in A: 1:1:1:[0-9]+ .* \.\.\.$' &&
        says '^6 hits only in B: ' && says '^1 with another status: scored in A, bad wire in B' &&
        says '^em differs most in 1:1:[123]:[0-9]+: 0\.' && says '^not the same within 0.0001'
}
ok "... people read what differs, and where" people
narrow () { ! grep -Ev "^[AB] " "$work/said" | grep -E '^.{101}'; }
ok "... in few columns" narrow
halves ()
{
    exits 1 compare "$ours" "$ours" "$work/same.h5" && says '^A .*layout.scores.h5 and 1 more: [0-9]+ hits' &&
        says 'hits only in A'
}
ok "several files are compared as one; a hit that is there twice is not its own partner" halves
numl () { "$bin/wiremill" compare --tolerance 0 --table emtrkmichel_table "$ours" "$work/alone.h5"; }
$python -c 'import h5py, sys
with h5py.File (sys.argv[1]) as f, h5py.File (sys.argv[2], "w") as g: f.copy ("emtrkmichel_table", g)' "$ours" "$work/alone.h5"
ok "numl's table is the same as the own one" numl
larsoft () { exits 1 compare --table cnn_table "$work/same.h5" "$work/larsoft.h5"; }
ok "scores of others" larsoft
of_others ()
{
    says "larsoft.h5 has no score 'michel': not compared" && says '^1 with another status: scored in A, not finite in B' &&
        says '^7 hits of A lie in the drift bin of the hit before them'
}
ok "... a score that is not there, one that is not finite, and what LArSoft does otherwise" of_others
$python -c 'import h5py, sys
with h5py.File (sys.argv[1]) as f, h5py.File (sys.argv[2], "w") as g:
    f.copy ("emtrkmichel_table", g)
    del g["emtrkmichel_table/michel"]' "$ours" "$work/less.h5"
less () { exits 1 compare "$ours" "$work/less.h5" && says '^michel +not compared: only one has it' && says '^not the same'; }
ok "a label that only one has is not the same" less
less_json () { exits 1 compare --json "$work/less.h5" "$ours" && says '"same": false.*"not_compared": \["michel"\]'; }
ok "... as JSON" less_json
$python -c 'import h5py, sys
with h5py.File (sys.argv[1], "r+") as g: g["emtrkmichel_table/status"][:] = 5' "$work/less.h5"
nothing () { exits 1 compare "$ours" "$work/less.h5" && says '^em +- +- +- +- +- +-$'; }
ok "no hit that both scored: no numbers" nothing
$python -c 'import h5py, sys, numpy as np
with h5py.File (sys.argv[1]) as f, h5py.File (sys.argv[2], "w") as g:
    f.copy ("emtrkmichel_table", g)
    em = np.float64 (g["emtrkmichel_table/em"][:])
    g["emtrkmichel_table/track"].attrs["x"] = 1
    del g["emtrkmichel_table/em"]
    em[0] += 1e-12
    g["emtrkmichel_table/em"] = em' "$ours" "$work/double.h5"
double ()
{
    exits 1 compare --tolerance 0 "$ours" "$work/double.h5" && says '^em +1e-12 .* 1$' &&
        says '^em differs most .* in A, 0\.[0-9]{15,17} in B' && compare "$ours" "$work/double.h5"
}
ok "float64 is compared as it is stored" double
nulls () { exits 1 compare --json "$ours" "$work/less.h5" && says '"name": "em", "above": null, "largest": null'; }
ok "... as JSON" nulls
$python -c 'import h5py, sys
with h5py.File (sys.argv[1]) as f, h5py.File (sys.argv[2], "w") as g:
    f.copy ("emtrkmichel_table", g)
    t = g["emtrkmichel_table"]
    for n in "track", "em", "none", "michel": t.move (n, "x_" + n)' "$ours" "$work/named.h5"
named () { exits 5 compare "$ours" "$work/named.h5" && says 'scores track, em, none, michel is in .*, which has .*x_em'; }
ok "other labels: both files' are listed" named
turned () { exits 1 compare --table cnn_table "$work/larsoft.h5" "$ours" && says "larsoft.h5 has no score 'michel'"; }
ok "... also the other way round" turned

against () { exits 1 keep "$bin/wiremill" verify "$work/out" --against "$work/larsoft.h5" --table cnn_table; }
ok "verify --against" against
digests () { says 'every digest is as it was written' && says 'scored in A, not finite in B' && ! says 'scored again' >/dev/null; }
ok "... reads digests first, and scores nothing" digests
agrees () { keep "$bin/wiremill" verify "$work/out" --against "$work/alone.h5" && says 'the same within 1e-05'; }
ok "... exit 0 where all agree" agrees
only_against () { exits 2 keep "$bin/wiremill" verify "$work/out" --table x && says 'of the file of --against'; }
ok "... --table without it" only_against
one () { exits 2 compare "$ours" && says 'name two files of scores'; }
ok "one file alone" one
ok "a file that is not there" exits 2 compare "$ours" "$work/none.h5"
ok "... by name" says 'none.h5 does not exist'
ok "two files of others" exits 5 compare "$work/larsoft.h5" "$work/alone.h5"
ok "... which tell no names" says 'neither .* nor .* is an output of wiremill'
ok "another table" exits 5 compare "$ours" "$work/larsoft.h5"
ok "... is asked for" says 'no table emtrkmichel; name the group of its scores by --table'
events () { exits 5 compare "$ours" "$made/layout.h5" && says 'layout.h5: it has events .hit_table., but no table emtrkmichel; give an output of a campaign'; }
ok "a file of events" events
mkfifo "$work/pipe"
itself () { compare "$ours" "$ours" && says 'layout.scores.h5 is given on both sides'; }
ok "a file is compared with itself: that is reported" itself
waits () { exits 5 keep timeout 60 "$bin/wiremill" compare "$ours" "$work/pipe" && says 'pipe: a pipe; it must be a regular file'; }
ok "a pipe is not waited for" waits
cut_off () { head -c 3000 "$ours" >"$work/cut.h5" && exits 5 compare "$ours" "$work/cut.h5" && says 'truncated: it has 3000 bytes of'; }
ok "a file that is cut off" cut_off
empty_table () { exits 5 compare --table cnn_none "$ours" "$work/larsoft.h5" && says 'larsoft.h5: no table cnn_none'; }
ok "a table that is not there" empty_table
no_scores () { exits 5 compare --table event_table "$ours" "$ours.h5"; }
cp "$work/larsoft.h5" "$ours.h5"
$python -c 'import h5py, sys
with h5py.File (sys.argv[1], "r+") as f: f["event_table/event_id"] = [[1, 1, 1]]' "$ours.h5"
ok "a table without scores" no_scores
ok "... by name" says 'none of the scores track, em, none, michel is in event_table, which has no scores'

cat >"$work/folders.py" <<'PYTHON'
"""SCORES OTHER FOLDER: a/ and b/, whose outputs state their inputs; wanted.json of both, with NumPy"""
import os, sys, shutil, json, h5py, numpy as np
ours, other, folder = sys.argv[1:]
def put(side, name, source, input, change=None):
    os.makedirs(f"{folder}/{side}", exist_ok=True)
    to = f"{folder}/{side}/{name}.scores.h5"
    shutil.copy(source, to)
    with h5py.File(to, "r+") as f:
        f.attrs.modify("input", np.bytes_(input))
        if change:
            change(f["emtrkmichel"])
def turn(t):  # the first three hits are called otherwise
    t["michel"][:3] = [0.75, 0.99, 0.8]
for side in "ab":
    put(side, "one" if side == "a" else "two", ours, "/d/one.h5")          # the same, under another name
    put(side, "two" if side == "a" else "one", (ours, other)[side == "b"], "/d/two.h5")
    put(side, "three", ours, f"/{side}/three.h5", turn if side == "b" else None)  # by its name
put("a", "four", ours, "/d/four.h5")
put("b", "five", ours, "/d/five.h5")
def rows(path):
    with h5py.File(path) as f:
        t = f["emtrkmichel"]
        keys = zip(*(t[n][:] for n in ("run", "subrun", "event", "hit_id")))
        scores = np.stack([t[n][:] for n in ("track", "em", "none", "michel")], 1).astype(float)
        return {tuple(map(int, k)): (s, v) for k, s, v in zip(keys, t["status"][:], scores)}
call = lambda v: 3 if v[3] >= 0.5 else int(np.argmax(v[:3]))
wanted = {}
for a, b in (("one", "two"), ("two", "one"), ("three", "three")):
    x, y = rows(f"{folder}/a/{a}.scores.h5"), rows(f"{folder}/b/{b}.scores.h5")
    both = sorted(set(x) & set(y))
    scored = [k for k in both if x[k][0] == y[k][0] == 0]
    s, r = (np.array([side[k][1] for k in scored]) for side in (x, y))
    d = np.abs(s - r) / np.maximum(1, np.abs(s))
    wanted[a] = {"a": a + ".scores.h5", "b": b + ".scores.h5", "hits_a": len(x), "hits_b": len(y), "joined": len(both),
                 "scored": len(scored), "only_a": len(set(x) - set(y)), "only_b": len(set(y) - set(x)),
                 "status_differs": int(sum(x[k][0] != y[k][0] for k in both)), "above": int((d > 1e-4).any(1).sum()),
                 "otherwise": int(sum(call(v) != call(w) for v, w in zip(s, r))), "largest": float(d.max()),
                 "over": (d > 1e-4).sum(0).tolist(), "mean": d.sum(0).tolist(), "most": d.max(0).tolist()}
json.dump(wanted, open(folder + "/folders.json", "w"))
PYTHON
$python "$work/folders.py" "$ours" "$work/other.h5" "$work" || bail "no folders"
folders () { exits 1 compare --json --tolerance 1e-4 "$work/a" "$work/b/"; }
ok "two folders: exit 1" folders
totals ()
{
    $python - "$work/said" "$work/folders.json" <<'PYTHON'
import json, sys
d, w = (json.load(open(a)) for a in sys.argv[1:])
assert d["schema"] == "wiremill-compare-folders-1" and d["same"] is False and d["tolerance"] == 1e-4, d
paired = [o for o in d["outputs"] if o["a"] and o["b"]]
assert [o["a"] for o in paired] == ["one.scores.h5", "three.scores.h5", "two.scores.h5"], paired
assert [(o["a"], o["b"]) for o in d["outputs"] if o not in paired] == [("four.scores.h5", None), (None, "five.scores.h5")]
for o in paired:
    v = w[o["a"].split(".")[0]]
    for key in ("b", "hits_a", "hits_b", "joined", "scored", "only_a", "only_b", "status_differs", "above", "otherwise"):
        assert o[key] == v[key], (key, o, v)
    assert abs(o["largest"] - v["largest"]) < 1e-7 and o["same"] == (o["a"] == "one.scores.h5"), (o, v)
assert w["three"]["otherwise"] == 3 and w["two"]["above"] > 10
for key in ("hits_a", "hits_b", "joined", "scored", "only_a", "only_b", "status_differs", "above", "otherwise"):
    assert d[key] == sum(v[key] for v in w.values()), key
assert (d["compared"], d["outputs_same"], d["failed"], d["outputs_only_a"], d["outputs_only_b"]) == (3, 1, 0, 1, 1), d
assert sum(c["hits"] for c in d["called"] if c["a"] != c["b"]) == d["otherwise"] and sum(c["hits"] for c in d["called"]) == d["scored"]
for k, label in enumerate(d["labels"]):
    assert label["name"] == ("track", "em", "none", "michel")[k] and label["above"] == sum(v["over"][k] for v in w.values())
    assert abs(label["mean"] * d["scored"] - sum(v["mean"][k] for v in w.values())) < 1e-4, label
    assert abs(label["largest"] - max(v["most"][k] for v in w.values())) < 1e-7, label
assert d["labels"][3]["output"] == "three.scores.h5"
PYTHON
}
ok "... outputs are paired by input, then by name; their numbers and sums are NumPy's" totals
folders_said ()
{
    exits 1 compare --tolerance 1e-4 "$work/a" "$work/b" && says '^one.scores.h5 and two.scores.h5 +[0-9]+ +0 +0 +0 +0 +0 +0$' &&
        says '^outputs only in A: four.scores.h5$' && says '^outputs only in B: five.scores.h5$' && says '^3 called otherwise: [a-z]+ in A, michel in B' &&
        says '^michel differs most in three.scores.h5, ' && says '^not the same within 0.0001: 1 of 5 outputs' && narrow
}
ok "... people read the same, in few columns" folders_said
folders_same () { compare "$work/a" "$work/a" && says 'a is given on both sides' && says '^the same within 1e-05: 4 of 4 outputs'; }
ok "a folder is as it is: exit 0" folders_same
folder_damaged ()
{
    head -c 3000 "$ours" >"$work/b/one.scores.h5" && exits 5 compare "$work/a" "$work/b" && says '^one.scores.h5 +not compared: .*truncated' && says '^outputs only in B: five.scores.h5$' &&
        says '^three.scores.h5 +[0-9]' && exits 5 compare --json "$work/a" "$work/b" && says '"failed": 1, '
}
ok "an output that is cut off: the others are compared, exit 5" folder_damaged
$python - "$ours" "$work" <<'PYTHON' || bail "no outputs of other labels"
import os, sys, shutil, h5py, numpy as np
ours, folder = sys.argv[1:]
for side in "cd":
    os.makedirs(f"{folder}/{side}")
    for name in "first", "fewer", "none":
        shutil.copy(ours, f"{folder}/{side}/{name}.scores.h5")
        with h5py.File(f"{folder}/{side}/{name}.scores.h5", "r+") as f:
            f.attrs.modify("input", np.bytes_(f"/d/{name}.h5"))
            if name == "fewer":
                del f["emtrkmichel/none"]
                f["emtrkmichel/em"][0] = side == "d"
            if name == "none":
                f["emtrkmichel/status"][:] = 2
PYTHON
other_labels ()
{
    exits 1 compare "$work/c" "$work/d" && says '^fewer.scores.h5 .* 1 +[0-9]+ +[0-9.e-]+$' && says '^first.scores.h5 .* - +0$' &&
        says '^none.scores.h5 .* - +-$' && says '^what hits are called was compared in 1 of 3 pairs' &&
        exits 1 compare --json "$work/c" "$work/d" --page "$work/labels.html" && $python - "$work/said" "$work/labels.html" <<'PYTHON'
import json, sys
d = json.load(open(sys.argv[1]))
of = {o["a"].split(".")[0]: o for o in d["outputs"]}
assert of["first"]["otherwise"] is None and of["none"]["otherwise"] is None and of["none"]["largest"] is None, d
assert d["otherwise"] == of["fewer"]["otherwise"] > 0 and of["first"]["largest"] == 0, d
assert open(sys.argv[2]).read().count('<td class="n">not compared</td>') == 2
PYTHON
}
ok "pairs whose labels are not those of the first pair: what hits are called is not compared, and no 0 stands for it" other_labels
mkdir "$work/empty"
no_folder ()
{
    exits 2 compare "$work/a" "$work/empty" && says 'empty has no outputs' && exits 2 compare "$work/a" "$work/nowhere" && says 'nowhere does not exist' &&
        exits 2 compare "$ours" "$work/a" && says 'scores.h5 is a file; a folder is needed'
}
ok "a folder without outputs, one that is not there, and a file" no_folder
campaign_folder () { compare "$work/out$beside" "$work/out" && says '^the same'; }
ok "a campaign's own folder stands for its outputs" campaign_folder
done_testing
