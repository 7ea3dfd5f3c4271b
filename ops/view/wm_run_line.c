/* wm_run_line.c - see wm_run_line.h.  */
#include "ops/view/wm_run_line.h"
#include "ops/ask/wm_account.h"
#include "ops/ask/wm_ask.h"
#include "ops/view/wm_waits.h"

#include <stdio.h>

#define BAR_LEAST 5
#define BAR_MOST 20

void wm_run_line (const json_t *status, bool for_clients, int width,
                  char line[WM_WORDS_WIDTH_MAX + 1])
{
    char bar[64], done_text[32], all_text[48], rate_text[32], left_text[32] = "--:--";
    char share_text[32] = "   -- %", files[64], hits[120], rate[80], per_s[32], eta[48],
         waiting[80] = "";
    char rest[WM_WORDS_WIDTH_MAX + 1];
    const double share = wm_account_share (status), left = wm_ask_real (status, "eta_s");
    const char *waits = wm_waits_short (status);
    if (left > 0)
        wm_show_time (left, left_text);
    if (share >= 0)
        snprintf (share_text, sizeof share_text, "%5.1f %%", wm_account_percent (status));
    if (for_clients)
        snprintf (files, sizeof files, "clients %lld",
                  (long long) wm_ask_int (status, "inputs.open"));
    else
        snprintf (files, sizeof files, "files %lld/%lld",
                  (long long) wm_ask_int (status, "inputs.written"),
                  (long long) wm_ask_int (status, "inputs.total"));
    snprintf (hits, sizeof hits, "%.24s %s of %s", wm_ask_rows (status),
              wm_show_count (wm_ask_settled (status), done_text),
              wm_account_all (status, all_text));
    snprintf (rate, sizeof rate, "%s %s",
              wm_show_short (wm_ask_real (status, "rate.hits_s"), rate_text),
              wm_ask_rows_s (status, 30, per_s));
    snprintf (eta, sizeof eta, "ETA %s", left_text);
    if (*waits)
        snprintf (waiting, sizeof waiting, "waiting: %.60s", waits);
    const wm_show_part_t parts[] = { { share_text, 0 }, { files, 4 }, { hits, 5 },
                                     { rate, 3 },       { eta, 2 },   { waiting, 1 } };
    const int used = wm_show_fit (parts, sizeof parts / sizeof *parts, width, rest);
    const int room = width - used - 3; /* of its brackets and a space */
    if (room < BAR_LEAST)
        snprintf (line, WM_WORDS_WIDTH_MAX + 1, "%s", rest);
    else
        snprintf (line, WM_WORDS_WIDTH_MAX + 1, "%s %.*s",
                  wm_show_bar (share > 0 ? share : 0, room < BAR_MOST ? room : BAR_MOST, bar), used,
                  rest);
}
