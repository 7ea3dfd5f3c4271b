#!/bin/bash
# models.t - networks of others, with what they must answer: CNTK's stored pairs, Keras 1 as LArSoft keeps it.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python models=../shared/data/models
[ -r $models/mnist-cntk/model.onnx ] || { echo "1..0 # SKIP no ../shared with models here"; exit 0; }

pairs ()
{
    "$python" tests/golden/models.py pairs $models/mnist-cntk "$work/mnist.npy" "$work/mnist-want.npy" &&
        "$bin/wiremill" run --model $models/mnist-cntk/model.onnx --input "$work/mnist.npy" --output "$work/mnist" \
            --quiet &&
        "$python" tests/golden/models.py scores "$work/mnist/mnist.scores.h5" "$work/mnist-want.npy" 1e-6
}
ok "the three stored pairs of the CNTK network" pairs

keras () # name, arguments of the conversion...
{
    local name=$1
    shift
    "$python" ops/train/nnet2onnx.py "$@" &&
        "$bin/wiremill" run --model "$work/$name.onnx" --input "$work/digit.npy" --output "$work/$name" --quiet &&
        "$python" tests/golden/models.py scores "$work/$name/digit.scores.h5" "$work/digit-want.npy" 1e-6
}
k=$models/keras-example
"$python" tests/golden/models.py keras $k "$work/digit.npy" "$work/digit-want.npy" ||
    bail "the Keras network cannot be read"
ok "the Keras network from its .nnet" keras nnet $k/dumped.nnet "$work/nnet.onnx" --shape 28,28
ok "the same from its JSON and HDF5" keras json $k/my_nn_arch.json $k/my_nn_weights.h5 "$work/json.onnx"

refused () { ! keep "$python" ops/train/nnet2onnx.py "$@" && says "$pattern" && [ ! -e "$work/x.onnx" ]; }
head -n 100 $k/dumped.nnet >"$work/cut.nnet"
pattern='cut.nnet: ' && ok "a .nnet cut short is refused" refused "$work/cut.nnet" "$work/x.onnx" --shape 28,28
sed 's/^layer 5 Dropout/layer 5 LSTM/' $k/dumped.nnet >"$work/lstm.nnet"
pattern='layer LSTM' &&
    ok "a layer that is not known is refused by name" refused "$work/lstm.nnet" "$work/x.onnx" --shape 28,28
done_testing
