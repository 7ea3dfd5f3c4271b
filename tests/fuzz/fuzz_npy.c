/* fuzz_npy.c - .npy files: the header alone, and a whole file through the reader.  */
#include "producer/files/wm_npy.h"
#include "producer/layouts/wm_reader.h"
#include "schema/wm_defaults.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

const size_t fuzz_bytes_max = 64u << 20;

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    static wm_spec_t spec;
    static wm_event_t event;
    wm_error_t error;
    wm_npy_t head;
    if (!spec.patch_bin)
        wm_spec_preset (&spec, WM_DEFAULT_SPEC, NULL);
    if (!wm_npy_parse (&head, data, size, "fuzz.npy", &error))
        FUZZ_CHECK (head.head_bytes <= size && head.n_dim <= WM_NPY_DIMS_MAX);
    if (size < 6 || memcmp (data, "\x93NUMPY", 6) != 0)
        return 0;
    wm_reader_t *reader = wm_reader_open (fuzz_file (data, size), &spec, &error);
    if (reader) {
        FUZZ_CHECK (wm_reader_n_row (reader) <= size); /* two bytes a value at least */
        for (uint32_t i = 0; i < wm_reader_n_event (reader) && i < 4; i++)
            wm_reader_event (reader, i, &event, &error);
        wm_reader_fits (reader, "fuzz.npy", size % 2 ? 6 : 12, size % 2 ? "2x3" : "", &error);
    }
    wm_reader_destroy (&reader);
    return 0;
}

static void seed (const char *type, const char *shape, size_t bytes, int version)
{
    uint8_t file[1024] = "\x93NUMPY";
    const size_t lead = version == 1 ? 10 : 12, head = 128;
    file[6] = (uint8_t) version;
    file[8] = (uint8_t) (head - lead);
    memset (file + lead, ' ', head - lead);
    char text[120];
    const int n = snprintf (text, sizeof text,
                            "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    memcpy (file + lead, text, (size_t) n);
    file[head - 1] = '\n';
    for (size_t i = 0; i < bytes; i++)
        file[head + i] = (uint8_t) (i * 37);
    fuzz_seed (file, head + bytes);
}

void fuzz_seeds (void)
{
    seed ("<f4", "(5, 2, 3)", 5 * 24, 1);
    seed ("<f4", "(5, 6)", 5 * 24, 2);
    seed ("<f2", "(7, 6)", 7 * 12, 1);
    seed ("<f2", "(0, 6)", 0, 1);
    seed ("<f8", "(3,)", 24, 1);
}
