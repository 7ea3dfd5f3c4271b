#!/bin/bash
# doc.t - --help, man pages, bash completion: complete, well-formed, installed and removed.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh

ok "make doc" make --no-print-directory B="${WM_BUILD:-build/release}" doc
man=${WM_BUILD:-build/release}/doc/man1 bash=${WM_BUILD:-build/release}/doc/bash/wiremill
pages=$("$bin/wiremill" --print-pages; "$bin/wiremill-worker" --print-pages)

# Without groff only the requests are checked: each line that begins with one is of those we use.
formatted () # page
{
    if command -v groff >/dev/null; then
        groff -man -Tutf8 -ww -P-cbou "$1" 2>"$work/warnings" >"$work/page" && [ -s "$work/page" ] &&
            [ ! -s "$work/warnings" ] || { cat "$work/warnings"; return 1; }
    else
        cp "$1" "$work/page"
        ! grep -En '^[.'\'']' "$1" | grep -Ev '^[0-9]+:\.(TH|SH|SS|TP|PP|nf|fi|BR)( |$)' &&
            head -1 "$1" | grep -q '^\.TH ' && grep -qx '\.SH NAME' "$1"
    fi
}
has_options () # page program [verb]: every option of --help stands in the page
{
    local options option
    options=$("$bin/$2" ${3:+"$3"} --help-all | sed -nE 's/^  (-.,)? +--([a-z-]+).*/\2/p')
    [ -n "$options" ] || { echo "$2 $3 --help lists no options"; return 1; }
    for option in $options; do
        sed 's/\\-/-/g' "$man/$1.1" | grep -q -- "--$option" || { echo "$1: --$option is missing"; return 1; }
    done
}
while read -r page program verb; do
    ok "$page is well-formed" formatted "$man/$page.1"
    [ "$page" = wiremill ] || ok "... and has every option" has_options "$page" "$program" "$verb"
done <<<"$pages"
# A short help has at most sixteen options, all of them in the long one.
short ()
{
    local v options
    for v in $("$bin/wiremill" --help | sed -nE 's/^  ([a-z]+)  .*/\1/p'); do
        options=$("$bin/wiremill" "$v" --help | grep -cE '^  (-.,)? +--')
        [ "$options" -le 19 ] || { echo "$v --help has $options options"; return 1; }
        ! diff <("$bin/wiremill" "$v" --help) <("$bin/wiremill" "$v" --help-all) | grep -E '^< +(-.,)? *--' ||
            { echo "$v --help has what --help-all lacks"; return 1; }
    done
}
ok "--help is short, --help-all has all" short
verbs ()
{
    for v in $("$bin/wiremill" --help | sed -nE 's/^  ([a-z]+)  .*/\1/p'); do grep -q "^wiremill-$v " <<<"$pages" ||
        { echo "$v has no page"; return 1; }; done
}
ok "every verb has a page" verbs

examples ()
{
    for v in $("$bin/wiremill" --help | sed -nE 's/^  ([a-z]+)  .*/\1/p'); do "$bin/wiremill" "$v" --help |
        grep -q "^  wiremill $v " || { echo "$v has no example"; return 1; }; done
}
ok "every verb has an example in its --help" examples
fits () # no line of --help, nor of any verb's, is longer than 80 columns
{
    ! "$bin/wiremill" --help | grep -E '^.{81}' || return 1
    local v
    for v in $("$bin/wiremill" --help | sed -nE 's/^  ([a-z]+)  .*/\1/p'); do "$bin/wiremill" "$v" --help |
        awk -v verb="$v" 'length > 80 { print verb ": " $0; long = 1 } END { exit long }' || return 1; done
}
ok "--help fits 80 columns" fits
help_of ()
{
    for v in run status synth; do [ "$("$bin/wiremill" help $v)" = "$("$bin/wiremill" $v --help)" ] || return 1; done
}
ok "help VERB is VERB --help" help_of
begins () # what a person without a verb sees first, to type
{
    exits 2 keep "$bin/wiremill" && [ "$(sed -n 3,7p "$work/said" | grep -c '^  wiremill ')" = 5 ]
}
ok "wiremill alone begins with five lines to type" begins
topics () # each page that is listed, with its title, is printed without marks and without escape codes, and fits
{
    local page title
    keep "$bin/wiremill" help manual && says '^  first-campaign  *A first campaign$' && says '^  formats  *Formats: ' || return 1
    grep '^  ' "$work/said" >"$work/pages" && [ "$(wc -l <"$work/pages")" -ge 50 ] || return 1
    while read -r page title; do
        "$bin/wiremill" help "$page" >"$work/page" && [ "$(head -1 "$work/page")" = "$title" ] || { echo "help $page"; return 1; }
        # Blocks are shown as they are, and so are table cells and lines of one word that is too long for the width.
        ! grep -v '^      ' "$work/page" | grep -E '\]\(|^```|`|\*\*|^ *\|'$'|\e' || { echo "marks in $page"; return 1; }
        ! grep -vE '^      |^ *[^ ]+( [^ ]+)?$' "$work/page" | LC_ALL=C.UTF-8 grep -E '^.{81}' || { echo "$page is too wide"; return 1; }
    done <"$work/pages"
    "$bin/wiremill" help Waits | grep -q '^  disk full (output)  *critical  *yes  *the disk of the ' || { echo "help Waits has no table"; return 1; }
    refused 2 "no verb and no page 'nopage'" "$bin/wiremill" help nopage
    refused 2 "no verb and no page '../waits'" "$bin/wiremill" help ../waits
}
ok "help PAGE prints pages of the manual" topics
searched () # a word, or all words of a phrase, that name no page: six pages at most, those with it in their title first
{
    refused 2 "no page 'TLS'; these pages have it:" "$bin/wiremill" help TLS && sed -n 2p "$work/said" | grep -q '^  gateway-tls-proxy  ' &&
        [ "$(wc -l <"$work/said")" -le 7 ] || return 1
    refused 2 "no page 'full disk'; these pages have it:" "$bin/wiremill" help 'full disk' &&
        sed -n 2p "$work/said" | grep -q '^  disk-full  ' || return 1
    refused 2 "no page 'disk nopage'; see wiremill --help" "$bin/wiremill" help 'disk nopage'
}
ok "help WORDS names pages that have them" searched
bold () # headings on a terminal, unless NO_COLOR is set
{
    on_terminal () { NO_COLOR=$1 PAGER=${2-cat} LESS=-iS TERM=xterm script -qec "$bin/wiremill help concepts" /dev/null </dev/null | tr -d '\r'; }
    on_terminal "" | grep -cx $'\e\\[1mConcepts\e\\[m' &&
        on_terminal 1 | grep -cx 'Concepts' && on_terminal "" printenv | grep -x 'LESS=-R -iS'
}
ok "headings are bold on a terminal" bold
named () # by messages of programs
{
    local page
    "$bin/wiremill" help manual >"$work/pages"
    grep -rhoE '`wiremill help [a-z-]+`' --include='*.[ch]' --include='*.py' schema kernels broker producer gpuworker ops | tr -d '`' |
        sed 's/wiremill help //' | sort -u >"$work/named" && [ "$(wc -l <"$work/named")" -ge 3 ] || return 1
    while read -r page; do grep -q "^  $page  " "$work/pages" || "$bin/wiremill" "$page" --help >/dev/null ||
        { echo "there is no page $page"; return 1; }; done <"$work/named"
    ! grep -rnE '^[^*]*"[^"]*(schema|ops|tests)/[A-Z]+\.md' --include='*.[ch]' schema kernels broker producer gpuworker ops
}
ok "pages that messages name are installed" named
site () # its address; or advice, where it is not built
{
    if [ -e "$bin/../manual/html/index.html" ]; then
        keep "$bin/wiremill" help --browser && says '^file:///.*/index.html$'
    else
        refused 1 'make manual builds it' "$bin/wiremill" help --browser
    fi
}
ok "help --browser" site
versions ()
{
    for p in wiremill wiremill-broker wiremill-producer wiremill-worker wiremill-serve; do "$bin/$p" -V | grep -q "^$p [0-9]" ||
        return 1; done; for v in run synth; do "$bin/wiremill" $v -V | grep -q "^wiremill[a-z-]* [0-9]" ||
        return 1; done
}
ok "-V everywhere" versions

complete_words () # words of a command line; the last is completed
{
    ( . "$bash" && COMP_WORDS=("$@") && COMP_CWORD=$(($# - 1)) && "_${1//-/_}" && printf '%s\n' "${COMPREPLY[@]}" )
}
completes () # wanted, words...
{
    local wanted=$1
    shift
    complete_words "$@" >"$work/replies"
    grep -qx -- "$wanted" "$work/replies" || { echo "$* gives:"; cat "$work/replies"; return 1; }
}
ok "a verb is completed" completes verify wiremill ver
ok "an option is completed" completes --precision wiremill run --pre
ok "a value is completed" completes split wiremill run --precision sp
ok "an option of another program's verb" completes --events wiremill synth --ev
ok "an option of a program without verbs" completes --replay wiremill-worker --re
ok "a file is completed" completes Makefile wiremill run --model Makef

# What is installed is there, and gone again; nothing else is removed.
installed ()
{
    [ -x "$work/to/usr/bin/wiremill" ] && [ -s "$work/to/usr/share/wiremill/manual/reference/formats.txt" ] &&
        "$work/to/usr/bin/wiremill" help formats | grep -q '^Formats' && [ -s "$work/to/usr/share/man/man1/wiremill-run.1" ] &&
        [ -e "$work/to/usr/share/bash-completion/completions/wiremill-worker" ]
}
install () { make --no-print-directory B="${WM_BUILD:-build/release}" DESTDIR="$work/to" PREFIX=/usr "$@"; }
ok "make install" install install
ok "... puts programs, pages and completion there" installed
left ()
{
    touch "$work/to/usr/bin/other" && install uninstall &&
        [ "$(find "$work/to" -type f -o -type l)" = "$work/to/usr/bin/other" ] || { find "$work/to"; return 1; }
}
ok "make uninstall removes all of it, and only it" left
done_testing
