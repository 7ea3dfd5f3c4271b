#!/bin/bash
# clients.t - `wiremill run --clients`: one command serves the programs of this machine, and wiremill.Client () finds it.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
build=${WM_BUILD:-build/release} python=$PWD/build/venv/bin/python
[ -x "$python" ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
export WM_TIME_SCALE=10 WIREMILL_LIBRARY=$PWD/$build/lib/libwiremill.so.1 PYTHONPATH=$PWD/ops/python PATH=$bin:$PATH
make_model "${small}1" || bail "no model"
model=$made/model-${small}1.wmm
mkdir "$work/here" "$work/empty"
serve () { rm -f "$work/log"; (cd "$work/here" && exec wiremill run --clients --model "$model" --workers 2 --threads 1 "$@") >"$work/out" 2>"$work/log" & served=$!; }
serves () { until_true 60 grep -q 'serves clients at ipc://.*/here/clients.wiremill/broker' "$work/log"; }
cat >"$work/score.py" <<'END'
import sys
import numpy as np, wiremill
model = wiremill.Model (sys.argv[1])
patches = np.random.default_rng (1).random ((int (sys.argv[2]), *model.shape), dtype="f4")
with wiremill.Client (*sys.argv[3:]) as client:
    assert client.sha256 == model.sha256
    assert (client.score (patches) == model.score (patches)).all ()
END
score () { (cd "$work/here" && [ -z "$SAN" ] || return 0; cd "$work/here" && timeout 120 "$python" "$work/score.py" "$model" "$@"); }

serve
ok "a broker and workers start" serves
ok "... and say how programs reach them" grep -q 'in Python: wiremill.Client() in this folder, elsewhere wiremill.Client("ipc://' "$work/log"
ok "wiremill.Client () scores as the library does" score 900
status () { keep wiremill status "$work/here/clients.wiremill" && says '^patches: ' && says '^clients: 0 connected'; }
ok "status speaks of patches" status
back ()
{
    local worker
    worker=$(pgrep -P "$served" -f -- '^wiremill-worker --broker' | head -1) && [ "$worker" ] && kill -9 "$worker" && score 300 &&
        until_true 60 grep -q 'worker-[12] ended by .*starting it again' "$work/log"
}
ok "a worker is killed: it is started again, and its patches are scored" back
second () { exits 75 keep wiremill run --clients --model "$model" --campaign "$work/here/clients.wiremill" && says 'is the broker of .*clients.wiremill: end it'; }
ok "a second one in its folder names the first" second
stop () { kill -INT "$served" && wait "$served"; }
ok "Ctrl-C ends it with 0" stop
[ -n "$SAN" ] || ok "... and a line" grep -qE '^1,200 patches scored in ' "$work/out"
serve --json
ok "the same command again" eval 'serves && score 10'
ok "by WM_BROKER" eval 'WM_BROKER=ipc://$work/here/clients.wiremill/broker score 10'
stop && ok "... --json" "$python" -c 'import json, sys; d = json.load (open (sys.argv[1])); assert d["exit"] == 0 and d["status"]["campaign"]["serves"] == "clients"' "$work/out"
wiremill model new emtrkmichel --seed 2 --wire 16 --bin 16 --output "$work/other.onnx" || bail "no other model"
model=$work/other.onnx
serve
ok "another model in its folder, where nothing is kept of the first" eval 'serves && grep -q "begins again with other settings: --model (was" "$work/log" && score 10'
stop
model=$made/model-${small}1.wmm

nothing () { (cd "$work/empty" && ! "$python" -c 'import wiremill; wiremill.Client ()' 2>"$work/said" && says 'FileNotFoundError.*serves nothing in this folder: start it'); }
[ -n "$SAN" ] || ok "where nothing serves, Client () says what to start" nothing
option () { local pattern=$1; shift; exits 2 keep wiremill run --clients --model "$model" "$@" && says "$pattern"; }
ok "no inputs" option '--input is for files' --input x.h5
ok "... as arguments" option 'x.h5: --clients reads no files' x.h5
ok "no output" option '--output is for files' --output "$work/o"
ok "no other broker" option 'leave --broker out' --broker "ipc://$work/b"
ok "fp32" option 'scores in fp32' --precision split
done_testing
