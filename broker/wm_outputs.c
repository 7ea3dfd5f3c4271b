/* wm_outputs.c - what a finished campaign wrote.  */
#include "broker/wm_outputs.h"

#include <jansson.h>
#include <stdio.h>

typedef struct {
    const char *folder;
    json_t *written;
} list_t;

static void add (void *argument, const wm_ledger_input_t *input)
{
    list_t *self = argument;
    if (input->state ==
        WM_LEDGER_WRITTEN) /* a path that is no UTF-8 cannot be said, and is left out */
        json_array_append_new (self->written,
                               json_pack ("{s:s, s:o}", "input", input->path, "output",
                                          json_sprintf ("%s/%s", self->folder, input->name)));
}

char *wm_outputs_json (const wm_campaign_t *campaign, wm_error_t *error)
{
    static char pins[WM_PINS_BYTES_MAX];
    wm_pins_print (&campaign->pins, pins);
    list_t list = { .folder = campaign->pins.output, .written = json_array () };
    const wm_ledger_load_t load = { .input = add };
    if (wm_ledger_load (campaign->ledger, NULL, &load, &list, NULL, error)) {
        json_decref (list.written);
        return NULL;
    }
    json_t *root = json_pack ("{s:s, s:s, s:o}", "schema", "wiremill-outputs-1", "pins", pins,
                              "written", list.written);
    char *text = root ? json_dumps (root, JSON_COMPACT) : NULL;
    if (!text)
        wm_fault (error, WM_EHOST, "no memory");
    json_decref (root);
    return text;
}
