/* fuzz.c - the driver of all fuzz targets: seeds, mutations, limits, and the line that counts.

   usage: fuzz_NAME [--runs N] [--seed N] [--corpus FOLDER] [FILE...]
     --runs     so many mutations after the seeds and the corpus (default 2000)
     --corpus   files to run and to mutate: inputs that once were findings
     FILE       runs these files and nothing else: to see a finding again
   The same seed tries the same inputs. An input that fails is left as finding-NAME in the working
   folder. Built with -DWM_LIBFUZZER this file has no main and no loop; libFuzzer has them.  */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#if defined __SANITIZE_ADDRESS__ || defined WM_LIBFUZZER
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* ---- for targets ----------------------------------------------------------------------------- */

void fuzz_fail (const char *what, const char *file, int line)
{
    fprintf (stderr, "%s:%d: not so: %s\n", file, line, what);
    abort ();
}

const char *fuzz_file (const void *bytes, size_t size)
{
    static int fd = -1;
    static char path[40];
    if (fd < 0) {
        fd = memfd_create ("fuzz", MFD_CLOEXEC);
        snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate (fd, 0) || pwrite (fd, bytes, size, 0) != (ssize_t) size)
        fuzz_fail (strerror (errno), "memory file", 0);
    return path;
}

static char scratch[64];
static void scratch_remove (void)
{
    unlink (scratch);
}
const char *fuzz_scratch (void)
{
    if (!scratch[0]) {
        snprintf (scratch, sizeof scratch, "%s/wm-fuzz-%d",
                  access ("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", (int) getpid ());
        atexit (scratch_remove);
    }
    return scratch;
}

uint8_t *fuzz_read (const char *path, size_t *size)
{
    struct stat status;
    const int fd = open (path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat (fd, &status))
        fuzz_fail (strerror (errno), path, 0);
    uint8_t *bytes = malloc ((size_t) status.st_size + 1);
    if (!bytes || read (fd, bytes, (size_t) status.st_size) != status.st_size)
        fuzz_fail ("it can be read", path, 0);
    close (fd);
    *size = (size_t) status.st_size;
    return bytes;
}

uint64_t fuzz_take (fuzz_take_t *self, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes && self->at < self->end; i++)
        number |= (uint64_t) *self->at++ << 8 * i;
    return number;
}

size_t fuzz_take_bytes (fuzz_take_t *self, void *to, size_t bytes)
{
    const size_t left = (size_t) (self->end - self->at), n = bytes < left ? bytes : left;
    memset (to, 0, bytes);
    if (n)
        memcpy (to, self->at, n);
    self->at += n;
    return n;
}

/* ---- mutations ------------------------------------------------------------------------------- */

static uint64_t dice_state = 1;

static uint64_t dice (uint64_t sides) /* splitmix64 */
{
    uint64_t z = (dice_state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % sides;
}

/* A number that often lies at a border, of 1, 2, 4 or 8 bytes.  */
static void number_put (uint8_t *data, size_t size)
{
    static const uint64_t border[] = { 0,          1,          0x7f,       0x80,       0xff,
                                       0x100,      0x7fff,     0x8000,     0xffff,     0x10000,
                                       0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX,  UINT64_MAX,
                                       1u << 20,   1u << 24,   1u << 28,   0x7f800000, 0x7fc00000 };
    const size_t bytes = (size_t) 1 << dice (4);
    if (size < bytes)
        return;
    uint8_t *at = data + dice (size - bytes + 1);
    uint64_t number = 0;
    memcpy (&number, at, bytes);
    switch (dice (3)) {
    case 0:
        number = border[dice (sizeof border / sizeof *border)];
        break;
    case 1:
        number += dice (33) - 16;
        break;
    default:
        number =
            __builtin_bswap64 (border[dice (sizeof border / sizeof *border)]) >> (64 - 8 * bytes);
    }
    memcpy (at, &number, bytes);
}

static size_t mutate_once (uint8_t *data, size_t size, size_t size_max)
{
    const size_t at = size ? dice (size) : 0;
    size_t n = size ? 1 + dice (size - at < 64 ? size - at : 64) : 0;
    switch (size ? dice (8) : 3) {
    case 0:
        data[at] ^= (uint8_t) (1u << dice (8));
        return size;
    case 1:
        data[at] = (uint8_t) dice (256);
        return size;
    case 2: /* remove */
        memmove (data + at, data + at + n, size - at - n);
        return size - n;
    case 3: /* insert */
        n = 1 + dice (16);
        n = n < size_max - size ? n : size_max - size;
        memmove (data + at + n, data + at, size - at);
        memset (data + at, dice (2) ? (int) dice (256) : 0, n);
        return size + n;
    case 4: { /* copy a part elsewhere */
        const size_t to = dice (size);
        memmove (data + to, data + at, n < size - to ? n : size - to);
        return size;
    }
    case 5: /* cut */
        return dice (4) ? size : at;
    default:
        number_put (data, size);
        return size;
    }
}

#ifdef WM_LIBFUZZER
size_t LLVMFuzzerMutate (uint8_t *data, size_t size, size_t size_max);
size_t fuzz_mutate (uint8_t *data, size_t size, size_t size_max)
{
    (void) mutate_once;
    return LLVMFuzzerMutate (data, size, size_max);
}

/* WM_FUZZ_SEEDS=FOLDER: the seeds are written there at the start.  */
static const char *seeds_folder;
static size_t n_seed;
void fuzz_seed (const void *bytes, size_t size)
{
    char path[PATH_MAX];
    snprintf (path, sizeof path, "%s/seed-%zu", seeds_folder, n_seed++);
    FILE *file = fopen (path, "wb");
    if (!file || fwrite (bytes, 1, size, file) != size || fclose (file))
        fuzz_fail (strerror (errno), path, 0);
}
int LLVMFuzzerInitialize (int *argc, char ***argv);
int LLVMFuzzerInitialize (int *argc, char ***argv)
{
    (void) argc, (void) argv;
    seeds_folder = getenv ("WM_FUZZ_SEEDS");
    if (seeds_folder)
        fuzz_seeds ();
    return 0;
}
#else

size_t fuzz_mutate (uint8_t *data, size_t size, size_t size_max)
{
    for (uint64_t n = 1 + dice (4) * dice (4); n; n--)
        size = mutate_once (data, size, size_max);
    return size;
}

/* ---- limits ---------------------------------------------------------------------------------- */

static const char *name;
static uint8_t *current; /* the input being run */
static size_t current_size;
static bool is_running;

/* Leaves the input as a file. Only async-signal-safe calls.  */
static void leave (const char *why)
{
    static char path[80] = "finding-";
    strncat (path, name, 60);
    const int fd = open (path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write (fd, current, current_size) < 0)
        path[0] = 0;
    const char *const part[] = { "fuzz: ", name, ": ", why, "; input: ", path, "\n" };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (write (STDERR_FILENO, part[i], strlen (part[i])) < 0)
            return;
}

static void failed (int signal_number)
{
    leave (signal_number == SIGVTALRM ? "took too long" : "crashed");
    signal (signal_number == SIGVTALRM ? SIGABRT : signal_number, SIG_DFL);
    raise (signal_number == SIGVTALRM ? SIGABRT : signal_number);
}

#if SANITIZED
void __sanitizer_set_death_callback (void (*callback) (void));
static void died (void)
{
    leave ("failed");
}
#else
/* Single allocations are bounded: glibc's functions under other names do the work.  */
void *__libc_malloc (size_t bytes);
void *__libc_calloc (size_t n, size_t bytes);
void *__libc_realloc (void *memory, size_t bytes);

static void bound (size_t bytes)
{
    if (is_running && bytes > fuzz_bytes_max) {
        is_running = false;
        leave ("asked for too much memory at once");
        abort ();
    }
}

void *malloc (size_t bytes)
{
    bound (bytes);
    return __libc_malloc (bytes);
}

void *calloc (size_t n, size_t bytes)
{
    size_t all;
    bound (__builtin_mul_overflow (n, bytes, &all) ? 0 : all);
    return __libc_calloc (n, bytes);
}

void *realloc (void *memory, size_t bytes)
{
    bound (bytes);
    return __libc_realloc (memory, bytes);
}
#endif

static void watch (void)
{
    static char stack[65536];
    const stack_t other = { .ss_sp = stack, .ss_size = sizeof stack };
    sigaltstack (&other, NULL);
    struct sigaction action = { .sa_handler = failed,
                                .sa_flags = (int) (SA_RESETHAND | SA_ONSTACK) };
    sigaction (SIGVTALRM, &action, NULL);
#if SANITIZED
    __sanitizer_set_death_callback (died);
#else
    static const int list[] = { SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        sigaction (list[i], &action, NULL);
#endif
}

/* ---- the corpus and the loop ----------------------------------------------------------------- */

typedef struct {
    uint8_t *bytes;
    size_t size;
} entry_t;
static entry_t *corpus;
static size_t n_corpus, n_run;

void fuzz_seed (const void *bytes, size_t size)
{
    if (size > FUZZ_INPUT_BYTES_MAX)
        fuzz_fail ("a seed is at most 64 KiB", name, (int) size);
    corpus = realloc (corpus, (n_corpus + 1) * sizeof *corpus);
    entry_t *entry = corpus ? &corpus[n_corpus++] : NULL;
    if (!entry || !(entry->bytes = malloc (size + 1)))
        fuzz_fail ("there is memory", name, 0);
    memcpy (entry->bytes, bytes, size);
    entry->size = size;
}

static int by_name (const struct dirent **a, const struct dirent **b)
{
    return strcmp ((*a)->d_name, (*b)->d_name);
}

static void corpus_read (const char *folder)
{
    struct dirent **list;
    const int n = scandir (folder, &list, NULL, by_name);
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];
        size_t size;
        if (list[i]->d_name[0] != '.') {
            snprintf (path, sizeof path, "%s/%s", folder, list[i]->d_name);
            uint8_t *bytes = fuzz_read (path, &size);
            fuzz_seed (bytes, size);
            free (bytes);
        }
        free (list[i]);
    }
    if (n >= 0)
        free (list);
}

/* The target gets a copy of exactly its size, so that a read behind its end is seen.  */
static void run (const uint8_t *bytes, size_t size)
{
    const struct itimerval limit = { .it_value.tv_sec = FUZZ_CPU_S };
    current = malloc (size ? size : 1);
    if (!current)
        fuzz_fail ("there is memory", name, 0);
    if (size)
        memcpy (current, bytes, size);
    current_size = size;
    if (n_run % 64 == 0)
        setitimer (ITIMER_VIRTUAL, &limit, NULL);
    is_running = true;
    LLVMFuzzerTestOneInput (current, size);
    is_running = false;
    free (current);
    current = NULL;
    n_run++;
}

/* A corpus entry with a few changes; at times with the end of another one.  */
static size_t pick (uint8_t *space)
{
    const entry_t *entry = &corpus[dice (n_corpus)];
    size_t size = entry->size;
    memcpy (space, entry->bytes, size);
    if (dice (16) == 0) {
        const entry_t *other = &corpus[dice (n_corpus)];
        const size_t keep = size ? dice (size) : 0, from = other->size ? dice (other->size) : 0;
        size_t more = other->size - from;
        more = more < FUZZ_INPUT_BYTES_MAX - keep ? more : FUZZ_INPUT_BYTES_MAX - keep;
        memcpy (space + keep, other->bytes + from, more);
        size = keep + more;
    }
    if (LLVMFuzzerCustomMutator && dice (4))
        return LLVMFuzzerCustomMutator (space, size, FUZZ_INPUT_BYTES_MAX,
                                        (unsigned) dice (1u << 31));
    return fuzz_mutate (space, size, FUZZ_INPUT_BYTES_MAX);
}

static double cpu_s (void)
{
    struct timespec now;
    clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

int main (int argc, char **argv)
{
    size_t runs = 2000, files = 0;
    const char *folder = NULL, *slash = strrchr (argv[0], '/');
    name = slash ? slash + 1 : argv[0];
    FILE *report = fdopen (dup (STDOUT_FILENO), "w"); /* a target may point stdout elsewhere */
    watch ();
    for (int i = 1; i < argc; i++) {
        const bool more = i + 1 < argc;
        if (more && !strcmp (argv[i], "--runs"))
            runs = strtoul (argv[++i], NULL, 10);
        else if (more && !strcmp (argv[i], "--seed"))
            dice_state = strtoul (argv[++i], NULL, 10);
        else if (more && !strcmp (argv[i], "--corpus"))
            folder = argv[++i];
        else {
            size_t size;
            uint8_t *bytes = fuzz_read (argv[i], &size);
            run (bytes, size);
            free (bytes);
            files++;
        }
    }
    if (files || !report)
        return !report;
    fuzz_seeds ();
    if (folder)
        corpus_read (folder);
    for (size_t i = 0; i < n_corpus; i++)
        run (corpus[i].bytes, corpus[i].size);
    uint8_t *space = malloc (FUZZ_INPUT_BYTES_MAX);
    while (n_corpus && space && n_run < n_corpus + runs)
        run (space, pick (space));
    free (space);
    fprintf (report, "fuzz: %s executions %zu corpus %zu findings 0 cpu-seconds %.1f\n", name,
             n_run, n_corpus, cpu_s ());
    fclose (report);
    for (size_t i = 0; i < n_corpus; i++)
        free (corpus[i].bytes);
    free (corpus);
    return 0;
}
#endif
