/* wm_produce_sample.c - the hits on which a campaign in split or fast measures its arithmetic.

   Up to WM_SAMPLE_HITS hits of the first events in the order of the inputs: all of small events, of
   one that has more an even share over all its planes. They are cut as any others are. An input
   that is held is left out, and one that cannot be read: the producer meets it again when it works
   on it. The session is kept alive between events.  */
#include "producer/session/wm_produce_private.h"
#include "schema/wm_sample.h"

#include <string.h>

typedef struct {
    wm_produce_t *self;
    wm_cut_t *cut;
    wm_coder_t *coder;
    wm_batch_t batch;
    uint8_t *payload;
    size_t bytes;
    uint32_t n_hit;
    bool full;
} sample_t;

/* Leaves at most `most` hits in the event, every k-th.  */
static void thin_out (wm_event_t *event, uint32_t most)
{
    const size_t values = event->patch_values;
    const uint32_t n = event->n_hit < most ? event->n_hit : most;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t from = (uint32_t) ((uint64_t) i * event->n_hit / n);
        event->hit[i] = event->hit[from];
        if (values)
            memmove (event->patch + i * values, event->patch + from * values,
                     values * sizeof *event->patch);
    }
    event->n_hit = n;
}

static void add_event (sample_t *sample, const char *path)
{
    wm_produce_t *self = sample->self;
    const uint32_t *hit;
    thin_out (&self->content, WM_SAMPLE_HITS - sample->n_hit);
    if (wm_cut_start (sample->cut, &self->content, path, &self->error))
        return;
    while (!sample->full && !wm_cut_next (sample->cut, &sample->batch, &hit, &self->error) &&
           sample->batch.n_hit) {
        const size_t bytes =
            wm_sample_add (sample->payload, sample->bytes, &sample->batch, sample->coder);
        sample->full = bytes == 0;
        if (sample->full)
            return;
        sample->bytes = bytes;
        sample->n_hit += sample->batch.n_hit;
    }
    sample->full |= sample->n_hit >= WM_SAMPLE_HITS;
}

/* Lets heartbeats out, and answers messages: of inputs that lie elsewhere INPUTs are on their way.
   */
static bool stays_open (wm_produce_t *self)
{
    if (wm_client_is_open (self->client) && wm_client_wait (self->client, 0) == WM_CLIENT_MESSAGE)
        wm_produce_message (self);
    return wm_client_is_open (self->client) && self->exit_code < 0 && !zsys_interrupted;
}

static void add_input (sample_t *sample, const wm_input_t *input)
{
    wm_produce_t *self = sample->self;
    wm_error_t error;
    if (!wm_input_file (input))
        return; /* it lies elsewhere */
    wm_produce_set_reading (input->path);
    wm_reader_t *reader =
        wm_reader_open_input (wm_input_file (input), input->path, &self->pins,
                              wm_client_shape (self->client), &self->spec, &error);
    for (uint32_t e = 0; reader && !sample->full && e < wm_reader_n_event (reader); e++) {
        wm_produce_set_reading (input->path); /* the time limit for one read starts again */
        if (!wm_reader_event (reader, e, &self->content, &error) && self->content.n_hit)
            add_event (sample, input->path);
        wm_produce_set_reading ("");
        if (!stays_open (self))
            break;
    }
    wm_reader_destroy (&reader);
    wm_produce_set_reading ("");
}

/* Raw bytes of a batch: small, so that a few that cannot be compressed still fit the sample, but
   room for one patch.  */
static uint32_t batch_bytes (const wm_pins_t *pins)
{
    const uint64_t one = 4ull * pins->n_value + (64u << 10), some = WM_RAW_BYTES_MAX / 8;
    const uint64_t bytes = one > some ? one : some;
    return bytes < pins->batch_bytes ? (uint32_t) bytes : pins->batch_bytes;
}

bool wm_produce_sample (wm_produce_t *self, const wm_input_t *opened)
{
    if (self->sampled || (self->looked && !opened))
        return false;
    const wm_pins_t *pins = &self->pins;
    wm_cut_limits_t limits = wm_cut_limits (pins);
    limits.batch_bytes = batch_bytes (pins);
    sample_t sample = { .self = self,
                        .cut = wm_cut_new (&self->spec, limits),
                        .coder = wm_coder_new (),
                        .payload = malloc (WM_RAW_BYTES_MAX) };
    assert (sample.payload);
    sample.bytes = wm_sample_begin (sample.payload);
    if (self->looked)
        add_input (&sample, opened);
    for (uint32_t i = 0; !self->looked && i < self->n_input && !sample.full && stays_open (self);
         i++)
        if (self->input[i].is != WM_INPUT_IS_HELD)
            add_input (&sample, &self->input[i]);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SAMPLE);
    msg.n_hit = sample.n_hit;
    self->looked = true;
    self->sampled = sample.n_hit || sample.full;
    if (self->sampled) /* else another input, or another producer, may have hits */
        wm_produce_send (self, &msg, sample.payload, sample.bytes);
    free (sample.payload);
    wm_batch_clear (&sample.batch);
    wm_coder_destroy (&sample.coder);
    wm_cut_destroy (&sample.cut);
    return true;
}
