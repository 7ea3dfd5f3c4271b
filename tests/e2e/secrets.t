#!/bin/bash
# secrets.t - the secrets of a campaign with keys are in their files only: no argument, environment, log, status or
# core has them.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_model "${small}1" && make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
out=$work/out keys=$work/out$beside b=tcp://127.0.0.1:$port
ulimit -c unlimited
export ASAN_OPTIONS=disable_coredump=0:$ASAN_OPTIONS
mkdir "$work/seen" "$work/there" && cd "$work/there" || exit 1 # where a core file would be

# Looks for secrets, as text and as bytes, in the files of a folder; those that hold them are left out.
cat >"$work/look.py" <<'EOF'
"""look.py - prints which files have a secret of the campaign; exits 1 if any has."""
import os, sys
campaign, folder = sys.argv[1:3]
digits = "0123456789abcdefghjkmnpqrstvwxyz"
homes = ["server-key"] + ["join-" + role for role in ("worker", "producer", "operator", "monitor")]
secrets = []
for home in homes:
    text = open (os.path.join (campaign, home)).read ()
    if home == "server-key":
        raw = bytes.fromhex (text.split ()[2])
    else:
        n = 0
        for c in text.strip ()[4:]:
            n = n * 32 + digits.index (c)
        raw = n.to_bytes (80, "big")[9:41]
        secrets.append (text.strip ()[20:60].encode ())
    secrets += [raw, raw.hex ().encode ()]
found = n_read = 0
for where, _, names in os.walk (folder):
    for name in names:
        path = os.path.join (where, name)
        if (name in homes and where == campaign) or not os.path.isfile (path):
            continue
        content = open (path, "rb").read ()
        n_read += 1
        if any (secret in content for secret in secrets):
            print (path)
            found += 1
print (n_read, "files read")
sys.exit (found > 0)
EOF
look () { python3 "$work/look.py" "$keys" "$work"; }

"$bin/wiremill" broker --model "$made/model-${small}1.wmm" --output "$out" --listen "$b" --keys >"$work/broker" 2>&1 &
broker=$!
ok "a broker serves" until_true 60 grep -q "\"pid\": *$broker" "$keys/endpoint.json"
WM_JOIN_FILE=$keys/join-worker "$bin/wiremill" work --broker "$b" >"$work/worker1" 2>&1 &
first=$!
"$bin/wiremill" work --broker "$b" --workers 1 --join-file - <"$keys/join-worker" >"$work/worker2" 2>&1 &
second=$!
joined () { grep -q 'session with' "$work/worker1" && grep -q 'session with' "$work/worker2"; }
ok "workers join, by a file and by standard input" until_true 60 joined

# A line of standard input is a file in memory of the worker, not of its engine.
has_line () { ls -l "/proc/$1/fd" | grep -q memfd:join-file; }
engine_without ()
{
    local worker engine
    worker=$(child $second wiremill-worker) && has_line "$worker" && engine=$(cat /proc/"$worker"/task/*/children) || return 1
    for engine in $engine; do ls "/proc/$engine/fd" >/dev/null && ! has_line "$engine" || return 1; done
    [ -n "$engine" ]
}
ok "an engine does not inherit the line of standard input" until_true 60 engine_without

# All processes of this test as /proc shows them.
snapshot ()
{
    local pid n=0
    for pid in $broker $first $second $(cat /proc/{$first,$second}/task/*/children); do
        cat "/proc/$pid/cmdline" >"$work/seen/$pid.cmdline" && cat "/proc/$pid/environ" >"$work/seen/$pid.environ" &&
            cat "/proc/$pid/limits" >"$work/seen/$pid.limits" && n=$((n + 1))
    done
    [ $n -ge 4 ]
}
ok "arguments and environments are noted" snapshot
no_core () { ! grep -h 'Max core file size' "$work"/seen/*.limits | grep -v ' 1  '; }
ok "none of them may write a core file" no_core
produced ()
{
    WM_JOIN_FILE=$keys/join-producer "$bin/wiremill" produce --broker "$b" --input "$made/two.h5" >"$work/produce" \
            2>&1
}
ok "a campaign" produced
asked ()
{
    "$bin/wiremill" status "$out" --json >"$work/status" && "$bin/wiremill" keys list "$out" >"$work/list" &&
        "$bin/wiremill" doctor "$out" >"$work/doctor"
}
ok "status, list of keys and doctor" asked
refused_ones ()
{
    "$bin/wiremill" status --broker "$b" --join-file "$keys/join-worker" >"$work/said1" 2>&1
    "$bin/wiremill" work --broker "$b" --join-file "$(cat "$keys/join-worker")" >"$work/said2" 2>&1
    [ -s "$work/said1" ] && [ -s "$work/said2" ]
}
ok "refusals" refused_ones
died () { kill -ABRT $first && ! wait $first && kill -ABRT $broker && ! wait $broker && [ -z "$(ls "$work/there")" ]; }
ok "a worker and the broker that crash leave no core file" died
kill $second
wait $second
ok "no file of all these, nor any of the campaign, has a secret" look
cp "$keys/join-worker" "$work/seen/planted"
ok "who looks finds one that is there" exits 1 look
done_testing
