/* engine_template.c - a plug-in: fits a template to a waveform. C99.

   A row is a waveform of 128 ticks. The template is --model: a text file of numbers, at most 64.
   The answer is pedestal, amplitude and first tick of the template where it fits best, and the sum
   of the squared residuals: linear least squares for each place, in double.

     wiremill run --engine ./template.so --model pulse.txt --input waveforms.npy --output out/  */
#include <wiremill_engine.h>

#include <stdio.h>
#include <stdlib.h>

#define TICKS 128
#define LONGEST 64

typedef struct {
    int n;
    double value[LONGEST], sum, square; /* the sums over value and its squares */
} pulse_t;

static int read_pulse (const wiremill_engine_config_t *config, pulse_t *pulse, char *error)
{
    FILE *file = fopen (config->model_path, "r");
    *pulse = (pulse_t){ 0 };
    while (file && pulse->n < LONGEST && fscanf (file, "%lf", &pulse->value[pulse->n]) == 1) {
        pulse->sum += pulse->value[pulse->n];
        pulse->square += pulse->value[pulse->n] * pulse->value[pulse->n];
        pulse->n++;
    }
    if (file)
        fclose (file);
    if (pulse->n > 1)
        return 0;
    snprintf (error, WIREMILL_ENGINE_ERROR_BYTES, "give a template of 2 to 64 numbers by --model");
    return 1;
}

static int describe (const wiremill_engine_config_t *config,
                     wiremill_engine_description_t *description, char *error)
{
    pulse_t pulse;
    *description = (wiremill_engine_description_t){
        .name = "template",
        .version = "1",
        .flags = WIREMILL_ENGINE_CONCURRENT,
        .n_input = 1,
        .n_output = 4,
        .input = { { .name = "waveform", .n_dim = 1, .dim = { TICKS } } },
        .output = { { .name = "pedestal" },
                    { .name = "amplitude" },
                    { .name = "tick" },
                    { .name = "residual" } },
    };
    return read_pulse (config, &pulse, error);
}

static void *open_engine (const wiremill_engine_config_t *config, char *error)
{
    pulse_t *pulse = malloc (sizeof *pulse);
    if (pulse && !read_pulse (config, pulse, error))
        return pulse;
    free (pulse);
    return NULL;
}

/* A residual that is not a number, of a waveform with NaN, beats no other: the answer stays
   NaN, and the row is held.  */
static void fit (const pulse_t *pulse, const float *adc, float *answer)
{
    double sum = 0, square = 0, best = 0;
    const double det = TICKS * pulse->square - pulse->sum * pulse->sum;
    for (int t = 0; t < TICKS; t++)
        sum += (double) adc[t], square += (double) adc[t] * (double) adc[t];
    for (int first = 0; first + pulse->n <= TICKS; first++) {
        double product = 0;
        for (int k = 0; k < pulse->n; k++)
            product += pulse->value[k] * (double) adc[first + k];
        const double amplitude = (TICKS * product - pulse->sum * sum) / det,
                     pedestal = (sum - amplitude * pulse->sum) / TICKS,
                     residual = square - pedestal * sum - amplitude * product;
        if (first == 0 || residual < best) {
            best = residual;
            answer[0] = (float) pedestal, answer[1] = (float) amplitude;
            answer[2] = (float) first, answer[3] = (float) residual;
        }
    }
}

static int score (void *engine, uint32_t n, const float *in, float *out, char *error)
{
    (void) error;
    for (uint32_t i = 0; i < n; i++)
        fit (engine, in + (size_t) i * TICKS, out + (size_t) i * 4);
    return 0;
}

const wiremill_engine_t wiremill_engine = { WIREMILL_ENGINE_VERSION, describe, open_engine, score,
                                            free };
