#!/bin/bash
# farmpbs.t - wiremill farm by profiles: PBS with stand-ins of its commands, a profile of one's own, mistakes in one.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
. tests/farm.sh
export WM_TIME_SCALE=10 XDG_CACHE_HOME=$work/cache PBS=$work/pbs
n=$(size 400 6000 6000)
make_model 1 && make_events "condor-$n" --events 2 --seed 8 --hits "$n" --tpcs 1 || bail "no model or events"
out=$work/out folder=$work/out$beside/farm/p
unset WM_JOIN_FILE WM_BROKER
mkdir -p "$PBS" "$work/path" && echo 2 >"$PBS/slots"
for name in qsub qstat qsig qdel; do ln -s "$PWD/tests/standin/pbs.sh" "$work/path/$name"; done
PATH=$work/path:$PATH
# What the stand-in started ends with the test.
end_jobs ()
{
    local job pid
    for job in "$PBS"/*.job; do
        pid=$(sed -n 4p "${job%.job}" 2>/dev/null)
        [ "${pid:-0}" -le 1 ] || kill -KILL -- "-$pid" 2>/dev/null
    done
    finish
}
at_exit end_jobs

farm=("$bin/wiremill" farm "$out" --system pbs --name p --interval 0.3 --worth 0s --idle-timeout 3 --wall-time 90m)
jobs_of () { qstat -f | grep -B1 "Job_Name = wm-$id-p\$" | sed -n 's/^Job Id: //p'; }
ok "a broker" serve --listen "ipc://$work/b"
id=$("$bin/wiremill" status "$out" --json | sed -n 's/.*"id": *"\([0-9a-f]\{8\}\).*/\1/p')

# ---- PBS ----
dry ()
{
    keep "${farm[@]}" --min 2 --max 3 --memory 2gb --partition workq --account 'a b' --cpus 2 --submit-option=-m --submit-option=n --dry-run &&
        says "^2 times: qsub -N wm-$id-p -r y -j oe -o /dev/null -l select=1:ncpus=2:mem=2gb -l walltime=1:30:00 -q workq -A 'a b' -m n -- /bin/bash $folder/worker.sh\$" &&
        says "^    --wall-time 5280 " && says '^job=\$\{PBS_JOBID%%\.\*\} node=' && ! says ncpus=2$ && [ ! -e "$PBS/last" ]
}
ok "--dry-run prints the submission" dry
lean () { keep "${farm[@]}" --min 1 --max 1 --dry-run && says "^1 times: qsub -N wm-$id-p -r y -j oe -o /dev/null -l select=1:ncpus=1 -l walltime=1:30:00 -- "; }
ok "and leaves out what was not given" lean
no_image () { refused 2 "--image does not go with --system pbs" "${farm[@]}" --max 1 --image x; }
ok "an option that the profile does not use is refused" no_image
touch "$PBS/refuse"
refuses () { refused 1 "ends: pbs refused 2 submissions in a row" "${farm[@]}" --min 1 --max 1 --failures 2 && says "qsub ended by exit code 170: qsub: Unknown queue"; }
ok "a qsub that refuses ends the farm" refuses
rm "$PBS/refuse"

# ---- a profile of one's own ----
own=("$bin/wiremill" farm "$out" --profile "$work/own.profile" --name own --interval 0.2 --failures 2 --min 1 --max 1)
printf '%s\n' 'submit = true' 'drain = true' 'kill = true' 'job = job=$$ node=here' 'list = true' >"$work/own.profile"
blind () { refused 1 "ends: own took jobs 2 times, but .list. of $work/own.profile shows no job of them" "${own[@]}" && says "jobs called wm-$id-own may still run"; }
ok "a list that shows no jobs ends the farm, which submits no more" blind
sed -i 's/^list = .*/list = echo 12 runs/' "$work/own.profile"
"${own[@]}" >"$work/farm" 2>&1 & farm_pid=$!
odd () { grep -q 'its `list` gave the line "12 runs", which is no ID|STATE|NODE|TEXT; the farm tries again and submits nothing' "$work/farm"; }
ok "a list that gives other lines is reported, and nothing is submitted" until_true 60 odd
kill -KILL $farm_pid; wait $farm_pid 2>/dev/null
printf '%s\n' 'submit = true' 'drain = true' 'kill = true' 'job = job=$$ node=here' 'list = echo 12|R|here' >"$work/own.profile"
"${own[@]}" --failures 1 >"$work/farm" 2>&1 & farm_pid=$!
ok "--failures 1: a list that shows the job is no failure" until_true 60 grep -q '"running": 1' "$out$beside/farm/own/farm.json"
kill -KILL $farm_pid; wait $farm_pid 2>/dev/null
mistake () # pattern, then the profile from standard input
{
    cat >"$work/own.profile"
    refused 2 "$1" "${own[@]}" --dry-run
}
mistakes ()
{
    mistake "own.profile:2: \"submit qsub\" is no .key = value." <<<$'# mine\nsubmit qsub' &&
        mistake "own.profile:1: a profile has no key \"submitt\"; it has submit, list," <<<'submitt = qsub' &&
        mistake "own.profile:2: \{memroy\} is no value here; in .submit. there are: name campaign .* memory" <<<$'submit = qsub\n    --mem={memroy}\nlist = x\ndrain = x\nkill = x\njob = x' &&
        mistake "own.profile:1: \{id\} is no value here" <<<$'submit = qsub {id}\ndone = x' &&
        mistake "own.profile:1: \{folder/%\}: a replacement is \{name/A/B\}" <<<$'submit = qsub {folder/%}\ndone = x' &&
        mistake "own.profile:2: \{work-option\} is the second list of this line" <<<$'submit = qsub\n    {submit-option} {work-option}\nlist = x\ndrain = x\nkill = x\njob = x' &&
        mistake "own.profile: .submit. has no command: its first line has a value that is empty" <<<$'submit = qsub {partition}\nlist = true\ndrain = x\nkill = x\njob = x' &&
        mistake "own.profile:2: a quote is not closed" <<<$'submit = a\n    b \'c\ndone = x' &&
        mistake "own.profile:2: a second .reason." <<<$'reason = a\nreason = b' &&
        mistake "own.profile:1: a further line of no key" <<<'  submit = qsub' &&
        mistake "own.profile:1: .at-once. is a number" <<<'at-once = many' &&
        mistake "own.profile:1: \"\[a/b\]\" is no \[NAME\] of a file" <<<'[a/b]' &&
        mistake "own.profile: .kill. is missing; a profile has submit, list, drain, kill and job" <<<$'submit = a\nlist = b\ndrain = c\njob = d' &&
        mistake "own.profile: .done. is missing" <<<'submit = a' && mistake "own.profile: .submit. is missing" </dev/null
}
ok "each mistake in a profile is named with its file and line" mistakes
absent () { refused 2 "there is no .*/farm/slrum.profile; that folder has those" "$bin/wiremill" farm "$out" --system slrum --max 1; }
ok "a system without a profile" absent
neither () { refused 2 "NAME is missing .or --profile FILE" "$bin/wiremill" farm "$out" --max 1 && refused 2 "give one of the two" "${own[@]}" --system pbs; }
ok "neither or both of --system and --profile" neither

# ---- the loop, by PBS's profile ----
if [ "$(size '' 1 1)" ]; then
slow=(--work-option=--isa --work-option=c) # jobs meet a campaign that is not over yet
"$bin/wiremill" pause "$out" >/dev/null
start --max 3 "${slow[@]}"
"$bin/wiremill" produce --broker "ipc://$work/b" --input "$made/condor-$n.h5" >"$work/produce" 2>&1 &
producer=$!
has_queue () { "$bin/wiremill" status "$out" --json | grep -Eq '"queued": [1-9][0-9]'; }
ok "a queue" until_true 60 has_queue
"$bin/wiremill" resume "$out" >/dev/null
ok "with work it submits as many as --max allows, and those for which there are slots connect" until_true 60 sees 2
all () { [ "$(cat "$PBS/last")" = 3 ] && count 3; }
ok "each by a submission of its own" all
touch "$PBS/down"
noted () { grep -q "qstat ended by exit code 1.*: qstat: cannot connect to server pbs.*; the farm tries again" "$work/farm"; }
ok "a server that does not answer is reported" until_true 60 noted
rm "$PBS/down"
again () { grep -q 'pbs answers again' "$work/farm"; }
ok "and when it answers again" until_true 60 again
before=$(jobs_of)
kill -9 $farm_pid
start --max 3 "${slow[@]}"
found () { grep -q '1 pending, 2 running, 2 of them connected' "$work/farm"; }
ok "a farm that was killed: the next one finds its jobs" until_true 60 found
ok "and submits nothing twice" test "$before" = "$(jobs_of)"
ok "the campaign ends, then no job is left, and no failure was reported" finishes
kill -TERM $farm_pid && wait $farm_pid
"$bin/wiremill" run --model "$made/model-1.wmm" --quiet --input "$made/condor-$n.h5" --output "$work/alone" --batch-hits 16 \
        --workers 1 >"$work/run" 2>&1
ok "the output is that of one machine" same_scores "condor-$n" "$out" "$work/alone"
start --max 3 --min 3
ok "jobs that stay" until_true 60 sees 2
kill -TERM $farm_pid
ends () { wait $farm_pid; [ $? = 75 ]; }
ok "SIGTERM ends the farm with 75" ends
ok "and all its jobs" count 0
drained () { [ "$(grep -l 'draining: stopped by a signal' "$folder"/log/*.log | wc -l)" -ge 2 ]; }
ok "those that ran drained" drained
fi
kill $broker && wait $broker
done_testing
