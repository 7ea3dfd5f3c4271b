/* fuzz_frames.c - what is joined with hits: frames in HDF5 and in archives, and hits as CSV. A text
   is read as hits beside frames that are sound, everything else as frames beside sound hits. The
   sums in tar's headers are put right, so that mutations reach what is behind them.  */
#include "tests/fuzz/fuzz_h5.h"
#include "schema/wm_defaults.h"
#include "tests/unit/producer_files.h"

#include <bzlib.h>
#include <string.h>
#include <zlib.h>

const size_t fuzz_bytes_max = 1u << 30; /* the library allocates a chunk as a whole: wm_h5.c */

#define BLOCK 512u

enum { CHANNELS = 3, TICKS = 40 };
static char hits_path[160], frames_path[160], map_path[160];
static uint8_t tar[16 * BLOCK + 4 * CHANNELS * TICKS];
static size_t tar_bytes;

/* ---- seeds ----------------------------------------------------------------------------------- */

static void sum_put (uint8_t *block)
{
    unsigned sum = 8 * ' ';
    char text[16];
    for (unsigned i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? 0 : block[i];
    snprintf (text, sizeof text, "%06o", sum);
    memcpy (block + 148, text, 7);
    block[155] = ' ';
}

static void array_put (const char *name, const char *type, const char *shape, bool is_fortran,
                       const void *from, size_t bytes)
{
    uint8_t *block = tar + tar_bytes;
    char text[128];
    memset (block, 0, BLOCK);
    snprintf ((char *) block, 100, "%s", name);
    snprintf ((char *) block + 124, 12, "%011o", (unsigned) (128 + bytes));
    block[156] = '0';
    memcpy (block + 257, "ustar", 6);
    sum_put (block);
    memset (block + BLOCK, 0, (128 + bytes + BLOCK - 1) / BLOCK * BLOCK);
    memset (block + BLOCK, ' ', 128);
    memcpy (block + BLOCK, "\x93NUMPY\x01\0v\0", 10);
    const int n =
        snprintf (text, sizeof text, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", type,
                  is_fortran ? "True" : "False", shape);
    memcpy (block + BLOCK + 10, text, (size_t) n);
    block[BLOCK + 127] = '\n';
    memcpy (block + BLOCK + 128, from, bytes);
    tar_bytes += BLOCK + (128 + bytes + BLOCK - 1) / BLOCK * BLOCK;
}

static void text_put (const char *path, const char *text)
{
    FILE *file = fopen (path, "w");
    FUZZ_CHECK (file && fputs (text, file) >= 0 && fclose (file) == 0);
}

static const char hits[] =
    "run,subrun,event,tpc,plane,wire,time,hit_id\n# two events\n1,0,5,0,0,1,12.5,7\n"
    "1,0,5,0,1,0,20,8\r\n1,0,6,0,0,2.0,nan,9\n1,0,5,3,0,1,1e9,10\n";
static const char map[] =
    "channel,cryostat,tpc,plane,wire\n1,0,0,0,0\n2,0,0,0,1\n3,0,0,0,2\n3,0,0,1,0\n";
static const int channel[CHANNELS] = { 3, 1, 2 };
static const double info[] = { 1e6, 500, 4 };

static void files_make (float adc[CHANNELS][TICKS])
{
    snprintf (hits_path, sizeof hits_path, "%s", test_path ("hits.csv"));
    snprintf (map_path, sizeof map_path, "%s", test_path ("map.csv"));
    snprintf (frames_path, sizeof frames_path, "%s", test_path ("frames.h5"));
    text_put (hits_path, hits);
    text_put (map_path, map);
    adc[0][5] = 7, adc[0][6] = -1, adc[1][39] = 2, adc[2][0] = 3;
    wm_h5_init ();
    hid_t file = H5Fcreate (frames_path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put_f32 (file, "5/frame_gauss", CHANNELS, TICKS, &adc[0][0]);
    put_i32 (file, "5/channels_gauss", CHANNELS, 0, channel);
    put_f64 (file, "5/tickinfo_gauss", 3, info);
    FUZZ_CHECK (file >= 0 && H5Fclose (file) >= 0);
    atexit (test_folder_remove);
}

void fuzz_seeds (void)
{
    static float adc[CHANNELS][TICKS];
    static int16_t small[CHANNELS * TICKS] = { 900, 901 };
    static uint8_t packed[sizeof tar + 1024];
    size_t size;
    if (!*hits_path)
        files_make (adc);
    uint8_t *bytes = fuzz_read (frames_path, &size);
    fuzz_seed (bytes, size);
    free (bytes);
    fuzz_seed (hits, sizeof hits - 1);
    for (int fortran = 0; fortran < 2; fortran++) {
        tar_bytes = 0;
        array_put ("frame_a_5.npy", fortran ? "<f4" : "<i2", "(3, 40)", fortran,
                   fortran ? (void *) adc : small, fortran ? sizeof adc : sizeof small);
        array_put ("channels_a_5.npy", "<i4", "(3,)", false, channel, sizeof channel);
        array_put ("tickinfo_a_5.npy", "<f8", "(3,)", false, info, sizeof info);
        memset (tar + tar_bytes, 0, 2 * BLOCK);
        tar_bytes += 2 * BLOCK;
        fuzz_seed (tar, tar_bytes);
    }
    unsigned n = sizeof packed;
    FUZZ_CHECK (!BZ2_bzBuffToBuffCompress ((char *) packed, &n, (char *) tar, (unsigned) tar_bytes,
                                           1, 0, 0));
    fuzz_seed (packed, n);
    z_stream z = { .next_in = tar,
                   .avail_in = (unsigned) tar_bytes,
                   .next_out = packed,
                   .avail_out = sizeof packed };
    FUZZ_CHECK (!deflateInit2 (&z, 1, Z_DEFLATED, 15 + 16, 8, 0) && deflate (&z, Z_FINISH) == 1);
    fuzz_seed (packed, z.total_out);
    deflateEnd (&z);
}

/* ---- the target ------------------------------------------------------------------------------ */

static void read_pair (const char *of_hits, const char *of_frames, const char *pedestal)
{
    static wm_spec_t spec;
    static wm_event_t event;
    wm_error_t error;
    const wm_reader_pair_t pair = { of_frames, map_path, "", "1.5", pedestal };
    if (!spec.patch_bin)
        wm_spec_preset (&spec, WM_DEFAULT_SPEC, NULL);
    wm_reader_t *reader = wm_reader_open_pair (of_hits, &pair, &spec, &error);
    if (!reader)
        return;
    for (uint32_t i = 0; i < wm_reader_n_event (reader) && i < 8; i++)
        if (!wm_reader_event (reader, i, &event, &error)) {
            check_event (&event);
            for (uint32_t k = 0; k < event.n_hit; k++)
                FUZZ_CHECK (event.hit[k].row < wm_reader_n_row (reader));
        }
    wm_reader_unmatched (reader);
    wm_reader_joined (reader);
    wm_reader_destroy (&reader);
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    static float adc[CHANNELS][TICKS];
    static const char *const pedestal[] = { "", "none", "median", "900" };
    if (!*hits_path)
        files_make (adc);
    if (!size)
        return 0;
    const char *path = fuzz_file (data, size);
    const bool is_text = data[0] != 0x89 && data[0] != 'B' && data[0] != 0x1f && data[0] != 'f' &&
                         data[0] != 't' && data[0] != 'c';
    read_pair (is_text ? path : hits_path, is_text ? frames_path : path, pedestal[size % 4]);
    return 0;
}

size_t LLVMFuzzerCustomMutator (uint8_t *data, size_t size, size_t size_max, unsigned seed)
{
    size = fuzz_mutate (data, size, size_max);
    for (size_t at = 0; seed % 8 && at + BLOCK <= size; at += BLOCK)
        if (!memcmp (data + at + 257, "ustar", 5))
            sum_put (data + at);
    return size;
}
