#!/bin/bash
# run.t - a whole campaign on one machine, the same command again, its messages.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_model 1 && make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
run=("$bin/wiremill" run --model "$made/model-1.wmm" --output "$work/out" --quiet)

first () { keep "${run[@]}" --input "$made/two.h5" && says 'events +2$' && says 'hits/s' && says 'sent per event'; }
ok "a campaign runs and prints a summary" first
ok "its output is there" test -s "$work/out/two.scores.h5"
cp "$work/out/two.scores.h5" "$work/first.h5"

again () { keep "${run[@]}" --input "$made/two.h5" && says 'nothing was left to do'; }
ok "the same command again has nothing to do" again
ok "and leaves the output as it is" cmp "$work/out/two.scores.h5" "$work/first.h5"

columns ()
{
    keep "$bin/wiremill" run --model "$made/model-1.wmm" --output "$work/out" --input "$made/two.h5" &&
        says '^columns track em none michel: labels of the preset protodune-2021$'
}
ok "a line names the columns that are written, and where their names are from" columns
finished () { keep "$bin/wiremill" status "$work/out" && says 'broker not running' && says '100.0%'; }
ok "status without a broker" finished
json () { keep "$bin/wiremill" status --campaign "$work/out$beside" --json && says '"schema": "wiremill-status-1"'; }
ok "status as JSON" json
[ -z "$WM_QUICK" ] || done_testing

mkdir -p "$work/a" "$work/b"
make_events one --events 1 --seed 6 --hits 3000 --tpcs 1 || bail "no events"
cp "$made/one.h5" "$work/a/one.h5"
cp "$made/two.h5" "$work/b/one.h5"
printf '%s\n' "$work/a/one.h5" "$work/b/one.h5" "$work/a/one.h5" >"$work/list"
added () { keep "${run[@]}" --input-list "$work/list" && says 'files +3 written' && says 'all are scored'; }
ok "new inputs are added to the campaign, one given twice counts once" added
both () { test "$(ls "$work"/out/one*.scores.h5 | wc -l)" = 2; }
ok "equal stems get different names" both

long=$work/$(printf 'a%.0s' {1..90})
deep () { "${run[@]}" --campaign "$long" --output "$work/deep" --input "$made/one.h5"; }
ok "a campaign whose path is too long for a socket" deep
# Answers that come late, because the broker was stopped for a while, are not taken for the final state.
late ()
{
    local pid broker= try
    for try in 1 2 3 4 5; do # it may have ended before
        drop "$work/late"
        "$bin/wiremill" run --model "$made/model-1.wmm" --output "$work/late" --quiet \
                --input "$made/two.h5" >"$work/said" 2>&1 &
        pid=$!
        until [ -s "$work/late$beside/endpoint.json" ] || ! kill -0 $pid; do sleep 0.02; done
        broker=$(child $pid wiremill-broker) && kill -STOP "$broker" && break
        wait $pid
    done
    sleep 0.9
    kill -CONT "$broker" && wait $pid && says 'hits +4,929 scored, 0 held'
}
ok "the summary is that of the end, not of an earlier answer" late
summary () { keep "${run[@]}" --json --input "$made/two.h5" && says '"schema": "wiremill-run-1"' && says '"exit": 0'; }
ok "the summary as JSON" summary

# On a terminal of 60 or 80 columns: no redrawn line fills the last column, no line of status is longer.
at_width () { TERM=xterm keep script -qec "stty cols $1; $2" /dev/null </dev/null; }
narrow () # columns
{
    drop "$work/narrow"
    at_width "$1" "'$bin/wiremill' run --model '$made/model-1.wmm' --output '$work/narrow' --input '$made/two.h5'" ||
        return 1
    perl -0777 -ne 'for (/\r\e\[K([^\r\n]*)/g) { $n += length > 0; $most = length if length > $most; } print "$n lines, longest $most\n"; exit !($n && $most < '"$1"')' "$work/said" &&
        says '[0-9] %  .*ETA ' && at_width "$1" "'$bin/wiremill' status '$work/narrow'" && says '100.0%' &&
        says "^CAMPAIGN .*hits/s" &&
        ! grep -A1 '^CAMPAIGN' "$work/said" | tr -d '\r' | grep -E "^.{$(($1 + 1))}"
}
words () # no line is longer than the terminal, but for names and commands, which stay whole
{
    drop "$work/narrow"
    mkdir -p "$work/bad" && head -c 20000 "$made/two.h5" >"$work/bad/t.h5"
    at_width 60 "'$bin/wiremill' run --model '$made/model-1.wmm' --output '$work/narrow' --input '$work/bad/t.h5'" && return 1
    says 'producer: warning: input held: ' && sed 's/^\x1b\[K//; s/.*\r\x1b\[K//' "$work/said" | tr -d '\r' | grep -E '^.{61}' | grep -Ev '^ *[^ ]*/|wiremill-result|^held: /' >"$work/long"
    [ ! -s "$work/long" ] || { cat "$work/long"; return 1; }
}
ok "progress and status fit 80 columns" narrow 80
ok "... and 60" narrow 60
ok "messages break between words there" words

# Outputs of small inputs are committed together: 64 of them take fewer than 33 syncs of their folder. A
# producer that does more of these steps ends at the 33rd.
small_inputs ()
{
    local i all=$work/all.npy head=$work/head
    "$bin/wiremill" cut --input "$made/two.h5" --event 0 --patches "$all" && mkdir -p "$work/small" || return 1
    printf '\x93NUMPY\x01\x00v\x00%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 48, 48), }" >"$head"
    for i in {1..64}; do
        { cat "$head" && tail -c $((i * 18432)) "$all" | head -c 18432; } >"$work/small/$i.npy"
    done
    [ $(stat -c %s "$work/small/64.npy") = 18560 ]
}
together ()
{
    small_inputs &&
        keep env WM_FAILPOINT=producer-output-placed:33 "$bin/wiremill" run --model "$made/model-1.wmm" --quiet \
            --output "$work/small-out" --input "$work/small/*.npy" &&
        says 'files +64 written' && says 'hits +128 scored'
}
ok "outputs of many small inputs are committed together" together
lost ()
{
    rm "$work/out/two.scores.h5" && "${run[@]}" --input "$made/two.h5" && cmp "$work/out/two.scores.h5" "$work/first.h5"
}
ok "an output that is lost is made again, the same" lost
doctor () { keep "$bin/wiremill" doctor "$work" && says '^ok +programs' && says '^ok +gpu|^warn +gpu'; }
ok "doctor finds this machine fit" doctor
done_testing
