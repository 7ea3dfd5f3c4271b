/* wm_waits.c - see wm_waits.h.  */
#include "ops/view/wm_waits.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"

#include <string.h>

#define TOLD_S 5 /* a wait that lasts so long is reported */

/* ---- of earlier releases --------------------------------------------------------------------- */

static void add (json_t *list, const char *reason, const json_t *peer, const json_t *text)
{
    const wm_wait_row_t *row = &wm_waits[wm_wait_find (reason)];
    json_array_append_new (list, json_pack ("{s:s, s:O?, s:O?, s:s, s:s, s:s, s:b, s:f}", "reason",
                                            reason, "peer", peer, "text", text, "sentence",
                                            row->sentence, "advice", row->advice, "severity",
                                            wm_wait_severities[row->severity], "is_pause",
                                            row->is_pause, "since_s", 0.));
}

static json_t *of_earlier (const json_t *status)
{
    json_t *list = json_array ();
    const json_t *one;
    size_t i;
    const char *waiting = wm_ask_text (status, "waiting_for");
    if (*waiting && strcmp (waiting, wm_waits[WM_WAIT_PRODUCER].name) != 0)
        add (list, waiting, NULL, json_object_get (status, "paused"));
    json_array_foreach (json_object_get (status, "producers"), i, one)
    {
        const char *waits = wm_ask_text (one, "waits");
        if (*waits)
            add (
                list,
                wm_waits[strstr (waits, "disk full") ? WM_WAIT_OUTPUT_DISK : WM_WAIT_PRODUCER_WAITS]
                    .name,
                json_object_get (one, "label"), json_object_get (one, "waits"));
        else if (json_is_number (json_object_get (one, "late_s")))
            add (list, wm_waits[WM_WAIT_PRODUCER_LATE].name, json_object_get (one, "label"), NULL);
    }
    return list;
}

/* ---- all ------------------------------------------------------------------------------------- */

json_t *wm_waits_of (const json_t *status)
{
    json_t *list = json_object_get (status, "waits");
    return json_is_array (list) ? json_incref (list) : of_earlier (status);
}

static const char *or_table (const json_t *wait, const char *key, const char *own)
{
    const char *text = wm_ask_text (wait, key);
    return *own ? own : text; /* what this release knows is in this release's words */
}

const char *wm_waits_sentence (const json_t *wait)
{
    return or_table (wait, "sentence",
                     wm_waits[wm_wait_find (wm_ask_text (wait, "reason"))].sentence);
}

const char *wm_waits_advice (const json_t *wait)
{
    if (strstr (wm_ask_text (wait, "text"), "by itself"))
        return "";
    return or_table (wait, "advice", wm_waits[wm_wait_find (wm_ask_text (wait, "reason"))].advice);
}

const char *wm_waits_text (const json_t *wait, bool with_advice, char text[WM_WAITS_TEXT_BYTES])
{
    char since[32], who[200] = "";
    const char *sentence = wm_waits_sentence (wait), *peer = wm_ask_text (wait, "peer"),
               *more = wm_ask_text (wait, "text");
    const double since_s = wm_ask_real (wait, "since_s");
    if (*peer || since_s > 0)
        snprintf (who, sizeof who, " (%.100s%s%.40s)", peer, *peer && since_s > 0 ? ", for " : "",
                  since_s > 0 ? wm_show_time (since_s, since) : "");
    const char *advice = with_advice ? wm_waits_advice (wait) : "";
    snprintf (text, WM_WAITS_TEXT_BYTES, "%.200s%s%s%.500s%s%.300s",
              *sentence ? sentence : wm_ask_text (wait, "reason"), who, *more ? ": " : "", more,
              *advice ? "; " : "", advice);
    return text;
}

wm_wait_severity_t wm_waits_severity (const json_t *wait)
{
    const wm_wait_t known = wm_wait_find (wm_ask_text (wait, "reason"));
    if (known)
        return wm_waits[known].severity;
    const char *severity = wm_ask_text (wait, "severity");
    return strcmp (severity, "critical") == 0  ? WM_WAIT_CRITICAL
           : strcmp (severity, "warning") == 0 ? WM_WAIT_WARNING
                                               : WM_WAIT_INFO;
}

static bool has (const json_t *status, const char *reason, bool (*is) (const char *, const char *))
{
    json_t *by = json_object_get (status, "waits_by_reason");
    const char *name;
    json_t *unused;
    if (is (wm_ask_text (status, "waiting_for"), reason))
        return true;
    json_object_foreach (by, name, unused)
    {
        if (is (name, reason))
            return true;
    }
    json_t *list = by ? json_array () : wm_waits_of (status);
    bool any = false;
    for (size_t i = 0; i < json_array_size (list) && !any; i++)
        any = is (wm_ask_text (json_array_get (list, i), "reason"), reason);
    json_decref (list);
    return any;
}

static bool is_same (const char *name, const char *reason)
{
    return strcmp (name, reason) == 0;
}

bool wm_waits_has (const json_t *status, const char *reason)
{
    return has (status, reason, wm_wait_is_of);
}

bool wm_waits_has_just (const json_t *status, const char *reason)
{
    return has (status, reason, is_same);
}

wm_wait_t wm_waits_campaign (const json_t *status)
{
    return wm_wait_find (wm_ask_text (status, "waiting_for"));
}

void wm_waits_print (FILE *out, const json_t *status)
{
    char since[32];
    json_t *list = wm_waits_of (status);
    size_t i;
    const json_t *one;
    json_array_foreach (list, i, one)
    {
        const char *reason = wm_ask_text (one, "reason"), *peer = wm_ask_text (one, "peer"),
                   *text = wm_ask_text (one, "text"), *advice = wm_waits_advice (one);
        if (!*peer && strcmp (reason, wm_ask_text (status, "waiting_for")) == 0)
            continue;
        fprintf (out, "%s%swaits: %s (%s, for %s)%s%s\n", peer, *peer ? " " : "",
                 *text ? text : wm_waits_sentence (one), reason,
                 wm_show_time (wm_ask_real (one, "since_s"), since), *advice ? "; " : "", advice);
    }
    json_decref (list);
}

const char *wm_waits_short (const json_t *status)
{
    const json_t *list = json_object_get (status, "waits"), *first = json_array_get (list, 0);
    const char *waiting = wm_ask_text (status, "waiting_for");
    if (*waiting && strcmp (waiting, wm_waits[WM_WAIT_PRODUCER].name) != 0)
        return waiting;
    return first && wm_waits_severity (first) != WM_WAIT_INFO ? wm_ask_text (first, "reason")
                                                              : waiting;
}

void wm_waits_print_changes (const json_t *status, uint64_t *told, void (*before) (void))
{
    char text[WM_WAITS_TEXT_BYTES];
    json_t *list = wm_waits_of (status);
    size_t i;
    const json_t *one;
    json_array_foreach (list, i, one)
    {
        const uint64_t bit = 1ull << wm_wait_find (wm_ask_text (one, "reason"));
        if (wm_waits_severity (one) == WM_WAIT_INFO || (*told & bit) ||
            wm_ask_real (one, "since_s") < TOLD_S)
            continue;
        *told |= bit;
        before ();
        fprintf (stderr, "wiremill run: waits: %s\n", wm_waits_text (one, true, text));
    }
    json_decref (list);
}
