#!/bin/bash
# gatemodels.t - the gateway's models: a repository in Triton's layout, types, loading, and kills of all that is behind it.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
build=${WM_BUILD:-build/release}
library=$build # Python cannot load one with sanitizers
[ -z "$SAN" ] || library=build/release
export TBB_ENABLE_SANITIZERS=1 WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
make_model "${small}1" || bail "no model"
run () # what, arguments...: a part of gatemodels.py
{
    local what=$1
    shift
    WIREMILL_LIBRARY=$PWD/$library/lib/libwiremill.so.1 PYTHONPATH=ops/python timeout 120 \
        build/venv/bin/python tests/e2e/gatemodels.py "$what" "$work" "$@"
}
run files "$made/model-${small}1.onnx" || bail "no repository"

log=$work/log
gateway () { exec "$bin/wiremill" gateway --grpc 127.0.0.1:0 --http 127.0.0.1:0 --threads 1 "$@"; }
gateway --model-repository "$work/models" --model "given:7=$made/model-${small}1.wmm" 2>"$log" &
gateway=$!
address () { http=$(sed -n 's/.* HTTP on \(127.0.0.1:[0-9]*\).*/\1/p' "$log"); [ -n "$http" ]; }
ok "the gateway listens while its models load" until_true 30 address
address
ok "every model is loaded, or tells why it is not" run ready "$http"
ok "metadata, configuration, statistics and index" run words "$http"
ok "scores have the bits of libwiremill, whoever is killed meanwhile" run kills "$http" "$made/model-${small}1.wmm"
if [ -e "$build/lib/wm_openvino.so" ]; then
    ok "several inputs of five types, outputs of four" run types "$http"
    ok "a model without a batch dimension" run whole "$http"
    ok "images of 5.8 MB" run image "$http"
else
    skip "no OpenVINO: models outside the family"
fi
ok "models are loaded and unloaded while it runs" run load "$http"
drained () { kill -TERM $gateway && wait $gateway; }
ok "SIGTERM ends it" drained
nothing_left () { ! ls -d "$work"/wiremill-gateway-* && ! pgrep -f "$work/wiremill-gateway-"; }
ok "nothing of it is left" until_true 20 nothing_left

# A farm's broker.
log=$work/log-of-farm
serve () { exec "$bin/wiremill" run --clients --quiet --model "$made/model-${small}1.wmm" --campaign "$work/farm" --threads 1 --workers 1; }
serve 2>"$work/farm.log" &
gateway --model "emtrk=$made/model-${small}1.wmm" --broker "emtrk=ipc://$work/farm/broker" 2>"$log" &
gateway=$!
until_true 30 address
address
ok "a farm's broker scores" run scores "$http" "$made/model-${small}1.wmm"
ok "it leaves the farm's broker as it was" drained

ok "no model" refused 2 'no model is given' "$bin/wiremill" gateway
ok "a model without a name" refused 2 'write NAME=FILE' "$bin/wiremill" gateway --model "$made/model-${small}1.wmm"
ok "a model that is not there" refused 2 'm=.*cannot be read' "$bin/wiremill" gateway --model m=/nothing
ok "a version twice" refused 2 'version 2 is given twice' "$bin/wiremill" gateway --model "m:2=$work/log" --model "m:2=$work/log"
ok "a repository that is not there" refused 2 'cannot be read' "$bin/wiremill" gateway --model-repository /nothing
ok "a broker of no model" refused 2 'write NAME=ENDPOINT' "$bin/wiremill" gateway --model "m=$work/log" --broker n=tcp://x:1
ok "a number that is none" refused 2 'in-flight' "$bin/wiremill" gateway --model "m=$work/log" --in-flight many
ok "a state folder with a long name" refused 2 'sockets lie there' "$bin/wiremill" gateway --model "m=$work/log" \
    --state "$work/$(printf 'x%.0s' {1..90})"
mkdir "$work/held"
ok "a state folder of another gateway" refused 1 'another gateway works there' flock "$work/held" "$bin/wiremill" gateway \
    --model "m=$work/log" --state "$work/held"
done_testing
