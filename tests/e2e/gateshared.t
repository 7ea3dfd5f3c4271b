#!/bin/bash
# gateshared.t - clients' tensors in shared memory: by HTTP and gRPC, hostile names and sizes, files cut short, clients that die.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/gateway.sh
curl -V 2>/dev/null | grep -q HTTP2 || { echo "1..0 # SKIP no curl with HTTP/2 (make deps installs one)"; exit 0; }
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
make_model "${small}1" || bail "no model"
start () # options...
{
    rm -f "$log"
    gateway --threads 1 --model "m=$made/model-${small}1.wmm" "$@" 2>"$log" &
    gateway=$!
    until_true 60 address || bail "no gateway"
    grpc=$(sed -n 's/.*gRPC on \(127.0.0.1:[0-9]*\).*/\1/p' "$log")
    until_true 120 is_ready || bail "no model is ready"
    worker=$(pgrep -f "^wiremill-worker.*$work/wiremill-gateway-" | head -n 1)
}
is_ready () { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$http/v2/health/ready")" = 200 ]; }
run () { timeout 300 build/venv/bin/python tests/e2e/gateshared.py "$1" "$work" "$grpc" "$http" "${@:2}"; } # part, arguments...

start
ok "without --shared-memory it is refused in words" run off
ok "it ends" drained
start --shared-memory --memory 33554432 --max-message 4194304
ok "tensors in regions: the bits of those in the request" run answers
ok "names, sizes and tensors that lead elsewhere" run hostile
ok "files that their client cuts short" run cut "$worker"
ok "a client that dies, a region that is unregistered in use" run dies "$worker"
ok "what is copied counts as memory" run memory "$worker" "$gateway" 4194304
ok "the same gateway ends as it should" drained
done_testing
