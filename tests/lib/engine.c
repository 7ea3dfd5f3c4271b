/* engine.c - a plug-in that keeps or breaks its contract, as the text in its --model states.

   A row has 8 values, with the text "patch" it is a patch of planes. The answer is their sum, and
   their largest. The text is a word, which happens
   at a row that begins with 666, or in every call:
     crash hang stop error exit nan slow hog    at such a row
     group index state lie high         answers that depend on what they must not depend on
     zero                               promises bits; TEST_ZERO is one of its answers
     blind lazy                         answers to NaN that are finite; a value that is not written
     always-crash always-hang always-exit always-deaf
     describe-crash describe-hang open-hang shapeless unopened
     print locale round fork leak gulp chdir close denormal family
                                        harmless for the answers, if wiremill copes with it  */
#define _GNU_SOURCE /* close_range */
#include <wiremill_engine.h>

#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define VALUES 8
#define SIDE 48 /* of a patch */

static char mode[32];
static long calls;

static int is (const char *word)
{
    return strcmp (mode, word) == 0;
}

static int describe (const wiremill_engine_config_t *config,
                     wiremill_engine_description_t *description, char *error)
{
    FILE *file = *config->model_path ? fopen (config->model_path, "r") : NULL;
    if (!file || fscanf (file, "%31s", mode) != 1) {
        snprintf (error, WIREMILL_ENGINE_ERROR_BYTES, "it needs a word by --model");
        return 1;
    }
    fclose (file);
    if (is ("describe-crash"))
        raise (SIGSEGV);
    while (is ("describe-hang"))
        pause ();
    const char *version = getenv ("TEST_VERSION");
    *description = (wiremill_engine_description_t){
        .name = "test",
        .flags = is ("promise") || is ("zero") ? WIREMILL_ENGINE_SAME_BITS : 0,
        .n_input = is ("shapeless") ? 0 : 1,
        .n_output = 2,
        .input = { { .name = "values",
                     .n_dim = is ("patch") ? 3 : 1,
                     .dim = { is ("patch") ? SIDE : VALUES, SIDE, 1 } } },
        .output = { { .name = "sum" }, { .name = "largest" } },
    };
    snprintf (description->version, sizeof description->version, "%s", version ? version : "1");
    return 0;
}

/* Whether the child of a child can answer.  */
static int has_grandchild (void)
{
    int status = 0;
    const pid_t child = fork ();
    if (child == 0) {
        const pid_t own = fork ();
        if (own == 0)
            _exit (43);
        waitpid (own, &status, 0);
        _exit (WEXITSTATUS (status));
    }
    waitpid (child, &status, 0);
    return WEXITSTATUS (status) == 43;
}

static void *open_engine (const wiremill_engine_config_t *config, char *error)
{
    if (config->model_bytes < 4 || config->threads < 1 || is ("unopened") ||
        (is ("family") && !has_grandchild ())) {
        snprintf (error, WIREMILL_ENGINE_ERROR_BYTES, "this machine does not suit it");
        return NULL;
    }
    while (is ("open-hang"))
        pause ();
    return &calls;
}

/* Takes memory, and keeps it.  */
static int take (size_t bytes)
{
    volatile char *memory = malloc (bytes);
    for (size_t i = 0; memory && i < bytes; i += 4096)
        memory[i] = 1;
    return memory != NULL;
}

/* What a row that begins with 666 brings about.  */
static int misbehave (float *out, char *error)
{
    if (is ("crash"))
        raise (SIGSEGV);
    while (is ("hang") || is ("slow"))
        pause ();
    if (is ("stop"))
        raise (SIGSTOP);
    if (is ("hog") && !take (1 << 30))
        return snprintf (error, WIREMILL_ENGINE_ERROR_BYTES, "no memory for this row");
    if (is ("exit"))
        exit (0);
    if (is ("nan"))
        out[0] = (float) NAN;
    if (is ("error"))
        return snprintf (error, WIREMILL_ENGINE_ERROR_BYTES, "six hundred and\nsixty-six");
    return 0;
}

/* What happens in every call.  */
static void disturb (void)
{
    const char *gate =
        getenv ("TEST_GATE"); /* a file that a call makes, and waits until it is gone */
    if (gate && calls == 20)
        close (creat (gate, 0666));
    while (gate && calls == 20 && access (gate, F_OK) == 0)
        usleep (10000);
    if (is ("print")) {
        puts ("wiremill-result exit=99");
        fflush (stdout);
    }
    if (is ("locale") && !setlocale (LC_ALL, "C.UTF-8"))
        abort ();
    if (is ("round"))
        fesetround (FE_UPWARD);
    const volatile float tiny = 1e-40f;
    if (is ("denormal") && tiny * 1 == 0)
        abort ();
    if (is ("always-crash"))
        raise (SIGSEGV);
    if (is ("always-deaf"))
        signal (SIGALRM, SIG_IGN);
    while (is ("always-hang") || is ("always-deaf"))
        pause ();
    if (is ("always-exit"))
        exit (0);
    if (is ("chdir") && chdir ("/"))
        abort ();
    if ((is ("leak") && !take (1 << 20)) || (is ("gulp") && !take (1 << 24)))
        abort ();
    if (is ("close"))
        close_range (3, ~0u, 0);
    if (is ("fork") && calls == 1 && fork () == 0)
        for (;;)
            pause ();
}

static int score (void *engine, uint32_t n, const float *in, float *out, char *error)
{
    (void) engine;
    calls++;
    disturb ();
    const int values = is ("patch") ? SIDE * SIDE : VALUES;
    for (uint32_t i = 0; i < n; i++, in += values, out += 2) {
        double sum = 0;
        out[1] = in[0];
        for (int k = 0; k < values; k++) {
            sum += (double) in[k];
            out[1] = in[k] > out[1] ? in[k] : out[1];
        }
        sum += is ("group") ? n : is ("index") ? i : is ("state") ? (double) calls : 0;
        sum += is ("lie") && calls > 40 ? (double) calls : 0;
        sum += is ("high") && in[0] > 100 ? n : 0;
        if (!is ("lazy"))
            out[0] = (float) sum;
        if (is ("zero") && getenv ("TEST_ZERO"))
            out[1] = strtof (getenv ("TEST_ZERO"), NULL);
        if (is ("blind") && !isfinite (sum))
            out[0] = out[1] = 0;
        const int bad = in[0] == 666 ? misbehave (out, error) : 0;
        if (bad)
            return bad;
        if (is ("fork") && in[0] == 666)
            raise (SIGKILL);
    }
    return 0;
}

static void close_engine (void *engine)
{
    (void) engine;
}

const wiremill_engine_t wiremill_engine = { WIREMILL_ENGINE_VERSION, describe, open_engine, score,
                                            close_engine };
