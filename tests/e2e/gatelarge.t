#!/bin/bash
# gatelarge.t - rows of more than 12 MiB: through the gateway, a campaign of files and one of whole planes, while workers are
# killed; what a campaign of such rows asks of --budget; the ceiling.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/gateway.sh
curl -V 2>/dev/null | grep -q HTTP2 || { echo "1..0 # SKIP no curl with HTTP/2 (make deps installs one)"; exit 0; }
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
python=build/venv/bin/python
side=$(size '1024 1088' '1984 856' '1984 856') # 13 MB a row; a tile of ProtoDUNE-VD's DNN-ROI, 20 MB
row=$((12 * ${side% *} * ${side#* }))
# shellcheck disable=SC2086 # side is two words
$python tests/e2e/gatelarge.py make "$work" $side || bail "no model"

# Before anything is computed: what it needs.
least=$((4 * (row + 65536)))
model=$work/tile.wmm
# Without the libraries 20 rows, and two patches inside, of which ONNX Runtime makes 16 channels of one.
imports ()
{
    local most=$((131072 + 31 * row / 1024)) kib
    kib=$($python -c 'import resource, subprocess, sys
subprocess.run (sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print (resource.getrusage (resource.RUSAGE_CHILDREN).ru_maxrss)' "$bin/wiremill" import "$work/tile.onnx" --output "$model") || return 1
    [ -n "$SAN" ] || [ "$kib" -lt $most ] || { echo "$kib KiB, more than $most"; return 1; }
}
ok "its import has two of its rows at a time" imports
small () { refused 2 "--budget 20000000 is too little for patches of up to $row bytes: give --budget $least or more" \
    "$bin/wiremill" broker --clients --model "$model" --campaign "$work/clients" --listen "ipc://$work/b" --budget 20000000; }
ok "a budget that is too small is refused, with the number to give" small
given ()
{
    "$bin/wiremill" broker --clients --model "$model" --campaign "$work/clients" --listen "ipc://$work/b" --budget $least >"$work/said" 2>&1 &
    local broker=$!
    until_true 60 "$bin/wiremill" status --broker "ipc://$work/b" >/dev/null && kill $broker && wait $broker
}
ok "... with which the broker serves" given

: >"$log" # now: the address of the gateway before is in it
gateway --threads 1 --model "m=$model" --memory 40M --max-message 4M 2>"$log" &
gateway=$!
until_true 60 address || bail "no gateway"
most=$((row + 65536))
why="one row has $row bytes of inputs and $((row / 3)) of its largest output, and a message at most 4194304: give --max-message $most and --memory $((2 * most)), or more"
ok "a model of which no client could send a row is refused, with the numbers to give" until_true 300 grep -q "'m' version 1 is not served .*: $why" "$log"
drained
: >"$log" # now: the address of the gateway before is in it
gateway --threads 1 --model "m=$model" --max-message $most --memory $((2 * most)) 2>"$log" &
gateway=$!
ok "... with which it is served" until_true 300 grep -q "'m' version 1 is ready" "$log"
drained
: >"$log" # now: the address of the gateway before is in it
gateway --threads 1 --model "m=$model" --memory 400M --max-message 100M 2>"$log" &
gateway=$!
until_true 60 address || bail "no gateway"
grpc=$(sed -n 's/.*gRPC on \(127.0.0.1:[0-9]*\).*/\1/p' "$log")
is_ready () { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$http/v2/health/ready")" = 200 ]; }
until_true 300 is_ready || bail "no model is ready"
# shellcheck disable=SC2086
run () { timeout 400 $python tests/e2e/gatelarge.py "$1" "$work" "$grpc" "$http" $side "${@:2}"; } # part, arguments...
ok "rows of $row bytes by HTTP and gRPC" run answers
broker=$(pgrep -f "^wiremill-broker.*$work/wiremill-gateway-" | head -n 1)
ok "... while the worker is killed twice" run killed "^wiremill-worker.*$work/wiremill-gateway-"
peak () { awk '/^VmHWM/ { print $2 }' "/proc/$1/status"; } # kB
# What a broker has at its start, 12 MiB, its budget (a default: at least $least), and answers on their way.
bounded () { local most=$(((least + 8 * row / 3) / 1024 + 12288 + 65536)); [ -n "$SAN" ] || [ "$(peak "$broker")" -lt $most ] || { echo "$(peak "$broker") kB, more than $most"; return 1; }; }
ok "the broker's memory is within its budget" bounded
ok "the gateway ends" drained

# Of free sizes: the limit is the model's.
: >"$log" # now: the address of the gateway before is in it
# shellcheck disable=SC2086
mkdir -p "$work/models/free/1" && $python tests/e2e/gatelarge.py make "$work/models/free/1" $side free &&
    mv "$work/models/free/1/tile.onnx" "$work/models/free/1/model.onnx" || bail "no model"
gateway --threads 1 --model-repository "$work/models" --memory 400M --max-message 100M 2>"$log" &
gateway=$!
until_true 60 address || bail "no gateway"
grpc=$(sed -n 's/.*gRPC on \(127.0.0.1:[0-9]*\).*/\1/p' "$log")
until_true 300 is_ready || bail "no model is ready"
ok "rows of free sizes: 12 MiB, or $row bytes and more, as the model's row_bytes states" run free
ok "that gateway ends" drained

large () { $python tests/e2e/gatelarge.py make "$work" 8192 2731 && refused 5 'has more than 256 MiB as float32: export the model with smaller inputs' \
    "$bin/wiremill" import "$work/tile.onnx" --output "$work/large.wmm"; }
ok "a row of more than 256 MiB is refused" large

if [ "$(size 0 1 1)" = 1 ]; then
    # shellcheck disable=SC2086
    $python tests/e2e/gatelarge.py make "$work" $side scores && $python -c 'import numpy, sys
numpy.save (sys.argv[1], numpy.random.default_rng (3).integers (-1000, 1000, (6, 3, *map (int, sys.argv[2:]))).astype ("f4"))' "$work/rows.npy" $side
    files () { timeout 600 "$bin/wiremill" run --quiet --model "$work/tile.onnx" --input "$work/rows.npy" --workers 2 --output "$work/$1"; }
    ok "ready patches of such a size" files whole
    shot () { { WM_FAILPOINT=worker-result-send:2 files shot || files shot; } && same_scores rows "$work/shot" "$work/whole"; }
    ok "... the same bytes with a worker that is killed" shot
    export WM_TILE=large
    $python tests/e2e/image.py make "$work" && $python tests/e2e/image.py stack "$work" || bail "no frames"
    tiles () { timeout 600 "$bin/wiremill" run --quiet --model "$work/stack.onnx" --spec "$work/stack.yaml" --output "$work/$1" \
        --input "$work/tags.h5" --channels "$work/channels.csv"; }
    ok "whole planes by one tile of three tags" tiles planes
    ok "... as ONNX Runtime makes them" $python tests/e2e/image.py check "$work" "$work/planes/tags.scores.h5" stack
    again () { { WM_FAILPOINT=broker-journal-synced:6 tiles again; tiles again; } && same_scores tags "$work/again" "$work/planes"; }
    ok "... the same with a broker that is killed, whose journal has such results" again
fi
done_testing
