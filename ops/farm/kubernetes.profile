# Kubernetes: one Deployment of workers, and one ScaledObject by which KEDA sets how many there are.
# Never run in a cluster: manifests are validated, Prometheus evaluates the query
# (tests/e2e/farmkube.t). KEDA asks Prometheus, which scrapes `wiremill serve`, how many batches
# there are to score, and changes the number of pods. A pod that goes gets SIGTERM and its grace
# period: its worker drains. Where the number is not known, KEDA leaves the pods as they are
# (ignoreNullValues). The worker's key is in a Secret, made from the join file.
names-not = *[!a-z0-9-]* *-: in Kubernetes a name has small letters, digits and - only
submit = kubectl {?join-file}
    {submit-option}
    delete secret {name} --ignore-not-found
submit = kubectl {?join-file}
    {submit-option}
    create secret generic {name} --from-file=join-worker={join-file}
submit = kubectl
    {submit-option}
    apply -f {file}
done = applied {file}; KEDA keeps {min} to {max} workers while `wiremill serve` runs and Prometheus scrapes it. To remove them type
    kubectl delete scaledobject,deployment,secret {name}

[kubernetes.yaml]
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  labels:
    app.kubernetes.io/name: wiremill-worker
    app.kubernetes.io/instance: {name}
spec: # KEDA sets replicas
  selector:
    matchLabels:
      app.kubernetes.io/instance: {name}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: wiremill-worker
        app.kubernetes.io/instance: {name}
    spec:
      terminationGracePeriodSeconds: {grace-s}
      automountServiceAccountToken: false
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: worker
          image: "{image/\/\\/"/\"}"
          args:
            - "work"
            - "--broker"
            - "{broker/\/\\/"/\"}"
            - "--join-file"{?join-file}
            - "/run/wiremill/join-worker"{?join-file}
            - "--cache"
            - "/tmp/wiremill"
            - "--threads"
            - "{cpus}"
            - "--give-up"
            - "{give-up-s}"
            - "{work-option/\/\\/"/\"}"
          env:
            - name: WM_JOB
              valueFrom:
                fieldRef:
                  fieldPath: metadata.name
          resources: # a worker has as many threads as CPUs
            requests:
              cpu: "{cpus}"
              memory: "{memory/\/\\/"/\"}"
            limits:
              cpu: "{cpus}"
              memory: "{memory/\/\\/"/\"}"
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop:
                - ALL
          volumeMounts:
            - name: scratch
              mountPath: /tmp
            - name: key{?join-file}
              mountPath: /run/wiremill{?join-file}
              readOnly: true{?join-file}
      volumes:
        - name: scratch
          emptyDir: {}
        - name: key{?join-file}
          secret:{?join-file}
            secretName: {name}{?join-file}
            defaultMode: 0440{?join-file}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: {name}
  labels:
    app.kubernetes.io/name: wiremill-worker
    app.kubernetes.io/instance: {name}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {name}
  pollingInterval: {interval-s}
  cooldownPeriod: {idle-s}
  minReplicaCount: {min}
  maxReplicaCount: {max}
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleDown:
          stabilizationWindowSeconds: {window-s}
  triggers:
    - type: prometheus
      metricType: AverageValue
      metadata:
        serverAddress: "{prometheus/\/\\/"/\"}"
        query: max(wiremill_demand_batches{campaign="{campaign}"})
        threshold: "{batches-each}"
        activationThreshold: "0"
        ignoreNullValues: "false"
