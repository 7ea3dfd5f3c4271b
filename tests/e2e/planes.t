#!/bin/bash
# planes.t - hits and planes at their ends, as whole campaigns: one hit, very many, many times the same,
# nothing on the planes, a zero level that is not 0; every hit scored again by OpenVINO and compared:
# within what the sparse engine promises, although OpenVINO is not exact either.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_model 1 && make_events sparse --events 1 --seed 8 --hits 600 --tpcs 1 || bail "no model or events"
many=$(size 20000 200000 200000)
cp "$made/sparse.h5" "$work/plain.h5" && $python tests/e2e/make.py crowd "$made/sparse.h5" "$work/one.h5" 1 &&
    $python tests/e2e/make.py crowd "$made/sparse.h5" "$work/many.h5" "$many" &&
    $python tests/e2e/make.py blank "$made/sparse.h5" "$work/blank.h5" || bail "no events"
printf 'hit_check: none\n' >"$work/same.yaml" # hits on nothing are scored all the same
printf 'hit_check: none\nadc: [-10, 30]\nout: [-2, 18]\n' >"$work/level.yaml" # a pixel of nothing is 3

hits=$((many + 1 + 2 * $($python -c 'import h5py, sys; print (len (h5py.File (sys.argv[1])["hit_table/wire"]))' "$made/sparse.h5")))
campaign () # name, options...
{
    local name=$1
    shift
    "$bin/wiremill" run --model "$made/model-1.wmm" --output "$work/$name" --input "$work/*.h5" --engine sparse \
            --quiet "$@" &&
        "$bin/wiremill" verify "$work/$name" --engine openvino --sample 1000000 --json >"$work/verified.json" &&
        $python -c 'import json, sys
d = json.load (open (sys.argv[1]))
assert d["hits"] == int (sys.argv[2]) and not d["same_engine"] and d["differ"] == 0 and d["largest"] <= float (sys.argv[3]), d' "$work/verified.json" "$hits" "$($python tests/e2e/make.py promised "$work/$name/many.scores.h5")" &&
        $python tests/e2e/make.py alike "$work/$name/many.scores.h5" &&
        $python tests/e2e/make.py constant "$work/$name/blank.scores.h5"
}
ok "one hit, $many hits, nothing on the planes: $hits hits, fp32" campaign fp32 --spec "$work/same.yaml"
ok "... with a zero level of 3" campaign level --spec "$work/level.yaml"
ok "... in 16 bit" campaign fast --precision fast --spec "$work/same.yaml"
ok "... in 16 bit, with a zero level of 3" campaign level-fast --precision fast --spec "$work/level.yaml"
done_testing
