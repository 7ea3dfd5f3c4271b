/* engine_hits.c - a plug-in: finds the hits of a waveform by a rule. C99.

   A row is a waveform of 256 ticks, in ADC. The pedestal is its median; a hit is a run of ticks
   that are more than THRESHOLD above it. The answer: how many hits there are, and of the first
   HITS ones the tick of the peak, its height and the sum over the run; zeros behind the last.

     cc -O2 -fPIC -shared -o hits.so engine_hits.c $(pkg-config --cflags wiremill)
     wiremill plugin check ./hits.so
     wiremill run --engine ./hits.so --input waveforms.npy --output out/  */
#include <wiremill_engine.h>

#include <stdlib.h>
#include <string.h>

#define TICKS 256
#define HITS 4
#define THRESHOLD 8.0f
#define WIDTH (1 + 3 * HITS) /* values of an answer */

static int compare (const void *a, const void *b)
{
    const float x = *(const float *) a, y = *(const float *) b;
    return (x > y) - (x < y);
}

/* The only function that knows what a hit is.  */
static void find (const float *adc, float *count, float *hit)
{
    float sorted[TICKS];
    memcpy (sorted, adc, sizeof sorted);
    qsort (sorted, TICKS, sizeof *sorted, compare);
    const float pedestal = (sorted[TICKS / 2 - 1] + sorted[TICKS / 2]) / 2;
    int n = 0;
    float finite = 0; /* NaN, if one of them is not: such a waveform is held */
    for (int t = 0; t < TICKS; t++)
        finite += 0 * adc[t];
    for (int t = 0; t < TICKS; t++) {
        float peak = 0, sum = 0;
        int at = t;
        for (; t < TICKS && adc[t] - pedestal > THRESHOLD; t++) {
            const float height = adc[t] - pedestal;
            sum += height;
            if (height > peak)
                peak = height, at = t;
        }
        if (peak > 0 && n++ < HITS) {
            *hit++ = (float) at;
            *hit++ = peak;
            *hit++ = sum;
        }
    }
    *count = (float) n + finite;
}

static int describe (const wiremill_engine_config_t *config,
                     wiremill_engine_description_t *description, char *error)
{
    (void) error;
    *description = (wiremill_engine_description_t){
        .name = "hits",
        .version = "1",
        .flags = WIREMILL_ENGINE_CONCURRENT | WIREMILL_ENGINE_SAME_BITS,
        .n_input = 1,
        .n_output = 2,
        .input = { { .name = "waveform", .n_dim = 1, .dim = { TICKS } } },
        .output = { { .name = "n_hit" }, { .name = "hit", .n_dim = 2, .dim = { HITS, 3 } } },
    };
    return config->model_bytes != 0; /* it takes no --model */
}

static void *open_engine (const wiremill_engine_config_t *config, char *error)
{
    static int engine; /* it has no state */
    (void) config, (void) error;
    return &engine;
}

static int score (void *engine, uint32_t n, const float *in, float *out, char *error)
{
    (void) engine, (void) error;
    memset (out, 0, (size_t) n * WIDTH * sizeof *out);
    for (uint32_t i = 0; i < n; i++)
        find (in + (size_t) i * TICKS, out + (size_t) i * WIDTH, out + (size_t) i * WIDTH + 1);
    return 0;
}

static void close_engine (void *engine)
{
    (void) engine;
}

const wiremill_engine_t wiremill_engine = { WIREMILL_ENGINE_VERSION, describe, open_engine, score,
                                            close_engine };
