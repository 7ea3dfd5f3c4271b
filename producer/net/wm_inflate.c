/* wm_inflate.c - zlib, a slice at a time.  */
#include "producer/net/wm_inflate.h"

#include "schema/base/wm_grow.h"

#include <assert.h>
#include <czmq.h>
#include <stdlib.h>
#include <zlib.h>

#define EITHER (32 + MAX_WBITS) /* gzip or zlib, by the head */
#define SCRATCH_BYTES (32u << 10)
#define FREE_BYTES ((size_t) 32 << 20) /* whatever it is made of */
#define RATIO 20                       /* more only as the message is larger */
#define PACKED_BYTES_MIN 4096          /* first room of a compressed message */

struct wm_zip_t {
    wm_slices_t *slices;
    wm_slice_t job;
    wm_zip_told_t *told;
    void *argument;
    const uint8_t *data;
    size_t n, in; /* bytes of `data`; of those, read */
    uint8_t *to;  /* NULL: they are counted */
    size_t out, out_max;
    z_stream z;
    bool deflates, is_gzip;
    bool is_begun; /* zlib has memory */
    bool is_last;  /* zlib has seen the end of `data`: it must stay so */
};

size_t wm_inflate_max (size_t bytes, size_t message_max)
{
    const size_t max =
        bytes < SIZE_MAX / RATIO - FREE_BYTES ? FREE_BYTES + RATIO * bytes : SIZE_MAX;
    return max < message_max ? max : message_max;
}

static size_t least (size_t a, size_t b)
{
    return a < b ? a : b;
}

static void end_stream (wm_zip_t *self)
{
    if (self->is_begun)
        self->deflates ? deflateEnd (&self->z) : inflateEnd (&self->z);
    self->is_begun = false;
}

/* zlib fails here without memory only.  */
static void begin_stream (wm_zip_t *self)
{
    if (self->is_begun)
        return;
    self->z = (z_stream){ 0 };
    const int rc = self->deflates ? deflateInit2 (&self->z, 1, Z_DEFLATED,
                                                  self->is_gzip ? 16 + MAX_WBITS : MAX_WBITS, 8,
                                                  Z_DEFAULT_STRATEGY)
                                  : inflateInit2 (&self->z, EITHER);
    assert (rc == Z_OK);
    self->is_begun = true;
}

static bool tell (wm_zip_t *self, wm_zip_state_t state)
{
    end_stream (self);
    self->told (self->argument, state); /* may destroy it */
    return false;
}

/* Gives zlib a piece of the data and room for a piece of what it makes. Takes both from *left.  */
static int step (wm_zip_t *self, uint8_t *to, size_t room, size_t *left)
{
    const size_t rest = self->n - self->in, give = self->is_last ? rest : least (rest, *left);
    uint8_t none;
    self->is_last = give == rest;
    self->z.next_in = (Bytef *) (uintptr_t) (self->data + self->in);
    self->z.avail_in = (uInt) give;
    self->z.next_out = room ? to : &none;
    self->z.avail_out = (uInt) least (room, *left);
    const size_t asked = self->z.avail_out;
    const int rc = !self->deflates ? inflate (&self->z, Z_NO_FLUSH)
                                   : deflate (&self->z, self->is_last ? Z_FINISH : Z_NO_FLUSH);
    const size_t read = give - self->z.avail_in, made = asked - self->z.avail_out;
    self->in += read;
    self->out += made;
    *left -= least (*left, read + made);
    return rc;
}

static bool inflate_slice (void *argument, size_t *left)
{
    wm_zip_t *self = argument;
    uint8_t scratch[SCRATCH_BYTES];
    int rc = Z_OK;
    begin_stream (self);
    while (rc == Z_OK && *left && self->out <= self->out_max)
        rc = self->to ? step (self, self->to + self->out, self->out_max - self->out, left)
                      : step (self, scratch, sizeof scratch, left);
    if (self->out > self->out_max)
        return tell (self, WM_ZIP_TOO_LARGE);
    if (rc == Z_STREAM_END && self->in == self->n)
        return tell (self, self->to ? WM_ZIP_DONE : WM_ZIP_COUNTED);
    return rc == Z_OK ? true : tell (self, WM_ZIP_DAMAGED);
}

static bool deflate_slice (void *argument, size_t *left)
{
    wm_zip_t *self = argument;
    int rc = Z_OK;
    begin_stream (self);
    while (rc == Z_OK && *left) {
        if (self->out == self->out_max)
            wm_must_grow (&self->to, &self->out_max, self->out + PACKED_BYTES_MIN, 1);
        rc = step (self, self->to + self->out, self->out_max - self->out, left);
    }
    assert (rc == Z_OK || rc == Z_STREAM_END); /* it has data and room */
    return rc == Z_OK ? true : tell (self, WM_ZIP_DONE);
}

static wm_zip_t *zip_new (wm_slices_t *slices, const uint8_t *data, size_t n, wm_zip_told_t *told,
                          void *argument)
{
    wm_zip_t *self = zmalloc (sizeof *self);
    self->slices = slices;
    self->data = data;
    self->n = n;
    self->told = told;
    self->argument = argument;
    return self;
}

wm_zip_t *wm_inflate_new (wm_slices_t *slices, const uint8_t *data, size_t n, size_t bytes_max,
                          wm_zip_told_t *told, void *argument)
{
    wm_zip_t *self = zip_new (slices, data, n, told, argument);
    self->out_max = bytes_max;
    wm_slice_begin (slices, &self->job, inflate_slice, self);
    return self;
}

void wm_zip_go (wm_zip_t *self)
{
    self->out_max = self->out;
    self->to = malloc (self->out_max + 1);
    assert (self->to);
    self->in = self->out = 0;
    self->is_last = false;
    wm_slice_begin (self->slices, &self->job, inflate_slice, self);
}

wm_zip_t *wm_deflate_new (wm_slices_t *slices, const uint8_t *data, size_t n, bool is_gzip,
                          wm_zip_told_t *told, void *argument)
{
    wm_zip_t *self = zip_new (slices, data, n, told, argument);
    self->deflates = true;
    self->is_gzip = is_gzip;
    wm_slice_begin (slices, &self->job, deflate_slice, self);
    return self;
}

size_t wm_zip_bytes (const wm_zip_t *self)
{
    return self->out;
}

uint8_t *wm_zip_take (wm_zip_t *self)
{
    uint8_t *made = self->to;
    self->to = NULL;
    return made;
}

void wm_zip_destroy (wm_zip_t **self_p)
{
    wm_zip_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    wm_slice_end (&self->job);
    end_stream (self);
    free (self->to);
    free (self);
}
