#!/bin/bash
# again.t - a campaign in which nothing is scored takes the settings of the next command, whatever they are and whenever it is
# killed; its held inputs are tried again, and no peer of the earlier settings goes on. One in which something is scored keeps
# its own.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
make_model "${small}1" && make_model "${small}2" && make_events layout --events 3 --seed 4 --hits 300 --tpcs 1 || bail "no model or events"
one=$made/layout.h5 spec=$work/own.yaml
printf 'view: own\n' >"$spec"
echo 'no events' >"$work/text.h5"
run () # output, options...
{
    keep "$bin/wiremill" run --model "$made/model-${small}1.wmm" --output "$work/$1" --quiet --workers 1 "${@:2}"
}
state () { "$bin/wiremill" status "$work/$1" --json | grep -Eo "\"$2\": [^,]*" | head -n 1; } # output, key
again='nothing of this campaign was scored yet: it begins again with other settings: '

# Each setting alone, then back: nothing is scored, so that all of them go.
exits 5 run out --input "$work/text.h5" || bail "not held"
same () { exits 5 run out --input "$work/text.h5" && ! says "$again" >/dev/null && says 'held=1 '; }
ok "the same settings: what is held stays held" same
changes () # text, options...
{
    exits 5 run out --input "$work/text.h5" "${@:2}" && says "$again.*$1" && [ "$(grep -c "$again" "$work/said")" = 1 ] &&
        says 'files=1 written=0 held=1'
}
ok "another precision" changes '--precision \(was fp32\)$' --precision fast
ok "another batch size" changes '--precision \(was fast\), --batch-hits \(was [0-9]+\)$' --batch-hits 100
ok "another specification" changes '--batch-hits \(was 100\), view \(was full\)' --spec "$spec"
ok "another model" changes '--model \(was [0-9a-f]{12}\)' --spec "$spec" --model "$made/model-${small}2.wmm"
ok "another layout" changes '--layout \(was not given\)' --layout both
mkdir "$work/into"
ok "another output folder" changes '--output \(was .*/out\)' --output "$work/into" --campaign "$work/out$beside"

# What a person does next: the settings and the inputs are put right, and the output is that of an undisturbed run.
cp "$one" "$work/one.h5"
exits 0 run whole --input "$work/one.h5" --spec "$spec" --batch-hits 100 || bail "wiremill run does not work: $(cat "$work/said")"
chmod 0 "$work/one.h5" # held for root as well, where it is a text:
[ "$(id -u)" != 0 ] || echo 'no events' >"$work/one.h5"
exits 5 run right --input "$work/one.h5" --input "$work/text.h5" || bail "not held"
chmod 644 "$work/one.h5" && cp "$one" "$work/one.h5"
right () { exits 0 run right --input "$work/one.h5" --spec "$spec" --batch-hits 100 && says "$again" && same_scores one "$work/right" "$work/whole"; }
ok "held inputs are tried again without --retry-held" right
ok "those that are not given again are not of the campaign any more" eval '[ "$(state right total)" = "\"total\": 1" ]'
sum=$(cksum <"$work/right/one.scores.h5")
refuses ()
{
    exits 5 run right --input "$work/one.h5" && says "pinned to batch_hits '100', not '[0-9]+'; it has scores already: give another --output, or" &&
        ! says "$again" >/dev/null && [ "$(cksum <"$work/right/one.scores.h5")" = "$sum" ]
}
ok "once something is scored, other settings are refused" refuses
ok "... and its own settings go on" exits 0 run right --input "$work/one.h5" --spec "$spec" --batch-hits 100

# Killed at each step between the settings: the command goes on by itself, to the output of an undisturbed run.
killed () # point, passes
{
    drop "$work/kill"
    rm -f "$work/died"
    exits 5 run kill --input "$work/text.h5" && WM_FAILPOINT=$1:$2:$work/died exits 0 run kill --input "$work/one.h5" --spec "$spec" --batch-hits 100 &&
        [ -e "$work/died" ] && [ "$(state kill total)" = '"total": 1' ] && same_scores one "$work/kill" "$work/whole"
}
stopped () # point, passes: killed there with `wiremill run`, and the earlier command is typed again before the new one
{
    drop "$work/kill"
    rm -f "$work/died.stop"
    exits 5 run kill --input "$work/text.h5"
    WM_FAILPOINT=$1:$2:$work/died.stop "$bin/wiremill" run --model "$made/model-${small}1.wmm" --output "$work/kill" --quiet \
        --input "$work/one.h5" --spec "$spec" --batch-hits 100 >"$work/said" 2>&1 &
    local pid=$!
    until_true 60 test -e "$work/died.stop" && kill -9 $pid "$(child $pid wiremill-broker)" && { wait $pid; true; } 2>/dev/null
    exits 5 run kill --input "$work/text.h5" && exits 0 run kill --input "$work/one.h5" --spec "$spec" --batch-hits 100 &&
        says "$again" && same_scores one "$work/kill" "$work/whole"
}
for point in $(size broker-campaign-again "broker-campaign-before broker-campaign-again broker-ledger-commit broker-ledger-committed" \
        "broker-campaign-before broker-campaign-again"); do
    ok "$point: the broker is killed" killed "$point" 1
    ok "... with the command, and the earlier command comes first" stopped "$point" 1
done
ok "... between the two copies of the record" killed broker-campaign-again 2

# By hand: a broker that comes back with other settings; its worker and its producer are those of the earlier campaign.
listen=ipc://$work/b
serve () # options...
{
    rm -f "$work/hand$beside/endpoint.json" "$work/broker"
    "$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$work/hand" --listen "$listen" "$@" >"$work/broker" 2>&1 &
    broker=$!
    until_true 60 test -s "$work/hand$beside/endpoint.json"
}
serve && "$bin/wiremill" pause --broker "$listen" >/dev/null || bail "no broker: $(cat "$work/broker")"
"$bin/wiremill" work --broker "$listen" --cache "$work/cache" --threads 1 >"$work/worker" 2>&1 &
worker=$!
"$bin/wiremill" produce --quiet --broker "$listen" --input "$work/one.h5" >"$work/producer" 2>&1 &
producer=$!
has () { "$bin/wiremill" status --broker "$listen" --json | grep -Eq '"queued": *[1-9]' && grep -q 'session with' "$work/worker"; }
until_true 60 has || bail "nothing is announced: $(cat "$work/broker")"
kill -9 $broker && { wait $broker; true; } 2>/dev/null
serve --spec "$spec" --batch-hits 100
ok "a broker by hand begins again, too" grep -q "$again" "$work/broker"
ended () { exits "$1" wait "$2"; }
ok "the earlier producer ends" ended 1 $producer
ok "... as another campaign is there" grep -q 'another campaign is now at this broker' "$work/producer"
ok "the earlier worker ends" ended 1 $worker
ok "... as another campaign is there" grep -q 'serves another campaign; start a new worker' "$work/worker"
"$bin/wiremill" work --broker "$listen" --cache "$work/cache" --threads 1 >"$work/worker" 2>&1 &
hand ()
{
    "$bin/wiremill" resume --broker "$listen" && exits 0 keep timeout 120 "$bin/wiremill" produce --quiet --broker "$listen" --input "$work/one.h5" &&
        same_scores one "$work/hand" "$work/whole"
}
ok "new ones score the new campaign" hand
kill $broker && wait $broker
ok "a broker with other settings is refused then" refused 5 "it has scores already: give another --output, or" "$bin/wiremill" broker \
    --model "$made/model-${small}1.wmm" --output "$work/hand" --listen "$listen"
done_testing
