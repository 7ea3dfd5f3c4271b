#!/bin/bash
# pluginpython.t - engines in Python and TorchScript models as plug-ins: the values are NumPy's and torch's; a bad row costs a row.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
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
nopython () { WIREMILL_PYTHON=/proc/nowhere exits 5 run other --engine "$work/hits.so" --input "$work/waveforms.npy" && says '/proc/nowhere cannot be started; WIREMILL_PYTHON names another Python'; }
ok "no Python" nopython
syntax () { echo 'def (' >"$work/syntax.py" && exits 5 keep plugin plugin "$work/syntax.py" && says 'syntax.py:1: ' && [ ! -e "$work/syntax.so" ]; }
ok "no Python code" syntax

# TorchScript, by a Python that has torch: that of Debian, or WIREMILL_TORCH_PYTHON.
engine=$PWD/$build/lib/wm_torch.so
absent () { WIREMILL_PYTHON=$python exits 5 run none --engine "$engine" --model "$work/hits.py" --input "$work/waveforms.npy" && says 'PyTorch is not in .*: pip install torch, apt-get install python3-torch'; }
"$python" -c 'import torch' 2>/dev/null && skip "torch is in build/venv" || ok "without torch one line states how to get it" absent
torch=${WIREMILL_TORCH_PYTHON:-/usr/bin/python3}
if ! "$torch" -c 'import torch, numpy' 2>/dev/null; then
    skip "$torch has no torch (make deps-torch)"
    done_testing
    exit
fi
export WIREMILL_PYTHON=$torch
"$torch" tests/e2e/pluginpython.py torch "$work" || bail "no TorchScript files"
shapeless () { exits 5 run none --engine "$engine" --model "$work/net.pt" --input "$work/planes.npy" && says 'python -m wiremill shape NET.pt 3x32x24'; }
ok "a TorchScript file does not state its shape" shapeless
for name in net pair; do ok "shape states it, $name" plugin shape "$work/$name.pt" 3x16x12; done
twice () { exits 5 keep plugin shape "$work/net.pt" 3x16x12 && says 'states its shape already' && exits 5 keep plugin shape "$work/hits.py" 3 && says 'no TorchScript file'; }
ok "... once, and only there" twice
scores () # name, threads
{
    run "$1" --engine "$engine" --model "$work/$1.pt" --input "$work/planes.npy" --batch-hits 7 --workers 1 --threads "$2" &&
        check same "$work/$1/planes.scores.h5" "$work/$1.npy"
}
ok "a U-Net's planes have the bits that torch gives" scores net 1
ok "a network of two outputs, in two processes" scores pair 2
torches () { pgrep -f "^$torch $engine /proc/" | while read -r pid; do [ "$(cat "/proc/$(ps -o ppid= -p "$pid" | tr -d ' ')/comm")" = wm-plugin ] || echo "$pid"; done; }
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
