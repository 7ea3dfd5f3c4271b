#!/bin/bash
# manual.t - the manual: Sphinx builds it without a warning, its blocks of commands print what they show, no page is an orphan.
# make test runs the lessons (start/), make proof all pages and the questions of searches.txt. ONLY="ops/manual/howto/resume.md" chooses.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
build=${WM_BUILD:-build/release}
[ -x build/venv/bin/python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
if [ -e build/venv-manual/.made ]; then
    ok "make manual" env -u MAKEFLAGS -u MAKELEVEL make --no-print-directory B="$build" "$build/manual/html/index.html"
else
    skip "no build/venv-manual (make manual makes it)"
fi
mapfile -t pages < <(find ops/manual/start "$(size /dev/null ops/manual)" -name '*.md' -not -name README.md | sort -u)
read -ra pages <<<"${ONLY:-${pages[*]}}"
# Python's examples import the package of the wheel.
(cd "$work" && unzip -q "$OLDPWD"/"$build"/wheel/wiremill-*.whl -d site) || bail "no wheel in $build/wheel: make wheel"
alone=()
! unshare -rnm true 2>/dev/null || alone=(unshare -rnm sh -c 'ip link set lo up; exec "$@"' sh)
typed () { PYTHONPATH=$work/site PATH=$bin:$PWD/build/venv/bin:$PATH "${alone[@]}" python3 tests/golden/pages.py "$work/$1" "${@:2}"; }
for page in "${pages[@]}"; do
    [ ${#alone[@]} != 0 ] || [[ $page != */disk-full.md ]] || { skip "$page: this user may not mount"; continue; }
    has openssl || [[ $page != */gateway-tls-proxy.md ]] || { skip "$page: needs openssl"; continue; }
    ok "$page" typed "$(basename "$page")" "$page"
done

# Questions typed into the site's search, by a browser.
steps () # questions
{
    local page question
    while read -r page question; do
        echo "load search.html?q=${question// /+}"
        echo "until /found|not match/.test(document.querySelector('.search-summary').innerText)"
        echo "show ([...document.querySelectorAll('ul.search > li > a')].slice(0, 5).some(a => a.href.includes('/$page.html')) ?" \
            "'found' : 'not found') + ': $page: $question'"
    done < <(grep -v '^#' "$1")
}
searched () # questions
{
    steps "$1" | keep python3 tests/e2e/browser.py "file://$(realpath "$build")/manual/html/" || return
    says '^found: ' && ! says '^not found: '
}
if [ -n "$(size '' 1 1)" ] && [ -e build/venv-manual/.made ] && command -v chromium >/dev/null; then
    ok "the search finds the page for each question" searched tests/golden/searches.txt
    echo "start/install grafana" >"$work/elsewhere"
    ok "a page that is not found is noticed" eval '! searched "$work/elsewhere"'
else
    skip "the site's search: not in make test, or no build/venv-manual or chromium"
fi

# The runner itself notices what differs, fails, or is not typed at all.
differs () # text of a page
{
    printf '%s\n' "$1" >"$work/page.md"
    ! typed differs "$work/page.md"
}
ok "output that differs is noticed" differs $'```console\n$ echo one\ntwo\n```'
ok "... missing lines" differs $'```console\n$ echo one\none\n...\ntwo\n```'
ok "... a command that fails" differs $'```console\n$ false\n```'
ok "... Python that fails" differs $'```python\nraise SystemExit (1)\n```'
ok "... a command outside of its block" differs $'wiremill run\n% not run: no input\n```text\n$ wiremill status\n```'
ok "... a reason without a block" differs $'% not run: no input\n\n```text\n$ wiremill status\n```'
ok "... commands that are not run without a reason" differs $'```sh\nwiremill run\n```'
done_testing
