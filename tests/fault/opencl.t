#!/bin/bash
# opencl.t - the OpenCL engine on pocl: campaigns with the bytes of the CPU's, drivers that lack something, lie, or fail.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
shim=$PWD/${WM_BUILD:-build/release}/tests/fault/opencl_shim.so
[ -e /etc/OpenCL/vendors/pocl.icd ] && [ -e /usr/include/CL/cl_icd.h ] ||
    { echo "1..0 # SKIP no pocl, or no headers of OpenCL (make deps-opencl)"; exit 0; }
export POCL_CACHE_DIR=$work/pocl
mkdir "$POCL_CACHE_DIR" "$work/shim" "$work/none"
cp /etc/OpenCL/vendors/pocl.icd "$work/shim/" && echo "$shim" >"$work/shim/pocl.icd"
make_model "${small}1" && make_events opencl --events 2 --seed 7 --hits "$(size 200 2000 2000)" --tpcs 1 || bail "no model or events"
model=$made/model-${small}1.wmm
run () # folder, options...
{
    local out=$work/$1
    shift
    keep "$bin/wiremill" run --quiet --model "$model" --workers 1 --batch-hits 60 --input "$made/opencl.h5" --output "$out" "$@"
}
logs () { cat "$work/$1"$beside/log/worker-*.log >"$work/said" && says "$2"; }

# The bits.
ok "a campaign on the CPU" run cpu --engine sparse
ok "the same on pocl" run pocl --engine opencl
ok "its log names the device" logs pocl 'opencl: .* \(Portable Computing Language .*\)'
ok "... which has the CPU's bits, and its signature" says 'opencl: the device has the bits of the CPU'
ok "the same bytes" same_scores opencl "$work/cpu" "$work/pocl"
own_view ()
{
    printf 'view: own\npatch: [16, 16]\n' >"$work/own.yaml"
    run own-cpu --spec "$work/own.yaml" --engine sparse && run own --spec "$work/own.yaml" --device opencl:0 &&
        same_scores opencl "$work/own-cpu" "$work/own"
}
[ -z "$small" ] || ok "... and in own view, by --device" own_view
ok "... and with 1 GB of memory" env POCL_MEMORY_LIMIT=1 "$bin/wiremill" run --quiet --model "$model" --workers 1 \
    --engine opencl --input "$made/opencl.h5" --output "$work/capped"
ok "the same bytes" same_scores opencl "$work/cpu" "$work/capped"

# What is rounded: measured on the campaign's hits, and refused where it is too far off.
fast () { run "$1" --engine opencl --precision fast "${@:2}"; }
ok "fast, in half" fast half
ok "... as its log has it" logs half "opencl: .*the first dense layers are in half"
ok "... under a signature of its own" says 'engine opencl/[-A-Za-z0-9]+/fp16/v1, '
ok "... measured" says "precision fast: largest error [0-9.e-]+ on [0-9]+ of the campaign's hits"
ok "... and verified" "$bin/wiremill" verify "$work/half"
exact () { fast strict --max-error 1e-9 && logs strict 'engine sparse/fma/fp32/v1, ' && says 'not precise enough: ' &&
    run cpu-strict --engine sparse --precision fast --max-error 1e-9 && same_scores opencl "$work/cpu-strict" "$work/strict"; }
ok "half is refused where it is too far off: the bits of the CPU" exact

# The environment: every name that the loader and pocl have, or ask for, is one that the table of schema/base/wm_environment.c
# removes, or chooses devices and places.
POCL_EXTRA_BUILD_FLAGS=-cl-none ok "options of the environment reach no driver" run options --engine opencl
chooses='POCL_(DEVICES|CACHE_DIR|KERNEL_CACHE|MEMORY_LIMIT|AFFINITY|MAX_PTHREAD_COUNT)|OCL_ICD_[A-Z_]+|OPENCL_VENDOR_PATH'
uncovered () { "$proof/environment" | grep -E '^(POCL|OCL|OPENCL|CL)_' | grep -vxE "$chooses" >"$work/uncovered"; cat "$work/uncovered"; [ ! -s "$work/uncovered" ]; }
in_files ()
{
    local library
    for library in $(ldconfig -p | sed -n 's/.* \([^ ]*lib\(pocl\|OpenCL\)[.]so[.][0-9]*\)$/\1/p'); do strings -a "$library"; done |
        grep -xE '(POCL|OCL|OPENCL)_[A-Z0-9_]+' | sort -u >"$work/names"
    [ "$(wc -l <"$work/names")" -gt 20 ] && uncovered <"$work/names"
}
if has strings; then ok "each variable in the libraries is known" in_files; else skip "no strings (binutils)"; fi
reads ()
{
    : >"$work/read"
    WM_CONFINE=0 LD_PRELOAD=$proof/environment_shim.so WM_SHIM_READ=$work/read run watched --engine opencl &&
        cut -d' ' -f2 "$work/read" | sort -u >"$work/names" &&
        grep -qx POCL_DEVICES "$work/names" && grep -qx OCL_ICD_VENDORS "$work/names" && uncovered <"$work/names"
}
[ -n "$SAN" ] || ok "... and each that they ask for" reads

# Beside a worker on the CPU. Both are there before anything is handed out; two batches at a time are in a worker's hands.
sessions () { [ "$(cat "$work"/by-*.log | grep -c 'session with')" = 2 ]; }
beside_cpu ()
{
    local engine pids=() listen=ipc://$work/b
    "$bin/wiremill" broker --model "$model" --batch-hits 20 --output "$work/mixed" --listen "$listen" >"$work/broker" 2>&1 &
    pids+=($!)
    until_true 60 test -e "$work/mixed$beside/endpoint.json" && "$bin/wiremill" pause "$work/mixed" || return 1
    for engine in sparse opencl; do
        "$bin/wiremill" work --broker "$listen" --threads 1 --cache "$work/cache" --engine $engine >"$work/by-$engine.log" 2>&1 &
        pids+=($!)
    done
    "$bin/wiremill" produce --broker "$listen" --input "$made/opencl.h5" >"$work/produce" 2>&1 &
    local producer=$!
    until_true 120 sessions && "$bin/wiremill" resume "$work/mixed" && wait $producer
    local code=$?
    kill "${pids[@]:1}"
    wait "${pids[@]:1}"
    kill "${pids[0]}"
    wait "${pids[0]}"
    cat "$work"/by-*.log
    return $code
}
ok "a campaign of two workers, one on the CPU, one on pocl" beside_cpu
ok "both scored" test "$(cat "$work"/by-*.log | grep -cE 'leaves .*: [1-9][0-9]* batches')" = 2
ok "the same bytes" same_scores opencl "$work/cpu" "$work/mixed"

# An engine that is killed, and a device that is lost: with the file, calls fail.
passed () { grep -q 'self-test is passed' "$work/$1$beside"/log/worker-*; }
engine_of () { child "$(child "$1" wiremill-worker)" wiremill-worker; }
killed ()
{
    run killed --engine opencl &
    local run=$!
    until_true 120 passed killed && kill -9 "$(engine_of "$(child $run wiremill)")"
    wait $run
}
ok "an engine that is killed" killed
ok "the same bytes" same_scores opencl "$work/cpu" "$work/killed"
export WM_OPENCL_FAIL=$work/fail
shimmed () { OCL_ICD_VENDORS=$work/shim/ keep "$@"; }
lost () # call, code: a device that fails once all has been tried, until a process begins that has another try
{
    OCL_ICD_VENDORS=$work/shim/ run lost --engine opencl &
    local run=$!
    until_true 120 passed lost && echo "$1 $2" >"$work/fail.new" && mv "$work/fail.new" "$work/fail" &&
        until_true 120 grep -q 'the OpenCL device .* failed in' "$work"/lost$beside/log/worker-*
    rm -f "$work/fail"
    wait $run && logs lost "the OpenCL device .* failed in $1: .*\\($2\\)"
}
ok "a device that is lost" lost clEnqueueReadBuffer -5
ok "the same bytes" same_scores opencl "$work/cpu" "$work/lost"

# What does not begin: exit code 6, one line. A worker alone reports it as `run` does.
cannot () # pattern, options...
{
    local pattern=$1
    shift
    drop "$work/no"
    exits 6 run no --engine opencl "$@" && says "the engine opencl cannot run here: $pattern"
}
ok "no such device" cannot 'there is no OpenCL device 7: wiremill doctor lists 1, from 0 on' --device opencl:7
OCL_ICD_VENDORS=$work/none/ ok "no platform" cannot 'OpenCL has no platform here: install a driver'
POCL_DEVICES=none ok "no device" cannot "OpenCL's 1 platform has no device here|OpenCL has no platform here"
mkdir "$work/lib" && echo 'int none;' | cc -shared -x c - -o "$work/lib/libOpenCL.so.1" || bail "cc"
LD_LIBRARY_PATH=$work/lib ok "a library that is none" cannot 'libOpenCL.so.1 is no OpenCL 1.2: it has no clGetPlatformIDs'
: >"$work/lib/libOpenCL.so.1"
LD_LIBRARY_PATH=$work/lib ok "no library" cannot 'there is no OpenCL here \(.*\): install a driver'
export OCL_ICD_VENDORS=$work/shim/
for lacks in 'nofma|a fused multiply-add in float32' 'nodenormals|denormal numbers in float32'; do
    WM_OPENCL_SAYS=${lacks%|*} ok "a device without ${lacks#*|}" cannot "the OpenCL device 0, .*, lacks ${lacks#*|}: strict fp32 needs it"
done
WM_OPENCL_SAYS=nodouble ok "a device without float64: the host computes the last layers" run single --engine opencl
ok "... as its log has it" logs single 'opencl: .*; the host computes the last layers'
ok "the same bytes" same_scores opencl "$work/cpu" "$work/single"
tanh () # in place of the convolution's activation
{
    build/venv/bin/python - "$model" "$work/tanh.onnx" <<<'
import sys, onnx
model = onnx.load (sys.argv[1].replace (".wmm", ".onnx"))
next (n for n in model.graph.node if n.op_type == "Relu").op_type = "Tanh"
onnx.save (model, sys.argv[2])' && cannot 'the OpenCL device .* lacks float64, which the activation of convolution 0 needs' --model "$work/tanh.onnx"
}
if [ -x build/venv/bin/python ]; then WM_OPENCL_SAYS=nodouble ok "... but not all activations" tanh; else skip "no build/venv"; fi
WM_OPENCL_SAYS=small ok "a device with little memory" cannot 'the OpenCL device .* has (too little memory|no memory for)'
POCL_DEVICES="basic pthread" WM_OPENCL_SAYS=gpu,nofma,first ok "a GPU that lacks nothing is taken, though the first one does" run second --engine opencl
WM_OPENCL_SAYS=late ok "a device whose memory ends at the first use of a buffer: smaller regions" run late --engine opencl
ok "the same bytes" same_scores opencl "$work/cpu" "$work/late"
fails () { echo "$1" >"$work/fail"; local code; cannot "$2"; code=$?; rm "$work/fail"; return $code; } # call and code, pattern
ok "a driver that does not build the program" fails 'clBuildProgram -11' 'the driver of .* does not build our program: .*BUILD_PROGRAM_FAILURE'
ok "a device without memory" fails 'clCreateBuffer -4' 'the OpenCL device .* has no memory for convolution 0'
ok "a device that fails at once" fails 'clEnqueueNDRangeKernel -5' 'the OpenCL device .* failed in clEnqueueNDRangeKernel: CL_OUT_OF_RESOURCES'
ok "a device with another bit" fails 'wrong 1' 'the device of the engine opencl computes .* where the CPU computes .*, and is not used'

# auto takes a GPU, never a CPU, and doctor lists what there is.
mkdir -p "$work/dev/dri" && touch "$work/dev/dri/renderD128"
export WM_DEV=$work/dev
says_gpu () { OCL_ICD_VENDORS=$work/shim/ WM_OPENCL_SAYS=$1 run "${@:2}"; }
ok "auto takes a GPU of OpenCL" says_gpu gpu auto
ok "... in one line" logs auto 'takes the GPU by OpenCL: sparse/fma/fp32/v1 passed its self-test \(--device cpu declines it\)'
ok "the same bytes" same_scores opencl "$work/cpu" "$work/auto"
ok "auto takes no CPU" says_gpu '' never
silent () { exits 1 grep -rq -e 'GPU' -e opencl "$work/never$beside/log"; }
ok "... and has nothing to tell of it" silent
ok "auto takes no GPU that lacks something" says_gpu gpu,nofma lacking
ok "... and names it" logs lacking "does not take the GPU, the CPU scores: OpenCL's .* lacks a fused multiply-add in float32"
crash='it died by signal [0-9]+ .Illegal instruction.'
ok "auto takes no GPU whose driver crashes" says_gpu gpu,crash crash
ok "... and names it" logs crash "does not take the GPU by OpenCL, the CPU scores: $crash"
ok "the same bytes" same_scores opencl "$work/cpu" "$work/crash"
# A driver of CUDA that crashes is not in the way.
mkdir "$work/driver" && fake_driver "$work/driver" && echo '__attribute__ ((constructor)) static void die (void) { __builtin_trap (); }' |
    cc -shared -fPIC -x c - -o "$work/dies.so" || bail "cc"
second_gpu () { WM_CUDA_SO=$work/dies.so WM_FAKE_DRIVER=12040,1,0 LD_LIBRARY_PATH=$work/driver says_gpu "$@"; }
ok "auto takes a GPU of OpenCL where CUDA crashes" second_gpu gpu behind
ok "... in two lines" logs behind "does not take the GPU by CUDA: $crash"
ok "... of which this is the second" says 'takes the GPU by OpenCL: sparse/fma/fp32/v1'
ok "the CPU scores where both crash" second_gpu gpu,crash neither
ok "... and both are named" logs neither "does not take the GPU by CUDA: $crash"
ok "... OpenCL, too" says "does not take the GPU by OpenCL, the CPU scores: $crash"
ok "the same bytes" same_scores opencl "$work/cpu" "$work/neither"
nothing () { drop "$work/never"; WM_DEV=$work/none says_gpu gpu never && silent; }
ok "auto looks for none where the kernel shows none" nothing
doctor () { keep "$bin/wiremill" doctor "$work"; says "$1"; } # patterns of a line
ok "doctor: a CPU" doctor '^ok +opencl +0: .*, a CPU, .* GiB \(Portable Computing Language .*\); --engine opencl takes it, auto does not$'
WM_OPENCL_SAYS=gpu ok "doctor: a GPU" doctor '^ok +opencl +0: .*, a GPU, .*; --engine opencl and auto try it$'
WM_OPENCL_SAYS=nofma ok "doctor: a device that lacks something" doctor '; --engine opencl does not take it: it lacks a fused multiply-add in float32$'
doctor_lives () { doctor "^warn +opencl +a driver ended the process that asked it by signal $1: find out which, by moving its .icd file" && says '^ok +cpu '; }
WM_OPENCL_SAYS=crash ok "doctor: a driver that crashes" doctor_lives '4 .Illegal instruction.'
WM_FAILPOINT=wm-driver:1 ok "doctor: the process that asks is killed" doctor_lives '9 .Killed.'
ok "... which asked NVIDIA's driver, too" says '^warn +gpu +a driver ended the process that asked it by signal 9 .Killed.: install'
OCL_ICD_VENDORS=$work/none/ ok "doctor: none" doctor '^ok +opencl +none: OpenCL has no platform here'

# What does not go together, and a misspelled device.
usage () { exits 2 keep "$bin/wiremill" work --broker ipc://x "$@"; }
for wrong in '--engine sparse --device opencl' '--engine cuda --device opencl:1' '--engine opencl --device cuda' '--engine opencl --device cpu'; do
    # shellcheck disable=SC2086 # it is split
    ok "$wrong" usage $wrong && says 'do not go together: it computes on'
done
ok "opencl:x" usage --device opencl:x && says 'a GPU is opencl:N, N a number'
done_testing
