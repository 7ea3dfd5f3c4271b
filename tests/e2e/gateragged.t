#!/bin/bash
# gateragged.t - the gateway with models whose inputs change their length: NuGraph's lists, images of any size.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/gateway.sh
build=${WM_BUILD:-build/release}
library=$build # Python cannot load one with sanitizers
[ -z "$SAN" ] || library=build/release
[ -e "$build/lib/wm_openvino.so" ] || { skip "no OpenVINO"; done_testing; exit; }
export TBB_ENABLE_SANITIZERS=1 WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
run () # what, arguments...: a part of gateragged.py
{
    local what=$1
    shift
    WIREMILL_LIBRARY=$PWD/$library/lib/libwiremill.so.1 PYTHONPATH=ops/python timeout 240 \
        build/venv/bin/python tests/e2e/gateragged.py "$what" "$work" "$@"
}
run files || bail "no models"
gateway --threads 2 --model-repository "$work/models" 2>"$log" &
gateway=$!
until_true 60 address
ok "every model is loaded" run ready "$http"
ok "metadata and configuration have -1" run words "$http"
ok "answers are those of onnxruntime, of all lengths" run answers "$http"
ok "images of any height and width, with a batch dimension and without" run images "$http"
ok "five more types" run kinds "$http"
ok "what does not fit is refused" run refusals "$http"
ok "the same bits in any order, whoever is killed meanwhile" run together "$http"
ok "a row that ends the engine fails alone" run poison "$http"
ok "SIGTERM ends it" drained

# Elsewhere such a model is refused.
model=$work/models/named/1/model.onnx
"$bin/wiremill" run --clients --quiet --model "$model" --campaign "$work/farm" --threads 1 --workers 1 >"$work/farm.log" 2>&1 &
farm=$!
ok "by libwiremill" run library "$http" "ipc://$work/farm/broker"
kill -TERM $farm
wait $farm
ok "by a campaign of files" refused 5 "'hit_table_hit_id' has a free dimension.*wiremill gateway" \
    "$bin/wiremill" run --model "$model" --input "$model" --output "$work/out"
done_testing
