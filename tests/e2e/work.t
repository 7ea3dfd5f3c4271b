#!/bin/bash
# work.t - wiremill work: one worker a GPU (of a made-up driver), kept alive; several brokers; leaving in peace.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10
make_model "${small}1" && make_model "${small}2" && make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 || bail "no model or events"
lib=$PWD/${WM_BUILD:-build/release}/tests

mkdir "$work/none" && touch "$work/none/libcuda.so.1" # of a machine that has one, hidden
none ()
{
    exits 6 keep env LD_LIBRARY_PATH="$work/none" "$bin/wiremill" work --gpus all &&
        says '^wiremill work: the NVIDIA driver cannot be opened' && [ "$(wc -l <"$work/said")" = 1 ]
}
ok "no driver: one line, exit code 6" none

# A driver of two GPUs, and an engine that notes which one it was given and is the sparse one else.
fake_driver "$work" || bail "no compiler"
export WM_FAKE_DRIVER=12040,2,0
gpus=(env LD_LIBRARY_PATH="$work" WM_CUDA_SO="$lib/wm_killer.so" WM_KILLER_NOTES="$work/notes" "$bin/wiremill" work)
no_gpu () # setting of the driver, text
{
    exits 6 keep env WM_FAKE_DRIVER="$1" "${gpus[@]}" --gpus all && says "^wiremill work: the NVIDIA driver $2"
}
ok "a driver that is too old" no_gpu 11080,2,0 'is too old: it is for CUDA 11.8, needed is CUDA 12.0 \(driver 525 or newer\)'
CUDA_VISIBLE_DEVICES='' ok "GPUs that are hidden" no_gpu 12040,0,100 "shows no GPU: CUDA_VISIBLE_DEVICES is '', which hides them all"
refused () { exits 2 keep "${gpus[@]}" --gpus 0,2 && says 'numbers from 0 to 1'; }
ok "a GPU that is not there" refused
both () { exits 2 keep "${gpus[@]}" --gpus all --workers 3; }
ok "GPUs and a number of workers" both
odd () { exits 2 keep "$bin/wiremill" work --device cpu --engine cuda && says 'do not go together' &&
    exits 2 keep "$bin/wiremill" work --device cuda:x && says 'cuda:N' &&
    exits 2 keep "$bin/wiremill" work --device tpu; }
ok "devices that are none" odd

mode () { exits 2 keep "$bin/wiremill-worker" --engine-process 0,1 && says 'only a worker starts'; }
ok "the engine's mode is not for people" mode

serve () # number
{
    "$bin/wiremill" broker --model "$made/model-$small$1.wmm" --output "$work/out$1" --batch-hits 256 \
            --listen "ipc://$work/b$1" >"$work/broker$1" 2>&1 &
    broker[$1]=$!
    until_true 60 grep -q "\"pid\": *${broker[$1]}" "$work/out$1$beside/endpoint.json"
}
produce () { "$bin/wiremill" produce --broker "ipc://$work/b$1" --input "$made/two.h5"; }
gone () { ! kill -0 "$1" 2>/dev/null; }
pids () { cat /proc/"$1"/task/"$1"/children; }

ok "a broker" serve 1
"${gpus[@]}" --gpus all --broker "ipc://$work/b1" --cache "$work/cache" >"$work/work" 2>&1 &
work_pid=$!
each () { [ "$(sort -u "$work/notes" 2>/dev/null | tr -d '\n')" = 01 ]; }
ok "a worker on each GPU" until_true 60 each
victim=$(pids $work_pid | cut -d' ' -f1)
kill -9 "$victim"
started ()
{
    grep -q 'GPU .* ended by signal 9.*starting it again' "$work/work" && [ "$(pids $work_pid | wc -w)" = 2 ]
}
ok "one that is killed is started again" until_true 60 started
ok "the campaign is done" produce 1
kill -TERM $work_pid
drained () { wait $work_pid; [ $? = 75 ] && [ "$(grep -c 'draining: stopped by a signal' "$work/work")" = 2 ]; }
ok "SIGTERM drains all, exit code 75" drained
[ -z "$WM_QUICK" ] || done_testing

second ()
{
    keep env CUDA_VISIBLE_DEVICES=GPU-7,5,3 WM_KILLER_NOTES="$work/second" WM_CUDA_SO="$lib/wm_killer.so" \
            "$bin/wiremill" work --device cuda:1 --idle-timeout 1 --broker "ipc://$work/b1" --cache "$work/cache" &&
        [ "$(cat "$work/second")" = 5 ]
}
ok "--device cuda:1 is the second GPU that CUDA_VISIBLE_DEVICES leaves" second
# As a batch system names them: a GPU, and a part of one.
gpu=GPU-5a1d9c2e-7f34-4b0e-9d62-0c8b1f3a7e55 mig=MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f
names ()
{
    keep env CUDA_VISIBLE_DEVICES=$mig,$gpu WM_KILLER_NOTES="$work/names" LD_LIBRARY_PATH="$work" \
            WM_CUDA_SO="$lib/wm_killer.so" "$bin/wiremill" work "$@" --idle-timeout 1 --broker "ipc://$work/b1" \
            --cache "$work/cache" && sort "$work/names" && rm -f "$work/names.sorted" && mv "$work/names" "$work/names.sorted"
}
each_name () { names --gpus all && [ "$(sort "$work/names.sorted" | paste -sd' ')" = "$gpu $mig" ]; }
ok "each worker gets its GPU by the UUID in CUDA_VISIBLE_DEVICES" each_name
whole () { names --device cuda && [ "$(cat "$work/names.sorted")" = "$mig,$gpu" ]; }
ok "without a number the list is left as it is" whole
few () { exits 2 keep env CUDA_VISIBLE_DEVICES=4 "$bin/wiremill" work --device cuda:1 && says 'leaves only 4'; }
ok "one that it does not leave is refused" few
bad ()
{
    exits 6 keep timeout 120 env WM_CUDA_SO=/proc/nowhere LD_LIBRARY_PATH="$work" "$bin/wiremill" work --gpus all \
            --broker "ipc://$work/b1" --cache "$work/cache" && says 'cannot run here'
}
ok "an engine that cannot start ends all of them" bad
idle ()
{
    keep "$bin/wiremill" work --workers 2 --idle-timeout 1 --broker "ipc://$work/b1" --cache "$work/cache" &&
        says 'no work for its idle time'
}
ok "--idle-timeout: each leaves in peace and is not started again" idle

# Two campaigns of different models, one worker. The second broker vanishes and comes back.
ok "a second broker, of another model" serve 2
"$bin/wiremill" work --broker "ipc://$work/b1" --broker "ipc://$work/b2=3" --cache "$work/cache" >"$work/work2" 2>&1 &
work_pid=$!
two () { [ "$(grep -c 'session with' "$work/work2")" = 2 ]; }
ok "one worker serves both" until_true 60 two
kill -9 "${broker[2]}"
more () { "$bin/wiremill" kick --broker "ipc://$work/b1" 1 && produce 1; }
ok "the other goes on while one is gone" more
ok "which comes back" serve 2
ok "and is served" produce 2
"$bin/wiremill" run --model "$made/model-${small}2.wmm" --quiet --input "$made/two.h5" --output "$work/alone" \
        --batch-hits 256 >"$work/run" 2>&1
ok "with the same output as by itself" same_scores two "$work/out2" "$work/alone"
# A broker that is gone, or never was there, keeps nobody awake who serves another one.
"$bin/wiremill" work --idle-timeout 3 --broker "ipc://$work/b1" --broker "ipc://$work/b2" \
        --cache "$work/cache" >"$work/work3" 2>&1 &
idle_pid=$!
served () { [ "$(grep -c 'session with' "$work/work3")" = 2 ]; }
ok "one that will be idle serves both" until_true 60 served
kill -9 "${broker[2]}"
idle_left () { gone $idle_pid && wait $idle_pid && [ "$(grep -c 'no work for its idle time' "$work/work3")" = 2 ]; }
ok "it is idle, and leaves both though one is gone" until_true 60 gone $idle_pid
ok "in peace" idle_left
never ()
{
    exits 0 keep timeout 120 "$bin/wiremill" work --idle-timeout 1 --broker "ipc://$work/b1" \
            --broker "ipc://$work/nobody" --cache "$work/cache" &&
        says 'nobody without having reached a broker: no work for its idle time'
}
ok "so it does where one was never there" never
only ()
{
    exits 4 keep timeout 120 "$bin/wiremill" work --idle-timeout 1 --give-up 2 --broker "ipc://$work/nobody" \
            --cache "$work/cache"
}
ok "the only broker is waited for as long as --give-up allows" only
wall ()
{
    exits 0 keep timeout 120 "$bin/wiremill" work --wall-time 1 --broker "ipc://$work/nobody" --cache "$work/cache" &&
        says 'its wall time is over'
}
ok "but not beyond --wall-time" wall
kill -TERM $work_pid
left () { wait $work_pid; [ $? = 75 ]; }
ok "it leaves both" left
many ()
{
    local b=(); for i in {1..17}; do b+=(--broker "ipc://$work/b1"); done; exits 2 keep "$bin/wiremill" work \
            "${b[@]}" && says 'at most 16 times'
}
ok "too many brokers" many
heavy () { exits 2 keep "$bin/wiremill" work --broker "ipc://$work/b1=0" && says 'the weight is 1 to'; }
ok "a weight that is none" heavy
done_testing
