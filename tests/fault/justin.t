#!/bin/bash
# justin.t - a run under a workflow system, and its jobscript, killed at each step and started again: every file is
# scored, listed once, and has its sidecar; the output of an undisturbed run.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=20
RANDOM=${SEED:-1}
tries=${TRIES:-$(size 1 10 100)} # of each point
echo "# TRIES=$tries SEED=${SEED:-1} POINTS=${POINTS:-all}"
make_events justin-1 --events 1 --seed 41 --hits 300 --tpcs 1 || bail "no events"
made_once "$made/stage.onnx" "$bin/wiremill" model new emtrkmichel --seed 1 --wire 16 --bin 16 -o "$made/stage.onnx" || bail "no model"
export JUSTIN_PATH=$work/justin JUSTIN_FILES=$work/files JUSTIN_PROCESSORS=1
export WIREMILL=$bin/wiremill WIREMILL_MODEL=$made/stage.onnx WIREMILL_OPTIONS="--workers 1 --command-timeout 20"
mkdir "$JUSTIN_PATH" "$work/data" && cp tests/e2e/justin-get-file.sh "$JUSTIN_PATH/justin-get-file"
all=$(grep -rhoE 'WM_FAILPOINT \("(feed|processed|sidecar)-[a-z-]+"\)' ops | sed 's/.*"\(.*\)".*/\1/' | sort)
points=${POINTS:-$all}
ok "every point has a name of its own" test -z "$(uniq -d <<<"$all")"
"$WIREMILL" run --model "$WIREMILL_MODEL" --workers 1 --threads 1 --quiet --input "$made/justin-1.h5" --output "$work/plain" \
    >"$work/output" 2>&1 || { cat "$work/output"; bail "wiremill run does not work"; }

id_of () { "$WIREMILL" status --campaign "$1" --json | sed -n 's/.*"id": *"\([0-9a-f]*\)".*/\1/p'; } # campaign folder
plain_id=$(id_of "$work/plain$beside")

fresh () # a new job with so many files
{
    local n
    rm -rf "$work/job" "$work/data" "$JUSTIN_FILES" && mkdir "$work/job" "$work/data" "$JUSTIN_FILES"
    for ((n = 1; n <= $1; n++)); do
        cp "$made/justin-1.h5" "$work/data/f$n.h5" && echo "test:f$n $work/data/f$n.h5 RSE" >>"$JUSTIN_FILES/files"
    done
}
script=$PWD/ops/workflow/wiremill.jobscript
job () { (cd "$work/job" && exec "$script" >>"$work/said" 2>&1); }
# Each file that was printed for the job is listed once, with all that belongs to it. (A call of justin-get-file that
# was killed before it printed has lost the file that it took.)
whole ()
{
    local name n
    cd "$work/job" || return 1
    n=$(wc -l <justin-processed-pfns.txt)
    [ -z "$(sort justin-processed-pfns.txt | uniq -d)" ] && [ "$n" = "$(wc -l <scores.wiremill/files-asked)" ] &&
        ! cut -d ' ' -f 2 "$JUSTIN_FILES/told" | grep -vxFf justin-processed-pfns.txt ||
        { echo "$n listed"; cat scores.wiremill/files-asked "$JUSTIN_FILES/given" justin-processed-pfns.txt; return 1; }
    # In any order: a file whose second line a kill prevented gets it when the run goes on.
    diff <(sed 's|.*/||; s|.h5$||' justin-processed-pfns.txt | sort) <(sed 's|test:||' justin-processed-dids.txt | sort) || return 1
    python3 - "$plain_id" "$(id_of scores.wiremill)" "$work/plain/justin-1.scores.h5" scores justin-processed-dids.txt <<'PY' || return 1
import json, re, sys, zlib
def bare (path, id): # bytes without what differs between two campaigns, as tests/helper.sh has it
    data = bytearray(open(path, "rb").read().replace(id.encode(), b"0" * 32))
    for m in re.finditer(rb"\0(?:input(?:_given|_mtime)?|campaign_folder|command)\0+\x13...(.{4}).{8}", bytes(data), re.S):
        n = int.from_bytes(m[1], "little")
        data[m.end():m.end() + n] = bytes(n)
    return bytes(data)
plain, failed = bare(sys.argv[3], sys.argv[1]), 0
for name in open(sys.argv[5]).read().split():
    path = f"{sys.argv[4]}/{name.split(':')[1]}.scores.h5"
    side, data = json.load(open(path + ".json")), open(path, "rb").read()
    good = side["checksums"]["adler32"] == "%08x" % zlib.adler32(data) and side["size"] == len(data)
    if not good or side["parents"] != [{"did": name}] or bare(path, sys.argv[2]) != plain:
        failed = f"{name} is not as it should be"
sys.exit(failed)
PY
    ! find . -name '*.tmp*' -o -name '*.part' | grep . || { echo "left behind by a kill"; return 1; }
}

# The broker of a run that was killed ends by itself, when its disk has taken what it wrote.
broker_ended () { local lock=$work/job/scores.wiremill/lock; [ ! -e "$lock" ] || until_true 300 flock -n "$lock" true; }

# One campaign: the program dies at one point after the other, and the same command goes on.
n_killed=0 n_tried=0
command=("$WIREMILL" run --model "$WIREMILL_MODEL" --output scores --workers 1 --quiet --sidecars
    --files-from-command "exec $JUSTIN_PATH/justin-get-file --seconds-needed 1"
    --processed-pfns justin-processed-pfns.txt --processed-dids justin-processed-dids.txt)
points ()
{
    local point code
    fresh $(($(wc -w <<<"$points") + 4))
    for point in $(grep -v '^sidecar-' <<<"$points" | shuf --random-source=<(yes $RANDOM)); do
        n_tried=$((n_tried + 1))
        # shellcheck disable=SC2086
        broker_ended && (cd "$work/job" && WM_FAILPOINT=$point:1 timeout 300 "${command[@]}" >"$work/said" 2>&1)
        code=$?
        [ $code = 137 ] || { echo "$point: exit $code"; cat "$work/said"; return 1; }
        n_killed=$((n_killed + 1))
    done
    for point in $(grep '^sidecar-' <<<"$points"); do # the process that writes them: the run starts another
        n_tried=$((n_tried + 1))
        rm -f "$work"/job/scores/*.json "$work/died"
        broker_ended && (cd "$work/job" && WM_FAILPOINT=$point:1:$work/died timeout 300 "${command[@]}" >"$work/said" 2>&1) && [ -e "$work/died" ] ||
            { echo "$point"; cat "$work/said"; return 1; }
        n_killed=$((n_killed + 1))
    done
    broker_ended && (cd "$work/job" && timeout 300 "${command[@]}" >"$work/said" 2>&1) || { cat "$work/said"; return 1; }
    (whole)
}
for ((i = 1; i <= tries; i++)); do
    ok "killed at each point in some order, the same command goes on ($i)" points
done

# The jobscript and all below it, as a batch system kills them.
at () # moment, command...: kills the job when the command is true, and starts it again
{
    local moment=$1 leader
    shift
    fresh 3
    : >"$work/said"
    setsid --wait bash -c "cd '$work/job' && echo \$\$ >'$work/leader' && exec '$script' >>'$work/said' 2>&1" &
    until_true 300 "$@" && leader=$(cat "$work/leader") || { cat "$work/said"; return 1; }
    kill -9 -- "-$leader"
    wait $! 2>/dev/null
    n_tried=$((n_tried + 1))
    broker_ended || return 1
    timeout 300 bash -c "cd '$work/job' && exec '$script' >>'$work/said' 2>&1" || { echo "$moment"; cat "$work/said"; return 1; }
    (whole && for f in scores/*.h5 scores/*.json; do cmp "$f" "${f##*/}" || exit 1; done)
}
lines () { [ "$(wc -l <"$1")" -ge "$2" ]; } # file, number
for ((i = 1; i <= tries; i++)); do
    ok "the jobscript is killed when a file is listed" at listed lines "$work/job/justin-processed-pfns.txt" $((1 + RANDOM % 3))
    [ "$(size 1 2 2)" = 2 ] || continue
    ok "... when it has asked for a file" at asked lines "$JUSTIN_FILES/calls" 1
    ok "... when all are done" at ended test -s "$work/job/wiremill-result.txt"
done
done_testing
