#!/bin/bash
# exporters.t - one network in every form that exporters write it in, compared with ONNX Runtime.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh

ok "forms of PyTorch, tf2onnx, Keras and keras2onnx, operator sets 9 to 25" \
    build/venv/bin/python tests/golden/exporters.py "$bin/wiremill" "$work"
done_testing
