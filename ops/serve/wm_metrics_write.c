/* wm_metrics_write.c - heads, labels and samples in Prometheus' text format, and counters that do
   not fall back (wm_metrics_private.h).  */
#include "ops/serve/wm_metrics_private.h"

#include <math.h>
#include <string.h>

/* ---- counters that the ledger keeps ---------------------------------------------------------- */

/* What was shown last, by name and labels; of a process. What does not fit is shown as it is.  */
#define KEPT_MAX 2048 /* 64 campaigns have less than this */
static struct {
    char *key;
    double value;
} shown[KEPT_MAX];
static size_t n_shown;

static double not_falling (const char *name, const wm_metric_labels_t *labels, double value)
{
    char key[sizeof *labels + 64];
    size_t i = 0;
    snprintf (key, sizeof key, "%s{%s", name, labels->text);
    while (i < n_shown && strcmp (shown[i].key, key) != 0)
        i++;
    if (i == KEPT_MAX)
        return value;
    if (i == n_shown) {
        if (!(shown[i].key = strdup (key)))
            return value;
        n_shown++;
    } else if (value < shown[i].value && value >= shown[i].value / 2)
        return shown[i].value;
    return shown[i].value = value;
}

/* ---- one metric ------------------------------------------------------------------------------ */

void wm_labels_add (wm_metric_labels_t *self, const char *name, const char *value)
{
    const size_t begin = strlen (self->text), end = sizeof self->text - 3;
    size_t n = begin;
    n += (size_t) snprintf (self->text + n, end - n, "%s%s=\"", begin ? "," : "", name);
    for (; *value && n < end; value++) {
        if (*value == '"' || *value == '\\' || *value == '\n')
            self->text[n++] = '\\';
        self->text[n++] = *value == '\n' ? 'n' : *value;
    }
    if (n >= end)
        self->text[begin] = 0;
    else
        strcpy (self->text + n, "\"");
}

void wm_metrics_head (FILE *out, const wm_metrics_row_t *row)
{
    const char *type = strcmp (row->type, WM_METRICS_KEPT) == 0 ? "counter" : row->type;
    fprintf (out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name, type);
}

void wm_metrics_sample (FILE *out, const wm_metrics_row_t *row, const char *suffix,
                        const wm_metric_labels_t *labels, double value)
{
    if (strcmp (row->type, WM_METRICS_KEPT) == 0)
        value = not_falling (row->name, labels, value);
    fprintf (out, "%s%s{%s}", row->name, suffix, labels->text);
    if (value == floor (value) && fabs (value) < 1e15)
        fprintf (out, " %lld\n", (long long) value);
    else
        fprintf (out, " %.9g\n", value);
}

/* ---- a table --------------------------------------------------------------------------------- */

double wm_metrics_scaled (const wm_metrics_row_t *row, double value)
{
    return row->scale > 0 ? value * row->scale : value;
}

const json_t *wm_metrics_at (const json_t *object, const char *path)
{
    char name[64], *rest;
    snprintf (name, sizeof name, "%s", path);
    for (char *part = strtok_r (name, ".", &rest); part; part = strtok_r (NULL, ".", &rest))
        object = json_object_get (object, part);
    return object;
}

bool wm_metrics_find (const json_t *object, const char *path, double *value)
{
    *value = 0;
    for (size_t n; *path; path += n + (path[n] == '+')) {
        char name[64];
        n = strcspn (path, "+");
        snprintf (name, sizeof name, "%.*s", (int) n, path);
        const json_t *at = wm_metrics_at (object, name);
        if (!json_is_number (at))
            return false;
        *value += json_number_value (at);
    }
    return true;
}

void wm_metrics_rows (FILE *out, const wm_metrics_row_t *rows, size_t n, const json_t *status,
                      const wm_metric_labels_t *labels)
{
    const wm_metrics_row_t *metric = rows;
    for (size_t i = 0; i < n; i++) {
        const wm_metrics_row_t *row = &rows[i];
        wm_metric_labels_t with = *labels;
        double value;
        if (row->name)
            wm_metrics_head (out, metric = row);
        if (row->label)
            wm_labels_add (&with, row->label, row->value);
        if (wm_metrics_find (status, row->path, &value))
            wm_metrics_sample (out, metric, "", &with, wm_metrics_scaled (row, value));
    }
}
