/* folder_pairs.c - see folder_pairs.h.  */
#include "producer/results/folder_pairs.h"

#include "producer/files/wm_h5.h"
#include "producer/session/wm_produce_confine.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_log.h"
#include "schema/wm_pins.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char suffix[] = ".scores.h5";

static int is_output (const struct dirent *entry)
{
    const size_t n = strlen (entry->d_name), tail = sizeof suffix - 1;
    return n > tail && *entry->d_name != '.' && !strcmp (entry->d_name + n - tail, suffix);
}

static int by_bytes (const struct dirent **a, const struct dirent **b)
{
    return strcmp ((*a)->d_name, (*b)->d_name);
}

/* Takes the names of the outputs in the folder.  */
static wm_fault_t list_folder (wm_folder_side_t *self, wm_error_t *error)
{
    struct dirent **entry = NULL;
    const int n = scandir (self->folder, &entry, is_output, by_bytes);
    if (n < 0)
        return wm_fault (error, errno == ENOMEM ? WM_EHOST : WM_EUSAGE, "%.300s: %s", self->folder,
                         strerror (errno));
    self->output = calloc ((size_t) n + 1, sizeof *self->output);
    bool is_whole = self->output != NULL;
    for (int i = 0; i < n; i++) {
        if (is_whole)
            is_whole = (self->output[self->n++].name = strdup (entry[i]->d_name)) != NULL;
        free (entry[i]);
    }
    free (entry);
    return is_whole ? WM_OK : wm_fault (error, WM_EHOST, "out of memory for %d names", n);
}

static wm_fault_t list_side (wm_folder_side_t *self, const char *folder, wm_error_t *error)
{
    char output[PATH_MAX];
    if (wm_file_expect (folder, true, false, error))
        return error->fault;
    snprintf (self->folder, sizeof self->folder, "%s", folder);
    for (size_t n = strlen (folder); n > 1 && self->folder[n - 1] == '/'; n--)
        self->folder[n - 1] = 0;
    wm_fault_t fault = list_folder (self, error);
    if (!fault && !self->n && wm_folder_has_campaign (self->folder)) {
        wm_folder_output (self->folder, output);
        memcpy (self->folder, output, sizeof output);
        free (self->output);
        fault = list_folder (self, error);
    }
    if (!fault && !self->n)
        fault = wm_fault (error, WM_EUSAGE, "%.300s has no outputs (*%s)", self->folder, suffix);
    return fault;
}

wm_fault_t wm_folder_pairs_list (wm_folder_pairs_t *self, const char *const folder[2],
                                 wm_error_t *error)
{
    const wm_fault_t fault = list_side (&self->side[0], folder[0], error);
    return fault ? fault : list_side (&self->side[1], folder[1], error);
}

wm_fault_t wm_folder_pairs_confine (const wm_folder_pairs_t *self, wm_error_t *error)
{
    const wm_folder_side_t *side = self->side;
    const size_t n = side[0].n + side[1].n;
    const char **path = calloc (n, sizeof *path);
    bool is_whole = path != NULL;
    for (size_t i = 0; i < n && is_whole; i++) {
        const wm_folder_side_t *from = &side[i >= side[0].n];
        char *text = NULL;
        is_whole = asprintf (&text, "%s/%s", from->folder,
                             from->output[i - (from == side ? 0 : side[0].n)].name) >= 0;
        path[i] = is_whole ? text : NULL;
    }
    if (is_whole) {
        wm_produce_confine_reader (path, n);
        wm_h5_init ();
    }
    for (size_t i = 0; i < n && path; i++)
        free ((char *) (uintptr_t) path[i]);
    free (path);
    return is_whole ? WM_OK : wm_fault (error, WM_EHOST, "out of memory for %zu outputs", n);
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static void read_inputs (wm_folder_side_t *self)
{
    static char text[WM_PINS_BYTES_MAX];
    char path[PATH_MAX + NAME_MAX + 2];
    wm_error_t error;
    for (size_t i = 0; i < self->n; i++) {
        snprintf (path, sizeof path, "%s/%s", self->folder, self->output[i].name);
        wm_h5_t *file = wm_h5_open (path, &error);
        if (file && wm_h5_text (file, "input", text, sizeof text) && *text)
            self->output[i].input = strdup (text);
        if (!file) {
            wm_log_sanitize (error.text);
            self->output[i].why = strdup (error.text);
        }
        wm_h5_close (&file);
    }
}

static const char *text_of (const wm_folder_output_t *output, bool is_input)
{
    return is_input ? output->input ? output->input : "" : output->name;
}

static int by_input (const void *a_v, const void *b_v)
{
    const wm_folder_output_t *const *a = a_v, *const *b = b_v;
    const int order = strcmp (text_of (*a, true), text_of (*b, true));
    return order ? order : strcmp ((*a)->name, (*b)->name);
}

static int by_name (const void *a_v, const void *b_v)
{
    const wm_folder_output_t *const *a = a_v, *const *b = b_v;
    return strcmp ((*a)->name, (*b)->name);
}

/* Pairs outputs that have the same text; both lists are sorted by it. partner: of A's outputs, by
   their places.  */
static void pair_up (wm_folder_side_t side[2], wm_folder_output_t **sorted[2], bool is_input,
                     wm_folder_output_t **partner)
{
    for (int s = 0; s < 2; s++)
        qsort (sorted[s], side[s].n, sizeof *sorted[s], is_input ? by_input : by_name);
    for (size_t i = 0, j = 0; i < side[0].n && j < side[1].n;) {
        wm_folder_output_t *a = sorted[0][i], *b = sorted[1][j];
        const char *of_a = text_of (a, is_input), *of_b = text_of (b, is_input);
        const int order = strcmp (of_a, of_b);
        if (a->is_taken || !*of_a)
            i++;
        else if (b->is_taken || !*of_b)
            j++;
        else if (!order) {
            partner[a - side[0].output] = b;
            a->is_taken = b->is_taken = true;
        } else
            *(order < 0 ? &i : &j) += 1;
    }
}

wm_fault_t wm_folder_pairs_match (wm_folder_pairs_t *self, wm_error_t *error)
{
    wm_folder_side_t *side = self->side;
    const size_t all = side[0].n + side[1].n;
    wm_folder_output_t **sorted = calloc (all, sizeof *sorted),
                       **partner = calloc (side[0].n + 1, sizeof *partner);
    wm_fault_t fault = WM_OK;
    self->pair = calloc (all, sizeof *self->pair);
    if (!sorted || !partner || !self->pair)
        fault = wm_fault (error, WM_EHOST, "out of memory for %zu outputs", all);
    else {
        for (size_t i = 0; i < all; i++)
            sorted[i] = i < side[0].n ? &side[0].output[i] : &side[1].output[i - side[0].n];
        read_inputs (&side[0]);
        read_inputs (&side[1]);
        for (int is_input = 1; is_input >= 0; is_input--)
            pair_up (side, (wm_folder_output_t * *[]){ sorted, sorted + side[0].n }, is_input,
                     partner);
        for (size_t i = 0; i < side[0].n; i++, self->n++) {
            self->pair[self->n].of[0] = &side[0].output[i];
            self->pair[self->n].of[1] = partner[i];
        }
        for (size_t i = 0; i < side[1].n; i++)
            if (!side[1].output[i].is_taken)
                self->pair[self->n++].of[1] = &side[1].output[i];
    }
    free (sorted);
    free (partner);
    return fault;
}

void wm_folder_pairs_path (const wm_folder_pairs_t *self, size_t i, int side, char path[PATH_MAX])
{
    const wm_folder_output_t *output = self->pair[i].of[side];
    *path = 0;
    if (output)
        snprintf (path, PATH_MAX, "%.3800s/%.255s", self->side[side].folder, output->name);
}

const char *wm_folder_pairs_name (const wm_folder_pairs_t *self, size_t i,
                                  char name[WM_FOLDER_NAME_BYTES])
{
    const wm_folder_output_t *const *of = self->pair[i].of;
    const bool is_one = !of[0] || !of[1] || !strcmp (of[0]->name, of[1]->name);
    snprintf (name, WM_FOLDER_NAME_BYTES, "%.255s%s%.255s", of[0] ? of[0]->name : of[1]->name,
              is_one ? "" : " and ", is_one ? "" : of[1]->name);
    return name;
}

void wm_folder_pairs_clear (wm_folder_pairs_t *self)
{
    for (int s = 0; s < 2; s++) {
        for (size_t i = 0; i < self->side[s].n; i++) {
            free (self->side[s].output[i].name);
            free (self->side[s].output[i].input);
            free (self->side[s].output[i].why);
        }
        free (self->side[s].output);
    }
    free (self->pair);
}
