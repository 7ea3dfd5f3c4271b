#!/bin/bash
# nan.t - NaNs that a model makes of finite patches are held, and only their rows; judged by onnx.reference.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
export WIREMILL_LIBRARY=$PWD/${WM_BUILD:-build/release}/lib/libwiremill.so
every=${EVERY:-$(size 8 1 1)} turn=${TURN:-0}
echo "# EVERY=$every TURN=$turn"
nan () { "$python" -W ignore tests/golden/nan.py "$1" "$work" "${@:2}"; }
ok "what makes a NaN, and each operator that would lose it" nan makers "$every" "$turn"
ok "operators that keep a NaN" nan keepers
ok "infinities, masks, and NaNs that a model replaces itself, are no reason to hold a row" nan values "$every" "$turn"
done_testing
