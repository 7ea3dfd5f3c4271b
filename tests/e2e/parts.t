#!/bin/bash
# parts.t - tests/proof.sh on a tree of its own, whose tests are stand-ins: killed in the middle it goes on, it tries again what
# failed or was skipped, and another commit, a change or FORGET=1 runs all parts.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
picks () { make -n unit T=schema_batch; }
ok "T= picks unit tests" picks
whole () { local goal; for goal in test check proof proof-again soak; do exits 2 keep make -n $goal T=schema_batch && says 'T= picks tests' || return 1; done; }
ok "... and none of a whole run, which leaves stamps" whole
tree=$work/'a tree'
mkdir -p "$tree"/tests/{e2e,golden,fault,fuzz} "$tree/build/release/bin"
cp tests/proof.sh "$tree/tests"
cd "$tree" || exit 1
printf '%s\n' '#!/bin/sh' '[ "$1" != doctor ] || echo "ok    cpu         2 cores, A CPU"' '[ "$1" != bench ] || [ $WM_ISA = c ]' \
    >build/release/bin/wiremill
printf '#!/bin/sh\necho plants >>"$RAN"\n' >tests/plants.sh
printf '%s\n' \
    'tested:' 'unit fuzz sim sim-cuts sim-proof mutants san tsan:' '	@echo $@ >>"$(RAN)"; echo "proof: P1 tried 1 survived 1 seconds 1"' >Makefile
stand_in () # file: notes that it ran; ends its proof, fails or is skipped where a file asks for that
{
    cat >"tests/$1" <<'T'
#!/bin/bash
name=$(basename "$0")
echo "$name" >>"$RAN"
if [ -e "$RAN.kill-$name" ]; then kill -9 "-$(cat "$RAN.pid")"; fi
if [ -e "$RAN.skip-$name" ]; then echo "1..0 # SKIP no tool"; exit; fi
echo "proof: P2 tried 1 survived 1 seconds 1"
if [ -e "$RAN.fail-$name" ]; then echo "not ok 1 - it"; else echo "ok 1 - it"; fi
echo 1..1
T
}
for file in e2e/a.t e2e/b.t golden/c.t fault/poison.t fault/d.t e2e/run.t e2e/resume.t e2e/kick.t; do stand_in "$file"; done
chmod +x build/release/bin/wiremill tests/plants.sh tests/*/*.t
echo build >.gitignore
git init -q . && git add . && git -c user.name=n -c user.email=e commit -qm tree || bail "no git"
export RAN=$work/ran
unset WM_BUILD MAKEFLAGS MAKELEVEL WM_SIZE FORGET ALLOW_SKIP
# Which files and targets ran, sorted.
proof () # environment...
{
    : >"$RAN"
    env "$@" setsid -w bash -c 'echo $$ >"$RAN.pid"; exec tests/proof.sh proof' >"$work/said" 2>&1
    ended=$?
    ran=$(sort "$RAN" | uniq -c | awk '{ print $2 ($1 > 1 ? "*" $1 : "") }' | paste -sd' ')
}
ran () # what should have
{
    [ "$ran" = "$1" ] || { echo "ran: $ran"; echo "not: $1"; tail -n 40 "$work/said"; return 1; }
}
each="a.t b.t c.t d.t fuzz kick.t*2 mutants plants poison.t*2 resume.t*2 run.t*2 san sim sim-cuts sim-proof tsan unit"
touch "$RAN.kill-d.t"
proof JOBS=1
ok "killed in the middle" test $ended = 137
rm "$RAN.kill-d.t"
touch "$RAN.fail-d.t" "$RAN.skip-c.t"
proof JOBS=1
ok "it goes on where it was" ran "c.t d.t kick.t poison.t*2 resume.t run.t san tsan"
red ()
{
    [ $ended = 1 ] && says '^failed: fault promises' && says 'skipped: c.t: no tool +BROKEN' && says 'fault/d.t: not ok 1'
}
ok "... and names what failed and what was skipped" red
table ()
{
    says '^\| e2e \| 5 \| 0 \| [0-9a-f]{12} \| A CPU \| 20..-..-.. ..:.. \| 0 \|' && says '^\| fault \| 1 \| 1 \| '
}
ok "... in a table of its parts" table
promises () { says "P1 +killed at any instant: 0 lost, 0 duplicated +6 +6 " && says 'P2 +the same across power loss +7 +7 '; }
ok "promises are the sum of all parts, the earlier ones too" promises
rm "$RAN".*-*
proof JOBS=3
ok "what failed or was skipped is tried again, and nothing else" ran "c.t d.t"
proof
ok "then nothing" ran ""
ok "... and each part is listed with its date" says '^== e2e/a.t: green on 20'
proof FORGET=1
ok "FORGET=1 forgets" ran "$each"
echo "# more" >>tests/e2e/a.t
proof
ok "a change is tried as a whole" ran "$each"
git -c user.name=n -c user.email=e commit -qam more
proof JOBS=2
ok "so is a commit" ran "$each"
WM_SIZE=test tests/proof.sh test e2e >"$work/said" 2>&1
: >"$RAN"
tests/proof.sh test e2e >"$work/said" 2>&1
ok "make test never leaves anything out" test "$(sort "$RAN" | paste -sd' ')" = "a.t b.t kick.t resume.t run.t"
cd / || exit 1
done_testing
