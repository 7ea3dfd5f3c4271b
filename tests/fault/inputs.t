#!/bin/bash
# inputs.t - a campaign of INPUTS inputs, each given, ended and written: what its journal and ledger take of the disk,
# and what the broker takes of the memory, a thousand bytes each at most (100 MB for 100,000).
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/fault/crew.sh
inputs=${INPUTS:-$(size 10000 100000 1000000)}
echo "# INPUTS=$inputs"
make_model "${small}1" || bail "no model"
crew_new
fixed=8388608 # what a campaign without inputs may take
begin ()
{
    crew_start broker
    broker=$pid
    until_true 60 "$bin/wiremill" status --broker "$listen"
}
written ()
{
    "$bin/wiremill" status --broker "$listen" --json | tr -d ' \n' |
        sed -n 's/.*"inputs":{[^}]*"written":\([0-9]*\).*/\1/p'
}
bytes () { du -sB1 --exclude=models "$work/out$beside" | cut -f 1; } # as reserved on the disk
hwm () { sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$broker/status"; }
small () # what, bytes
{
    echo "# $1: $(($2 / 1024)) KiB, $(($2 / n)) bytes an input"
    [ "$2" -le $((fixed + 1000 * n)) ]
}
ok "a broker" begin
before=$(hwm)
"$proof/hostile" "$listen" 100000 inputs >"$work/hostile" &
hostile=$!
# However slow the disk is: each takes 0.06 fdatasync of the broker.
ok "$inputs inputs are written" until_counted 120 "$inputs" written
kill $hostile
wait $hostile
n=$(written)
small journal-and-ledger "$(bytes)"
ok "the journal and the ledger are small" small journal-and-ledger "$(bytes)"
small memory $((1024 * ($(hwm) - before)))
ok "the broker's memory is too" small memory $((1024 * ($(hwm) - before)))
crew_stop
ok "the broker starts again" begin
ok "... and knows all of them" test "$(written)" -ge "$n"
ok "... in as much disk" small journal-and-ledger "$(bytes)"
crew_stop
done_testing
