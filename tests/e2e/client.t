#!/bin/bash
# client.t - programs whose patches a broker's workers score: libwiremill's client, a broker that keeps nothing.
#
# What is killed here: a worker, the helper of the library, the broker, a client.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
build=${WM_BUILD:-build/release} broker=ipc://$work/b dir=$work/scores.wiremill
export WM_TIME_SCALE=10 LD_LIBRARY_PATH=$PWD/$build/lib
make_model "${small}1" || bail "no model"
model=$made/model-${small}1.wmm
for program in tests/lib/client.c ops/lib/examples/client.c; do
    name=$(dirname "$program") name=${name##*/}
    # shellcheck disable=SC2086 # words are meant
    cc -std=gnu11 -O1 -Wall -Wextra -Werror ${SAN:+-g "-fsanitize=$SAN"} -Iops/lib "$program" -L"$build/lib" -lwiremill -pthread -lm \
        -o "$work/$name" || bail "cc"
done
client () { local what=$1; shift; timeout "$(size 120 1200 12000)" "$work/lib" "$what" "$broker" "$model" "$@"; }
serve () { exec "$bin/wiremill" broker --clients --model "$model" --campaign "$dir" --listen "$broker"; }
worker () { exec "$bin/wiremill" work --broker "$broker" --threads 1; }
of_status () { "$bin/wiremill" status --broker "$broker" --json | python3 -c "import json, sys; d = json.load (sys.stdin); sys.exit (not ($1))"; }

package () # waiting, scoring: the Python package, with the library that was just built
{
    WIREMILL_LIBRARY=$PWD/$build/lib/libwiremill.so.1 PYTHONPATH=ops/python PATH=$bin:$PATH timeout 300 \
        build/venv/bin/python tests/golden/client.py "$1" "$broker" "$model"
}

# A broker without workers.
serve 2>"$work/broker.log" &
ok "a broker for clients starts" until_true 60 of_status 'd["campaign"]["serves"] == "clients" and d["campaign"]["rows"] == "patches"'
served=$!
ok "a second submission waits for room, and is refused in time" client room
ok "what the client refuses" client errors
ok "its helper is killed: the call ends with an error, the next starts another" client helper
[ -n "$SAN" ] || ok "Python: what is waited for, refused, interrupted" package waiting
forgotten='d["inputs"]["open"] == 0 and d["batches"]["queued"] + d["batches"]["running"] == 0 and d["bytes"]["budget_used"] == 0 and d["hits"]["announced"] == 0'
"$work/lib" gone "$broker" "$model" >"$work/gone" &
gone=$!
gone ()
{
    until_true 60 of_status 'd["inputs"]["open"] == 1 and d["batches"]["queued"] == 20 and d["bytes"]["budget_used"] > 0' &&
        grep submitted "$work/gone" && kill -9 $gone && until_true 60 of_status "$forgotten"
}
ok "a client is killed: the broker forgets its patches" gone
files () { exits 1 keep "$bin/wiremill" produce --broker "$broker" --input "$model" --give-up 2s; says 'serves clients, not files'; }
ok "files are refused" files
kick () { exits 1 keep "$bin/wiremill" kick --broker "$broker" 1; says 'keeps nothing'; }
ok "there is nothing to kick" kick

# With workers, whose pace does not depend on the machine.
worker 2>"$work/worker-1.log" &
first=$!
ok "the bits of wiremill_score" client score 1000
example ()
{
    head -c $((300 * 256 * 4)) /dev/zero >"$work/zeros" && "$work/examples" "$broker" "$work/zeros" >"$work/of-zeros" &&
        [ "$(wc -l <"$work/of-zeros")" -gt 30 ] && [ "$(sort -u "$work/of-zeros" | wc -l)" = 1 ]
}
ok "the example" example
ok "eight threads, two clients: each gets its own rows" client threads "$(size 20 500 5000)"
ok "tickets" client forget
ok "a helper is killed, another one scores" client again
ok "a child of fork is refused, and connects itself" client fork
ok "it leaves signals, threads, descriptors and children alone" client quiet
[ -n "$SAN" ] || ok "Python: the bits of wiremill.Model" package scoring
silent () { client score 300 >"$work/printed" 2>&1 && [ ! -s "$work/printed" ]; }
ok "it prints nothing" silent
ok "all is answered, and nothing of it is left" until_true 60 of_status 'd["inputs"]["open"] == 0 and d["batches"]["queued"] == 0
    and d["bytes"]["budget_used"] == 0 and d["hits"]["announced"] == d["hits"]["done"] > 1000'

kill -9 $first
slow_engine
export WM_KILLER_SLOW_MS=20
slow () { exec "$bin/wiremill" work --broker "$broker" --threads 1 --engine openvino; }
slow 2>"$work/worker-2.log" &
second=$!
slow 2>"$work/worker-3.log" &
pieces=$(size 60 600 6000) begun=$((pieces / 6))
steady () { rm -f "$work/steady"; client steady "$pieces" >"$work/steady" 2>&1 & steady=$!; until_true "$(size 60 600 6000)" grep -q "piece $begun\$" "$work/steady"; }
whole () { wait "$steady" && [ "$(grep -c piece "$work/steady")" = "$pieces" ] || { cat "$work/steady"; return 1; }; }
lose_worker () { steady && kill -9 $second; whole; }
ok "a worker is killed: its patches go to another" lose_worker
restart ()
{
    steady
    kill -9 $served
    serve 2>>"$work/broker.log" &
    served=$!
    whole
}
ok "the broker is killed and started again: what it had is sent again" restart
small_journal () { [ "$(du -s --apparent-size -k "$dir/journal" | cut -f1)" -lt 1100 ] && ! ls "$dir"/journal/*.seg 2>/dev/null; }
ok "the journal has no results" small_journal
stop () { steady && kill $served && ! whole && grep 'failed: .*no broker' "$work/steady"; }
export PATIENCE=5000
pieces=1000000 begun=10 # more than are scored until the broker is killed, however late that is
ok "where no broker comes back, calls return an error that names it" stop
unset PATIENCE

# Other campaigns, other keys.
other ()
{
    "$bin/wiremill" broker --model "$model" --output "$work/out" --campaign "$dir" --listen "$broker" >"$work/said" 2>&1 &
    local pid=$!
    until_true 60 says 'begins again with other settings: .*--clients .was clients' && kill $pid && { wait $pid; true; }
}
ok "its folder becomes a campaign of files, as nothing in it was scored" other
"$bin/wiremill" broker --model "$model" --output "$work/out" --listen "$broker" 2>"$work/files.log" &
of_files () { until_true 60 grep -q 'serves' "$work/files.log" && exits 1 keep client refused; says 'fault 5: .*serves files.*--clients'; }
ok "a broker of files is refused" of_files
option () { exits 2 keep "$bin/wiremill" broker --clients --model "$model" "$@"; }
no_output () { option --campaign "$work/x" --output "$work/y"; says '--output is for files'; }
ok "--clients has no --output" no_output
no_campaign () { option; says 'needs --campaign'; }
ok "... needs --campaign" no_campaign
split () { option --campaign "$work/x" --precision split; says 'scores in fp32'; }
ok "... and scores in fp32" split
broker=tcp://127.0.0.1:$port dir=$work/keys.wiremill
"$bin/wiremill" broker --clients --keys --model "$model" --campaign "$dir" --listen "$broker" 2>"$work/keys.log" &
no_key () { until_true 60 test -s "$dir/join-producer" && exits 1 keep client refused; says 'fault 4: .*key'; }
ok "a broker that wants keys" no_key
wrong_key () { JOIN=$dir/join-worker exits 1 keep client refused; says 'fault 4: .*key of a worker'; }
ok "the wrong key" wrong_key
right_key () { JOIN=$dir/join-producer keep client refused; says '^connected'; }
ok "the right one" right_key
by_environment () { WM_JOIN_FILE=$dir/join-producer keep client refused; says '^connected'; }
ok "... by the environment" by_environment
done_testing
