#!/bin/bash
# triton.t - clients of Triton, unchanged: the real tritonclient against the gateway.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv-gateway/bin/python
[ -x "$python" ] || { echo "1..0 # SKIP no tritonclient (make deps-gateway installs it)"; exit 0; }
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
make_model "${small}1" || bail "no model"
"$bin/wiremill" gateway --grpc 127.0.0.1:0 --http 127.0.0.1:0 --threads 1 --model "m=$made/model-${small}1.wmm" 2>"$work/log" &
gateway=$!
address () { sed -n "s/.*$1 on \\(127.0.0.1:[0-9]*\\).*/\\1/p" "$work/log"; } # gRPC or HTTP
until_true 30 grep -q 'HTTP on' "$work/log"
is_ready () { timeout 10 bash -c 'exec 3<>"/dev/tcp/${0/:/\/}" && printf "GET /v2/health/ready HTTP/1.0\r\n\r\n" >&3 && grep -q " 200 " <&3' "$(address HTTP)"; }
ok "the gateway is ready" until_true 60 is_ready
ok "gRPC and HTTP, asynchronous, streams, compression, errors" timeout 240 "$python" tests/e2e/triton.py "$(address gRPC)" "$(address HTTP)" m
drained () { kill -TERM $gateway && wait $gateway; }
ok "SIGTERM ends it" drained
done_testing
