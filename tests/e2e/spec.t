#!/bin/bash
# spec.t - `wiremill spec`, and what a campaign takes from a specification, a preset and the model.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
make_events one --events 1 --seed 6 --hits 3000 --tpcs 1 &&
    "$bin/wiremill" model new emtrkmichel --wire 32 --bin 32 -o "$work/m32.onnx" ||
    bail "no model or events"
spec=("$bin/wiremill" spec)
for preset in protodune-2021 dunefd-44x48 waveform-200; do
    "${spec[@]}" --print $preset >"$work/$preset.yaml"
    understood ()
    {
        keep "${spec[@]}" --check "$work/$preset.yaml" && says "wires x (48|200) drift bins$" &&
            ! grep -q default "$work/said"
    }
    ok "what --print $preset prints is a whole specification" understood
done
printf 'view: full\npatch: [32, 32] # wires, bins\ntick_us: 0.5\n' >"$work/32.yaml"
check ()
{
    keep "${spec[@]}" --check "$work/32.yaml" && says 'patch +32 wires x 32 drift bins$' &&
        says 'drift_window +6 ticks a drift bin .default' && says 'covers 192 ticks, 96 us'
}
ok "--check prints in units what is understood, and what is left out" check
printf 'view: full\nadc:\n\t- 1\n' >"$work/tab.yaml"
mistake () { exits 2 keep "${spec[@]}" --check "$work/tab.yaml" && says 'tab.yaml:3: .* tab; write spaces'; }
ok "a mistake is exit 2, by file and line" mistake
no_such () { exits 2 keep "${spec[@]}" "$@" && says "$pattern"; }
pattern='there are protodune-2021, dunefd-44x48 and' ok "no such preset" no_such --print protodune
pattern='none.yaml does not exist' ok "no such file" no_such --check "$work/none.yaml"
pattern='--check none does not exist' ok "... also where its name could be a preset's" no_such --check none
pattern='--print PRESET or --check FILE' ok "neither" no_such

# The size of a patch: the model's own, unless somebody chose one.
run ()
{
    local to=$1; shift; keep "$bin/wiremill" run --model "$work/m32.onnx" --input "$made/one.h5" --output "$work/$to" \
            "$@"
}
own () { run own && says 'spec protodune-2021 with the model.s own patch: \[32, 32\]'; }
ok "without --spec a model of 32 x 32 gets patches of 32 x 32" own
printf "patch: [32, 32]\nlabels: []\n" >"$work/own.yaml"
ok "... which are pinned" run own --spec "$work/own.yaml" --quiet
other ()
{
    exits 5 run own --spec protodune-2021 &&
        says 'the model takes .32, 32, 1.: give --spec a file with the line patch: .32, 32., or leave --spec out$'
}
ok "a preset of another size is refused, with what to type" other
sed 's/32/48/g' "$work/32.yaml" >"$work/48.yaml"
chosen ()
{
    exits 5 run new --spec "$work/48.yaml" && says '48.yaml cuts .* takes .32, 32, 1.: write patch: .32, 32. there$' &&
        [ ! -e "$work/new$beside/ledger.db" ]
}
ok "... a file's too, and nothing is pinned" chosen
printf 'lifetime: none\n' >"$work/none.yaml"
inherits () { run none --spec "$work/none.yaml" && says 'none.yaml with the model.s own patch: \[32, 32\]'; }
ok "a file that does not say patch: the model's own" inherits
nothing_left () # a refusal leaves no folder that this command made
{
    exits 2 run left --spec nosuch && [ ! -e "$work/left" ] || return 1
    mkdir "$work/left" && exits 2 run left --spec nosuch && [ -d "$work/left" ] && [ ! -e "$work/left$beside" ] &&
        run left && exits 2 run left --spec nosuch && [ -e "$work/left$beside/ledger.db" ]
}
ok "a refusal leaves nothing behind, and what was there" nothing_left
done_testing
