#!/bin/bash
# ends.t - processes of `wiremill run` that die, also before they log anything: how each ended, its last lines and what
# to type next are reported; a producer is started again, three times without progress.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
make_model "${small}1" && make_events one --events 1 --seed 6 --hits 3000 --tpcs 1 || bail "no model or events"
run=("$bin/wiremill" run --model "$made/model-${small}1.wmm" --quiet --input "$made/one.h5")
"${run[@]}" --output "$work/whole" >/dev/null 2>&1 || bail "wiremill run does not work"
again=': somebody.s kill -9, or the kernel where memory ran out\) and logged nothing; starting it again'

# Each dies once, at a point that it passes before it logs anything.
once () # name, failpoint, pattern
{
    drop "$work/out" && rm -f "$work/died"
    keep env "WM_FAILPOINT=$2:1:$work/died" "${run[@]}" --output "$work/out" --workers 1 &&
        says "wiremill run: $1 ended by signal 9 \(SIGKILL$again.*; its log: $work/out$beside/log/" &&
        same_scores one "$work/out" "$work/whole"
}
ok "a broker that is killed is named, and started again" once 'the broker' broker-locked
ok "... a producer" once 'the producer' producer-claimed
ok "... what is killed before it is a program" once '(the broker|the producer|worker-1)' ops-child-exec # which is the first
worker ()
{
    drop "$work/out" && rm -f "$work/died"
    keep env "WM_FAILPOINT=worker-session:1:$work/died" "${run[@]}" --output "$work/out" --workers 1 &&
        says 'worker-1: engine .* self-test is passed' &&
        says 'worker-1 ended by signal 9 .*; starting it again in '
}
ok "... a worker, with its last lines" worker

# Each dies whenever it is started.
times () { [ "$(grep -c "$1" "$work/said")" = "$2" ] || { echo "not $2 times: $1"; return 1; }; }
producer ()
{
    exits 75 keep env WM_FAILPOINT=producer-claimed:1 "${run[@]}" --output "$work/out" &&
        times "the producer ended.*starting it again" 3 &&
        says 'the producer ended by signal 9 .*; that was 4 times without progress: it is not started again; its log: /' &&
        says '^what was done is kept; type this to continue:$' && says "^  $bin/wiremill run --model"
}
drop "$work/out"
ok "a producer that always dies is started three times more" producer
ok "the command that is printed continues" exits 0 "${run[@]}" --output "$work/out"
broker ()
{
    exits 1 keep env WM_FAILPOINT=broker-locked:1 "${run[@]}" --output "$work/none" &&
        times "the broker ended.*starting it again" 5 &&
        says 'that was 6 times in a row: it is not started again; its log: /' &&
        says '^what was done is kept; correct that, then type this to continue:$'
}
ok "a broker that always dies is given up" broker

# A library that raises $WM_DIE_BY in a producer that begins, or reads a file whose name has "bad" in it; only once
# where the library can make the file $WM_DIE_ONCE.
cat >"$work/die.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static void die (const char *at)
{
    const char *by = getenv ("WM_DIE_BY"), *wanted = getenv ("WM_DIE_AT"), *once = getenv ("WM_DIE_ONCE");
    if (by && !strcmp (wanted, at) && !strcmp (program_invocation_short_name, "wiremill-producer") &&
        (!once || open (once, O_CREAT | O_EXCL, 0600) >= 0))
        raise (atoi (by));
}
int gethostname (char *name, size_t bytes)
{
    die ("begin");
    return ((int (*) (char *, size_t)) dlsym (RTLD_NEXT, "gethostname")) (name, bytes);
}
int64_t H5Fopen (const char *path, unsigned flags, int64_t list)
{
    if (strstr (path, "bad.h5"))
        die ("bad");
    return ((int64_t (*) (const char *, unsigned, int64_t)) dlsym (RTLD_NEXT, "H5Fopen")) (path, flags, list);
}
END
${CC:-gcc} -shared -fPIC -o "$work/die.so" "$work/die.c" -ldl || bail "no compiler"
dying=(env LD_PRELOAD="$work/die.so" WM_DIE_AT=begin)
hangup ()
{
    drop "$work/out"
    exits 0 keep "${dying[@]}" WM_DIE_BY=1 WM_DIE_ONCE="$work/hung" "${run[@]}" --output "$work/out" &&
        says 'the producer ended by signal 1 \(SIGHUP: Hangup\).*starting it again' &&
        same_scores one "$work/out" "$work/whole"
}
ok "a producer that SIGHUP ends is started again" hangup
term ()
{
    exits 75 keep "${dying[@]}" WM_DIE_BY=15 "${run[@]}" --output "$work/none" && says '^what was done is kept' &&
        times 'starting it again' 0
}
ok "SIGTERM to the producer still means stop" term

# Two crashes on a file hold it, the others are scored. What it did not read it is not held for.
cp "$made/one.h5" "$work/bad.h5"
crash ()
{
    drop "$work/out"
    exits 3 keep env LD_PRELOAD="$work/die.so" WM_DIE_AT=bad WM_DIE_BY=6 "${run[@]}" --output "$work/out" \
            --input "$work/bad.h5" &&
        says 'the producer crashed by signal 6 \(SIGABRT: Aborted\) on .*bad.h5; starting it again' &&
        says 'the producer crashed a second time on .*bad.h5 .*: held as bad' &&
        same_scores one "$work/out" "$work/whole"
}
ok "a file that crashes its reader twice is held" crash
later ()
{
    exits 1 keep "${dying[@]}" WM_DIE_BY=6 "${run[@]}" --output "$work/out" &&
        says 'ended by signal 6 .*that was 4 times without' && times 'crashed' 0
}
ok "no file is held for an earlier crash" later
verify ()
{
    "${run[@]}" --output "$work/out" --input "$work/bad.h5" --retry-held >/dev/null 2>&1
    exits 1 keep env LD_PRELOAD="$work/die.so" WM_DIE_AT=bad WM_DIE_BY=11 "$bin/wiremill" verify --sample 50 --seed 1 \
            "$work/out" &&
        says '^wiremill verify: wiremill-producer ended by signal 11 \(SIGSEGV: Segmentation fault\); type the same command again$'
}
ok "verify names its process that died" verify
done_testing
