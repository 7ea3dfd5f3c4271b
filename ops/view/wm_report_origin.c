/* wm_report_origin.c - see wm_report_origin.h.  */
#include "ops/view/wm_report_origin.h"

#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/process/wm_command.h"
#include "schema/page/wm_page.h"

#include <math.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HOSTS_LISTED 8u

const char *wm_report_date (double unix_s, char text[32])
{
    struct tm utc;
    const time_t seconds = (time_t) unix_s;
    if (!gmtime_r (&seconds, &utc) || !strftime (text, 32, "%Y-%m-%d %H:%M:%S UTC", &utc))
        snprintf (text, 32, "?");
    return text;
}

void wm_report_row (FILE *out, const char *name, const char *value)
{
    wm_page_row (out, "%s", name);
    wm_page_put (out, "td", "%s", *value ? value : "-");
    fputs ("</tr>\n", out);
}

static void write_command (const wm_report_t *self, FILE *out)
{
    char *text = NULL, *line, *rest;
    size_t bytes = 0;
    FILE *memory = open_memstream (&text, &bytes);
    if (!memory)
        return;
    const bool is_known = wm_command_show (memory, self->folder);
    fclose (memory);
    if (is_known) {
        wm_page_put (out, "p", "%s",
                     wm_ask_serves_clients (self->status)
                         ? "The command that started the broker:"
                         : "The command that makes this campaign. Typed again, it continues; with "
                           "another --output, it scores the same again:");
        fputs ("<pre>", out);
        for (line = strtok_r (text, "\n", &rest); line; line = strtok_r (NULL, "\n", &rest)) {
            wm_page_print (out, "%s", line);
            fputc ('\n', out);
        }
        fputs ("</pre>\n", out);
    } else
        wm_page_put (out, "p", "The command that made this campaign is not known here.");
    free (text);
}

/* The length of a worker's name without the number of its process.  */
static size_t host_of (const wm_history_query_worker_t *worker)
{
    const char *colon = strrchr (worker->label, ':');
    return colon && strspn (colon + 1, "0123456789") == strlen (colon + 1)
               ? (size_t) (colon - worker->label)
               : strlen (worker->label);
}

static bool is_first_of_host (const wm_history_query_t *h, size_t at)
{
    const size_t n = host_of (&h->worker[at]);
    for (size_t i = 0; i < at; i++)
        if (host_of (&h->worker[i]) == n && !strncmp (h->worker[i].label, h->worker[at].label, n))
            return false;
    return true;
}

static void write_hosts (const wm_history_query_t *h, FILE *out)
{
    char text[600] = "";
    size_t at = 0, n = 0;
    for (size_t i = 0; i < h->n_worker && n <= HOSTS_LISTED; i++) {
        if (!is_first_of_host (h, i))
            continue;
        if (n++ < HOSTS_LISTED)
            at += (size_t) snprintf (text + at, sizeof text - at, "%s%.*s", at ? ", " : "",
                                     (int) fmin (64, (double) host_of (&h->worker[i])),
                                     h->worker[i].label);
    }
    if (n > HOSTS_LISTED)
        snprintf (text + at, sizeof text - at, " and others");
    if (n)
        wm_report_row (out, "Hosts of workers", text);
}

/* When it was worked on, by the history.  */
static void write_times (const wm_report_t *self, FILE *out)
{
    const double begun_s = wm_ask_real (self->status, "campaign.submitted");
    char text[32];
    wm_history_query_work_t work;
    wm_history_query_work (&self->history, &work);
    wm_report_row (out, "Begun", wm_report_date (begun_s, text));
    if (work.to_s <= 0)
        return;
    const bool has_ended = !strcmp (wm_ask_text (self->status, "campaign.state"), "finished");
    wm_report_row (out, has_ended ? "Ended" : "Last worked on", wm_report_date (work.to_s, text));
    wm_report_row (out, "Wall time", wm_show_time (fmax (0, work.to_s - begun_s), text));
}

/* The owner of its folder.  */
static void write_user (const wm_report_t *self, FILE *out)
{
    struct stat st;
    const struct passwd *user = NULL;
    if (*self->folder && !stat (self->folder, &st))
        user = getpwuid (st.st_uid);
    if (user)
        wm_report_row (out, "User", user->pw_name);
}

void wm_report_origin (const wm_report_t *self, FILE *out)
{
    const json_t *s = self->status;
    fputs ("<section><h2>Provenance</h2>\n", out);
    wm_page_table (out, "Where it comes from");
    wm_report_row (out, "Campaign", wm_ask_text (s, "campaign.id"));
    wm_report_row (out, "Its folder", wm_ask_text (s, "dir"));
    if (!wm_ask_serves_clients (s))
        wm_report_row (out, "Its outputs", wm_ask_text (s, "campaign.output"));
    write_user (self, out);
    write_times (self, out);
    write_hosts (&self->history, out);
    if (*wm_ask_text (s, "endpoint"))
        wm_report_row (out, "Broker", wm_ask_text (s, "endpoint"));
    wm_page_table_end (out);
    write_command (self, out);
    fputs ("</section>\n", out);
}
