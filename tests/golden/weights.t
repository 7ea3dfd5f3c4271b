#!/bin/bash
# weights.t - weights in every type and encoding of ONNX: the scores of a model that gives its weights are what onnx's own
# reader has, or the model is refused by name. OpenVINO computes; the refusals are those of unit/kernels/test_kernels_weights.c.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
[ -e "${WM_BUILD:-build/release}/lib/wm_openvino.so" ] || { skip "no OpenVINO here"; done_testing; }
$python tests/golden/weights.py make "$work" || bail "no models"
right () # name
{
    "$bin/wiremill" run --quiet -w 1 --model "$work/$1.onnx" --input "$work/x.npy" --output "$work/$1" &&
        $python tests/golden/weights.py check "$work" "$1" "$work/$1/x.scores.h5"
}
right_or_refused ()
{
    local code
    keep right "$1"
    code=$?
    [ $code = 0 ] || { [ $code != 1 ] && says "$1.onnx: .*OpenVINO"; }
}
for name in $($python tests/golden/weights.py names "$work"); do
    case $name in
    doubtful_*) ok "$name, or refused" right_or_refused "$name" ;;
    *) ok "$name" right "$name" ;;
    esac
done
done_testing
