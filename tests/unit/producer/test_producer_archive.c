/* test_producer_archive.c - tar archives as streams: positions, packed streams one behind another,
   headers of several programs, and what is refused.  */
#include "producer/layouts/wm_frames_archive.h"
#include "tests/unit/producer_files.h"
#include "tests/unit/unit.h"

#include <zlib.h>

static uint8_t tar[64u << 10];
static size_t tar_bytes;

static void header_put (char type, const char *name, const char *prefix, const char *size)
{
    uint8_t *block = tar + tar_bytes;
    unsigned sum = 8 * ' ';
    memset (block, 0, 512);
    snprintf ((char *) block, 100, "%s", name);
    memcpy (block + 124, size, strlen (size) < 12 ? strlen (size) : 12);
    block[156] = (uint8_t) type;
    memcpy (block + 257, "ustar", 6);
    snprintf ((char *) block + 345, 155, "%s", prefix);
    for (int i = 0; i < 512; i++)
        sum += block[i];
    snprintf ((char *) block + 148, 8, "%06o", sum);
    tar_bytes += 512;
}

static void member_put (char type, const char *name, const char *prefix, const char *content)
{
    char size[32];
    snprintf (size, sizeof size, "%011zo", strlen (content));
    header_put (type, name, prefix, size);
    memset (tar + tar_bytes, 0, 512);
    memcpy (tar + tar_bytes, content, strlen (content));
    tar_bytes += (strlen (content) + 511) / 512 * 512;
}

/* Writes bytes first .. last-1 of the archive as a gzip stream.  */
static const char *packed_add (const char *name, const char *mode, size_t first, size_t last)
{
    const char *path = test_path (name);
    gzFile file = gzopen (path, mode);
    assert_true (file && gzwrite (file, tar + first, (unsigned) (last - first)) > 0);
    gzclose (file);
    return path;
}

static const char *plain_make (const char *name, size_t bytes)
{
    const char *path = test_path (name);
    FILE *file = fopen (path, "w");
    assert_true (file && fwrite (tar, 1, bytes, file) == bytes);
    fclose (file);
    return path;
}

static void members_make (void)
{
    tar_bytes = 0;
    member_put ('5', "folder/", "", "");
    member_put ('0', "a.npy", "folder/of", "content of a");
    member_put ('L', "././@LongLink", "", "d/e/long.npy");
    member_put ('0', "cut", "", "B");
    member_put ('g', "global", "", "20 comment=anything\n");
    member_put ('x', "pax", "", "18 path=./pax.npy\n10 size=3\n");
    header_put ('0', "other", "", "00000000077");
    memcpy (tar + tar_bytes, "xyz", 4);
    tar_bytes += 512;
    memset (tar + tar_bytes, 0, 1024);
    tar_bytes += 1024;
}

static void members_read (wm_archive_t *archive)
{
    static const char *const want[][2] = { { "a.npy", "content of a" },
                                           { "long.npy", "B" },
                                           { "pax.npy", "xyz" } };
    wm_member_t member[3], none;
    wm_error_t error;
    char text[16] = "";
    assert_non_null (archive);
    for (int i = 0; i < 3; i++) {
        assert_true (wm_archive_next (archive, &member[i], &error));
        assert_string_equal (member[i].name, want[i][0]);
        assert_int_equal (member[i].bytes, strlen (want[i][1]));
    }
    assert_false (wm_archive_next (archive, &none, &error));
    assert_int_equal (error.fault, WM_OK);
    static const int order[] = { 0, 1, 2, 1, 0 };
    for (int i = 0; i < 5; i++) {
        const int k = order[i];
        assert_int_equal (wm_archive_seek (archive, member[k].at, &error), WM_OK);
        assert_int_equal (wm_archive_read (archive, text, member[k].bytes, &error), WM_OK);
        assert_memory_equal (text, want[k][1], member[k].bytes);
    }
    assert_int_equal (wm_archive_rewinds (archive), 3); /* for order[0], [3] and [4] */
    assert_int_equal (wm_archive_seek (archive, 1 << 20, &error), WM_EBATCH);
    wm_archive_close (&archive);
}

static void members_are_found_again (void **state)
{
    wm_error_t error;
    members_make ();
    members_read (wm_archive_open (plain_make ("a.tar", tar_bytes), WM_ARCHIVE_BYTES_MAX, &error));
    packed_add ("b.tar.gz", "w", 0, 700);
    members_read (wm_archive_open (packed_add ("b.tar.gz", "a", 700, tar_bytes),
                                   WM_ARCHIVE_BYTES_MAX, &error));
    FILE *file = fopen (test_path ("b.tar.gz"), "a"); /* blocks of a tape */
    assert_int_equal (fwrite ("\0\0\0\0", 1, 4, file), 4);
    fclose (file);
    members_read (wm_archive_open (test_path ("b.tar.gz"), WM_ARCHIVE_BYTES_MAX, &error));
    members_read (
        wm_archive_open (plain_make ("c.tar", tar_bytes - 1024), WM_ARCHIVE_BYTES_MAX, &error));
}

static void refused (const char *path, uint64_t bytes_max, const char *text)
{
    wm_error_t error = { 0 };
    wm_member_t member;
    wm_archive_t *archive = wm_archive_open (path, bytes_max, &error);
    while (archive && wm_archive_next (archive, &member, &error))
        ;
    wm_archive_close (&archive);
    assert_int_equal (error.fault, WM_EBATCH);
    if (!strstr (error.text, text))
        fail_msg ("'%s' is not in: %s", text, error.text);
}

static void archives_that_are_none_are_refused (void **state)
{
    static const char *const pax[] = { "99 path=x\n", "9 size=-1\n", "x path=y\n", "3 a",
                                       "27 size=99999999999999999999\n" };
    refused (test_path ("none.tar"), 0, "cannot open: No such file");
    refused ("/proc/self/mem", 0, "not an archive");
    for (size_t i = 0; i < sizeof pax / sizeof *pax; i++) {
        tar_bytes = 0;
        member_put ('x', "pax", "", pax[i]);
        refused (plain_make ("pax.tar", tar_bytes), 0, "damaged: a header's records");
    }
    tar_bytes = 0;
    header_put ('x', "pax", "", "00010000000");
    refused (plain_make ("pax.tar", tar_bytes), 0, "a header of 2097152 bytes");
    static const char *const size[] = { "0000000009x", "\x80\x7f\xff\xff\xff\xff\xff\xff\xff\xff" };
    for (int i = 0; i < 2; i++) {
        tar_bytes = 0;
        header_put ('0', "x", "", size[i]);
        refused (plain_make ("size.tar", tar_bytes), 0, "damaged: a member's header");
    }
    static const char *const type[] = { "1", "2", "3", "S" };
    for (int i = 0; i < 4; i++) {
        tar_bytes = 0;
        member_put (*type[i], "pipe\x1b[2J", "", "");
        refused (plain_make ("type.tar", tar_bytes), 0, "pipe?[2J is a link or a device");
    }
    static const char *const name[] = { "/etc/passwd", "a/../b", "..", "a/.." };
    for (int i = 0; i < 4; i++) {
        tar_bytes = 0;
        member_put ('0', name[i], "", "x");
        refused (plain_make ("name.tar", tar_bytes), 0, "lies outside of the archive");
    }
    members_make ();
    refused (plain_make ("cut.tar", 1100), 0, "cut off");
    tar[tar_bytes - 512 + 7] = 1;
    refused (plain_make ("more.tar", tar_bytes), 0, "damaged: more follows behind its end");
    packed_add ("sum.tar.gz", "w", 0, tar_bytes - 512);
    assert_int_equal (truncate (test_path ("sum.tar.gz"), 100), 0);
    refused (test_path ("sum.tar.gz"), 0, "cut off");
    tar[512] ^= 1;
    refused (plain_make ("sum.tar", tar_bytes), 0, "damaged: a member's header");
}

/* A stream of zeros packs to a thousandth; the limit counts what was unpacked.  */
static void a_bomb_is_refused_early (void **state)
{
    tar_bytes = 0;
    header_put ('0', "zeros", "", "00400000000"); /* 64 MiB */
    refused (packed_add ("bomb.tar.gz", "w9", 0, 512), 32u << 20,
             "member zeros of 67108864 bytes: the archive would unpack to more than 32 MiB");
    refused (test_path ("bomb.tar.gz"), 65u << 20, "cut off");
}

static void array_put (const char *name, const char *type, const char *shape, const void *from,
                       size_t bytes)
{
    char text[512], size[16];
    const size_t head = 128;
    memset (text, ' ', sizeof text);
    const int n =
        snprintf (text, sizeof text,
                  "\x93NUMPY\x01%cv%c{'descr': '%s', 'fortran_order': True, 'shape': %s, }", 0, 0,
                  type, shape);
    text[n] = ' ';
    text[head - 1] = '\n';
    memcpy (text + head, from, bytes);
    snprintf (size, sizeof size, "%011o", (unsigned) (head + bytes));
    header_put ('0', name, "", size);
    memset (tar + tar_bytes, 0, 512);
    memcpy (tar + tar_bytes, text, head + bytes);
    tar_bytes += (head + bytes + 511) / 512 * 512;
}

/* Arrays are unpacked twice in all: when the archive is opened, and while it is read in order.  */
static void frames_are_read_in_two_passes (void **state)
{
    static const float adc[2][3] = { { 1, 2, 0 }, { 3, 0, 5 } };
    static const int channel[] = { 7, 9 };
    static const double info[] = { 0, 500, 2 };
    wm_error_t error;
    char name[64];
    uint32_t n;
    tar_bytes = 0;
    for (int i = 0; i < 5; i++) {
        snprintf (name, sizeof name, "frame_a_b_%d.npy", 30 - i);
        array_put (name, "<f4", "(2, 3)", adc, sizeof adc);
        snprintf (name, sizeof name, "channels_a_b_%d.npy", 30 - i);
        array_put (name, "<i4", "(2,)", channel, sizeof channel);
        snprintf (name, sizeof name, "tickinfo_a_b_%d.npy", 30 - i);
        array_put (name, "<f8", "(3,)", info, sizeof info);
    }
    array_put ("channels_alone_3.npy", "<i4", "(2,)", channel, sizeof channel);
    array_put ("frame_a_x1.npy", "|O", "(2,)", channel, sizeof channel); /* no number */
    array_put ("notes_a_1.npy", "|O", "(2,)", channel, sizeof channel);
    wm_archive_t *archive = wm_archive_open (plain_make ("f.tar", tar_bytes), 0, &error),
                 *kept = archive;
    wm_frames_archive_t *frames = wm_frames_archive_new (&archive, &error);
    assert_non_null (frames);
    assert_null (archive);
    assert_int_equal (wm_archive_rewinds (kept), 0);
    const wm_frames_packed_t *list = wm_frames_archive_list (frames, &n);
    assert_int_equal (n, 5);
    for (uint32_t i = n; i--;) { /* as they are stored */
        const float *value;
        assert_int_equal (list[i].number, 26 + i);
        assert_string_equal (list[i].tag, "a_b");
        assert_true (list[i].n_channel == 2 && list[i].channel[1] == 9 && list[i].info[2] == 2);
        assert_ptr_equal (list[i].channel, list[0].channel); /* kept once */
        assert_int_equal (wm_frames_archive_load (frames, &list[i], &value, &error), WM_OK);
        static const float turned[] = { 1, 0, 0, 2, 3, 5 };
        assert_memory_equal (value, turned, sizeof turned);
    }
    assert_int_equal (wm_archive_rewinds (kept), 1);
    wm_frames_archive_destroy (&frames);
}

static int remove_files (void **state)
{
    test_folder_remove ();
    return 0;
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (members_are_found_again),
        cmocka_unit_test (archives_that_are_none_are_refused),
        cmocka_unit_test (a_bomb_is_refused_early),
        cmocka_unit_test (frames_are_read_in_two_passes),
    };
    return cmocka_run_group_tests (tests, NULL, remove_files);
}
