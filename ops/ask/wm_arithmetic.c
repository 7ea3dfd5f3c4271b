/* wm_arithmetic.c - see wm_arithmetic.h.  */
#include "ops/ask/wm_arithmetic.h"
#include "kernels/wm_device.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"

#include <string.h>

/* What was measured of a signature, or NULL.  */
static const json_t *measured_of (const json_t *status, const char *signature)
{
    const json_t *one;
    size_t i;
    json_array_foreach (json_object_get (status, "arithmetic"), i, one)
    {
        if (strcmp (wm_ask_text (one, "signature"), signature) == 0 && wm_ask_int (one, "hits"))
            return one;
    }
    return NULL;
}

void wm_arithmetic_rows (FILE *out, const json_t *status, const char *head)
{
    const char *signature;
    json_t *count;
    char n[32], of[32], rows[64];
    json_object_foreach (json_object_get (status, "rows"), signature, count)
    {
        const json_t *measured = measured_of (status, signature);
        fprintf (out, "%s%s: %s", head, signature,
                 wm_show_rows (json_integer_value (count), wm_ask_rows (status), rows));
        if (measured && wm_ask_real (measured, "error") > 0)
            fprintf (out, "; largest error %.1e on %s", wm_ask_real (measured, "error"),
                     wm_show_count (wm_ask_int (measured, "hits"), of));
        fputc ('\n', out);
        head = "                   ";
    }
    double all = 0; /* exact up to 2^53, and no sum of a peer's numbers overflows it */
    json_object_foreach (json_object_get (status, "rows"), signature, count) all +=
        (double) json_integer_value (count);
    if (all > (double) wm_ask_int (status, "hits.done"))
        fprintf (out, "%scounting again what was scored more than once\n", head);
    const int64_t again = wm_ask_int (status, "counters.again");
    if (again)
        fprintf (out, "%s%s batches had %s beyond the allowed error: strict fp32 scored them\n",
                 head, wm_show_count (again, n), wm_ask_rows (status));
}

void wm_arithmetic_classes (FILE *out, const json_t *status)
{
    const json_t *list = json_object_get (status, "arithmetic"), *one;
    size_t i;
    char of[64];
    if (json_array_size (list))
        fprintf (out, "\n%-29s %-27s %s\n", "CLASS OF MACHINES", "SCORES WITH", "LARGEST ERROR");
    json_array_foreach (list, i, one)
    {
        fprintf (out, "%-29s %-27s ", wm_ask_text (one, "class"), wm_ask_text (one, "signature"));
        if (wm_ask_real (one, "error") > 0)
            fprintf (out, "%.1e on %s\n", wm_ask_real (one, "error"),
                     wm_show_rows (wm_ask_int (one, "hits"), wm_ask_rows (status), of));
        else
            fputs ("-\n", out);
    }
}

void wm_arithmetic_promise (const char *precision, const char *max_error, char text[80])
{
    snprintf (text, 80, *max_error ? "%.8s (off by at most %.16s)" : "%.8s", precision, max_error);
}

/* The first instruction set here whose arithmetic split may take beside fp32, or NULL.  */
static const char *matrix_units (void)
{
    wm_rule_t rule;
    for (uint32_t i = 0; wm_device_rule (i, &rule); i++)
        if (rule.split && !rule.fp32 && rule.here)
            return rule.isa;
    return NULL;
}

void wm_arithmetic_advise (FILE *out, const char *precision)
{
    const char *units = matrix_units ();
    if (strcmp (precision, "fp32") == 0 && units)
        wm_words_print (
            out,
            "this CPU has matrix units (%s): --precision split would be about 1.8 times as "
            "fast, off by at most 1e-05, where that holds for this model and its hits",
            units);
    else if (strcmp (precision, "split") == 0 && !units)
        fputs ("this CPU has no matrix units (AMX): split computes strict fp32 here\n", out);
}
