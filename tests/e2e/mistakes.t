#!/bin/bash
# mistakes.t - what is printed for mistakes on the command line: each text as it is, with the exit code.
#
# The kinds come from the programs' tables (--print-paths), so that a new option is tried, too: a file where a folder
# belongs and the reverse, what does not exist, a port or a number that is none. A row of `mistakes` is one text.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
unset WM_JOIN_FILE WM_BROKER
make_model "${small}1" && make_events target --events 1 --seed 6 --hits 100 --tpcs 1 || bail "no model or events"
for program in "$bin"/wiremill*; do "$program" --print-paths; done >"$work/paths"
cd "$work" || exit 1
cp "$made/target.h5" a.h5 && cp "$made/model-${small}1.wmm" m.wmm && mkdir folder saved && : >saved/saved_model.pb && ln -s nowhere link.h5
PATH=$bin:$PATH

# ---- the kinds, for every option ----
rows () { awk -F'\t' -v OFS='\t' "$1" "$work/paths"; } # condition of awk
typed () # program, verb: what a person types for them
{
    case $1 in wiremill-broker | wiremill-worker) echo "$1" ;; *) echo "$1 $2" ;; esac
}
each () # condition, least number of options, value, text behind "--OPTION ": refused with 2, by the program that was typed
{
    local program verb option value use rest n=0 given command text
    while IFS=$'\t' read -r program verb option value use rest; do
        given=$3
        [[ $value != NAME=* ]] || given=m=$3
        IFS=' ' read -ra command <<<"$(typed "$program" "$verb")"
        n=$((n + 1))
        text=${4//GIVEN/$given}
        refused 2 "^[^ ]+ ?[a-z]*: --$option $text; see [^ ]+ ?[a-z]* --help$" timeout 20 "${command[@]}" "--$option" "$given" ||
            { echo "of $program $verb --$option"; return 1; }
        [ "$(wc -l <said)" = 1 ] || { cat said; return 1; }
    done < <(rows "$1")
    [ $n -ge "$2" ] || { echo "$n options"; return 1; }
}
reads='$5 == "read" || $5 == "list"'
ok "a folder where a file is read" each "$reads" 40 "$work/folder" 'GIVEN is a folder; a file is needed'
ok "... a SavedModel" each '$3 == "model" && $5 == "read"' 4 saved 'GIVEN is a folder, a TensorFlow SavedModel; convert it to ONNX .*'
names='$3 != "model" && $3 != "spec" && $3 != "join-file" && $3 != "check" || $4 ~ /NAME=/' # those have names of other things, too
ok "a file that does not exist" each "($reads) && ($names)" 25 none.h5 'GIVEN does not exist'
ok "... a link to nothing" each "($reads) && ($names)" 25 link.h5 'GIVEN is a symbolic link to a file that does not exist'
ok "... below a file" each "($reads) && ($names)" 25 a.h5/b/c 'GIVEN does not exist: a.h5 is a file, no folder'
ok "... by its URL" each "$reads"' || $5 == "folder" || $5 == "present"' 70 'file:///a%20b' 'GIVEN is local: give /a b'
texts='$7 ~ /text/'
printf '\x93NUMPY12345678' >a.npy && gzip -c a.npy >a.gz && printf 'root\0abcd' >a.root && printf 'PK\3\4abcd' >a.zip && printf '\x80\4abcd' >a.pkl
ok "a file that is no text where one belongs" each "$texts" 40 a.h5 "GIVEN is an HDF5 file; .* is needed"
# What is written has its format's ending, or an unknown one. (Of cut there is a row below; import and show know
# one ending and two, and refuse all others.)
formats='$5 == "written" && $3 !~ /-files$|^processed|access-log|patches/ && $2 !~ /^(import|show)$/'
ok "a file to write whose name ends in another format" each "$formats" 8 r.pdf \
    '(GIVEN ends in .pdf, but the .* is written as .*; give a name such as r[.][a-z5]+)'
ok "... in capitals" each "$formats" 8 folder/r.PNG '(GIVEN ends in .PNG, but .*; give a name such as folder/r[.][a-z5]+)'
ok "a file where a folder belongs" each '$5 == "folder" || $5 == "present"' 30 a.h5 'GIVEN is a file; a folder is needed'
ok "a folder that does not exist" each '$5 == "present"' 5 none 'GIVEN does not exist; a folder that is there is needed'
# What listens tries ports of its own; NAME=ENDPOINT of the gateway is an endpoint as well.
ok "a port that is none" each '$4 ~ /ENDPOINT/' 15 tcp://127.0.0.1:99999 '.*tcp://127.0.0.1:99999: a port is a number from 1 to 65533'
ports='$4 ~ /:PORT|URL/ && $5 == "-" && $3 != "prometheus"'
addresses ()
{
    local program verb option rest n=0 port
    while IFS=$'\t' read -r program verb option rest; do
        for port in 65536 99999 -1 x; do
            refused 2 "127.0.0.1:$port.* a port is a number from 0 .any that is free. to 65535" timeout 20 "$program" "$verb" \
                    --"$option" "127.0.0.1:$port" $([ "$verb" != gateway ] || echo --model m=m.wmm) $([ "$verb" != serve ] || echo -b tcp://127.0.0.1:9) ||
                { echo "of $program $verb --$option"; return 1; }
            n=$((n + 1))
        done
    done < <(rows "$ports")
    [ $n -ge 12 ]
}
ok "... where a page or a gateway listens" addresses
ok "a size of other units" each '$4 == "BYTES" && $3 != "event-bytes"' 5 100T \
    "takes a whole number from [0-9]+( to [0-9]+)?, also with K, M or G for KiB, MiB or GiB .64M., not '100T'"

# ---- single texts ----
cp "$made/model-${small}1.onnx" a.onnx && echo 'tick_us: -1' >tick.yaml
! has openssl || openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=a -keyout k.pem -out c.pem 2>/dev/null
mistakes () # rows: exit code | command | last line of what is printed, as it is
{
    local code command text said
    while IFS='|' read -r code command text; do
        [ -n "$code" ] || continue
        eval "timeout 60 $command" >said 2>&1 </dev/null
        [ $? = "$code" ] || { echo "not exit code $code: $command"; cat said; return 1; }
        said=$(tail -n 1 said | sed 's/^20[0-9-]*T[0-9:]*Z //')
        [ "$said" = "${text//\$work/$work}" ] || { printf 'of: %s\nis:     %s\nwanted: %s\n' "$command" "$said" "${text//\$work/$work}"; return 1; }
    done
}
where="name a campaign's folder, its output folder, or --broker ENDPOINT"
beside="(the campaign of an output folder that was renamed keeps its name: rename it too); name its folder, the output folder, or --broker ENDPOINT"
ok "folders of campaigns" mistakes <<EOF
5|wiremill status .|wiremill status: . holds no campaign, nor is there \$work.wiremill beside it $beside
5|wiremill status folder/|wiremill status: folder/ holds no campaign, nor is there \$work/folder.wiremill beside it $beside
5|wiremill status /|wiremill status: / holds no campaign; name its folder, the output folder, or --broker ENDPOINT
2|wiremill status nosuch|wiremill status: nosuch does not exist; $where
2|wiremill held a.h5|wiremill held: a.h5 is a file; a folder is needed; $where
2|wiremill report a.h5/b -o x.html|wiremill report: a.h5/b does not exist: a.h5 is a file, no folder; $where
EOF
ok "inputs and models" mistakes <<EOF
2|wiremill run -m m.wmm -o o file://localhost/a/b%20c.h5|wiremill run: the input file://localhost/a/b%20c.h5 is local: give /a/b c.h5
2|wiremill import file:///m.onnx -o x.wmm|wiremill import: the model file:///m.onnx is local: give /m.onnx
2|wiremill import none.onnx -o x.wmm|wiremill import: the model none.onnx does not exist
2|wiremill import Synthetic -o x.wmm|wiremill import: the model Synthetic does not exist; the one that comes with wiremill is synthetic
2|wiremill run -m SYNTHETIC -o o a.h5|wiremill run: the model SYNTHETIC does not exist; the one that comes with wiremill is synthetic
2|wiremill plan -m Synthetic a.h5|wiremill plan: the model Synthetic does not exist; the one that comes with wiremill is synthetic
2|wiremill broker -m Synthetic -o o|wiremill broker: the model Synthetic does not exist; the one that comes with wiremill is synthetic
2|wiremill run -m m.wmm -o o none.h5|wiremill run: the input none.h5 does not exist
2|wiremill run -m m.wmm -o o folder/|wiremill run: folder/ is a folder; name its files: 'folder/*.h5'
2|wiremill export folder --to csv|wiremill export: folder is a folder; a file is needed
2|wiremill synth -o /|wiremill synth: --output / is a folder; give a file in it; see wiremill synth --help
2|wiremill broker -m m.wmm -o o --budget 1|wiremill broker: --budget takes a whole number from 17039360, also with K, M or G for KiB, MiB or GiB (64M), not '1'; see wiremill broker --help
2|wiremill import m.wmm -o x.wmm|wiremill import: m.wmm is imported already: give it by --model; see wiremill import --help
2|wiremill import a.onnx -o x.onnx|wiremill import: --output x.onnx: give a name that ends in .wmm, by which --model knows that it is imported; see wiremill import --help
5|wiremill cut -i m.wmm --patches p.npy|wiremill cut: m.wmm: a model, neither events nor scores: give it by --model
5|wiremill run -m m.wmm -o o a.h5 --spec tick.yaml|wiremill run: tick.yaml:1: tick_us: -1 is not above 0
EOF
ok "files of another kind" mistakes <<EOF
2|wiremill spec --check a.npy|wiremill spec: --check a.npy is a .npy array; a specification in YAML is needed; see wiremill spec --help
2|wiremill spec --check a.gz|wiremill spec: --check a.gz is compressed by gzip; a specification in YAML is needed; see wiremill spec --help
2|wiremill spec --check a.root|wiremill spec: --check a.root is a ROOT file; a specification in YAML is needed; see wiremill spec --help
2|wiremill spec --check a.zip|wiremill spec: --check a.zip is an archive (.zip, .npz, .pt or .keras); a specification in YAML is needed; see wiremill spec --help
2|wiremill spec --check a.pkl|wiremill spec: --check a.pkl is a pickle of Python; a specification in YAML is needed; see wiremill spec --help
2|wiremill cut -i a.h5 --patches p.npy --spec m.wmm|wiremill cut: --spec m.wmm is a model; a specification in YAML is needed; see wiremill cut --help
2|wiremill plan --bench a.h5|wiremill plan: --bench a.h5 is an HDF5 file; JSON of wiremill bench or make bench is needed; see wiremill plan --help
2|wiremill cut -i a.h5 --patches p.npz|wiremill cut: --patches p.npz ends in .npz, but the .npy file of wiremill cut is written as .npy; give a name such as p.npy; see wiremill cut --help
2|wiremill report . -o r.pdf|wiremill report: --output r.pdf ends in .pdf, but the page of wiremill report is written as .html or .htm; give a name such as r.html; see wiremill report --help
EOF
no_arithmetic="has no such arithmetic, it computes in fp32; leave one of the two out"
ok "options that the engine does not heed" mistakes <<EOF
2|wiremill run -m m.wmm -o o a.h5 --precision fast --engine reference|wiremill run: --precision fast and --engine reference do not go together: reference $no_arithmetic; see wiremill run --help
2|wiremill run -m m.wmm -o o a.h5 --precision split --engine openvino|wiremill run: --precision split and --engine openvino do not go together: openvino $no_arithmetic; see wiremill run --help
2|wiremill run -m m.wmm -o o a.h5 --device cuda --engine sparse|wiremill run: --device cuda and --engine sparse do not go together: it computes on the CPU; leave one of the two out; see wiremill run --help
2|wiremill bench --engine openvino --isa avx2|wiremill bench: --isa and --engine openvino do not go together: only the engine sparse has instruction sets to choose from; leave one of the two out; see wiremill bench --help
2|wiremill bench --engine openvino --precision split|wiremill bench: --precision split and --engine openvino do not go together: openvino $no_arithmetic; see wiremill bench --help
2|wiremill-worker --broker ipc:///b --device cpu --engine cuda|wiremill-worker: --device cpu and --engine cuda do not go together: it computes on a GPU; leave one of the two out; see wiremill-worker --help
2|wiremill plan -m m.wmm a.h5 --precision fast --engine onnxruntime|wiremill plan: --precision fast and --engine onnxruntime do not go together: onnxruntime $no_arithmetic; see wiremill plan --help
2|wiremill work -b ipc:///b --engine openvino --isa avx2|wiremill work: --isa and --engine openvino do not go together: only the engine sparse has instruction sets to choose from; leave one of the two out; see wiremill work --help
EOF
devices="--device takes auto, cpu, cuda, cuda:N, opencl or opencl:N, not"
imported="was imported for the engines of wiremill: leave --engine out, or give --model the file that the plug-in takes"
ok "devices and engines that there are not" mistakes <<EOF
2|wiremill run -m m.wmm -o o a.h5 --device gpu|wiremill run: $devices 'gpu'; see wiremill run --help
2|wiremill run -m m.wmm -o o a.h5 --device cpu:1|wiremill run: $devices 'cpu:1'; see wiremill run --help
2|wiremill run -m m.wmm -o o a.h5 --device cuda:-1|wiremill run: --device cuda:-1: a GPU is cuda:N, N a number; see wiremill run --help
2|wiremill work -b ipc:///b --device CPU|wiremill work: $devices 'CPU'; see wiremill work --help
2|wiremill gateway -m m=m.wmm --device gpu|wiremill gateway: $devices 'gpu'
2|wiremill run -m m.wmm -o o a.h5 --engine ./a.h5|wiremill run: --engine ./a.h5: a plug-in, but m.wmm $imported
EOF
ok "two files for what takes one" mistakes <<EOF
2|wiremill cut -i a.h5 -i ./a.h5 --patches p.npy|wiremill cut: --input takes one file, and is given a.h5 and ./a.h5; see wiremill cut --help
2|wiremill show s.h5 -o a.html --output=b.html|wiremill show: --output takes one file, and is given a.html and b.html; see wiremill show --help
EOF
run_twice () { timeout 60 wiremill run -m m.wmm -o twice -i a.h5 -i "$PWD/a.h5" ./a.h5 2>&1 | grep -E '^[0-9]+ left out|^wiremill-result' | sed 's/ changed=.*//'; }
ok "a file given three times counts once" test "$(run_twice)" = $'2 left out: given already\nwiremill-result exit=0 files=1 written=1 held=0 left=0'
ok "a query, in the name of the verb that was typed" mistakes <<EOF
2|wiremill sql twice "select * from nosuch"|wiremill sql: no such table: nosuch; \`wiremill sql DIR\` without a query lists the views and their columns
EOF
ok "names of options and verbs" mistakes <<EOF
2|wiremill --verison|wiremill: there is no option '--verison' before a verb (did you mean --version?); see wiremill --help
2|wiremill --model m.wmm run|wiremill: there is no option '--model' before a verb; see wiremill --help
2|wiremill run --hlep|wiremill run: there is no option '--hlep' (did you mean --help?); see wiremill run --help
2|wiremill verfy|wiremill: there is no verb 'verfy' (did you mean verify?); see wiremill --help
EOF
ok "a gateway" mistakes <<EOF
2|wiremill gateway -m m:x=m.wmm|wiremill gateway: --model m:x=m.wmm: VERSION is a number: write NAME=FILE, or NAME:2=FILE
2|wiremill gateway -m m:0=m.wmm|wiremill gateway: --model m:0=m.wmm: VERSION is a number: write NAME=FILE, or NAME:2=FILE
2|wiremill gateway -m m.wmm|wiremill gateway: --model m.wmm: write NAME=FILE, or NAME:VERSION=FILE
2|wiremill gateway -m m=m.wmm --engine sparse --device cuda:1|wiremill gateway: --device cuda:1 and --engine sparse do not go together: it computes on the CPU; leave one of the two out
2|wiremill gateway -m m=m.wmm --engine cudnn --device cpu|wiremill gateway: --device cpu and --engine cudnn do not go together: it computes on a GPU; leave one of the two out
2|wiremill gateway -r a.h5|wiremill gateway: --model-repository a.h5 is a file; a folder is needed; see wiremill gateway --help
EOF
if [ -s c.pem ]; then
    swapped () { refused 2 "k.pem: no certificate can be read there: .*; it holds a private key: swapped with --tls-key\?$" wiremill gateway \
        -m m=m.wmm --tls-certificate k.pem --tls-key c.pem; }
    ok "... whose certificate and key are swapped" swapped
    again () { refused 2 "c.pem: no key .*; it holds a certificate: swapped with --tls-certificate\?$" wiremill gateway \
        -m m=m.wmm --tls-certificate c.pem --tls-key c.pem; }
    ok "... whose key is the certificate" again
else
    skip "needs openssl"
fi
ok "join files" mistakes <<EOF
2|wiremill work --join-file a.h5|wiremill work: --join-file a.h5 is an HDF5 file; a join file is needed; see wiremill work --help
2|wiremill work --join-file none|wiremill work: the join file none: it does not exist
EOF

# ---- what is there, full or closed ----
wiremill run -q -m m.wmm -o out a.h5 >said 2>&1 || bail "no campaign: $(cat said)"
lost="stdout cannot be written: Bad file descriptor; what was printed there is incomplete"
full="stdout cannot be written: No space left on device; what was printed there is incomplete"
none='is a file of the campaign in $work/out.wiremill: give another name'
ok "a campaign's files, and outputs, are not replaced by --force" mistakes <<EOF
2|wiremill synth -o out.wiremill/ledger.db --force|wiremill synth: --output out.wiremill/ledger.db $none; see wiremill synth --help
2|wiremill cut -i a.h5 --patches out/a.scores.h5 --force|wiremill cut: --patches out/a.scores.h5 $none; see wiremill cut --help
2|wiremill report out -o out.wiremill/lock --force|wiremill report: --output out.wiremill/lock is a file of the campaign of out: give another file; see wiremill report --help
2|wiremill show out/a.scores.h5 -o out/a.scores.h5 --force|wiremill show: --output out/a.scores.h5 is also an input of this command: give another file; see wiremill show --help
EOF
as=()
[ "$(id -u)" != 0 ] || as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if chmod 711 "$work" && "${as[@]}" "$bin/wiremill" --version >/dev/null 2>&1 && "${as[@]}" test -r "$work/a.h5"; then
    other=${as[*]} no="this user may not read the campaign $work/out.wiremill: Permission denied"
    no+="; ask its owner: \`wiremill run --group NAME\` lets a group read it"
    mkdir mine && wiremill run -q -m m.wmm -o mine/o a.h5 >said 2>&1 && chmod 755 mine && chmod 0 mine/o.wiremill/ledger.db out.wiremill
    [ ${#as[@]} = 0 ] || chown -R 65534 mine
    ok "a campaign of another user" mistakes <<EOF
5|$other $bin/wiremill status out|wiremill status: $no
5|$other $bin/wiremill run -m m.wmm -o out a.h5|wiremill run: $no
5|$other $bin/wiremill verify out|wiremill verify: $no
5|$other $bin/wiremill status mine/o|wiremill-broker: this user may not read and write $work/mine/o.wiremill/ledger.db, a part of the campaign: Permission denied; ask its owner, or root, to allow it
EOF
    chmod 755 out.wiremill
else
    skip "needs setpriv where root runs the tests, to be another user"
fi
for program in wiremill wiremill-broker wiremill-gateway wiremill-producer wiremill-serve wiremill-worker; do
    ok "a closed or full stdout of $program" mistakes <<EOF
1|$program --help >&-|$program: $lost
1|$program --version >/dev/full|$program: $full
EOF
done
ok "... of verbs" mistakes <<EOF
1|wiremill status out >&-|wiremill: $lost
1|wiremill held out >/dev/full|wiremill: $full
1|wiremill show out/a.scores.h5 >&-|wiremill-producer: $lost
1|wiremill compare out/a.scores.h5 out/a.scores.h5 >/dev/full|wiremill-producer: $full
1|wiremill doctor folder >&-|wiremill: $lost
1|wiremill run -q -m m.wmm -o out a.h5 >&-|wiremill: $lost
EOF
if mkdir tiny && mount -t tmpfs -o size=64k none tiny 2>/dev/null; then
    at_exit 'umount -l "$work/tiny" 2>/dev/null; finish'
    head -c 65536 /dev/zero >tiny/ballast 2>/dev/null
    ok "a full disk is temporary" mistakes <<EOF
75|wiremill cut -i a.h5 --patches tiny/p.npy|wiremill cut: tiny/p.npy: cannot write: No space left on device; free some space there
75|wiremill export out/a.scores.h5 --to csv -o tiny|wiremill export: tiny/a.scores.csv: cannot write: No space left on device; free some space there
EOF
else
    skip "a tmpfs can be mounted by root only"
fi

quiet () # a wait that a person should know of is one line, also with --quiet
{
    local pid code
    WM_TIME_SCALE=1 wiremill run -q -m m.wmm -o away "http://127.0.0.1:$port/a.h5" >said 2>&1 &
    pid=$!
    until_true 100 grep -q '^wiremill run: waits: a server of remote inputs' said
    code=$?
    kill -TERM $pid
    wait $pid
    [ $code = 0 ] && says "http://127.0.0.1:$port/a.h5 cannot be copied" && [ "$(grep -c ' waits: ' said)" = 1 ]
}
if has curl; then ok "a server that is away, with --quiet" quiet; else skip "needs curl"; fi

# ---- what is held: whole at any number, no path twice ----
n=$(size 230 2300 5000) bad=70 side=16
[ -n "$small" ] || side=48
mkdir many && python3 - "$n" $bad $side <<'PY'
import struct, sys
n, bad, side = map (int, sys.argv[1:])
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, %d, %d), }" % (side, side)
nan = struct.pack ("<f", float ("nan"))
for i in range (n):
    open (f"many/e{i:05}.h5", "w").close ()
for i in range (bad): # a hit of two has a bad pixel
    with open (f"many/p{i:05}.npy", "wb") as f:
        f.write (b"\x93NUMPY\1\0v\0" + f"{head:<117}\n".encode () + nan + struct.pack ("<f", 1) * (2 * side * side - 1))
PY
run () { exits 3 timeout 500 wiremill run -q -m m.wmm 'many/*' -o out; }
ok "a campaign of $n inputs that are held, and $bad with a held hit" keep run
lists () # arguments...
{
    keep wiremill held out "$@" && [ "$(grep '^held: .*/many/e' said | sort -u | wc -l)" = "$lines" ] &&
        [ "$(grep '^held: 1 hit of .*/many/p.*: 1 bad pixel;' said | sort -u | wc -l)" = $bad ]
}
lines=$n ok "held --all lists each" lists --all
lines=$((n < 1000 ? n : 1000)) ok "... without it the first thousand" lists
json () { wiremill held out --json | python3 -c "import json, sys
d = json.load (sys.stdin)
sys.exit (not (d['total'] == $n == len ({h['path'] for h in d['held']}) and d['batches_left_out'] == 0 and d['hits'] == $bad and
    [f['reasons'] for f in d['held_files']] == [{'bad pixel': 1}] * $bad))"; }
advised () # the command that the shortened list names
{
    [ $n -gt 1000 ] || return 0
    local command
    command=$(wiremill held out | sed -n 's/^held: [0-9,]* more; `\(.*\)` lists them$/\1/p') && (cd / && eval "$command") | grep -c '/many/e' | grep -x $n
}
ok "... JSON all" json
ok "... and the command that is printed for more" advised
once () # no line of any surface names the same file twice
{
    { cat out.wiremill/log/*.log; wiremill held out --all; wiremill status out; wiremill why out; wiremill why out many/e00007.h5; } >said 2>&1
    [ "$(grep -c 'many/e0' said)" -ge "$((3 * n))" ] || { echo "few lines"; return 1; }
    ! grep -E '(many/e[0-9]+\.h5).*\1' said
}
ok "a line names an input once" once
done_testing
