#!/bin/bash
# arm64.t - AArch64 by an emulator (make arm64): unit tests, doctor, and a campaign of a worker of each machine, which are killed by
# turns; its output is that of one machine. `make test-arm64` (WM_ARM64=all) tries all unit tests, others a few.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
there=$PWD/build/arm64 root=$PWD/build/arm64-root
[ -e "$root/.made" ] && [ -x "$there/bin/wiremill-worker" ] && has qemu-aarch64-static proot ||
    { echo "1..0 # SKIP AArch64 is not set up here (make test-arm64 does)"; exit 0; }
export QEMU_LD_PREFIX=$root
by_qemu () { qemu-aarch64-static "$@"; }
arm () { proot -q "qemu-aarch64-static -L $root" "$there/bin/$1" "${@:2}"; } # with all that it starts

# Left out: what needs a general engine, a driver, or of the kernel what qemu has not (seccomp, memory as it is counted).
left_out='broker_(listener|memory)|kernels_(any|cud|device|draw|driver|general|gpu|graphdef|guard|judge|madds|nan|operators|passed|watched)|schema_file'
some='broker_core|kernels_(strict|image)|schema_batch' # those of `arm64-some` (tests.mk)
for test in "$there"/tests/test_*; do
    [ -x "$test" ] && [ ! -d "$test" ] && [[ ! $test =~ test_($left_out) ]] || continue
    [ "$WM_ARM64" = all ] || [[ $test =~ test_($some)$ ]] || continue
    only=
    [ "$WM_ARM64" = all ] || [[ $test != *_strict ]] || only=engines_keep_the_contract # others take minutes by qemu
    ok "${test##*/}" env ${only:+WM_ONLY=$only} qemu-aarch64-static "$test"
done
fit () { keep by_qemu "$there/bin/wiremill" doctor "$work"; says '^ok +cpu +[0-9]+ cores, AArch64, NEON' && says '^ok +fp32 +neon/fp32'; }
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
done_testing
