/* wm_farm_kubernetes.c - a farm in Kubernetes: one Deployment of workers, and one ScaledObject by
   which KEDA sets how many there are.

   KEDA asks Prometheus, which scrapes `wiremill serve`, how many batches there are to score
   (wiremill_demand_batches), and changes the number of pods; no loop of ours runs. A pod that goes
   gets SIGTERM and its grace period: its worker drains. Where the number is not known, since broker
   or Prometheus are away, KEDA leaves the pods as they are (ignoreNullValues). The worker's key is
   in a Secret, which is made from the join file and is in no manifest. Never run in a cluster.  */
#include "ops/farm/wm_farm.h"
#include "ops/process/wm_command.h"
#include "schema/base/wm_address.h"
#include "schema/base/wm_file.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX (16 + WM_FARM_OPTIONS_MAX)
#define JOIN_FOLDER "/run/wiremill"
#define GRACE_S 10 /* more than the drain: to load, to say goodbye */
#define WINDOW_S_MAX 3600

/* ---- YAML ------------------------------------------------------------------------------------ */

/* A string as YAML reads it whatever is in it.  */
static void print_text (FILE *out, const char *text)
{
    fputc ('"', out);
    for (; *text; text++)
        if ((unsigned char) *text < ' ')
            fprintf (out, "\\x%02x", (unsigned) *text);
        else
            fprintf (out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    fputc ('"', out);
}

static void print_item (FILE *out, const char *text)
{
    fputs ("            - ", out);
    print_text (out, text);
    fputc ('\n', out);
}

static void print_option (FILE *out, const char *name, const char *value)
{
    print_item (out, name);
    print_item (out, value);
}

static void print_meta (FILE *out, const wm_farm_t *self, const char *kind, const char *version)
{
    fprintf (out,
             "apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n  labels:\n"
             "    app.kubernetes.io/name: wiremill-worker\n    app.kubernetes.io/instance: %s\n",
             version, kind, self->name, self->name);
}

/* ---- the Deployment -------------------------------------------------------------------------- */

static void print_worker (FILE *out, const wm_farm_t *self)
{
    char number[24];
    fputs ("          args:\n", out);
    print_item (out, "work");
    print_option (out, "--broker", self->endpoint);
    if (*self->join_file)
        print_option (out, "--join-file", JOIN_FOLDER "/join-worker");
    print_option (out, "--cache", "/tmp/wiremill");
    snprintf (number, sizeof number, "%u", self->cpus);
    print_option (out, "--threads", number);
    snprintf (number, sizeof number, "%lld", (long long) self->give_up_s);
    print_option (out, "--give-up", number);
    for (int i = 0; self->work_option[i]; i++)
        print_item (out, self->work_option[i]);
    fputs ("          env:\n"
           "            - name: WM_JOB\n"
           "              valueFrom:\n"
           "                fieldRef:\n"
           "                  fieldPath: metadata.name\n",
           out);
}

/* What the pod asks for is what it may use: a worker has as many threads as CPUs.  */
static void print_resources (FILE *out, const wm_farm_t *self)
{
    static const char *const parts[] = { "requests", "limits" };
    fputs ("          resources:\n", out);
    for (int i = 0; i < 2; i++) {
        fprintf (out, "            %s:\n              cpu: \"%u\"\n", parts[i], self->cpus);
        if (self->memory) {
            fputs ("              memory: ", out);
            print_text (out, self->memory);
            fputc ('\n', out);
        }
    }
}

static void print_deployment (FILE *out, const wm_farm_t *self)
{
    print_meta (out, self, "Deployment", "apps/v1");
    fprintf (out,
             "spec:\n" /* KEDA sets replicas */
             "  selector:\n    matchLabels:\n      app.kubernetes.io/instance: %s\n"
             "  template:\n    metadata:\n      labels:\n"
             "        app.kubernetes.io/name: wiremill-worker\n"
             "        app.kubernetes.io/instance: %s\n"
             "    spec:\n"
             "      terminationGracePeriodSeconds: %lld\n"
             "      automountServiceAccountToken: false\n"
             "      securityContext:\n"
             "        runAsNonRoot: true\n        runAsUser: 65532\n        runAsGroup: 65532\n"
             "        fsGroup: 65532\n        seccompProfile:\n          type: RuntimeDefault\n"
             "      containers:\n        - name: worker\n          image: ",
             self->name, self->name, (long long) (self->drain_s + GRACE_S));
    print_text (out, self->image);
    fputc ('\n', out);
    print_worker (out, self);
    print_resources (out, self);
    fputs ("          securityContext:\n"
           "            allowPrivilegeEscalation: false\n"
           "            readOnlyRootFilesystem: true\n"
           "            capabilities:\n              drop:\n                - ALL\n"
           "          volumeMounts:\n"
           "            - name: scratch\n              mountPath: /tmp\n",
           out);
    if (*self->join_file)
        fputs ("            - name: key\n              mountPath: " JOIN_FOLDER "\n"
               "              readOnly: true\n",
               out);
    fputs ("      volumes:\n        - name: scratch\n          emptyDir: {}\n", out);
    if (*self->join_file)
        fprintf (out,
                 "        - name: key\n          secret:\n            secretName: %s\n"
                 "            defaultMode: 0440\n",
                 self->name);
}

/* ---- the ScaledObject ------------------------------------------------------------------------ */

static void print_scaled (FILE *out, const wm_farm_t *self, const wm_farm_limits_t *limits)
{
    const long long window_s = self->idle_s < WINDOW_S_MAX ? self->idle_s : WINDOW_S_MAX;
    print_meta (out, self, "ScaledObject", "keda.sh/v1alpha1");
    fprintf (out,
             "spec:\n"
             "  scaleTargetRef:\n    apiVersion: apps/v1\n    kind: Deployment\n    name: %s\n"
             "  pollingInterval: %lld\n"
             "  cooldownPeriod: %lld\n"
             "  minReplicaCount: %u\n"
             "  maxReplicaCount: %u\n"
             "  advanced:\n    horizontalPodAutoscalerConfig:\n      behavior:\n"
             "        scaleDown:\n          stabilizationWindowSeconds: %lld\n"
             "  triggers:\n    - type: prometheus\n      metricType: AverageValue\n"
             "      metadata:\n        serverAddress: ",
             self->name, (long long) self->interval_s, (long long) self->idle_s, limits->min,
             limits->max, window_s);
    print_text (out, self->prometheus);
    fprintf (out, "\n        query: max(wiremill_demand_batches{campaign=\"%s\"})\n",
             self->campaign);
    fprintf (out,
             "        threshold: \"%u\"\n"
             "        activationThreshold: \"0\"\n"
             "        ignoreNullValues: \"false\"\n",
             limits->batches_each);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* The kubectl command with these words (NULL ends them) and --submit-option's.  */
static void make_command (const wm_farm_t *self, const char *const words[],
                          const char *argv[WORDS_MAX])
{
    int n = 0;
    argv[n++] = "kubectl";
    for (int i = 0; self->submit_option[i]; i++)
        argv[n++] = self->submit_option[i];
    while (*words)
        argv[n++] = *words++;
    argv[n] = NULL;
}

static void print_command (FILE *out, const char *const argv[])
{
    fputs ("#", out);
    for (int i = 0; argv[i]; i++) {
        fputc (' ', out);
        wm_command_word (out, argv[i]);
    }
    fputc ('\n', out);
}

static wm_fault_t run (const char *const argv[], wm_error_t *error)
{
    char *output = NULL;
    const wm_fault_t fault = wm_farm_command (argv, 0, &output, error);
    free (output);
    return fault;
}

wm_fault_t wm_farm_kubernetes_check (const wm_farm_t *self, wm_error_t *error)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    wm_address_t list[WM_ADDRESSES_MAX];
    const size_t n = strlen (self->farm);
    if (self->farm[strspn (self->farm, letters)] || !n || self->farm[n - 1] == '-')
        return wm_fault (error, WM_EUSAGE,
                         "--name %s: in Kubernetes a name has small letters, digits and - only",
                         self->farm);
    const int n_address = wm_address_parse (list, self->endpoint, WM_ADDRESS_CONNECT, error);
    if (!n_address)
        return WM_EUSAGE;
    if (list[0].scheme != WM_ADDRESS_TCP || strncmp (self->endpoint, "tcp://127.", 10) == 0 ||
        strncmp (self->endpoint, "tcp://localhost:", 16) == 0 ||
        strncmp (self->endpoint, "tcp://[::1]:", 12) == 0)
        return wm_fault (error, WM_EUSAGE,
                         "pods cannot reach the broker at %.150s; start it with --listen "
                         "tcp://*:5555 or --advertise tcp://HOST:PORT, or give --broker",
                         self->endpoint);
    return WM_OK;
}

wm_fault_t wm_farm_kubernetes (const wm_farm_t *self, const wm_farm_limits_t *limits, FILE *dry,
                               wm_error_t *error)
{
    char path[PATH_MAX + 32], key[PATH_MAX + 32], *text = NULL;
    size_t bytes = 0;
    const char *forget[WORDS_MAX], *make[WORDS_MAX], *apply[WORDS_MAX];
    snprintf (path, sizeof path, "%s/kubernetes.yaml", self->folder);
    snprintf (key, sizeof key, "--from-file=join-worker=%s", self->join_file);
    make_command (self,
                  (const char *[]){ "delete", "secret", self->name, "--ignore-not-found", NULL },
                  forget);
    make_command (self, (const char *[]){ "create", "secret", "generic", self->name, key, NULL },
                  make);
    make_command (self, (const char *[]){ "apply", "-f", path, NULL }, apply);
    FILE *out = dry ? dry : open_memstream (&text, &bytes);
    assert (out);
    fprintf (out, "# Workers of wiremill's farm %s, campaign %s.\n", self->farm, self->campaign);
    if (dry && *self->join_file) {
        print_command (out, forget);
        print_command (out, make);
    }
    if (dry)
        print_command (out, apply);
    print_deployment (out, self);
    fputs ("---\n", out);
    print_scaled (out, self, limits);
    if (dry)
        return WM_OK;
    fclose (out);
    assert (text);
    wm_fault_t fault = wm_target_check (path, &wm_made_farm_yaml, -1, error);
    if (!fault)
        fault = wm_file_write (path, &(wm_part_t){ text, bytes }, 1, error);
    free (text);
    if (!fault && *self->join_file && !(fault = run (forget, error)))
        fault = run (make, error);
    return fault ? fault : run (apply, error);
}

static const char *const without[] = { "partition", "account", "wall-time", "prologue",
                                       "cache",     "program", "failures",  "node-failures",
                                       "worth",     NULL };

const wm_farm_system_t wm_farm_kubernetes_system = { .name = "kubernetes", .without = without };
