#!/bin/bash
# wirecell.t - ops/wirecell, compiled against stand-ins of Wire-Cell: tensors through forward (), by a broker and in the process.
#
# SAN=address,undefined with WM_BUILD: the program is compiled with that sanitizer too.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
build=${WM_BUILD:-build/release} lib=$PWD/${WM_BUILD:-build/release}/lib python=$PWD/build/venv/bin/python
[ -x "$python" ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
[ -e "$lib/wm_onnxruntime.so" ] || { echo "1..0 # SKIP no ONNX Runtime here: a U-Net is no model of the sparse engine"; exit 0; }
export PATH=$bin:$PATH WM_TIME_SCALE=10
for header in WireCellAux/{Logger,SimpleTensor,SimpleTensorSet}.h WireCellIface/{IConfigurable,ITensorForward}.h \
    WireCellUtil/{Exceptions,NamedFactory,Persist}.h; do
    mkdir -p "$work/include/${header%/*}" && echo '#include "tests/wirecell/wirecell.h"' >"$work/include/$header"
done
sources=(tests/wirecell/wirecell.h tests/wirecell/run.cc ops/wirecell/WiremillService.cxx ops/lib/wiremill.h tests/e2e/wirecell.t)
program=$made/wirecell-$(cat "${sources[@]}" <(echo "$SAN $lib") | sha256sum | cut -c1-16)
compile ()
{
    rm -f "$made"/wirecell-*
    c++ -std=c++17 -Wall -Wextra -Wshadow -Werror ${SAN:+-g "-fsanitize=$SAN"} -I. -Iops/lib -I"$work/include" tests/wirecell/run.cc \
        -L"$lib" -lwiremill -Wl,-rpath,"$lib" -pthread -o "$program.part" && mv "$program.part" "$program"
}
ok "the component is compiled as C++17 without warnings" made_once "$program" compile
forward () { timeout 300 "$program" "$@"; }

height=$(size 80 800 800) width=$(size 60 600 600)
"$python" tests/wirecell/unet.py make "$height" "$width" "$work/unet.onnx" &&
    "$python" tests/wirecell/unet.py input 5 "$height" "$width" "$work/in.f4" &&
    wiremill import "$work/unet.onnx" --output "$work/unet.wmm" >&2 || bail "no U-Net"
tensors=(5,3,"$height","$width" "$work/in.f4")
answers () # KEY=VALUE...: the answers of eight threads are ONNX Runtime's
{
    forward "$@" -- "${tensors[@]}" 8 >"$work/out.f4" 2>"$work/said" && says "^5 1 $height $width shape\$" &&
        "$python" tests/wirecell/unet.py compare "$work/unet.onnx" "$work/in.f4" "$work/out.f4"
}
ok "in the process: a U-Net's planes are ONNX Runtime's" answers "model=$work/unet.wmm"
cp "$work/out.f4" "$work/alone.f4"
along () { WIRECELL_PATH=$work answers model=unet.wmm; }
ok "a model along WIRECELL_PATH" along

(cd "$work" && exec wiremill run --clients --model unet.wmm --workers 2 --threads 1) >"$work/served" 2>"$work/log" &
served=$!
ok "a broker and two workers start" until_true 120 grep -q 'serves clients at' "$work/log"
broker=broker=file://$work/clients.wiremill/endpoint.json
by_broker () { answers "$broker" && cmp "$work/alone.f4" "$work/out.f4"; }
ok "by the broker: the same bits" by_broker
killed ()
{
    local worker
    worker=$(pgrep -P "$served" -f -- '^wiremill-worker --broker' | head -1) && [ "$worker" ] && kill -9 "$worker" && by_broker
}
ok "... after a worker was killed" killed
refuses () # pattern, shape, KEY=VALUE...: it throws, and with soft_fail it gives zeros
{
    exits 1 keep forward "$broker" "${@:3}" -- "$2" "$work/in.f4" 1 && says "^thrown: WiremillService: $1" &&
        forward "$broker" "${@:3}" soft_fail=1 -- "$2" "$work/in.f4" 1 >"$work/zero.f4" 2>"$work/said" &&
        says "^error: .*$1.*; zeros are given \(soft_fail\)" && [ -s "$work/zero.f4" ] && cmp -n "$(stat -c %s "$work/zero.f4")" "$work/zero.f4" /dev/zero
}
ok "a tensor of other sizes" refuses "the tensor is 1 x 3 x $height x 7; the model takes N x 3 x $height x $width" 1,3,"$height",7
bent () { BEND=$1 refuses "$2" 1,3,"$height","$width"; }
ok "float64" bent float64 'the elements of the tensor are no float32'
ok "Fortran order" bent order 'the tensor is not in C order'
ok "fewer bytes than its shape has" bent bytes 'the tensor has [0-9]+ bytes; its shape has [0-9]+'
none () { BEND=none exits 1 keep forward "$broker" -- 1,3,"$height","$width" "$work/in.f4" 1 && says 'thrown: .*no tensor in the set'; }
ok "no tensor" none
held () # one row of five has a NaN
{
    BEND=nan exits 1 keep forward "$broker" -- "${tensors[@]}" 1 && says 'thrown: WiremillService: row 4 of 5 has no scores: bad pixel' &&
        BEND=nan forward "$broker" soft_fail=1 -- "${tensors[@]}" 1 >"$work/nan.f4" 2>"$work/said" &&
        cmp -n $((4 * 4 * height * width)) "$work/alone.f4" "$work/nan.f4" &&
        tail -c $((4 * height * width)) "$work/nan.f4" | cmp -n $((4 * height * width)) - /dev/zero
}
ok "a NaN: the row has no scores, with soft_fail zeros beside the others' scores" held
stop () { kill -INT "$served" && wait "$served"; }
ok "Ctrl-C ends the broker" stop
gone () { exits 1 keep forward "broker=ipc://$work/nothing" patience=1 -- "${tensors[@]}" 1 && says 'thrown: .*no broker answers'; }
ok "no broker" gone
option () { exits 1 keep forward "${@:2}" -- "${tensors[@]}" 1 && says "thrown: $1"; }
ok "neither broker nor model" option 'WiremillService: give either broker or model'
ok "both" option 'WiremillService: give either broker or model' "$broker" model=m.wmm
ok "no such model" option '.*nowhere.wmm.*No such file' model=/proc/nowhere.wmm
scores ()
{
    make_model small-1 && head -c 2048 "$work/in.f4" >"$work/small.f4" &&
        forward "model=$made/model-small-1.wmm" -- 2,1,16,16 "$work/small.f4" 2 2>"$work/said" >"$work/small.out" && says '^2 4 1 1 shape$'
}
ok "a model of four scores gives (N, 4, 1, 1)" scores
done_testing
