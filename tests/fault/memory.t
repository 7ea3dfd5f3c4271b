#!/bin/bash
# memory.t - the address space of a whole crew, or of one of its processes, is capped CAPS times, from
# hardly enough to start with to nearly enough: no wrong answer, and without the cap the next start goes on.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
caps=${CAPS:-$(size 4 100 2000)} RANDOM=${SEED:-1}
echo "# CAPS=$caps SEED=${SEED:-1}"
make_model 1 && make_events memory --events 2 --seed 12 --hits 6000 --tpcs 1 || bail "no model or events"
run=("$bin/wiremill" run --model "$made/model-1.wmm" --quiet --batch-hits 128 --workers 1 --threads 1 --input "$made/memory.h5")
"${run[@]}" --output "$work/whole" >"$work/whole.words" 2>&1 ||
    bail "wiremill run does not work: $(cat "$work/whole.words")"

capped () # KiB
{
    drop "$work/out"
    (ulimit -v "$1" && exec timeout -k 10 180 "${run[@]}" --output "$work/out") >"$work/capped.words" 2>&1
    code=$?
    case $code in
    0) went=$((went + 1)) ;;
    124 | 137) echo "with $1 KiB it neither works nor ends"; return 1 ;;
    *) [ -s "$work/capped.words" ] || { echo "with $1 KiB it ends with $code and without a word"; return 1; } ;;
    esac
    "${run[@]}" --output "$work/out" || return 1 # what an engine starved on is held against nobody
    same_scores memory "$work/out" "$work/whole"
}
went=0
# Enough to begin with, not for a batch of a whole plane: the worker leaves, the batch is for others.
listen=ipc://$work/b
worker=("$bin/wiremill-worker" --broker "$listen" --engine sparse --threads 1 --cache "$work/cache")
starved ()
{
    "$bin/wiremill" broker --model "$made/model-1.wmm" --output "$work/big" --listen "$listen" >"$work/broker" 2>&1 &
    until_true 60 test -s "$work/big$beside/endpoint.json" || return 1
    "$bin/wiremill" produce --broker "$listen" --input "$made/memory.h5" >"$work/produce" 2>&1 &
    local producer=$! kib
    for kib in 92000 95000 98000 101000 104000; do # what an engine needs is not the same everywhere
        (ulimit -v $kib && exec timeout -k 5 180 "${worker[@]}") >"$work/starved.words" 2>&1
        [ $? = 1 ] && grep -q 'failed: the engine died .* no memory for' "$work/starved.words" && break
    done
    grep -q 'no address space for 16 batches at a time, takes 2' "$work/starved.words" || return 1
    grep -q 'draining: 3 failures of its engine .* no memory for' "$work/starved.words" ||
        { cat "$work/starved.words"; return 1; }
    "${worker[@]}" >"$work/good.words" 2>&1 &
    wait $producer && "$bin/wiremill" status "$work/big" --json >"$work/status" &&
        grep -q '"n_fail": 0,' "$work/status" && grep -q '"n_lost": 0,' "$work/status"
}
ok "an engine without memory for a batch: its worker leaves, and nothing is held against the batch" starved
for ((i = 0; i < caps; i++)); do
    kib=$((40000 + 1024 * (RANDOM % (1 << (5 + RANDOM % 6)))))
    ok "with $kib KiB" capped $kib
done
echo "# $went of $caps had enough"
proved P6 "$caps" $((caps - failures))
done_testing
