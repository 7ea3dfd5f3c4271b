#!/bin/bash
# page.t - one page with pictures of a comparison: wiremill compare --page, and verify --against --page.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
python=build/venv/bin/python
[ -x $python ] || { echo "1..0 # SKIP no build/venv (make test makes it)"; exit 0; }
make_labelled || bail "no model or events"
"$bin/wiremill" run --quiet --model "$made/model-${small}1.wmm" --input "$made/layout.h5" --output "$work/out" \
    --spec "$work/labels.yaml" >/dev/null || bail "no scores"
ours=$work/out/layout.scores.h5
cat >"$work/pages.py" <<'PYTHON'
"""pages.py - SOURCE FOLDER: makes other.h5, with differences"""
import shutil, sys

def make(source, folder):
    import h5py, numpy as np
    shutil.copy(source, folder + "/other.h5")
    with h5py.File(folder + "/other.h5", "r+") as f:
        t = f["emtrkmichel"]
        em = t["em"][:]
        t["em"][:] = np.clip(em + np.where(np.arange(len(em)) == 77, 0.25, 1e-7), 0, 1)
        t["hit_id"][9] = 12345678
        t["status"][3] = 2
        t["michel"][5] = np.nan
        f.attrs.modify("campaign", np.bytes_("</td><script>alert(1)</script>".ljust(32, "x")))
        print(*[t[c][77] for c in ("run", "subrun", "event", "hit_id")], sep=":", end=" ")
        print(len(em))

make(*sys.argv[1:])
PYTHON
read -r worst n < <($python "$work/pages.py" "$ours" "$work") || bail "no other file"
compare () { keep "$bin/wiremill" compare "$@"; }
look () { $python tests/e2e/page.py look "$1" >"$work/page.json"; } # page
holds () { $python tests/e2e/page.py holds "$work/page.json" "$@"; } # expressions of what the page holds

made () { exits 1 compare "$ours" "$work/other.h5" --page "$work/p.html" --note 'For <b>"them"</b>' && says '^not the same'; }
ok "a page beside the text" made
ok "... is one well-formed file without references" look "$work/p.html"
seen () { for width in 1440 360; do for how in light dark; do printf '%s\n' "size $width 900 $how" fit audit; done; done | $python tests/e2e/browser.py "file://$work/p.html"; }
in_chromium "... in Chromium: what readers of screens need, and contrast" seen
verdict ()
{
    holds "'The scores are not the same within 1e-05. $((n - 1)) hits in both'.replace ('$((n - 1))', '{:,}'.format ($n - 1)) in d['text']" \
        "'1 hit only in A; 1 hit only in B; 1 hit with another status; 1 hit whose score em differs by more; 1 hit whose score michel' in d['text']" \
        "'For <b>\"them\"</b>' in d['text'] and '<b>' not in d['source']"
}
ok "... its verdict names what differs" verdict
counts ()
{
    holds "r['Hits'] == ['{:,}'.format ($n)] * 2" "r['Held'] == ['0', '1']" "r['Only on this side'] == ['1', '1']" \
        "r['Scored in both'] == ['{:,}'.format ($n - 2)] * 2" "'Only in B (run:subrun:event:hit_id): 1:1:1:12345678' in d['text']" \
        "'Another status: scored in A, bad wire in B: 1' in d['text']"
}
ok "... hits that match, and those that do not" counts
planted () { holds "[row for row in d['rows'] if row[0] == 'em'][0][1] == '1' and [row for row in d['rows'] if row[0] == 'em'][0][9] == '$worst'"; }
ok "... the largest difference, and its hit" planted
pictures ()
{
    holds "[t for t in d['titles'] if not t.startswith ('ROC ')] == [t for l in ('track', 'em', 'none', 'michel') for t in ('Scores of ' + l + ' in A and B', 'Differences of ' + l, l + ' of B against A')]" "'ROC of em in A and B' in d['titles']" \
        "'Not shown: 1 hit that is not finite on one side.' in d['text']"
}
ok "... ROC curves, since the events are of wiremill synth, and three pictures of each label" pictures
provenance ()
{
    holds "r['Model (SHA-256)'][0] == r['Model (SHA-256)'][1] and len (r['Model (SHA-256)'][0]) == 64" \
        "r['Campaign'][0] != r['Campaign'][1] and '<script>' in r['Campaign'][1]" "r['Patch specification'] == ['the same in A and B']" \
        "r['A'][1].endswith ('layout.h5') and r['A'][2].endswith ('Z')"
}
ok "... models, campaigns, inputs and their dates; a hostile text is text" provenance
again () { compare "$ours" "$work/other.h5" --page "$work/again.html" --note 'For <b>"them"</b>'; cmp "$work/p.html" "$work/again.html"; }
ok "the same files give the same bytes" again
same () { compare --tolerance 0 --page "$work/p.html" "$ours" "$ours" && look "$work/p.html" && holds "'The scores are the same within 0. All' in d['text']" "[row for row in d['rows'] if row[0] == 'em'][0][7:] == ['-'] * 3"; }
ok "a page is replaced by the next; nothing differs" same
labels () { $python -c 'import h5py, sys
with h5py.File (sys.argv[1], "r+") as f: del f["emtrkmichel/track"]; f["emtrkmichel/status"][:] = 5' "$work/other.h5" &&
    exits 1 compare "$ours" "$work/other.h5" --page "$work/p.html" && look "$work/p.html" &&
    holds "r['track'] == ['not compared: only one side has it']" "r['em'] == ['no hit was scored on both sides']" "d['titles'] == []"; }
ok "a label that only one side has; no hit scored in both" labels

# What cannot be written, and what is not replaced.
echo "no output" >"$work/bad.h5"
not_page () # pattern, page: refused before anything is read
{
    refused 2 "$1" "$bin/wiremill" compare "$work/bad.h5" "$ours" --page "$2"
}
cp "$ours" "$work/copy.scores.h5"
ok "a file of scores is not replaced" not_page 'copy.scores.h5 is no page of wiremill compare; give another name, or --force' "$work/copy.scores.h5"
ok "... and is as it was" cmp "$ours" "$work/copy.scores.h5"
mkfifo "$work/pipe"
ok "a pipe" not_page 'pipe is a pipe; give a file' "$work/pipe"
ok "a device" not_page '/dev/full is a device; give a file' /dev/full
ok "a folder" not_page 'out is a folder; give a file in it' "$work/out"
ok "a folder that is not there" not_page 'nowhere/p.html: cannot be written in .*nowhere: No such' "$work/nowhere/p.html"
failed () { exits 5 compare "$ours" "$work/bad.h5" --page "$work/none.html" && [ ! -e "$work/none.html" ]; }
ok "no page where the comparison fails" failed
mkdir "$work/disk"
full ()
{
    cp "$work/again.html" "$work/disk/old.html"
    dd if=/dev/zero of="$work/disk/ballast" bs=1k 2>/dev/null
    exits 75 compare "$ours" "$ours" --page "$work/disk/old.html" &&
        says 'old.html: cannot write: No space left on device; free some space there$' &&
        cmp "$work/again.html" "$work/disk/old.html" && [ "$(echo "$work"/disk/old.html*)" = "$work/disk/old.html" ]
}
if mount -t tmpfs -o size=64k none "$work/disk" 2>/dev/null; then
    at_exit 'umount -l "$work/disk" 2>/dev/null; finish'
    ok "a full disk: the old page stays" full
else
    skip "a tmpfs can be mounted by root only"
fi
note () { exits 2 compare "$ours" "$ours" --note x && says 'note is for the page of --page'; }
ok "--note alone" note

against () { keep "$bin/wiremill" verify "$work/out" --against "$work/copy.scores.h5" --page "$work/v.html" && look "$work/v.html"; }
ok "verify --against --page" against
which () { holds "'A is the campaign $work/out, of which 1 output was written: every digest is as it was written.' in d['text']"; }
ok "... names the campaign, and its digests" which
alone () { refused 2 'page is for what is compared with --against' "$bin/wiremill" verify "$work/out" --page "$work/v.html"; }
ok "... not without --against" alone
printf x >>"$ours"
changed () { rm "$work/v.html" && exits 1 keep "$bin/wiremill" verify "$work/out" --against "$work/copy.scores.h5" --page "$work/v.html" && says 'no output is as it was written.*no page is written' && [ ! -e "$work/v.html" ]; }
ok "... where all outputs changed since" changed
done_testing
