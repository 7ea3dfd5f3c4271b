/* compare_files.c - the part of the page of `wiremill compare` that states what was compared:
   files, inputs with their dates, models, engines, versions and campaigns, from the outputs.  */
#include "producer/results/compare_files.h"

#include "schema/page/wm_page.h"
#include "schema/wm_pins.h"

#include <stdlib.h>
#include <string.h>

#define DISTINCT_MAX 6
#define FILES_MAX 40
#define VALUE_BYTES 160

/* What the files of one side state, each value once.  */
typedef struct {
    uint32_t n;
    bool has_more;
    char value[DISTINCT_MAX][VALUE_BYTES];
} distinct_t;

enum { MODEL, PRECISION, ENGINE, VERSION, CAMPAIGN, FACTS };
static const char *const fact_name[FACTS] = { "Model (SHA-256)", "Precision", "Engine", "wiremill",
                                              "Campaign" };

typedef struct {
    distinct_t fact[FACTS];
    uint32_t n_other_spec; /* files with another specification than the first */
    char spec[WM_PINS_BYTES_MAX];
} side_t;

struct wm_compare_sides {
    side_t side[2];
};

wm_compare_sides_t *wm_compare_sides_new (void)
{
    return calloc (1, sizeof (wm_compare_sides_t));
}

void wm_compare_sides_free (wm_compare_sides_t *self)
{
    free (self);
}

static void add (void *arg, const char *text)
{
    distinct_t *self = arg;
    for (uint32_t i = 0; i < self->n; i++)
        if (!strncmp (self->value[i], text, VALUE_BYTES - 1))
            return;
    if (self->n == DISTINCT_MAX)
        self->has_more = true;
    else
        snprintf (self->value[self->n++], VALUE_BYTES, "%.*s", VALUE_BYTES - 1, text);
}

static void add_attribute (distinct_t *to, const wm_h5_t *file, const char *name)
{
    char text[VALUE_BYTES];
    if (wm_h5_text (file, name, text, sizeof text))
        add (to, text);
}

static void add_precision (distinct_t *to, const wm_h5_t *file)
{
    char text[VALUE_BYTES] = "", bound[VALUE_BYTES / 2], both[2 * VALUE_BYTES];
    if (!wm_h5_text (file, "precision", text, sizeof text))
        return;
    const bool has_bound = wm_h5_text (file, "max_error", bound, sizeof bound);
    snprintf (both, sizeof both, "%s%s%s", text, has_bound ? ", stated error " : "",
              has_bound ? bound : "");
    add (to, both);
}

/* One row of the table of files.  */
static void file_row (FILE *out, const char *side, const char *path, const wm_h5_t *file)
{
    char input[WM_PINS_BYTES_MAX] = "-", date[WM_PINS_BYTES_MAX] = "-";
    int64_t hits = 0, held = 0;
    wm_h5_text (file, "input", input, sizeof input);
    wm_h5_text (file, "input_mtime", date, sizeof date);
    const bool has_hits = wm_h5_number (file, "hits", &hits);
    wm_h5_number (file, "hits_held", &held);
    wm_page_row (out, "%s", side);
    wm_page_put (out, "td", "%s", path);
    wm_page_put (out, "td", "%s", input);
    wm_page_put (out, "td class=\"w\"", "%s", date);
    if (has_hits) {
        wm_page_count_cell (out, (uint64_t) hits);
        wm_page_count_cell (out, (uint64_t) held);
    } else
        fputs ("<td class=\"n\">-</td><td class=\"n\">-</td>", out);
    fputs ("</tr>\n", out);
}

static wm_fault_t file_add (side_t *side, const char *which, const char *path, FILE *rows,
                            wm_error_t *error)
{
    char spec[WM_PINS_BYTES_MAX] = "";
    wm_h5_t *file = wm_h5_open (path, error);
    if (!file)
        return error->fault;
    add_attribute (&side->fact[MODEL], file, "model_sha256");
    add_precision (&side->fact[PRECISION], file);
    wm_h5_texts (file, "engine/signature", add, &side->fact[ENGINE]);
    add_attribute (&side->fact[VERSION], file, "wiremill_version");
    add_attribute (&side->fact[CAMPAIGN], file, "campaign");
    if (wm_h5_lines (file, "specification", spec, sizeof spec)) {
        if (!*side->spec)
            memcpy (side->spec, spec, sizeof spec);
        side->n_other_spec += strcmp (side->spec, spec) != 0;
    }
    if (rows)
        file_row (rows, which, path, file);
    wm_h5_close (&file);
    return WM_OK;
}

wm_fault_t wm_compare_sides_add (wm_compare_sides_t *self, int side, const char *path,
                                 wm_error_t *error)
{
    return file_add (&self->side[side], NULL, path, NULL, error);
}

static void write_fact (FILE *out, const distinct_t *fact)
{
    fputs ("<td>", out);
    for (uint32_t i = 0; i < fact->n; i++) {
        fputs (i ? "<br>" : "", out);
        wm_page_print (out, "%s", fact->value[i]);
    }
    fputs (fact->has_more ? "<br>and others" : fact->n ? "" : "not stated", out);
    fputs ("</td>", out);
}

void wm_compare_sides_write (const wm_compare_sides_t *self, FILE *out)
{
    const side_t *side = self->side;
    wm_page_table (out, "As the files state it");
    wm_page_heads (out, "What|A|B");
    for (int f = 0; f < FACTS; f++) {
        wm_page_row (out, "%s", fact_name[f]);
        write_fact (out, &side[0].fact[f]);
        write_fact (out, &side[1].fact[f]);
        fputs ("</tr>\n", out);
    }
    wm_page_row (out, "Patch specification");
    fputs ("<td colspan=\"2\">", out);
    if (!*side[0].spec || !*side[1].spec)
        fputs ("only one side states it", out);
    else if (side[0].n_other_spec || side[1].n_other_spec)
        fputs ("not the same in all files", out);
    else
        fputs (strcmp (side[0].spec, side[1].spec) ? "A and B have different ones"
                                                   : "the same in A and B",
               out);
    fputs ("</td></tr>\n", out);
    wm_page_table_end (out);
}

wm_fault_t wm_compare_files_write (const char *const *path, size_t n, FILE *out, wm_error_t *error)
{
    char *text = NULL;
    size_t bytes = 0;
    wm_fault_t fault = WM_OK;
    wm_compare_sides_t *sides = wm_compare_sides_new ();
    FILE *rows = open_memstream (&text, &bytes);
    if (!sides || !rows)
        fault = wm_fault (error, WM_EHOST, "out of memory for the page");
    for (size_t i = 0; i < n && !fault; i++)
        fault = file_add (&sides->side[i == n - 1], i == n - 1 ? "B" : "A", path[i],
                          i < FILES_MAX || i == n - 1 ? rows : NULL, error);
    if (rows)
        fclose (rows);
    if (!fault && text) {
        wm_compare_sides_write (sides, out);
        wm_page_table (out, "Dates are those of the inputs, when they were scored");
        wm_page_heads (out, "Side|Scores|Input|Date of the input|#Hits|#Held");
        fwrite (text, 1, bytes, out);
        wm_page_table_end (out);
        if (n > FILES_MAX + 1)
            wm_page_put (out, "p", "%zu more files of A are not listed.", n - 1 - FILES_MAX);
    }
    free (text);
    wm_compare_sides_free (sides);
    return fault;
}
