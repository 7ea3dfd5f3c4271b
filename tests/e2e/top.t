#!/bin/bash
# top.t - wiremill top on a pseudo-terminal: keys, questions, signals, sizes, brokers that go away, several campaigns.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
make_model "${small}1" && make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
out=$work/out endpoint=ipc://$work/b
unset WM_JOIN_FILE WM_BROKER COLUMNS
export TERM=xterm

broker () # folder, options...
{
    local to=$1
    shift
    "$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$to" "$@" >"$work/broker" 2>&1 &
    broker=$!
    until_true 60 grep -q "\"pid\": *$broker" "$to$beside/endpoint.json"
}
top () { timeout 900 python3 tests/e2e/terminal.py "$bin/wiremill" top --interval 0.2 "$@"; } # options...; steps on stdin

ok "a broker" broker "$out" --listen "$endpoint"
"$bin/wiremill" pause "$out" --why lunch >/dev/null
deep=$work/$(printf 'a%.0s' {1..90}) # longer than a terminal is wide
mkdir "$deep" && cp "$made/two.h5" "$deep/"
timeout 300 "$bin/wiremill" produce --broker "$endpoint" --input "$deep/two.h5" >"$work/produce" 2>&1 &
producer=$!

once ()
{
    COLUMNS=160 keep "$bin/wiremill" top --once "$out" && says "^ out: paused   broker $endpoint" && says "^paused: .*lunch" &&
        says "^  no worker is connected" && ! grep -q "$(printf '\033')" "$work/said"
}
ok "--once prints one screen, without escape codes" once
fits () # columns, command...: no line of it is longer, but one of a folder
{
    keep "${@:2}" && awk -v n="$1" -v folder="$work" 'length ($0) > n && !index ($0, folder) {print "too long: " $0; bad = 1} END {exit bad}' "$work/said"
}
is_listed () { "$bin/wiremill" status "$out" | grep -q '^PRODUCER'; }
narrow ()
{
    until_true 60 is_listed && fits 80 "$bin/wiremill" top --once "$out" && fits 80 "$bin/wiremill" status "$out" && says '^CAMPAIGN .* ETA$' &&
        COLUMNS=70 fits 70 "$bin/wiremill" status "$out" && ! grep -q SUBMITTED "$work/said" &&
        COLUMNS=120 fits 120 "$bin/wiremill" status "$out" && says '^CAMPAIGN .* SUBMITTED .* ETA$'
}
ok "where there is no terminal, both fit 80 columns, or COLUMNS" narrow
names_input ()
{
    "$bin/wiremill" status "$out" | grep -qF "$deep/two.h5" &&
        script -qec "stty cols 80; '$bin/wiremill' status '$out'" /dev/null </dev/null | tr -d '\r' >"$work/said" &&
        grep -qE '^[^ ]+ +[.]{3}.*aaaa/two[.]h5$' "$work/said" && awk '/aaaa\/two/ && length > 80 {exit 1}' "$work/said"
}
ok "a pipe has the path of an input whole, a terminal its end" names_input
no_terminal () { keep "$bin/wiremill" top "$out" </dev/null && says "^ out: paused"; }
ok "so does top where there is no terminal" no_terminal
nothing () { refused 2 "made-up does not exist" "$bin/wiremill" top "$work/made-up" && refused 2 "port is missing" "$bin/wiremill" top tcp://; }
ok "a folder without a campaign, an address that is none" nothing
both () { refused 2 "as arguments, or one by" "$bin/wiremill" top "$out" --broker "$endpoint"; }
ok "an argument and --broker" both
gone () { refused 4 "wiremill top: " "$bin/wiremill" top --once "ipc://$work/nobody"; }
ok "--once without a broker: exit 4" gone

questions ()
{
    top "$out" <<'STEPS'
until ^ out: paused .*\d\d:\d\d:\d\d
until no worker is connected
key d
until drain: no worker is connected
key \x1b[A
key r
until ^resume campaign out\? y/n
key n
until ^nothing is changed
until ^paused: .*lunch
key ?
until ^ wiremill top: help
key x
until ^progress +0.0%
size 60x200
until ^ +-10 +-5 +0 min
until WORKER +ENGINE +hits/s +SCORED +RUNS
size 24x80
until WORKER +ENGINE +hits/s +RUNS
size 5x20
until ^q quit
size 24x80
until WORKER +ENGINE
key r
until y/n
key y
until ^resume: done
until ^ out: running
never ^paused:
key q
until shell: exit 0, terminal as before
normal
STEPS
}
ok "keys ask before they change a campaign; resizing" questions
"$bin/wiremill" work "$out" --idle-timeout 10000 >"$work/work" 2>&1 &
worker=$!
wait $producer
ok "a campaign" test $? = 0
minutes () { keep "$bin/wiremill" top --once "$out" && says "^ out: finished   broker" && says "^minutes .*[1-9].* hits/s$"; }
ok "--once shows the minutes before it, once a second of the history has ended" until_true 60 minutes
inspect ()
{
    LC_ALL=C.UTF-8 NO_COLOR='' top "$out" <<'STEPS'
until ^ out: finished
until ^> [^ ]+:\d+ +\S+ .* idle
until ^hits/s.*[▁▂▃▄▅▆▇█]
key s
until sorted by rate
key \r
until ^  has scored +\d+ batch(es)?, [\d,]+ hits
key \x1b
until ^progress +100.0% \[#+\]
key \x1bOB
key p
until ^pause campaign out
key y
until ^ out: paused
key r
until y/n
key y
until ^resume: done
key \x03
until shell: exit 0, terminal as before
normal
STEPS
}
ok "a worker is inspected; a finished campaign; Ctrl-C" inspect
found ()
{
    top "$out" <<'STEPS'
until ^> [^ ]+:\d+ .* idle
key /
key nosuch
until ^filter: nosuch_
until ^  no worker passes the filter
key \r
key d
until ^drain: no worker passes the filter
key \x1b
click ^> [^ ]+:\d+ .* idle
until ^  has scored
key \x1b
click ^  WORKER
until ^workers are sorted by rate
key f
until ^> \S*two\.h5 +written +[\d.k]+ +0
until ^  1 to 1 of 1 files
key /held
until ^  no file passes the filter
key \x1b
until ^> \S*two\.h5
key m
until ^the mouse selects text
key m
until ^the mouse chooses
key \x1b
key w
until ^q quit  Esc back  p pause
never ^progress
key \x1b
until ^progress
key q
until shell: exit 0, terminal as before
normal
STEPS
}
ok "workers and files are filtered, and chosen by the mouse" found
stopped ()
{
    top "$out" <<'STEPS'
until ^ out: finished
key \x1a
until shell: stopped, terminal as before
normal
key \n
until ^ out: finished
key s
until sorted by rate
signal TERM
until shell: exit 0, terminal as before
normal
STEPS
}
ok "Ctrl-Z gives the terminal back, SIGTERM ends it" stopped
crashed ()
{
    top "$out" <<'STEPS'
until ^ out: finished
signal SEGV
until shell: exit -11, terminal as before
normal
STEPS
}
ok "a crash leaves the terminal as it was" crashed
drained ()
{
    top "$out" <<'STEPS'
until ^> [^ ]+:\d+ .* idle
key d
until ^drain worker [^ ]+:\d+ of out\?
key y
until ^drain [^ ]+:\d+: done
until no worker is connected
key D
until ^drain ALL 0 workers of out
key x
until ^nothing is changed
key q
until shell: exit 0
STEPS
    wait $worker
}
ok "a worker is drained" drained

# Several campaigns, one of which is not there. The broker of the other goes away and comes again.
again () # to be called by a step
{
    cat >"$work/again" <<END
"$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$out" --listen "$endpoint" >"$work/broker" 2>&1 &
echo \$! >"$work/pid"
END
}
several ()
{
    again && top "$out" "ipc://$work/nobody" <<STEPS
until ^ wiremill top: 2 campaigns
until ^> out +finished +100.0%
until ^  \.\.\S* +no answer
key \r
until ^ out: finished   broker
run kill $broker
until ^ out: finished   no broker runs
until ^worked  .* at most \d+ workers?
key p
until no broker answers for this campaign
key \x1b
until ^> out +finished +100.0%
key j
key \r
until ^ ipc://\S*: no answer
key \x7f
until ^> \.\.
key k
run bash $work/again
until ^> out +finished +100.0% +\d+ +- +0
key \r
until ^ out: finished   broker
until ^hits/s .*most [1-9]
key q
until shell: exit 0, terminal as before
STEPS
}
ok "several campaigns; a broker that goes away and comes again" several
broker=$(cat "$work/pid")
kill "$broker"
down () { ! kill -0 "$broker"; }
ok "no broker" until_true 60 down
ended ()
{
    COLUMNS=160 keep "$bin/wiremill" top --once "$out" && says "^ out: finished   no broker runs" && says "^minutes .*[1-9].* hits/s$" &&
        says "^worked   .* to .*, mean [0-9.]*[1-9].* hits/s in .*, at most [0-9]+ workers?$"
}
ok "a finished campaign without a broker" ended

# Keys: the monitor's reads and changes nothing.
keys=$work/keys
ok "a broker with keys" broker "$keys" --listen "tcp://127.0.0.1:$port" --keys
# A campaign with keys and one without, both on TCP: a folder's keys are for its own broker.
open=$work/open
"$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$open" --listen tcp://127.0.0.1:0 >"$work/opened" 2>&1 &
opened=$!
ok "a broker without" until_true 60 grep -q "\"pid\": *$opened" "$open$beside/endpoint.json"
both_kinds () { keep "$bin/wiremill" top --once "$keys" "$open" && says "^  keys +idle" && says "^  open +idle"; }
ok "--once shows both, as does the live screen" both_kinds
both_live ()
{
    top "$keys" "$open" "tcp://127.0.0.1:$port" <<STEPS
until ^> keys +idle
until ^  open +idle
until ^  127.0.0.1:\d+ +refused +key refused
size 10x40
until ^q quit  Enter p r D  \? help
key q
until shell: exit 0, terminal as before
STEPS
}
ok "... also beside an address, for which there is no key" both_live
not_all () { keep "$bin/wiremill" top --once "$open" "tcp://127.0.0.1:$port"; [ $? = 7 ] && says "^  127.0.0.1:[0-9]+ +refused +the reason is on stderr"; }
ok "... with --once: exit 7" not_all
kill $opened && wait $opened
monitor ()
{
    top "tcp://127.0.0.1:$port" --join-file "$keys$beside/join-monitor" <<'STEPS'
until ^ keys: idle
key p
until ^pause campaign keys
key y
until ^pause: .*monitor
until ^ keys: idle
key q
until shell: exit 0
STEPS
}
ok "with a monitor's key the broker refuses to pause, and top goes on" monitor
by_worker ()
{
    top "tcp://127.0.0.1:$port" --join-file "$keys$beside/join-worker" <<'STEPS'
until : refused
until key
key q
until shell: exit 0
STEPS
}
ok "a worker's key: refused" by_worker
kill $broker && wait $broker
done_testing
