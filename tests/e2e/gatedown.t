#!/bin/bash
# gatedown.t - models that the gateway has, and that no worker can score: requests are answered UNAVAILABLE with the worker's own
# reason, also those that wait, until it is mended; and models that give NaN or infinities on some values, which are no such ones.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/gateway.sh
build=${WM_BUILD:-build/release}
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
make_model "${small}1" || bail "no model"
model=$made/model-${small}1.wmm
# The engine is one that starts as the file names it.
launch () # name, options...: sets `gateway`, `http`; its log is $work/log.NAME, its engine's mood $work/mood.NAME
{
    log=$work/log.$1 mood=$work/mood.$1
    shift
    WM_KILLER_START=$mood WM_OPENVINO_SO=$PWD/$build/tests/wm_killer.so gateway --threads 1 --engine openvino "$@" 2>"$log" &
    gateway=$!
    until_true 60 address && address
}
mood () { if [ "$1" ]; then echo "$1" >"$mood"; else rm -f "$mood"; fi; }
code () { curl -s -m 120 -o "$work/answer" -w '%{http_code}' "$@"; }
answered () # code, pattern, curl arguments...
{
    local found
    found=$(code "${@:3}")
    [ "$found" = "$1" ] && { [ -z "$2" ] || grep -q "$2" "$work/answer"; } && return
    echo "$found"
    cat "$work/answer"
    return 1
}
state () { answered 200 "$1" -X POST "http://$http/v2/repository/index"; } # pattern
load () { answered "$1" "${2:-}" -X POST "http://$http/v2/repository/models/m/load"; } # code, pattern
ready () { answered 200 '' "http://$http/v2/models/m/ready"; }
unready () { ! ready && answered 400 '' "http://$http/v2/health/ready" && answered 200 '' "http://$http/v2/health/live"; }
side=48
[ -z "$small" ] || side=16
values=$(printf '0,%.0s' $(seq $((side * side))))
printf '{"inputs": [{"name": "main_input", "shape": [1,%s,%s,1], "datatype": "FP32", "data": [%s]}]}' $side $side "${values%,}" >"$work/ask"
infer () { answered "$1" "$2" -d "@$work/ask" "http://$http/v2/models/m/infer"; } # code, pattern

# One that never runs is given up; the rest of this test is meanwhile.
launch other --exit-on-error false --model "m=$model"
other=$gateway other_http=$http other_log=$log
echo refuse >"$work/mood.other"

echo lie >"$work/mood.first"
launch first --model "m=$model" || bail "no gateway"
wrong='no worker is left: the engine openvino did not pass its self-test: .*known answer .*computes wrongly'
ok "known answers are wrong: the model is not ready" until_true 60 state "UNAVAILABLE.*$wrong"
never () { ! grep 'is ready after' "$log"; }
ok "... and never was" never
ok "... nor is the server" unready
ok "a request is answered, with the worker's reason" infer 503 "Request for unknown model: 'm' has no available versions: .*$wrong"
ok "metadata, too" answered 503 "$wrong" "http://$http/v2/models/m"
ok "loading it fails, with the reason" load 400 "failed to load 'm', version 1: .*$wrong"
mood segv
ok "the engine crashes as it starts: so it does" load 400 'no worker is left: .*did not pass its self-test: .*signal 11'
mood ''
ok "it is mended: loading it works" load 200 ''
ok "it is ready" ready
ok "it answers" infer 200 '"outputs"'

# A load that comes while the gateway itself tries again, with an engine that began before the mending: it holds until
# its mood, a pipe, is written.
mood refuse
unload () { answered 200 '' -X POST "http://$http/v2/repository/models/m/unload"; }
ok "it is unloaded" unload
ok "its engine refuses to start: so does a load" load 400 'the killer has no driver here'
mkfifo "$work/pipe" && mv "$work/pipe" "$mood"
(exec 9>"$mood"; touch "$work/begun"; until [ -e "$work/go" ]; do sleep 0.05; done; echo refuse >&9) 2>/dev/null &
ok "it is tried again by itself" until_true 60 test -e "$work/begun"
mood ''
exec {asks}<>"/dev/tcp/${http%:*}/${http#*:}"
printf 'POST /v2/repository/models/m/load HTTP/1.1\r\nHost: m\r\nContent-Length: 0\r\nConnection: close\r\n\r\n' >&$asks
ok "it is mended and loaded meanwhile; it is not ready yet" unready
touch "$work/go"
loaded () { timeout 120 cat <&$asks | grep '^HTTP/1.1 200'; }
ok "the engine of that try refuses; the load is answered by the next one: it works" loaded
exec {asks}>&-
ok "it answers again" infer 200 '"outputs"'

# It has worked, and a request waits.
crew=$(pgrep -P $gateway -f '^[^ ]*wiremill run ')
worker=$(pgrep -P "$crew" -f '^[^ ]*wiremill-worker')
kill -STOP "$worker"
infer 503 "'m' version 1 is not at ready state: .*signal 11" >"$work/waiting" 2>&1 &
asks=$!
waits () { curl -s "http://$http/metrics" | grep -q '^wiremill_gateway_memory_bytes [1-9]'; }
ok "a request waits" until_true 60 waits
mood segv
kill -9 "$worker"
failed () { wait $asks || { cat "$work/waiting"; return 1; }; }
ok "its engine crashes from now on: the request that waits is answered, with the reason" failed
ok "... and the next one" infer 503 "has no available versions: .*signal 11"
ok "... and it is not ready" unready
ok "the index has it" state 'UNAVAILABLE.*signal 11'
mood ''
ok "it is mended: loading it works at once" load 200 ''
ok "... it answers" infer 200 '"outputs"'
ok "... which the log reports" grep -q "model 'm' version 1 works again" "$log"
ok "it ends" drained

# A model that cannot be loaded at all, and one whose weights give no number.
if [ -e "$build/lib/wm_openvino.so" ]; then
    build/venv/bin/python tests/e2e/gatedown.py files "$work" || bail "no models"
    none='no test patch has a finite score .*node .*(Log)'
    ok "a model without a finite score is refused" refused 5 "$none" "$bin/wiremill" import "$work/models/never/1/model.onnx" -o "$work/never.wmm"
    log=$work/log.nan
    gateway --threads 1 --model-repository "$work/models" 2>"$log" &
    gateway=$!
    until_true 60 address && address || bail "no gateway"
    ok "... by the gateway, too" until_true 60 state "\"never\",\"version\":\"1\",\"state\":\"UNAVAILABLE\",\"reason\":\".*$none"
    ok "models that have NaN on some values, and infinities: the answers of NumPy" timeout 120 build/venv/bin/python tests/e2e/gatedown.py ask "$http"
    ok "that ends, too" drained
else
    skip "no OpenVINO: models outside the family"
fi

http=$other_http gateway=$other log=$other_log
why='the engine openvino cannot run here: the killer has no driver here'
over () { grep -q "model 'm' version 1 is not served until a client loads it again: .*$why" "$log"; }
ok "one whose engine cannot run is given up" until_true 90 over
ok "... the index has the reason" state "UNAVAILABLE.*$why"
ok "... and a request is answered" infer 503 "$why"
stays () { ! pgrep -P $gateway; }
ok "... nothing of it runs any more" until_true 60 stays
mood=$work/mood.other
mood ''
ok "loading it tries again" load 200 ''
ok "it answers, too" infer 200 '"outputs"'
ok "it ends as well" drained
done_testing
