#!/bin/bash
# plants.sh - plants mistakes in a copy of the sources and checks that the tests notice each of them.
#
# usage: tests/plants.sh check              every patch applies to the sources, else exit 1
#        tests/plants.sh run [NAME...]      builds and runs the test that each names (default: check, then as many as WM_SIZE asks for)
#        tests/plants.sh copy FOLDER        makes a copy of the sources and of what was built from them (so does mutants.py)
#        tests/plants.sh make FOLDER WHAT.. builds in such a copy
#
# A mistake is tests/plants/NAME.patch: lines that describe it, `test: PROGRAM PATTERN`, a unified diff. The unit test PROGRAM,
# run with the tests whose names match PATTERN (WM_ONLY), passes on the sources as they are, and must fail on the copy by an
# assertion or a crash inside a test. A program that does not build, or hangs, proves nothing and is a failure here. Mistakes
# neon-NAME are built for AArch64 and run by qemu, in make proof.
# The copy, $B/plants/NAME, keeps the objects of $B, so that make compiles again only what reads a patched file. A mistake that
# no test noticed leaves its copy for inspection.
cd "$(dirname "$0")/.." || exit 1
B=$(realpath --relative-to=. "${WM_BUILD:-build/release}")
. tests/helper.sh
arm64=build/arm64 arch=() by_qemu=()
arm64_is_here () { [ "$(size test proof soak)" != test ] && [ -e "$arm64-root/.made" ] && [ -e $arm64/lib/libkernels.a ]; }
rooms=(schema kernels broker producer gpuworker ops)

plant () # name, folder, options of patch: applies the patch there
{
    patch "${@:3}" --strip=1 --fuzz=0 --silent --force --no-backup-if-mismatch --directory="$2" <"tests/plants/$1.patch"
}
copy () # folder
{
    rm -rf "$1" && mkdir -p "$1/$B/lib" && cp -a Makefile "${rooms[@]}" "$1" &&
        cp -a --parents tests/*.[ch] tests/tests.mk tests/{unit,sim,gpu,standin,release} "$1" &&
        cp -a "$B/obj" "$B/gen" "$1/$B" && cp -a "$B"/lib/*.a "$1/$B/lib" || return
    # Those engines that are here, as files: a confined import opens no link that leads out of lib/. They contain kernels/.
    cp -a "$B"/lib/{wm_openvino.so,openvino,wm_onnxruntime.so,onnxruntime} "$1/$B/lib" 2>/dev/null
    ln -s "$PWD"/build/{openvino,onnxruntime}-* "$PWD/$arm64-root" "$1/build" 2>/dev/null
    true
}
# The real GPU's objects and warnings are beside the point.
build () # folder, targets...
{
    env -u MAKEFLAGS -u MAKELEVEL make -s -C "$1" B="$B" CC="${CC:-gcc}" CUDA=0 OPT=-O1 WARN=-w "${arch[@]}" "${@:2}"
}
check ()
{
    local patch name faults=0
    for patch in tests/plants/*.patch; do
        name=$(basename "$patch" .patch)
        plant "$name" . --dry-run ||
            { echo "tests/plants/$name.patch: no longer applies; make it again from the sources"; \
                faults=$((faults + 1)); }
        read -r _ test pattern < <(grep '^test: ' "$patch")
        compgen -G "tests/unit/*/$test.c" >/dev/null && [ "$pattern" ] ||
            { echo "tests/plants/$name.patch: its line 'test: PROGRAM PATTERN' names no unit test"; \
                faults=$((faults + 1)); }
    done
    return $((faults > 0))
}
# Whether its test notices a mistake; one line tells.
try () # name
{
    [[ $1 != neon-* ]] || { B=$arm64 arch=(ARCH=arm64) by_qemu=(qemu-aarch64-static -L "$arm64-root"); }
    local name=$1 copy=$B/plants/$1 test pattern code by= engines=()
    read -r _ test pattern < <(grep '^test: ' "tests/plants/$name.patch")
    copy "$copy" && plant "$name" "$copy" || { echo "not ok - $name: the patch does not apply"; return 1; }
    ! cat tests/unit/*/"$test.c" | grep -q show_engines ||
        mapfile -t engines < <(cd "$copy" && ls "$B"/lib/wm_{openvino,onnxruntime}.so 2>/dev/null)
    build "$copy" "$B/tests/$test" "${engines[@]}" >"$copy/build.log" 2>&1 || {
        echo "not ok - $name: $test does not build with it ($copy/build.log)"
        return 1
    }
    WM_ONLY=$pattern timeout 300 "${by_qemu[@]}" "$copy/$B/tests/$test" >"$copy/test.log" 2>&1
    code=$?
    # A program that ends with a failed test leaves threads of that test behind, and may crash while it exits: the test that
    # it lists counts, not its exit code. A failed assert of the product (134) ends the program before it lists any: it is
    # the last that was begun.
    [ $code = 0 ] || [ $code = 124 ] || by=$(sed -n 's/^\[  FAILED  \] \([a-z_0-9]*\)$/\1/p' "$copy/test.log" | head -n 1)
    if [ $code = 134 ] && [ -z "$by" ] && grep -q 'Assertion .* failed' "$copy/test.log"; then
        by=$(sed -n 's/^\[ RUN      \] //p' "$copy/test.log" | tail -n 1)
    fi
    if [ -z "$by" ]; then
        echo "not ok - $name: $test ($pattern) did not notice it, exit $code ($copy/test.log)"
        return 1
    fi
    echo "ok - $name: noticed by $test, $by"
    rm -rf "$copy"
}

case $1 in
check) check && echo "plants: every patch applies" ;;
run)
    shift
    names=("$@") survived=0
    [ $# != 0 ] || mapfile -t names < <(basename -s .patch tests/plants/*.patch |
        if arm64_is_here; then cat; else grep -v '^neon-'; fi | awk "NR % $(size 20 1 1) == 0")
    [ $# != 0 ] || check || exit 1
    # As many at a time as there are CPUs: most of the time is the compiler's.
    mapfile -t said < <(printf '%s\n' "${names[@]}" | xargs -P "$(nproc)" -I{} "$0" try {})
    printf '%s\n' "${said[@]}"
    survived=$(printf '%s\n' "${said[@]}" | grep -c '^ok - ')
    proved bugs ${#names[@]} $survived
    [ ${#names[@]} = $survived ]
    ;;
try) try "$2" ;;
copy) copy "$2" ;;
make) build "${@:2}" ;;
*) sed -n 's/^# \(usage.*\)/\1/p' "$0" && exit 2 ;;
esac
