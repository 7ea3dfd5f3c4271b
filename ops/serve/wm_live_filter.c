/* wm_live_filter.c - see wm_live_filter.h. */
#include "ops/serve/wm_live_filter.h"
#include "ops/ask/wm_account.h"
#include "ops/ask/wm_show.h"
#include "ops/serve/wm_live_private.h"
#include "schema/page/wm_page.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_OF_PAGE 200
#define CLASSES_MAX 100 /* to choose from */
#define WORDS_BYTES 201
#define PAGES_MAX 10000

typedef struct {
    char words[WORDS_BYTES], class[WM_LIVE_CLASS_BYTES];
    size_t page; /* from 1 */
} wanted_t;

/* ---- what is asked for ----------------------------------------------------------------------- */

/* A value of a query, "a=1&b=2"; "": it is not there.  */
static void take_value (const char *query, const char *name, char *value, size_t bytes)
{
    const size_t length = strlen (name);
    size_t n = 0;
    while (*query && (strncmp (query, name, length) != 0 || query[length] != '=')) {
        query += strcspn (query, "&");
        query += *query == '&';
    }
    for (query += *query ? length + 1 : 0; *query && *query != '&' && n < bytes - 1; query++) {
        const bool is_code = *query == '%' && isxdigit ((unsigned char) query[1]) &&
                             isxdigit ((unsigned char) query[2]);
        char hex[3] = "";
        if (is_code)
            memcpy (hex, query + 1, 2);
        const char c = (char) (is_code ? strtol (hex, NULL, 16) : *query == '+' ? ' ' : *query);
        query += is_code ? 2 : 0;
        if (c)
            value[n++] = c;
    }
    value[n] = 0;
}

static void take_wanted (const char *query, wanted_t *wanted)
{
    char page[16];
    take_value (query, "q", wanted->words, sizeof wanted->words);
    take_value (query, "reason", wanted->class, sizeof wanted->class);
    take_value (query, "page", page, sizeof page);
    const long n = strtol (page, NULL, 10);
    wanted->page = n > 1 && n < PAGES_MAX ? (size_t) n : 1;
}

static void put_coded (FILE *out, const char *text)
{
    for (; *text; text++)
        fprintf (out, isalnum ((unsigned char) *text) ? "%c" : "%%%02X", (unsigned char) *text);
}

/* The query of another page of the same rows; it is also text of HTML.  */
static void put_query (FILE *out, const wanted_t *wanted, size_t page)
{
    fputs ("?q=", out);
    put_coded (out, wanted->words);
    fputs ("&amp;reason=", out);
    put_coded (out, wanted->class);
    fprintf (out, "&amp;page=%zu", page);
}

/* ---- rows ------------------------------------------------------------------------------------ */

void wm_live_filter_class (const char *reason, char class[WM_LIVE_CLASS_BYTES])
{
    size_t n = strcspn (reason, ":;,(");
    n = n < WM_LIVE_CLASS_BYTES ? n : WM_LIVE_CLASS_BYTES - 1;
    while (n < strlen (reason) && n && ((unsigned char) reason[n] & 0xc0) == 0x80)
        n--; /* not within a character */
    while (n && reason[n - 1] == ' ')
        n--;
    memcpy (class, reason, n);
    class[n] = 0;
}

static const char *reason_of (const wm_live_filter_row_t *row)
{
    return row->reason ? row->reason : row->class;
}

static bool is_wanted (const wm_live_filter_row_t *row, const wanted_t *wanted)
{
    return (!*wanted->class || strcmp (row->class, wanted->class) == 0) &&
           (!*wanted->words || strcasestr (row->path, wanted->words) ||
            strcasestr (reason_of (row), wanted->words) || strcasestr (row->what, wanted->words) ||
            strcasestr (row->place, wanted->words) || strcasestr (row->output, wanted->words));
}

/* ---- what is written ------------------------------------------------------------------------- */

/* The classes there are, with how many rows have each.  */
static void put_classes (FILE *out, const wm_live_filter_row_t *row, size_t n,
                         const wanted_t *wanted)
{
    const char *class[CLASSES_MAX];
    size_t count[CLASSES_MAX] = { 0 }, n_class = 0;
    for (size_t i = 0, k; i < n; i++) {
        for (k = 0; k < n_class && strcmp (class[k], row[i].class) != 0;)
            k++;
        if (k == CLASSES_MAX)
            continue;
        class[k] = row[i].class;
        n_class += k == n_class;
        count[k]++;
    }
    fputs ("<option value=\"\">any</option>", out);
    for (size_t k = 0; k < n_class; k++) {
        fputs ("<option value=\"", out);
        wm_page_print (out, "%s", class[k]);
        fprintf (out, "\"%s>", strcmp (class[k], wanted -> class) == 0 ? " selected" : "");
        wm_page_print (out, "%s (%zu)", class[k], count[k]);
        fputs ("</option>", out);
    }
}

static void put_form (FILE *out, const wm_live_filter_t *self, const wm_live_filter_row_t *row,
                      size_t n, const wanted_t *wanted, const char *base)
{
    fprintf (out,
             "<form role=\"search\" method=\"get\" action=\"%s/%s\">\n<label>Words "
             "<input type=\"search\" name=\"q\" maxlength=\"200\" value=\"",
             base, self->name);
    wm_page_print (out, "%s", wanted->words);
    fprintf (out, "\"></label>\n<label>%s <select name=\"reason\">", self->choice);
    put_classes (out, row, n, wanted);
    fputs ("</select></label>\n<button>Show</button>\n</form>\n", out);
}

static void put_row (FILE *out, const wm_live_filter_t *self, const wm_live_filter_row_t *row,
                     const char *base)
{
    const char *slash = strrchr (row->path, '/'), *file = slash ? slash + 1 : row->path;
    fputs ("<tr><th scope=\"row\">", out);
    wm_page_print (out, "%s", file);
    if (slash)
        wm_page_put (out, "small", "%.*s", (int) (file - row->path), row->path);
    fputs ("</th>", out);
    fputs ("<td>", out);
    wm_page_print (out, "%s", row->what);
    if (*row->place)
        wm_page_put (out, "small", "%s", row->place);
    fputs ("</td>\n", out);
    wm_live_number (out, "", row->value, row->number);
    fputs ("<td>", out);
    wm_page_print (out, "%s", reason_of (row));
    if (*row->output)
        wm_page_put (out, "small", "%s %s", self->note, row->output);
    if (*row->page) {
        fprintf (out, " <a href=\"%s/event/", base);
        put_coded (out, row->page);
        fprintf (out, "%s%s\">page of its events</a>", row->is_hit ? "#" : "",
                 row->is_hit ? row->what : "");
    }
    fputs ("</td></tr>\n", out);
}

static void put_steps (FILE *out, const wanted_t *wanted, size_t n_page)
{
    if (n_page < 2)
        return;
    fputs ("<nav aria-label=\"Pages\">", out);
    for (int by = -1; by <= 1; by += 2) {
        const size_t page = wanted->page + (size_t) by;
        if (page < 1 || page > n_page)
            continue;
        fputs ("<a href=\"", out);
        put_query (out, wanted, page);
        fprintf (out, "\">%s page</a> ", by < 0 ? "previous" : "next");
    }
    fputs ("</nav>\n", out);
}

static void put_table (FILE *out, const wm_live_filter_t *self, const wm_live_filter_row_t *row,
                       size_t n, wanted_t *wanted, const char *base)
{
    size_t n_wanted = 0, at = 0;
    char a[32], b[32], caption[120];
    for (size_t i = 0; i < n; i++)
        n_wanted += is_wanted (&row[i], wanted);
    const size_t n_page = (n_wanted + ROWS_OF_PAGE - 1) / ROWS_OF_PAGE;
    if (wanted->page > n_page)
        wanted->page = n_page ? n_page : 1;
    const size_t first = (wanted->page - 1) * ROWS_OF_PAGE;
    wm_live_begin (out, "list", self->heading, true);
    if (!n_wanted)
        fputs ("<p>No row has these words and is of this kind.</p>\n", out);
    else {
        snprintf (caption, sizeof caption, "%zu to %zu of %s rows%s", first + 1,
                  first + ROWS_OF_PAGE < n_wanted ? first + ROWS_OF_PAGE : n_wanted,
                  wm_show_count ((int64_t) n_wanted, a),
                  n_wanted < n ? " that are asked for; " : "");
        if (n_wanted < n)
            snprintf (caption + strlen (caption), sizeof caption - strlen (caption), "%s in all",
                      wm_show_count ((int64_t) n, b));
        wm_live_table (out, "list", "", self->heads, caption);
        for (size_t i = 0; i < n; i++)
            if (is_wanted (&row[i], wanted) && at++ >= first && at <= first + ROWS_OF_PAGE)
                put_row (out, self, &row[i], base);
        wm_live_table_end (out);
        put_steps (out, wanted, n_page);
    }
    wm_live_end (out);
}

void wm_live_filter (FILE *out, const wm_live_filter_t *self, const wm_live_filter_row_t *row,
                     size_t n, const char *base, const char *query)
{
    wanted_t wanted;
    take_wanted (query, &wanted);
    put_form (out, self, row, n, &wanted, base);
    put_table (out, self, row, n, &wanted, base);
}

void wm_live_filter_begin (FILE *out, const json_t *now, const char *title, const char *base,
                           bool is_read)
{
    char name[64] = "wiremill", whole[120];
    if (now)
        wm_account_name (now, name);
    snprintf (whole, sizeof whole, "%s: %s", name, title);
    wm_live_head (out, whole, whole, is_read ? 1 : 0, false);
    fprintf (out, "<nav aria-label=\"Pages of the campaign\"><a href=\"%s/\">campaign</a> ", base);
    fprintf (out, "<a href=\"%s/held\">held</a> <a href=\"%s/worst\">worst hits</a>%s</nav>\n",
             base, base, *base ? " <a href=\"/\">all campaigns</a>" : "");
    fputs ("</header>\n<main id=\"main\" tabindex=\"-1\">\n", out);
}

void wm_live_filter_end (FILE *out)
{
    fputs ("</main>\n<footer><p>The page only reads.</p></footer>\n</body>\n</html>\n", out);
}
