#!/bin/bash
# gatehand.t - a gateway takes over from another one, by sockets that are passed to both or by --reuse-port, and no request is
# refused; connections that wait to be accepted when it ends; what clients learn while a model is loaded.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/gateway.sh
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
make_model "${small}1" || bail "no model"
model=$made/model-${small}1.wmm
python=build/venv/bin/python
run () { timeout 900 $python tests/e2e/gatehand.py "$@"; } # part, arguments...
times=$(size 1 20 100) rate=$(size 200 1000 1000) # restarts; requests a second

# The gateway starts programs beside its own: `wiremill` is one that waits while $work/hold is there.
mkdir "$work/bin"
cp "$bin/wiremill-gateway" "$work/bin" && ln -s "$(realpath "$bin/wiremill-producer")" "$work/bin" || bail "no programs"
printf '#!/bin/sh\nwhile [ -e %q ]; do sleep 0.05; done\nexec %q "$@"\n' "$work/hold" "$(realpath "$bin/wiremill")" >"$work/bin/wiremill"
chmod +x "$work/bin/wiremill"
touch "$work/hold"
"$work/bin/wiremill-gateway" gateway --grpc 127.0.0.1:0 --http 127.0.0.1:0 --threads 1 --model "m=$model" 2>"$log" &
gateway=$!
until_true 60 address || bail "no gateway"
grpc=$(sed -n 's/.*gRPC on \(127.0.0.1:[0-9]*\).*/\1/p' "$log")
ok "a model is loaded: requests are asked to come again, and health/ready names it" run loading "$http"
pushed () # the metadata of m
{
    printf '\0\0\0\0\3\x0a\1m' | keep curl -s -m 60 --http2-prior-knowledge -D - -H 'content-type: application/grpc' -H 'te: trailers' \
        --data-binary @- "http://$grpc/inference.GRPCInferenceService/ModelMetadata"
    says 'grpc-status: 14' && says 'grpc-message: Model .m. is loading' && says 'grpc-retry-pushback-ms: 1000'
}
ok "... over gRPC, too" pushed
rm "$work/hold"
ready () { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$http/v2/health/ready")" = 200 ]; }
ok "it is ready" until_true 60 ready
ok "it ends: connections that wait to be accepted are answered" run queue $gateway "$http" "$grpc"
ends () { wait $gateway; }
ok "... and it has ended" ends
for how in passed $(size '' reuse reuse); do
    ok "another gateway takes over ($how), and no request is refused" \
        run restart $how "$bin/wiremill" "$model" "$work" "$times" "$rate"
    sed -n '/a second, none refused/s/^/# /p' "$work/output"
done
done_testing
