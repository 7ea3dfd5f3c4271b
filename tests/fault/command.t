#!/bin/bash
# command.t - every failpoint of `wiremill run`, of files it makes, of what it is about to start and of the
# engine's process kills there, again and again: the same command goes on each time, to the output of an
# undisturbed run.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/fault/crew.sh
RANDOM=${SEED:-1}
tries=${TRIES:-$(size 2 25 250)} # of each point
echo "# TRIES=$tries SEED=${SEED:-1} POINTS=${POINTS:-all}"
crew_model --events 1 --hits 1200

all=$(grep -rhoE 'WM_FAILPOINT \("(ops|file|engine)-[a-z-]+"\)' ops gpuworker kernels | sed 's/.*"\(.*\)".*/\1/' | sort)
points=${POINTS:-$all}
ok "every point has a name of its own" test -z "$(uniq -d <<<"$all")"
queue=
for ((i = 0; i < tries; i++)); do # files are made where a campaign is fresh
    queue+=" $({ grep '^file-' <<<"$points"; grep -v '^file-' <<<"$points" | shuf --random-source=<(yes $RANDOM); } | xargs)"
done
declare -A killed=() missed=()
n_killed=0

start () # arguments of env...
{
    env "$@" "$bin/wiremill" run --model "$made/model-${small}1.wmm" --quiet --workers 2 --threads 1 --batch-hits 64 \
        --input "$made/crew-[12].h5" --output "$work/out" >"$work/words.run" 2>&1 &
    pid=$!
}
code_of () { { wait $pid; code=$?; } 2>/dev/null; }
interrupt () # once it is the command, and no shell of ours any more
{
    until [[ $(readlink /proc/$pid/exe) == */wiremill ]] || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
    sleep 0.$((RANDOM % 5))
    kill -TERM $pid 2>/dev/null
}
# The command with the next point armed, until somebody died there and, where that was not the command
# itself, it has gone on for a while; or until it has ended by itself.
disturbed ()
{
    local point n end=$((SECONDS + 180))
    read -r point queue <<<"$queue"
    n=$((tries == 1 || ${missed[$point]:-0} ? 1 : 1 + RANDOM % 4))
    rm -f "$work/died"
    start "WM_FAILPOINT=$point:$n:$work/died"
    [[ $point != ops-stop* ]] || [ $((RANDOM % 2)) = 0 ] || interrupt
    until [ -e "$work/died" ] || ! kill -0 $pid 2>/dev/null; do
        read -rt 0.02 -u "$tick"
        [ $SECONDS -lt $end ] || { echo "$point $n: it does not end"; kill -9 $pid; }
    done
    if [ -e "$work/died" ]; then
        n_killed=$((n_killed + 1))
        killed[$point]=$((${killed[$point]:-0} + 1))
        [[ $point = ops-* && $point != ops-child-exec ]] || [ $((RANDOM % 4)) = 0 ] ||
            { sleep 0.$((RANDOM % 4)); kill -9 $pid 2>/dev/null; }
    else
        missed[$point]=$((${missed[$point]:-0} + 1))
        [ "${missed[$point]}" -ge $((5 + 3 * tries)) ] || queue+=" $point"
    fi
    code_of
    case $code in
    0 | 137 | 75) ;; # 75: it was interrupted, or who was killed before has not let go yet
    *) [[ $code$point == 143ops-stop* ]] || echo "$point $n: the command ended with $code: $(tail -n 3 "$work/words.run")" ;;
    esac
}
campaign () # until it is finished
{
    drop "$work/out"
    code=1
    while [ $code != 0 ] && [ -n "${queue// /}" ]; do disturbed; done
    for ((i = 0; i < 5 && code != 0; i++)); do
        start
        code_of
        [ $code = 0 ] || [ $code = 75 ] || echo "the last command ended with $code: $(tail -n 3 "$work/words.run")"
    done
    ! compgen -G "$work/out$beside/models/*.tmp" || { echo "left behind by a kill"; return 1; }
    crew_same && crew_words
}
crew_kills
done_testing
