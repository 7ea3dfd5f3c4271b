#!/bin/bash
# messages.t - each message on the manual's page of messages is one of the programs' strings, with a cause and a cure.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
mapfile -t sources < <(find broker gpuworker kernels ops producer schema -name '*.[ch]')
page=ops/manual/reference/messages.md
check () { python3 tests/golden/messages.py "$1" "${sources[@]}"; }
ok "each message is one of the programs'" check $page
rotten () # sed command: a page that is wrong is noticed
{
    sed "$1" $page >"$work/messages.md" && ! cmp -s $page "$work/messages.md" && ! check "$work/messages.md"
}
ok "... one with another word is noticed" rotten 's/does not exist/is not there at all/'
ok "... one without a cure, too" rotten 's/^\(| `[^|]*|[^|]*|\).*/\1/'
done_testing
