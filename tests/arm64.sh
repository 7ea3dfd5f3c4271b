#!/bin/bash
# arm64.sh - wiremill for AArch64 on an x86-64 machine: Debian's arm64 libraries in a folder, and tests run by qemu.
#
# usage: tests/arm64.sh root FOLDER PACKAGE...   unpacks packages and all that they need; needs no root (make deps-arm64)
#        WM_BUILD=NATIVE tests/arm64.sh test FOLDER BUILD   (make test-arm64)
cd "$(dirname "$0")/.." || exit 1
what=$1 root=$2
shift 2

root () # package...
{
    local apt=$root.apt link
    mkdir -p "$apt"/{state/lists,cache/archives}/partial && : >"$apt/status" && rm -rf "$root" || return 1
    local options=(-qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User= -o Debug::NoLocking=true
        -o APT::Install-Recommends=false -o "Dir::State=$PWD/$apt/state" -o "Dir::State::status=$PWD/$apt/status"
        -o "Dir::Cache=$PWD/$apt/cache")
    apt-get "${options[@]}" update && apt-get "${options[@]}" -y --download-only install "$@" >/dev/null || return 1
    for link in "$apt"/cache/archives/*.deb; do dpkg -x "$link" "$root" || return 1; done
    # Links of a whole file system lead into this one.
    find "$root" -type l -lname '/*' | while read -r link; do
        ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$root$(readlink "$link")")" "$link"
    done
    ln -sfn hdf5-serial.pc "$root/usr/lib/aarch64-linux-gnu/pkgconfig/hdf5.pc" && rm -rf "$apt" && touch "$root/.made"
}
[ "$what" = test ] || { root "$@"; exit; }

# Left out: tests that need a general engine, a driver, or of the kernel what qemu has not (seccomp, memory as it is counted).
build=$1 apart=$root
left_out='broker_(listener|memory)|kernels_(any|cud|device|draw|driver|general|gpu|graphdef|guard|judge|madds|nan|operators|passed|watched)|schema_file'
. tests/helper.sh
export QEMU_LD_PREFIX=$PWD/$apart
for test in "$build"/tests/test_{schema,broker,kernels}_*; do
    [[ $test =~ test_($left_out) ]] || [ -d "$test" ] || ok "${test##*/}" timeout 1200 qemu-aarch64-static "$test"
done

# A worker of each machine: the output is that of one.
make_model "${small}1" && make_events arm64 --events 12 --seed 5 --hits 4000 --tpcs 1 || bail "no model or events"
campaign=(--model "$made/model-${small}1.wmm" --batch-hits 16)
ok "a campaign of this machine" "$bin/wiremill" run "${campaign[@]}" --quiet --workers 1 --input "$made/arm64.h5" --output "$work/one"
"$bin/wiremill" broker "${campaign[@]}" --output "$work/two" --listen "ipc://$work/b" >"$work/broker" 2>&1 &
"$bin/wiremill-worker" --broker "ipc://$work/b" --threads 1 >"$work/here" 2>&1 &
proot -q "qemu-aarch64-static -L $QEMU_LD_PREFIX" "$build/bin/wiremill-worker" --broker "ipc://$work/b" --threads 1 >"$work/there" 2>&1 &
both () { "$bin/wiremill" status --campaign "$work/two.wiremill" --json | grep -q '"idle": *2'; }
ok "a worker of this machine and one of AArch64" until_true 120 both
ok "a campaign of both" "$bin/wiremill" produce --quiet --broker "ipc://$work/b" --input "$made/arm64.h5"
ok "the same scores, bit for bit" same_scores arm64 "$work/two" "$work/one"
both_scored () { "$bin/wiremill" status --campaign "$work/two.wiremill" --json | grep -c '^      "batches": *[1-9]' | grep -qx 2; }
ok "... of which each has computed some" both_scored
done_testing
