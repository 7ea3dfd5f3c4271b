#!/bin/bash
# proof.sh - runs the tests and ends with a table of the promises: tried, survived, seconds.
#
# usage: [JOBS=N] [FORGET=1] tests/proof.sh test|proof|soak [NAME...]     (make test, make proof, make soak)
#   NAME: unit, fuzz, e2e, golden, sim, cuts, bugs, plants, mutants, fault, isa, san or tsan; without any, those of the size.
#   JOBS: so many tests at a time (default: two more than CPUs, at most 6); the output of a test appears when it ends.
#
# Proof and soak are done in parts, a file of e2e, golden and fault each, in as many sittings as it takes: a part that is
# green leaves its output and a stamp, of commit, class of CPU, date and seconds, in $B/proof/ID. ID is that of the commit, what
# differs from it, the size and the class of CPU. The same command goes on with parts that have no stamp; FORGET=1 (make proof-again)
# forgets those of this ID. The table of promises is the sum over all parts.
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
make -s --no-print-directory tested B="$B" || exit # typed alone, it tests what is in the tree
mkdir -p "$B" && log=$B/proof-$WM_SIZE.log || exit 1

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

excused="$ALLOW_SKIP shared.t steep.t"
# A part: its output goes to $parts/NAME.log, and where it is green a stamp to $parts/NAME. Fails if the part does.
part () # name, command...
{
    local name=${1//\//-} begin=$SECONDS code
    if [ -e "$parts/$name" ]; then
        echo "== $1: green on $(cut -f4 "$parts/$name"), $(cut -f5 "$parts/$name") s"
        return
    fi
    echo "== $1: ${*:2}" >"$parts/$name.log"
    if [ "$together" ]; then
        "${@:2}" >>"$parts/$name.log" 2>&1 9>&-
        code=$?
        flock 9
        cat "$parts/$name.log"
    else
        cat "$parts/$name.log"
        "${@:2}" 2>&1 9>&- | tee -a "$parts/$name.log"
        code=${PIPESTATUS[0]}
    fi
    [ "$code" = 0 ] || return 1
    # What was skipped is tried again, where it is not excused.
    ! grep -qE '^ok [0-9]+ # SKIP|\.t \.\. skipped: ' "$parts/$name.log" || [[ " $excused " == *" ${1#*/} "* ]] || return 0
    printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$commit" "$cpu" "$(date -u '+%F %H:%M')" $((SECONDS - begin)) >"$parts/$name.new" &&
        mv "$parts/$name.new" "$parts/$name"
} 9>>"$parts/lock"
run () # name, command...: a part, or the parts of a function, if it was asked for
{
    [[ " ${names[*]} " == *" $1 "* ]] || return
    if [ "$(type -t "$2")" = function ]; then "${@:2}"; else part "$@"; fi || failed+=" $1"
}
# The tests of folders, $jobs at a time: first those that wait longest, then the longest files.
waiting='fault/kill golden/onnx fault/late e2e/plugin fault/slow'
files () # folder...
{
    local file by_size tests=()
    # shellcheck disable=SC2068 # expanded to files
    mapfile -t by_size < <(ls -S ${@/%//*.t})
    for file in $waiting; do
        [[ " $* " != *" tests/${file%/*} "* || ! -e tests/$file.t ]] || tests+=("tests/$file.t")
    done
    for file in "${by_size[@]}"; do [[ " ${tests[*]} " == *" $file "* ]] || tests+=("$file"); done
    # shellcheck disable=SC2016 # expanded by the inner shell
    printf '%s\n' "${tests[@]}" | together=$([ "$jobs" = 1 ] || echo 1) xargs -P "$jobs" -I{} bash -c \
        'name=$(basename "$(dirname "$1")"); part "$name/$(basename "$1")" prove --timer -v "$1" || { echo "$name" >>"$parts/failed"; exit 1; }' _ {}
}
failed=
size () { case $WM_SIZE in test) echo "$1" ;; proof) echo "$2" ;; soak) echo "$3" ;; esac; }
case $WM_SIZE in
test) names=(unit fuzz sim cuts bugs plants e2e golden fault) ;;
proof | soak) names=(unit fuzz sim cuts bugs plants mutants e2e golden fault isa san tsan) ;;
*) sed -n 's/^# \(usage.*\)/\1/p' "$0" && exit 2 ;;
esac
strict=$(size '' 1 1) # every promise is to be tried, unless only some parts are asked for
all=$([ $# != 0 ] || echo 1)
[ $# = 0 ] || names=("$@")

export WM_BUILD=$B
# Which instruction sets run on this machine; AMX is also emulated everywhere, on tiles in memory.
machine () { "$B/bin/wiremill" doctor | sed -n 's/^ok *\(cpu\|fp32\|split\|fast\|kernels\) /  \1 /p'; }
machine
# What the tests are of: the commit, and a hash of what differs from it.
sources ()
{
    local commit changes
    if commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
        changes=$(git diff --binary HEAD; git ls-files -z --others --exclude-standard | xargs -0r sha256sum)
    else
        changes=$(find . \( -path ./build -o -path ./.git \) -prune -o -type f -print0 | sort -z | xargs -0 sha256sum)
    fi
    echo "$commit${changes:++$(sha256sum <<<"$changes" | cut -c-8)}"
}
commit=$(sources)
cpu=$(machine | sed -n 's/^  cpu *[0-9]* cores*, //p')
parts=$B/proof/$WM_SIZE-$commit-$(cksum <<<"$cpu" | cut -d' ' -f1)
mkdir -p "$parts" || exit 1
[ "$strict$FORGET" = 1 ] || for name in "${names[@]}"; do rm -f "$parts/$name" "$parts/$name.log" "$parts/$name"-*; done
trap 'exit 130' INT TERM
export commit cpu parts excused
export -f part
# Whole campaigns, resumed and poisoned, by each instruction set of this CPU.
matrix ()
{
    local isa code=0
    for isa in amx avx512-vnni avx512 avx-vnni avx2 c; do
        WM_ISA=$isa "$B/bin/wiremill" bench --events 1 --hits 64 --judged 0 --seconds 0.05 --threads 1 --batch 64 \
                --precision fp32 -q >/dev/null 2>&1 || {
            echo "# this CPU has no $isa"
            continue
        }
        part "isa/$isa" env WM_SIZE=test WM_SMALL= WM_ISA=$isa prove --timer tests/e2e/{run,resume,kick}.t tests/fault/poison.t ||
            code=1
    done
    return $code
}
# The sanitizers slow everything down: they run at the size of `make test`, and their numbers are in no row of the table.
sanitized ()
{
    part "$1" env WM_SIZE=test WM_SMALL= bash -o pipefail -c \
        "make --no-print-directory $1 2>&1 | sed 's/^proof:/# under sanitizers:/'"
}
jobs=${JOBS:-$(($(nproc) < 4 ? $(nproc) + 2 : 6))} # two more than CPUs: most tests wait
run unit make --no-print-directory B="$B" JOBS="$jobs" unit
fuzz=(make --no-print-directory fuzz SECONDS_EACH="$(size '' 60 1800)")
[ "$WM_SIZE" != test ] || fuzz=(tests/fuzz/run.sh loop 2000)
run fuzz "${fuzz[@]}"
run sim make --no-print-directory B="$B" sim SEEDS="$(size 500 5000 1000000)"
run cuts make --no-print-directory B="$B" sim-cuts CUTS="$(size 5000 100000 10000000)"
run bugs make --no-print-directory B="$B" sim-proof
run plants tests/plants.sh run
run mutants make --no-print-directory B="$B" mutants N="$(size '' 60 2000)"
folders=()
for name in e2e golden fault; do [[ " ${names[*]} " != *" $name "* ]] || folders+=("tests/$name"); done
rm -f "$parts/failed"
[ ${#folders[@]} = 0 ] || files "${folders[@]}" || failed+=" $(sort -u "$parts/failed" | xargs)"
run isa matrix
run san sanitized san
run tsan sanitized tsan

# All that was ever said of this ID, of the parts that were asked for.
for name in "${names[@]}"; do cat "$parts/$name".log "$parts/$name"-*.log 2>/dev/null; done >"$log"
# The parts with their stamps, as rows of the table in tests/README.md: the files of a kind together.
stamps ()
{
    local name log
    echo "| part | green | not green | commit | class of CPU | last | minutes |"
    echo "|---|---|---|---|---|---|---|"
    for name in "${names[@]}"; do
        for log in "$parts/$name".log "$parts/$name"-*.log; do
            [ ! -e "$log" ] || cat "${log%.log}" 2>/dev/null || echo "$name"
        done | awk -F'\t' -v name="$name" -v commit="$commit" -v cpu="$cpu" '
            NF > 1 { green++; seconds += $5; if ($4 > last) last = $4; next }
            { red++ }
            END { if (NR) printf "| %s | %d | %d | %s | %s | %s | %.0f |\n", name, green, red, commit, cpu, last, seconds / 60 }'
    done
}
table ()
{
    awk -v size="$WM_SIZE" -v promises="$promises" -v strict="$([ -z "$all" ] || echo "$strict")" -v excused=" $excused " '
        /tests\/.*\.t \.\./ { file = $0; sub (/ \.\..*/, "", file); sub (/.*\//, "", file) }
        /^ok [0-9]+ # SKIP|\.t \.\. skipped: / { skipped[file] = $0; sub (/.*( # SKIP |skipped: )/, "", skipped[file]) }
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
        /^== [a-z0-9\/.-]*: / { file = $2; sub (/:$/, "", file) }
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
[ -z "$strict" ] || stamps
table || failed+=' promises'
[ -z "$failed" ] || { echo; echo "what failed:"; failures; }
[ -z "$failed" ] || { echo "failed:$failed (the whole output: $log)"; exit 1; }
