#!/bin/bash
# stranger.t - a stranger who speaks the protocol by libzmq alone: which listener admits which key, and damaged
# messages by peers that have keys. A campaign beside them ends as if they were not there.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_model "${small}1" && make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
python3 -c \
        'import ctypes.util, sys; sys.exit (not all (map (ctypes.util.find_library, ("zmq", "sodium", "xxhash"))))' ||
    { skip "python3 finds no libzmq, libsodium or libxxhash"; done_testing; }
n=${STRANGE:-$(size 600 20000 200000)} seed=${SEED:-1}
echo "# STRANGE=$n SEED=$seed"
out=$work/out keys=$work/out$beside b=tcp://127.0.0.1:$port
"$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$out" --listen "$b" --keys >"$work/broker" 2>&1 &
broker=$!
ok "a broker serves" until_true 60 grep -q "\"pid\": *$broker" "$keys/endpoint.json"
added ()
{
    "$bin/wiremill" keys add "$out" --role worker --output "$work/$1" "${@:2}" | sed -n 's/^key \([0-9a-f]*\):.*/\1/p'
}
revoked=$(added revoked) && "$bin/wiremill" keys revoke "$out" --id "$revoked" >/dev/null
added expired --expires 1s >/dev/null
table ()
{
    cd "$keys" && python3 "$OLDPWD/tests/fault/stranger.py" try "$keys" "$port" - \
            join-{worker,producer,operator,monitor} "$work"/{revoked,expired} >"$work/table" && cat "$work/table" &&
    diff - "$work/table" <<'EOF'
- worker closed
- producer closed
- operator closed
join-worker worker in
join-worker producer refused 400
join-worker operator refused 400
join-producer worker refused 400
join-producer producer in
join-producer operator refused 400
join-operator worker refused 400
join-operator producer refused 400
join-operator operator in
join-monitor worker refused 400
join-monitor producer refused 400
join-monitor operator in
revoked worker refused 500
revoked producer refused 400
revoked operator refused 400
expired worker refused 500
expired producer refused 400
expired operator refused 400
EOF
}
as_is () { (table); }
ok "each listener admits its own" until_true 60 as_is
nice -n 19 python3 tests/fault/stranger.py mutate "$keys" "$port" "$n" "$seed" \
        "$keys"/join-{worker,producer,operator,monitor} - \
        >"$work/strange" 2>&1 &
strange=$!
"$bin/wiremill" work --broker "$b" --join-file "$keys/join-worker" >"$work/worker" 2>&1 &
worker=$!
campaign () { "$bin/wiremill" produce --broker "$b" --join-file "$keys/join-producer" --input "$made/two.h5"; }
ok "a campaign beside damaged messages ends" campaign
ok "all of them were sent" wait $strange
inside ()
{
    cat "$work/strange"; grep -Eq '^[0-9]{3,} messages inside, [0-9]{2,} peers refused, [1-9][0-9]+ of' \
            "$work/strange"
}
ok "most by peers that a key let in" inside
whole ()
{
    "$bin/wiremill" status "$out" >"$work/said" && says 'files: 1 written, 0 open, 0 held of 1' &&
        kill -0 $broker && kill -0 $worker
}
ok "and nothing of the campaign is missing" whole
kill $worker
wait $worker
done_testing
