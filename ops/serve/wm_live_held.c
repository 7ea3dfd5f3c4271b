/* wm_live_held.c - the page of what is held: a table, which a form of plain HTML filters by words
   and by reason. It has no script: nothing changes while a person reads it.  */
#include "ops/ask/wm_account.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/serve/wm_live_private.h"
#include "schema/page/wm_page.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 10000
#define ROWS_OF_PAGE 200
#define CLASSES_MAX 100 /* to choose from */
#define CLASS_BYTES 49
#define WORDS_BYTES 201

/* Texts are lent by the list.  */
typedef struct {
    const char *path, *output, *reason, *page; /* page: of its events, beside the output; "" */
    char what[96];
    char class[CLASS_BYTES]; /* the reason's first words */
    double hits;
} row_t;

typedef struct {
    char words[WORDS_BYTES], class[CLASS_BYTES];
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
    wanted->page = n > 1 && n < ROWS_MAX ? (size_t) n : 1;
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

/* "truncated" of "truncated: it has 100 bytes of 200".  */
static void class_of (const char *reason, char class[CLASS_BYTES])
{
    size_t n = strcspn (reason, ":;,(");
    n = n < CLASS_BYTES ? n : CLASS_BYTES - 1;
    while (n < strlen (reason) && n && ((unsigned char) reason[n] & 0xc0) == 0x80)
        n--; /* not within a character */
    while (n && reason[n - 1] == ' ')
        n--;
    memcpy (class, reason, n);
    class[n] = 0;
}

static void take_held (const json_t *held, row_t *row)
{
    int n = 0;
    const char *reason = wm_ask_held_reason (held), *state = wm_ask_text (held, "state");
    *row = (row_t){ .path = wm_ask_text (held, "path"),
                    .output = "",
                    .page = "",
                    .reason = *reason ? reason : "no reason given",
                    .hits = (double) wm_ask_int (held, "hits") };
    class_of (row->reason, row->class);
    if (strcmp (state, "batch") != 0)
        snprintf (row->what, sizeof row->what, "%s",
                  strcmp (state, "changed") == 0 ? "changed since it was scored" : "all of it");
    else if (json_is_integer (json_object_get (held, "event")))
        n = snprintf (row->what, sizeof row->what, "event %lld:%lld:%lld, ",
                      (long long) wm_ask_int (held, "run"), (long long) wm_ask_int (held, "subrun"),
                      (long long) wm_ask_int (held, "event"));
    if (json_is_integer (json_object_get (held, "batch")))
        snprintf (row->what + n, sizeof row->what - (size_t) n, "batch %lld",
                  (long long) wm_ask_int (held, "batch"));
}

/* Hits of a file, a row for each reason. Returns how many.  */
static size_t take_file (const json_t *file, row_t *row, size_t room)
{
    size_t n = 0;
    const char *reason;
    json_t *count, *reasons = json_object_get (file, "reasons");
    const bool is_open = strcmp (wm_ask_text (file, "state"), "open") == 0;
    const row_t hits = { .path = wm_ask_text (file, "path"),
                         .output = is_open ? "" : wm_ask_text (file, "output"),
                         .page = wm_ask_text (file, "page"),
                         .reason = is_open ? "known when its output is written"
                                           : "not known: its output cannot be read",
                         .what = "single hits",
                         .hits = (double) wm_ask_int (file, "held") };
    json_object_foreach (reasons, reason, count)
    {
        if (n == room)
            break;
        row[n] = hits;
        row[n].reason = reason;
        row[n].hits = fmin (fmax (json_number_value (count), 0), 0x1p53);
        class_of (reason, row[n++].class);
    }
    if (!json_object_size (reasons) && room) {
        *row = hits;
        class_of (row->reason, row->class);
        n = 1;
    }
    return n;
}

/* All rows; the caller's.  */
static row_t *take_rows (const json_t *list, size_t *n)
{
    size_t i;
    const json_t *one;
    row_t *row = calloc (ROWS_MAX, sizeof *row);
    *n = 0;
    json_array_foreach (json_object_get (list, "held"), i, one)
    {
        if (row && *n < ROWS_MAX)
            take_held (one, &row[(*n)++]);
    }
    json_array_foreach (json_object_get (list, "held_files"), i, one)
    {
        if (row)
            *n += take_file (one, &row[*n], ROWS_MAX - *n);
    }
    return row;
}

static bool is_wanted (const row_t *row, const wanted_t *wanted)
{
    return (!*wanted->class || strcmp (row->class, wanted->class) == 0) &&
           (!*wanted->words || strcasestr (row->path, wanted->words) ||
            strcasestr (row->reason, wanted->words) || strcasestr (row->what, wanted->words) ||
            strcasestr (row->output, wanted->words));
}

/* ---- the page -------------------------------------------------------------------------------- */

/* The reasons there are, with how many rows have each.  */
static void put_classes (FILE *out, const row_t *row, size_t n, const wanted_t *wanted)
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

static void put_form (FILE *out, const row_t *row, size_t n, const wanted_t *wanted,
                      const char *base)
{
    fprintf (out,
             "<form role=\"search\" method=\"get\" action=\"%s/held\">\n<label>Words "
             "<input type=\"search\" name=\"q\" maxlength=\"200\" value=\"",
             base);
    wm_page_print (out, "%s", wanted->words);
    fputs ("\"></label>\n<label>Reason <select name=\"reason\">", out);
    put_classes (out, row, n, wanted);
    fputs ("</select></label>\n<button>Show</button>\n</form>\n", out);
}

static void put_row (FILE *out, const row_t *row, const char *url)
{
    char n[32];
    const char *slash = strrchr (row->path, '/'), *base = slash ? slash + 1 : row->path;
    fputs ("<tr><th scope=\"row\">", out);
    wm_page_print (out, "%s", base);
    if (slash)
        wm_page_put (out, "small", "%.*s", (int) (base - row->path), row->path);
    fputs ("</th>", out);
    wm_page_put (out, "td", "%s", row->what);
    wm_live_number (out, "", row->hits, wm_show_count ((int64_t) row->hits, n));
    fputs ("<td>", out);
    wm_page_print (out, "%s", row->reason);
    if (*row->output)
        wm_page_put (out, "small", "named in the table \"held\" of %s", row->output);
    if (*row->page) {
        fprintf (out, "<a href=\"%s/event/", url);
        put_coded (out, row->page);
        fputs ("\">page of its events</a>", out);
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

static void put_table (FILE *out, const row_t *row, size_t n, wanted_t *wanted, const char *base)
{
    size_t n_wanted = 0, at = 0;
    char a[32], b[32], caption[120];
    for (size_t i = 0; i < n; i++)
        n_wanted += is_wanted (&row[i], wanted);
    const size_t n_page = (n_wanted + ROWS_OF_PAGE - 1) / ROWS_OF_PAGE;
    if (wanted->page > n_page)
        wanted->page = n_page ? n_page : 1;
    const size_t first = (wanted->page - 1) * ROWS_OF_PAGE;
    wm_live_begin (out, "list", "What is held", true);
    if (!n_wanted)
        fputs ("<p>No row has these words and this reason.</p>\n", out);
    else {
        snprintf (caption, sizeof caption, "%zu to %zu of %s rows%s", first + 1,
                  first + ROWS_OF_PAGE < n_wanted ? first + ROWS_OF_PAGE : n_wanted,
                  wm_show_count ((int64_t) n_wanted, a),
                  n_wanted < n ? " that are asked for; " : "");
        if (n_wanted < n)
            snprintf (caption + strlen (caption), sizeof caption - strlen (caption), "%s in all",
                      wm_show_count ((int64_t) n, b));
        wm_live_table (out, "list", "", "Input|What|#Hits|Reason", caption);
        for (size_t i = 0; i < n; i++)
            if (is_wanted (&row[i], wanted) && at++ >= first && at <= first + ROWS_OF_PAGE)
                put_row (out, &row[i], base);
        wm_live_table_end (out);
        put_steps (out, wanted, n_page);
    }
    wm_live_end (out);
}

/* What the list does not have.  */
static void put_rest (FILE *out, const json_t *list)
{
    char n[32];
    const int64_t rows = wm_ask_int (list, "held_total") -
                         (int64_t) json_array_size (json_object_get (list, "held")),
                  files = wm_ask_int (list, "held_files_left_out");
    if (rows > 0)
        wm_page_put (out, "p", "Not in the list: %s %s.", wm_show_count (rows, n),
                     wm_live_held_rows (rows));
    if (files > 0)
        wm_page_put (out, "p", "Not in the list: the hits of %s files.", wm_show_count (files, n));
}

static void put_list (FILE *out, const json_t *list, double age_s, const char *base,
                      const char *query)
{
    size_t n;
    char text[32];
    wanted_t wanted;
    row_t *row = take_rows (list, &n);
    take_wanted (query, &wanted);
    put_form (out, row, n, &wanted, base);
    put_table (out, row, n, &wanted, base);
    put_rest (out, list);
    wm_page_put (out, "p class=\"faint\"",
                 "Read %s ago. wiremill held lists all, wiremill why explains one, and wiremill "
                 "kick has an input scored again.",
                 wm_show_time (age_s, text));
    free (row);
}

static void put_state (FILE *out, const json_t *s)
{
    char held[64], n[32];
    const int64_t rows = wm_ask_int (s, "held_total");
    fprintf (out, "<div id=\"state\" class=\"state %s\"><strong>",
             !s                        ? "bad"
             : wm_account_is_clean (s) ? "good"
                                       : "warn");
    if (!s)
        fputs ("no broker has answered yet</strong>", out);
    else if (wm_account_is_clean (s))
        fputs ("nothing is held</strong>", out);
    else {
        wm_page_print (out, "%s",
                       wm_show_rows (wm_ask_int (s, "hits.held"), wm_ask_rows (s), held));
        wm_page_print (out, " held");
        fprintf (out, "</strong> and %s %s", wm_show_count (rows, n), wm_live_held_rows (rows));
    }
    fputs ("</div>\n", out);
}

char *wm_live_held_page (const json_t *now, const json_t *list, double age_s, const char *base,
                         const char *query, size_t *bytes)
{
    char name[64] = "wiremill", title[80], *text = NULL;
    FILE *out = open_memstream (&text, bytes);
    const bool has_more = now && !wm_account_is_clean (now), is_read = has_more && !list;
    assert (out);
    if (now)
        wm_account_name (now, name);
    snprintf (title, sizeof title, "%s: held", name);
    wm_live_head (out, title, title, is_read ? 1 : 0, false);
    fprintf (out,
             "<nav aria-label=\"Pages of the campaign\"><a href=\"%s/\">campaign</a>%s</nav>\n"
             "</header>\n<main id=\"main\" tabindex=\"-1\">\n",
             base, *base ? " <a href=\"/\">all campaigns</a>" : "");
    put_state (out, now);
    if (is_read)
        fputs ("<p>The list is being read; the page loads itself again.</p>\n", out);
    else if (has_more)
        put_list (out, list, age_s, base, query);
    fputs ("</main>\n<footer><p>The page only reads.</p></footer>\n</body>\n</html>\n", out);
    fclose (out);
    assert (text);
    return text;
}
