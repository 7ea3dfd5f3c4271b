#!/bin/bash
# farm.sh - a broker and `wiremill farm` for tests of farms: sourced after helper.sh, with $out, $folder and ${farm[@]} set.
serve () # options of wiremill broker...: $broker, in $out; $batch_hits hits a batch
{
    "$bin/wiremill" broker --model "$made/model-1.wmm" --output "$out" --batch-hits "${batch_hits:-16}" "$@" >"$work/broker" 2>&1 &
    broker=$!
    until_true 60 grep -q "\"pid\": *$broker" "$out$beside/endpoint.json"
}
start () # options...; without what the last farm left to read: `sees` and the log are about this one
{
    rm -f "$folder/farm.json" "$work/farm"
    "${farm[@]}" "$@" >"$work/farm" 2>&1 &
    farm_pid=$!
}
count () { [ "$(jobs_of | wc -l)" = "$1" ]; } # n: so many jobs, by the test's jobs_of
sees () { grep -q "\"connected\": $1\b" "$folder/farm.json"; } # n
finishes () # $producer ends, helped by a fast worker, then all jobs do, and the farm has reported no failure
{
    "$bin/wiremill" work "$out" --idle-timeout "${1:-2}" >"$work/fast" 2>&1 &
    local fast=$!
    wait $producer || return 1
    wait $fast
    until_true 60 count 0 && ! grep -E 'failed|ends:' "$work/farm"
}
