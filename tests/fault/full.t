#!/bin/bash
# full.t - the disk of the campaign, and that of the outputs, is a small one that fills and empties, again
# and again (FULL times): all pause, say so, lose nothing and go on by themselves.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/fault/crew.sh
n=${FULL:-$(size 2 20 500)} RANDOM=${SEED:-1}
echo "# FULL=$n SEED=${SEED:-1}"
mkdir "$work/disk"
if ! mount -t tmpfs -o size=160m none "$work/disk" 2>/dev/null; then
    echo "1..0 # SKIP a tmpfs can be mounted by root only"
    exit 0
fi
trap 'umount -l "$work/disk" 2>/dev/null; finish' EXIT
crew_model --events 1 --hits 1200
fill () { dd if=/dev/zero of="$work/disk/ballast" bs=64k 2>/dev/null; }
free () { rm -f "$work/disk/ballast"; }

campaign ()
{
    local failures=0 filled=0
    crew_new
    rm -rf "$work/disk"/*
    ln -sfn "$work/disk/out" "$work/out"
    mkdir -p "$work/disk/out"
    [ $((RANDOM % 3)) != 0 ] || { fill; filled=1; } # full from the first moment
    for role in broker worker-1 producer; do crew_start $role; done
    # Full for a while at a random moment, and once more.
    (for i in 1 2; do
        sleep 0.$((RANDOM % 10))
        fill
        sleep 0.$((2 + RANDOM % 8))
        free
    done) &
    local weather=$!
    while crew_wait; do
        if [ "$role$code" = producer0 ]; then
            [ "$crew_input" != "${crew_inputs[1]}" ] || break
            crew_input=${crew_inputs[1]}
        else # who could not even begin says so and may be started again
            grep -qiE 'no space|disk (is )?full|cannot' "$work/words.$role" || echo "$role ended with $code without a word of the disk"
            [ $((failures += 1)) -lt 200 ] || break
            sleep 0.1
        fi
        crew_start "$role"
    done
    [ "$role$code" = producer0 ] || echo 'nobody ends any more'
    { wait $weather; } 2>/dev/null
    crew_stop
    full=$((full + $(cat "$work"/words.* | grep -ciE 'no space|disk (is )?full')))
    crew_same && crew_words
}
wrong=0 full=0
for ((i = 0; i < n; i++)); do
    campaign >"$work/said" 2>/dev/null && [ ! -s "$work/said" ] && continue
    wrong=$((wrong + 1))
    crew_tell "campaign $i: $(head -n 5 "$work/said" | tr '\n' ';')"
done
ok "every campaign ends with the output of an undisturbed run" test $wrong = 0
ok "and it was full ($full words of it)" test $full -gt 0
proved P3 $((2 * n)) $((2 * (n - wrong)))
done_testing
