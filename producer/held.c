/* held.c - `wiremill-producer held`: why hits of outputs have no scores, counted by reason. The
   account of a campaign (ops/ask/wm_account.c) has it from here.

   Prints a line for each file, in their order: {"reasons": {"bad time": 1, ...}, "events_missing":
   how many events only hits name}, or null where the file cannot be read.  */
#include "producer/verbs.h"

#include "producer/files/wm_h5.h"
#include "producer/session/wm_produce_confine.h"
#include "schema/wm_batch.h"

#include <stdio.h>
#include <stdlib.h>

/* clang-format off */
static const wm_option_t options[] = { {.name = NULL} };
static int held_main (const wm_args_t *args);
const wm_verb_t wm_verb_held = {
    .program = "wiremill-producer", .name = "held", .task = "parts of other verbs",
    .rest = "OUTPUT...",
    .summary = "count the held hits of outputs by reason, for wiremill held",
    .text = "`wiremill held` runs it.\n", .options = options, .run = held_main };
/* clang-format on */

#define PIECE_ROWS 65536u

static wm_fault_t count (const char *path, uint64_t n[WM_HIT_STATUSES], int64_t *n_missing,
                         wm_error_t *error)
{
    static int32_t status[PIECE_ROWS];
    wm_column_t column = { 0 };
    wm_h5_t *file = wm_h5_open (path, error);
    wm_fault_t fault =
        file ? wm_h5_column (file, "held/status", WM_H5_INTEGER, 1, &column, error) : error->fault;
    for (uint64_t row = 0; !fault && row < column.n_row;) {
        const uint64_t left = column.n_row - row, piece = left < PIECE_ROWS ? left : PIECE_ROWS;
        fault = wm_h5_read (&column, row, piece, WM_H5_I32, status, error);
        for (uint64_t i = 0; !fault && i < piece; i++)
            n[status[i] > 0 && status[i] < (int32_t) WM_HIT_STATUSES ? status[i] : WM_HIT_HELD]++;
        row += piece;
    }
    if (fault || !wm_h5_number (file, "events_missing", n_missing))
        *n_missing = 0;
    wm_h5_column_close (&column);
    wm_h5_close (&file);
    return fault;
}

static int held_main (const wm_args_t *args)
{
    size_t n_path;
    wm_error_t error;
    const char **path = wm_produce_confine_rest (args, &n_path);
    if (!path)
        return WM_EXIT_FAILURE;
    for (size_t i = 0; i < n_path; i++) {
        uint64_t n[WM_HIT_STATUSES] = { 0 };
        int64_t n_missing;
        const char *comma = "";
        if (count (path[i], n, &n_missing, &error)) {
            puts ("null");
            continue;
        }
        fputs ("{\"reasons\": {", stdout);
        for (uint32_t s = 1; s < WM_HIT_STATUSES; s++)
            if (n[s]) {
                printf ("%s\"%s\": %llu", comma, wm_hit_status_text ((uint8_t) s),
                        (unsigned long long) n[s]);
                comma = ", ";
            }
        printf ("}, \"events_missing\": %lld}\n", (long long) n_missing);
    }
    free (path);
    return WM_EXIT_OK;
}
