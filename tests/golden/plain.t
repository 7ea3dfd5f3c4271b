#!/bin/bash
# plain.t - what ONNX has beside nodes and weights (functions, scalars, sparse weights, names): scores are those of onnx's own
# evaluator, or the model is refused by name.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
[ -e "${WM_BUILD:-build/release}/lib/wm_openvino.so" ] || { echo "1..0 # SKIP no OpenVINO here"; exit 0; }
PYTHONPATH=$PWD/ops/python WIREMILL_LIBRARY=$PWD/${WM_BUILD:-build/release}/lib/libwiremill.so.1 \
    exec $python tests/golden/plain.py "$bin/wiremill" "$work"
