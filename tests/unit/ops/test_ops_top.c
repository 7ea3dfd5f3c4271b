/* test_ops_top.c - screens of `wiremill top`: 0, 1 and 300 workers, any size, hostile text.  */
#include "ops/view/wm_top.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

static void campaign_new (wm_top_campaign_t *campaign, int n_worker, const char *label)
{
    char name[64];
    json_t *workers = json_array ();
    memset (campaign, 0, sizeof *campaign);
    for (int i = 0; i < WM_TOP_BUCKETS; i++)
        campaign->rate[i] = i < WM_TOP_BUCKETS - 1 ? -1 : 100;
    for (int i = 0; i < n_worker; i++) {
        snprintf (name, sizeof name, "%s%03d", label, i);
        json_array_append_new (workers, json_pack ("{s:s, s:s, s:f}", "label", name, "state",
                                                   "busy", "hits_s", (double) i));
    }
    campaign->status = json_pack ("{s:s, s:s, s:o, s:i, s:{s:s}}", "dir", "/d/out.wiremill",
                                  "endpoint", "tcp://h:5555", "workers", workers, "workers_total",
                                  n_worker, "campaign", "state", "running");
    assert_non_null (campaign->status);
    assert_int_equal (json_array_size (workers), n_worker);
}

/* Whether a line of the screen has this text.  */
static bool shows (const wm_screen_t *canvas, const char *text)
{
    for (int i = 0; i < canvas->n; i++)
        if (strstr (canvas->line[i], text))
            return true;
    return false;
}

static void draw (wm_screen_t *canvas, wm_top_view_t *view, const wm_top_campaign_t *campaign,
                  int rows, int columns)
{
    assert_true (wm_canvas_reset (canvas, rows, columns));
    wm_top_draw (canvas, view, campaign, 1);
    assert_true (canvas->n <= rows);
    for (int i = 0; i < canvas->n; i++) {
        assert_true (strlen (canvas->line[i]) <= (size_t) columns); /* no styles, no UTF-8 here */
        for (const char *c = canvas->line[i]; *c; c++)
            assert_true (*c >= ' ' && *c < 0x7f);
    }
}

static void test_workers (void **state)
{
    wm_screen_t canvas = { 0 };
    wm_top_campaign_t campaign;
    wm_top_view_t view = { .screen = WM_TOP_CAMPAIGN, .has_keys = true };
    campaign_new (&campaign, 0, "");
    draw (&canvas, &view, &campaign, 24, 79);
    assert_true (shows (&canvas, "no worker is connected"));
    json_decref (campaign.status);
    campaign_new (&campaign, 1, "w");
    draw (&canvas, &view, &campaign, 24, 79);
    assert_true (shows (&canvas, "> w000"));
    json_decref (campaign.status);
    campaign_new (&campaign, 300, "w");
    draw (&canvas, &view, &campaign, 24, 79);
    assert_true (shows (&canvas, "> w000") && shows (&canvas, " of 300 workers"));
    wm_top_move (&view, &campaign, 1, 100000);
    draw (&canvas, &view, &campaign, 24, 79);
    assert_true (shows (&canvas, "> w299") && !shows (&canvas, "w000"));
    assert_true (shows (&canvas, "to 300 of 300 workers") && shows (&canvas, "q quit"));
    assert_string_equal (wm_top_sort_next (&view), "rate");
    wm_top_move (&view, &campaign, 1, -100000);
    assert_string_equal (view.worker, "w299"); /* the fastest is the first now */
    json_decref (campaign.status);
    wm_canvas_free (&canvas);
}

/* The text filters in any case; the choice stays among what is listed, by a click as well.  */
static void test_filter (void **state)
{
    wm_screen_t canvas = { 0 };
    wm_top_campaign_t campaign;
    wm_top_view_t view = { .screen = WM_TOP_CAMPAIGN, .has_keys = true, .filter = "W29" };
    campaign_new (&campaign, 300, "w");
    draw (&canvas, &view, &campaign, 24, 79);
    assert_true (shows (&canvas, "> w290") && shows (&canvas, "w299") && !shows (&canvas, "w289"));
    assert_true (shows (&canvas, "1 to 10 of 300 workers; 10 pass the filter"));
    assert_true (shows (&canvas, "filter: W29  (Esc removes it)"));
    wm_top_move (&view, &campaign, 1, 100000);
    assert_string_equal (view.worker, "w299");
    draw (&canvas, &view, &campaign, 24, 79);
    assert_false (wm_top_click (&view, &campaign, 1, view.line + 2));
    assert_string_equal (view.worker, "w292");
    draw (&canvas, &view, &campaign, 24, 79);
    assert_true (strstr (canvas.line[view.line + 2], "> w292"));
    assert_true (wm_top_click (&view, &campaign, 1, view.line + 2));
    assert_false (wm_top_click (&view, &campaign, 1, view.line + 10)); /* below the list */
    assert_false (wm_top_click (&view, &campaign, 1, view.line - 1));
    assert_string_equal (view.worker, "w292");
    strcpy (view.filter, "none");
    wm_top_move (&view, &campaign, 1, 0);
    assert_string_equal (view.worker, ""); /* nothing that is hidden can be drained */
    draw (&canvas, &view, &campaign, 24, 79);
    assert_true (shows (&canvas, "no worker passes the filter"));
    json_decref (campaign.status);
    wm_canvas_free (&canvas);
}

static void test_files (void **state)
{
    char path[64];
    wm_screen_t canvas = { 0 };
    wm_top_campaign_t campaign;
    wm_top_view_t view = { .screen = WM_TOP_FILES, .has_keys = true };
    campaign_new (&campaign, 0, "");
    draw (&canvas, &view, &campaign, 24, 79);
    assert_true (shows (&canvas, "asking for the files"));
    campaign.files = json_array ();
    draw (&canvas, &view, &campaign, 24, 79);
    assert_true (shows (&canvas, "no inputs yet"));
    for (int i = 0; i < 300; i++) {
        snprintf (path, sizeof path, "/d/f%03d.h5", i);
        json_array_append_new (campaign.files,
                               json_pack ("{s:s, s:s, s:s, s:s, s:i, s:i}", "path", path, "output",
                                          "o", "state", i == 7 ? "held" : "written", "why",
                                          i == 7 ? "truncated" : "", "hits", 1000 + i, "held", 0));
    }
    draw (&canvas, &view, &campaign, 24, 79);
    assert_true (shows (&canvas, "> /d/f000.h5") && shows (&canvas, " of 300 files"));
    assert_false (shows (&canvas, "truncated"));
    wm_top_move (&view, &campaign, 1, 7);
    draw (&canvas, &view, &campaign, 24, 79);
    assert_true (shows (&canvas, "> /d/f007.h5") && shows (&canvas, "truncated"));
    wm_top_move (&view, &campaign, 1, 100000);
    draw (&canvas, &view, &campaign, 24, 79);
    assert_true (shows (&canvas, "> /d/f299.h5") && shows (&canvas, "to 300 of 300 files"));
    strcpy (view.filter, "HELD");
    draw (&canvas, &view, &campaign, 24, 79);
    assert_true (shows (&canvas, "> /d/f007.h5") && shows (&canvas, "1 to 1 of 1 files"));
    wm_top_move (&view, &campaign, 1, -100000);
    draw (&canvas, &view, &campaign, 60, 199);
    assert_true (shows (&canvas, "> /d/f007.h5") && shows (&canvas, "OUTPUT"));
    for (int rows = 1; rows < 70; rows += 3)
        for (int columns = 1; columns < 330; columns += 41)
            draw (&canvas, &view, &campaign, rows, columns);
    json_decref (campaign.files);
    json_decref (campaign.status);
    wm_canvas_free (&canvas);
}

static void test_sizes (void **state)
{
    wm_screen_t canvas = { 0 };
    wm_top_campaign_t campaign;
    campaign_new (&campaign, 30, "\033[2J\n\xc2\x9b");
    for (int screen = WM_TOP_LIST; screen <= WM_TOP_HELP; screen++)
        for (int rows = 1; rows < 70; rows += 3)
            for (int columns = 1; columns < 330; columns += 41) {
                wm_top_view_t view = { .screen = (wm_top_screen_t) screen, .has_keys = true };
                draw (&canvas, &view, &campaign, rows, columns);
            }
    json_decref (campaign.status);
    wm_canvas_free (&canvas);
}

/* A long address keeps its end, and the time stays; rates are of the campaign's rows.  */
static void test_words (void **state)
{
    wm_screen_t canvas = { 0 };
    wm_top_campaign_t campaign;
    wm_top_view_t view = { .screen = WM_TOP_CAMPAIGN, .has_keys = true, .late_s = 7 };
    campaign_new (&campaign, 0, "");
    json_object_set_new (campaign.status, "endpoint",
                         json_string ("ipc:///a/very/long/path/of/a/campaign/out.wiremill/broker"));
    json_object_set_new (json_object_get (campaign.status, "campaign"), "rows",
                         json_string ("windows"));
    json_object_set_new (
        campaign.status, "hits",
        json_pack ("{s:i, s:i, s:i}", "announced", 2000, "done", 1500, "held", 500));
    campaign.age_s = 6;
    draw (&canvas, &view, &campaign, 24, 79);
    assert_non_null (strstr (canvas.line[0], " out: running   broker .."));
    assert_non_null (strstr (canvas.line[0], "/out.wiremill/broker  up "));
    assert_int_equal (canvas.line[0][72], ':');
    assert_int_equal (canvas.line[0][75], ':');
    assert_false (shows (&canvas, "has not answered"));
    assert_true (shows (&canvas, "windows  1,500 scored of 2,000, 500 held"));
    json_object_set_new (campaign.status, "inputs",
                         json_pack ("{s:i, s:i}", "total", 9, "open", 8));
    draw (&canvas, &view, &campaign, 24, 79);
    assert_true (shows (&canvas, "windows  1,500 scored of at least 2,000, 500 held"));
    assert_true (shows (&canvas, "progress       - "));
    json_object_set_new (json_object_get (campaign.status, "hits"), "expected",
                         json_integer (9000));
    draw (&canvas, &view, &campaign, 24, 79);
    assert_true (shows (&canvas, "windows  1,500 scored of about 9,000, 500 held"));
    campaign.age_s = 8;
    draw (&canvas, &view, &campaign, 24, 79);
    assert_true (shows (&canvas, "the broker has not answered for 8.0 s"));
    view.has_keys = false;
    draw (&canvas, &view, &campaign, 24, 132);
    assert_true (shows (&canvas, "windows/s") && shows (&canvas, "minutes "));
    assert_false (shows (&canvas, "hits/s"));
    json_decref (campaign.status);
    wm_canvas_free (&canvas);
}

/* The screen of one worker has its host with the others there, its CPU time, how long it is silent,
   and what the broker logged of it alone.  */
static void test_one_worker (void **state)
{
    wm_screen_t canvas = { 0 };
    wm_top_campaign_t campaign;
    wm_top_view_t view = { .screen = WM_TOP_WORKER, .has_keys = true, .worker = "node7:12" };
    campaign_new (&campaign, 3, "w");
    json_t *s = campaign.status, *workers = json_object_get (s, "workers");
    static const char *const label[] = { "node7:12", "node7:120", "node70:12" };
    for (size_t i = 0; i < 3; i++) {
        json_t *one = json_array_get (workers, i);
        json_object_set_new (one, "label", json_string (label[i]));
        json_object_set_new (one, "hits_s", json_real (1000 * (double) (i + 1)));
        json_object_set_new (one, "cpu_s", json_real (75));
    }
    json_object_set_new (s, "said",
                         json_pack ("[{s:f, s:s}, {s:f, s:s}]", "ago_s", 3.0, "text",
                                    "node7:12 failed a batch", "ago_s", 4.0, "text",
                                    "node7:120 is lost"));
    json_object_set_new (s, "waits",
                         json_pack ("[{s:s, s:s, s:f}]", "reason", "worker silent", "peer",
                                    "node7:12", "since_s", 8.0));
    draw (&canvas, &view, &campaign, 40, 80);
    assert_true (shows (&canvas, "node7, with 1 other, together 3000 hits/s"));
    assert_true (shows (&canvas, "CPU time           1 min 15 s"));
    assert_true (shows (&canvas, "silent for         8.0 s"));
    assert_true (shows (&canvas, "3.0 s ago: node7:12 failed a batch"));
    assert_false (shows (&canvas, "is lost"));
    view.screen = WM_TOP_CAMPAIGN;
    draw (&canvas, &view, &campaign, 40, 60);
    assert_true (shows (&canvas, "BATCHES  STATE"));
    json_decref (s);
    wm_canvas_free (&canvas);
}

/* Columns of a GPU are there if a worker has one; an engine's name that is cut is marked; a worker
   that the broker does not hear of is amber, with its time.  */
static void test_worker_row (void **state)
{
    wm_screen_t canvas = { 0 };
    wm_top_campaign_t campaign;
    wm_top_view_t view = { .screen = WM_TOP_CAMPAIGN, .has_keys = true };
    campaign_new (&campaign, 2, "w");
    json_t *s = campaign.status, *first = json_array_get (json_object_get (s, "workers"), 0);
    json_object_set_new (first, "signature", json_string ("sparse/avx512bf16/fp32/v1/of/a/name"));
    json_object_set_new (s, "waits",
                         json_pack ("[{s:s, s:s, s:f}, {s:s, s:s, s:f}]", "reason", "model", "peer",
                                    "w000", "since_s", 3.0, "reason", "worker silent", "peer",
                                    "w001", "since_s", 8.0));
    draw (&canvas, &view, &campaign, 24, 79);
    assert_true (shows (&canvas, "ENGINE") && !shows (&canvas, "TEMP"));
    assert_true (shows (&canvas, "w000                 sparse/avx512bf16.. "));
    assert_true (shows (&canvas, "silent 8.0 s") && shows (&canvas, "busy"));
    json_object_set_new (first, "gpu", json_pack ("{s:s, s:i}", "gpu", "G", "temperature_c", 61));
    draw (&canvas, &view, &campaign, 24, 79);
    assert_true (shows (&canvas, "DEVICE, ") && shows (&canvas, "TEMP") && shows (&canvas, "61 C"));
    assert_false (shows (&canvas, "LOAD"));
    draw (&canvas, &view, &campaign, 60, 199);
    assert_true (shows (&canvas, "LOAD") && shows (&canvas, " -10 "));
    json_decref (campaign.status);
    wm_canvas_free (&canvas);
}

/* Under their columns, on a tall screen.  */
static void test_marks (void **state)
{
    wm_screen_t canvas = { 0 };
    wm_top_campaign_t campaign;
    wm_top_view_t view = { .screen = WM_TOP_CAMPAIGN, .has_keys = true };
    campaign_new (&campaign, 1, "w");
    draw (&canvas, &view, &campaign, 40, 79);
    assert_false (shows (&canvas, "marks"));
    campaign.mark[WM_TOP_BUCKETS - 79 + 9 + 22] = 'B'; /* the first column */
    campaign.mark[WM_TOP_BUCKETS - 79 + 9 + 22 + 3] = 'P';
    campaign.mark[0] = 'X'; /* further back than it shows */
    draw (&canvas, &view, &campaign, 40, 79);
    assert_true (shows (&canvas, "marks    B  P"));
    draw (&canvas, &view, &campaign, 24, 79);
    assert_false (shows (&canvas, "marks"));
    json_decref (campaign.status);
    wm_canvas_free (&canvas);
}

/* A screen that is printed once, as into a pipe: every text whole, in more lines if need be.  */
static void test_once (void **state)
{
    char text[401];
    wm_screen_t canvas = { 0 };
    wm_top_campaign_t campaign;
    wm_top_view_t view = { .screen = WM_TOP_CAMPAIGN };
    const char *const last[] = { "paused-9", "why-9", "said-9", "held-9" };
    campaign_new (&campaign, 1, "w");
    for (int i = 0; i < WM_TOP_BUCKETS; i++)
        campaign.rate[i] = 1e9f + 1e8f * (float) i;
    for (int i = 0; i < 4; i++) {
        int n = 0;
        for (int k = 0; k < 10; k++)
            n += snprintf (text + n, sizeof text - (size_t) n, "%.*s-%d some words ",
                           (int) strcspn (last[i], "-"), last[i], k);
        json_t *s = campaign.status, *worker = json_array_get (json_object_get (s, "workers"), 0);
        if (i < 2)
            json_object_set_new (i ? worker : s, i ? "why" : "paused", json_string (text));
        else if (i == 2)
            json_object_set_new (s, "said", json_pack ("[{s:f, s:s}]", "ago_s", 5.0, "text", text));
        else
            json_object_set_new (s, "held",
                                 json_pack ("[{s:s, s:s}]", "path", text, "state", "held"));
    }
    for (int columns = 80; columns <= 200; columns += 60) {
        draw (&canvas, &view, &campaign, 200, columns);
        for (int i = 0; i < 4; i++)
            assert_true (shows (&canvas, last[i]));
        assert_true (shows (&canvas, "18350.0M")); /* the last minute */
    }
    json_decref (campaign.status);
    wm_canvas_free (&canvas);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_workers),    cmocka_unit_test (test_filter),
        cmocka_unit_test (test_files),      cmocka_unit_test (test_sizes),
        cmocka_unit_test (test_words),      cmocka_unit_test (test_worker_row),
        cmocka_unit_test (test_one_worker), cmocka_unit_test (test_marks),
        cmocka_unit_test (test_once)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
