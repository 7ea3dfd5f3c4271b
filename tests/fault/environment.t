#!/bin/bash
# environment.t - variables of the libraries below wiremill: however hostile, the scores have the bits and the signature of a
# clean environment, in campaigns, imports, verify, and in the processes of others that call libwiremill. And no library reads
# a variable that the table of schema/base/wm_environment.c does not have.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
build=${WM_BUILD:-build/release} lib=$PWD/$build/lib python=$PWD/build/venv/bin/python
[ -e "$lib/wm_openvino.so" ] || { skip "no OpenVINO here"; done_testing; }
make_model small-1 || bail "no model"
cc -O1 -Iops/lib tests/lib/calls.c -L"$lib" -lwiremill -Wl,-rpath,"$lib" -pthread -lm -o "$work/calls" || bail "cc"
family=$made/model-small-1.onnx
export WM_OPENVINO_SO=$lib/wm_openvino.so

# Variables that these libraries document or read. Without the table OV_CPU_MAX_ISA and ONEDNN_MAX_CPU_ISA change bits on any
# CPU with AVX-512, OV_ENABLE_*_TRACING write files, and HWLOC_SYNTHETIC ends the process.
hostile=(ONEDNN_DEFAULT_FPMATH_MODE=BF16 DNNL_DEFAULT_FPMATH_MODE=ANY ONEDNN_MAX_CPU_ISA=AVX2 DNNL_MAX_CPU_ISA=SSE41
    ONEDNN_CPU_ISA_HINTS=PREFER_YMM ONEDNN_JIT_DUMP=1 ONEDNN_VERBOSE=2 ONEDNN_PRIMITIVE_CACHE_CAPACITY=0
    OV_CPU_MAX_ISA=SSE42 OV_ENABLE_PROFILE_PASS=1 OV_ENABLE_SERIALIZE_TRACING=1 OV_ENABLE_VISUALIZE_TRACING=1
    OV_TURBOQ_NORM_CORRECTION=1 OPENVINO_LOG_LEVEL=5 ONNX_ITERATOR=0 TBB_VERSION=1 TBB_NUM_THREADS=1
    TBB_MALLOC_USE_HUGE_PAGES=1 HWLOC_XMLFILE=/proc/nowhere HWLOC_SYNTHETIC=pu:1 INTEL_LIBITTNOTIFY64="$work/nowhere.so"
    ORT_DISABLE_TELEMETRY=0 MLAS_NCHWC_FSS_TARGET=1 ALLOW_RELEASED_ONNX_OPSET_ONLY=0 ORT_DISABLE_CPU_EP_FALLBACK=1
    OMP_NUM_THREADS=2 OMP_WAIT_POLICY=active OMP_DYNAMIC=true GOMP_CPU_AFFINITY=0
    KMP_AFFINITY=compact KMP_NUM_THREADS=1 MKL_CBWR=COMPATIBLE MKL_ENABLE_INSTRUCTIONS=SSE4_2 MKL_DYNAMIC=FALSE
    NVIDIA_TF32_OVERRIDE=1 CUBLAS_WORKSPACE_CONFIG=:0:0 CUDNN_LOGINFO_DBG=1 CUDA_FORCE_PTX_JIT=1
    GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F:glibc.malloc.perturb=85 MALLOC_PERTURB_=85 MALLOC_ARENA_MAX=1
    HDF5_DRIVER=core HDF5_VOL_CONNECTOR=nowhere HDF5_DEBUG=all HDF5_DISABLE_VERSION_CHECK=0 HDF5_NOCLEANUP=1
    ZSYS_MAX_MSGSZ=10 ZSYS_LINGER=0 ZSYS_IO_THREADS=99 LC_ALL=de_DE.UTF-8 LC_NUMERIC=de_DE.UTF-8 LANG=tr_TR.UTF-8
    TZ=Asia/Kathmandu COLUMNS=20 POSIXLY_CORRECT=1 TMPDIR="$work/nowhere" PYTHONOPTIMIZE=2)
free=${hostile[*]} # for libwiremill, which names a TMPDIR that is not there (e2e/lib.t)
read -ra hosted <<<"${free//"TMPDIR=$work/nowhere"/}"

"$work/calls" patches "$family" 40 >"$work/patches.f4" || bail "no patches"
npy () # float32 of 16 x 16 as .npy
{
    local head="{'descr': '<f4', 'fortran_order': False, 'shape': (40, 16, 16, 1), }"
    printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$head" && cat "$1"
}
npy "$work/patches.f4" >"$work/x.npy"

# A campaign, its verification, its scores: bits and signature.
campaign () # name, variables...
{
    local name=$1 kind
    shift
    (cd "$work" && for kind in family general; do
        env "$@" "$bin/wiremill" import $([ $kind = family ] || echo --general) "$family" -o "$work/$name-$kind.wmm" &&
            env "$@" "$bin/wiremill" run --quiet -w 1 --model "$work/$name-$kind.wmm" --input "$work/x.npy" --output "$work/$name-$kind" &&
            scores "$work/$name-$kind/x.scores.h5" "$work/$name-$kind$beside" >"$work/$name-$kind.scores" || return 1
    done &&
        env "$@" "$bin/wiremill" verify "$work/$name-general" --sample 40 --seed 1 --json >"$work/$name.verified")
}
bits () # of the library in C: name, variables...
{
    local name=$1
    shift
    (cd "$work" && env "$@" ./calls score clean-general.wmm <patches.f4 >"$name.f4" &&
        env "$@" ./calls score "$family" <patches.f4 >>"$name.f4" &&
        { [ ! -e "$lib/wm_onnxruntime.so" ] ||
            ENGINE=onnxruntime env "$@" ./calls score clean-general.wmm <patches.f4 >>"$name.f4"; } &&
        env "$@" ./calls facts clean-general.wmm | grep signature >>"$name.f4")
}
in_python () # name, variables...: set by the program itself, after it has started
{
    local name=$1
    shift
    env -u WM_OPENVINO_SO PYTHONPATH="$PWD/ops/python" WIREMILL_LIBRARY="$lib/libwiremill.so.1" "$python" -c '
import os, sys
import numpy
os.chdir (os.path.dirname (sys.argv[3]))
os.environ.update (v.split ("=", 1) for v in sys.argv[4:])
before = dict (os.environ)
import wiremill
model = wiremill.Model (sys.argv[1], engine="openvino")
scored = model.score (numpy.load (sys.argv[2]))
numpy.asarray (scored[0] if isinstance (scored, tuple) else scored).tofile (sys.argv[3])
assert dict (os.environ) == before and all (os.getenv (v) == before[v] for v in before)
open (sys.argv[3], "a").write (model.signature)' "$work/clean-general.wmm" "$work/x.npy" "$work/$name.python" "$@"
}
same () { cmp "$work/$1" "$work/$2"; }

ok "campaigns, an import, verify, in a clean environment" campaign clean -u ORT_DISABLE_TELEMETRY
ok "... in a hostile one" campaign hostile -u HOME "${hostile[@]}"
alike () { local f; for f in family.wmm general.wmm family.scores general.scores; do same "clean-$f" "hostile-$f" || return 1; done; }
ok "the same models, the same bits, the same signatures" alike
verified () { same clean.verified hostile.verified && grep -q '"differ": 0' "$work/hostile.verified"; }
ok "... and verify finds the same" verified
left () { [ -z "$(find "$work" -name '*dump*' -o -name '*.xml' -o -name '*.svg' -o -name 'core' -o -name Microsoft)" ]; }
ok "nothing of the libraries' tracing and telemetry was written" left

ok "libwiremill in C, clean" bits clean -u ORT_DISABLE_TELEMETRY
ok "... all at once" bits hostile "${hosted[@]}"
ok "... gives the same bits" same clean.f4 hostile.f4
each () # one variable alone: none hides what another does
{
    local variable
    for variable in "$@"; do
        bits one "$variable" && same clean.f4 one.f4 || { echo "by $variable"; return 1; }
    done
}
ok "... and leaves nothing" left
ok "... by one variable alone" each OV_CPU_MAX_ISA=SSE42 ONEDNN_MAX_CPU_ISA=AVX2 ONEDNN_DEFAULT_FPMATH_MODE=BF16
if [ "$(size test proof soak)" != test ]; then ok "... by each" each "${hosted[@]}"; fi
if [ -x "$python" ]; then
    ok "libwiremill in Python, clean" in_python clean
    ok "... a program that sets them for itself" in_python hostile "${hosted[@]}"
    ok "... keeps them, and gets the same bits" same clean.python hostile.python
else
    skip "no build/venv"
fi

# A process that has loaded OpenVINO itself, which may have read its variables then.
foreign ()
{
    # shellcheck disable=SC2016 # a pattern
    exits 1 keep env LD_PRELOAD="$lib/openvino/libopenvino_intel_cpu_plugin.so" ONEDNN_MAX_CPU_ISA=AVX2 \
        "$work/calls" facts "$work/clean-general.wmm" && says 'ONEDNN_MAX_CPU_ISA=AVX2 is set.*start it without ONEDNN_MAX_CPU_ISA'
}
ok "where another part of the process loaded OpenVINO before, the variable is named" foreign
cuda () { ENGINE=cuda exits 1 keep env NVIDIA_TF32_OVERRIDE=1 "$work/calls" facts "$family" && says 'NVIDIA_TF32_OVERRIDE=1 is set'; }
ok "and for CUDA in a process of others" cuda
opencl () { ENGINE=opencl exits 1 keep env POCL_EXTRA_BUILD_FLAGS=-cl-none "$work/calls" facts "$family" && says 'POCL_EXTRA_BUILD_FLAGS=-cl-none is set'; }
ok "... and for OpenCL" opencl

# What the libraries could read, and what they did. Those that stay by the table, and why, are in ops/manual/reference/environment.md.
stays='^(ORT_DISABLE_TELEMETRY|ALLOW_RELEASED_ONNX_OPSET_ONLY|OMP_NUM_THREADS|TBB_ENABLE_SANITIZERS|HWLOC_THISSYSTEM|HDF5_(USE_FILE_LOCKING|PLUGIN_PATH|PLUGIN_PRELOAD|EXTFILE_PREFIX|VDS_PREFIX))$'
# ONNX Runtime's telemetry also asks whether it runs in a test of a forge.
forge='^(APPVEYOR|BITBUCKET_BUILD_NUMBER|BUILDKITE|CI|CIRCLECI|CODEBUILD_BUILD_ID|GITHUB_ACTIONS|GITLAB_CI|JENKINS_URL|TEAMCITY_VERSION'
forge+='|SYSTEM_TEAMFOUNDATIONCOLLECTIONURI|TF_BUILD|TRAVIS)$'
families='ONEDNN|DNNL|OV|OPENVINO|ONNX|ORT|MLAS|ALLOW_RELEASED_ONNX|OMP|GOMP|KMP|MKL|TBB|HWLOC|HDF5|INTEL_LIBITT|INTEL_ITT|INTEL_JIT|CUDNN|CUBLAS'
uncovered () { "$proof/environment" | grep -Ev "$stays|$forge" >"$work/uncovered"; cat "$work/uncovered"; [ ! -s "$work/uncovered" ]; }
in_files ()
{
    local library libraries=("$lib"/openvino/*.so* "$lib"/onnxruntime/*.so*)
    for library in "${libraries[@]}"; do [ ! -e "$library" ] || strings -a "$library"; done |
        grep -E "^($families)_[A-Z0-9_]+$" | sort -u >"$work/names"
    [ "$(wc -l <"$work/names")" -gt 60 ] && uncovered <"$work/names"
}
if has strings; then ok "every name in the libraries is in the table" in_files; else skip "no strings (binutils)"; fi
reads ()
{
    : >"$work/read"
    WM_CONFINE=0 LD_PRELOAD="$proof/environment_shim.so" WM_SHIM_READ="$work/read" campaign watched WM_CLEAN=1 &&
        cut -d' ' -f2 "$work/read" | sort -u >"$work/names" &&
        grep -qx ONEDNN_DEFAULT_FPMATH_MODE "$work/names" && grep -qx HDF5_DEBUG "$work/names" && uncovered <"$work/names"
}
# The thread sanitizer's getenv is another's.
[ -n "$SAN" ] || ok "every name that they asked for is in the table" reads
again () # what the C library reads before main is gone from the process itself, which keeps its name
{
    GLIBC_TUNABLES=glibc.malloc.perturb=85 "$bin/wiremill-worker" --broker tcp://127.0.0.1:1 --give-up 60s 2>"$work/log" &
    local worker=$!
    # shellcheck disable=SC2317
    clean () { grep -q connects "$work/log" && ! grep -q GLIBC_TUNABLES "/proc/$worker/environ" && grep -qx wiremill-worker "/proc/$worker/comm"; }
    until_true 60 clean
    local code=$?
    kill -KILL "$worker" 2>/dev/null
    return $code
}
ok "a program that GLIBC_TUNABLES changes starts itself again without" again
notes () { env ONEDNN_MAX_CPU_ISA=AVX2 HDF5_DRIVER=core "$bin/wiremill" doctor "$work" | grep -E 'environment.*ONEDNN_MAX_CPU_ISA, HDF5_DRIVER'; }
ok "doctor names what has no effect" notes
done_testing
