#!/bin/bash
# layout.t - outputs in the form of numl's tables (--layout numl, both), which pynuml reads.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_model ${small}1 && make_events layout --events 3 --seed 4 --hits 300 --tpcs 1 || bail "no model or events"
cat >"$work/read.py" <<'PYTHON'
"""mix EVENTS OUT: hits in no order, one on no wire, one of no event; both FILE: the tables agree; numl FILE BOTH"""
import sys, shutil, h5py, numpy as np

def frame(f, group):
    """As pynuml's File: columns of two dimensions, runs of rows by event_id.seq_cnt."""
    events, runs = f["event_table/event_id"][:], f[group]["event_id.seq_cnt"][:]
    assert events.dtype == np.int32 and events.shape[1] == 3 and runs.dtype == np.int64 and runs.shape == events.shape[:1] + (2,)
    columns = {c: f[group][c] for c in f[group] if c != "event_id.seq_cnt"}
    for name, c in columns.items():
        assert c.ndim == 2 and c.shape == (runs[:, 1].sum(), 3 if name == "event_id" else 1) and c.maxshape[0] is None, name
    assert np.array_equal(np.repeat(events[runs[:, 0]], runs[:, 1], axis=0), columns["event_id"][:])
    return {name: c[:] for name, c in columns.items()}

if sys.argv[1] == "mix":
    shutil.copy(sys.argv[2], sys.argv[3])
    with h5py.File(sys.argv[3], "r+") as f:
        hits = f["hit_table"]
        order = np.random.default_rng(2).permutation(len(hits["wire"]))
        for c in hits:
            hits[c][:] = hits[c][:][order]
        hits["wire"][7] = 99999
        hits["event_id"][11] = [5, 6, 7]
else:
    with h5py.File(sys.argv[2]) as f:
        t = frame(f, "emtrkmichel_table")
        assert set(t) == {"event_id", "hit_id", "track", "em", "other", "michel", "in_fiducial", "status"}, set(t)
        assert all(t[c].dtype == np.int32 for c in ("event_id", "hit_id", "in_fiducial", "status")) and t["em"].dtype == np.float32
        if sys.argv[1] == "numl":
            assert "emtrkmichel" not in f and len(f["held/row"]) == 2
            with h5py.File(sys.argv[3]) as both:
                for name in t:
                    assert t[name].tobytes() == both["emtrkmichel_table"][name][:].tobytes(), name
        else:
            own = {c: f["emtrkmichel"][c][:] for c in f["emtrkmichel"]}
            key = np.stack([own["run"], own["subrun"], own["event"]], 1)
            _, first, which = np.unique(key, axis=0, return_index=True, return_inverse=True)
            order = np.argsort(first[which.ravel()], kind="stable")
            assert len(first) == 4 and np.any(np.diff(order) < 0)
            assert np.array_equal(key[order], t["event_id"])
            for name in set(t) - {"event_id"}:
                assert own[name][order].astype(t[name].dtype).tobytes() == t[name].tobytes(), name
            assert sorted(t["status"][t["status"] != 0]) == [2, 7] and np.isnan(t["em"][t["status"] != 0]).all()
PYTHON
$python "$work/read.py" mix "$made/layout.h5" "$work/mixed.h5" || bail "no events"
size=48
[ -z "$small" ] || size=16
printf 'patch: [%s, %s]\nlabels: [track, em, other, michel]\n' $size $size >"$work/labels.yaml" # others than usual
campaign () # layout, options...
{
    exits 3 keep "$bin/wiremill" run --model "$made/model-${small}1.wmm" --input "$work/mixed.h5" --output "$work/$1" \
            --layout "$1" --spec "$work/labels.yaml" "${@:2}"
}
both () { campaign both && $python "$work/read.py" both "$work/both/mixed.scores.h5"; }
ok "both: the rows of each event follow each other, with the scores of the own table" both
numl () { campaign numl && $python "$work/read.py" numl "$work/numl/mixed.scores.h5" "$work/both/mixed.scores.h5"; }
ok "numl: the same tables alone" numl
ok "verify compares both with what is scored again" "$bin/wiremill" verify "$work/both" --sample 50
cat >"$work/package.py" <<'PYTHON'
"""package.py BOTH NUML: wiremill.read takes each layout, with the same scores."""
import sys, numpy as np, wiremill

both, numl = (wiremill.read(path) for path in sys.argv[1:])
assert both.labels == numl.labels == ["track", "em", "other", "michel"] and len(both) == len(numl) > 100
assert set(numl.columns) == {"run", "subrun", "event", "hit_id", "in_fiducial", "status", *numl.labels}, numl.columns
assert all(column.shape == (len(numl),) for column in numl.columns.values())
def rows(table):
    names = ["run", "subrun", "event", "hit_id", *table.labels]
    return sorted(tuple(row) for row in np.nan_to_num(np.stack([table.columns[n] for n in names], 1), nan=-1).tolist())
assert rows(both) == rows(numl) and numl.to_numpy().dtype.names == tuple(numl.columns)
assert (numl.scored == (numl.columns["status"] == 0)).all() and numl.scores.shape == (len(numl), 4)
PYTHON
package ()
{
    WIREMILL_LIBRARY=$PWD/${WM_BUILD:-build/release}/lib/libwiremill.so.1 PYTHONPATH=ops/python \
        $python "$work/package.py" "$work/both/mixed.scores.h5" "$work/numl/mixed.scores.h5"
}
[ -n "$SAN" ] || ok "the Python package reads both" package
refused_numl () { exits 5 keep "$bin/wiremill" show "$work/numl/mixed.scores.h5" && says 'written with --layout numl: show reads'; }
ok "show names the layout that it cannot read" refused_numl
verify_numl () { ! keep "$bin/wiremill" verify "$work/numl" --sample 50 && says 'written with --layout numl: verify reads' && ! says 'is not from wiremill-producer'; }
ok "... so does verify" verify_numl
other () { exits 5 keep "$bin/wiremill" run --model "$made/model-${small}1.wmm" -i "$work/mixed.h5" -o "$work/both"; }
ok "the layout is the campaign's" other
ok "... by name" says "this campaign was begun with --layout both, not --layout wiremill"
printf 'table: event\npatch: [16, 16]\nlifetime: none\n' >"$work/event.yaml"
taken () { campaign both --output "$work/taken" --spec "$work/event.yaml" --model "$made/model-small-1.wmm"; }
named () { make_model small-1 && exits 5 taken; says "'event' is the name of another group"; }
ok "a table whose name is taken" named
done_testing
