#!/bin/bash
# hosts.t - one campaign on four hosts (network namespaces): broker, two with workers, one with the producer. The network
# between them loses 20 % of the packets, delays, is cut host by host; a host gets another address; workers join and leave.
# In `make test` times are a tenth (20 ms there and back for 200); `make proof` runs the real ones. (PERIODS, WORKERS, SEED)
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
unset WM_BROKER
scale=$(size 10 1 1) periods=${PERIODS:-$(size 5 60 5000)} workers=${WORKERS:-$(size 4 30 300)} RANDOM=${SEED:-1}
export WM_TIME_SCALE=$scale
net=wmh-$$ hosts=(broker one two producer)
away () { for h in "${hosts[@]}"; do ip netns del "$net-$h" 2>/dev/null; done; }
leave () { away; echo "1..0 # SKIP $*"; exit 0; }
[ -w /dev/net/tun ] || leave "no /dev/net/tun, of which the network between hosts is made"
for h in "${hosts[@]}"; do ip netns add "$net-$h" 2>/dev/null || leave "network namespaces need root and iproute2"; done
unshare --uts true 2>/dev/null || leave "no host names of their own"
at_exit 'finish; away'
echo "# PERIODS=$periods WORKERS=$workers SEED=${SEED:-1}"

make_model "${small}1" && n=$(size 1 80 1600) && make_events hosts-$n --events "$n" --seed 9 --hits 4000 --tpcs 1 || bail "no model or events"
"$bin/wiremill" run --model "$made/model-${small}1.wmm" --quiet --input "$made/hosts-$n.h5" --batch-hits 64 --output "$work/whole" \
    >/dev/null 2>&1 || bail "wiremill run does not work"

mkfifo "$work/orders" && exec {orders}<>"$work/orders"
order () { echo "$*" >&$orders; }
"$proof/bad_link" "${SEED:-1}" w$$-0=10.77.0.1 w$$-1=10.77.0.2 w$$-2=10.77.0.3 w$$-3=10.77.0.4 <"$work/orders" >"$work/link" 2>&1 &
link=$!
until_true 60 grep -q ready "$work/link" || leave "TUN devices cannot be made: $(cat "$work/link")"
for i in 0 1 2 3; do
    ip link set w$$-$i netns "$net-${hosts[i]}" && ip -n "$net-${hosts[i]}" addr add 10.77.0.$((i + 1))/24 dev w$$-$i &&
        ip -n "$net-${hosts[i]}" link set w$$-$i up && ip -n "$net-${hosts[i]}" link set lo up || bail "no network"
done
# A program on a host, in the background: $! is its own process.
on () # host, file for its output, command...
{
    trap - EXIT
    exec ip netns exec "$net-$1" unshare --uts sh -c 'hostname "$0" && exec "$@"' "host-$1" "${@:3}" >>"$2" 2>&1
}
members=() gone=() joined=0 left=0
join () # host
{
    joined=$((joined + 1))
    on "$1" "$work/worker-$joined" "$bin/wiremill" work "$work/out" --threads 1 --cache "$work/cache" --give-up 600 &
    members+=($!)
}
depart () # one worker drains, or is killed
{
    [ ${#members[@]} -gt 2 ] || return
    local i=$((RANDOM % ${#members[@]}))
    # Not before it is the worker: until then it is a shell, which would clean up this test.
    until_true 60 eval '[ "$(readlink /proc/${members[i]}/exe)" = "$bin/wiremill-worker" ]' >/dev/null || return
    disown "${members[i]}" # nobody waits for it
    kill -$([ $((RANDOM % 2)) = 0 ] && echo TERM || echo KILL) "${members[i]}" 2>/dev/null
    gone+=("${members[i]}")
    unset "members[$i]"
    members=("${members[@]}") left=$((left + 1))
}
nap () { sleep "$(awk "BEGIN { print $1 / $scale }")"; } # seconds of the real world

on broker "$work/broker.words" "$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$work/out" --batch-hits 64 \
    --listen 'tcp://*:5500-5600' --advertise tcp://10.77.0.1:5500 --insecure &
broker=$!
until_true 60 test -s "$work/out$beside/endpoint.json" || bail "no broker: $(cat "$work/broker.words")"
join one
until_true 60 grep -q "session with" "$work/worker-1" || bail "no worker: $(cat "$work/worker-1")"
ok "a worker on another host finds the broker by the folder" true
join two # the model is in the cache that both share
until_true 60 grep -q "session with" "$work/worker-2"

order loss 20
order delay $((100 / scale))
on producer "$work/producer.words" "$bin/wiremill" produce --campaign "$work/out" --quiet --give-up 600 --input "$made/hosts-$n.h5" &
producer=$!
cuts=0 moves=0 address=3
for ((i = 0; i < periods || joined < workers; i++)); do
    case $((i % 4)) in
    0 | 2) # a host is cut off: its sessions last through it, or end
        h=$((1 + RANDOM % 3)) cuts=$((cuts + 1))
        order cut $h
        nap $((1 + RANDOM % $(size 15 40 40)))
        order join $h ;;
    1) # the second workers' host gets another address; its connections are dead
        moves=$((moves + 1))
        ip -n "$net-two" addr del 10.77.0.$address/24 dev w$$-2
        address=$((10 + moves % 200))
        ip -n "$net-two" addr add 10.77.0.$address/24 dev w$$-2
        order move 2 10.77.0.$address ;;
    3) depart ;;
    esac
    [ $joined -ge "$workers" ] || join "${hosts[1 + RANDOM % 2]}"
done
status=$(ip netns exec "$net-one" unshare --uts sh -c 'hostname stranger && exec "$@"' sh timeout 60 "$bin/wiremill" status "$work/out" 2>&1)
ok "status finds the broker through the bad link" grep -q "^hits" <<<"$status"
busy=$(kill -0 $producer 2>/dev/null && echo 1 || echo 0)
order loss 0
order delay 0
for h in 1 2 3; do order join $h; done
wait $producer
code=$?
kill $broker
until_true 60 eval '! kill -0 $broker'
for pid in "${members[@]}" "${gone[@]}"; do kill -9 "$pid" 2>/dev/null; done
order end
{ wait $link; } 2>/dev/null
echo "# $(tail -n 1 "$work/link")"
echo "# $cuts cuts, $moves addresses, $joined workers joined, $left left; the producer was still busy then: $busy"
[ $code = 0 ] || { tail -n 5 "$work"/producer.words "$work"/broker.words; }
ok "the campaign ends" test $code = 0
ok "all workers joined, some left" test "$joined" -ge "$workers" -a "$left" -gt 0
ok "its output is that of an undisturbed run" same_scores hosts-$n "$work/out" "$work/whole"
ok "no program found an assertion" eval '! grep -lE "ssertion|is damaged" "$work"/worker-* "$work"/*.words'
proved P7 $((cuts + moves)) $((failures ? 0 : cuts + moves))
done_testing
