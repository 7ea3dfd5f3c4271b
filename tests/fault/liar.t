#!/bin/bash
# liar.t - a worker that now and then returns a score off by 0.01: with a second machine it is known that one of two is wrong,
# a third finds which; the liar is named and sent away, and all that it had scored is scored again, also what was written.
# Machines differ by their keys and hosts' names here. TRIES times.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
apart=(unshare --uts) && [ "$(id -u)" = 0 ] || apart=(unshare --map-root-user --uts)
"${apart[@]}" sh -c 'hostname other-machine' 2>/dev/null || { echo "1..0 # SKIP no host names of their own"; exit 0; }
tries=${TRIES:-$(size 1 10 200)} b=tcp://127.0.0.1:$port out=$work/out keys=$work/out$beside
echo "# TRIES=$tries"
make_model "${small}1" && make_events liar --events 2 --seed 9 --hits 3000 --tpcs 1 || bail "no model or events"
export WM_TIME_SCALE=10 WM_OPENVINO_SO=$PWD/${WM_BUILD:-build/release}/tests/wm_killer.so
unset WM_JOIN_FILE
campaign=(--model "$made/model-${small}1.wmm" --batch-hits 64)
ok "an undisturbed campaign" "$bin/wiremill" run "${campaign[@]}" --output "$work/plain" --input "$made/liar.h5" --quiet \
        --check-share 0
odd_share () { refused 2 "check-share $1: give 0 to 1, or 0% to 100%, such as 0.1%" "${@:2}"; }
for share in -1 101% 2 x 1%%; do
    ok "--check-share $share is none of run's" odd_share "$share" "$bin/wiremill" run "${campaign[@]}" --output "$work/no" \
        --input "$made/liar.h5" --check-share="$share"
done
ok "nor of broker's" odd_share 2 "$bin/wiremill" broker "${campaign[@]}" --output "$work/no" --check-share 2

machine () # name, arguments of env...: a worker by a key and under a host's name of its own
{
    local name=$1
    shift
    "$bin/wiremill" keys add "$out" --role worker --output "$work/key.$name" >"$work/added" || return 1
    "${apart[@]}" sh -c 'hostname "$0" && exec env "$@"' "$name" "$@" "$bin/wiremill" work "${works[@]}" --join-file "$work/key.$name" >"$work/words.$name" 2>&1 &
    pid=$!
    until_true 60 grep -q 'session with' "$work/words.$name"
}
works=(--broker "$b" --cache "$work/cache" --threads 1 --engine openvino)
again () { timeout 60 "$bin/wiremill" work "${works[@]}" --join-file "$work/key.liar"; }
state () { keep "$bin/wiremill" status "$out" && says "$1"; }
produce () { "$bin/wiremill" produce --broker "$b" --join-file "$keys/join-producer" --input "$made/liar.h5"; }
no_check_open () { "$bin/wiremill" status "$out" --json | tr -d ' \n' | grep -q '"checks":{[^}]*"open":0,'; }

serve ()
{
    "$bin/wiremill" broker "${campaign[@]}" --output "$out" --listen "$b" --keys --check-share 100% >"$work/broker" 2>&1 &
    broker=$!
    until_true 60 grep -q "\"pid\": *$broker" "$keys/endpoint.json"
}
find_it ()
{
    drop "$out" && rm -rf "$work/cache" "$work"/key.* "$work"/words.* # of the try before
    serve || return 1
    machine honest-1 || return 1
    machine liar WM_KILLER_LIES=5 || return 1
    liar=$pid
    produce || [ $? = 3 ] || return 1 # 3: a copy at the end showed a lie first, by an ALARM, which holds the batch
    until_true 60 state '^SCORES DIFFER: [^ ]+ and [^ ]+ gave different scores' || return 1
    ! state 'WRONG SCORES' >"$work/quiet" || { echo "one of two was named"; return 1; }
    machine honest-2 || return 1
    until_true 60 state "^WRONG SCORES: worker [^ ]*:$liar, [^ ]+: wrong scores for batch 1\.[0-9]+\.[0-9]+ of .*liar.h5" ||
        return 1
    exits 1 wait $liar || return 1
    grep -q 'the broker refused: .*not trusted in this campaign: wrong scores for' "$work/words.liar" || return 1
    # It stays away; and what it scored is scored again.
    exits 1 keep again && says 'the broker refused: .*not trusted' || return 1
    until_true 60 no_check_open || return 1
    produce && same_scores liar "$work/plain" "$out" || return 1
    exits 1 keep "$bin/wiremill" trust "$out" --worker nobody && says "no machine with wrong scores is called 'nobody'" ||
        return 1
    # A restarted broker knows, and an operator decides.
    kill $broker && wait $broker
    state "^WRONG SCORES: worker [^ ]*:$liar" && serve && state "^WRONG SCORES: worker [^ ]*:$liar" || return 1
    "$bin/wiremill" trust "$out" --worker "$(sed -n 's/^WRONG SCORES: worker \([^,]*\),.*/\1/p' "$work/said")" || return 1
    ! state 'WRONG SCORES' >"$work/quiet" || { echo "it is not trusted"; return 1; }
    # Not below `timeout`, which ends without its command where a signal comes while it forks.
    "$bin/wiremill" work "${works[@]}" --join-file "$work/key.liar" >"$work/words.trusted" 2>&1 &
    until_true 60 grep -q 'session with' "$work/words.trusted" && stop_all
}
stop_all ()
{
    local p
    for p in $(jobs -p); do kill "$p" 2>/dev/null; done
    wait
    return 0
}
found=0
for ((i = 0; i < tries; i++)); do
    find_it >"$work/way" 2>&1 && found=$((found + 1)) && continue
    tail -n 30 "$work/way" "$work/broker" "$work"/words.* | sed 's/^/# /'
    stop_all
done
ok "$found of $tries liars are found, and every score is that of an honest campaign" test $found = "$tries"
proved P25 "$tries" "$found"
no_worker () { ! pgrep -fa "^wiremill-worker .*$work/"; }
ok "no worker is left" no_worker
done_testing
