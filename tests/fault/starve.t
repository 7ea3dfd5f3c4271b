#!/bin/bash
# starve.t - one of two producers is stopped (SIGSTOP) while the broker asks it for batches: the other's
# input is scored meanwhile, `status` and `why` name the one that is stopped, and it ends well when it goes
# on. The protocol's times are not scaled: all of it must end before the broker drops the silent producer.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=1
. tests/fault/crew.sh
crew_model --events 1 --hits 1200
crew_new

crew_start broker
until_true 60 grep -q '"pid"' "$work/out$beside/endpoint.json" || bail "no broker: $(cat "$work/words.broker")"
"$bin/wiremill" pause --broker "$listen" >"$work/said" 2>&1 || bail "no pause: $(cat "$work/said")"
crew_start worker-1
crew_start producer
stopped=$pid
status () { keep "$bin/wiremill" status --broker "$listen" "$@"; }
announced () { status --json && says '"queued": *[1-9]' && says '"state": *"idle"'; }
until_true 60 announced || bail "nothing is announced: $(cat "$work/said")"
kill -STOP "$stopped"
"$bin/wiremill" resume --broker "$listen" >"$work/said" 2>&1 || bail "no resume: $(cat "$work/said")"
asked () { status --json && says '"asked": *[1-9]'; }
ok "the broker asks the stopped producer for batches" until_true 60 asked

crew_input=${crew_inputs[1]}
crew_start producer
other=$pid
ok "the other producer ends with 0" wait "$other"
unset "who[$other]"
early () { ! grep 'silent for' "$work/words.broker"; }
ok "before the stopped one is silent for too long" early
named () { status && says 'producer .* does not answer'; }
ok "status names the producer that does not answer" until_true 60 named
json () { status --json && says '"late_s": *[0-9]' && says '"asked": *0'; }
ok "so does its JSON, and nothing is reserved for it" json
why () { keep "$bin/wiremill" why --broker "$listen" && says 'producer .* does not answer'; }
ok "so does why" why
kill -CONT "$stopped"
ok "it goes on, and ends with 0" wait "$stopped"
unset "who[$stopped]"
peaceful () { ! grep refused "$work/words.broker"; }
ok "the broker refuses nothing that came late" peaceful
crew_stop
ok "both outputs are those of an undisturbed run" crew_same
done_testing
