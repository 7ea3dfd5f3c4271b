#!/bin/bash
# slow.t - a campaign over a link on which a batch of 4 MiB takes longer than the silence that ends a session: its parts
# are not silence, and the campaign ends with the output of an undisturbed run.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10 # a silence is 3 s
# Noise, which nothing makes smaller: two batches of 4 MiB. The model is 3.6 MB.
"$bin/wiremill" model new emtrkmichel --wire 16 --bin 16 -o "$work/model.onnx" && build/venv/bin/python -c \
    'import sys, numpy; numpy.save (sys.argv[1], numpy.random.default_rng (1).random ((8192, 16, 16), "f4"))' \
    "$work/noise.npy" || bail "no model or patches"
"$bin/wiremill" run --model "$work/model.onnx" --quiet --input "$work/noise.npy" --output "$work/whole" >/dev/null 2>&1 ||
    bail "wiremill run does not work"
listen=tcp://127.0.0.1:$port slow=tcp://127.0.0.1:$((port + 10)) other=tcp://127.0.0.1:$((port + 20))
for at in 10 20; do # a link each: 4 MiB take 4.2 s
    "$proof/chaos_proxy" $((port + at)) "$port" 1 1000 0 1000 >/dev/null &
done
"$bin/wiremill" broker --model "$work/model.onnx" --output "$work/out" --listen "$listen" >"$work/broker" 2>&1 &
broker=$!
until_true 60 test -s "$work/out$beside/endpoint.json" || bail "no broker: $(cat "$work/broker")"
"$bin/wiremill" work --broker "$slow" --cache "$work/cache" --threads 1 >"$work/worker" 2>&1 &
worker=$!
produce () { timeout 240 "$bin/wiremill" produce --broker "$other" --quiet --input "$work/noise.npy"; }
ok "a campaign over the slow link ends" produce
ok "with the scores of an undisturbed run" same_scores noise "$work/out" "$work/whole"
kill $worker && wait $worker # before its broker goes
kill $broker && wait $broker
spoke () { ! grep silent "$work/broker" "$work/worker" || { cat "$work/worker" "$work/broker"; return 1; }; }
ok "no session was ended as silent" spoke
done_testing
