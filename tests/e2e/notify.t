#!/bin/bash
# notify.t - commands of --on-done, --on-held and --on-pause: once for each event, also over restarts and kills; and what
# systemd hears of a broker and of workers.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_model "${small}1" && make_events told --seed 1 --hits 200 --tpcs 1 || bail "no model or events"
model=$made/model-${small}1.wmm out=$work/out said=$work/told-by-command
# shellcheck disable=SC2016 # the command's shell expands it
tell='echo "$WIREMILL_EVENT $WIREMILL_INPUTS_WRITTEN $WIREMILL_INPUTS_HELD" >>'"'$said'"
told () { diff <(printf '%s\n' "$@") "$said"; } # lines: exactly these were told

# wiremill run: an input that is not HDF5 is held.
echo nothing >"$work/bad.h5"
run () { keep "$bin/wiremill" run --model "$model" --output "$out" --input "$made/told.h5" --input "$work/bad.h5" --workers 1 "$@"; }
first () { exits 3 run --on-done "$tell; exit 7" --on-held "$tell" && sed 's/^held [01]/held/' "$said" >"$said.1" &&
    printf '%s\n' "held 1" "done 1 1" | diff - "$said.1" && says 'broker: --on-done: its command failed with exit code 7'; }
ok "a run tells what is held, that it is done, and how a command failed" first
again () { rm "$said" && exits 3 run --on-done "$tell" --on-held "$tell" && [ ! -e "$said" ]; }
ok "the same command has nothing to tell" again
secret () { keep cat "$out$beside/command" && says '--on-done \.\.\. --on-held \.\.\.$'; }
ok "commands may have secrets and are not kept" secret
more () { cp "$made/told.h5" "$work/more.h5" && exits 3 run --input "$work/more.h5" --on-done="$tell" && told "done 2 1"; }
ok "with one more input it is done again" more

# A broker that systemd seems to have started, killed where it has run a command and not recorded it.
perl -MSocket -e 'socket S, AF_UNIX, SOCK_DGRAM, 0 and bind S, sockaddr_un ($ARGV[0]) or die; $| = 1;
    print $_ while defined recv S, $_, 4096, 0' "$work/systemd" >"$work/heard" &
ok "a socket for what systemd hears" until_true 60 test -S "$work/systemd"
serve () # options...
{
    : >"$work/heard"
    NOTIFY_SOCKET=$work/systemd "$bin/wiremill" broker --model "$model" --output "$out" --listen "ipc://$work/b" "$@" \
        >"$work/said" 2>&1 &
    broker=$!
}
serves () { until_true 60 grep -q READY=1 "$work/heard"; }
dies () { wait $broker 2>/dev/null; [ $? = 137 ]; }
stops () { kill -TERM $broker && wait $broker && grep -q STOPPING=1 "$work/heard"; }
before () # a kill before the command, and one behind it: at least once
{
    rm -f "$said"
    cp "$work/more.h5" "$work/again.h5" && exits 3 run --input "$work/more.h5" --input "$work/again.h5" && [ ! -e "$said" ] &&
        WM_FAILPOINT=broker-notify-start:1 serve --on-done "$tell" && dies && [ ! -e "$said" ] &&
        WM_FAILPOINT=broker-notify-ended:1 serve --on-done "$tell" && dies && told "done 3 1" &&
        serve --on-done "$tell" && serves && until_true 60 told "done 3 1" "done 3 1" && stops
}
ok "a broker that was killed before its record tells it again" before
rm "$said"
serve --on-done "$tell" --on-pause "$tell; sleep 1000"
ok "systemd hears that it serves" serves
status () { grep -q 'STATUS=3 of 4 inputs written, 100.0 % of [0-9]* hits, 0 hits/s, workers: 0, held: 1 inputs, 0 hits$' "$work/heard"; }
ok "and how far it is" until_true 60 status
pause () { keep "$bin/wiremill" pause --broker "ipc://$work/b" --why lunch && until_true 60 told "pause 3 1"; }
ok "a pause is told" pause
stopped () { until_true 60 grep -q 'hands out nothing: by .*: lunch' "$work/heard" && "$bin/wiremill" status "$out"; }
ok "and the broker goes on while its command runs" stopped
waits () # SIGTERM waits for the command, a second one kills it
{
    kill -TERM $broker && until_true 60 grep -q STOPPING=1 "$work/heard" && kill -TERM $broker && wait $broker &&
        grep 'its command is killed by a second signal' "$work/said"
}
ok "a second signal ends what its end waits for" waits
paused () { serve --on-pause "$tell" && serves && until_true 60 told "pause 3 1" "pause 3 1" && stops; }
ok "what was killed is told by the next broker" paused
still () { serve --on-pause "$tell" --on-done "$tell" && serves && stops && told "pause 3 1" "pause 3 1"; }
ok "and no more by the one behind it" still

works () # workers...
{
    : >"$work/heard"
    NOTIFY_SOCKET=$work/systemd "$bin/wiremill" work --broker "ipc://$work/b" --engine sparse "$@" >"$work/said" 2>&1 &
    until_true 60 grep -q '^STATUS=works for ipc' "$work/heard" && grep -q READY=1 "$work/heard" && kill -9 $!
}
ok "a worker is ready" works
ok "several are" works --workers 2 --threads 1

ok "no command is refused" refused 2 "on-done" "$bin/wiremill" run --model "$model" --output "$out" --on-done ''
clients () { refused 2 '--on-done is for files' "$bin/wiremill" broker --clients --model "$model" --campaign "$work/c" --on-done true; }
ok "a broker for clients is never done" clients
farm () { refused 2 '--on-held has no effect with --broker' "$bin/wiremill" run --broker "ipc://$work/b" --input x --on-held true; }
ok "who sends files to a farm has no broker to tell it" farm
done_testing
