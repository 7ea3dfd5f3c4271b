#!/bin/bash
# links.t - models and their data behind symbolic links, as caches of models keep them: the same scores, the same identity;
# what no model may name, and what is no file, is refused with what to do.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/gateway.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
[ -e "${WM_BUILD:-build/release}/lib/wm_openvino.so" ] || { skip "no OpenVINO here"; done_testing; }
$python tests/e2e/links.py "$work" >"$work/layouts" || bail "no models"
export HOME=$work/home
import () { keep "$bin/wiremill" import "$1" -o "$work/$2.wmm"; }
alike () # name, path: what is imported is what plain files give
{
    import "$work/$2" "$1" || return 1
    case $1 in
    alone | below | deep) true ;; # their files have other names in them, or none
    *) cmp "$work/plain.wmm" "$work/$1.wmm" ;;
    esac
}
while read -r name path; do ok "$name: $path" alike "$name" "$path"; done <"$work/layouts"
here () { (cd "$work/hub/snapshots/rev" && import m.onnx here) && cmp "$work/plain.wmm" "$work/here.wmm"; }
ok "a bare name, in the folder of links" here
wmm () { ln -s plain.wmm "$work/link.wmm" && score link link.wmm && same link; }
score () { "$bin/wiremill" run --quiet -w 1 --model "$work/$2" --input "$work/x.npy" --output "$work/out-$1"; }
same () { cmp <(scores "$work/out-$1/x.scores.h5" "$work/out-$1$beside") <(scores "$work/out-plain/x.scores.h5" "$work/out-plain$beside"); }
ok "a campaign with plain files" score plain plain/m.onnx
hub () { score hub hub/snapshots/rev/m.onnx && same hub; }
ok "... with links" hub
ok "... with a link to a .wmm" wmm

advice='put that file, or a link to it, there'
bare='put that file beside the model, or a link to it, and export the model with its bare name'
for name in up root round; do
    ok "a name that leaves the folder: $name" refused 5 "outside the model's folder.*$bare" "$bin/wiremill" import "$work/bad/$name.onnx" -o "$work/no.wmm"
done
for name in pipe device folder; do
    ok "no file: $name" refused 5 "tensor 'w' keeps its data in '.*', which is not a regular file" "$bin/wiremill" import "$work/bad/$name.onnx" -o "$work/no.wmm"
done
ok "a link that leads nowhere" refused 5 "in 'm.bin', which is not beside it .*/bad/m.bin: No such file.*$advice" "$bin/wiremill" import "$work/bad/gone.onnx" -o "$work/no.wmm"
ok "a file that is too short" refused 5 "beyond the end of that file" "$bin/wiremill" import "$work/bad/short.onnx" -o "$work/no.wmm"
nothing () { [ ! -e "$work/no.wmm" ] && [ -z "$(find "$work" -maxdepth 1 -name 'no.wmm*')" ]; }
ok "nothing was made of them" nothing

# The gateway, its repository and what is in it behind links.
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
gateway --threads 1 --model-repository "$work/repository/models" 2>"$log" &
gateway=$!
until_true 60 address
address
ready () { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$http/v2/models/m/ready")" = 200 ]; }
ok "a repository of links is served" until_true 60 ready
ok "SIGTERM ends it" drained
done_testing
