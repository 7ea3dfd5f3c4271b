#!/bin/bash
# judged.t - a model that OpenVINO computes otherwise than ONNX defines: the engine that scores it, where that is reported, and --accept-differences.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python lib=${WM_BUILD:-build/release}/lib
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
[ -e "$lib/wm_openvino.so" ] && [ -e "$lib/wm_onnxruntime.so" ] ||
    { echo "1..0 # SKIP OpenVINO and ONNX Runtime are not both here"; exit 0; }
$python tests/e2e/judged.py make "$work" || bail "no models"

run () # model, output, options...
{
    keep "$bin/wiremill" run --model "$work/$1" --input "$work/patches.npy" --output "$work/$2" --workers 1 --threads 1 "${@:3}"
}
states () { $python tests/e2e/judged.py states "$work/$1/patches.scores.h5" "$2"; } # output, text
agrees () { $python tests/e2e/make.py agrees "$work/$1.onnx" "$work/patches.npy" "$work/$2/patches.scores.h5" 1e-5; }
differs () { $python tests/e2e/judged.py differs "$work/$1.onnx" "$work/patches.npy" "$work/$2/patches.scores.h5"; }

scored () { run up.onnx up --sidecars && says "model .*; ONNX Runtime scores it: OpenVINO computes node 'up3' "; }
ok "ONNX Runtime scores what OpenVINO computes otherwise, and run says why" scored
ort=$(sed -n 's/^ *scored by *\(onnxruntime-[0-9.]*\).*/\1/p' "$work/said")
otherwise="$ort scores it: OpenVINO computes node 'up3' (ConvTranspose) otherwise"
ok "... as Python's onnxruntime does" agrees up up
ok "the output states it" states up "$otherwise"
status () { keep "$bin/wiremill" status "$work/up" && says "^model judged by: $ort scores it: OpenVINO computes node 'up3' "; }
ok "... and status" status
json ()
{
    "$bin/wiremill" status --json "$work/up" >"$work/status" &&
        $python -c 'import json, sys; a, b = (json.load (open (f)) for f in sys.argv[1:3])
assert a["campaign"]["judged_by"] == b["metadata"]["wiremill.judged_by"] == sys.argv[3], (a["campaign"], b)' \
                "$work/status" "$work/up/patches.scores.h5.json" "$otherwise"
}
ok "... its JSON, and the sidecar" json
show () { keep "$bin/wiremill" show "$work/up/patches.scores.h5" && says "^model judged by: $ort scores it: "; }
ok "... and show" show
refuse="OpenVINO computes node 'up3' \(ConvTranspose\) of this model otherwise than ONNX defines: leave out --engine, or import it"
ok "--engine openvino is refused by the node" refused 5 "$refuse with --accept-differences" "$bin/wiremill" run \
   --model "$work/up.onnx" --input "$work/patches.npy" --output "$work/no" --engine openvino --quiet

import () # model, pattern, options...
{
    keep "$bin/wiremill" import "$work/$1.onnx" -o "$work/$1.wmm" --force "${@:3}" && says "$2"
}
ok "--accept-differences leaves it to OpenVINO, and names the node" import up \
   "; OpenVINO scores it, as was accepted: OpenVINO computes node 'up3' \(ConvTranspose\) otherwise$" --accept-differences
other () { run up.wmm taken --engine openvino && says 'scored by +openvino-' && differs up taken; }
ok "... whose scores are others, also by --engine openvino" other
ok "... which the output states" states taken "$ort, but not followed: OpenVINO computes node 'up3' (ConvTranspose) otherwise"
another () { ! refused 0 . "$bin/wiremill" run --model "$work/up.wmm" --input "$work/patches.npy" --output "$work/up" && says "broker: this campaign is pinned to model '[0-9a-f]{12}', not '[0-9a-f]{12}';"; }
ok "... and it is another model" another
shape () { import shape "; ONNX Runtime scores it: OpenVINO computes node 'thin' " && says '27 scores out'; }
ok "where their shapes differ, ONNX Runtime's are the model's" shape
shape_taken ()
{
    import shape "; OpenVINO scores it, as was accepted: OpenVINO computes node 'thin' " --accept-differences && says '48 scores out' &&
        run shape.wmm wide && states wide "$ort, but not followed: OpenVINO computes node 'thin' (MaxPool) otherwise"
}
ok "... unless OpenVINO's are accepted" shape_taken

ok "a model that both compute alike" run plain.onnx plain
ok "... states who judged it" states plain "$ort"
ok "... and OpenVINO scores it" says 'scored by +openvino-'
family ()
{
    make_model small-1 && make_events kept --events 1 --seed 6 --hits 200 --tpcs 1 &&
        "$bin/wiremill" run --model "$made/model-small-1.onnx" --input "$made/kept.h5" --output "$work/family" --quiet
}
ok "one of the family" family
ok "... states nothing" $python tests/e2e/judged.py states "$work/family/kept.scores.h5" ""

# What was kept without an engine is imported again once it is there; what ONNX Runtime does not take is not.
kept=$XDG_CACHE_HOME/wiremill/models
file () { stat -c %i "$kept/$(sha256sum "$work/$1.onnx" | cut -d ' ' -f 1).wmm"; }
rm -r "$kept"
without () # variable, model, output
{
    (export "$1=$work/none.so"; run "$2.onnx" "$3") && states "$3" none
}
refuse="OpenVINO does not compute node 'up3' \(ConvTranspose: output_shape\) as ONNX defines it, and ONNX Runtime cannot score the model"
ok "without ONNX Runtime a model is refused that OpenVINO computes otherwise" refused 5 "$refuse" \
   env WM_ONNXRUNTIME_SO="$work/none.so" "$bin/wiremill" run --model "$work/up.onnx" --input "$work/patches.npy" --output "$work/none" --quiet
ok "... and any other is not judged" without WM_ONNXRUNTIME_SO plain unjudged
was=$(file plain)
twice () { without WM_ONNXRUNTIME_SO plain unjudged2 && [ "$(file plain)" = "$was" ]; }
ok "... it is kept, and used again" twice
now () { run plain.onnx judged && states judged "$ort" && [ "$(file plain)" != "$was" ] && agrees plain judged; }
ok "once ONNX Runtime is there, it is imported again" now
was=$(file plain)
again () { run plain.onnx judged2 && [ "$(file plain)" = "$was" ]; }
ok "... once" again
on () { run plain.onnx unjudged && states unjudged none; }
ok "... but a campaign goes on with what it has" on
ok "without OpenVINO, ONNX Runtime scores alone" without WM_OPENVINO_SO pool alone
come () { run pool.onnx come && states come "$ort scores it: OpenVINO computes node 'thin' (MaxPool) otherwise"; }
ok "... and judges once OpenVINO is there" come
bfloat () { run bfloat.onnx bfloat && states bfloat none && says 'no other engine: ONNX Runtime cannot read this model'; }
ok "a model that ONNX Runtime does not take is not judged" bfloat
was=$(file bfloat)
bfloat_again () { run bfloat.onnx bfloat2 && [ "$(file bfloat)" = "$was" ]; }
ok "... and not imported again" bfloat_again
done_testing
