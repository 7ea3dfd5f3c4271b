#!/bin/bash
# plugin.t - campaigns by plug-ins, built against the installed header alone: the values are those that the test computes;
# one that breaks its contract costs a row, a process or the campaign's start, and never a wrong row.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/gateway.sh
export WM_TIME_SCALE=10 WM_CASE=$work # in the environment of each process that this test starts
build=${WM_BUILD:-build/release} place="$work/a place" python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
$python tests/e2e/plugin.py make "$work" || bail "no rows"
check () { $python tests/e2e/plugin.py "$@"; }

install () { make -s install-lib B="$build" SAN="$SAN" DESTDIR= PREFIX="$place" && [ "$(wc -l <"$place/include/wiremill_engine.h")" -le 120 ]; }
ok "make install-lib installs the header, of 120 lines at most" install
export PKG_CONFIG_PATH=$place/lib/pkgconfig
plugin () # name, source, flags...: $work/name.so, by what pkg-config prints, in a folder of its own
{
    local flags source
    flags=$(pkg-config --cflags wiremill) && eval "flags=($flags)" && source=$(realpath "$2") || return 1
    mkdir -p "$work/alone" && (cd "$work/alone" && cc -O2 -Wall -Wextra -Werror -fPIC -shared -o "$work/$1.so" "$source" "${flags[@]}" "${@:3}")
}
ok "a plug-in is compiled against it as C99" plugin hits ops/lib/examples/engine_hits.c -std=c99 -Wpedantic -Wl,-z,defs
ok "... and the one that misbehaves" plugin test tests/lib/engine.c -std=gnu11
cpp ()
{
    echo '#include <wiremill_engine.h>
const wiremill_engine_t wiremill_engine = { WIREMILL_ENGINE_VERSION, nullptr, nullptr, nullptr, nullptr };' >"$work/none.cc"
    plugin none "$work/none.cc" -std=c++11 -Wpedantic && nm -D "$work/none.so" | grep -q ' wiremill_engine$'
}
ok "... as C++, and the symbol is exported" cpp
staged () # as for a package
{
    make -s install-lib B="$build" SAN="$SAN" DESTDIR="$work/root" PREFIX=/opt/wm &&
        PKG_CONFIG_PATH=$work/root/opt/wm/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$work/root plugin staged ops/lib/examples/engine_hits.c -std=c99 &&
        cmp "$work/staged.so" "$work/hits.so"
}
ok "... from below DESTDIR, to the same bytes" staged

run () # output, arguments...
{
    drop "$work/$1"
    keep timeout 120 "$bin/wiremill" run --quiet --output "$work/$1" "${@:2}"
}
hits ()
{
    run hits --engine "$work/hits.so" --input "$work/waveforms.npy" --batch-hits 50 --workers 2 --threads 2 &&
        check hits "$work/waveforms.npy" "$work/hits/waveforms.scores.h5"
}
ok "a rule finds the hits of waveforms, as NumPy finds them" hits
signature ()
{
    local sha
    sha=$(sha256sum <"$work/hits.so" | cut -c-32)
    keep "$bin/wiremill" run --output "$work/hits" --engine "$work/hits.so" --input "$work/waveforms.npy" --batch-hits 50 &&
        says "scored by +plugin-same/[a-z0-9-]+/fp32/$sha: 600" && keep "$bin/wiremill" show "$work/hits/waveforms.scores.h5" &&
        says "hits 1 scores it, SHA-256 $sha"
}
ok "its rows state the SHA-256 of the file" signature
ok "... which verify scores again to the same bits" "$bin/wiremill" verify "$work/hits" --engine "$work/hits.so"
echo 0.1 0.4 0.8 1 0.7 0.3 0.1 >"$work/pulse.txt"
ok "the template fit is compiled" plugin template ops/lib/examples/engine_template.c -std=c99 -Wpedantic -Wl,-z,defs
template ()
{
    run template --engine "$work/template.so" --model "$work/pulse.txt" --input "$work/pulses.npy" --batch-hits 50 --threads 2 &&
        check template "$work/pulses.npy" "$work/pulse.txt" "$work/template/pulses.scores.h5" &&
        keep "$bin/wiremill" plugin check "$work/template.so" --model "$work/pulse.txt" && ! says '^(warn|FAIL)'
}
ok "... and fits as NumPy's lstsq does" template
without () { exits 5 run without --engine "$work/template.so" --input "$work/pulses.npy" && says 'give a template of 2 to 64 numbers'; }
ok "... and refuses a campaign without its --model" without
library=$(realpath -q "$build/lib/onnxruntime/libonnxruntime.so.1")
if [ -e "$library" ]; then
    onnx ()
    {
        $python tests/e2e/make.py cnn "$work/cnn.onnx" "$work/patches.npy" &&
            plugin onnx ops/lib/examples/engine_onnx.c -std=c99 "-I$PWD" "-I$PWD/tests/lib" "$library" \
                "-Wl,-rpath,$PWD/$build/lib/onnxruntime" &&
            run onnx --engine "$work/onnx.so" --model "$work/cnn.onnx" --input "$work/patches.npy" --threads 2 &&
            $python tests/e2e/make.py agrees "$work/cnn.onnx" "$work/patches.npy" "$work/onnx/patches.scores.h5" 1e-5 &&
            keep "$bin/wiremill" plugin check "$work/onnx.so" --model "$work/cnn.onnx" && ! says '^FAIL'
    }
    ok "one over ONNX Runtime computes a CNN as Python's does" onnx
else
    skip "no ONNX Runtime in $build/lib"
fi
model () # the plug-in as the model, its engine follows
{
    run model --model "$work/hits.so" --input "$work/waveforms.npy" &&
        check hits "$work/waveforms.npy" "$work/model/waveforms.scores.h5"
}
ok "--model names a plug-in as well" model

mode () # word, arguments...: a campaign by the one that misbehaves
{
    echo "$1" >"$work/$1.txt"
    run "$1" --engine "$work/test.so" --model "$work/$1.txt" --input "$work/rows.npy" --batch-hits 50 "${@:2}"
}
sums () { check sums "$work/rows.npy" "$work/$1/rows.scores.h5" "${@:2}"; } # word, held rows...
patches ()
{
    make_events two --events 2 --seed 5 --hits 3000 --tpcs 1 && $python tests/e2e/plugin.py network "$work/sum.onnx" || return 1
    run wanted --model "$work/sum.onnx" --input "$made/two.h5" && echo patch >"$work/patch.txt" &&
        run patch --engine "$work/test.so" --model "$work/patch.txt" --input "$made/two.h5" && check same "$work/wanted/two.scores.h5" "$work/patch/two.scores.h5"
}
ok "patches of planes are summed as a network sums them" patches
for word in plain promise print locale round fork leak chdir family; do
    harmless () { mode "$word" && ! says 'exit=99' && sums "$word"; }
    [ "$word" != fork ] || harmless () { exits 3 mode "$word" && sums "$word" 77 300; }
    ok "$word" harmless
done
fast () # its constructor has gcc 12 flush denormals, also between calls
{
    plugin fast tests/lib/engine.c -std=gnu11 -Ofast && echo denormal >"$work/denormal.txt" &&
        run fast --engine "$work/fast.so" --model "$work/denormal.txt" --input "$work/rows.npy" --batch-hits 50 --threads 2 && sums fast
}
ok "one compiled by -Ofast leaves denormals alone" fast
for word in crash stop error exit nan; do
    holds () { exits 3 mode "$word" && sums "$word" 77 300; }
    ok "a row that brings about $word is held, no other is" holds
done
hangs ()
{
    echo hang >"$work/hang.txt"
    exits 3 run hang --engine "$work/test.so" --model "$work/hang.txt" --input "$work/few.npy" &&
        check sums "$work/few.npy" "$work/hang/few.scores.h5" 3
}
ok "... as is one that hangs" hangs
for word in group index state high; do
    breaks () { exits 6 mode "$word" && says 'has other scores in another group|breaks its contract'; }
    ok "answers that depend on the $word fail the self-test" breaks
done
lies () { exits 6 mode lie --batch-hits 2 && says 'the plug-in breaks its contract: it answered a row with'; }
ok "... or later a spot check" lies
closes () { exits 6 mode close && says 'breaks its contract: it closed a descriptor that it did not open'; }
ok "one that closes what it did not open" closes
refused_ () # word, exit code, pattern
{
    exits "$2" mode "$1" && says "$3"
}
ok "one that cannot be opened here" refused_ unopened 6 'cannot be opened: this machine does not suit it'
ok "one that crashes when it describes itself" refused_ describe-crash 5 'crashed while it described itself .signal 11'
ok "one that describes no input" refused_ shapeless 5 'describes 0 inputs'
late () { WM_TIME_SCALE=100 refused_ "$@"; }
ok "one that describes itself for an hour" late describe-hang 5 'took more than 3 s to describe itself'
for word in $(size '' 'open-hang always-hang' 'open-hang always-hang'); do # 30 s each
    ok "one that opens, or scores each row, for an hour: $word" refused_ "$word" 6 'cannot run here: it was not ready after [0-9]+ ms and was killed'
done
ok "a shared object that is no plug-in" refused 5 'exports no symbol wiremill_engine' \
    "$bin/wiremill" run --engine "$build/lib/libwiremill.so" --input "$work/rows.npy" --output "$work/x"
ok "one that leaves out a function" refused 5 'leaves out a function' \
    "$bin/wiremill" run --engine "$work/none.so" --input "$work/rows.npy" --output "$work/x"

versions () # the same file over another version of its library
{
    mode plain && TEST_VERSION=2 exits 6 keep timeout 120 "$bin/wiremill" run --quiet --output "$work/plain" --engine "$work/test.so" \
        --model "$work/plain.txt" --batch-hits 50 --input "$work/few.npy" && says 'is test 2 here, but the campaign was begun with test 1: give all workers the same'
}
ok "one that has another version here than where the campaign was begun" versions

# Memory.
memory () { mode "$1" --engine-memory 256M "${@:2}"; }
gulps () { memory gulp --batch-hits 10 --workers 1 --threads 1 && sums gulp && cat "$work"/gulp.wiremill/log/worker-*.log >"$work/said" && says 'starts the engine again: the plug-in keeps [0-9]+ MiB, more than half of --engine-memory 256M'; }
ok "one that leaks is started again between batches" gulps
hogs () { exits 3 memory hog && sums hog 77 300; }
ok "a row that needs more memory than --engine-memory is held" hogs
wants_bytes () { WM_ENGINE_MEMORY=$1 refused_ plain 6 "WM_ENGINE_MEMORY=$1: give a number of bytes, at least 67108864"; rm -rf "$work/plain" "$work/plain.wiremill"; }
for memory in 4G -1 1000 99999999999999999999; do ok "WM_ENGINE_MEMORY=$memory" wants_bytes "$memory"; done
ok "--engine-memory for another engine" refused 2 'limits a plug-in: --engine ./x.so or torch' \
    "$bin/wiremill" run --engine sparse --engine-memory 256M --model synthetic --input "$work/rows.npy" --output "$work/x"

# Bits that are promised.
zero () # TEST_ZERO of the machine that begins, of another one
{
    drop "$work/zero"
    TEST_ZERO=$1 mode zero && TEST_ZERO=$2 exits 6 keep timeout 120 "$bin/wiremill" run --quiet --output "$work/zero" --engine "$work/test.so" \
        --model "$work/zero.txt" --input "$work/few.npy" --batch-hits 50 && says "self-test of plugin-same/.* known answer 0, output 1 is .*$2, and was .*$1"
}
ok "a promise of bits is broken by the sign of a zero" zero 0 -0
held_zero () { exits 3 zero nan 0; }
ok "... by a number in place of no number" zero 5 nan
again () { TEST_ZERO=$2 exits "$1" keep "$bin/wiremill" verify "$work/zero" --engine "$work/test.so" --json && says "\"differ\": $3,"; }
verified () { drop "$work/zero"; TEST_ZERO=0 mode zero && again 0 0 0; }
ok "verify of bits that are promised" verified

# Its file, while it is at work.
changed () # exit code, command...: run while a call waits
{
    echo plain >"$work/plain.txt" && cp "$work/test.so" "$work/changing.so" && drop "$work/changing" || return 1
    exits "$1" env TEST_GATE="$work/gate" WM_TIME_SCALE=1 timeout 120 "$bin/wiremill" run --quiet --output "$work/changing" --batch-hits 10 \
        --engine "$work/changing.so" --model "$work/plain.txt" --input "$work/rows.npy" --workers 1 --threads 1 2>"$work/said" &
    until_true 60 test -e "$work/gate" && "${@:2}" && rm "$work/gate" && wait $!
}
replace () { cp "$work/hits.so" "$work/new.so" && mv "$work/new.so" "$work/changing.so"; }
replaced () { changed 0 replace && sums changing; }
ok "another file in its place changes nothing" replaced
append () { echo x >>"$work/changing.so"; }
written () { changed 6 append && says "file was written to while it was at work: put back the file of SHA-256 $(sha256sum <"$work/test.so" | cut -c-64)"; }
ok "... nor does what is written into it: its process ends" written

# Other machines, which need the file itself.
work_with () # engine...: a worker of a broker of the campaign by hits.so
{
    keep timeout 60 "$bin/wiremill" work --broker "$endpoint" --threads 1 --idle-timeout 2 "$@"
}
farm ()
{
    "$bin/wiremill" broker --model "$1" --output "$work/farm" --listen 'tcp://127.0.0.1:*' 2>/dev/null &
    until_true 60 grep -q "\"pid\": *$!" "$work/farm$beside/endpoint.json" || return 1
    endpoint=$(sed -n 's/.*"endpoint": *"\([^"]*\)".*/\1/p' "$work/farm$beside/endpoint.json")
}
sed 's/THRESHOLD 8/THRESHOLD 9/' ops/lib/examples/engine_hits.c >"$work/other.c"
ok "another build of the plug-in" plugin other "$work/other.c" -std=c99
import () { "$bin/wiremill" import "$work/hits.so" -o "$work/hits.wmm" && farm "$work/hits.wmm"; }
ok "a broker serves the .wmm that import makes of it" import
ok "... in which no code is" sh -c '! grep -q ELF "$1"' sh "$work/hits.wmm"
unnamed () { exits 6 work_with && says "give its file on this machine, of SHA-256 $(sha256sum <"$work/hits.so" | cut -c-64), by --engine"; }
ok "a worker that names no file takes none from the network" unnamed
elsewhere () { exits 6 work_with --engine "$work/other.so" && says "other.so has SHA-256 [0-9a-f]{64}, but the campaign's has"; }
ok "... and refuses another file" elsewhere
here ()
{
    work_with --engine "$work/hits.so" &
    timeout 60 "$bin/wiremill" produce --broker "$endpoint" --input "$work/waveforms.npy" &&
        check hits "$work/waveforms.npy" "$work/farm/waveforms.scores.h5" && wait $!
}
ok "with the same file it scores" here
kill %1 && wait %1
ordinary ()
{
    make_model "${small}1" && exits 2 keep timeout 60 "$bin/wiremill" run --quiet --model "$made/model-${small}1.wmm" \
        --engine "$work/hits.so" --output "$work/x" --input "$work/waveforms.npy" && says 'imported for the engines of wiremill: leave --engine out'
}
ok "a plug-in beside a network is refused" ordinary
rounded () { exits 2 keep "$bin/wiremill" broker --model "$work/hits.so" --precision fast --output "$work/x" && says 'leave --precision out'; }
ok "--precision fast is refused" rounded
ready () { run ready --model "$work/hits.wmm" --engine "$work/hits.so" --input "$work/waveforms.npy"; }
ok "--model takes the .wmm of a plug-in" ready
died () # failpoint: a process dies there once, and the values are right
{
    echo plain >"$work/plain.txt"
    keep env "WM_FAILPOINT=$1:$work/died-${1%:*}" "$bin/wiremill" run --quiet --output "$work/died-${1%:*}.out" --workers 2 --threads 1 \
        --engine "$work/test.so" --model "$work/plain.txt" --input "$work/rows.npy" --batch-hits 10 &&
        [ -e "$work/died-${1%:*}" ] && check sums "$work/rows.npy" "$work/died-${1%:*}.out/rows.scores.h5"
}
for point in engine-scored:5 engine-self-test:1 worker-execute:7 worker-result-sent:4; do
    ok "a process that dies at $point costs nothing" died $point
done

# The contract, tried by `wiremill plugin check`.
sound () { keep "$bin/wiremill" plugin check "$work/hits.so" && [ "$(grep -c '^ok ' "$work/said")" = 14 ] && ! says '^(warn|FAIL)'; }
ok "plugin check finds nothing wrong with the example" sound
checked () # word, exit code, patterns of its findings
{
    echo "$1" >"$work/$1.txt"
    exits "$2" keep "$bin/wiremill" plugin check "$work/test.so" --model "$work/$1.txt" --patience "${patience:-5}" || return 1
    local pattern
    for pattern in "${@:3}"; do says "$pattern" || return 1; done
}
ok "plugin check finds answers that depend on the group" checked group 5 '^FAIL +grouping .*alone than among' '^FAIL +halving ' '^ok +order'
ok "... on the place" checked index 5 '^FAIL +order .*at another place'
ok "... on calls before" checked state 5 '^FAIL +repeats .*after 20 other calls'
ok "... prints" checked print 0 '^warn +prints +it prints 24 bytes'
ok "... another locale" checked locale 0 '^warn +process .*C.UTF-8'
ok "... another rounding" checked round 0 "^warn +process .*floating-point mode"
ok "... a child" checked fork 0 '^warn +children +it has a process'
ok "... a leak" checked leak 5 '^FAIL +leaks +[0-9]+ calls kept [0-9]+ kB'
ok "... NaN that pass" checked blind 0 '^warn +extremes +rows held: 3e38, -3e38; rows with a finite answer: NaN, infinity'
ok "... a crash" checked always-crash 5 '^FAIL +grouping +it crashes by signal 11' '-fsanitize=address'
ok "... a hang" checked always-hang 5 '^FAIL +grouping +no answer within 5 s: a hang'
patience=1 ok "... a hang that its alarm does not end" checked always-deaf 5 '^FAIL +grouping +no answer within 1 s: a hang'
ok "... an exit" checked always-exit 5 '^FAIL +grouping +it ends the process, with exit code 0'
ok "... values that are not written" checked lazy 5 '^FAIL +writes +8 values of 16 are not written'
ok "... a description that fails" checked shapeless 5 '^FAIL +contract +the plug-in describes 0 inputs'
json () { keep "$bin/wiremill" plugin check "$work/hits.so" --json && $python -c 'import json, sys; d = json.load (open (sys.argv[1])); assert len (d["findings"]) == 14 and d["schema"] == "wiremill-plugin-1"' "$work/said"; }
ok "... and prints JSON" json
# Its speed.
bench () # bench, options...: prints JSON, which has a rate
{
    keep "$bin/wiremill" bench "$1" --quiet --json "$work/$1.json" --force --batch 50 --threads 1 "${@:2}" && ! says 'reference|earlier wiremill' >/dev/null &&
        $python -c 'import json, sys; p, = json.load (open (sys.argv[1]))["points"]; assert p["hits_s"] > 0 and "plugin" in p["signature"], p' "$work/$1.json"
}
ok "bench measures a plug-in" bench engine --engine "$work/hits.so" --input "$work/waveforms.npy" --seconds 0.05
ok "... with the file that it takes, and prints of it are no part of the answer" bench engine --engine "$work/test.so" --model "$work/print.txt" \
    --input "$work/rows.npy" --seconds 0.05
ok "... in a whole campaign" bench pipeline --engine "$work/hits.so" --input "$work/waveforms.npy" --workers 1
ok "... beside no other engine" refused 2 'a plug-in has a model of its own: measure .*hits.so alone' \
    "$bin/wiremill" bench --engine "sparse,$work/hits.so" --input "$work/waveforms.npy"
planned ()
{
    keep "$bin/wiremill" plan --quiet --json --engine "$work/hits.so" --input "$work/waveforms.npy" --seconds 0.05 &&
        $python -c 'import json, sys; d = json.load (sys.stdin); assert round (d["needs"]["hits"]) == 600 and d["times"], d' <"$work/said"
}
[ "$(size test proof proof)" = test ] || ok "plan measures one" planned
served ()
{
    gateway --model "m=$work/hits.so" --threads 1 2>"$log" &
    gateway=$!
    until_true 60 address && until_true 60 curl -sf "http://$http/v2/models/m/ready" && check asked "$work/waveforms.npy" "$http"
}
ok "the gateway answers by a plug-in" served
ok "... and ends" drained
none_left () { [ -z "$(env -u WM_CASE grep -lzxs "WM_CASE=$work" /proc/[0-9]*/environ)" ]; }
ok "no process of theirs is left" until_true 60 none_left

done_testing
