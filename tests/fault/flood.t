#!/bin/bash
# flood.t - PRODUCERS (20) with more payload than the byte budget, first stopped until all that were asked are late, then
# beside a broker that is stopped nine tenths of the time, with eight workers that ask for all they can and are stopped: the broker fills its budget and stays within it, `wiremill status` prints what
# holds the campaign back; then workers come and all is done.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/fault/crew.sh
n=${PRODUCERS:-$(size 20 200 400)}
echo "# PRODUCERS=$n"
# Noise, which nothing makes smaller: four batches of 4 MiB each, a tenth of a second of work a batch.
make_model 1 && build/venv/bin/python -c 'import sys, numpy; numpy.save (sys.argv[1], numpy.random.default_rng (1).random ((1820, 48, 48), "f4"))' \
    "$work/noise.npy" || bail "no model or patches"
mkdir "$work/in"
for ((i = 0; i < n; i++)); do ln "$work/noise.npy" "$work/in/flood-$i.npy"; done
export WM_TIME_SCALE=4
budget=17039360 # the least there is
"$bin/wiremill" broker --model "$made/model-1.wmm" --output "$work/out" --listen "$listen" \
        --budget $budget >"$work/words.broker" 2>&1 &
broker=$!
until_true 60 test -s "$work/out$beside/endpoint.json"
kib () { sed -n "s/^$1:[^0-9]*\([0-9]*\).*/\1/p" /proc/$broker/status; }
before=$(kib VmRSS)
producers=()
for ((i = 0; i < n; i++)); do
    echo "$work/in/flood-$i.npy" >"$work/$i.list"
    "$bin/wiremill-producer" produce --broker "$listen" --input-list "$work/$i.list" >>"$work/words.producer" 2>&1 &
    producers+=($!)
done
status () { "$bin/wiremill" status --broker "$listen" --json; }
submitted () { [ "$(status | tr -d ' \n' | sed -n 's/.*"events":{"announced":\([0-9]*\).*/\1/p')" = "$n" ]; }
ok "all $n events are announced" until_true 600 submitted
# Their couriers send heartbeats, and they answer nothing. Were they asked in turn, all would answer at once.
kill -STOP "${producers[@]}"
# Workers that ask and are stopped then: payloads are asked for, and nobody takes them.
workers=()
for i in 1 2 3 4 5 6 7 8; do
    "$bin/wiremill" work --broker "$listen" --cache "$work/cache" --threads 1 >>"$work/words.worker" 2>&1 &
    workers+=($!)
done
late () { [ "$(grep -c 'has not sent the' "$work/words.broker")" -ge "$1" ]; }
ok "producers that do not answer are late: all four that the budget let be asked" until_true 60 late 4
while :; do kill -STOP $broker; sleep 0.045; kill -CONT $broker; sleep 0.005; done 2>/dev/null &
slow=$!
kill -CONT "${producers[@]}"
running () { status | tr -d ' \n' | grep -q '"returned":[1-9]'; }
ok "workers come" until_true 300 running
kill -STOP "${workers[@]}"
peak () { kib VmHWM; }
until_counted 60 $((before + budget / 2 / 1024)) peak
for ((i = 0; i < $(size 20 50 200); i++)); do status; done >/dev/null # it goes on: so many rounds more
kill -KILL "${workers[@]}"
kill $slow
{ wait "${workers[@]}" $slow; } 2>/dev/null
kill -CONT $broker
peak=$(peak)
# Besides payloads: what malloc keeps (broker/wm_resident.h: 8 MiB, and 4 MiB between two looks), manifests, sessions.
room=$((before + budget / 1024 + 12288 + 64 * n))
echo "# broker $before KiB, with $n producers $peak KiB at most, allowed $room KiB"
ok "the broker stays within its budget" test "$peak" -le "$room"
ok "... which it needed" test "$peak" -ge $((before + budget / 2 / 1024))
left () { keep "$bin/wiremill" status --broker "$listen" && says 'no worker'; }
ok "status prints what holds the campaign back" until_true 60 left
for i in 1 2; do "$bin/wiremill" work --broker "$listen" --cache "$work/cache" \
        --threads 1 >>"$work/words.worker" 2>&1 & done
finished () { [ "$(find "$work/out" -name '*.scores.h5' | wc -l)" = "$n" ]; }
[ "${WM_SIZE:-test}" = test ] || ok "with workers all is done" until_true 3600 finished
proved P14 "$n" $((failures ? 0 : n))
done_testing
