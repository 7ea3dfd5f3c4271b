#!/bin/bash
# stage.t - inputs behind xrootd and HTTP servers that stop, die, are slow, lie, or have other files than before.
cd "$(dirname "$0")/../.." || exit 1
. tests/fault/xrootd.sh tests/fault/stage.t
plain=("$bin/wiremill" run --model "$made/stage.onnx" --workers 1 --threads 1)
quick () { WM_TIME_SCALE=200 XRD_CONNECTIONRETRY=1 run "$@"; } # all tries in 2 s, but for those of xrdcp, of 1 s each
run () { local to=$work/$1; shift; keep timeout 60 "${plain[@]}" --quiet --output "$to" "$@"; } # output, options...
run local --input "$made/stage-?.h5" >"$work/output" || { cat "$work/output"; bail "wiremill run does not work"; }
same () { local to=$1 n; shift; for n; do same_scores "stage-$n" "$work/local" "$work/$to" || return 1; done; } # output, names...
empty () { ! find "$work/$1$beside/staged" -type f | grep .; } # output: no copy is left

# ---- xrootd ----
python3 tests/fault/elsewhere.py slow $((port + 1)) "$port" 80000 &
at=root://127.0.0.1:$port//data crawl=root://127.0.0.1:$((port + 1))//data

printf '%s\n' "$at/stage-a.h5" "$at/stage-b.h5" >"$work/list" # a list that begins as ROOT files do
all () { run all --input-list "$work/list" --input "$made/stage-c.h5" && same all a b c && empty all; }
ok "inputs behind xrootd beside one that lies here: the bytes of a local run, and no copy is left" all
again () { rm -f "$work/admin/log"; run all --input "$at/stage-a.h5" && says 'nothing was left to do' && empty all; }
ok "the same command again copies nothing" again

missing ()
{
    exits 3 run missing --input "$at/none.h5" --input "$at/stage-c.h5" && same missing c &&
        says 'none.h5 cannot be copied to this machine: xrdfs: .*no such file'
}
ok "one that is not there is held with what the server said; the other is scored" missing

# The hits on which split is measured come from copies; "c" measures nothing faster, and stays strict.
split=(--precision split --isa c)
as_split () { same_scores "stage-$2" "$work/here" "$work/$1"; } # output, name
sampled () # answers about some inputs come while others are read: there are many of both
{
    local n list=()
    run here "${split[@]}" --input "$made/stage-?.h5" && mkdir "$work/many" || return 1
    for n in {1..12}; do cp -p "$work/data/stage-c.h5" "$work/data/many-$n.h5" && list+=(--input "$at/many-$n.h5"); done
    for n in {1..300}; do head -c 4000 "$made/stage-a.h5" >"$work/many/$n.h5"; done
    exits 3 run sampled "${split[@]}" --stage-ahead 16 "${list[@]}" --input "$at/stage-b.h5" --input "$work/many/*.h5" &&
        as_split sampled b
}
ok "split is measured while other inputs are asked for" sampled
head -c 4000 "$made/stage-a.h5" >"$work/data/broken.h5" && chmod 644 "$work/data/broken.h5"
later ()
{
    exits 3 run later "${split[@]}" --stage-ahead 1 --input "$at/broken.h5" --input "$at/stage-b.h5" && as_split later b &&
        says 'input held: .*broken'
}
ok "... on the next input, where the first that is here has no hits" later

# A copy on its way, through a slow link.
start () # output, inputs...: $pid
{
    local to=$work/$1
    shift
    "${plain[@]}" --quiet --output "$to" "$@" >"$work/$(basename "$to").words" 2>&1 &
    pid=$!
    part=$to$beside/staged/1/*.part
    until_true 120 half || { cat "$work/$(basename "$to").words" "$to$beside"/log/*; return 1; }
}
half () { [ -s "$(echo $part)" ]; } # shellcheck disable=SC2086
stands () { local bytes; bytes=$(stat -c %s $part) && sleep 0.2 && [ "$(stat -c %s $part)" = "$bytes" ]; } # shellcheck disable=SC2086
gone () { ! kill -0 $pid; }
ends () { until_true 120 gone && exits "$1" wait $pid || { cat "$work"/*.words; return 1; }; } # exit code
stopped ()
{
    start stopped --input "$crawl/stage-a.h5" && kill -STOP $server && until_true 60 stands && kill -CONT $server && ends 0 &&
        same stopped a && empty stopped
}
ok "the server is stopped in mid-copy and goes on" stopped
killed ()
{
    start killed --input "$crawl/stage-a.h5" && kill -9 $server && wait $server
    until_true 120 eval ! half && server && ends 0 && same killed a && empty killed
}
ok "the server is killed in mid-copy and starts again: the file is copied again" killed
changed ()
{
    start changed --input "$crawl/stage-b.h5" && cp "$made/stage-a.h5" "$work/data/new" && chmod 644 "$work/data/new" &&
        mv "$work/data/new" "$work/data/stage-b.h5" && ends 0 || return 1
    cp "$work/changed/stage-b.scores.h5" "$work/changed/stage-a.scores.h5" && same changed a
}
ok "the file is replaced in mid-copy: never a mixture, the new one is scored" changed
cp "$made/stage-b.h5" "$work/data" && chmod 644 "$work/data/stage-b.h5"
resumed ()
{
    start resumed --input "$crawl/stage-a.h5" --input "$at/stage-c.h5" && kill -9 $pid && ends 137 || return 1
    run resumed --input "$crawl/stage-a.h5" --input "$at/stage-c.h5" && same resumed a c && empty resumed
}
ok "run is killed in mid-copy: the same command goes on, what was copied in part is no input" resumed
stager ()
{
    start stager --input "$crawl/stage-a.h5" && kill -9 "$(child $pid wiremill-producer)" && ends 0 && same stager a && empty stager
}
ok "the process that copies is killed: run starts another" stager
# A whole copy that was left in --scratch: the server is asked before it is taken.
leave () { WM_FAILPOINT=stager-tell:1 exits 75 run "$1" --scratch "$work/$1.left" --input "$2" && ls "$work/$1.left"/1/*-stage-?.h5; } # output, URL
replaced ()
{
    leave old "$at/stage-b.h5" && cp "$made/stage-a.h5" "$work/data/new" && chmod 644 "$work/data/new" && mv "$work/data/new" "$work/data/stage-b.h5" &&
        run new --scratch "$work/old.left" --input "$at/stage-b.h5" && mv "$work/new/stage-b.scores.h5" "$work/new/stage-a.scores.h5" && same new a
}
ok "a copy that was left of a file that was replaced since is not taken" replaced
cp "$made/stage-b.h5" "$work/data" && chmod 644 "$work/data/stage-b.h5"
# Each point of the process that copies kills it, and those around a claim the one that reads.
for point in $(grep -ohE '"stager-[a-z]+"' producer/staging/wm_stage.c | tr -d '"' | sort -u) producer-claimed:2; do
    died ()
    {
        local to=at-${point%:*}
        [[ $point = *:* ]] || point=$point:1
        WM_FAILPOINT=$point:$work/$to.died run "$to" --input "$at/stage-a.h5" --input "$at/stage-c.h5" &&
            same "$to" a c && empty "$to" && [ -e "$work/$to.died" ] && grep -q 'starting it again' "$work/said"
    }
    ok "killed at $point: run starts both again" died
done

memory () # pid, word: it is nowhere in the memory of this process
{
    python3 - "$@" <<'EOF'
import sys
with open(f"/proc/{sys.argv[1]}/mem", "rb", 0) as memory:
    for line in open(f"/proc/{sys.argv[1]}/maps"):
        first, last = (int(n, 16) for n in line.split()[0].split("-"))
        if line.split()[1].startswith("rw"):
            memory.seek(first)
            if sys.argv[2].encode() in memory.read(last - first):
                sys.exit(f"{sys.argv[2]} is in {line}")
EOF
}
inherits () { ls -l "/proc/$1/fd" | grep -q memfd:inputs; }
others () # broker, worker and its engine have no descriptor of the list of inputs, which the stager has
{
    local worker pids n=0
    worker=$(child "$pid" wiremill-worker) && pids="$(child "$pid" wiremill-broker) $worker" && inherits "$stager" || return 1
    engine () { [ -n "$(cat /proc/"$worker"/task/*/children)" ]; }
    until_true 120 engine || return 1
    for n in $pids $(cat /proc/"$worker"/task/*/children); do ! inherits "$n" || { echo "$(readlink "/proc/$n/exe") has the list"; return 1; }; done
}
# What others must not see: environment, logs, campaign and output of a run with a token and a URL that has one.
secret ()
{
    export BEARER_TOKEN=SECRET-ENVIRONMENT
    start secret --input "$crawl/stage-a.h5?authz=SECRET-IN-URL&x=1" --input "$at/none.h5?authz=SECRET-IN-URL"
    local code=$? reader stager
    unset BEARER_TOKEN
    reads () { reader=$(pgrep -x wm-reader -P "$stager") && ! grep -q SECRET "/proc/$reader/environ"; } # forked, not executed
    [ $code = 0 ] && stager=$(child $pid wiremill-producer) && until_true 60 reads || return 1
    grep -q SECRET-ENV "/proc/$stager/environ" || return 1
    [ "$(id -u)" != 0 ] || { ! memory "$stager" SECRET-IN-URL && memory "$reader" SECRET-IN-URL; } || return 1 # else nobody may look
    ! grep -l SECRET-ENV "/proc/$(child $pid wiremill-worker)/environ" "/proc/$(child $pid wiremill-broker)/environ" || return 1
    others || return 1
    ends 3 && same secret a && ! grep -rl SECRET "$work/secret" "$work/secret$beside" "$work/secret.words" && grep -q "stage-a.h5.*x=1" "$work/secret$beside/command"
}
ok "a token reaches the programs that copy, and neither logs, campaign, outputs nor the process that reads" secret

cap () # three files with room for one: never two at a time
{
    local most=0 n
    "${plain[@]}" --quiet --output "$work/cap" --stage-bytes 130000 --scratch "$work/cap.copies" --input "$crawl/stage-a.h5" \
        --input "$crawl/stage-b.h5" --input "$crawl/stage-c.h5" >"$work/cap.words" 2>&1 &
    pid=$!
    while kill -0 $pid 2>/dev/null; do
        n=$(find "$work/cap.copies" -type f -size +0 2>/dev/null | wc -l)
        most=$((n > most ? n : most))
        sleep 0.05
    done
    ends 0 && same cap a b c && [ $most = 1 ] && [ ! -e "$work/cap.copies" ] || { echo "$most copies at a time"; return 1; }
}
ok "copies stay within --stage-bytes, and --scratch is removed when it is empty" cap

{ kill -9 $server && wait $server; } 2>/dev/null
dead () { exits 3 quick dead --input "$at/stage-a.h5" --input "$made/stage-c.h5" && says 'tried 8 times in [0-9]+ s' && same dead c; }
ok "a dead server: its inputs are held after a bounded time, others are scored" dead
retried () { server && run dead --input "$at/stage-a.h5" --input "$made/stage-c.h5" --retry-held && same dead a c; }
ok "--retry-held copies them again" retried

# ---- HTTP ----
python3 tests/fault/elsewhere.py http $((port + 2)) "$work/data" &
web=http://127.0.0.1:$((port + 2))
mode () { echo "$1" >"$work/data/mode"; : >"$work/data/log"; }
mode fine
until_true 120 curl -sf "$web/mode" || bail "no HTTP server"
http () { mode fine; run http --input "$web/stage-a.h5" --input "$web/none.h5" --input "$web/stage-c.h5"; [ $? = 3 ] && same http a c && says 'none.h5 cannot be copied.*404' && empty http; }
ok "over HTTP: the same bytes; one that is not there is held" http
two ()
{
    build/venv/bin/python - "$work/data/both.h5" <<'EOF' || return 1
import h5py, numpy, sys
with h5py.File(sys.argv[1], "w") as file:
    for seed, name in enumerate("ab"):
        file[name] = numpy.random.default_rng(seed).random((40, 16, 16, 1), "float32")
EOF
    chmod 644 "$work/data/both.h5"
    run pair-here --input "$work/data/both.h5:/a" --input "$work/data/both.h5:/b" || return 1
    mode fine
    run pair --input "$web/both.h5:/a" --input "$web/both.h5:/b" --input "$web/both.h5:/a" && says " files=2 written=2 " && empty pair && [ "$(grep -c ^/both.h5 "$work/data/log")" = 1 ] || return 1
    for n in pair-here pair; do mv "$work/$n"/both-*.scores.h5 "$work/$n/second.scores.h5" || return 1; done
    same_scores both "$work/pair-here" "$work/pair" && same_scores second "$work/pair-here" "$work/pair"
}
if [ -x build/venv/bin/python ]; then
    ok "two datasets of one file have one copy, which is there until both are written" two
else
    skip "no build/venv (make test makes it)"
fi
cut ()
{
    mode cut
    "${plain[@]}" --quiet --output "$work/cut" --input "$web/stage-a.h5" >"$work/cut.words" 2>&1 &
    pid=$!
    until_true 120 grep -q 'bytes=[1-9].*"' "$work/data/log" && echo fine >"$work/data/mode" && ends 0 && same cut a &&
        [ "$(grep -c '^/stage-a.h5 - ' "$work/data/log")" = 1 ] || { cat "$work/data/log"; return 1; }
}
ok "a connection that ends in mid-file: the rest is asked for, of the same file only" cut
other ()
{
    mode cut
    cp "$work/data/stage-a.h5" "$work/data/moving.h5"
    "${plain[@]}" --quiet --output "$work/other" --input "$web/moving.h5" >"$work/other.words" 2>&1 &
    pid=$!
    until_true 120 grep -q moving "$work/data/log" && cp "$made/stage-c.h5" "$work/data/moving.h5" && echo fine >"$work/data/mode"
    ends 0 && mv "$work/other/moving.scores.h5" "$work/other/stage-c.scores.h5" && same other c
}
ok "a file that was replaced meanwhile is copied from its start" other
blind () # a server that sends the rest of whatever is there now, of the same size
{
    mkdir "$work/fat" && cp "$made/stage-c.h5" "$work/fat" && truncate -s "$(stat -c %s "$made/stage-a.h5")" "$work/fat/stage-c.h5"
    run fatter --input "$work/fat/stage-c.h5" || return 1
    mode cut
    cp "$work/data/stage-a.h5" "$work/data/blind.h5"
    "${plain[@]}" --quiet --output "$work/blind" --input "$web/blind.h5" >"$work/blind.words" 2>&1 &
    pid=$!
    until_true 120 grep -q blind "$work/data/log" && cp "$work/fat/stage-c.h5" "$work/data/new.h5" &&
        mv "$work/data/new.h5" "$work/data/blind.h5" && echo blind >"$work/data/mode"
    ends 0 && mv "$work/blind/blind.scores.h5" "$work/blind/stage-c.scores.h5" &&
        same_scores stage-c "$work/fatter" "$work/blind"
}
ok "... also where the server sends the rest of another version" blind
weak () { mode weak; exits 5 quick weak --input "$web/stage-a.h5" && says 'tried 8 times' && [ "$(wc -l <"$work/data/log")" = 8 ]; }
ok "a server without ranges that never sends all: held after 8 tries" weak
lies () { mode digest; exits 5 quick lies --input "$web/stage-a.h5" && says "adler32 of the copy is [0-9a-f]*, the server's 00000001"; }
ok "a copy that has not the server's checksum is never scored" lies

asked ()
{
    mode fine
    leave kept "$web/stage-a.h5" && run taken --scratch "$work/kept.left" --input "$web/stage-a.h5" && same taken a &&
        grep -q '^HEAD /stage-a.h5' "$work/data/log" && [ "$(grep -c '^/stage-a.h5' "$work/data/log")" = 1 ] || return 1
    leave gone "$web/stage-c.h5" && cp "$made/stage-a.h5" "$work/data/stage-c.h5" && run other-now --scratch "$work/gone.left" --input "$web/stage-c.h5" &&
        cp "$made/stage-c.h5" "$work/data" && mv "$work/other-now/stage-c.scores.h5" "$work/other-now/stage-a.scores.h5" && same other-now a
}
[ "$(size 0 1 1)" = 0 ] || ok "a copy that was left is taken if the server's answer fits, and only then" asked

# A token goes over https alone, and to curl alone.
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/key" -out "$work/cert" -days 2 -subj /CN=localhost \
    -addext subjectAltName=IP:127.0.0.1 2>/dev/null && cat "$work/key" "$work/cert" >"$work/both"
python3 tests/fault/elsewhere.py http $((port + 3)) "$work/data" "$work/both" &
tls=https://127.0.0.1:$((port + 3))
until_true 120 curl -sf --cacert "$work/cert" "$tls/mode" || bail "no HTTPS server"
token ()
{
    mode fine
    echo SECRET-IN-FILE >"$work/of-user.token"
    BEARER_TOKEN_FILE=$work/of-user.token CURL_CA_BUNDLE=$work/cert run token --input "$tls/stage-a.h5" --input "$web/stage-c.h5" &&
        same token a c && grep -q '^/stage-a.h5 - - Bearer SECRET-IN-FILE$' "$work/data/log" &&
        grep -q '^/stage-c.h5 - - -$' "$work/data/log" && ! grep -r SECRET "$work/token/"
}
ok "over HTTPS, with a bearer token that HTTP does not get" token
stranger () { exits 5 run stranger --input "$tls/stage-a.h5" && says 'curl: .*certificate'; }
ok "a server whose certificate nobody knows is not asked twice" stranger

# ---- what is refused at once ----
no () { refused "$1" "$2" "${plain[@]}" --output "$work/no" --input "$3" && [ ! -e "$work/no" ]; } # exit code, pattern, URL
ok "a URL of another kind is refused" no 2 'copies root://, https:// and http:// only' s3://bucket/a.h5
ok "... and a pattern" no 2 'a URL is one file, no pattern' "root://host//data/*.h5"
ok "... and one without a path" no 2 'is no URL of a file' root://host
mkdir "$work/few" && for p in cat grep timeout; do ln -s "$(command -v $p)" "$work/few/$p"; done
bare () { PATH=$work/few no 1 'needs xrdcp, which is not in PATH here: install the package xrootd-client' root://host//a.h5; }
ok "... and one that no program here copies" bare
usual () # without --scratch and a broker
{
    echo "$at/stage-a.h5" >"$work/urls" && mkdir "$work/tmp"
    TMPDIR=$work/tmp refused 4 'broker' "$bin/wiremill-producer" produce --broker "ipc://$work/nobody" --input-list "$work/urls" --give-up 1 &&
        [ -z "$(ls "$work/tmp")" ]
}
ok "wiremill-producer alone copies to a folder of this user" usual
long () { head -c 70000 /dev/zero | tr '\0' x >"$work/long" && refused 2 'a line is longer than 65536 bytes' "$bin/wiremill-producer" produce --broker "ipc://$work/nobody" --input-list "$work/long"; }
ok "a line of the list that is too long is refused" long
done_testing
