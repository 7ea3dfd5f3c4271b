/* test_schema_batch.c - batch payloads: round trips, digests, limits, refusals.  */
#include "schema/wm_batch.h"
#include "schema/wm_limits.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static const uint8_t pins[16] = "pins";

/* A small plane with runs that touch its edges and hits in order.  */
static void plane_make (wm_batch_t *batch)
{
    memset (batch, 0, sizeof *batch);
    *batch = (wm_batch_t){ .kind = WM_BATCH_BINS,
                           .n_hit = 5,
                           .plane = 2,
                           .n_wire = 100,
                           .n_col = 1000,
                           .n_run = 3,
                           .n_value = 30 };
    assert_int_equal (wm_batch_reserve (batch, NULL), WM_OK);
    const uint32_t wire[] = { 0, 0, 99 }, first[] = { 0, 12, 990 }, length[] = { 12, 8, 10 };
    memcpy (batch->run_wire, wire, sizeof wire);
    memcpy (batch->run_first, first, sizeof first);
    memcpy (batch->run_length, length, sizeof length);
    for (uint32_t i = 0; i < 30; i++)
        batch->value[i] = (float) i * 0.37f;
    for (uint32_t i = 0; i < 5; i++) {
        batch->hit_wire[i] = i < 3 ? 0 : 99;
        batch->hit_col[i] = (int32_t) i * 400 - 300; /* outside on either side is allowed */
    }
}

static wm_fault_t through_the_wire (const wm_batch_t *batch, wm_batch_t *back)
{
    wm_coder_t *coder = wm_coder_new ();
    size_t bound = wm_batch_encode_bound (batch), bytes;
    uint8_t *frame = malloc (bound);
    wm_error_t error;
    assert_int_equal (wm_batch_encode (batch, coder, frame, bound, &bytes, &error), WM_OK);
    assert_true (bytes <= WM_FRAME_BYTES_MAX);
    wm_fault_t fault = wm_batch_decode (back, coder, frame, bytes, &error);
    free (frame);
    wm_coder_destroy (&coder);
    return fault;
}

static void a_plane_survives_the_wire (void **state)
{
    wm_batch_t batch, back = { 0 };
    plane_make (&batch);
    assert_int_equal (through_the_wire (&batch, &back), WM_OK);
    uint8_t a[16], b[16];
    wm_batch_digest (&batch, pins, a);
    wm_batch_digest (&back, pins, b);
    assert_memory_equal (a, b, 16);
    assert_memory_equal (batch.memory, back.memory, (size_t) wm_batch_raw_bytes (&batch));
    /* one bit of one value, and another specification, change the digest */
    back.value[29] += 1e-6f;
    wm_batch_digest (&back, pins, b);
    assert_memory_not_equal (a, b, 16);
    wm_batch_digest (&batch, (const uint8_t *) "another spec....", b);
    assert_memory_not_equal (a, b, 16);
    wm_batch_clear (&batch);
    wm_batch_clear (&back);
    wm_batch_clear (&back);
    wm_batch_clear (NULL);
}

static void patches_survive_the_wire (void **state)
{
    wm_batch_t batch = { .kind = WM_BATCH_PATCHES, .n_hit = 455, .patch_values = 2304 },
               back = { 0 };
    assert_int_equal (wm_batch_reserve (&batch, NULL), WM_OK);
    srandom (3); /* incompressible: the largest frame there is */
    for (size_t i = 0; i < (size_t) 455 * 2304; i++)
        ((uint32_t *) batch.patch)[i] = (uint32_t) random () * 2654435761u;
    assert_int_equal (through_the_wire (&batch, &back), WM_OK);
    assert_memory_equal (batch.patch, back.patch, (size_t) 4 * 455 * 2304);
    wm_batch_clear (&batch);
    wm_batch_clear (&back);
}

/* Patches of so many values, all 1 or noise; returns the bytes of their frame's blob.  */
static size_t packed_patches (uint32_t n_hit, uint32_t values, bool is_noise)
{
    wm_batch_t batch = { .kind = WM_BATCH_PATCHES, .n_hit = n_hit, .patch_values = values },
               back = { 0 };
    wm_coder_t *coder = wm_coder_new ();
    wm_error_t error;
    size_t bytes;
    assert_int_equal (wm_batch_reserve (&batch, NULL), WM_OK);
    const size_t raw = (size_t) wm_batch_raw_bytes (&batch), bound = wm_batch_encode_bound (&batch);
    for (size_t i = 0; i < raw / 4; i++)
        batch.patch[i] = is_noise ? (float) random () / (float) RAND_MAX : 1;
    uint8_t *frame = malloc (bound);
    assert_int_equal (wm_batch_encode (&batch, coder, frame, bound, &bytes, &error), WM_OK);
    assert_int_equal (wm_batch_decode (&back, coder, frame, bytes, &error), WM_OK);
    assert_memory_equal (batch.patch, back.patch, raw);
    free (frame);
    wm_coder_destroy (&coder);
    wm_batch_clear (&batch);
    wm_batch_clear (&back);
    return bytes - 40;
}

/* Noise is copied, in whole blocks, with one value more, and many; the rest is compressed.  */
static void noise_is_not_compressed (void **state)
{
    const uint32_t block = 128u << 10 >> 2;
    assert_int_equal (packed_patches (1, block, true), 4 * block + 13 + 3);
    assert_int_equal (packed_patches (2, block, true), 8 * block + 13 + 6);
    assert_int_equal (packed_patches (1, block + 1, true), 4 * block + 4 + 13 + 6);
    assert_int_equal (packed_patches (6, 150528, true), 6 * 602112 + 13 + 3 * 28);
    assert_true (packed_patches (6, 150528, false) < 602112);
    assert_true (packed_patches (1, 100, false) < 100);
}

static void limits_hold (void **state)
{
    wm_batch_t batch = { .kind = WM_BATCH_PATCHES, .n_hit = 456, .patch_values = 2304 };
    assert_int_equal (wm_batch_reserve (&batch, NULL), WM_EBATCH);
    batch.n_hit = batch.patch_values = UINT32_MAX; /* 2^66 bytes */
    assert_int_equal (wm_batch_reserve (&batch, NULL), WM_EBATCH);
    batch.n_hit = batch.patch_values = 1u << 31; /* 2^64 bytes, which wrap to none */
    assert_true (wm_batch_raw_bytes (&batch) == UINT64_MAX);
    assert_int_equal (wm_batch_reserve (&batch, NULL), WM_EBATCH);
    batch.n_hit = 1u << 30, batch.patch_values = (1u << 31) + 1; /* 2^63 and 2^32 bytes: they fit */
    assert_true (wm_batch_raw_bytes (&batch) == (1ull << 63) + (1ull << 32));
    assert_int_equal (wm_batch_reserve (&batch, NULL), WM_EBATCH);
    batch = (wm_batch_t){ .kind = WM_BATCH_BINS, .n_run = UINT32_MAX, .n_value = UINT32_MAX };
    assert_int_equal (wm_batch_reserve (&batch, NULL), WM_EBATCH);
}

/* A frame whose counts multiply to 2^64 bytes, with the empty content that these would wrap to.  */
static void sizes_that_wrap_are_refused (void **state)
{
    static const uint8_t nothing[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0 }; /* by zstd */
    uint32_t header[10] = { 0, WM_BATCH_PATCHES, 1u << 31, 0, 0, 0, 0, 0, 1u << 31, 0 };
    uint8_t frame[sizeof header + sizeof nothing];
    memcpy (header, "WMB1", 4);
    memcpy (frame, header, sizeof header);
    memcpy (frame + sizeof header, nothing, sizeof nothing);
    wm_coder_t *coder = wm_coder_new ();
    wm_batch_t back = { 0 };
    assert_int_equal (wm_batch_decode (&back, coder, frame, sizeof frame, NULL), WM_EPEER);
    wm_coder_destroy (&coder);
    wm_batch_clear (&back);
}

/* Breaks one promise of a good plane; decoding must name it.  */
static void refuse (const char *what, void (*break_it) (wm_batch_t *))
{
    wm_batch_t batch, back = { 0 };
    plane_make (&batch);
    break_it (&batch);
    if (through_the_wire (&batch, &back) != WM_EPEER)
        fail_msg ("a batch with %s was accepted", what);
    wm_batch_clear (&batch);
    wm_batch_clear (&back);
}

static void wire_outside (wm_batch_t *b)
{
    b->run_wire[2] = 100;
}
static void run_beyond (wm_batch_t *b)
{
    b->run_first[2] = 991;
}
static void run_first_beyond (wm_batch_t *b)
{
    b->run_first[2] = UINT32_MAX;
}
static void overlap (wm_batch_t *b)
{
    b->run_first[1] = 11;
}
static void disorder (wm_batch_t *b)
{
    b->run_wire[0] = 5;
}
static void empty_run (wm_batch_t *b)
{
    b->run_length[0] = 0;
}
static void values_missing (wm_batch_t *b)
{
    b->run_length[1] = 7;
}
static void hit_outside (wm_batch_t *b)
{
    b->hit_wire[4] = 100;
}
static void no_wires (wm_batch_t *b)
{
    b->n_wire = 0;
}
static void no_kind (wm_batch_t *b)
{
    b->kind = (wm_batch_kind_t) 9;
}

/* The same plane as a stack of three: 5 hits of three cells.  */
static void stack_make (wm_batch_t *batch)
{
    wm_batch_t plane;
    plane_make (&plane);
    *batch = plane;
    batch->memory = NULL, batch->memory_bytes = 0;
    batch->kind = WM_BATCH_STACK, batch->plane = 0, batch->n_cell = 3;
    assert_int_equal (wm_batch_reserve (batch, NULL), WM_OK);
    memcpy (batch->run_wire, plane.run_wire, 3 * 4);
    memcpy (batch->run_first, plane.run_first, 3 * 4);
    memcpy (batch->run_length, plane.run_length, 3 * 4);
    memcpy (batch->value, plane.value, 30 * 4);
    for (int i = 0; i < 15; i++) {
        batch->hit_wire[i] = (uint32_t) (i % 3 * 49);
        batch->hit_col[i] = i % 4 ? i * 60 : -(1 << 30);
    }
    wm_batch_clear (&plane);
}

static void a_stack_survives_the_wire (void **state)
{
    wm_batch_t batch, back = { 0 };
    uint8_t a[16], b[16];
    stack_make (&batch);
    assert_true (wm_batch_cells (&batch) == 3 &&
                 wm_batch_raw_bytes (&batch) == 12 * 3 + 4 * 30 + 8 * 15);
    assert_int_equal (through_the_wire (&batch, &back), WM_OK);
    assert_true (back.kind == WM_BATCH_STACK && back.n_cell == 3 && back.n_hit == 5);
    assert_memory_equal (batch.memory, back.memory, (size_t) wm_batch_raw_bytes (&batch));
    wm_batch_digest (&batch, pins, a);
    wm_batch_digest (&back, pins, b);
    assert_memory_equal (a, b, 16);
    back.hit_col[14]++; /* the last cell counts, and so does their number */
    wm_batch_digest (&back, pins, b);
    assert_memory_not_equal (a, b, 16);
    batch.n_hit = 3, batch.n_cell = 5;
    wm_batch_digest (&batch, pins, b);
    assert_memory_not_equal (a, b, 16);
    wm_batch_clear (&batch);
    wm_batch_clear (&back);
}

static void last_cell_outside (wm_batch_t *b)
{
    b->hit_wire[14] = 100;
}
static void stack_of_one (wm_batch_t *b)
{
    b->n_cell = 1;
}
static void stack_of_nine (wm_batch_t *b)
{
    b->n_cell = 9, b->n_hit = 1;
}
static void stack_with_a_plane (wm_batch_t *b)
{
    b->plane = 1;
}

/* A header alone: a plane that has a number of cells, which the encoder never writes.  */
static void broken_stacks_are_refused (void **state)
{
    static void (*const break_it[]) (wm_batch_t *) = { last_cell_outside, stack_of_one,
                                                       stack_of_nine };
    for (size_t i = 0; i < sizeof break_it / sizeof *break_it; i++) {
        wm_batch_t batch, back = { 0 };
        stack_make (&batch);
        break_it[i](&batch);
        if (through_the_wire (&batch, &back) != WM_EPEER)
            fail_msg ("broken stack %zu was accepted", i);
        wm_batch_clear (&batch);
        wm_batch_clear (&back);
    }
    wm_batch_t batch, back = { 0 };
    stack_make (&batch);
    stack_with_a_plane (&batch);
    assert_int_equal (through_the_wire (&batch, &back), WM_EPEER);
    wm_coder_t *coder = wm_coder_new ();
    uint8_t frame[4096];
    size_t bytes;
    wm_batch_t plane;
    plane_make (&plane);
    assert_int_equal (wm_batch_encode (&plane, coder, frame, sizeof frame, &bytes, NULL), WM_OK);
    frame[32] = 3; /* patch_values */
    assert_int_equal (wm_batch_decode (&back, coder, frame, bytes, NULL), WM_EPEER);
    wm_coder_destroy (&coder);
    wm_batch_clear (&plane);
    wm_batch_clear (&batch);
    wm_batch_clear (&back);
}

static void broken_promises_are_refused (void **state)
{
    refuse ("a run on no wire", wire_outside);
    refuse ("a run beyond the last column", run_beyond);
    refuse ("a run that starts beyond", run_first_beyond);
    refuse ("overlapping runs", overlap);
    refuse ("runs out of order", disorder);
    refuse ("an empty run", empty_run);
    refuse ("values missing", values_missing);
    refuse ("a hit on no wire", hit_outside);
    refuse ("no wires", no_wires);
    refuse ("an unknown kind", no_kind);
}

static void every_cut_and_most_flips_are_refused (void **state)
{
    wm_batch_t batch, back = { 0 };
    plane_make (&batch);
    wm_coder_t *coder = wm_coder_new ();
    uint8_t frame[4096], bad[4096], digest[16], other[16];
    size_t bytes;
    assert_true (wm_batch_encode_bound (&batch) <= sizeof frame);
    assert_int_equal (wm_batch_encode (&batch, coder, frame, sizeof frame, &bytes, NULL), WM_OK);
    wm_batch_digest (&batch, pins, digest);
    for (size_t cut = 0; cut < bytes; cut++)
        assert_int_equal (wm_batch_decode (&back, coder, frame, cut, NULL), WM_EPEER);
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        memcpy (bad, frame, bytes);
        bad[bit / 8] ^= (uint8_t) (1 << bit % 8);
        if (wm_batch_decode (&back, coder, bad, bytes, NULL) == WM_OK) {
            wm_batch_digest (&back, pins, other); /* then the digest tells */
            int same_content = !memcmp (digest, other, 16);
            assert_true (!same_content ||
                         !memcmp (batch.memory, back.memory, (size_t) wm_batch_raw_bytes (&batch)));
        }
    }
    size_t small = wm_batch_encode_bound (&batch) - 1;
    assert_int_equal (wm_batch_encode (&batch, coder, frame, small, &bytes, NULL), WM_EBATCH);
    wm_coder_destroy (&coder);
    wm_coder_destroy (&coder);
    wm_batch_clear (&batch);
    wm_batch_clear (&back);
}

static void status_has_words (void **state)
{
    assert_string_equal (wm_hit_status_text (WM_HIT_SCORED), "scored");
    assert_string_equal (wm_hit_status_text (WM_HIT_NONFINITE), "non-finite score");
    assert_string_equal (wm_hit_status_text (200), "unknown");
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (a_plane_survives_the_wire),
        cmocka_unit_test (patches_survive_the_wire),
        cmocka_unit_test (noise_is_not_compressed),
        cmocka_unit_test (a_stack_survives_the_wire),
        cmocka_unit_test (broken_stacks_are_refused),
        cmocka_unit_test (limits_hold),
        cmocka_unit_test (sizes_that_wrap_are_refused),
        cmocka_unit_test (broken_promises_are_refused),
        cmocka_unit_test (every_cut_and_most_flips_are_refused),
        cmocka_unit_test (status_has_words),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
