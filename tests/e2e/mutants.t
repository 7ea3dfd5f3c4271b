#!/bin/bash
# mutants.t - tests/mutants.py on a small project, of each of whose mutants it is known what becomes; mistakes in the tool are seen.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
[ "$(size '' 1 1)" ] || { echo "1..0 # SKIP only make proof runs this"; exit 0; }
python=$PWD/build/venv/bin/python
"$python" -c 'import tree_sitter, tree_sitter_c' 2>/dev/null ||
    { echo "1..0 # SKIP tree-sitter is not in build/venv (make deps-mutants)"; exit 0; }

toy=$work/toy
mkdir -p "$toy"/{schema,kernels,broker/core,producer,gpuworker,ops} "$toy"/tests/{unit/broker,sim,gpu,standin,release}
cp tests/plants.sh tests/helper.sh tests/proof.h tests/tests.mk "$toy/tests" && touch "$toy"/tests/{unit/broker,sim,gpu,standin,release}/none
cat >"$toy/Makefile" <<'END'
B := build/release
$(B)/obj/%.o: %.c
	@mkdir -p $(@D); $(CC) $(OPT) -w -fPIC -c $< -o $@
L := $(B)/lib/libbroker.$(if $(SHARED),so,a)
$(L): $(B)/obj/broker/core/wm_core_one.o $(B)/obj/broker/core/wm_core_toy.o
	@mkdir -p $(@D) $(B)/gen; rm -f $@; $(if $(SHARED),$(CC) -shared -Xlinker -soname=$(@F) $^ -o $@,ar rcs $@ $^)
$(B)/tests/sim:
	@mkdir -p $(@D); echo 'int main (void) { return 0; }' | $(CC) -x c - -o $@
$(B)/tests/%: tests/unit/broker/%.c $(L)
	@mkdir -p $(@D); $(CC) $^ -o $@
END
cat >"$toy/broker/core/wm_core_toy.c" <<'END'
int toy_less (int a, int b) { return a < b; }
int toy_untested (int a) { return a + 7; }
int toy_same (int a) { if (a != a) return 5; return a; }
int toy_pointers (int *a, int *b) { return b - a; }
extern void toy_missing (void);
int toy_linked (int a) { if (0) toy_missing (); return a; }
int toy_waits (volatile int *flag) { while (!*flag) ; return 1; }
int toy_known (int a) { return a & 255; }
END
echo 'int toy_one (void) { return 1; }' >"$toy/broker/core/wm_core_one.c"
cat >"$toy/tests/unit/broker/test_broker_toy.c" <<'END'
#include <stdlib.h>
int toy_less (int a, int b), toy_waits (volatile int *flag), toy_same (int a), toy_one (void);
int main (void)
{
    volatile int flag = 1;
    return !(toy_less (1, 2) && !toy_less (2, 2) && !toy_less (3, 2) && toy_same (4) == 4 && toy_waits (&flag) == 1 &&
             toy_one () == 1) ||
           getenv ("TOY_FAILS");
}
END
known='broker/core/wm_core_toy.c: a reason\n- int toy_known (int a) { return a & 255; }\n+ int toy_known (int a) { return a | 255; }\n'
printf "$known" >"$toy/tests/mutants-equivalent.txt"
# What becomes of all mutants of the toy, in the order of the lines.
wanted='SURVIVED toy 2 + -> -
SURVIVED toy 2 7 -> (7 + 1)
SURVIVED toy 2 7 -> 0
SURVIVED toy 7 condition -> 0
SURVIVED toy 8 255 -> (255 + 1)
SURVIVED toy 8 255 -> 0
hangs toy 7 ! -> nothing
killed one 1 1 -> 0
killed one 1 1 -> 2
killed toy 1 < -> <=
killed toy 1 < -> >=
killed toy 3 != -> ==
killed toy 3 condition -> 1
killed toy 7 1 -> 0
killed toy 7 1 -> 2
drawn again instead of: 1 listed as equivalent, 1 not C, 1 not linked, 4 of the same machine code'

all () # N, SEED: what became of which mutants, sorted
{
    (cd "$toy" && make -s CC=gcc OPT=-O1 build/release/tests/{sim,test_broker_toy} && env -u MAKEFLAGS HANG_S=1 JOBS=2 CC=gcc \
        WM_BUILD=build/release timeout 300 "$python" tests/mutants.py draw "$1" "$2") >"$work/drawn" 2>&1
    code=$?
    { sed -n 's|^\([a-zA-Z]*\) *broker/core/wm_core_\([a-z]*\).c:\([0-9]*\) (\(.*\)).*, [0-9.]* s$|\1 \2 \3 \4|p' "$work/drawn" | sort
        grep '^drawn again' "$work/drawn"; } >"$work/became"
}
as_known () # becomes what is wanted
{
    all 1000 1
    diff "$work/became" - <<<"$wanted" || { cat "$work/drawn"; return 1; }
    [ $code = 1 ] && grep -Eq '^all +15 +9 +1  60 % \(36 to 80\)$' "$work/drawn" || { cat "$work/drawn"; return 1; }
    cp "$work/drawn" "$work/full"
    all 8 1
    grep -Eq '^all +8 ' "$work/drawn"
}
use () { cp tests/mutants.py "$toy/tests"; }
use
ok "each mutant becomes what it must, and the score of half of them fails" as_known
shows () { [ "$(grep -c '^survivor: ' "$work/full")" = 6 ] && grep -q '^+int toy_untested (int a) { return a - 7; }$' "$work/full"; }
ok "survivors are shown as diffs" shows
repeats ()
{
    local first
    all 4 a && first=$(cat "$work/became")
    all 4 a && [ "$first" = "$(cat "$work/became")" ] || return 1
    all 4 b && [ "$first" != "$(cat "$work/became")" ]
}
ok "a seed draws the same mutants again, another others" repeats
fails_before () { TOY_FAILS=1 all 4 a; [ $code != 0 ] && grep -q 'test_broker_toy: failed without a mutant' "$work/drawn"; }
ok "a test that fails without a mutant is named, and no mutant counts as killed" fails_before
stale ()
{
    printf "$known\nbroker/core/wm_core_toy.c: a reason\n- return a;\n+ return b;\n" >"$toy/tests/mutants-equivalent.txt"
    all 4 a
    printf "$known" >"$toy/tests/mutants-equivalent.txt"
    [ $code = 1 ] && grep -q 'no mutant of the sources any more' "$work/drawn"
}
ok "an entry of mutants that are equivalent is no mutant: refused" stale
draws () { cd "$toy" && exec env -u MAKEFLAGS JOBS=1 CC=gcc WM_BUILD=build/release "$python" tests/mutants.py draw "$@"; }
no_file ()
{
    (draws 4 a broker/none) >"$work/drawn" 2>&1
    [ $? = 1 ] && grep -q 'T=broker/none begins the path of no file' "$work/drawn" && grep -q 'broker/core/wm_core\*.c' "$work/drawn"
}
ok "a path that begins no file: said, with those that are there" no_file
stopped ()
{
    local pid before code
    before=$(cat "$toy"/broker/core/*.c | sha256sum)
    draws 1000 1 >"$work/drawn" 2>&1 &
    pid=$!
    until_true 60 grep -q ^killed "$work/drawn" || return 1
    ! (draws 1 1) >"$work/second" 2>&1 && grep -q 'another make mutants' "$work/second" || return 1
    kill -TERM $pid
    wait $pid
    code=$?
    [ $code = 1 ] && grep -q '^all ' "$work/drawn" && grep -q '^mutants: stopped' "$work/drawn" || { cat "$work/drawn"; return 1; }
    [ "$before" = "$(cat "$toy"/broker/core/*.c | sha256sum)" ] && [ "$(ls "$toy/build/release/mutants")" = lock ]
}
ok "one that is stopped shows what it has, and leaves sources as they were and no copies; a second at a time is refused" stopped

# Mistakes in the tool: as Python's text, what is replaced and by what.
mistake () # what, by
{
    "$python" - "$toy/tests/mutants.py" "$1" "$2" <<'END' && ! as_known >/dev/null
import sys
path, what, by = sys.argv[1:]
text = open("tests/mutants.py").read()
assert text.count(what) == 1, (what, text.count(what))
open(path, "w").write(text.replace(what, by))
END
}
ok "seen: what does not link counts as killed" mistake 'if failed == "not linked":' 'if failed == "never":'
ok "seen: what hangs counts as passed" mistake '            if code != 0:' '            if code:'
ok "seen: mutants of the same machine code count" mistake 'if code == self.original[file]:' 'if False:'
ok "seen: a mutant stays while the next is tried" mistake '        finally:
            copy.put(file, original)' '        finally:
            copy.source = original'
ok "seen: listed as equivalent, and tried" mistake 'if (file, *mutant.lines(original)) in self.known:' 'if not self.known:'
ok "seen: no other is drawn instead of one that does not count" mistake 'self.left[mutant.file] += 1' 'self.left[mutant.file] += 0'
ok "seen: the score counts survivors as killed" mistake 'lived = len(verdicts), verdicts.count("SURVIVED")' 'lived = len(verdicts), 0'
done_testing
