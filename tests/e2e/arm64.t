#!/bin/bash
# arm64.t - AArch64 by an emulator (make arm64): unit tests, doctor, and a campaign of a worker of each machine, which are killed by
# turns; its output is that of one machine. In `make proof` also the bundle on a whole machine of 2 GB (tests/arm64_machine.sh), with
# what only its kernel has, and scores that ONNX Runtime judges. `make test-arm64` (WM_ARM64=all) tries all unit tests, others a few.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
there=$PWD/build/arm64 root=$PWD/build/arm64-root python=build/venv/bin/python
[ -e "$root/.made" ] && [ -x "$there/bin/wiremill-worker" ] && has qemu-aarch64-static proot ||
    { echo "1..0 # SKIP AArch64 is not set up here (make test-arm64 does)"; exit 0; }
export QEMU_LD_PREFIX=$root CC="aarch64-linux-gnu-gcc --sysroot=$root" # some tests compile a driver

# What qemu's emulation of a process lacks (tests/README.md), and what a whole machine has: its kernel's memory and seccomp.
left_out='broker_(listener|memory)|kernels_(any|cuda|cuda_any|cuda_event|cuda_module|cuda_windows|device|general|graphdef|guard|judge|madds|nan|passed|watched)$|schema_file'
by_machine=(broker_listener broker_memory schema_file_opener)
some='broker_core|kernels_(strict|image)|schema_batch' # those of `arm64-some` (tests.mk)
for test in "$there"/tests/test_*; do
    [ -x "$test" ] && [ ! -d "$test" ] && [[ ! $test =~ test_($left_out) ]] || continue
    [ "$WM_ARM64" = all ] || [[ $test =~ test_($some)$ ]] || continue
    only=('')
    # CUDA's take minutes by qemu.
    [ "$WM_ARM64" = all ] || [[ $test != *_strict ]] || only=(engines_keep_the_contract $(size '' 'the_contract_has_its_bits activations_keep_the_contract'))
    for name in "${only[@]}"; do ok "${test##*/} $name" env ${name:+WM_ONLY=$name} qemu-aarch64-static "$test"; done
done
# ONNX Runtime's library crashes as qemu alone loads it.
fit () { keep env WM_ONNXRUNTIME_SO=none qemu-aarch64-static "$there/bin/wiremill" doctor "$work"; says '^ok +cpu +[0-9]+ cores, AArch64, NEON' && says '^ok +fp32 +neon/fp32'; }
ok "doctor" fit

# A worker of each machine: each dies at its fourth result; then both begin at once, and the engine of each dies at its first batch.
make_model "${small}1" && make_events arm64 --events "$(size 4 12 24)" --seed 5 --hits "$(size 1000 2000 4000)" --tpcs 1 || bail "no model or events"
campaign=(--model "$made/model-${small}1.wmm" --batch-hits 16)
work_here () { exec "$bin/wiremill-worker" --broker "ipc://$work/b" --threads 1 --cache "$work/cache"; }
work_there () { exec proot -q "qemu-aarch64-static -L $root" "$there/bin/wiremill-worker" --broker "ipc://$work/b" --threads 1 --cache "$work/there"; }
die () # place
{
    WM_FAILPOINT=worker-result-sent:4:$work/$1.died "work_$1" >>"$work/by-$1.log" 2>&1 &
    until_true 120 test -e "$work/$1.died" && wait_end $!
}
wait_end () { wait "$1"; true; }
sessions () { [ "$(cat "$work"/second-*.log | grep -c 'session with')" = 2 ]; }
mixed ()
{
    local place pids=() code=1
    "$bin/wiremill" broker "${campaign[@]}" --output "$work/two" --listen "ipc://$work/b" >"$work/broker" 2>&1 &
    pids+=($!)
    until_true 60 test -e "$work/two$beside/endpoint.json" || return 1
    "$bin/wiremill" produce --quiet --broker "ipc://$work/b" --input "$made/arm64.h5" >"$work/produce" 2>&1 &
    local producer=$!
    die there && die here && "$bin/wiremill" pause "$work/two" || return 1
    for place in there here; do
        WM_FAILPOINT=engine-scored:1:$work/$place.engine "work_$place" >"$work/second-$place.log" 2>&1 &
        pids+=($!)
    done
    until_true 120 sessions && "$bin/wiremill" resume "$work/two" && wait $producer
    code=$?
    cat "$work"/{broker,produce,by-*.log,second-*.log}
    kill "${pids[2]}" $(cat "/proc/${pids[1]}/task/${pids[1]}/children") # proot passes no signal on
    wait "${pids[@]:1}"
    kill "${pids[0]}" && wait "${pids[0]}"
    cat "$work"/second-*.log
    [ $code = 0 ] && [ -e "$work/here.engine" ] && [ -e "$work/there.engine" ]
}
ok "a campaign of this machine" "$bin/wiremill" run "${campaign[@]}" --quiet --workers 1 --engine sparse --input "$made/arm64.h5" --output "$work/one"
ok "a campaign of both, whose workers and engines are killed" mixed
ok "both scored on" test "$(cat "$work"/second-*.log | grep -cE 'leaves .*: [1-9][0-9]* batches')" = 2
ok "the same scores, bit for bit" same_scores arm64 "$work/two" "$work/one"

# The bundle as an image (ops/bundle/Containerfile), whose user is not root, on a machine of 2 GB with a kernel of its own.
machine=$work/machine bundle=$there/bundle/wiremill
if [ "$(size test proof soak)" = test ] || [ ! -x "$bundle/bin/wiremill" ]; then
    skip "a whole machine: in make proof and make test-arm64"
    done_testing
fi
make_model small-1 && make_events tiny --events 1 --hits 200 --tpcs 1 || bail "no model or events"
mkdir -p "$machine"/{opt,data,tests,etc,lib}
cp -r "$bundle" "$machine/opt" && cp "$made/model-small-1.onnx" "$machine/data/m.onnx" && cp "$made/tiny.h5" "$machine/data" &&
    printf 'patch: [16, 16]\nlabels: [track, em, none, michel]\n' >"$machine/data/spec.yaml" &&
    cp "$there/tests/fault/confine_shim.so" "$machine/tests" && chmod -R a+rwX "$machine/data" || bail "no root"
echo 'user:x:1000:1000::/data:/bin/sh' >"$machine/etc/passwd"
ln -s /opt/wiremill/lib/ld-linux-aarch64.so.1 "$machine/lib"
cp "$root"/usr/lib/aarch64-linux-gnu/libcmocka.so.0 "${by_machine[@]/#/$there/tests/test_}" "$machine/tests" || bail "no tests"
cat >"$machine/job" <<'END'
export PATH=/opt/wiremill/bin:$PATH XDG_RUNTIME_DIR=/data XDG_CACHE_HOME=/data/.cache WM_SHIM_MARK=/data/mark
as () { su user -s /bin/sh -c "cd /data && $1"; } # command
scores () { as "wiremill run --quiet --model m.onnx --spec spec.yaml --input tiny.h5 --output $1 $2" >/dev/null; } # folder, options
wiremill doctor /data
cd /sys/fs/cgroup && echo '+memory +cpu' >cgroup.subtree_control && mkdir job && echo 700M >job/memory.max && echo '100000 100000' >job/cpu.max
sh -c 'echo $$ >job/cgroup.procs && exec wiremill doctor /data' | sed -n 's/.*allocation/allocation in a cgroup:/p'
cd /
for test in tests/test_[a-z]*; do
    LD_LIBRARY_PATH=/opt/wiremill/lib:/tests $test >/data/said 2>&1 && echo "passed: $test" || { cat /data/said; echo "failed: $test"; }
done
scores out && for engine in onnxruntime openvino; do
    scores $engine "--engine $engine" && wiremill compare /data/out/tiny.scores.h5 /data/$engine/tiny.scores.h5 | sed -n "s/^the same/$engine: &/p"
done
for confine in 0 1; do
    rm -rf /data/shim*
    LD_PRELOAD=/tests/confine_shim.so WM_SHIM_DO=socket WM_CONFINE=$confine wiremill run --quiet --model /data/m.onnx --input /data/tiny.h5 \
        --output /data/shim >/data/said 2>&1
    grep -hE 'shim: socket|refused the system call' /data/said /data/shim.wiremill/log/producer* | sort -u | sed "s/^/confined $confine: /"
done
cd /data && tar -c out out.wiremill | gzip | base64
END
boot () { keep tests/arm64_machine.sh "$machine" 2048 "$(size 600 3600 3600)"; }
ok "a machine of 2 GB" boot
cp "$work/said" "$work/whole" && grep -v '^[A-Za-z0-9+/=]\{60,\}$' "$work/whole" >"$work/booted"
booted () { cp "$work/booted" "$work/said" && says "$1"; }
ok "... doctor: its CPU" booted '^ok +cpu +2 cores, AArch64, NEON BF16 I8MM'
ok "... doctor: seccomp and Landlock" booted '^ok +confinement +seccomp, Landlock'
ok "... its allowance, from a cgroup" booted '^allocation in a cgroup: +1 of 2 CPUs .*, 700 MiB'
for test in "${by_machine[@]}"; do ok "... $test" booted "^passed: tests/test_$test"; done
back () { grep '^[A-Za-z0-9+/=]*$' "$work/whole" | sed -n '/^H4sI/,$p' | base64 -d | tar -xz -C "$work"; }
ok "... its output" back
"$bin/wiremill" run --quiet --model "$made/model-small-1.onnx" --spec "$machine/data/spec.yaml" --input "$made/tiny.h5" \
    --output "$work/x86" >&2
ok "... is that of x86-64, bit for bit" same_scores tiny "$work/out" "$work/x86"
printf '#!/bin/bash\nexec proot -q "qemu-aarch64-static -L %s" %s "$@"\n' "$root" "$there/bin/wiremill" >"$work/wiremill" && chmod +x "$work/wiremill"
golden ()
{
    $python tests/golden/golden.py oracle "$work/wiremill" "$made/model-small-1.onnx" "$made/tiny.h5" "$work/out/tiny.scores.h5" \
        "$machine/data/spec.yaml" "$work" 2e-6
}
[ ! -x $python ] || ok "... is that of ONNX Runtime here, on patches that were cut there" golden
for engine in onnxruntime openvino; do ok "... $engine has the same scores" booted "^$engine: the same within"; done
unconfined () { booted '^confined 0: .*shim: socket: done' && booted '^confined 1: .*Operation not permitted' && booted '^confined 1: .*refused'; }
ok "... a reader that a file has taken over opens no socket" unconfined
done_testing
