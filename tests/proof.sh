#!/bin/bash
# proof.sh - runs the tests and ends with a table of the promises: tried, survived, seconds.
#
# usage: [JOBS=N] tests/proof.sh test|proof|soak [NAME...]     (make test, make proof, make soak)
#   NAME: unit, fuzz, e2e, golden, sim, cuts, bugs, plants, fault, isa, san or tsan; without any, those of the size.
#   JOBS: so many tests at a time (default: one more than CPUs, at most 4); the output of a test appears when it ends.
#
# Each test reads from WM_SIZE how much it does (`size` in helper.sh, proof_size in proof.h), and reports the result
# in one line; the lines of a promise are added up:
#   proof: P1 tried 1000 survived 1000 seconds 812
# Fails if a test fails, and if anything tried did not survive. Without NAMEs proof and soak also fail where a promise was
# not tried or a file was skipped, unless it is excused by name: ALLOW_SKIP="P11 full.t link.t" (shared.t and steep.t, whose
# events are not part of the project, always are)
cd "$(dirname "$0")/.." || exit 1
export WM_SIZE=${1:-test}
shift
B=${WM_BUILD:-build/release}
mkdir -p "$B" && log=$B/proof-$WM_SIZE.log && : >"$log" || exit 1

# The promises, in short. G: needs a GPU, `make gpu-check` tries it.
promises='P1 killed at any instant: 0 lost, 0 duplicated
P2 the same across power loss
P3 a full disk pauses and loses nothing
P4 an I/O error is never a false acknowledgement
P5 damage is found, never answered wrongly
P6 out of memory: no wrong answer
P7 partitions, slow, cut and flipped links
P8 a slow or hung worker stalls nothing
P9 G a GPU error costs one launch
P10 G a GPU that computes wrong is caught
P11 poison is isolated, not dropped
P12 clock jumps do nothing
P13 mismatch is refused
P14 memory stays in its budget
P15 workers join, leave, are preempted
P16 resume is exact
P17 one master per ledger
P18 upgrades are safe
P19 hostile peers: bounded memory and CPU
P20 nothing retries for ever
P22 fp32 has the same bits at every start
P25 a worker that scores wrongly is found by another machine
fuzz inputs of any bytes crash no decoder
bugs planted on purpose are caught'

failed=
run () # name, command...: runs it if it was asked for; its output also goes to the log
{
    local name=$1
    shift
    [[ " ${names[*]} " == *" $name "* ]] || return
    echo "== $name: $*"
    "$@" 2>&1 | tee -a "$log"
    [ "${PIPESTATUS[0]}" = 0 ] || failed+=" $name"
}
# The tests of a folder, one after another as prove does it, or $JOBS at a time, the longest files first.
files () # folder
{
    if [ "$jobs" = 1 ]; then
        prove --timer -v "$1"
    else
        # shellcheck disable=SC2016 # expanded by the inner shell
        ls -S "$1"/*.t | xargs -P "$jobs" -I{} bash -c \
            'output=$(prove --timer -v {} 2>&1); code=$?; flock 9; printf "%s\n" "$output"; exit $code' 9>>"$log"
    fi
}
size () { case $WM_SIZE in test) echo "$1" ;; proof) echo "$2" ;; soak) echo "$3" ;; esac; }
case $WM_SIZE in
test) names=(unit fuzz sim cuts bugs plants e2e golden fault) ;;
proof | soak) names=(unit fuzz sim cuts bugs plants e2e golden fault isa san tsan) ;;
*) sed -n 's/^# \(usage.*\)/\1/p' "$0" && exit 2 ;;
esac
strict=$([ $# != 0 ] || size '' 1 1)
[ $# = 0 ] || names=("$@")

export WM_BUILD=$B
# Which instruction sets run on this machine; AMX is also emulated everywhere, on tiles in memory.
machine () { "$B/bin/wiremill" doctor | sed -n 's/^ok *\(cpu\|fp32\|split\|fast\|kernels\) /  \1 /p'; }
machine
# Whole campaigns, resumed and poisoned, by each instruction set of this CPU.
matrix ()
{
    local isa failed=0
    for isa in amx avx512-vnni avx512 avx-vnni avx2 c; do
        WM_ISA=$isa "$B/bin/wiremill" bench --events 1 --hits 64 --judged 0 --seconds 0.05 --threads 1 --batch 64 \
                --precision fp32 -q >/dev/null 2>&1 || {
            echo "# this CPU has no $isa"
            continue
        }
        echo "# WM_ISA=$isa"
        WM_SIZE=test WM_SMALL= WM_ISA=$isa prove --timer tests/e2e/run.t tests/e2e/resume.t tests/e2e/kick.t \
                tests/fault/poison.t || failed=1
    done
    return $failed
}
# The sanitizers slow everything down: they run at the size of `make test`, and their numbers are in no row of the table.
sanitized ()
{
    WM_SIZE=test WM_SMALL= make --no-print-directory "$1" 2>&1 | sed 's/^proof:/# under sanitizers:/'; return "${PIPESTATUS[0]}"
}
jobs=${JOBS:-$(($(nproc) < 4 ? $(nproc) + 1 : 4))} # one more than CPUs: most tests wait
run unit make --no-print-directory B="$B" unit
fuzz_all ()
{
    if [ "$WM_SIZE" = test ]; then tests/fuzz/run.sh loop 2000; else make --no-print-directory fuzz SECONDS_EACH="$(size '' 60 1800)"; fi
}
run fuzz fuzz_all
run sim make --no-print-directory B="$B" sim SEEDS="$(size 500 5000 1000000)"
run cuts make --no-print-directory B="$B" sim-cuts CUTS="$(size 5000 100000 10000000)"
run bugs make --no-print-directory B="$B" sim-proof
run plants tests/plants.sh run
run e2e files tests/e2e
run golden files tests/golden
run fault files tests/fault
run isa matrix
run san sanitized san
run tsan sanitized tsan

table ()
{
    awk -v size="$WM_SIZE" -v promises="$promises" -v strict="$strict" -v excused=" $ALLOW_SKIP shared.t steep.t " '
        /tests\/.*\.t \.\./ { file = $0; sub (/ \.\..*/, "", file); sub (/.*\//, "", file) }
        /^(1\.\.0|ok [0-9]+) # SKIP/ { skipped[file] = $0; sub (/.* # SKIP /, "", skipped[file]) }
        /^proof: [A-Za-z0-9]+ tried [0-9]+ survived [0-9]+ seconds [0-9.]+/ {
            tried[$2] += $4; survived[$2] += $6; seconds[$2] += $8
        }
        # Whether something was left out that is not excused: the proof has failed then.
        function missed(name) { return strict && !index (excused, " " name " ") }
        function row(name, what, gpu) {
            if (name in tried)
                printf "  %-5s %-48s %9d %9d %9.1f%s\n", name, what, tried[name], survived[name], seconds[name],
                       tried[name] == survived[name] ? "" : "   BROKEN"
            else {
                printf "  %-5s %-48s %9s%s\n", name, what, "not tried", !gpu && missed(name) ? "   BROKEN" : ""
                broken += !gpu && missed(name)
            }
            broken += tried[name] != survived[name]
        }
        END {
            printf "\nwhat was tried at the size of `make %s`\n  %-54s %9s %9s %9s\n", size, "promise", "tried", "survived", "seconds"
            n = split (promises, line, "\n")
            for (i = 1; i <= n; i++) {
                name = line[i]; sub (/ .*/, "", name)
                what = line[i]; sub (/^[^ ]* (G )?/, "", what)
                gpu = line[i] ~ /^P[0-9]+ G /
                row(name, what (gpu ? " (make gpu-check)" : ""), gpu)
                delete tried[name]
            }
            for (name in tried)
                row(name, "(a promise that is not in the list of tests/proof.sh)")
            for (file in skipped) {
                printf "  skipped: %s: %s%s\n", file, skipped[file], missed(file) ? "   BROKEN" : ""
                broken += missed(file)
            }
            exit broken > 0
        }' "$log"
}
# Each test that failed, with what it said: lines that belong to no failure are thousands.
failures ()
{
    awk '
        /tests\/.*\.t \.\./ { file = $0; sub (/ \.\..*/, "", file); sub (/.*tests/, "tests", file) }
        /^== .*\/tests\/test_/ { file = $2; sub (/.*\//, "", file) }
        /^== [a-z]*: / { file = $2; sub (/:$/, "", file) }
        /^\[  FAILED  \] [a-z_0-9]+$/ || (/^not ok/ && !/# TODO/) || /^(Dubious|Bailout called)/ || /^no longer applies/ \
            || /^failed: / || /^# broken by/ || /^\[  ERROR   \]/ || /^\[   LINE   \]/ {
            if (!seen[file $0]++) print "  " file ": " $0
            says = /^not ok/ ? 40 : 0
            next
        }
        /^# / && says-- > 0 { if (/[^# ]/) print "      " $0; next }
        { says = 0 }' "$log"
}
machine
table || failed+=' promises'
[ -z "$failed" ] || { echo; echo "what failed:"; failures; }
[ -z "$failed" ] || { echo "failed:$failed (the whole output: $log)"; exit 1; }
