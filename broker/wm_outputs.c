/* wm_outputs.c - what a campaign wrote, and what became of that and of its inputs since.  */
#include "broker/wm_outputs.h"

#include "schema/wm_path.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* ---- as they are now ---------------------------------------------------------------------------
 */
static void look_at (wm_core_t *core, uint32_t id, const wm_core_known_t *input, const char *folder)
{
    char path[WM_PATH_BYTES_MAX + 256];
    uint64_t size;
    int64_t mtime_ns;
    snprintf (path, sizeof path, "%s/%s", folder, input->name);
    const int there = wm_path_look (path, &size, &mtime_ns) == 0;
    if (there && size != input->out_size)
        wm_core_look_output (core, id, "its output is not as it was written");
    else if (there && mtime_ns != input->out_mtime_ns)
        wm_core_look_output (core, id,
                             "its output was touched since it was written; wiremill rebuild takes "
                             "it as it is if every byte is");
    else if (!there && errno == ENOENT)
        wm_core_look_output (core, id, "its output is gone");
}

void wm_outputs_look (wm_core_t *core, const char *folder)
{
    wm_core_known_t input;
    uint64_t size, n_unseen = 0;
    int64_t mtime_ns;
    const int unseen = access (folder, R_OK | X_OK) ? errno : 0;
    for (uint32_t id = 1; wm_core_known (core, id, &input); id++) {
        n_unseen += unseen && input.is_written;
        if (!unseen && input.is_written)
            look_at (core, id, &input, folder);
        if (wm_path_look (input.path, &size, &mtime_ns) == 0)
            wm_core_look_input (core, id, size, mtime_ns);
    }
    if (n_unseen)
        fprintf (stderr,
                 "wiremill-broker: the folder of the %llu outputs, %s, cannot be read: %s; mount "
                 "it, or say where it is now with wiremill rebuild --output DIR\n",
                 (unsigned long long) n_unseen, folder, strerror (unseen));
}
