#!/bin/bash
# helper.sh - TAP in bash: what every shell test begins with (`. tests/helper.sh` after cd to the root).
# shellcheck shell=bash
bin=$PWD/${WM_BUILD:-build/release}/bin
proof=$PWD/${WM_BUILD:-build/release}/tests/fault
PATH=$PATH:$PWD/build/prometheus/usr/bin # promtool and prometheus, where they are not installed
# What a user's shell may have set: a test sets what it is about.
unset COLUMNS LINES CDPATH POSIXLY_CORRECT GREP_OPTIONS PYTHONPATH PYTHONHOME http_proxy https_proxy all_proxy no_proxy \
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
umask 022
export HOME=${HOME:-/}
[ ${#TMPDIR} -le 40 ] || unset TMPDIR # sockets lie in $work, and a socket's path has 108 bytes
work=$(mktemp -d)
export LC_ALL=C NO_COLOR=1 XDG_CACHE_HOME=$work/of-user
export ORT_DISABLE_TELEMETRY=1 # of Python's onnxruntime, also where make did not start the test
tests=0 failures=0
beside=.wiremill # an output folder's name with this behind it is that of its campaign's folder

# Ends what a test started in the background by its id, then removes its files. `timeout` leads a group, of its command.
finish ()
{
    local pid
    for pid in $(jobs -p); do kill -9 "$pid" "-$pid" 2>/dev/null; done
    wait 2>/dev/null
    rm -rf "$work"
}
# Not in a child: bash runs the trap also in one that a signal ends before it has become its command. (There the signal
# ends each builtin command, too, with 1: `case` is none.)
at_exit () { trap "case \$BASHPID in \$\$) $1 ;; esac" EXIT; } # commands
# WM_KEEP=1 leaves everything as it is, for inspection.
[ -n "$WM_KEEP" ] || at_exit finish

ok () # description, command...: passes if the command succeeds; a failure prints its output
{
    local what=$1 code
    shift
    tests=$((tests + 1))
    if "$@" >"$work/output" 2>&1; then
        echo "ok $tests - $what"
    else
        code=$?
        echo "not ok $tests - $what"
        echo "# exit $code of: $*"
        tail -n 40 "$work/output" | sed 's/^/# /'
        failures=$((failures + 1))
    fi
}
skip () # why: one test that cannot be tried here, counted by tests/proof.sh
{
    tests=$((tests + 1))
    echo "ok $tests # SKIP $*"
}
in_chromium () # why, command...: one test of `make proof`, by a browser
{
    [ "$(size '' 1 1)" ] || return 0
    if has chromium; then ok "$@"; else skip "chromium is not installed (make deps-browser)"; fi
}
exits () # code, command...: true if the command exits with this code
{
    local wanted=$1 code
    shift
    "$@"
    code=$?
    [ $code = "$wanted" ] || { echo "exit $code, wanted $wanted"; return 1; }
}
says () # pattern: true if the output of the last `keep` contains it (grep -E)
{
    grep -Eq -- "$1" "$work/said" || { echo "not in the output: $1; but:"; cat "$work/said"; return 1; }
}
keep () # command...: runs it, and keeps its output for `says`
{
    "$@" >"$work/said" 2>&1
    local code=$?
    cat "$work/said"
    return $code
}
refused () # code, pattern, command...: true if the program ends within two minutes with this code and message
{
    local code=$1 pattern=$2
    shift 2
    exits "$code" keep timeout 120 "$@" && says "$pattern"
}
drop () { local out; for out in "$@"; do rm -rf "$out" "$out$beside"; done; } # output folders with their campaigns
npy_values () { tail -c +$((11 + $(od -An -tu2 -j8 -N2 "$1"))) "$1"; } # an array's bytes behind its head
done_testing ()
{
    echo "1..$tests"
    exit $((failures > 0))
}
until_true () # seconds, command...: true as soon as the command is
{
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || { echo "not within its time: $*"; return 1; }
        sleep 0.05
    done
}
until_counted () # seconds, number, command...: true once the command prints so large a number; false where none is larger for so long
{
    local patience=$1 wanted=$2 most=-1 n end
    shift 2
    while [ $most -lt "$wanted" ]; do
        n=$("$@" 2>/dev/null)
        [ "${n:-0}" -le $most ] || { most=${n:-0} end=$((SECONDS + patience)); continue; }
        [ $SECONDS -lt $end ] || { echo "$most for $patience s, not $wanted: $*"; return 1; }
        sleep 0.05
    done
}

# A model and events, made once a build and kept: they are the same bytes each time. Each WM_SIZE has its own: a test may want
# more in a file of the same name.
made=$PWD/${WM_BUILD:-build/release}/made/${WM_SIZE:-test}
has () { local c; for c in "$@"; do command -v "$c" >/dev/null || return 1; done; } # all of these commands
# What several tests score is made once under its name, by the first test that needs it.
made_once () # file, command...; FILE.by holds the command, without this folder's path: a build may be copied or moved
{
    local file=$1 by
    shift
    by=${*//"$PWD/"/}
    mkdir -p "$made" && {
        flock 8
        [ -e "$file" ] || { "$@" && echo "$by" >"$file.by"; } || return 1
        [ ! -e "$file.by" ] || [ "$by" = "$(cat "$file.by")" ] || bail "$file is by '$(cat "$file.by")', not by '$by': give one of them another name"
    } 8>"$made/lock"
}
new_model () # seed or small-seed
{
    local how=()
    [[ $1 != small-* ]] || how=(--wire 16 --bin 16)
    "$bin/wiremill" model new emtrkmichel --seed "${1#small-}" "${how[@]}" -o "$made/model-$1.onnx" >&2 &&
        "$bin/wiremill" import "$made/model-$1.onnx" -o "$made/model-$1.wmm" >&2
}
make_model () { made_once "$made/model-$1.wmm" new_model "$1"; } # seed or small-seed: $made/model-seed.wmm
# Of 16 x 16 patches, so that a campaign starts with a fifth of the work: for tests whose subject is not the network, in
# `make test`; `model-${small}1` is that of 48 x 48 in `make proof`.
[ "${WM_SIZE:-test}" = test ] && small=${WM_SMALL-small-} || small=
new_events () # name, synth options...
{
    local name=$1
    shift
    "$bin/wiremill" synth "$@" --output "$made/$name.part" >&2 && mv "$made/$name.part" "$made/$name.h5"
}
make_events () { made_once "$made/$1.h5" new_events "$@"; } # name, synth options...: $made/name.h5
# The model, events $made/layout.h5, and $work/labels.yaml, which gives the model's scores the labels of the field.
make_labelled ()
{
    size=48
    [ -z "$small" ] || size=16
    make_model ${small}1 && make_events layout --events 3 --seed 4 --hits 300 --tpcs 1 &&
        printf 'patch: [%s, %s]\nlabels: [track, em, none, michel]\n' $size $size >"$work/labels.yaml"
}
fake_driver () # folder: a library in the place of NVIDIA's driver, of WM_FAKE_DRIVER (tests/unit/fake_driver.h)
{
    # shellcheck disable=SC2086 # CC may be two words
    ${CC:-gcc} -shared -fPIC -D_GNU_SOURCE -w -Wl,-soname,libcuda.so.1 -x c tests/unit/fake_driver.h -o "$1/libcuda.so.1"
}
# Afterwards `--engine openvino` is the exact-sparse engine, the same bits; each batch takes WM_KILLER_SLOW_MS longer, of a
# process that a test signals while it works: the time does not depend on the machine.
slow_engine () { export WM_OPENVINO_SO=$PWD/${WM_BUILD:-build/release}/tests/wm_killer.so; }
# A file of scores with all that differs between two runs overwritten by zeros: the campaign's id, and
# where input and campaign lie (attributes of HDF5: name, type with its size, 8 bytes of shape, text).
scores () # file, campaign folder
{
    local id
    [ -s "$1" ] || { echo "no file $1" >&2; return 1; }
    id=$("$bin/wiremill" status --campaign "$2" --json | sed -n 's/.*"id": *"\([0-9a-f]*\)".*/\1/p')
    [ ${#id} = 32 ] || { echo "no campaign id in $2" >&2; return 1; }
    perl -0777 -pe "s/$id/0 x 32/ge;"'
        while (/\0(?:input(?:_given|_mtime)?|campaign_folder|command)\0+\x13...(.{4}).{8}/gs) { push @at, pos; push @n, unpack "V", $1 }
        for my $i (0 .. $#at) { substr ($_, $at[$i], $n[$i]) = "\0" x $n[$i] }' "$1"
}
same_scores () # name, folder, folder: true if two campaigns gave the same bytes
{
    scores "$2/$1.scores.h5" "$(realpath "$2")$beside" >"$work/a.bytes" &&
        scores "$3/$1.scores.h5" "$(realpath "$3")$beside" >"$work/b.bytes" &&
        cmp "$work/a.bytes" "$work/b.bytes"
}
# Prints how much to try, by WM_SIZE: in `make test`, `make proof`, `make soak`.
size () # test, proof, soak
{
    case ${WM_SIZE:-test} in soak) echo "$3" ;; proof) echo "$2" ;; *) echo "$1" ;; esac
}
# Prints the result: a line that tests/proof.sh adds to its table. Seconds are those since the line before.
proved () # promise, tried, survived
{
    echo "proof: $1 tried $2 survived $3 seconds $((SECONDS - proved_s))"
    proved_s=$SECONDS
}
proved_s=0
# 16 TCP ports of this test alone, below those that the system gives out: `port` is the first.
port=$((16000 + $$ % 1000 * 16))
bail () { echo "Bail out! $*"; exit 1; }

# The process of a campaign: broker, producer or worker, by the parent that started it.
child () # parent pid, program
{
    local pid
    for pid in $(cat /proc/"$1"/task/"$1"/children 2>/dev/null); do
        # Between fork and exec a process has its parent's command line, and its environment.
        [ "$(readlink /proc/"$pid"/exe)" = "$bin/$2" ] && ! cmp -s "/proc/$1/cmdline" "/proc/$pid/cmdline" && echo "$pid" && return
    done
    return 1
}
