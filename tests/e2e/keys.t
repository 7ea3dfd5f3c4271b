#!/bin/bash
# keys.t - a farm with keys: who joins by which file, who is refused and told why, and that scores are the same bits.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_model "${small}1" && make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
out=$work/out keys=$work/out$beside b=tcp://127.0.0.1:$port
unset WM_JOIN_FILE

plain=("$bin/wiremill" run --model "$made/model-${small}1.wmm" --output "$work/plain" --input "$made/two.h5" --workers 1)
ok "a campaign on this machine needs no keys" env WM_JOIN_FILE="$work/absent" "${plain[@]}"
serves () # what is promised, folder of outputs, address, options...
{
    "$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$2" --listen "$3" "${@:4}" >"$work/broker" 2>&1 &
    broker=$!
    ok "$1" until_true 60 grep -q "\"pid\": *$broker" "$2$beside/endpoint.json"
}
serve () { serves "a broker serves" "$out" "tcp://0.0.0.0:$port" "$@"; } # options...
# The group may read the campaign, not join it: of its keys, which were made before, it gets none.
"$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$out" --listen "$b" --keys >"$work/broker" 2>&1 &
broker=$!
until_true 60 grep -q "\"pid\": *$broker" "$keys/endpoint.json"
kill $broker && wait $broker
chmod 640 "$keys/server-key"
serve --group "$(id -gn)"
ok "its key that others may read is warned of" \
        grep -q "the broker's key $keys/server-key may be read by others (mode 640): .*; type: chmod 600 $keys/server-key\$" "$work/broker"
chmod 600 "$keys/server-key"
prints () { grep -q "work --broker tcp://[^ ]*:$port --join-file $keys/join-worker\$" "$work/broker"; }
ok "an address other than loopback has keys, and the broker prints the line to type elsewhere" prints
private () { [ "$(stat -c %a "$keys"/{keys,server-key,join-{worker,producer,operator,monitor}} | sort -u)" = 600 ]; }
ok "its files of keys are its user's alone" private

ok "status in the campaign's folder needs no option" "$bin/wiremill" status "$out"
ok "status elsewhere: by an operator's file" "$bin/wiremill" status --broker "$b" --join-file "$keys/join-operator"
by_monitor () { WM_JOIN_FILE=$keys/join-monitor "$bin/wiremill" status --broker "$b"; }
ok "or a monitor's, named by the environment" by_monitor
other_first () { WM_JOIN_FILE=$keys/join-worker "$bin/wiremill" status "$out"; }
ok "in the campaign's folder its own file does, where the environment names another role's" other_first
mkdir "$work/planted"
sed "s|\"endpoint\": *\"[^\"]*\"|\"endpoint\": \"ipc://$work/planted/b\"|; /listen/,/]/d; /advertise/,/]/d" \
    "$keys/endpoint.json" >"$work/planted/endpoint.json"
downgrade () { refused 7 "ipc://$work/planted/b.w, where nobody has keys" "$bin/wiremill" work \
                       --broker "file://$work/planted/endpoint.json" --join-file "$keys/join-worker"; }
ok "an endpoint.json that names a broker without keys does not make a peer go on without its own" downgrade
by_input () { "$bin/wiremill" status --broker "$b" --join-file - <"$keys/join-monitor"; }
ok "or from standard input" by_input
by_pipe () { "$bin/wiremill" status --broker "$b" --join-file <(cat "$keys/join-monitor"); }
ok "or from a pipe" by_pipe
pauses ()
{
    refused 7 "monitor.s key only reads" "$bin/wiremill" pause --broker "$b" --join-file "$keys/join-monitor" &&
        ! says "^paused:"
}
ok "a monitor only reads" pauses
kicks ()
{
    refused 7 "monitor.s key only reads" "$bin/wiremill" kick --broker "$b" --join-file "$keys/join-monitor" 1 &&
        ! says "no broker answers|^kicked"
}
ok "a monitor kicks nothing" kicks
ok "and nothing is paused" "$bin/wiremill" pause --dry-run --broker "$b" --join-file "$keys/join-operator"

work_by=("$bin/wiremill" work --broker "$b") status_by=("$bin/wiremill" status --broker "$b")
produce_by=("$bin/wiremill" produce --broker "$b" --input "$made/two.h5")
no_key () { refused 7 "key refused: the broker at $b wants a key.*--join-file" "$@"; }
ok "a worker without a key" no_key "${work_by[@]}"
ok "a producer without a key" no_key "${produce_by[@]}"
only_reads () { no_key "$@" && says "this monitor has none; give --join-file with the campaign's join-monitor$"; }
ok "a command that reads asks for a monitor's key" only_reads "${status_by[@]}"
steers () { no_key "$bin/wiremill" pause --broker "$b" && says "this operator has none; give --join-file with the campaign's join-operator$"; }
ok "one that steers asks for an operator's" steers
other_role () { refused 7 "is the key of a $1; give --join-file with the campaign's join-$2" "${@:3}"; }
ok "a worker by a producer's key" other_role producer worker "${work_by[@]}" --join-file "$keys/join-producer"
ok "a producer by a worker's key" other_role worker producer "${produce_by[@]}" --join-file "$keys/join-worker"
ok "a command that reads by a worker's key" other_role worker monitor "${status_by[@]}" --join-file "$keys/join-worker"
ok "one that steers by a worker's key" other_role worker operator "$bin/wiremill" pause --broker "$b" --join-file "$keys/join-worker"

sed 's/.$/x/; s/\(.*\)../\1yz/' "$keys/join-worker" >"$work/mistyped"
ok "a mistyped line" refused 2 "checksum is wrong" "${work_by[@]}" --join-file "$work/mistyped"
ok "a file that is not there" refused 2 "join file $work/absent: it does not exist" "${work_by[@]}" \
        --join-file "$work/absent"
line_given ()
{
    refused 2 "is a secret" "${work_by[@]}" --join-file "$(cat "$keys/join-worker")" && ! says "wm1-[0-9a-z]{9}"
}
ok "a line in place of a file is not repeated" line_given
odd_line ()
{
    refused 2 "is a secret" "${work_by[@]}" --join-file "  $(tr a-z A-Z <"$keys/join-worker")" &&
        ! says "[wW][mM]1-[0-9a-zA-Z]{9}"
}
ok "nor one in capitals, behind spaces" odd_line
cp "$keys/join-monitor" "$work/open" && chmod 644 "$work/open"
warned ()
{
    keep "${status_by[@]}" --join-file "$work/open" &&
        says "may be read by others .mode 644.*chmod 600 $work/open"
}
ok "a file that others may read is warned of" warned

"${work_by[@]}" --workers 2 --join-file - <"$keys/join-worker" >"$work/worker" 2>&1 &
worker=$!
ok "a campaign by keys" "${produce_by[@]}" --join-file "$keys/join-producer" --join-file "$keys/join-monitor"
ok "its scores are the same bits" same_scores two "$work/plain" "$out"
alone ()
{
    keep "${produce_by[@]}" --join-file "$keys/join-producer" &&
        says "neither progress nor summary: give a monitor's too"
}
ok "a producer without a monitor's key shows no progress" alone

# Keys are added, revoked and rotated while the broker runs.
add ()
{
    keep "$bin/wiremill" keys add "$out" --role "$1" --output "$work/$2" "${@:3}" &&
        says "key [0-9a-f]{8}: give $work/$2"
}
id_of () { sed -n 's/^key \([0-9a-f]*\): .*/\1/p' "$work/said"; }
row_of () { keep "$bin/wiremill" keys list "$out" && says "^$1 +$2 .* $3 "; } # role id state
ok "a second worker's key" add worker second --note 'site B'
second=$(id_of)
ok "is listed" row_of worker "$second" good
"${work_by[@]}" --join-file "$work/second" >"$work/worker2" 2>&1 &
worker2=$!
in_session () { grep -q 'session with' "$work/worker2"; }
ok "a worker joins by it, beside the first one's" until_true 60 in_session
kept_one () { exits 2 "$bin/wiremill" keys revoke "$out" --id "$second" --id ffffffff && row_of worker "$second" good; }
ok "of ids one of which is wrong none is revoked" kept_one
ok "it is revoked" "$bin/wiremill" keys revoke "$out" --id "$second"
ok "and listed so" row_of worker "$second" revoked
left () { wait $worker2; [ $? = 7 ] && grep -q "the broker refused: key $second: it was revoked" "$work/worker2"; }
ok "its worker's session ends, and the worker with exit code 7" left
told_why ()
{
    grep -q "key refused: worker $second of $work/second, by the broker at $b: it was revoked" "$work/worker2"
}
ok "which names key, file, broker and reason" told_why
marked () { keep "$bin/wiremill" status --marks "$out" && says "  a key is not valid any more: key $second: it was revoked$"; }
ok "the time line has it" marked
ok "the first key is as good as before" "${produce_by[@]}" --join-file "$keys/join-producer"
ok "a key for five seconds" add monitor short --expires 5s
ok "is good" "${status_by[@]}" --join-file "$work/short"
expired ()
{
    refused 7 "key refused: monitor [0-9a-f]{8} of $work/short, by the broker at $b: it expired" "${status_by[@]}" \
            --join-file "$work/short"
}
ok "and expires" until_true 60 expired
cp "$keys/join-worker" "$work/old-worker"
ok "workers' keys are rotated" "$bin/wiremill" keys rotate "$out" --role worker --grace 0s
noted () { "$bin/wiremill" keys list "$out" | grep -E '^worker .* made by rotate$'; }
ok "... which the new one's note states" noted
old ()
{
    refused 7 "worker [0-9a-f]{8} of $work/old-worker, .*it was revoked, or has expired" "${work_by[@]}" \
            --join-file "$work/old-worker"
}
ok "the old one is over at the end of its grace" until_true 60 old
"${work_by[@]}" --join-file "$keys/join-worker" >"$work/worker3" 2>&1 &
worker3=$!
again () { grep -q 'session with' "$work/worker3"; }
ok "the new one is in the campaign's folder" until_true 60 again
ok "it is rotated once more" "$bin/wiremill" keys rotate "$out" --role worker --grace 1s
returned ()
{
    grep -q 'it expired; tries to connect again' "$work/worker3" &&
        [ "$(grep -c 'session with' "$work/worker3")" = 2 ]
}
ok "a worker that reads it from there goes on by the new key" until_true 60 returned
kill $worker3
wait $worker3
cp "$keys/keys" "$work/table" && echo rubbish >"$keys/keys"
broken () { grep -q "keys: line 1 is not what .wiremill keys. writes.*the keys read before count" "$work/broker"; }
ok "a broken table is reported" until_true 60 broken
ok "and the one before counts" "${status_by[@]}" --join-file "$keys/join-monitor"
mends () { exits 5 "$bin/wiremill" keys list "$out"; }
ok "wiremill keys does not go on with it" mends
mv "$work/table" "$keys/keys"
bad_time ()
{
    refused 2 "takes a time such as 90s, .*, not 'soon'" "$bin/wiremill" keys add "$out" --role worker \
            --expires soon
}
ok "an expiry that is no time" bad_time
at_once () { refused 2 "takes a time from 1 s, not .0d." "$bin/wiremill" keys add "$out" --role worker --expires 0d; }
ok "an expiry of no time" at_once
there () { refused 2 "is there already" "$bin/wiremill" keys add "$out" --role worker --output "$work/second"; }
ok "a join file is not overwritten" there
no_role () { refused 2 "add needs --role" "$bin/wiremill" keys add "$out"; }
ok "a key of no role" no_role

# The broker goes and comes back: who has the folder, or a join file elsewhere, finds it again.
mkdir "$work/third" && cp "$keys/join-producer" "$keys/join-monitor" "$work/third"
make_events later --events 1 --seed 6 --hits 500 --tpcs 1 || bail "no events"
ok "the campaign is paused" "$bin/wiremill" pause "$out"
"$bin/wiremill" produce --broker "$b" --join-file "$work/third/join-producer" --join-file "$work/third/join-monitor" \
        --input "$made/later.h5" >"$work/produced" 2>&1 &
producer=$!
sends () { "$bin/wiremill" status "$out" | grep -q "/later\.h5"; }
ok "a producer has its join file in a folder of its own" until_true 60 sends
kill $broker && wait $broker
"$bin/wiremill" work "$out" >"$work/early" 2>&1 &
early=$!
waits () { grep -q 'connects to file://' "$work/early"; }
ok "a worker starts by the campaign's folder, before the broker" until_true 60 waits
serve
ok "the campaign goes on" "$bin/wiremill" resume "$out"
found_again () { wait $producer; }
ok "its producer found it again, and what it sends is scored" found_again
joined () { grep -q 'session with' "$work/early"; }
ok "by that worker too" until_true 60 joined
kill $early && wait $early

mkdir -p "$work/new$beside" && : >"$work/new$beside/journal"
lists_none ()
{
    keep "$bin/wiremill" keys list "$work/new" && says "has no keys yet" && [ ! -e "$work/new$beside/keys" ]
}
ok "list makes no keys" lists_none
by_root ()
{
    [ "$(id -u)" = 0 ] || return 0
    chown 12345 "$keys/keys" "$work/new$beside"
    refused 2 "user with the id 12345.*sudo -u '#12345'" "$bin/wiremill" keys add "$out" --role worker &&
        refused 2 "user with the id 12345" "$bin/wiremill" keys add "$work/new" --role worker &&
        [ ! -e "$work/new$beside/keys" ] && keep "$bin/wiremill" keys list "$out" && chown 0 "$keys/keys"
}
ok "root does not replace a user's keys" by_root

# Another campaign's broker, without keys, and its own keys.
kill $broker && wait $broker
serves "a broker without keys serves" "$work/other" "$b" --insecure
takes_none ()
{
    refused 7 "takes no keys, and what is sent there is not encrypted.*$keys/join-worker" "${work_by[@]}" \
            --join-file "$keys/join-worker"
}
ok "who has a key never goes on without one" takes_none
kill $broker && wait $broker
serves "on loopback it has keys with --keys" "$work/other" "$b" --keys
of_another ()
{
    refused 7 "key refused: worker [0-9a-f]{8} of $keys/join-worker.*of another campaign" "${work_by[@]}" \
            --join-file "$keys/join-worker"
}
ok "another campaign's key" of_another
first_of_two ()
{
    keep "${status_by[@]}" --join-file "$keys/join-monitor" --join-file "$work/other$beside/join-monitor"
}
ok "of several join files the one that fits is found" first_of_two
both ()
{
    refused 2 "exclude each other" "$bin/wiremill-broker" --campaign "$work/x" --listen "$b" --pins "$work/mistyped" --wmm "$work/mistyped" \
            --keys --insecure
}
ok "--keys and --insecure" both
ipc ()
{
    refused 2 "keys is for tcp" "$bin/wiremill-broker" --campaign "$work/x" --listen "ipc://$work/i" --pins "$work/mistyped" --wmm \
            "$work/mistyped" --keys
}
ok "--keys with ipc" ipc
wait $worker # its key was rotated, and it had read it from standard input
done_testing
