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
"${run[@]}" --output "$work/whole" >"$work/whole.words" 2>&1 || bail "wiremill run does not work: $(cat "$work/whole.words")"

capped () # KiB
{
    rm -rf "$work/out"
    (ulimit -v "$1" && exec timeout -k 5 20 "${run[@]}" --output "$work/out") >"$work/capped.words" 2>&1
    code=$?
    case $code in
    0) went=$((went + 1)) ;;
    124 | 137) echo "with $1 KiB it neither works nor ends"; return 1 ;;
    *) [ -s "$work/capped.words" ] || { echo "with $1 KiB it ends with $code and without a word"; return 1; } ;;
    esac
    # Batches that starved engines died of were held, by name: they are asked for again.
    "${run[@]}" --output "$work/out" || { [ $? = 3 ] && "${run[@]}" --output "$work/out" --retry-held; } || return 1
    same_scores memory "$work/out" "$work/whole"
}
went=0
for ((i = 0; i < caps; i++)); do
    kib=$((40000 + 1024 * (RANDOM % (1 << (5 + RANDOM % 6)))))
    ok "with $kib KiB" capped $kib
done
echo "# $went of $caps had enough"
proved P6 "$caps" $((caps - failures))
done_testing
