#!/bin/bash
# gatefull.t - the disk below the gateway's models is full when their first worker joins: clients are answered, nothing needs that
# disk any more.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/gateway.sh
export WM_TIME_SCALE=10 XDG_RUNTIME_DIR=$work
mkdir "$work/disk" "$work/bin"
if ! mount -t tmpfs -o size=64m none "$work/disk" 2>/dev/null; then
    echo "1..0 # SKIP a tmpfs can be mounted by root only"
    exit 0
fi
at_exit 'umount -l "$work/disk" 2>/dev/null; finish'
make_model "${small}1" || bail "no model"
# The gateway starts programs beside its own: of the worker one that waits until $work/joins is there.
for program in wiremill wiremill-gateway wiremill-broker; do cp "$bin/$program" "$work/bin/" || bail "no programs"; done
ln -s "$(realpath "$bin/wiremill-producer")" "$work/bin"
printf '#!/bin/bash\nuntil [ -e %q ]; do sleep 0.05; done\nexec -a wiremill-worker %q "$@"\n' "$work/joins" "$(realpath "$bin/wiremill-worker")" \
    >"$work/bin/wiremill-worker"
chmod +x "$work/bin/wiremill-worker"
"$work/bin/wiremill-gateway" gateway --grpc 127.0.0.1:0 --http 127.0.0.1:0 --threads 1 --state "$work/disk/state" \
    --model "m=$made/model-${small}1.wmm" 2>"$log" &
gateway=$!
until_true 60 address && address || bail "no gateway"
ready () { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$http/v2/health/ready")" = 200 ]; }
ok "its broker answers" until_true 60 "$bin/wiremill" status "$work/disk/state/0/c"
# To the last byte: the last page is filled by what is shorter than one.
full () { { dd if=/dev/zero of="$work/disk/ballast" bs=64k; dd if=/dev/zero of="$work/disk/rest" bs=512; } 2>/dev/null; ! echo more >"$work/disk/more"; }
ok "the disk is full" full
touch "$work/joins"
ok "a worker joins: the model is ready" until_true 60 ready
ask () { timeout 300 build/venv/bin/python tests/e2e/gateprio.py some "$http" "$1"; } # requests
ok "... a request is answered" ask 1
ok "... the next ones, too" ask 3
ok "the broker knows the worker's signature" grep -q '"signature": *"sparse' <("$bin/wiremill" status "$work/disk/state/0/c" --json)
kept () { ! grep 'does not know what is to be kept' "$log"; }
ok "... and has it in the journal, which took its space before" kept
rm "$work/disk/ballast" "$work/disk/rest"
ok "requests are answered" ask 1
ok "it ends" drained
done_testing
