#!/bin/bash
# run.sh - runs fuzz targets; one line each with how much was tried, and a line for the table of promises.
#
# usage: tests/fuzz/run.sh loop RUNS [NAME...]      the targets of WM_BUILD, by their own loop of RUNS mutations
#        tests/fuzz/run.sh libfuzzer SECONDS [NAME...]   those of WM_BUILD, built with LIBFUZZER=1, so long each
# Seeds come from the programs themselves, regressions from tests/fuzz/corpus/NAME. libFuzzer keeps what it learns in
# $WM_BUILD/corpus/NAME. An input that fails stays in $WM_BUILD/findings/NAME; put it into the corpus with its mending.
cd "$(dirname "$0")/../.." || exit 1
B=$PWD/${WM_BUILD:-build/release}
how=$1 much=$2
shift 2
names=("$@")
if [ ${#names[@]} = 0 ]; then
    for file in tests/fuzz/fuzz_*.c; do
        file=${file##*/fuzz_}
        names+=("${file%.c}")
    done
fi
# libhdf5 leaks where it refuses a file; that is not ours to mend.
export LSAN_OPTIONS=suppressions=$PWD/tests/fuzz/lsan.supp:print_suppressions=0
export ASAN_OPTIONS=allocator_may_return_null=1:$ASAN_OPTIONS UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:$UBSAN_OPTIONS
began=$SECONDS all=0 bad=0
for name in "${names[@]}"; do
    corpus=$PWD/tests/fuzz/corpus/$name program=$B/tests/fuzz/$name findings=$B/findings/$name
    rm -rf "$findings"
    mkdir -p "$findings" && cd "$findings" || exit 1
    if [ "$how" = loop ]; then
        line=$("$program" --runs "$much" --corpus "$corpus" 2>log) || bad=$((bad + 1))
        n=$(sed -n 's/.* executions \([0-9]*\) .*/\1/p' <<<"$line")
    else
        learnt=$B/corpus/$name
        mkdir -p "$learnt" seeds
        WM_FUZZ_SEEDS=seeds "$program" -runs=0 seeds >log 2>&1
        list=("$learnt" seeds)
        [ ! -d "$corpus" ] || list+=("$corpus")
        "$program" -max_total_time="$much" -max_len=65536 -timeout=20 -rss_limit_mb=3000 -malloc_limit_mb=1100 \
            -print_final_stats=1 -close_fd_mask=1 "${list[@]}" >log 2>&1 || bad=$((bad + 1))
        n=$(sed -n 's/^stat::number_of_executed_units: //p' log)
        line="fuzz: $name executions ${n:-0} corpus $(find "${list[@]}" -type f | wc -l) findings $(find . -name 'crash-*' \
            -o -name 'leak-*' -o -name 'timeout-*' -o -name 'oom-*' | wc -l)"
    fi
    all=$((all + ${n:-0}))
    echo "${line:-fuzz: $name failed; its input and its log are in $findings}"
    [ -n "$line" ] || tail -n 20 log
    cd - >/dev/null || exit 1
done
echo "proof: fuzz tried $((all + bad)) survived $all seconds $((SECONDS - began))"
exit $((bad > 0))
