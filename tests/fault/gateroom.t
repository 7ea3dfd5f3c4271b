#!/bin/bash
# gateroom.t - no room on the disk below the gateway's models when one starts: the gateway's log, its index and its answers tell what
# is full and where, and the model is ready as soon as there is room.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/gateway.sh
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
make_model "${small}1" || bail "no model"
model=$made/model-${small}1.wmm
at_exit 'umount -l "$work"/disk.* 2>/dev/null; finish'
# Starts a gateway on a disk with so much room.
begin () # name, bytes of room, options of the mount
{
    disk=$work/disk.$1
    mkdir "$disk" && mount -t tmpfs -o "size=64m${3:+,$3}" none "$disk" 2>"$work/quiet" && mkdir "$disk/state" || return 1
    fallocate -l $((64 * 1048576 - $2)) "$disk/ballast" || return 1
    rm -f "$log"
    gateway --threads 1 --state "$disk/state" --model "m=$model" 2>"$log" &
    gateway=$!
    until_true 60 address && address && grpc=$(sed -n 's/.* gRPC on \(127.0.0.1:[0-9]*\).*/\1/p' "$log")
}
logged () { grep -q "wiremill gateway: model 'm' version 1 is not ready, and is tried again: $1" "$log"; } # pattern
indexed () { curl -s -X POST "http://$http/v2/repository/index" | grep "\"state\":\"UNAVAILABLE\",\"reason\":\"$1"; } # pattern
asked () # path, pattern, options of curl...
{
    local path=$1 pattern=$2
    shift 2
    keep curl -s -w '\n' "$@" "http://$http/v2/models/m/$path" && says "\"error\":\"Request for unknown model: 'm' .*: $pattern"
}
called () # pattern: of what ModelInfer answers
{
    printf '\0\0\0\0\3\n\1m' | keep curl -s --http2-prior-knowledge -D - -H 'content-type: application/grpc' -H 'te: trailers' \
        --data-binary @- "http://$grpc/inference.GRPCInferenceService/ModelInfer" &&
        says 'grpc-status: 14' && says "grpc-message: Request for unknown model: 'm' .*: $1"
}
ready () { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$http/v2/health/ready")" = 200 ]; }
ask () { timeout 300 build/venv/bin/python tests/e2e/gateprio.py some "$http" 1; }
tells () # what is full, pattern of the reason
{
    ok "$1: the log tells" until_true 60 logged "$2"
    ok "... the index, too" until_true 60 indexed "$2"
    ok "... and who asks whether it is ready" asked ready "$2"
}
refuses () # pattern of the reason
{
    ok "... or asks for scores, by HTTP" asked infer "$1" -X POST -d '{"inputs":[]}'
    ok "... or by gRPC" called "$1"
}
goes_on ()
{
    rm "$disk/ballast" && mount -o remount,nr_inodes=1000 "$disk"
    ok "there is room: it is ready" until_true 120 ready
    ok "... which the log tells" grep -q "model 'm' version 1 works again" "$log"
    ok "... and answers" ask
    ok "it ends" drained
}
if ! begin all 0; then
    echo "1..0 # SKIP a tmpfs can be mounted by root only"
    exit 0
fi
reason="$disk/state/0/c/models/[0-9a-f]*.wmm: cannot write: No space left on device; free some space there"
tells "not a byte of room, nor for its log" "$reason"
refuses "$reason"
goes_on
# The model's file, and less than a segment of the journal, or than a ledger.
begin model $(($(stat -c %s "$model") / 4096 * 4096 + 65536)) || bail "no gateway"
reason="broker: disk full at $disk/state/0/c/[^ ]*: waiting; free some space there"
tells "room for the model alone" "$reason"
refuses "$reason"
goes_on
# The root, the state folder and the ballast are all that there may be.
begin names 65536 nr_inodes=3 || bail "no gateway"
reason="the folder $disk/state/0 cannot be made: No space left on device; free some space there"
tells "no room for a folder" "$reason"
refuses "$reason"
goes_on
# A broker that has served ends; there is room for the log of the next one.
begin later $(($(stat -c %s "$model") + 16 * 1048576)) && until_true 120 ready || bail "no gateway"
ok "it is ready, and answers" ask
fallocate -l $(($(df --output=avail -B1 "$disk" | tail -n 1) - 65536)) "$disk/rest"
kill -9 "$(pgrep -f "^wiremill-broker .*$disk/")"
tells "no room for the next broker" ".*broker: disk full at $disk/state/0/c/[^ ]*: waiting; free some space there"
goes_on
done_testing
