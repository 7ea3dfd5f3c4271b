#!/bin/bash
# general.t - ordinary CNNs over dense patches, compared with ONNX Runtime.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python

# The networks that come inside PyPI's onnx have random weights; squeezenet's logits are so large that
# rounding decides its softmax, so it is only asked to finish.
general () # network, limit
{
    "$python" tests/golden/golden.py patchfile "$1" "$work/$1.onnx" "$work/$1.npy" &&
        "$bin/wiremill" run --model "$work/$1.onnx" --input "$work/$1.npy" --output "$work/out-$1" --quiet &&
        "$python" tests/golden/golden.py dense "$work/$1.onnx" "$work/$1.npy" "$work/out-$1/$1.scores.h5" "$2"
}
ok "ShuffleNet" general light_shufflenet 1e-5
[ "$(size test proof soak)" = test ] || ok "ResNet-50" general light_resnet50 1e-5
ok "SqueezeNet" general light_squeezenet 2
done_testing
