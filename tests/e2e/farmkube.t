#!/bin/bash
# farmkube.t - wiremill farm --system kubernetes: its manifests by validators and by Prometheus, a pod's worker, kubectl.
cd "$(dirname "$0")/../.." || exit 1
. tests/helper.sh
export WM_TIME_SCALE=10 XDG_CACHE_HOME=$work/cache
python=$PWD/build/venv/bin/python
make_model 1 && make_events kube --events 2 --seed 8 --hits 1000 --tpcs 1 || bail "no model or events"
out=$work/out folder=$work/out$beside/farm/k8s http=$((port + 5)) prometheus=http://127.0.0.1:$((port + 6))
unset WM_JOIN_FILE WM_BROKER

broker () # options...
{
    "$bin/wiremill" broker --model "$made/model-1.wmm" --output "$out" --batch-hits 8 "$@" >"$work/broker" 2>&1 &
    broker=$!
    until_true 60 grep -q "\"pid\": *$broker" "$out$beside/endpoint.json"
}
farm=("$bin/wiremill" farm "$out" --system kubernetes --name k8s --image registry.example/wiremill:1 --prometheus "$prometheus")
ok "a broker that nobody else reaches" broker --listen "ipc://$work/b"
unreachable () { refused 2 "pods cannot reach the broker at ipc:" "${farm[@]}" --max 4 --dry-run; }
ok "pods could not reach it" unreachable
kill $broker && wait $broker
ok "a broker" broker --listen "tcp://127.0.0.1:$port" --advertise tcp://broker.example:5555 --keys
id=$("$bin/wiremill" status "$out" --json | sed -n 's/.*"id": *"\([0-9a-f]\{32\}\).*/\1/p')
name=wm-${id:0:8}-k8s
wrong ()
{
    refused 2 "image is missing" "$bin/wiremill" farm "$out" --system kubernetes --max 1 --prometheus x --dry-run &&
        refused 2 "prometheus does not go with --system local" "$bin/wiremill" farm "$out" --system local --max 1 --prometheus x &&
        refused 2 "wall-time does not go with" "${farm[@]}" --max 4 --wall-time 1h &&
        refused 2 "small letters, digits and -" "${farm[@]}" --max 4 --name K8s --dry-run &&
        refused 2 "small letters, digits and -" "${farm[@]}" --max 4 --name k- --dry-run
}
ok "options that do not go" wrong
dry () { "${farm[@]}" --join-file "$out$beside/join-operator" --join-file "$out$beside/join-worker" --min 1 --max 40 --cpus 2 \
    --memory 2Gi --drain-time 50 --batches-each 3 --work-option=--isa --work-option='a "b" \c' --submit-option=--namespace=dune \
    --dry-run >"$work/said"; }
ok "--dry-run prints the manifests" dry
cp "$work/said" "$work/all.yaml"
lines ()
{
    says "^# kubectl --namespace=dune create secret generic $name --from-file=join-worker=$out$beside/join-worker\$" &&
        says "^# kubectl --namespace=dune apply -f $folder/kubernetes.yaml\$" && says '^ +terminationGracePeriodSeconds: 60$' &&
        says '^ +- "tcp://broker.example:5555"$' && says '^ +threshold: "3"$' && [ ! -e "$folder" ]
}
ok "... and the commands, and does nothing" lines
secret () { ! grep -Fq "$(cut -c 20-60 "$out$beside/join-worker")" "$work/all.yaml"; }
ok "no secret is in them" secret

# The Deployment by the schemas of Kubernetes, the ScaledObject by that of KEDA's v1alpha1 (as far as we use it).
cat >"$work/check.py" <<'PYTHON'
import sys, yaml, jsonschema, kubernetes_validate
text = {"type": "string"}
number = {"type": "integer", "minimum": 0}
def map_of(needed=(), **keys):
    return {"type": "object", "additionalProperties": False, "properties": keys, "required": list(needed)}
behavior = map_of(scaleDown=map_of(stabilizationWindowSeconds={"type": "integer", "minimum": 0, "maximum": 3600}))
trigger = map_of(["type", "metadata"], type={"const": "prometheus"}, metricType={"enum": ["AverageValue", "Value"]},
    metadata=map_of(["serverAddress", "query", "threshold"], serverAddress=text, query=text, threshold=text,
        activationThreshold=text, ignoreNullValues={"enum": ["true", "false"]}))
scaled = map_of(["apiVersion", "kind", "metadata", "spec"], apiVersion={"const": "keda.sh/v1alpha1"},
    kind={"const": "ScaledObject"}, metadata={"type": "object"},
    spec=map_of(["scaleTargetRef", "triggers"], scaleTargetRef=map_of(["name"], apiVersion=text, kind=text, name=text),
        pollingInterval=number, cooldownPeriod=number, minReplicaCount=number, maxReplicaCount=number,
        triggers={"type": "array", "items": trigger, "minItems": 1},
        advanced=map_of(horizontalPodAutoscalerConfig=map_of(behavior=behavior))))
deployment, object = yaml.safe_load_all(open(sys.argv[1]))
kubernetes_validate.validate(deployment, "1.30", strict=True)
jsonschema.validate(object, scaled)
spec = deployment["spec"]["template"]["spec"]
labels = deployment["spec"]["template"]["metadata"]["labels"]
assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items(), "the selector matches no pod"
assert object["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"], "nothing is scaled"
assert {m["name"] for m in spec["containers"][0]["volumeMounts"]} == {v["name"] for v in spec["volumes"]}, "volumes"
what = sys.argv[2]
print(object["spec"]["triggers"][0]["metadata"]["query"] if what == "query" else
    spec["terminationGracePeriodSeconds"] if what == "grace" else "\n".join(spec["containers"][0]["args"]))
PYTHON
if "$python" -c 'import kubernetes_validate' 2>/dev/null; then
    valid () { keep "$python" "$work/check.py" "$work/all.yaml" args && says '^a "b" \\c$' && says '^/run/wiremill/join-worker$'; }
    ok "kubernetes-validate takes the Deployment, strictly; KEDA's schema the ScaledObject" valid
    typo () { sed 's/terminationGracePeriodSeconds/terminationGracePeriod/' "$work/all.yaml" >"$work/typo.yaml"; ! "$python" "$work/check.py" "$work/typo.yaml" args; }
    ok "... which refuse a key that there is not" typo
else
    skip "the package kubernetes-validate is not in build/venv: PyPI was not reached (make deps-farm)"
fi

# What is applied, by a stand-in for kubectl.
mkdir "$work/path"
cat >"$work/path/kubectl" <<STANDIN
#!/bin/bash
echo "kubectl \$*" >>"$work/applied"
case " \$* " in *" create "*) [ ! -e "$work/refuse" ] || { echo 'error: secrets is forbidden' >&2; exit 1; } ;; esac
STANDIN
chmod +x "$work/path/kubectl"
apply () { PATH=$work/path:$PATH keep "${farm[@]}" --join-file "$out$beside/join-operator" --join-file "$out$beside/join-worker" --max 4 &&
    says "KEDA keeps 0 to 4 workers" && says "kubectl delete scaledobject,deployment,secret $name"; }
ok "the manifests are applied" apply
applied ()
{
    printf 'kubectl %s\n' "delete secret $name --ignore-not-found" \
        "create secret generic $name --from-file=join-worker=$out$beside/join-worker" \
        "apply -f $folder/kubernetes.yaml" | diff - "$work/applied" && grep -q '^kind: ScaledObject' "$folder/kubernetes.yaml"
}
ok "by these commands" applied
touch "$work/refuse"
forbidden () { PATH=$work/path:$PATH refused 1 "kubectl ended by .*secrets is forbidden" "${farm[@]}" --join-file "$out$beside/join-operator" \
    --join-file "$out$beside/join-worker" --max 4; }
ok "a kubectl that is refused" forbidden

if [ "$(size '' 1 1)" ] && "$python" -c 'import kubernetes_validate' 2>/dev/null; then
    # The worker as a pod starts it, in the middle of work, gets SIGTERM.
    "$bin/wiremill" produce --broker "tcp://127.0.0.1:$port" --join-file "$out$beside/join-producer" --input "$made/kube.h5" >"$work/produce" 2>&1 &
    producer=$!
    "${farm[@]}" --join-file "$out$beside/join-operator" --join-file "$out$beside/join-worker" --max 4 --work-option=--isa \
        --work-option=c --dry-run >"$work/pod.yaml"
    mapfile -t words < <("$python" "$work/check.py" "$work/pod.yaml" args | sed "s|^tcp://broker.example:5555$|tcp://127.0.0.1:$port|
        s|^/run/wiremill/|$out$beside/|; s|^/tmp/wiremill$|$work/pod-cache|")
    grace=$("$python" "$work/check.py" "$work/pod.yaml" grace)
    busy () { "$bin/wiremill" status "$out" --json | grep -q '"state": *"busy"'; }
    counters () { "$bin/wiremill" status "$out" --json | grep -Eo '"(n_fail|n_lost|duplicate|late|again)": *[0-9]+'; }
    WM_JOB=pod-1 "$bin/wiremill" "${words[@]}" >"$work/pod" 2>&1 &
    pod=$!
    ok "a worker by the pod's command computes" until_true 60 busy
    counted=$(counters)
    kill -TERM $pod
    start_s=$SECONDS
    leaves () { wait $pod; [ $? = 75 ] && [ $((SECONDS - start_s)) -lt "$grace" ] && grep -q 'leaves .* after' "$work/pod"; }
    ok "SIGTERM drains it within the grace period of $grace s" leaves
    same () { [ "$(counters)" = "$counted" ] || { echo "$counted"; counters; return 1; }; }
    ok "and nothing is lost or computed twice" same
    if command -v prometheus >/dev/null; then
        # What KEDA would ask.
        "$bin/wiremill" pause "$out" >/dev/null
        "$bin/wiremill" serve "$out" --listen "127.0.0.1:$http" --interval 0.3 >"$work/serve" 2>&1 &
        serve=$!
        cat >"$work/prometheus.yml" <<YML
global: {scrape_interval: 1s}
scrape_configs: [{job_name: wiremill, static_configs: [{targets: ["127.0.0.1:$http"]}]}]
YML
        prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/tsdb" \
                --web.listen-address="${prometheus#http://}" >"$work/prometheus" 2>&1 &
        server=$!
        query=$("$python" "$work/check.py" "$work/pod.yaml" query)
        asked () { promtool query instant "$prometheus" "$query" >"$work/said" 2>&1; [ "$(wc -l <"$work/said")" = 1 ] && says " => $1 @"; } # pattern
        ok "the ScaledObject's query, by Prometheus: 0 while paused" until_true 60 asked 0
        "$bin/wiremill" resume "$out" >/dev/null
        ok "else how many batches there are to score" until_true 60 asked '[1-9][0-9]+'
        "$bin/wiremill" work "$out" --idle-timeout 2 >"$work/fast" 2>&1 &
        wait $producer
        ok "the campaign is done" test $? = 0
        ok "then none: KEDA scales to --min" until_true 60 asked 0
        kill $serve && wait $serve
        gone () { promtool query instant "$prometheus" "$query" >"$work/said" 2>&1; ! grep -q '=>' "$work/said"; }
        ok "without wiremill serve the number is unknown, and KEDA leaves the pods (ignoreNullValues: false)" until_true 60 gone
        kill $server && wait $server
    else
        skip "prometheus is not installed (make deps-farm)"
    fi
fi
kill $broker && wait $broker
done_testing
