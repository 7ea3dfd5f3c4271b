/* test_ops_library.c - libwiremill: what it counts, and what a call that fails leaves behind.

   The engine and the helper process of the client are played here: the linker puts
   __wrap_wm_device_score in the engine's place (Makefile), and this program is the helper when it
   is called as one.  */
#include "kernels/wm_device.h"
#include "ops/lib/wm_lib_private.h"
#include "schema/wm_limits.h"
#include "tests/unit/unit.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_VALUE = 2, N_OUTPUT = 3, BATCH = 256 /* BATCH_PATCHES_MAX of wm_lib_submit.c */ };

/* What the helper does with a batch, by its first value.  */
enum { HELD = -1, FAILS = -2, WAITS = -3, GOES_ON = -4, WRONG_SIZE = -5, TELLS = -6 };

/* ---- the helper ------------------------------------------------------------------------------ */

static void send_all (const void *data, size_t bytes)
{
    for (const uint8_t *at = data; bytes;) {
        const ssize_t n = write (WM_LIBRARY_FD, at, bytes);
        if (n <= 0)
            _exit (0);
        at += n, bytes -= (size_t) n;
    }
}

static void send_frame (wm_library_type_t type, uint32_t n, uint64_t number, const void *body,
                        size_t bytes)
{
    const wm_library_frame_t frame = { type, n, number, bytes };
    send_all (&frame, sizeof frame);
    send_all (body, bytes);
}

static bool receive (void *to, size_t bytes)
{
    for (uint8_t *at = to; bytes;) {
        const ssize_t n = read (WM_LIBRARY_FD, at, bytes);
        if (n <= 0)
            return false;
        at += n, bytes -= (size_t) n;
    }
    return true;
}

static void send_scores (const wm_library_frame_t *batch, const float *value, size_t cut)
{
    static uint8_t body[BATCH * (1 + N_OUTPUT * sizeof (float))];
    for (uint32_t i = 0; i < batch->n; i++) {
        const float first = value[i * N_VALUE], second = value[i * N_VALUE + 1];
        const float score[N_OUTPUT] = { first, second, first + second };
        body[i] = second < 0 ? WIREMILL_BAD_PIXEL : WIREMILL_OK;
        memcpy (body + batch->n + i * sizeof score, score, sizeof score);
    }
    send_frame (WM_LIBRARY_RESULT, batch->n, batch->number, body,
                batch->n * (1 + N_OUTPUT * sizeof (float)) - cut);
}

static int help (void)
{
    static const char failed[] = "the broker has another model", waits[] = "no worker";
    static float value[BATCH * N_VALUE], waiting[BATCH * N_VALUE];
    const char *model = getenv ("WM_TEST_MODEL");
    wm_library_frame_t frame, late = { 0 };
    struct {
        wm_library_facts_t facts;
        char label[N_OUTPUT][WM_LIBRARY_LABEL_BYTES];
    } ready = { { N_VALUE, N_OUTPUT, 1, { N_VALUE }, 0, 0, "" }, { "a", "b", "c" } };
    snprintf (ready.facts.model, sizeof ready.facts.model, "%s", model ? model : "one");
    if (model && atoi (model)) { /* only this: a model of so many outputs */
        const size_t bytes = (size_t) atoi (model) * WM_LIBRARY_LABEL_BYTES;
        char *labels = calloc (1, bytes);
        ready.facts.n_output = (uint32_t) atoi (model);
        frame =
            (wm_library_frame_t){ .type = WM_LIBRARY_READY, .bytes = sizeof ready.facts + bytes };
        send_all (&frame, sizeof frame);
        send_all (&ready.facts, sizeof ready.facts);
        send_all (labels, bytes);
        free (labels);
        return receive (value, 1);
    }
    send_frame (WM_LIBRARY_READY, 0, 0, &ready, sizeof ready.facts + sizeof ready.label);
    while (receive (&frame, sizeof frame)) {
        if (frame.bytes > sizeof value || !receive (value, frame.bytes))
            return 1;
        const int what = (int) value[0];
        if (what == WAITS || what == TELLS) {
            late = frame;
            memcpy (waiting, value, frame.bytes);
            send_frame (WM_LIBRARY_WAITS, 0, 0, waits, what == TELLS ? sizeof waits - 1 : 0);
            continue;
        }
        if (what == FAILS) {
            send_frame (WM_LIBRARY_FAILED, WM_EHOST, 0, failed, sizeof failed - 1);
            return 0;
        }
        if (what == WRONG_SIZE)
            send_scores (&frame, value, sizeof (float));
        if (what == HELD)
            send_frame (WM_LIBRARY_HELD, frame.n, frame.number, NULL, 0);
        else
            send_scores (&frame, value, 0);
        if (what == GOES_ON)
            send_scores (&late, waiting, 0);
    }
    return 0;
}

/* ---- the client ------------------------------------------------------------------------------ */

static char self_path[4096];
static wiremill_error_t error;
static float patches[1200 * N_VALUE], scores[1200 * N_OUTPUT];
static uint8_t status[1200];

static wiremill_client_t *connect_with (size_t memory)
{
    const wiremill_connect_options_t options = { .size = sizeof options,
                                                 .memory = memory,
                                                 .helper = self_path };
    wiremill_client_t *client = wiremill_connect ("ipc:///none", &options, &error);
    if (!client)
        fail_msg ("%s", error.text);
    return client;
}

/* Patches 1, 2, 3 ... and garbage where scores go.  */
static void fill (void)
{
    for (size_t i = 0; i < 1200; i++) {
        patches[i * N_VALUE] = (float) (i + 1);
        patches[i * N_VALUE + 1] = (float) (2 * i);
    }
    for (size_t i = 0; i < 1200 * N_OUTPUT; i++)
        scores[i] = 7;
    memset (status, 77, sizeof status);
}

static void row_is (size_t i, size_t patch, uint8_t want)
{
    const float *score = scores + i * N_OUTPUT, *value = patches + patch * N_VALUE;
    assert_int_equal (status[i], want);
    if (want)
        assert_true (isnan (score[0]) && isnan (score[1]) && isnan (score[2]));
    else
        assert_true (score[0] == value[0] && score[1] == value[1] &&
                     score[2] == value[0] + value[1]);
}

static void all_are_held (size_t n)
{
    for (size_t i = 0; i < n; i++)
        row_is (i, i, WIREMILL_HELD);
    assert_true (scores[n * N_OUTPUT] == 7 && status[n] == 77); /* nothing behind them */
}

static uint64_t submitted (wiremill_client_t *client, size_t from, size_t n)
{
    uint64_t ticket = 0;
    if (wiremill_submit (client, patches + from * N_VALUE, n, N_VALUE, 0, &ticket, &error))
        fail_msg ("%s", error.text);
    return ticket;
}

/* Rows keep their places, whatever is not finite between them and wherever a batch ends.  */
static void test_places (void **state)
{
    static const size_t bad[] = { 0, 1, 255, 256, 300, 771, 772, 773 };
    wiremill_client_t *client = connect_with (0);
    fill ();
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++)
        patches[bad[b] * N_VALUE + b % 2] = b % 3 ? NAN : -INFINITY;
    assert_int_equal (wiremill_client_score (client, patches, 774, N_VALUE, scores, status, &error),
                      0);
    for (size_t i = 0, b = 0; i < 774; i++) {
        row_is (i, i, i == bad[b] ? WIREMILL_BAD_PIXEL : WIREMILL_OK);
        b += i == bad[b] && b + 1 < sizeof bad / sizeof *bad;
    }
    assert_true (scores[774 * N_OUTPUT] == 7 && status[774] == 77);
    fill (); /* in pieces of a quarter of the memory, one batch at least */
    wiremill_client_close (&client);
    client = connect_with (4 * BATCH * N_VALUE * sizeof (float));
    assert_int_equal (
        wiremill_client_score (client, patches, 1199, N_VALUE, scores, status, &error), 0);
    for (size_t i = 0; i < 1199; i++)
        row_is (i, i, WIREMILL_OK);
    wiremill_client_close (&client);
}

/* Patches that are not sent take no room, at once; those that are sent give theirs back when they
   are answered.  */
static void test_room (void **state)
{
    wiremill_client_t *client = connect_with (10 * N_VALUE * sizeof (float));
    uint64_t ticket, other;
    fill ();
    for (size_t i = 4; i < 10; i++)
        patches[i * N_VALUE] = NAN;
    patches[0] = WAITS;
    ticket = submitted (client, 0, 10);
    assert_int_equal (wiremill_submit (client, patches + 20, 7, N_VALUE, 0, &other, &error),
                      WIREMILL_AGAIN);
    assert_non_null (
        strstr (error.text, "patches of 32 bytes are under way, and there is room for 80"));
    patches[10 * N_VALUE] = GOES_ON;
    other = submitted (client, 10, 6);
    assert_int_equal (wiremill_wait (client, other, -1, scores, status, &error), 0);
    for (size_t i = 0; i < 6; i++)
        row_is (i, 10 + i, WIREMILL_OK);
    assert_int_equal (wiremill_wait (client, ticket, -1, scores, status, &error), 0);
    for (size_t i = 0; i < 10; i++)
        row_is (i, i, i < 4 ? WIREMILL_OK : WIREMILL_BAD_PIXEL);
    patches[4 * N_VALUE] = WAITS; /* stays under way: the rest of the room is what counts */
    other = submitted (client, 4, 1);
    for (int i = 0; i < 30; i++) {
        size_t n_done = 0;
        ticket = submitted (client, 5, 5);
        assert_int_equal (wiremill_poll (client, ticket, &n_done, &error), 0);
        assert_int_equal (n_done, 5);
        wiremill_forget (client, ticket);
    }
    assert_int_equal (
        wiremill_submit (client, patches + 11 * N_VALUE, 10, N_VALUE, 0, &other, &error),
        WIREMILL_AGAIN);
    ticket = submitted (client, 11, 9); /* exactly what is left */
    assert_int_equal (wiremill_wait (client, ticket, -1, scores, status, &error), 0);
    wiremill_client_close (&client);
    client = connect_with (8); /* what is larger than the room goes alone */
    ticket = submitted (client, 20, 9);
    assert_int_equal (wiremill_wait (client, ticket, -1, scores, status, &error), 0);
    wiremill_client_close (&client);
}

/* A helper that fails leaves no scores behind, also not those that came before; its successor has
   the whole room.  */
static void test_failed (void **state)
{
    const size_t room = 600 * N_VALUE * sizeof (float);
    wiremill_client_t *client = connect_with (room);
    fill ();
    patches[BATCH * N_VALUE] = FAILS;
    assert_int_equal (wiremill_client_score (client, patches, 600, N_VALUE, scores, status, &error),
                      WIREMILL_HOST);
    assert_string_equal (error.text, "the broker has another model");
    all_are_held (600);
    fill ();
    patches[BATCH * N_VALUE] = TELLS;
    uint64_t ticket = submitted (client, 0, 600);
    size_t n_done = 0;
    while (n_done < 600 - BATCH) /* the third batch is answered behind the second */
        assert_int_equal (wiremill_poll (client, ticket, &n_done, &error), WIREMILL_AGAIN);
    assert_int_equal (n_done, 600 - BATCH);
    assert_int_equal (wiremill_wait (client, ticket, 1, scores, status, &error), WIREMILL_AGAIN);
    assert_string_equal (error.text,
                         "344 of 600 patches are answered after 1 ms; waiting: no worker");
    assert_true (scores[0] == 7 && status[0] == 77);
    patches[700 * N_VALUE] = FAILS;
    uint64_t last;
    assert_int_equal (
        wiremill_submit (client, patches + 700 * N_VALUE, 1, N_VALUE, -1, &last, &error),
        WIREMILL_OK);
    assert_int_equal (wiremill_wait (client, ticket, -1, scores, status, &error), WIREMILL_HOST);
    all_are_held (600);
    assert_int_equal (wiremill_wait (client, last, -1, scores, NULL, &error), WIREMILL_HOST);
    fill ();
    ticket = submitted (client, 0, 600); /* another helper, and nothing of the old is under way */
    assert_int_equal (wiremill_wait (client, ticket, -1, scores, status, &error), 0);
    row_is (599, 599, WIREMILL_OK);
    patches[0] = FAILS;
    assert_int_equal (wiremill_client_score (client, patches, 1, N_VALUE, scores, status, &error),
                      WIREMILL_HOST);
    setenv ("WM_TEST_MODEL", "two", 1);
    assert_int_equal (wiremill_client_score (client, patches, 1, N_VALUE, scores, status, &error),
                      WIREMILL_HOST);
    assert_non_null (strstr (error.text, "another model is now at the broker ipc:///none"));
    unsetenv ("WM_TEST_MODEL");
    wiremill_client_close (&client);
}

/* What the broker gives up is held, without a fault. A result of the wrong size is ignored. A
   ticket ends once.  */
static void test_held (void **state)
{
    wiremill_client_t *client = connect_with (0);
    fill ();
    patches[0] = HELD;
    patches[3 * N_VALUE] = NAN;
    assert_int_equal (wiremill_client_score (client, patches, 300, N_VALUE, scores, status, &error),
                      0);
    for (size_t i = 0; i < 300; i++) /* the first batch has 256 of them, 3 aside */
        row_is (i, i, i == 3 ? WIREMILL_BAD_PIXEL : i <= BATCH ? WIREMILL_HELD : WIREMILL_OK);
    fill ();
    patches[0] = WRONG_SIZE;
    patches[5] = -9; /* a status of the worker's comes with what it has: NaN by the broker */
    const uint64_t ticket = submitted (client, 0, 3);
    assert_int_equal (wiremill_wait (client, ticket, -1, scores, status, &error), 0);
    row_is (1, 1, WIREMILL_OK);
    assert_int_equal (status[2], WIREMILL_BAD_PIXEL);
    assert_int_equal (wiremill_wait (client, ticket, -1, scores, status, &error), WIREMILL_USAGE);
    assert_int_equal (wiremill_poll (client, ticket, NULL, &error), WIREMILL_USAGE);
    wiremill_forget (client, ticket);
    wiremill_client_close (&client);
}

/* As many outputs as a model may have, and no more.  */
static void test_facts (void **state)
{
    for (unsigned more = 0; more < 2; more++) {
        char n_output[16];
        snprintf (n_output, sizeof n_output, "%u", WM_OUTPUTS_MAX + more);
        setenv ("WM_TEST_MODEL", n_output, 1);
        const wiremill_connect_options_t options = { .size = sizeof options, .helper = self_path };
        wiremill_client_t *client = wiremill_connect ("ipc:///none", &options, &error);
        assert_int_equal (client != NULL, !more);
        assert_true (!client || wiremill_client_n_output (client) == WM_OUTPUTS_MAX);
        assert_true (client || strstr (error.text, "is of another release"));
        wiremill_client_close (&client);
    }
    unsetenv ("WM_TEST_MODEL");
}

/* ---- scoring in this process ----------------------------------------------------------------- */

static unsigned n_call, fails_at; /* the call that fails, from 1 */
static size_t most_hits;

wm_fault_t __wrap_wm_device_score (wm_device_t *device, const wm_batch_t *batch, uint8_t *of,
                                   float *score, wm_error_t *why)
{
    assert_int_equal (fegetround (), FE_TONEAREST);
    most_hits = batch->n_hit > most_hits ? batch->n_hit : most_hits;
    if (++n_call == fails_at)
        return wm_fault (why, WM_EHOST, "no memory");
    for (uint32_t i = 0; i < batch->n_hit; i++) {
        of[i] = WIREMILL_OK;
        for (uint32_t o = 0; o < 4; o++)
            score[4 * i + o] = batch->patch[i * (size_t) batch->patch_values] + (float) o;
    }
    return WM_OK;
}

static void test_here (void **state)
{
    const wiremill_options_t options = { .size = sizeof options, .engine = "sparse" };
    wiremill_t *model = wiremill_open ("ops/train/emtrkmichel.onnx", &options, &error);
    if (!model)
        fail_msg ("%s", error.text);
    const size_t n_value = wiremill_n_value (model), n = 1000;
    assert_int_equal (wiremill_n_output (model), 4);
    float *value = calloc (n, n_value * sizeof *value), *score = malloc (4 * n * sizeof *score);
    assert_non_null (value);
    assert_non_null (score);
    const size_t most = (4u << 20) / sizeof (float) / n_value; /* of a batch of 4 MiB */
    for (fails_at = 0; fails_at < 5; fails_at++) {
        const size_t bad[] = { 2, 2 + 1 + most, 990 }; /* the second ends a full batch */
        for (size_t i = 0; i < n; i++) {
            value[i * n_value] = (float) i;
            memset (score + 4 * i, 'x', 16);
        }
        for (size_t b = 0; b < 3; b++)
            value[bad[b] * n_value + n_value - 1] = NAN;
        memset (status, 77, sizeof status);
        n_call = 0;
        most_hits = 0;
        assert_int_equal (wiremill_score (model, value, n, n_value, score, status, &error),
                          fails_at ? WIREMILL_HOST : WIREMILL_OK);
        for (size_t i = 0; i < n; i++) {
            const bool is_bad = i == bad[0] || i == bad[1] || i == bad[2];
            assert_int_equal (status[i], fails_at ? WIREMILL_HELD
                                         : is_bad ? WIREMILL_BAD_PIXEL
                                                  : WIREMILL_OK);
            for (size_t o = 0; o < 4; o++)
                assert_true (fails_at || is_bad ? isnan (score[4 * i + o])
                                                : score[4 * i + o] == (float) (i + o));
        }
        assert_int_equal (n_call, fails_at ? fails_at : 5);
        assert_true (fails_at || most_hits == most);
    }
    fails_at = 0; /* a caller that rounds in another way gets the same bits, and keeps its way */
    fesetround (FE_UPWARD);
    const wiremill_fault_t fault = wiremill_score (model, value, 1, n_value, score, NULL, &error);
    const int rounds = fegetround ();
    fesetround (FE_TONEAREST);
    assert_int_equal (fault, WIREMILL_OK);
    assert_int_equal (rounds, FE_UPWARD);
    assert_int_equal (wiremill_score (model, value, 1, n_value, NULL, NULL, &error),
                      WIREMILL_USAGE);
    assert_non_null (strstr (error.text, "scores is NULL"));
    free (value);
    free (score);
    wiremill_close (&model);
}

int main (int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_places), cmocka_unit_test (test_room),
        cmocka_unit_test (test_failed), cmocka_unit_test (test_held),
        cmocka_unit_test (test_here),   cmocka_unit_test (test_facts),
    };
    if (argc > 1 && strcmp (argv[1], "client") == 0)
        return fork () ? 0 : help (); /* the library waits for the end of what it starts */
    if (readlink ("/proc/self/exe", self_path, sizeof self_path - 1) <= 0)
        return 1;
    return cmocka_run_group_tests (tests, NULL, NULL);
}
