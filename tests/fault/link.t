#!/bin/bash
# link.t - a farm behind a link that goes dark: two campaigns, workers in another network namespace
# and one beside the broker; the link loses everything, or is cut, again and again (DARK=n periods).
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
far=wm-$$ near=wm-a$$ end=wm-b$$ net=169.254.$((1 + $$ % 160))
if ! { ip netns add $far && ip link add $near type veth peer name $end &&
    ip link set $end netns $far; } 2>/dev/null; then
    ip netns del $far 2>/dev/null
    echo "1..0 # SKIP network namespaces need root and iproute2"
    exit 0
fi
at_exit 'finish; ip netns del $far; ip link del $near 2>/dev/null'
away () { ip netns exec $far "$@"; }
ip addr add $net.1/30 dev $near && ip link set $near up && away ip addr add $net.2/30 dev $end &&
    away ip link set $end up && away ip link set lo up || bail "the link cannot be made"

dark=${DARK:-$(size 3 40 5000)} RANDOM=${SEED:-1}
echo "# DARK=$dark SEED=${SEED:-1}"
make_model "${small}1" && n=$(size 2 12 200) && make_events dark-$n --events $n --seed 8 --hits $(size 3000 55000 55000) --tpcs 2 ||
    bail "no model or events"
batch=$(size 64 512 512)
run=("$bin/wiremill" run --model "$made/model-${small}1.wmm" --quiet --input "$made/dark-$n.h5" --batch-hits $batch)
"${run[@]}" --output "$work/whole" >/dev/null 2>&1 || bail "wiremill run does not work"

for c in 1 2; do
    "$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$work/out$c" --batch-hits $batch \
        --listen tcp://$net.1:$((5550 + 10 * c)) --insecure >"$work/broker$c.words" 2>&1 &
done
slow_engine
export WM_KILLER_SLOW_MS=$(size 100 0 0) # the campaigns last as long as it takes to be dark a few times
for c in 1 2; do
    until_true 60 test -s "$work/out$c$beside/endpoint.json"
    # One producer is near, one is far: its inputs and outputs lie on a disk that both see.
    at=; [ $c = 1 ] || at=away
    $at "$bin/wiremill" produce --broker tcp://$net.1:$((5550 + 10 * c)) \
            --input "$made/dark-$n.h5" >"$work/produce$c.words" 2>&1 &
    producer[c]=$!
    ip netns exec $far "$bin/wiremill" work --broker tcp://$net.1:$((5550 + 10 * c)) --threads 1 \
            --engine openvino --cache "$work/cache" >"$work/far$c.words" 2>&1 &
done
"$bin/wiremill" work --broker tcp://$net.1:5560 --threads 1 --engine openvino --cache "$work/cache" \
        >"$work/near.words" 2>&1 &

busy () { kill -0 "${producer[1]}" 2>/dev/null || kill -0 "${producer[2]}" 2>/dev/null; }
times=0
while busy; do
    sleep 0.$((RANDOM % 9 + 1))
    [ $times -lt "$dark" ] || continue
    times=$((times + 1))
    if [ $((RANDOM % 2)) = 0 ]; then # nothing arrives and nobody is told; 1 s to 5 s, the silence is 3 s
        ip route add blackhole $net.2/32
        away ip route add blackhole $net.1/32
        sleep $((RANDOM % 5 + 1))
        ip route del blackhole $net.2/32
        away ip route del blackhole $net.1/32
    else
        ip link set $near down
        sleep $((RANDOM % 5 + 1))
        ip link set $near up
    fi
done
echo "# dark $times times"
ok "the link was dark" test $times -gt 0
for c in 1 2; do
    wait "${producer[c]}"
    code=$?
    ok "campaign $c ends by itself" test $code = 0
    ok "its output is that of an undisturbed run" same_scores dark-$n "$work/out$c" "$work/whole"
done
proved P7 $times $((failures ? 0 : times))
done_testing
