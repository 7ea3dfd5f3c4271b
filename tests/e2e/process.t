#!/bin/bash
# process.t - mistakes around processes: each ends soon, with a line that names it and what to do.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_model "${small}1" && make_events one --events 1 --seed 6 --hits 3000 --tpcs 1 || bail "no model or events"
model=(--model "$made/model-${small}1.wmm")
cp "$made/one.h5" "$work/one.h5"

# Addresses, before anything is made or asked.
near ()
{
    refused 2 "^wiremill $2: --$3 takes tcp://HOST:PORT or ipc:///PATH, not '$4'; did you mean $1; see" \
            "$bin/wiremill" "$2" "--$3" "$4" "${@:5}"
}
ok "no scheme: broker" near tcp://127.0.0.1:$port broker listen 127.0.0.1:$port "${model[@]}" --output "$work/none"
ok "... work" near tcp://127.0.0.1:$port work broker 127.0.0.1:$port
ok "... produce" near tcp://127.0.0.1:$port produce broker 127.0.0.1:$port "$work/one.h5"
ok "... status" near tcp://127.0.0.1:$port status broker 127.0.0.1:$port
ok "another scheme" near tcp://head:5555 work broker http://head:5555
ok "a path" near "ipc://$work/b" work broker "$work/b"
ok "a folder" refused 2 "not 'out'; see wiremill work --help" "$bin/wiremill" work --broker out
mistake () { refused 2 "$1" "$bin/wiremill" "${@:2}"; }
ok "no port" mistake "--broker tcp://head: the port is missing; type tcp://head:5555" work --broker tcp://head
ok "something behind the port" mistake "leave out .*; type tcp://head:5555" status --broker tcp://head:5555/
ok "IPv6 without brackets" mistake "type tcp://\[fd00::2\]:5555" work --broker tcp://fd00::2:5555
ok "a range to connect to" mistake "only --listen takes a range" produce --broker tcp://head:5500-5600 "$work/one.h5"
ok "a range that is too small" mistake "type 5500-5502 or more" broker --listen 'tcp://*:5500-5501' "${model[@]}" \
        --output "$work/none"
ok "... reversed" mistake "type 5500-5600" broker --listen 'tcp://*:5600-5500' "${model[@]}" --output "$work/none"
ok "a host that nobody knows" mistake "no host or interface is called 'no.such.invalid'" broker \
        --listen tcp://no.such.invalid:5555 "${model[@]}" --output "$work/none"
ok "nothing was made" test ! -e "$work/none"
ok "no workers" refused 2 "workers takes a whole number from 1 to 256" "$bin/wiremill" work --workers 0
ok "far too many threads" refused 2 "threads takes a whole number from 1 to 1024" "$bin/wiremill" run "${model[@]}" \
        --threads 100000
many ()
{
    keep "$bin/wiremill" run "${model[@]}" --quiet --threads $(($(nproc) + 1)) --output "$work/many" "$work/one.h5" &&
        says 'leave --threads out for one thread a core, which is faster'
}
ok "more threads than cores: a warning" many

# Ports: base is those of workers; producers have the next, operators the one after that.
at () { echo "tcp://127.0.0.1:$((port + $1))"; }
"$bin/wiremill" broker "${model[@]}" --output "$work/out" --listen "$(at 3)" >"$work/broker" 2>&1 &
broker=$!
until_true 60 grep -q "\"pid\": *$broker" "$work/out$beside/endpoint.json" || bail "no broker"
ok "a port that is in use" refused 1 \
    "cannot listen on $(at 3): port $((port + 3)) \(workers\) is in use: process $broker \(wiremill-broker\) has it; choose" \
    "$bin/wiremill" broker "${model[@]}" --output "$work/second" --listen "$(at 3)"
ok "... one of the two above it" refused 1 "cannot listen on $(at 1): port $((port + 3)) \(operators\)" "$bin/wiremill" broker "${model[@]}" \
        --output "$work/second" --listen "$(at 1)"
ok "an address of another machine" refused 1 "Cannot assign requested address: no interface of this machine has it" \
    "$bin/wiremill" broker "${model[@]}" --output "$work/second" --listen tcp://192.0.2.1:5555 --insecure
role ()
{
    refused 1 \
        "this port is for $1s, not for a $2: the port in --broker is $3; give the first port that the broker prints" \
        "$bin/wiremill" "${@:4}"
}
ok "a worker at the producers' port" role producer worker "1 too high" work --broker "$(at 4)" --cache "$work/cache"
ok "... at the operators'" role operator worker "2 too high" work --broker "$(at 5)" --cache "$work/cache"
ok "a producer one port too high" role operator producer "1 too high" produce --broker "$(at 4)" "$work/one.h5"
ok "... one too low" role worker producer "1 too low" produce --broker "$(at 2)" "$work/one.h5"
held () { WM_TIME_SCALE=10 refused 75 "process $broker is the broker of $work/out$beside: end it, or ask it \(.wiremill status $work/out$beside.\)" \
    "$bin/wiremill" run "${model[@]}" --quiet --output "$work/out" "$work/one.h5" && says 'waiting up to 1.0 s' &&
    ! says 'starting it again' >/dev/null; }
ok "a campaign that runs already" held

gone ()
{
    WM_TIME_SCALE=10 refused 4 \
        "no broker answers at ipc://$work/nobody; gives up after 1 s: start .wiremill broker. there, then" \
        "$bin/wiremill" work --broker "ipc://$work/nobody" --give-up 1 --cache "$work/cache"
}
ok "no broker" gone
# A broker that goes while it is served.
lost ()
{
    "$bin/wiremill" broker "${model[@]}" --output "$work/lost" --listen "ipc://$work/lost.b" >"$work/lost.broker" 2>&1 &
    local broker=$! pid
    until_true 60 grep -q "\"pid\": *$broker" "$work/lost$beside/endpoint.json" || return 1
    "$bin/wiremill" work --broker "ipc://$work/lost.b" --give-up 5 --cache "$work/cache" >"$work/said" 2>&1 &
    pid=$!
    until_true 60 grep -q 'session with' "$work/said" && kill -9 $broker
    wait $pid
    [ $? = 4 ] && says 'closed; tries to connect again' && says 'gives up after 5 s: start'
}
ok "a broker that is gone: it tries again, and names what to do" lost

# What a machine does not give.
files () { (ulimit -n 20 && refused 1 "$1" "${@:2}") && ! says 'starting it again|ssertion' >/dev/null; }
ok "ulimit -n: run" files 'this shell allows 20 open files, .*type ulimit -n' "$bin/wiremill" run "${model[@]}" --quiet \
        --output "$work/few" "$work/one.h5"
ok "... broker" files 'this shell allows 20 open files, .*type ulimit -n' "$bin/wiremill" broker "${model[@]}" \
        --output "$work/few" --listen "$(at 8)"
ok "... work" files 'may open only 20 files .*raise .ulimit -n' "$bin/wiremill" work --broker "$(at 3)" \
        --cache "$work/cache"
ok "... produce" files 'this shell allows 20 open files, .*type ulimit -n' "$bin/wiremill" produce --broker "$(at 3)" \
        "$work/one.h5"
long=$work/$(printf 'a%.0s' {1..90})
full ()
{
    refused 1 "no folder can be made in $work/none: .*choose a shorter --campaign" env XDG_RUNTIME_DIR="$work/none" \
            "$bin/wiremill" run "${model[@]}" --quiet --output "$work/long" --campaign "$long" "$work/one.h5"
}
[ ${#work} -lt 40 ] && ok "no room for sockets" full

# Somebody else's files. (root may write everywhere: it tries as another user.)
as=()
[ "$(id -u)" != 0 ] || as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
tries () # may that user run the programs here?
{
    "${as[@]}" "$bin/wiremill" --version >/dev/null 2>&1 && chmod a+rx "$work" &&
        "${as[@]}" test -r "$made/model-${small}1.wmm" -a -r "$work/one.h5"
}
if tries; then
    chmod a-w "$work/out" "$work/out$beside/log"
    theirs ()
    {
        refused 5 "this user may not write in the campaign $work/out$beside: .*wiremill status" "${as[@]}" \
                "$bin/wiremill" run "${model[@]}" --quiet --output "$work/out" "$work/one.h5"
    }
    mkdir -p "$work/out$beside/log"
    [ "$(id -u)" = 0 ] && chmod a+rwx "$work/out$beside" "$work/out$beside/models"
    ok "another user's campaign" theirs
    output ()
    {
        refused 5 "this user may not write in the campaign's output folder $work/out: .*as a user who may" "${as[@]}" \
                "$bin/wiremill" produce --broker "$(at 3)" "$work/one.h5"
    }
    ok "another user's output" output
else
    skip "another user may not run the programs here"
fi

# Ctrl-C while its broker starts, which does not go on by itself, and again: it ends, with what to type.
stop () { broker=$(child "$pid" wiremill-broker) && kill -STOP "$broker"; }
ctrl_c ()
{
    "$bin/wiremill" run "${model[@]}" --quiet --output "$work/twice" "$work/one.h5" >"$work/said" 2>&1 &
    pid=$!
    until_true 60 stop && kill -INT $pid && { kill -INT $pid 2>/dev/null; wait $pid; [ $? = 75 ]; } &&
        says 'type this to continue'
}
ok "Ctrl-C twice" ctrl_c
closed ()
{
    "$bin/wiremill" run "${model[@]}" --quiet --output "$work/twice" "$work/one.h5" >&- 2>&-
    [ $? = 1 ] && test -s "$work/twice/one.scores.h5" # its summary is lost, as on a full disk
}
ok "the same command with stdout and stderr closed writes its outputs, and fails for its summary" closed
done_testing
