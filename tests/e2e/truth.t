#!/bin/bash
# truth.t - the trained model of ops/train: imported, run on events that it has not seen, compared with their truth.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
model=ops/train/emtrkmichel.onnx python=build/venv/bin/python
make_events unseen --events 1 --seed 3001 --hits 4000 --tpcs 1 || bail "no events"
truth () { keep "$bin/wiremill" truth "$@"; }

stored () { [ "$(stat -c %s $model)" -lt 6000000 ] && keep "$bin/wiremill" import "$model" -o "$work/m.wmm" && says 'EmTrkMichelId'; }
ok "the stored model is small and of the family" stored
"$bin/wiremill" run --quiet --model "$work/m.wmm" --input "$made/unseen.h5" --output "$work/out" >/dev/null 2>&1 || bail "no scores"
scores=$work/out/unseen.scores.h5
agrees ()
{
    truth "$made/unseen.h5" "$scores" && says '^[0-9]+ hits with truth and scores$' &&
        says '^found: [0-9]+ track, [0-9]+ em, [0-9]+ none and [0-9]+ michel hits' && says '^truth: 9[0-9]\.[0-9]% of the hits' &&
        says '^em against track: AUC 0\.9[5-9].*; michel against the rest: AUC 0\.[89]'
}
ok "its scores agree with the truth of events that it was not trained on" agrees
narrow () { ! grep -E '^.{101}' "$work/said"; }
ok "... in few columns" narrow
lower ()
{
    "$bin/wiremill" truth "$made/unseen.h5" "$scores" --threshold 0.5 | cmp - "$work/half" && truth "$made/unseen.h5" "$scores" --threshold 0.05 &&
        says 'michel score at least 0\.05' && [ "$(sed -n 's/^found: .* and \([0-9]*\) michel.*/\1/p' "$work/said")" -gt "$(sed -n 's/^found: .* and \([0-9]*\) michel.*/\1/p' "$work/half")" ]
}
cp "$work/said" "$work/half"
ok "a lower threshold calls more of them michel" lower
twice () { cp "$scores" "$work/other.scores.h5" && exits 2 truth "$made/unseen.h5" "$scores" "$work/other.scores.h5" && says 'has scores twice: give one output'; }
ok "... two outputs of the same events are refused, not one left out" twice
[ -x $python ] || { skip "no build/venv (make test makes it)"; done_testing; }
cat >"$work/make.py" <<'PYTHON'
"""EVENTS SCORES FOLDER: the numbers again, and files that are refused"""
import sys, shutil, json, xml.etree.ElementTree as xml, h5py, numpy as np
sys.path.insert(0, "ops/train")
import truth
events, scores, folder = sys.argv[1:]
data = truth.read(events, scores)
t, s = data["truth"], data["score"]
guess, got = truth.called(s), truth.aucs(t, s)
json.dump({"hits": len(t), "right": int((guess == t).sum()), "michel_as_em": int(((guess == 1) & (t == 3)).sum()),
           "auc_em_track": got["em against track"],
           "labels": [{"name": n, "true": int((t == k).sum()), "called": int((guess == k).sum()),
                       "right": int(((guess == k) & (t == k)).sum()), "auc": truth.auc(s[t == k, k], s[t != k, k]), "found_at_5": float(
                           (s[t == k, k] > np.sort(s[t != k, k])[::-1][int(0.05 * (t != k).sum())]).mean())}
                      for k, n in enumerate(truth.NAMES)]}, open(folder + "/wanted.json", "w"))
truth.picture(data, truth.picture_at(folder + "/roc.svg"))
drawn = list(xml.parse(folder + "/roc.svg").getroot())
counts = [int(e.text.replace(",", "")) for e in drawn if e.get("font-size") == "10"]
assert counts == [int(((t == k) & (guess == j)).sum()) for k in range(4) for j in range(4)]
curves = [[tuple(map(float, p.split(","))) for p in e.get("points").split()] for e in drawn if e.tag.endswith("polyline")]
assert len(curves) == 2 and all(c[-1][0] == 370 and c[-1][1] < 40 and all(a[1] >= b[1] for a, b in zip(c, c[1:])) for c in curves)
assert data["charge"].min() > 0 and data["length"].min() >= 1
for name in "label", "short", "wide", "other", "track", "bare":
    shutil.copy(events, f"{folder}/{name}.h5")
    with h5py.File(f"{folder}/{name}.h5", "r+") as f:
        if name == "label":
            f["hit_table/truth"][7] = 4
        if name == "short":
            f["hit_table/key"].resize(9, 0)
        if name == "wide":
            del f["hit_table/key"]
            f["hit_table/key"] = np.zeros((9, 2), np.int64)
        if name == "other":
            f["hit_table/event_id"][:] = 77
        if name == "bare":
            del f["hit_table/plane"], f["hit_table/cryostat"]
        if name == "track":
            f["hit_table/truth"][:] = 0
adc = np.zeros((30, 300), np.float32)  # on every wire one run of 20 ticks of 5 ADC, around a hit
adc[:, 100:120] = 5
ids, rows = np.ones((30, 3), np.int32), np.arange(30)[:, None]
with h5py.File(folder + "/dense.h5", "w") as f:
    for name, v in {"wire_table/event_id": ids, "wire_table/local_plane": rows // 10, "wire_table/local_wire": rows % 10,
                    "wire_table/adc": adc, "hit_table/local_plane": rows // 10, "hit_table/local_wire": rows % 10,
                    "hit_table/local_time": 0 * rows + 110.2}.items():
        f[name] = v
with h5py.File(scores) as f, h5py.File(folder + "/named.h5", "w") as g, h5py.File(folder + "/half.h5", "w") as h:
    for to in g, h:
        f.copy("emtrkmichel", to, "emtrkmichel_table")
    g.move("emtrkmichel_table/em", "emtrkmichel_table/shower")
    del h["emtrkmichel_table/michel"], h["emtrkmichel_table/status"]
    h["emtrkmichel_table/em"][3] = np.nan
PYTHON
ok "NumPy computes the same" $python "$work/make.py" "$made/unseen.h5" "$scores" "$work"
json ()
{
    truth --json "$scores" "$made/unseen.h5" && $python - "$work/said" "$work/wanted.json" <<'PYTHON'
import json, sys
d, w = (json.load(open(a)) for a in sys.argv[1:])
assert d.pop("schema") == "wiremill-truth-1" and abs(d.pop("auc_em_track") - w.pop("auc_em_track")) < 1e-5, d
for a, b in zip(d["labels"], w["labels"]):
    for name in "auc", "found_at_5":
        assert abs(a.pop(name) - b.pop(name)) < 1e-5, (name, a, b)
assert d == w, (d, w)
PYTHON
}
ok "... as JSON" json
half () { truth "$made/unseen.h5" "$work/half.h5" && says "^$(($("$python" -c 'import json,sys; print (json.load (open (sys.argv[1]))["hits"])' "$work/wanted.json") - 1)) hits" && says '^michel .* - +- +-$'; }
ok "a table of others, without michel, with a score that is not finite" half
one_label () { truth "$work/track.h5" "$scores" && says '^em against track: AUC -; michel against the rest: AUC -' && says '^em +0 .* - '; }
ok "events of one label have no AUC" one_label
bare ()
{
    truth --by plane "$work/bare.h5" "$scores" && says '^the events do not state where hits are' && truth --by tpc "$work/bare.h5" "$scores" &&
        says '^cryostat 0, TPC 0 +michel ' && truth --by plane --json "$work/bare.h5" "$scores" && says '"by": "plane", "parts": \[\]}'
}
ok "events that do not state planes" bare
refuses () { exits 5 truth "$2" "$3" && says "$1"; }
ok "a label that is none" refuses 'hit_table/truth has the label 4 in row 7; those .* are 0 to 3' "$work/label.h5" "$scores"
ok "a column that is too short" refuses 'hit_table/key has 9 rows, but hit_table/event_id has [0-9]+' "$work/short.h5" "$scores"
ok "a column of another shape" refuses 'wide.h5: dataset hit_table/key is not of shape' "$work/wide.h5" "$scores"
ok "scores of other events" refuses 'no hit of the events .* run, subrun, event or hit_id differ' "$work/other.h5" "$scores"
ok "scores of other names" refuses 'not called track and em' "$made/unseen.h5" "$work/named.h5"
ok "scores alone" refuses 'have no hit_table/truth: name the events, too' "$scores" "$scores"
ok "events alone" refuses 'name their scores, too' "$made/unseen.h5" "$made/unseen.h5"
no_file () { exits 2 truth "$work/none.h5" "$scores" && says 'none.h5 does not exist'; }
ok "a file that is not there" no_file
one () { exits 2 truth "$scores" && says 'name events and their scores'; }
ok "one file" one
quantiles ()
{
    keep $python ops/train/quantiles.py "$work/dense.h5" "$made/unseen.h5" && says '^charge of a hit .* A +20 +100 +100 .* 100$' &&
        says '^peak of a hit .* A +20 +5 +5 ' && says '^run as stored .* A +10 +20 +20 ' && says '^hits of a channel .* A +1 +1 ' &&
        says '^angle to .* A +20 +0 +0 ' && says '^samples that are not zero .* A +1 +6.667 ' && says '^ +B/A +'
}
ok "two files of events side by side: quantiles that are known" quantiles
no_events () { exits 1 keep $python ops/train/quantiles.py "$scores" "$made/unseen.h5" && says 'neither roi_table nor wire_table/adc'; }
ok "... a file of neither layout" no_events
ok "the gradients of training are right" $python ops/train/net.py
done_testing
