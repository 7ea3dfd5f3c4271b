#!/bin/bash
# bomb.t - BOMBS small messages that claim much: results of unannounced events that claim to have 65,536 batches each,
# and workers that ask for the model and do not read it. The broker's memory stays bounded, also after a restart, and
# operators are answered.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/fault/crew.sh
bombs=${BOMBS:-$(size 2000 20000 200000)}
echo "# BOMBS=$bombs"
small= # the memory of a large model is what is counted
make_model 1 || bail "no model"
crew_new
environment[broker]='MALLOC_ARENA_MAX=2'
begin ()
{
    crew_start broker
    broker=$pid
    until_true 60 serves
}
# Asked at its address: status of a folder also reads the ledger where no broker answers yet.
serves () { keep "$bin/wiremill" status --broker "$listen" && kill -0 "$broker"; }
kib () { sed -n "s/^$1:[^0-9]*\([0-9]*\).*/\1/p" "/proc/$broker/status"; }
bounded () # KiB more than before
{
    echo "# $before KiB before, $(kib VmHWM) KiB at most"
    [ "$(kib VmHWM)" -le $((before + $1)) ]
}
returned () { "$bin/wiremill" status "$work/out" --json | tr -d ' \n' | sed -n 's/.*"returned":\([0-9]*\).*/\1/p'; }
ok "a broker" begin
before=$(kib VmHWM)
"$proof/hostile" "$listen" 100000 bomb >"$work/hostile" &
hostile=$!
arrived () { [ "$(returned)" -ge "$bombs" ]; }
ok "$bombs results of events that nobody announced" until_true 300 arrived
kill -KILL $hostile # its input stays open
{ wait $hostile; } 2>/dev/null
n=$(returned) # they come faster than they are counted
echo "# $n came"
ok "each takes memory for itself, not for 65,536 batches" bounded $((65536 + n / 2))
crew_stop
ok "the broker starts again" begin
ok "... with all of them" test "$(returned)" -ge "$n"
ok "... in as little memory" bounded $((65536 + n / 2))
crew_stop

ok "and again" begin
before=$(kib VmHWM)
"$proof/hostile" "$listen" 100000 models >"$work/hostile" &
hostile=$!
asking () { [ "$("$bin/wiremill" status "$work/out" --json | grep -o '"label": *"hostile"' | wc -l)" -ge 100 ]; }
ok "hundreds of workers ask for the model and do not read it" until_true 60 asking
ok "operators are answered" until_true 60 serves # an answer may be late beside hundreds of connections
sleep "$(size 2 20 200)"
ok "... and still" until_true 60 serves
kill $hostile
wait $hostile
sed 's/^/# /' "$work/hostile"
# A model in the memory of each would be hundreds of MiB.
ok "they take no memory for the model" bounded $((65536 + $(stat -c %s "$made/model-1.wmm") / 1024))
crew_stop
proved P19 2 $((failures ? 0 : 2))
done_testing
