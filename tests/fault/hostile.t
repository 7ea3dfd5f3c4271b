#!/bin/bash
# hostile.t - a campaign beside hostile peers (tests/fault/hostile.c, all kinds at once, for FLOOD_S seconds
# at least): the honest work is done as if they were not there, and the broker's memory stays bounded. (What they
# take of its throughput: make bench.)
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/fault/crew.sh
seconds=${FLOOD_S:-$(size 3 60 28800)}
echo "# FLOOD_S=$seconds"
crew_model --events 1 --hits 1200
crew_new
crew_start broker
until_true 60 test -s "$work/out$beside/endpoint.json"
broker=$(crew_pid broker)
kib () { sed -n "s/^$1:[^0-9]*\([0-9]*\).*/\1/p" "/proc/$broker/status"; }
before=$(kib VmRSS)
nice -n 19 "$proof/hostile" "$listen" 100000 >"$work/hostile" &
hostile=$! end=$((SECONDS + seconds))
there () { [ "$(grep -c " $work/b[.][wpo]$" /proc/net/unix)" -ge 64 ]; } # the silent ones alone
until_true 60 there || bail "no hostile peers"
honest ()
{
    crew_start worker-1
    crew_start producer
    crew_written || return 1
    kill -0 $hostile || { echo "the hostile peers ended before"; return 1; }
    crew_same
}
crew_patience=300
ok "beside them the honest work is done" honest
while [ $SECONDS -lt $end ]; do sleep 0.2; done
kill $hostile
wait $hostile
sed 's/^/# /' "$work/hostile"
all () { [ "$(grep -c 'hostile: [a-z]* *[1-9][0-9]* connections' "$work/hostile")" = 7 ]; }
ok "each kind had its connections" all
peak=$(kib VmHWM)
room=$((before + 131072)) # unread messages of all of them, while the broker waits for a processor
echo "# broker $before KiB, $peak KiB at most, allowed $room KiB"
ok "the broker's memory is bounded" test "$peak" -le $room
still () { keep "$bin/wiremill" status "$work/out" && says 'out +(idle|finished)' && kill -0 "$broker"; }
ok "it serves on" until_true 60 still
crew_stop
proved P19 7 $((failures ? 0 : 7))
done_testing
