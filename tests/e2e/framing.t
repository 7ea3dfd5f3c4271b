#!/bin/bash
# framing.t - requests whose framing is wrong, by every HTTP listener; slow clients and HTTP/2's equivalents.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/gateway.sh
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
make_model "${small}1" || bail "no model"
run () { timeout 600 python3 tests/e2e/framing.py "$@"; } # part, listeners...

gateway --threads 1 --model "m=$made/model-${small}1.wmm" --access-log "$work/access" 2>"$log" &
gateway=$!
until_true 60 address || bail "no gateway"
grpc=$(sed -n 's/.*gRPC on \(127.0.0.1:[0-9]*\).*/\1/p' "$log")
"$bin/wiremill" serve --broker "ipc://$work/none" --listen 127.0.0.1:0 2>"$work/serve" &
serve=$!
until_true 60 grep -q 'is the page' "$work/serve" || bail "no page"
page=$(sed -n 's,.*http://\(127.0.0.1:[0-9]*\)/ is the page.*,\1,p' "$work/serve")
listeners=("gateway=$http,POST,/v2/repository/index,keeps" "serve=$page,GET,/health/live,closes")
if command -v openssl >/dev/null && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
    -subj /CN=localhost -keyout "$work/key" -out "$work/certificate" 2>/dev/null; then
    plain=$http log=$work/log2
    gateway --threads 1 --model "m=$made/model-${small}1.wmm" --tls-certificate "$work/certificate" \
        --tls-key "$work/key" 2>"$log" &
    secure=$!
    until_true 60 address || bail "no gateway with TLS"
    listeners+=("TLS=$http,POST,/v2/repository/index,keeps")
    http=$plain
fi
ok "framing: what is wrong is refused and nothing behind it is read, what is right is answered" run framing "${listeners[@]}"
ok "HTTP/2: what is wrong with one request ends that alone" run streams "$grpc"
[ -z "$secure" ] || ok "... clients of TLS that leave their answers unread end themselves alone" \
    run leaves "$(sed -n 's/.*gRPC on \(127.0.0.1:[0-9]*\).*/\1/p' "$work/log2")" "$secure"
[ -z "$secure" ] || ok "... the gateway sleeps while those say nothing" \
    run silent "$(sed -n 's/.*gRPC on \(127.0.0.1:[0-9]*\).*/\1/p' "$work/log2")" "$secure"
[ -z "$secure" ] || ok "... and one without TLS learns that it should use it" \
    run plain "$(sed -n 's/.* HTTP on \(127.0.0.1:[0-9]*\).*/\1/p' "$work/log2")" "$(sed -n 's/.*gRPC on \(127.0.0.1:[0-9]*\).*/\1/p' "$work/log2")"
ok "a method that a resource does not take: 405, with Allow" run methods "$http" "$page"
ok "bytes behind the last request do not destroy its answer" run closing "$http,/metrics" "$page,/"
ok "... and are read up to a limit" run floods "$page"
ok "requests of one connection that come at once leave others their turn" run turns "$http" $gateway "$work/access"
ok "no descriptor is free: the gateway sleeps between its tries" run descriptors "$http" $gateway /v2/health/live
ok "... and so does serve" run descriptors "$page" $serve /health/live
few ()
{
    local plain=$http code
    log=$work/log3
    gateway --threads 1 --model "m=$made/model-${small}1.wmm" --max-connections 4 --address-connections 20 2>"$log" &
    few=$!
    until_true 60 address && run places "$http" "$(sed -n 's/.*gRPC on \(127.0.0.1:[0-9]*\).*/\1/p' "$log")"
    code=$?
    kill $few && wait $few && http=$plain
    return $code
}
ok "all places are taken: the connection that is idle for longest makes room" few
if [ "$(size '' 1 1)" ]; then
    until_true 60 curl -sf "http://$http/v2/models/m/ready" || bail "the model is not ready"
    ok "slow clients: one that stands still is cut off in time, one that goes on is answered" run slow "$http" "$page" "$grpc"
fi
for process in $gateway $serve ${secure:-}; do
    kill "$process" && ok "it ends" wait "$process"
done
done_testing
