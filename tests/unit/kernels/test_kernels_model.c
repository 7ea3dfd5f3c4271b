/* test_kernels_model.c - the .wmm file, the ONNX writer, and the reference engine.

   A seeded network of a small patch goes ONNX -> .wmm -> ONNX -> .wmm; then the .wmm is cut,
   flipped, and made to lie with a sound digest.  */
#include "kernels/import/wm_import.h"
#include "kernels/onnx/wm_onnx_write.h"
#include "kernels/wm_backend_private.h"
#include "schema/base/wm_file.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

enum { WIRE = 12, BIN = 10, HITS = 70 };

static char folder[] = "/tmp/wm-model-XXXXXX";

static const char *in_folder (const char *name)
{
    static char path[4][64];
    static unsigned next;
    char *p = path[next++ % 4];
    snprintf (p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static uint8_t *slurp (const char *path, size_t *size)
{
    FILE *file = fopen (path, "rb");
    assert_non_null (file);
    assert_int_equal (fseek (file, 0, SEEK_END), 0);
    *size = (size_t) ftell (file);
    rewind (file);
    uint8_t *bytes = malloc (*size);
    assert_non_null (bytes);
    assert_int_equal (fread (bytes, 1, *size, file), *size);
    fclose (file);
    return bytes;
}

static void spill (const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen (path, "wb");
    assert_non_null (file);
    assert_int_equal (fwrite (bytes, 1, size, file), size);
    fclose (file);
}

static wm_model_t *opened (const char *name)
{
    wm_error_t error = { 0 };
    wm_model_t *model = wm_model_open (in_folder (name), &error);
    if (!model)
        fail_msg ("%s", error.text);
    return model;
}

static void make_model (uint64_t seed, const char *onnx, const char *wmm)
{
    char why[480];
    wm_error_t error = { 0 };
    if (wm_model_new_emtrkmichel (seed, WIRE, BIN, in_folder (onnx), &error) ||
        wm_import (in_folder (onnx), NULL, in_folder (wmm), why, &error))
        fail_msg ("%s", error.text);
    assert_true (strstr (why, "sparse engine") == why);
}

/* Import proves the range of half precision, or says which convolution leaves it.  */
static void half_precision_is_proved_at_import (void **state)
{
    char why[480];
    wm_error_t error = { 0 };
    uint8_t *bytes;
    size_t size;
    make_model (1, "a.onnx", "a.wmm");
    wm_model_t *model = opened ("a.wmm");
    assert_non_null (strstr (wm_model_why (model), "; half precision holds it for pixels within"));
    wm_net_t net = *wm_model_net (model);
    const wm_conv_t *c = &net.conv[0];
    const size_t n = (size_t) c->kh * c->kw * c->c_in * c->c_out;
    float *weight = calloc (n, sizeof *weight);
    assert_non_null (weight);
    memcpy (weight, c->weight, n * sizeof *weight);
    net.conv[0].weight = weight;
    const float wild[] = { 60000, 70000 };
    static const char *const word[] = { "half precision holds it for pixels within +-1;",
                                        "fast: a weight of 7e+04 cannot be held" };
    for (int i = 0; i < 2; i++) {
        weight[0] = wild[i];
        if (wm_onnx_write (&net, wm_model_input (model, 0), wm_model_output (model, 0),
                           wm_model_n_output_port (model), &bytes, &size, &error))
            fail_msg ("%s", error.text);
        spill (in_folder ("b.onnx"), bytes, size);
        free (bytes);
        assert_int_equal (wm_import (in_folder ("b.onnx"), NULL, in_folder ("b.wmm"), why, &error),
                          WM_OK);
        strcat (why, ";");
        if (!strstr (why, word[i]))
            fail_msg ("no '%s' in: %s", word[i], why);
    }
    free (weight);
    wm_model_destroy (&model);
}

/* ---- files
 * ---------------------------------------------------------------------------------- */

/* Whether a process waits for a lock of a whole file.  */
static int waits_for_lock (pid_t pid)
{
    char line[256];
    int waits = 0;
    long holder;
    FILE *locks = fopen ("/proc/locks", "r");
    assert_non_null (locks);
    while (fgets (line, sizeof line, locks))
        waits |= sscanf (line, "%*d: -> FLOCK %*s %*s %ld", &holder) == 1 && holder == pid;
    fclose (locks);
    return waits;
}

/* Two containers, one folder: the temporary name of a writer is that of another with its pid.  */
static void a_writer_waits_for_another_of_its_pid (void **state)
{
    static const char ours[] = "the other's", theirs[] = "mine";
    char temporary[128], got[64] = "";
    wm_error_t error;
    int go[2], status;
    assert_int_equal (pipe (go), 0);
    const pid_t pid = fork ();
    if (pid == 0) {
        const wm_part_t part = { theirs, sizeof theirs };
        if (read (go[0], got, 1) != 1)
            _exit (1);
        _exit (wm_file_write (in_folder ("shared"), &part, 1, &error) != WM_OK);
    }
    snprintf (temporary, sizeof temporary, "%s.%ld.tmp", in_folder ("shared"), (long) pid);
    const int fd = open (temporary, O_RDWR | O_CREAT, 0600);
    assert_int_equal (flock (fd, LOCK_EX), 0);
    assert_int_equal (write (fd, ours, sizeof ours), sizeof ours);
    assert_int_equal (write (go[1], "", 1), 1);
    for (int i = 0; i < 3000 && !waits_for_lock (pid); i++)
        usleep (10000);
    assert_true (waits_for_lock (pid));
    assert_int_equal (rename (temporary, in_folder ("shared")), 0);
    assert_int_equal (pread (fd, got, sizeof got, 0), sizeof ours);
    assert_string_equal (got, ours);
    close (fd);
    assert_int_equal (waitpid (pid, &status, 0), pid);
    assert_int_equal (status, 0);
    size_t size;
    uint8_t *last = slurp (in_folder ("shared"), &size);
    assert_int_equal (size, sizeof theirs);
    assert_memory_equal (last, theirs, size);
    free (last);
    close (go[0]);
    close (go[1]);
}

/* As root a name such as /dev/null would be replaced by a file: here a pipe and a folder.  */
static void only_files_are_replaced (void **state)
{
    const wm_part_t part = { "x", 1 };
    const char *const name[] = { in_folder ("pipe"), "." };
    wm_error_t error;
    struct stat st;
    assert_int_equal (mkfifo (name[0], 0600), 0);
    for (int k = 0; k < 2; k++) {
        assert_int_equal (wm_file_write (name[k], &part, 1, &error), WM_EUSAGE);
        assert_non_null (strstr (error.text, "not a regular file"));
        assert_int_equal (stat (name[k], &st), 0);
        assert_false (S_ISREG (st.st_mode));
    }
    unlink (name[0]);
}

/* ---- round trips
 * ---------------------------------------------------------------------------------- */

static void a_seed_is_a_file (void **state)
{
    char first[65], second[65], other[65];
    wm_error_t error;
    make_model (1, "a.onnx", "a.wmm");
    assert_int_equal (wm_file_sha256 (in_folder ("a.onnx"), first, &error), WM_OK);
    make_model (1, "b.onnx", "b.wmm");
    assert_int_equal (wm_file_sha256 (in_folder ("b.onnx"), second, &error), WM_OK);
    assert_string_equal (first, second);
    make_model (2, "b.onnx", "b.wmm");
    assert_int_equal (wm_file_sha256 (in_folder ("b.onnx"), other, &error), WM_OK);
    assert_string_not_equal (first, other);
    wm_model_t *model = opened ("a.wmm");
    assert_string_equal (wm_model_sha256 (model), first);
    wm_model_destroy (&model);
    wm_model_destroy (&model);
}

static void a_model_says_what_it_is (void **state)
{
    make_model (1, "a.onnx", "a.wmm");
    wm_model_t *model = opened ("a.wmm");
    assert_int_equal (wm_model_kind (model), WM_MODEL_FAMILY);
    assert_int_equal (wm_model_n_input (model), 1);
    assert_string_equal (wm_model_input (model, 0)->name, "main_input");
    assert_int_equal (wm_model_n_value (model), WIRE * BIN);
    assert_int_equal (wm_model_n_output (model), 4);
    assert_string_equal (wm_model_output (model, 0)->name, "em_trk_none_netout/Softmax");
    assert_string_equal (wm_model_output (model, 1)->name, "michel_netout/Sigmoid");
    const wm_net_t *net = wm_model_net (model);
    assert_int_equal (net->height, WIRE);
    assert_int_equal (net->width, BIN);
    assert_int_equal (net->n_conv, 1);
    assert_int_equal (net->n_dense, 4);
    assert_int_equal (net->dense[0].n_in, (WIRE - 4) * (BIN - 4) * 48);
    assert_int_equal ((uintptr_t) net->dense[0].weight % 64, 0);
    size_t bytes;
    assert_null (wm_model_original (model, &bytes));
    assert_int_equal (bytes, 0);
    wm_model_destroy (&model);
}

/* Known answers must tell a working engine from a broken one: all different, none saturated.  */
static void known_answers_vary (void **state)
{
    make_model (3, "a.onnx", "a.wmm");
    wm_model_t *model = opened ("a.wmm");
    const float *patch, *score;
    uint32_t n = wm_model_known (model, &patch, &score);
    assert_int_equal (n, 8);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t zero = 0;
        for (uint32_t k = 0; k < WIRE * BIN; k++)
            zero += patch[i * WIRE * BIN + k] == 0;
        assert_in_range (zero, WIRE * BIN / 3, WIRE * BIN - 5);
        for (uint32_t o = 0; o < 4; o++)
            assert_true (score[i * 4 + o] > 0.001f && score[i * 4 + o] < 0.999f);
        for (uint32_t j = 0; j < i; j++)
            assert_memory_not_equal (&score[i * 4], &score[j * 4], 16);
    }
    wm_model_destroy (&model);
}

static void written_again_it_is_the_same_network (void **state)
{
    char why[480];
    wm_error_t error = { 0 };
    make_model (4, "a.onnx", "a.wmm");
    wm_model_t *a = opened ("a.wmm");
    uint8_t *bytes;
    size_t size;
    assert_int_equal (wm_onnx_write (wm_model_net (a), wm_model_input (a, 0),
                                     wm_model_output (a, 0), 2, &bytes, &size, &error),
                      WM_OK);
    spill (in_folder ("b.onnx"), bytes, size);
    free (bytes);
    assert_int_equal (wm_import (in_folder ("b.onnx"), NULL, in_folder ("b.wmm"), why, &error),
                      WM_OK);
    wm_model_t *b = opened ("b.wmm");
    assert_string_equal (wm_model_sha256 (a), wm_model_sha256 (b));
    const wm_dense_t *da = &wm_model_net (a)->dense[0], *db = &wm_model_net (b)->dense[0];
    assert_memory_equal (da->weight, db->weight, (size_t) da->n_in * da->n_out * 4);
    wm_model_destroy (&a);
    wm_model_destroy (&b);
}

/* Several convolutions and channels, every activation, heads that share an output, an input that is
   not (h, w, c): written as ONNX and read again.  */
static void unlike_the_field_s (const wm_conv_t act[2])
{
    static float numbers[4096];
    for (size_t i = 0; i < 4096; i++)
        numbers[i] = (float) ((i * 2654435761u >> 7) % 2001) / 4000 - 0.25f;
    wm_net_t net = { .height = 7, .width = 6, .channel = 2, .n_conv = 2, .n_dense = 4 };
    net.conv[0] = (wm_conv_t){ 2, 3, 2, 3, act[0].act, act[0].bend, numbers, numbers + 100 };
    net.conv[1] = (wm_conv_t){ 3, 2, 3, 4, act[1].act, act[1].bend, numbers + 200, numbers + 300 };
    uint32_t flat = (7 - 1 - 2) * (6 - 2 - 1) * 4;
    net.dense[0] = (wm_dense_t){ -1, flat, 6, WM_ACT_NONE, 0, 3, numbers + 400, numbers + 900 };
    net.dense[1] = (wm_dense_t){ -1, flat, 5, WM_ACT_RELU, 0, -1, numbers + 1200, numbers + 1500 };
    net.dense[2] = (wm_dense_t){ 0, 6, 2, WM_ACT_SOFTMAX, 0, 1, numbers + 1000, numbers + 1100 };
    net.dense[3] = (wm_dense_t){ 1, 5, 1, WM_ACT_NONE, 0, 0, numbers + 1600, numbers + 1700 };
    const wm_port_t in = { .name = "x", .n_dim = 1, .dim = { 84 }, .n_value = 84 };
    wm_port_t out[2] = { { .name = "both", .n_dim = 1, .dim = { 3 }, .n_value = 3 },
                         { .name = "raw", .n_dim = 1, .dim = { 6 }, .n_value = 6 } };
    uint8_t *bytes;
    size_t size;
    char why[480];
    wm_error_t error = { 0 };
    assert_int_equal (wm_onnx_write (&net, &in, out, 2, &bytes, &size, &error), WM_OK);
    spill (in_folder ("a.onnx"), bytes, size);
    free (bytes);
    if (wm_import (in_folder ("a.onnx"), NULL, in_folder ("a.wmm"), why, &error))
        fail_msg ("%s", error.text);
    wm_model_t *model = opened ("a.wmm");
    const wm_net_t *got = wm_model_net (model);
    if (!got)
        fail_msg ("%s", why);
    assert_int_equal (got->channel, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal (got->conv[i].act, net.conv[i].act);
        assert_true (fabsf (got->conv[i].bend - net.conv[i].bend) < 1e-6f);
        assert_memory_equal (got->conv[i].weight, net.conv[i].weight,
                             4 * net.conv[i].kh * net.conv[i].kw * net.conv[i].c_in *
                                 net.conv[i].c_out);
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal (got->dense[i].parent, net.dense[i].parent);
        assert_int_equal (got->dense[i].act, net.dense[i].act);
        assert_int_equal (got->dense[i].output, net.dense[i].output);
        assert_memory_equal (got->dense[i].weight, net.dense[i].weight,
                             4 * net.dense[i].n_in * net.dense[i].n_out);
        assert_memory_equal (got->dense[i].bias, net.dense[i].bias, 4 * net.dense[i].n_out);
    }
    wm_model_destroy (&model);
    out[0].dim[0] = out[0].n_value = 4; /* ports that no heads fill */
    out[1].dim[0] = out[1].n_value = 5;
    assert_int_equal (wm_onnx_write (&net, &in, out, 2, &bytes, &size, &error), WM_EBATCH);
    out[1].dim[0] = out[1].n_value = 7;
    assert_int_equal (wm_onnx_write (&net, &in, out, 2, &bytes, &size, &error), WM_EBATCH);
}

static void networks_unlike_the_field_s (void **state)
{
    static const wm_conv_t act[][2] = {
        { { .act = WM_ACT_TANH }, { .act = WM_ACT_SIGMOID } },
        { { .act = WM_ACT_LEAKY, .bend = 0.25f }, { .act = WM_ACT_ELU, .bend = 0.75f } },
        { { .act = WM_ACT_CLIP, .bend = 2 }, { .act = WM_ACT_SOFTPLUS } },
        { { .act = WM_ACT_GELU }, { .act = WM_ACT_GELU_TANH } },
        { { .act = WM_ACT_SWISH, .bend = 1 }, { .act = WM_ACT_SWISH, .bend = -1.702f } },
        { { .act = WM_ACT_HARDSWISH }, { .act = WM_ACT_MISH } },
    };
    for (size_t i = 0; i < sizeof act / sizeof *act; i++)
        unlike_the_field_s (act[i]);
}

/* What no file may say is not written either.  */
static void columns_filled_twice_or_never (void **state)
{
    static const struct {
        int32_t column;
        const char *word;
    } wrong[] = { { 2, "filled twice" }, { -1, "no layer fills" }, { 4, "columns" } };
    make_model (1, "a.onnx", "a.wmm");
    wm_model_t *model = opened ("a.wmm");
    for (size_t i = 0; i < 3; i++) {
        wm_net_t net = *wm_model_net (model);
        net.dense[3].output = wrong[i].column;
        const wm_model_parts_t parts = { .kind = WM_MODEL_FAMILY,
                                         .why = "",
                                         .n_input = 1,
                                         .n_output = 2,
                                         .input = wm_model_input (model, 0),
                                         .output = wm_model_output (model, 0),
                                         .net = &net };
        wm_error_t error = { 0 };
        assert_int_equal (wm_model_write (in_folder ("bad.wmm"), &parts, &error), WM_EBATCH);
        assert_non_null (strstr (error.text, wrong[i].word));
    }
    wm_model_destroy (&model);
}

static void sizes_without_a_network (void **state)
{
    wm_error_t error = { 0 };
    const char *path = in_folder ("none.onnx");
    assert_int_equal (wm_model_new_emtrkmichel (1, 4, 48, path, &error), WM_EBATCH);
    assert_int_equal (wm_model_new_emtrkmichel (1, 48, 0, path, &error), WM_EBATCH);
    assert_int_equal (wm_model_new_emtrkmichel (1, 65536, 65536, path, &error), WM_EBATCH);
    assert_int_not_equal (access (path, F_OK), 0);
    assert_int_equal (wm_model_new_emtrkmichel (1, 12, 12, in_folder ("no/such"), &error),
                      WM_EHOST);
}

/* ---- damage
 * --------------------------------------------------------------------------------------- */

static void check_refused (const uint8_t *bytes, size_t size, const char *word)
{
    wm_error_t error = { 0 };
    const char *path = in_folder ("bad.wmm");
    spill (path, bytes, size);
    wm_model_t *model = wm_model_open (path, &error);
    assert_null (model);
    if (error.fault != WM_EBATCH || !strstr (error.text, path) || !strstr (error.text, word))
        fail_msg ("fault %d, no '%s' in: %s", error.fault, word, error.text);
}

static void damage_is_named (void **state)
{
    size_t size;
    make_model (5, "a.onnx", "a.wmm");
    uint8_t *bytes = slurp (in_folder ("a.wmm"), &size);
    check_refused (bytes, 0, "empty");
    check_refused (bytes, 4, "not a wiremill model");
    for (size_t n = 40; n < size; n = n * 3 / 2)
        check_refused (bytes, n, "truncated");
    check_refused (bytes, size - 1, "truncated");
    for (size_t at = 24; at < size; at += at < 7392 ? 13 : 40013) {
        bytes[at] ^= 1 << at % 8;
        check_refused (bytes, size, "damaged");
        bytes[at] ^= 1 << at % 8;
    }
    bytes[8]++;
    check_refused (bytes, size, "import the model again");
    bytes[8]--;
    bytes[0] ^= 1;
    check_refused (bytes, size, "not a wiremill model");
    free (bytes);
    check_refused ((const uint8_t *) "\x08\x07\x12\x08wiremill, an ONNX file, is not one yet", 42,
                   "import");
    wm_error_t error = { 0 };
    assert_null (wm_model_open (in_folder ("none.wmm"), &error));
    assert_int_equal (error.fault, WM_EHOST);
}

/* The digest made right again over every changed word of the header: the model opens with numbers
   that are safe to use, or is refused.  */
static void lies_with_a_sound_digest (void **state)
{
    static const uint32_t lies[] = { 0, 1, 3, 64, 0x7fffffff, 0x80000000, 0xffffffff };
    size_t size;
    uint32_t refused = 0, accepted = 0;
    char why[480];
    wm_error_t failure;
    assert_int_equal (wm_model_new_emtrkmichel (6, 6, 6, in_folder ("a.onnx"), &failure), WM_OK);
    assert_int_equal (wm_import (in_folder ("a.onnx"), NULL, in_folder ("a.wmm"), why, &failure),
                      WM_OK);
    uint8_t *bytes = slurp (in_folder ("a.wmm"), &size);
    const char *path = in_folder ("bad.wmm");
    spill (path, bytes, size);
    for (size_t at = 72; at<7392; at += at> 192 && at < 672 ? 64 : 4)
        for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
            uint8_t old[4];
            memcpy (old, bytes + at, 4);
            memcpy (bytes + at, &lies[i], 4);
            XXH128_canonical_t digest;
            XXH128_canonicalFromHash (&digest, XXH3_128bits (bytes + 40, size - 40));
            memcpy (bytes + 24, digest.digest, 16);
            FILE *file = fopen (path, "rb+");
            assert_non_null (file);
            assert_int_equal (fwrite (bytes, 1, 7392, file), 7392);
            fclose (file);
            memcpy (bytes + at, old, 4);
            wm_error_t error = { 0 };
            wm_model_t *model = wm_model_open (path, &error);
            wm_device_config_t config = { .engine = "reference",
                                          .precision = "fp32",
                                          .threads = 1 };
            wm_device_t *device = model ? wm_device_new (model, NULL, &config, &error) : NULL;
            if (device)
                wm_device_self_test (device, &error); /* touches every number; may well fail */
            assert_true (model || error.fault == WM_EBATCH);
            refused += !model;
            accepted += model != NULL;
            wm_device_destroy (&device);
            wm_model_destroy (&model);
        }
    free (bytes);
    assert_true (refused > 300);
    assert_true (accepted > 10); /* names, reasons, unused tables */
}

/* ---- the reference engine
 * ------------------------------------------------------------------------ */

static wm_device_t *reference (const wm_model_t *model, int threads)
{
    wm_error_t error = { 0 };
    wm_device_config_t config = { .engine = "reference", .precision = "fp32", .threads = threads };
    wm_device_t *device = wm_device_new (model, NULL, &config, &error);
    if (!device)
        fail_msg ("%s", error.text);
    return device;
}

static void score (wm_device_t *device, float *patch, uint32_t n, uint8_t *status, float *scores)
{
    wm_error_t error = { 0 };
    wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = n, .patch_values = WIRE * BIN, .patch = patch
    };
    if (wm_device_score (device, &batch, status, scores, &error))
        fail_msg ("%s", error.text);
}

static void bits_do_not_depend_on_company (void **state)
{
    static float patch[HITS * WIRE * BIN], scores[HITS * 4], again[HITS * 4];
    uint8_t status[HITS];
    make_model (7, "a.onnx", "a.wmm");
    wm_model_t *model = opened ("a.wmm");
    for (size_t i = 0; i < HITS * WIRE * BIN; i++)
        patch[i] = i * 2654435761u >> 9 & 7 ? 0 : (float) ((i * 40503u >> 3) % 1000) / 70;
    wm_device_t *one = reference (model, 1), *two = reference (model, 2);
    assert_string_equal (wm_device_signature (one), "reference/double/v1");
    score (one, patch, HITS, status, scores);
    assert_int_equal (wm_device_progress (one), HITS);
    score (two, patch, HITS, status, again);
    assert_memory_equal (scores, again, sizeof scores);
    for (uint32_t i = HITS; i-- > 0;)
        score (two, patch + i * WIRE * BIN, 1, status, again + i * 4);
    assert_memory_equal (scores, again, sizeof scores);
    assert_int_equal (wm_device_progress (two), 2 * HITS);
    wm_device_destroy (&one);
    wm_device_destroy (&two);
    wm_model_destroy (&model);
}

static void known_answers_are_the_engine_s (void **state)
{
    wm_error_t error = { 0 };
    make_model (8, "a.onnx", "a.wmm");
    wm_model_t *model = opened ("a.wmm");
    wm_device_t *device = reference (model, 1);
    const float *patch, *want;
    float scores[8 * 4];
    uint8_t status[8];
    assert_int_equal (wm_model_known (model, &patch, &want), 8);
    score (device, (float *) patch, 8, status, scores);
    assert_memory_equal (scores, want, sizeof scores);
    assert_int_equal (wm_device_self_test (device, &error), WM_OK);
    wm_device_destroy (&device);
    wm_model_destroy (&model);
}

static void no_number_is_no_score (void **state)
{
    static float patch[3 * WIRE * BIN];
    float scores[12];
    uint8_t status[3];
    make_model (9, "a.onnx", "a.wmm");
    wm_model_t *model = opened ("a.wmm");
    wm_device_t *device = reference (model, 1);
    patch[WIRE * BIN + 7] = NAN;
    score (device, patch, 3, status, scores);
    assert_int_equal (status[0], WM_HIT_SCORED);
    assert_int_equal (status[1], WM_HIT_NONFINITE);
    assert_int_equal (status[2], WM_HIT_SCORED);
    for (int o = 0; o < 4; o++) {
        assert_true (isnan (scores[4 + o]));
        assert_true (isfinite (scores[o]) && scores[o] == scores[8 + o]);
    }
    wm_device_destroy (&device);
    wm_model_destroy (&model);
}

static void general_models_are_not_its_business (void **state)
{
    static const uint8_t original[] = "what the general engine runs";
    const wm_port_t port = { .name = "x", .n_dim = 1, .dim = { 3 }, .n_value = 3 };
    const wm_model_parts_t parts = { .kind = WM_MODEL_GENERAL,
                                     .why = "general engine: a test",
                                     .n_input = 1,
                                     .n_output = 1,
                                     .input = &port,
                                     .output = &port,
                                     .original = original,
                                     .original_bytes = sizeof original };
    wm_error_t error = { 0 };
    assert_int_equal (wm_model_write (in_folder ("a.wmm"), &parts, &error), WM_OK);
    wm_model_t *model = opened ("a.wmm");
    size_t bytes;
    assert_memory_equal (wm_model_original (model, &bytes), original, sizeof original);
    assert_int_equal (bytes, sizeof original);
    char signature[64];
    wm_device_config_t config = { .engine = "reference", .precision = "fp32", .threads = 1 };
    assert_null (wm_backend_reference.open (model, NULL, &config, signature, &error));
    assert_int_equal (error.fault, WM_EBATCH);
    assert_non_null (strstr (error.text, "use openvino"));
    wm_model_destroy (&model);
}

static int make_folder (void **state)
{
    return mkdtemp (folder) ? 0 : -1;
}

static int remove_folder (void **state)
{
    static const char *const name[] = { "a.onnx", "b.onnx", "a.wmm", "b.wmm", "bad.wmm", "shared" };
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        unlink (in_folder (name[i]));
    return rmdir (folder);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (half_precision_is_proved_at_import),
        cmocka_unit_test (a_writer_waits_for_another_of_its_pid),
        cmocka_unit_test (only_files_are_replaced),
        cmocka_unit_test (a_seed_is_a_file),
        cmocka_unit_test (a_model_says_what_it_is),
        cmocka_unit_test (known_answers_vary),
        cmocka_unit_test (written_again_it_is_the_same_network),
        cmocka_unit_test (networks_unlike_the_field_s),
        cmocka_unit_test (columns_filled_twice_or_never),
        cmocka_unit_test (sizes_without_a_network),
        cmocka_unit_test (damage_is_named),
        cmocka_unit_test (lies_with_a_sound_digest),
        cmocka_unit_test (bits_do_not_depend_on_company),
        cmocka_unit_test (known_answers_are_the_engine_s),
        cmocka_unit_test (no_number_is_no_score),
        cmocka_unit_test (general_models_are_not_its_business),
    };
    return cmocka_run_group_tests (tests, make_folder, remove_folder);
}
