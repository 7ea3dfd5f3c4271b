#!/bin/bash
# onnx.t - ONNX's own backend tests: each case gives the suite's outputs or is refused by name, and what passed goes on passing.
# DRAWN=20 SEED=the commit
# WM_ONNX=record: runs all cases and writes onnxpassed.txt; WM_ONNX=peers: runs all by ONNX Runtime and OpenVINO.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
build=${WM_BUILD:-build/release}
[ -e "$build/lib/wm_openvino.so" ] || { echo "1..0 # SKIP no general engine is built"; exit 0; }
export work XDG_RUNTIME_DIR=$work WIREMILL_LIBRARY=$PWD/$build/lib/libwiremill.so.1
PYTHONPATH=ops/python:$PWD/build/openvino-$(sed -n 's/^OPENVINO_VERSION := //p' kernels/engines.mk)
LIMIT_S=${LIMIT_S:-600} # a hang, and not a loaded machine
export PYTHONPATH LIMIT_S
suite () # options...
{
    timeout 10000 build/venv/bin/python tests/golden/onnxsuite.py ${JOBS:+--jobs "$JOBS"} "$@" >"$work/table" 2>&1 ||
        { grep '^failed' "$work/table" || tail -n 5 "$work/table"; return 1; }
}
case $WM_ONNX in
record) ok "onnxpassed.txt is written" suite --record ;;
peers) for peer in onnxruntime openvino; do ok "all cases by $peer" suite --peer $peer; done ;;
*)
    # shellcheck disable=SC2046 # words
    if [ "$(size test proof soak)" = test ]; then
        ok "cases that were wrong, and some that are drawn" suite --drawn "${DRAWN:-20}" ${SEED:+--seed "$SEED"} --wrong
    else
        ok "all cases" suite --all
    fi
    ;;
esac
grep -v '^failed' "$work/table" | cut -c1-300 | sed 's/^/# /'
done_testing
