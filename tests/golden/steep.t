#!/bin/bash
# steep.t - precision on the events of two detectors with steeper and steeper heads: fp32 within 1e-5 of double, split and
# fast within --max-error of fp32. The events are not part of the project (../shared); `make proof` scores every hit.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=$PWD/build/venv/bin/python shared=../shared/data
[ -r $shared/golden/spec.yaml ] || { echo "1..0 # SKIP no ../shared with events of detectors here"; exit 0; }
[ "$(size test proof soak)" != test ] ||
    { echo "1..0 # SKIP make proof tries it: minutes of double precision"; exit 0; }

near () { $python tests/e2e/make.py near "$work/$1/$stem.scores.h5" "$work/$2/$stem.scores.h5" "$3"; }
score () # folder, options...
{
    local to=$1
    shift
    keep "$bin/wiremill" run --quiet --model "$model" --spec $shared/golden/spec.yaml --input "$event" \
            --output "$work/$to" "$@"
}
strict () { score double --engine reference && near fp32 double 1e-5; }
rounded () { score "$1" --precision "$1" && near "$1" fp32 "$2"; } # precision, its default --max-error

for seed in 1 7; do
    "$bin/wiremill" model new emtrkmichel --seed $seed --output "$work/heads-1.onnx" >/dev/null || bail "no model"
    for heads in 1 1.5 4 8; do
        model=$work/heads-$heads.onnx
        [ $heads = 1 ] || $python tests/e2e/make.py steep "$work/heads-1.onnx" "$model" $heads ||
            bail "no heads x$heads"
        for event in $shared/protodune-hd/*.h5 $shared/protodune-vd/*.h5; do
            stem=$(basename "$event" .h5) what="seed $seed, heads x$heads, $stem"
            ok "$what: fp32" score fp32
            case $seed-$heads in 1-1 | 1-8) ok "... within 1e-5 of double" strict ;; esac # minutes each
            ok "... split within 1e-5 of fp32" rounded split 1e-5
            ok "... fast within 5e-3 of fp32" rounded fast 5e-3
            rm -rf "$work"/{double,fp32,split,fast}{,$beside}
        done
    done
done
done_testing
