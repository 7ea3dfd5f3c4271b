/* fuzz_infer.c - what clients send to the gateway: ModelInferRequest, inference requests as JSON
   with bytes behind it, other messages of the service, and compressed bytes.

   Input: its first byte says which ("G", "H", "J", "Z"). Of "H" two more bytes say how much of the
   rest is JSON.  */
#include "producer/gateway/wm_service.h"
#include "producer/net/wm_inflate.h"
#include "producer/serving/wm_infer.h"
#include "producer/serving/wm_models_private.h"
#include "schema/base/wm_text.h"
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const size_t fuzz_bytes_max = 16u << 20;

/* What is accepted has the bytes that its shape says, inside the message or the request's memory,
   and can be answered.  */
static void accepted (wm_infer_t *infer)
{
    const wm_ks_request_t *request = &infer->request;
    wm_buffer_t to = { 0 };
    uint64_t sum = 0;
    FUZZ_CHECK (request->n_input <= WM_INFER_TENSORS_MAX);
    FUZZ_CHECK (request->n_output <= WM_INFER_TENSORS_MAX);
    for (uint32_t i = 0; i < request->n_input; i++) {
        const wm_kserve_tensor_t *tensor = &request->input[i];
        size_t bytes;
        FUZZ_CHECK (tensor->type < WM_TYPES && tensor->n_dim <= WM_TENSOR_DIM_MAX);
        FUZZ_CHECK (wm_infer_bytes (tensor, &bytes));
        FUZZ_CHECK (tensor->type == WM_TYPE_BYTES || bytes == tensor->bytes);
        FUZZ_CHECK (wm_text_is_utf8 (tensor->name, strlen (tensor->name)));
        for (size_t k = 0; k < tensor->bytes; k++)
            sum += tensor->data[k];
    }
    for (uint32_t i = 0; i < request->n_output; i++)
        sum += strlen (request->output[i]);
    wm_ks_answer_t answer = { .model = request->model,
                              .version = "1",
                              .n_held = (uint32_t) sum,
                              .output = request->input,
                              .n_output = request->n_input };
    wm_ks_error_t error;
    wm_placed_t placed = { 0 };
    for (size_t left = 3; wm_infer_calls.place (&infer->request, answer.output, answer.n_output,
                                                &placed, &left, &error);)
        left = 3;
    wm_piece_t piece[WM_INFER_TENSORS_MAX + 1];
    wm_buffer_t joined = { 0 };
    size_t at = 0;
    wm_infer_encode (&to, infer, &answer, piece);
    for (uint32_t i = 0; i < answer.n_output; i++) {
        wm_buffer_put (&joined, to.data + at, piece[i].before - at);
        wm_buffer_put (&joined, piece[i].data, piece[i].bytes);
        at = piece[i].before;
        if (!wm_infer_shared_out (infer, i))
            answer.output[i].data = piece[i].data;
    }
    wm_buffer_put (&joined, to.data + at, to.bytes - at);
    wm_proto_t in = wm_proto_of (joined.data, joined.bytes);
    wm_field_t field;
    while (wm_proto_next (&in, &field))
        ;
    FUZZ_CHECK (!in.is_bad);
    if (infer->is_json && request->n_output < request->n_input)
        answer.n_output = request->n_output;
    if (!infer->is_json)
        infer->request.n_output = 0;
    free (to.data);
    free (joined.data);
    wm_infer_page_t page;
    const bool is_text = wm_infer_page (&page, infer, &answer, NULL) == WM_KS_OK;
    for (size_t left = 3; is_text && wm_infer_write (&page, &left); left = 3)
        ;
    free (page.to.data);
}

/* Regions with one, "r", of 64 bytes.  */
static wm_shared_t *shared (void)
{
    static wm_shared_t *regions;
    static char folder[64];
    if (regions)
        return regions;
    snprintf (folder, sizeof folder, "%s", fuzz_scratch ());
    char *name = strrchr (folder, '/');
    const int fd = open (folder, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    FUZZ_CHECK (fd >= 0 && ftruncate (fd, 64) == 0 && close (fd) == 0);
    *name++ = 0;
    regions = wm_shared_new (folder);
    json_t *request = json_pack ("{s:s, s:i}", "key", name, "byte_size", 64);
    FUZZ_CHECK (wm_shared_register (regions, "r", request, NULL) == WM_KS_OK);
    json_decref (request);
    return regions;
}

static void infer (const uint8_t *data, size_t size, size_t json_bytes)
{
    static wm_models_t none;
    wm_front_t front = { .models = &none, .message_max = 4 << 20, .shared = shared () };
    wm_infer_t infer = { .front = &front };
    wm_ks_error_t error = { 0 };
    size_t more;
    if (json_bytes != SIZE_MAX)
        infer.request.model = wm_infer_text (&infer, "m", 1);
    wm_ks_code_t code = json_bytes == SIZE_MAX
                            ? wm_infer_decode (&infer, data, size, &error)
                            : wm_infer_decode_http (&infer, data, size, json_bytes, &error);
    if (!code)
        code = wm_infer_need (&infer, &more, &error);
    for (size_t bytes = 3; !code && wm_infer_values (&infer, &bytes, &error); bytes = 3)
        ;
    if (!code)
        code = error.code;
    if (code)
        FUZZ_CHECK (*error.text && error.code == code && infer.request.id);
    else
        accepted (&infer);
    wm_infer_free (&infer);
}

static void http (const uint8_t *data, size_t size)
{
    const size_t n = size - 2, json_bytes = (size_t) data[0] | (size_t) data[1] << 8;
    infer (data + 2, n, json_bytes < n ? json_bytes : n);
}

static void on_zip (void *argument, wm_zip_state_t state)
{
    *(int *) argument = (int) state;
}

/* Lets the loop run until a state is told.  */
static int told (wm_loop_t *loop, const int *state)
{
    while (*state < 0) {
        wm_loop_timer (loop, 0, (wm_due_t *) wm_loop_stop, loop);
        wm_loop_run (loop);
    }
    return *state;
}

static void inflate (const uint8_t *data, size_t size)
{
    wm_loop_t *loop = wm_loop_new ();
    wm_slices_t *slices = wm_slices_new (loop);
    int state = -1;
    wm_zip_t *zip = wm_inflate_new (slices, data, size, 1u << 20, on_zip, &state);
    if (told (loop, &state) == WM_ZIP_COUNTED) {
        const size_t bytes = wm_zip_bytes (zip);
        state = -1;
        wm_zip_go (zip);
        FUZZ_CHECK (told (loop, &state) == WM_ZIP_DONE && wm_zip_bytes (zip) == bytes &&
                    bytes <= 1u << 20);
    }
    wm_zip_destroy (&zip);
    wm_loop_destroy (&loop);
    wm_slices_destroy (&slices);
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    static const wm_proto_field_t *const table[] = { wm_message_model, wm_message_repository,
                                                     wm_message_index_request };
    uint8_t *copy = malloc (size + 1); /* exact, for the sanitizers */
    const size_t n = size ? size - 1 : 0;
    memcpy (copy, data + (size > 0), n);
    if (size && data[0] == 'G')
        infer (copy, n, SIZE_MAX);
    else if (size && data[0] == 'H' && n >= 2)
        http (copy, n);
    else if (size && data[0] == 'Z')
        inflate (copy, n);
    for (size_t i = 0; size && data[0] == 'J' && i < 3; i++)
        json_decref (wm_proto_json (table[i], copy, n));
    free (copy);
    return 0;
}

static void seed_http (const char *json, const char *tail)
{
    uint8_t all[2048] = { 'H', (uint8_t) strlen (json), (uint8_t) (strlen (json) >> 8) };
    const size_t n = (size_t) snprintf ((char *) all + 3, sizeof all - 3, "%s%s", json, tail);
    fuzz_seed (all, n + 3);
}

void fuzz_seeds (void)
{
    static const char raw[] = "G\12\1m\32\1i\42\16\12\10priority\22\2\20\7"
                              "\52\14\12\1x\22\4FP32\32\1\1\62\3\12\1y\72\4abcd";
    static const char typed[] = "G\12\1m\52\23\12\1x\22\5INT32\32\1\2\52\4\22\2\1\2";
    static const char region[] =
        "G\12\1m\52\110\12\1x\22\4FP32\32\1\2\42\33\12\24shared_memory_region\22\3\32\1r"
        "\42\35\12\27shared_memory_byte_size\22\2\20\10\62\40\12\1y\22\33\12\24shared_memory_region"
        "\22\3\32\1r";
    fuzz_seed (region, sizeof region - 1);
    fuzz_seed (raw, sizeof raw - 1);
    fuzz_seed (typed, sizeof typed - 1);
    fuzz_seed ("J\12\1m\22\1\061", 7);
    seed_http (
        "{\"id\":\"a\",\"parameters\":{\"binary_data_output\":true,\"priority\":1},\"inputs\":"
        "[{\"name\":\"x\",\"shape\":[2,2],\"datatype\":\"FP32\",\"data\":[[1,2],[3,4.5]]}],"
        "\"outputs\":[{\"name\":\"y\",\"parameters\":{\"binary_data\":false}}]}",
        "");
    seed_http (
        "{\"inputs\":[{\"name\":\"x\",\"shape\":[4],\"datatype\":\"BYTES\",\"data\":[\"a\"]},"
        "{\"name\":\"x\",\"shape\":[2],\"datatype\":\"INT16\",\"parameters\":{"
        "\"binary_data_size\":4}}]}",
        "abcd");
    seed_http ("{\"inputs\":[{\"name\":\"x\",\"shape\":[4],\"datatype\":\"INT16\",\"parameters\":{"
               "\"shared_memory_region\":\"r\",\"shared_memory_offset\":3,"
               "\"shared_memory_byte_size\":8}}],\"outputs\":[{\"name\":\"y\",\"parameters\":{"
               "\"shared_memory_region\":\"r\",\"shared_memory_byte_size\":64}}]}",
               "");
    uint8_t all[256] = { 'Z' };
    wm_loop_t *loop = wm_loop_new ();
    wm_slices_t *slices = wm_slices_new (loop);
    for (int is_gzip = 0; is_gzip < 2; is_gzip++) {
        int state = -1;
        wm_zip_t *zip =
            wm_deflate_new (slices, (const uint8_t *) raw, sizeof raw, is_gzip, on_zip, &state);
        told (loop, &state);
        uint8_t *packed = wm_zip_take (zip);
        memcpy (all + 1, packed, wm_zip_bytes (zip));
        fuzz_seed (all, wm_zip_bytes (zip) + 1);
        free (packed);
        wm_zip_destroy (&zip);
    }
    wm_loop_destroy (&loop);
    wm_slices_destroy (&slices);
}
