#!/bin/bash
# precision.t - one arithmetic for a campaign: fp32 has the same bytes by every instruction set, in a mixed
# farm, at every start; split and fast are measured on the campaign's own hits, pinned, and watched.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
pair=$(size pair two two)
make_model 1 && make_model "${small}1" && make_events precise --events 1 --seed 31 --hits 600 --tpcs 1 &&
    make_events "$pair" --events 2 --seed 5 --hits "$(size 600 3000 3000)" --tpcs 1 || bail "no model or events"
one=(--model "$made/model-1.wmm" --input "$made/precise.h5" --quiet)
two=(--model "$made/model-1.wmm" --input "$made/$pair.h5" --quiet --batch-hits 100)
run () { keep "$bin/wiremill" run "$@"; }
look () { $python tests/e2e/make.py precision "$@"; }

# ---- fp32 --------------------------------------------------------------------------------------------------
ok "fp32 by this machine's own instruction set" run "${one[@]}" --output "$work/here"
ok "... one signature, whatever the CPU" look "$work/here/precise.scores.h5" sparse/fma/fp32/v1 strict
for isa in avx512 avx2 c; do
    if WM_ISA=$isa "$bin/wiremill" bench "${one[@]}" --hits 60 --judged 0 --seconds 0.05 --threads 1 --batch 64 \
            --precision fp32 >"$work/said" 2>&1; then
        other ()
        {
            run "${one[@]}" --isa $isa --output "$work/$isa" && same_scores precise "$work/here" "$work/$isa"
        }
        ok "fp32 by $isa: the same bytes" other
    else
        skip "this CPU has no $isa"
    fi
done
n=$(size 5 50 200) same=0
starts=(--model "$made/model-${small}1.wmm" "${one[@]:2}")
run "${starts[@]}" --output "$work/first" >/dev/null || bail "no campaign"
for ((i = 0; i < n; i++)); do # beside something that keeps the CPUs busy
    timeout 60 bash -c 'while :; do :; done' &
    busy=$!
    drop "$work/again"
    "$bin/wiremill" run "${starts[@]}" --threads $((i % 3 + 1)) --output "$work/again" >"$work/said" 2>&1 &&
        same_scores precise "$work/first" "$work/again" && same=$((same + 1))
    kill $busy
done
starts () { echo "$same of $n"; [ $same = "$n" ]; }
ok "$n starts under load: one signature, one output" starts
proved P22 "$n" $same

# Workers of other instruction sets in one campaign.
mixed () # folder, how many workers of each, options of `wiremill work`...
{
    local to=$1 listen=ipc://$work/$1.b pids=() words
    shift
    "$bin/wiremill" broker "${two[@]:0:2}" --batch-hits 100 --output "$work/$to" --listen "$listen" \
            "${campaign[@]}" >"$work/$to.log" 2>&1 &
    local broker=$!
    until_true 60 test -e "$work/$to$beside/endpoint.json" || return 1
    "$bin/wiremill" pause "$work/$to" >"$work/said" 2>&1 # until all workers are there
    for words in "$@"; do
        # shellcheck disable=SC2086 # it is split
        "$bin/wiremill" work --broker "$listen" --threads 1 --cache "$work/cache" $words >>"$work/$to.work" 2>&1 &
        pids+=($!)
    done
    "$bin/wiremill" produce --broker "$listen" --input "$made/$pair.h5" >"$work/$to.produce" 2>&1 &
    local producer=$!
    until_true 60 sessions "$to" $# && "${before_work[@]}" && "$bin/wiremill" resume "$work/$to" >"$work/said" 2>&1 &&
        wait $producer
    local code=$?
    "$bin/wiremill" status "$work/$to" --json >"$work/$to.json"
    kill "${pids[@]}" "$broker" 2>/dev/null
    wait "${pids[@]}" "$broker" 2>/dev/null
    return $code
}
sessions () { [ "$(grep -c 'session with' "$work/$1.work")" = "$2" ]; } # folder, how many
campaign=() before_work=(true)
farm ()
{
    mixed farm "" "--isa c" "" && run "${two[@]}" --output "$work/alone" && same_scores $pair "$work/farm" "$work/alone"
}
ok "a farm of mixed instruction sets gives the output of one machine" farm

# ---- split and fast ----------------------------------------------------------------------------------------
# 16-bit integers by AVX2, which nearly every CPU has; else the twin of AMX (tests/standin), slowly.
twin=${proof%/fault}/wm_amx_twin.so
isa=avx2 kernel=avx2/int16
grep -qw avx2 /proc/cpuinfo || export isa=amx-twin kernel=amx-twin/bf16 LD_PRELOAD=$twin
class=$([ $isa = avx2 ] && echo avx2/int16 || echo amx-twin/bf16,amx-twin/bf16x3)
by=(--isa $isa)
fast () { run "${one[@]}" "${by[@]}" --precision fast --output "$work/fast"; }
ok "fast is measured on the campaign's own hits" fast
ok "... its summary says by what, and how exact" says \
        "scored by +sparse/$kernel/v1: [0-9,]+ hits; largest error [0-9.e-]+ on"
ok "... so do the outputs" look "$work/fast/precise.scores.h5" "sparse/$kernel/v1" 0.005
status () { keep "$bin/wiremill" status "$work/fast" && says "$class +sparse/$kernel/v1 +[0-9.]+e-0[0-9] on"; }
ok "... and status, also without a broker" status
split ()
{
    LD_PRELOAD=$twin run --model "$made/model-1.wmm" --input "$work/few.npy" --quiet --isa amx-twin --precision split \
            --output "$work/split" && look "$work/split/few.scores.h5" sparse/amx-twin/bf16x3/v1 1e-05
}
$python tests/e2e/make.py faint "$work/few.npy" 40 1 || bail "no patches"
ok "split likewise, on the twin of AMX" split
ok "... which the programs themselves do not have" exits 6 env -u LD_PRELOAD "$bin/wiremill" run --model \
        "$made/model-1.wmm" --input "$work/few.npy" --quiet --isa amx-twin --precision split --output "$work/no-twin"
none ()
{
    run "${one[@]}" --isa c --precision split --output "$work/none" &&
        look "$work/none/precise.scores.h5" sparse/fma/fp32/v1 1e-05
}
ok "split on a CPU without matrix units is strict fp32" none
coarse () { run "${one[@]}" "${by[@]}" --precision fast --max-error 1e-6 --output "$work/coarse" &&
    look "$work/coarse/precise.scores.h5" sparse/fma/fp32/v1 1e-06 &&
    grep -q "not precise enough: $kernel " "$work/coarse$beside/log/worker-1"*; }
ok "--max-error 1e-6: 16 bits are not precise enough, strict fp32 is taken" coarse
steep () # heads times 8
{
    $python tests/e2e/make.py steep "$made/model-1.onnx" "$work/steep.onnx" 8 &&
        run --model "$work/steep.onnx" --input "$made/precise.h5" --quiet "${by[@]}" --precision fast \
            --output "$work/steep" &&
        look "$work/steep/precise.scores.h5" any 0.005 &&
        run --model "$work/steep.onnx" --input "$made/precise.h5" --quiet --output "$work/steep32" &&
        $python tests/e2e/make.py near "$work/steep/precise.scores.h5" "$work/steep32/precise.scores.h5" 0.005
}
ok "a network of steep heads: what is taken keeps the promise" steep
double () { keep "$bin/wiremill" verify "$work/steep32" --sample 200 --tolerance 1e-5; }
ok "... and fp32 of it is within 1e-5 of double" double
ok "... which another --max-error would break: refused by name" exits 5 keep "$bin/wiremill" run "${one[@]}" \
        "${by[@]}" --precision fast --max-error 0.1 --output "$work/fast"
ok "... and said" says "pinned to max_error '0.005', not '0.1'"
for bad in 0 2 x -1e-5; do
    ok "--max-error $bad is refused" exits 2 run "${one[@]}" --precision fast --max-error=$bad --output "$work/bad"
done
ok "--max-error in fp32 is refused" exits 2 run "${one[@]}" --max-error 1e-5 --output "$work/bad"
ok "an instruction set that is none is refused" exits 6 run "${one[@]}" --isa pentium --output "$work/bad"
ok "... with those that there are" says 'avx512-vnni'

early () # a broker without any producer: the engine starts before there are hits to measure on
{
    "$bin/wiremill" broker "${two[@]:0:2}" --precision fast --output "$work/early" --listen "ipc://$work/early.b" \
            >"$work/early.log" 2>&1 &
    local broker=$! code
    until_true 60 test -e "$work/early$beside/endpoint.json" || return 1
    keep timeout 60 "$bin/wiremill" work --broker "ipc://$work/early.b" --threads 1 --cache "$work/cache" --isa pentium
    code=$?
    kill $broker
    wait $broker
    return $code
}
ok "... also before there are hits to measure on" exits 6 early
ok "... by its name" says "instruction set 'pentium'"

# Each class of machines has its own signature, which later workers take and restarts keep.
campaign=(--precision fast)
bound () { "$bin/wiremill" status "$work/classes" --json | grep -q '"class": *"x86-64"'; }
slower_first () # the faster worker waits until the other has brought a result, which binds its class
{
    kill -STOP "${pids[0]}"
    { until_true 60 bound; kill -CONT "${pids[0]}"; } &
}
classes ()
{
    before_work=(slower_first)
    mixed classes "--isa $isa" "--isa c" || return 1
    before_work=(true)
    $python - "$work/classes.json" "$class" "sparse/$kernel/v1" <<'PY'
import json, sys
s = json.load (open (sys.argv[1]))
by = {a["class"]: a["signature"] for a in s["arithmetic"]}
assert by == {sys.argv[2]: sys.argv[3], "x86-64": "sparse/fma/fp32/v1"}, by
assert sum (s["rows"].values ()) == s["hits"]["done"] and set (s["rows"]) <= set (by.values ()), s["rows"]
PY
}
ok "two classes of machines in one campaign: each its own, rows are counted by signature" classes
killed () # the engine process comes back as what it was
{
    run "${two[@]}" "${by[@]}" --precision fast --output "$work/whole" &&
        look "$work/classes/$pair.scores.h5" "sparse/$kernel/v1" 0.005 &&
        same_scores $pair "$work/killed" "$work/whole"
}
kill_engines ()
{
    local pid; for pid in "${pids[@]}"; do kill -9 "$(cat "/proc/$pid/task/$pid/children")" || return 1; done
}
before_work=(kill_engines)
ok "engines that are killed ..." mixed killed "--isa $isa" "--isa $isa"
before_work=(true)
ok "... come back with the same arithmetic" killed
again () # workers measure again, on the sample and for the table that an earlier broker kept
{
    rm "$work/fast/precise.scores.h5"
    run "${one[@]}" "${by[@]}" --precision fast --output "$work/fast" && ! says "hits to measure on" &&
        look "$work/fast/precise.scores.h5" "sparse/$kernel/v1" 0.005
}
ok "the next broker has the sample and the table, and asks for no other" again

# ---- an arithmetic that is not the campaign's --------------------------------------------------------------
campaign=()
foreign () # options of the broker...
{
    local listen=ipc://$work/f.b
    drop "$work/foreign"
    "$bin/wiremill" broker "${two[@]:0:2}" --batch-hits 100 --output "$work/foreign" --listen "$listen" \
            "$@" >"$work/f.log" 2>&1 &
    local broker=$! first
    until_true 60 test -e "$work/foreign$beside/endpoint.json" || return 1
    "$bin/wiremill" work --broker "$listen" --threads 1 --cache "$work/cache" >"$work/f.work" 2>&1 &
    first=$!
    "$bin/wiremill" produce --broker "$listen" --input "$made/precise.h5" >"$work/f.produce" 2>&1 || return 1
    timeout 60 "$bin/wiremill" work --broker "$listen" --threads 1 --cache "$work/cache" --engine reference \
            --idle-timeout 1 >"$work/said" 2>&1
    local code=$?
    kill $first $broker
    wait $first $broker
    return $code
}
ok "a worker that would bring another arithmetic leaves" exits 1 foreign
ok "... and names the option that admits it" says 'sparse/fma/fp32/v1 .*reference/double/v1.*--mixed'
ok "with --mixed it is admitted" exits 0 foreign --mixed

# ---- the watch ---------------------------------------------------------------------------------------------
# The sample is taken from patches that are nearly empty; the events that follow are not.
watched ()
{
    $python tests/e2e/make.py faint "$work/a-faint.npy" 2100 1e-3 && drop "$work/watched" &&
        WM_WATCH_SHARE=1 keep "$bin/wiremill" run --model "$made/model-1.wmm" --input "$work/a-faint.npy" \
            --input "$made/precise.h5" --quiet --batch-hits 100 \
            "${by[@]}" --precision fast --max-error 2e-5 --output "$work/watched" &&
            says 'batches had hits beyond the allowed error: strict fp32 scored them'
}
ok "hits that are further off than the sample's are found" watched
again ()
{
    $python tests/e2e/make.py near "$work/watched/precise.scores.h5" "$work/here/precise.scores.h5" 2e-5
}
ok "... and their batches scored again: all rows keep the promise" again
ok "... under strict fp32's signature" look "$work/watched/precise.scores.h5" sparse/fma/fp32/v1 2e-05
done_testing
