#!/bin/bash
# kill.t - KILLS (100) random SIGKILLs under `wiremill run`; every campaign ends with the output of an undisturbed run.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
kills=${KILLS:-$(size 100 1000 5000)} RANDOM=${SEED:-1}
echo "# KILLS=$kills SEED=${SEED:-1}"
events=kill-$(size 1 4 4)
make_model "${small}1" && make_events $events --events $(size 1 4 4) --seed 8 --hits 55000 --tpcs 2 || bail "no model or events"
run=("$bin/wiremill" run --model "$made/model-${small}1.wmm" --quiet --input "$made/$events.h5" --batch-hits 512)
"${run[@]}" --output "$work/whole" >/dev/null 2>&1 || bail "wiremill run does not work"

clean () { ! grep -E 'assert|Assertion|corrupt' "$work/run.words" "$work"/out$beside/log/*.log; }
killed=0 starts=0 finished=0 wrong=0 unclean=0 held=0 code=0
while :; do
    # An engine that is killed again and again while its worker looks for the hit it died of: on a slow machine
    # that hit is held, as it should be, and --retry-held scores it.
    [ $code = 3 ] && again=--retry-held held=$((held + 1)) || again=
    "${run[@]}" --output "$work/out" $again >>"$work/run.words" 2>&1 &
    pid=$! starts=$((starts + 1))
    while kill -0 $pid 2>/dev/null; do
        sleep 0.$((RANDOM % 9 + 1))
        [ $killed -lt "$kills" ] || continue
        case $((RANDOM % 8)) in
        0) victim=$pid ;;
        1 | 2) victim=$(child $pid wiremill-producer) ;;
        3 | 4) victim=$(child $pid wiremill-broker) ;;
        5) victim=$(child "$(child $pid wiremill-worker)" wiremill-worker) ;; # its engine
        *) victim=$(child $pid wiremill-worker) ;;
        esac
        [ -n "$victim" ] && kill -9 "$victim" 2>/dev/null && killed=$((killed + 1))
    done
    wait $pid
    code=$?
    if [ $code = 0 ]; then
        finished=$((finished + 1))
        same_scores "$events" "$work/out" "$work/whole" || wrong=$((wrong + 1))
        clean || unclean=$((unclean + 1))
        [ $killed -lt "$kills" ] || break
        drop "$work/out" # done before all kills were made: begin again, the kills go on
    fi
    [ $starts -lt $((50 + 5 * kills)) ] || break
done
echo "# $killed kills over $starts starts of $finished campaigns, $held of them after hits were held"
ok "the last campaign ends by itself too" test $code = 0
ok "the output of every campaign is that of an undisturbed run" test $wrong = 0
ok "nobody speaks of an assertion or of damage" test $unclean = 0
proved P1 "$killed" $((failures ? 0 : killed))
done_testing
