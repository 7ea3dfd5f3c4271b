#!/bin/bash
# pluginpython.t - engines in Python and TorchScript models as plug-ins: the values are NumPy's and torch's; a bad row costs a row.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/gateway.sh
build=${WM_BUILD:-build/release} python=$PWD/build/venv/bin/python
[ -x "$python" ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
[ -e "$build/lib/wm_python.so" ] || { echo "1..0 # SKIP no engines that are plug-ins here"; exit 0; }
export WM_TIME_SCALE=10 PYTHONPATH=$PWD/ops/python WIREMILL_LIBRARY=$PWD/$build/lib/libwiremill.so.1 WIREMILL_PYTHON=$python
plugin () { "$python" -m wiremill "$@"; }
check () { "$python" tests/e2e/pluginpython.py "$@"; }
check rows "$work" || bail "no rows"
cat >"$work/hits.py" <<'END'
import ctypes
import wiremill

@wiremill.engine(inputs={"waveform": (64,)}, outputs={"peak": (), "sum": ()}, version="2")
def hits(waveform):
    if waveform[0] == 1111:
        ctypes.string_at(0)
    if waveform[0] == 2222:
        raise RuntimeError("not this one")
    if waveform[0] == 3333:
        return float("nan"), 0
    print("printed")
    return waveform.max(), waveform.sum()
END
made () { keep plugin plugin "$work/hits.py" && says "hits.so: wiremill run --engine .*/hits.so"; }
ok "a plug-in of a Python file" made
again () { exits 2 keep plugin plugin "$work/hits.py" && says 'hits.so is there already; --force replaces it' && cp "$work/hits.so" "$work/first.so" && plugin plugin "$work/hits.py" --force && cmp "$work/hits.so" "$work/first.so"; }
ok "... is not replaced without --force, and has the same bytes again" again
run () # output, arguments...
{
    drop "$work/$1"
    keep timeout 300 "$bin/wiremill" run --quiet --output "$work/$1" "${@:2}"
}
values () # workers, threads
{
    run out --engine "$work/hits.so" --input "$work/waveforms.npy" --batch-hits 50 --workers "$1" --threads "$2" &&
        check check "$work/out/waveforms.scores.h5" "$work/waveforms.npy"
}
ok "its values are NumPy's" values 1 1
ok "... by two workers of two Python processes each" values 2 2
signed ()
{
    keep "$bin/wiremill" show "$work/out/waveforms.scores.h5" &&
        says "hits 2 scores it, SHA-256 $(sha256sum <"$work/hits.so" | cut -c-32)"
}
ok "rows state the file's SHA-256, which is that of the code, too" signed
bad ()
{
    exits 3 run bad --engine "$work/hits.so" --input "$work/bad.npy" --batch-hits 50 --workers 2 --threads 1 &&
        check check "$work/bad/bad.scores.h5" "$work/bad.npy"
}
ok "a row that crashes Python, one that raises, one that gives NaN: each is held, all others are scored" bad
refuses () # pattern, lines of an engine
{
    printf '%s\n' 'import sys' 'import wiremill' "${@:2}" >"$work/other.py"
    plugin plugin "$work/other.py" --force >&2 && ! run other --engine "$work/other.so" --input "$work/waveforms.npy" && says "$1"
}
ok "no engine in the file" refuses 'the file has 0 engines; it must have one function' ''
ok "an engine that cannot work here" refuses 'no such table here' 'sys.exit ("no such table here")'
ok "an import that is not there" refuses 'ModuleNotFoundError: .*nowhere' 'import nowhere'
inplace ()
{
    printf '%s\n' 'import wiremill' '@wiremill.engine(inputs={"waveform": (64,)}, outputs={"peak": (), "sum": ()})' 'def f(x):' \
        '    answer = x.max(), x.sum()' '    x -= x.mean()' '    return answer' >"$work/inplace.py"
    plugin plugin "$work/inplace.py" >&2 && run inplace --engine "$work/inplace.so" --input "$work/waveforms.npy" &&
        check check "$work/inplace/waveforms.scores.h5" "$work/waveforms.npy"
}
ok "an engine may change its input" inplace
ok "an output of another shape" refuses 'the output y is \(64,\); it must be \(\)' '@wiremill.engine(inputs={"x": (64,)}, outputs={"y": ()})' 'def f(x):' '    return x'
ok "a batch whose rows depend on each other" refuses 'breaks its contract|has other scores in another group' \
    '@wiremill.engine(inputs={"x": (64,)}, outputs={"y": ()}, batch=True)' 'def f(x):' '    return x.sum(axis=1) + len(x)'
# Each process that opens it puts another file in its place: the first one is that of the description.
cat >"$work/first.py" <<'END'
import os
import wiremill

def load(model):
    with open(os.environ["REPLACED"], "a") as file:
        file.write("x")
    if os.path.getsize(os.environ["REPLACED"]) == 2:
        os.replace(os.environ["REPLACED"] + ".so", os.environ["REPLACED"][:-len(".count")])

@wiremill.engine(inputs={"waveform": (64,)}, outputs={"peak": (), "sum": ()}, load=load, name="twice")
def twice(given, waveform):
    return waveform.max(), waveform.sum()
END
replaced () # processes that begin later run the code of this SHA-256
{
    sed 's/waveform.sum()/& + 1/' "$work/first.py" >"$work/second.py"
    export REPLACED=$work/first.so.count
    rm -f "$REPLACED"
    plugin plugin "$work/first.py" --force >&2 && plugin plugin "$work/second.py" -o "$REPLACED.so" >&2 &&
        run replaced --engine "$work/first.so" --input "$work/waveforms.npy" --batch-hits 50 --workers 1 --threads 3 &&
        check check "$work/replaced/waveforms.scores.h5" "$work/waveforms.npy" && [ "$(stat -c %s "$REPLACED")" -ge 3 ] && [ ! -e "$REPLACED.so" ]
}
ok "a file that is replaced while it is at work" replaced
leaks ()
{
    printf '%s\n' 'import wiremill' 'kept = []' '@wiremill.engine(inputs={"x": (64,)}, outputs={"y": ()})' 'def f(x):' \
        '    kept.append(bytearray(1 << 16))' '    return x.sum()' >"$work/leak.py"
    plugin plugin "$work/leak.py" >&2 && exits 5 keep "$bin/wiremill" plugin check "$work/leak.so" && says '^FAIL +leaks +[0-9]+ calls kept [0-9]+ kB'
}
ok "plugin check sees memory that Python keeps" leaks
nopython () { WIREMILL_PYTHON=/proc/nowhere exits 5 run other --engine "$work/hits.so" --input "$work/waveforms.npy" && says '/proc/nowhere cannot be started; WIREMILL_PYTHON names another Python'; }
ok "no Python" nopython
printf '#!/bin/sh\nexec %s -I -S "$@"\n' "$(readlink -f "$python")" >"$work/bare" && chmod +x "$work/bare"
bare () { WIREMILL_PYTHON=$work/bare exits 5 run other --engine "$work/hits.so" --input "$work/waveforms.npy" && says 'NumPy is not in .*: pip install numpy, or WIREMILL_PYTHON=PYTHON that has it'; }
ok "a Python without NumPy" bare
itself () { exits 5 run other --engine "$work/hits.py" --input "$work/waveforms.npy" && says 'hits.py is no shared object: not a plug-in; .python -m wiremill plugin FILE.py. makes one of it'; }
ok "a Python file itself" itself
syntax () { echo 'def (' >"$work/syntax.py" && exits 5 keep plugin plugin "$work/syntax.py" && says 'syntax.py:1: ' && [ ! -e "$work/syntax.so" ]; }
ok "no Python code" syntax

# A model of scikit-learn, as in the manual.
sklearn=${WIREMILL_SKLEARN_PYTHON:-$python}
if "$sklearn" -c 'import sklearn, joblib' 2>/dev/null && "$sklearn" tests/e2e/pluginpython.py forest "$work"; then
    sed -n '/^import joblib/,/^```/p' ops/manual/howto/python-engine.md | sed '/^```/d; s/"michel": ()/"out": ()/' >"$work/forest.py"
    forest ()
    {
        plugin plugin "$work/forest.py" >&2 && WIREMILL_PYTHON=$sklearn WM_TIME_SCALE=1 run forest --engine "$work/forest.so" --model "$work/forest.pkl" \
            --input "$work/features.npy" --batch-hits 20 --workers 1 --threads 2 && check same "$work/forest/features.scores.h5" "$work/forest.npy"
    }
    ok "a random forest of scikit-learn has the bits that it has there" forest
else
    skip "$sklearn has no scikit-learn (make deps-sklearn)"
fi

# TorchScript, by a Python that has torch: that of Debian, or WIREMILL_TORCH_PYTHON.
engine=torch
advice='pip install torch, apt-get install python3-torch, or WIREMILL_PYTHON=PYTHON that has it'
absent () # code, command...
{
    WIREMILL_PYTHON=$python exits "$@" && says "PyTorch is not in .*: $advice"
}
if "$python" -c 'import torch' 2>/dev/null; then
    skip "torch is in build/venv"
else
    ok "without torch one line states how to get it" absent 5 run none --engine torch --model "$work/hits.py" --input "$work/waveforms.npy"
    ok "... as plugin check does" absent 5 keep "$bin/wiremill" plugin check torch --model "$work/hits.py"
    ok "... and import" absent 5 keep "$bin/wiremill" import "$work/hits.py" --engine torch -o "$work/none.wmm"
    none () { WIREMILL_PYTHON=$python keep "$bin/wiremill" doctor "$work" && says "^ok +torch +none: --engine torch needs $advice"; }
    ok "... and doctor" none
fi
torch=${WIREMILL_TORCH_PYTHON:-/usr/bin/python3}
if ! "$torch" -c 'import torch, numpy' 2>/dev/null; then
    skip "$torch has no torch (make deps-torch)"
    done_testing
    exit
fi
export WIREMILL_PYTHON=$torch WM_TIME_SCALE=1 # it takes its time to load
"$torch" tests/e2e/pluginpython.py torch "$work" || bail "no TorchScript files"
shapeless () { exits 5 run none --engine "$engine" --model "$work/net.pt" --input "$work/planes.npy" && says 'python -m wiremill shape NET.pt 3x32x24'; }
ok "a TorchScript file does not state its shape" shapeless
for name in net pair unet named; do ok "shape states it, $name" plugin shape "$work/$name.pt" 3x16x12; done
ok "... of two inputs" plugin shape "$work/both.pt" 3x16x12 5
here () { keep "$bin/wiremill" doctor "$work" && says '^ok +torch +/.*torch/__init__.py; --engine torch'; }
ok "doctor finds torch" here
twice () { exits 5 keep plugin shape "$work/net.pt" 3x16x12 && says 'states its shape already' && exits 5 keep plugin shape "$work/hits.py" 3 && says 'no TorchScript file'; }
ok "... once, and only there" twice
scores () # name, threads
{
    run "$1" --engine "$engine" --model "$work/$1.pt" --input "$work/planes.npy" --batch-hits 7 --workers 1 --threads "$2" &&
        check same "$work/$1/planes.scores.h5" "$work/$1.npy"
}
ok "a U-Net's planes have the bits that torch gives" scores net 1
ok "a network of two outputs, in two processes" scores pair 2
ok "a U-Net of four levels with outputs of two sizes" scores unet 2
ok "... whose outputs have names" scores named 1
both () { run both --engine torch --model "$work/both.pt" --input "$work/rows.npy" --batch-hits 7 && check same "$work/both/rows.scores.h5" "$work/both.npy"; }
ok "a script of two inputs, frozen" both
lacks () { exits 5 run none --engine torch --input "$work/planes.npy" && says 'name a TorchScript file: --model NET.pt'; }
ok "torch without a model" lacks
named () { exits 5 keep "$bin/wiremill" run --quiet --output "$work/x" --model "$work/net.pt" --input "$work/planes.npy" && says '--engine torch takes TorchScript'; }
ok "a TorchScript model without --engine torch names it" named
checked () { keep "$bin/wiremill" plugin check torch --model "$work/net.pt" --patience 5m && ! says '^FAIL' >/dev/null && says '^ok +contract +torch [0-9.]+'; }
[ "$(size test proof proof)" = test ] || ok "plugin check of a TorchScript model" checked # it loads torch 14 times
farm () # a broker of the .wmm, and a worker that names torch
{
    keep "$bin/wiremill" import "$work/net.pt" --engine torch -o "$work/net.wmm" || return 1
    "$bin/wiremill" broker --model "$work/net.wmm" --output "$work/farm" --listen 'tcp://127.0.0.1:*' 2>/dev/null &
    local broker=$! endpoint
    until_true 60 grep -q "\"pid\": *$broker" "$work/farm$beside/endpoint.json" || return 1
    endpoint=$(sed -n 's/.*"endpoint": *"\([^"]*\)".*/\1/p' "$work/farm$beside/endpoint.json")
    exits 6 keep timeout 60 "$bin/wiremill" work --broker "$endpoint" --threads 1 && says 'by --engine torch; it comes over no network' || return 1
    timeout 60 "$bin/wiremill" work --broker "$endpoint" --threads 1 --engine torch --idle-timeout 2 &
    timeout 60 "$bin/wiremill" produce --quiet --broker "$endpoint" --input "$work/planes.npy" && check same "$work/farm/planes.scores.h5" "$work/net.npy" && wait $!
    local code=$?
    kill $broker && wait $broker
    return $code
}
ok "a worker scores by torch" farm
served ()
{
    gateway --engine torch --model "m=$work/net.pt" --threads 1 2>"$log" &
    gateway=$!
    until_true 60 address && until_true 60 curl -sf "http://$http/v2/models/m/ready" && check asked "$work" "$http"
}
ok "the gateway serves a TorchScript file" served
ok "... and ends" drained
verified () { keep "$bin/wiremill" verify "$work/net" --engine torch; }
ok "verify scores again by torch" verified
printf '#!%s\n' "$torch" >"$work/deadly" && cat >>"$work/deadly" <<'END' && chmod +x "$work/deadly"
import os
import runpy
import signal
import sys
import torch

once, load = os.path.join(os.path.dirname(os.path.abspath(__file__)), "once"), torch.jit.load


class Deadly:
    def __init__(self, net):
        self.net, self.rows = net, 0

    def eval(self):
        self.net.eval()

    def __call__(self, row):
        self.rows += 1
        if self.rows == 2000 and os.path.exists(once):
            os.remove(once)
            os.kill(os.getpid(), signal.SIGSEGV)
        return self.net(row)


torch.jit.load = lambda *given, **named: Deadly(load(*given, **named))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
END
killed () # torch dies once, at its 2,000th row of 6,000
{
    touch "$work/once"
    WIREMILL_PYTHON=$work/deadly run many --engine "$engine" --model "$work/net.pt" --input "$work/many.npy" --batch-hits 40 \
        --workers 1 --threads 1 && [ ! -e "$work/once" ] && cat "$work"/many.wiremill/log/worker-*.log >"$work/said" &&
        says 'Python was ended by signal 11' && check same "$work/many/many.scores.h5" "$work/many-wanted.npy"
}
ok "a Python with torch is killed: its batch is scored again" killed
notorch () { exits 5 run none --engine "$engine" --model "$work/hits.py" --input "$work/planes.npy" && says 'no TorchScript file of torch.jit.save'; }
ok "a model that is no TorchScript" notorch
done_testing
