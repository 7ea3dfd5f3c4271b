#!/bin/bash
# late.t - payloads come late at a broker for clients: helpers are stopped until the broker asks others, workers until it sends
# copies, the budget is the smallest. No call of the clients fails, and no session is refused.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
build=${WM_BUILD:-build/release} broker=ipc://$work/b
export WM_TIME_SCALE=10 LD_LIBRARY_PATH=$PWD/$build/lib
make_model "${small}1" || bail "no model"
model=$made/model-${small}1.wmm
# shellcheck disable=SC2086 # words are meant
cc -std=gnu11 -O1 -Wall -Wextra -Werror ${SAN:+-g "-fsanitize=$SAN"} -Iops/lib tests/lib/client.c -L"$build/lib" -lwiremill -pthread -lm \
    -o "$work/lib" || bail "cc"
"$bin/wiremill" broker --clients --budget 17039360 --model "$model" --campaign "$work/scores.wiremill" --listen "$broker" 2>"$work/broker.log" &
for _ in 1 2; do "$bin/wiremill" work --broker "$broker" --threads 1 2>>"$work/worker.log" & workers+=($!); done
serves () { [ "$(grep -c "session with $broker" "$work/worker.log")" = 2 ]; }
until_true 60 serves || bail "no broker for clients with two workers: $(cat "$work/broker.log")"

# Two programs of libwiremill: what they get is compared bit for bit.
for i in 0 1; do
    timeout 3000 "$work/lib" many "$broker" "$model" "$work/enough" >"$work/calls-$i" 2>&1 &
    programs+=($!)
done
begun () { [ -s "$work/calls-0" ] && [ -s "$work/calls-1" ]; }
until_true 60 begun || bail "the clients do not begin: $(cat "$work"/calls-*)"
mapfile -t helpers < <(pgrep -f "^wiremill-producer client .*--broker $broker")
[ ${#helpers[@]} = 2 ] || bail "no two helpers"

n_late () { grep -c 'has not sent the [0-9]* batches that it was asked for' "$work/broker.log"; }
n_back () { grep -c 'sends what it is asked for again' "$work/broker.log"; }
passes () { [ "$("$1")" -gt "$2" ]; } # count, what it was
# A helper is stopped until what it was asked for is late, each third time with a worker, which gets no answer then; they go on.
# One that has just sent all that it was asked for is not late: false.
late_once () # round
{
    local late back worker=${workers[$(($1 % 2))]} helper=${helpers[$(($1 % 2))]}
    late=$(n_late) back=$(n_back)
    kill -STOP "$helper" || return 1
    [ $(($1 % 3)) != 0 ] || kill -STOP "$worker"
    until_true 60 passes n_late "$late"
    kill -CONT "$helper" "$worker"
    passes n_late "$late" || return 1
    until_true 60 passes n_back "$back" || echo "round $1: it does not come back"
}
rounds () # so many, of twenty times as many tries
{
    local done=0 tries
    for ((tries = 0; done < $1 && tries < 20 * $1; tries++)); do late_once "$tries" && ((++done)); done
    [ "$done" = "$1" ] || { echo "late $done times"; return 1; }
}
rounds=$(size 2 100 1000)
echo "# ROUNDS=$rounds"
ok "$rounds times a client or a worker is late" rounds "$rounds"
touch "$work/enough"
right () { wait "$1" || { tail -n 3 "$2"; return 1; }; }
for i in 0 1; do ok "all calls of program $i are answered, with the right bits" right "${programs[$i]}" "$work/calls-$i"; done
unrefused () { ! grep refused "$work/broker.log"; }
ok "no session was refused" unrefused
calls=$(cat "$work"/calls-* | grep -c '^call [0-9]*$')
echo "# $calls calls"
empty () { "$bin/wiremill" status --broker "$broker" --json | grep -q '"budget_used": *0'; }
ok "nothing is left in the budget" until_true 60 empty
done_testing
