#!/bin/bash
# lib.t - libwiremill as a program outside uses it: installed, found by pkg-config, called from threads, forked.
#
# SAN=address,undefined or SAN=thread with WM_BUILD: the programs are compiled with that sanitizer too.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
build=${WM_BUILD:-build/release} place="$work/a place" # a blank in PREFIX
make_model "${small}1" || bail "no model"
model=$made/model-${small}1
export PKG_CONFIG_PATH=$place/lib/pkgconfig WM_OPENVINO_SO=$PWD/$build/lib/wm_openvino.so
sanitize=(${SAN:+-g "-fsanitize=$SAN"})

install () { make -s install-lib B="$build" SAN="$SAN" DESTDIR= PREFIX="$place" && [ -e "$place/lib/libwiremill.so.1" ]; }
ok "make install-lib" install
against () # program, compiler and flags: compiled by what pkg-config prints
{
    local flags
    flags=$(pkg-config --cflags --libs wiremill) && eval "flags=($flags)" || return 1
    "${@:2}" -Wall -Wextra -Werror "${sanitize[@]}" "${flags[@]}" -Wl,-rpath,"$place/lib" -pthread -o "$work/$1"
}

# The interface.
exports ()
{
    nm -D --defined-only "$place/lib/libwiremill.so.1" | sed -n 's/.* T //p' | sort >"$work/exported"
    awk '/^WIREMILL_/ { version = $1 } /^ *wiremill_/ { sub (";", ""); print $1 "@@" version }' ops/lib/libwiremill.map |
        sort >"$work/listed"
    sed -n 's/.*\b\(wiremill_[a-z0-9_]*\) (.*/\1/p' "$place/include/wiremill.h" | grep -v 't (\*' | sort -u >"$work/declared"
    [ "$(grep -c '@@WIREMILL_1$' "$work/listed")" = 11 ] && diff "$work/listed" "$work/exported" &&
        sed 's/@@.*//' "$work/listed" | diff - "$work/declared"
}
[ -n "$SAN" ] || ok "it exports what its map lists and its header declares, nothing else" exports
ok "the header is C99, and its structs have the sizes they had" against abi-c cc -std=c99 -Wpedantic tests/lib/abi.c
ok "... and C++" against abi-c++ c++ -std=c++11 -Wpedantic -x c++ tests/lib/abi.c -x none
soname () { readelf -d "$work/abi-c" | grep -q 'NEEDED.*\[libwiremill\.so\.1\]' && "$work/abi-c" && "$work/abi-c++"; }
[ -n "$SAN" ] || ok "programs need libwiremill.so.1" soname

# The example, and the same scores from each form of the model.
ok "the example is compiled" against score cc -std=c99 -Wpedantic ops/lib/examples/score.c
ok "the program that tries it" against calls cc -std=gnu11 -O1 tests/lib/calls.c -lm
calls () { timeout 300 "$work/calls" "$@"; }
example ()
{
    calls patches "$model.wmm" 300 >"$work/patches.f4" &&
        "$work/score" "$model.wmm" "$work/patches.f4" >"$work/of-wmm" &&
        "$work/score" "$model.onnx" "$work/patches.f4" >"$work/of-onnx" &&
        [ "$(wc -l <"$work/of-wmm")" = 300 ] && [ "$(sort -u "$work/of-wmm" | wc -l)" -gt 250 ] &&
        cmp "$work/of-wmm" "$work/of-onnx"
}
ok "it scores; .wmm and .onnx alike" example
left () { mkdir -p "$work/tmp" && TMPDIR=$work/tmp calls facts "$model.onnx" && [ -z "$(ls -A "$work/tmp")" ]; }
ok "an import leaves nothing in TMPDIR" left
no_folder () { TMPDIR=/proc/nowhere exits 1 keep calls facts "$model.onnx" && says 'folder .*No such file.*set TMPDIR'; }
ok "... and names it where it is missing" no_folder
facts ()
{
    keep calls facts "$model.wmm" && says '^signature sparse/fma/fp32/v1$' && says '^version [0-9]' &&
        says "^sha256 $(sha256sum <"$model.onnx" | cut -d' ' -f1)\$" &&
        if [ "$small" ]; then says '^shape 16 16$' && says '^values 256$'; else says '^labels track em none michel$'; fi
}
ok "what a model is" facts
precisions () { PRECISION=fast keep calls facts "$model.wmm" && says '^signature sparse/' && PRECISION=split calls facts "$model.wmm"; }
ok "precisions" precisions

# Many at once.
ok "eight threads on one handle get the bits of one thread" calls threads "$model.wmm" "$(size 3 100 1000)"
ok "... also if all of them begin at once" calls hurry "$model.wmm" "$(size 5 100 1000)"
ok "eight threads open a handle each, of an .onnx" calls open "$model.onnx"
if [ "$SAN" = thread ]; then
    skip "the thread sanitizer allows no threads in a child of a process with threads"
else
    ok "children of fork score, while threads of the parent do" calls fork "$model.wmm"
fi
if [ -e "$build/lib/wm_openvino.so" ] && [ -z "$SAN" ]; then
    "$bin/wiremill" import --general "$model.onnx" -o "$work/general.wmm" >&2
    general () { keep calls facts "$work/general.wmm" && says '^signature openvino' && calls threads "$work/general.wmm" 1; }
    ok "calls of a general model take turns" general
    beside () { # the engine is looked for beside the library
        (unset WM_OPENVINO_SO && exits 1 keep calls facts "$work/general.wmm" && says "$place/lib/wm_openvino.so"); }
    ok "where its engine is missing, the error names the file" beside
else
    skip "no OpenVINO here"
fi

# What is not scored, what is refused, what is left alone.
ok "patches with NaN, no patches, no status" calls status "$model.wmm"
[ -n "$SAN" ] || ok "no memory for a call" calls memory "$model.wmm" # sanitizers need more than a limit leaves
head -c 20000 "$model.wmm" >"$work/short.wmm"
{ head -c 30000 "$model.wmm" && printf damage && tail -c +30007 "$model.wmm"; } >"$work/damaged.wmm"
head -c 20000 "$model.onnx" >"$work/short.onnx"
echo 'no model' >"$work/text.pb"
ok "errors" calls errors "$model.wmm" "$work/damaged.wmm" "$work/text.pb"
short () { exits 1 keep calls facts "$work/short.$1" && says "$work/short.$1: .*truncated"; }
ok "a .wmm that ends early" short wmm
ok "an .onnx that ends early" short onnx
silent () { calls quiet "$model.onnx" >"$work/printed" 2>&1 && [ ! -s "$work/printed" ] || { cat "$work/printed"; return 1; }; }
ok "the caller's rounding mode changes no bits, and stays" calls rounding "$model.wmm"
plugged () # its code would run in the caller's process
{
    cc -fPIC -shared -Igpuworker -o "$work/hits.so" ops/lib/examples/engine_hits.c && "$bin/wiremill" import "$work/hits.so" -o "$work/hits.wmm" &&
        exits 1 keep calls facts "$work/hits.wmm" && says 'plug-ins need a worker: use wiremill run'
}
ok "a plug-in is refused" plugged
pipe () { mkfifo "$work/pipe.onnx" && exits 1 keep calls facts "$work/pipe.onnx" && says "$work/pipe.onnx"; }
ok "a FIFO is no model" pipe
ok "it prints nothing, and leaves signals, threads and files as they were" silent
uninstall () { make -s uninstall B="$build" DESTDIR= PREFIX="$place" && [ -z "$(find "$place" ! -type d)" ]; }
ok "make uninstall" uninstall
done_testing
