#!/bin/bash
# parsl.t - Parsl's SlurmProvider on a real Slurm starts wiremill's workers (ops/farm/parsl_workers.py).
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/fault/slurm.sh
[ "$(size '' 1 1)" ] || { echo "1..0 # SKIP only make proof runs this"; exit 0; }
has_slurm || { echo "1..0 # SKIP slurm-wlm and munge are not installed (make deps-slurm)"; exit 0; }
python=$PWD/build/venv/bin/python
"$python" -c 'import parsl' 2>/dev/null || { echo "1..0 # SKIP parsl is not in build/venv (make deps-farm)"; exit 0; }
export WM_TIME_SCALE=10 XDG_CACHE_HOME=$work/cache
make_model 1 && make_events parsl --events 2 --seed 8 --hits 3000 --tpcs 1 || bail "no model or events"
out=$work/out here=$PWD
unset WM_JOIN_FILE WM_BROKER
finish_slurm () { [ -z "$SLURM_CONF" ] || slurm_down >/dev/null; finish; }
at_exit finish_slurm
ok "a Slurm of two nodes" slurm_up 2
[ $failures = 0 ] || done_testing

"$bin/wiremill" broker --model "$made/model-1.wmm" --output "$out" --batch-hits 16 --listen "tcp://127.0.0.1:$port" --keys \
        >"$work/broker" 2>&1 &
broker=$!
ok "a broker" until_true 60 grep -q "\"pid\": *$broker" "$out$beside/endpoint.json"
"$bin/wiremill" produce --broker "tcp://127.0.0.1:$port" --join-file "$out$beside/join-producer" --input "$made/parsl.h5" \
        >"$work/produce" 2>&1 &
producer=$!
mkdir "$work/parsl" && cd "$work/parsl" || exit 1
# A minute without work becomes three seconds: the test does not wait for it.
sed 's/--idle-timeout 60/--idle-timeout 3/' "$here/ops/farm/parsl_workers.py" >parsl_workers.py
PATH=$bin:${python%/*}:$PATH "$python" parsl_workers.py 2 main "tcp://127.0.0.1:$port" "$out$beside/join-worker" >"$work/parsl.out" 2>&1 &
pilot=$!
cd "$here" || exit 1
jobs_there () { [ "$(squeue --me -h -o %j | grep -c parsl)" = 2 ]; }
ok "Parsl has two jobs in Slurm" until_true 60 jobs_there
connected () { [ "$("$bin/wiremill" status "$out" --json | grep -c '"state": *"busy"')" = 2 ]; }
ok "and a worker in each, which score" until_true 90 connected
wait $producer
ok "the campaign is done" test $? = 0
ends () { wait $pilot || { tail -n 20 "$work/parsl.out"; return 1; }; }
ok "idle workers leave, and Parsl ends" ends
gone () { [ -z "$(squeue --me -h --states=PENDING,RUNNING)" ]; }
ok "with its jobs" until_true 60 gone
"$bin/wiremill" run --model "$made/model-1.wmm" --quiet --input "$made/parsl.h5" --output "$work/alone" --batch-hits 16 \
        --workers 1 >"$work/run" 2>&1
ok "the output is that of one machine" same_scores parsl "$out" "$work/alone"
kill $broker && wait $broker
done_testing
