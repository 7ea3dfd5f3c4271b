/* wm_clients.c - see wm_clients.h.  */
#include "ops/campaign/wm_clients.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool wm_clients_refused (const wm_args_t *args)
{
    static const char *const of_files[] = { "output",
                                            "layout",
                                            "planes",
                                            "channels",
                                            "hit-time",
                                            "hit-offset",
                                            "pedestal",
                                            "batch-hits",
                                            "on-done",
                                            "input",
                                            "input-list",
                                            "scratch",
                                            "stage-ahead",
                                            "stage-bytes",
                                            "retry-held",
                                            "held-ok",
                                            "files-from-command",
                                            "files-ahead",
                                            "command-timeout",
                                            "asked-files",
                                            "processed-pfns",
                                            "processed-dids",
                                            "sidecars",
                                            "sidecar-metadata" };
    for (size_t i = 0; i < sizeof of_files / sizeof *of_files; i++)
        if (wm_args_given (args, of_files[i]))
            return wm_args_refuse (args,
                                   "--%s is for files, which a broker for clients does "
                                   "neither read nor write",
                                   of_files[i]);
    if (wm_args_each (args, "bulk", WM_PROCESSES_BULK_MAX))
        return wm_args_refuse (args, "--bulk may be given at most %d times", WM_PROCESSES_BULK_MAX);
    if (strcmp (wm_args_text (args, "precision"), "fp32") != 0)
        return wm_args_refuse (args,
                               "--precision %s is measured on the first hits of files: a "
                               "broker for clients scores in fp32",
                               wm_args_text (args, "precision"));
    return false;
}

bool wm_clients_missed (const wm_args_t *args)
{
    if (wm_args_given (args, "exact-types"))
        return wm_args_refuse (args,
                               "--exact-types is for --clients: columns of files are float32");
    if (wm_args_given (args, "bulk"))
        return wm_args_refuse (args, "--bulk is for --clients: `wiremill work` serves campaigns");
    return false;
}

void wm_clients_bulk (const wm_args_t *args, wm_processes_t *crew)
{
    for (int i = 0; i < WM_PROCESSES_BULK_MAX; i++)
        crew->bulk[i] = wm_args_each (args, "bulk", i);
    crew->bulk_share = wm_args_text (args, "bulk-share");
    crew->bulk_when = wm_args_text (args, "bulk-when");
}

void wm_clients_print (const char *endpoint, const char *campaign)
{
    char here[PATH_MAX];
    const bool is_here = realpath (WM_CLIENTS_FOLDER, here) && strcmp (here, campaign) == 0;
    fprintf (stderr, "wiremill run: serves clients at %s\n  in Python: wiremill.Client(",
             endpoint);
    fprintf (stderr,
             is_here ? ") in this folder, elsewhere wiremill.Client(\"%s\")\n" : "\"%s\")\n",
             endpoint);
    fputs ("  Ctrl-C ends it; no patches and no scores are kept\n", stderr);
}

void wm_clients_summary (const json_t *status, double seconds)
{
    char text[64], time[32];
    if (status)
        printf ("%s scored in %s\n",
                wm_show_rows (wm_ask_int (status, "hits.done"), wm_ask_rows (status), text),
                wm_show_time (seconds, time));
}
