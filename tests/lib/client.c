/* client.c - tries the client of libwiremill as a program outside of wiremill does.

   usage: client score BROKER MODEL N     N patches, some not finite: the bits of wiremill_score
          client steady BROKER MODEL N    N pieces of 256, four under way; prints a line for each
          client threads BROKER MODEL N   8 threads, N calls each, half of them by another client
          client many BROKER MODEL FILE   calls of 1 to 4,000 patches, 32 under way, until FILE is
                                          there and all are answered; prints a line for each
          client forget BROKER MODEL      tickets that are forgotten, waited for twice, unknown
          client room BROKER MODEL        more than fits waits; needs a broker without workers
          client gone BROKER MODEL        submits, prints a line, and waits to be killed; likewise
          client helper BROKER MODEL      its helper is killed; likewise
          client again BROKER MODEL       its helper is killed, and another one scores
          client fork BROKER MODEL        a child is refused, connects itself; keeps no helper
          client errors BROKER MODEL      what is refused
          client quiet BROKER MODEL       signals, threads, descriptors, children are as they were
          client refused BROKER MODEL     connects, and prints why not
   PATIENCE (ms) and JOIN in the environment are options of the connection.
   Exits 0 if all is as wiremill.h promises; else 1, with a line.  */
#include "check.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8, CALL = 256 };

static wiremill_connect_options_t options;

static wiremill_client_t *connect_or_end (const char *broker)
{
    wiremill_client_t *self = wiremill_connect (broker, &options, &last);
    CHECK (self);
    return self;
}

/* What wiremill_score makes of patches; both the caller's.  */
typedef struct {
    size_t n, n_value, n_output;
    float *patches, *scores;
    uint8_t *status;
} right_t;

static right_t make_right (const char *path, size_t n)
{
    wiremill_t *model = wiremill_open (path, NULL, &last);
    CHECK (model);
    right_t right = { n, wiremill_n_value (model), wiremill_n_output (model), NULL, NULL, NULL };
    uint32_t state = 1;
    right.patches = calloc (n, right.n_value * sizeof (float));
    right.scores = calloc (n, right.n_output * sizeof (float));
    right.status = calloc (n, 1);
    CHECK (right.patches && right.scores && right.status);
    for (size_t i = 0; i < n * right.n_value; i++) {
        state = state * 1664525u + 1013904223u;
        if (state >> 28 == 3) /* mostly zeros */
            right.patches[i] = (float) (state >> 8 & 0xffff) / (1 << 17);
    }
    for (size_t i = 5; i < n; i += 97)
        right.patches[i * right.n_value + i % right.n_value] = i % 2 ? NAN : -INFINITY;
    CHECK (!wiremill_score (model, right.patches, n, right.n_value, right.scores, right.status,
                            &last));
    wiremill_close (&model);
    return right;
}

static void free_right (right_t *right)
{
    free (right->patches), free (right->scores), free (right->status);
}

/* Whether rows from `first` on are right, bit for bit.  */
static int is_right (const right_t *right, size_t first, size_t n, const float *scores,
                     const uint8_t *status)
{
    return !memcmp (status, right->status + first, n) &&
           !memcmp (scores, right->scores + first * right->n_output,
                    n * right->n_output * sizeof (float));
}

static void score (const char *broker, const char *path, size_t n)
{
    right_t right = make_right (path, n);
    float *scores = malloc (n * right.n_output * sizeof (float));
    uint8_t *status = malloc (n);
    wiremill_client_t *client = connect_or_end (broker);
    wiremill_t *model = wiremill_open (path, NULL, &last);
    uint32_t a[WIREMILL_DIMS_MAX], b[WIREMILL_DIMS_MAX], dims = wiremill_shape (model, a);
    CHECK (wiremill_client_n_value (client) == right.n_value);
    CHECK (wiremill_client_n_output (client) == right.n_output);
    CHECK (wiremill_client_shape (client, b) == dims && !memcmp (a, b, dims * sizeof *a));
    for (size_t i = 0; i < right.n_output; i++)
        CHECK (!strcmp (wiremill_client_label (client, i), wiremill_label (model, i)));
    CHECK (!wiremill_client_label (client, right.n_output));
    CHECK (strlen (wiremill_client_sha256 (client)) == 64);
    wiremill_close (&model);
    CHECK (!wiremill_client_score (client, right.patches, n, right.n_value, scores, status, &last));
    CHECK (is_right (&right, 0, n, scores, status));
    CHECK (!wiremill_client_score (client, right.patches, n, right.n_value, scores, NULL, NULL));
    CHECK (is_right (&right, 0, n, scores, status));
    CHECK (!wiremill_client_score (client, NULL, 0, right.n_value, NULL, NULL, &last));
    uint64_t ticket; /* nothing of these is sent: they are not finite */
    CHECK (!wiremill_submit (client, right.patches + 5 * right.n_value, 1, right.n_value, 0,
                             &ticket, &last));
    CHECK (!wiremill_wait (client, ticket, 0, scores, status, &last));
    CHECK (isnan (scores[0]) && status[0] == WIREMILL_BAD_PIXEL);
    wiremill_client_close (&client);
    CHECK (!client);
    free (scores), free (status);
    free_right (&right);
}

static void steady (const char *broker, const char *path, size_t pieces)
{
    right_t right = make_right (path, CALL * 5);
    float *scores = malloc (CALL * right.n_output * sizeof (float));
    uint8_t status[CALL];
    uint64_t ticket[4];
    wiremill_client_t *client = connect_or_end (broker);
    for (size_t i = 0; i < pieces + 4; i++) {
        const size_t first = i % 5 * CALL, before = (i + 1) % 5 * CALL; /* four pieces ago */
        if (i >= 4) {
            if (wiremill_wait (client, ticket[i % 4], -1, scores, status, &last)) {
                printf ("failed: %s\n", last.text);
                exit (3);
            }
            CHECK (is_right (&right, before, CALL, scores, status));
            printf ("piece %zu\n", i - 3);
            fflush (stdout);
        }
        if (i < pieces)
            CHECK (!wiremill_submit (client, right.patches + first * right.n_value, CALL,
                                     right.n_value, -1, &ticket[i % 4], &last));
    }
    wiremill_client_close (&client);
    free (scores);
    free_right (&right);
}

/* Call i, of these patches.  */
static size_t size_of_call (size_t i)
{
    static const size_t sizes[] = { 1, 4000, 37, 5, 300, 90, 8 };
    return sizes[i % (sizeof sizes / sizeof *sizes)];
}

static void many (const char *broker, const char *path, const char *file)
{
    enum { UNDER_WAY = 32, MOST = 4000 };
    right_t right = make_right (path, 2 * MOST);
    float *scores = malloc (MOST * right.n_output * sizeof (float));
    uint8_t status[MOST];
    uint64_t ticket[UNDER_WAY];
    wiremill_client_t *client = connect_or_end (broker);
    for (size_t i = 0, n = 0; !n || i < n + UNDER_WAY; i++) { /* n: calls in all, once known */
        if (i >= UNDER_WAY) {
            const size_t before = i - UNDER_WAY, patches = size_of_call (before);
            if (wiremill_wait (client, ticket[i % UNDER_WAY], -1, scores, status, &last)) {
                printf ("call %zu failed: %s\n", before + 1, last.text);
                exit (3);
            }
            CHECK (is_right (&right, before % MOST, patches, scores, status));
            printf ("call %zu\n", before + 1);
            fflush (stdout);
        }
        if (!n && !access (file, F_OK))
            n = i;
        if (!n)
            CHECK (!wiremill_submit (client, right.patches + i % MOST * right.n_value,
                                     size_of_call (i), right.n_value, -1, &ticket[i % UNDER_WAY],
                                     &last));
    }
    wiremill_client_close (&client);
    free (scores);
    free_right (&right);
}

typedef struct {
    wiremill_client_t *client;
    const right_t *right;
    size_t thread, calls;
} job_t;

static void *score_calls (void *argument)
{
    const job_t *job = argument;
    const right_t *right = job->right;
    float *scores = malloc (CALL * right->n_output * sizeof (float));
    uint8_t status[CALL];
    for (size_t k = 0; k < job->calls; k++) {
        const size_t n = 1 + (job->thread * 37 + k * 101) % CALL;
        const size_t first = (job->thread * 61 + k * 17) % (right->n - n);
        CHECK (!wiremill_client_score (job->client, right->patches + first * right->n_value, n,
                                       right->n_value, scores, status, NULL));
        CHECK (is_right (right, first, n, scores, status));
    }
    free (scores);
    return NULL;
}

static void threads (const char *broker, const char *path, size_t calls)
{
    right_t right = make_right (path, 2 * CALL);
    wiremill_client_t *client[2] = { connect_or_end (broker), connect_or_end (broker) };
    pthread_t thread[THREADS];
    job_t job[THREADS];
    for (size_t t = 0; t < THREADS; t++) {
        job[t] = (job_t){ client[t % 2], &right, t, calls };
        CHECK (!pthread_create (&thread[t], NULL, score_calls, &job[t]));
    }
    for (size_t t = 0; t < THREADS; t++)
        CHECK (!pthread_join (thread[t], NULL));
    wiremill_client_close (&client[0]);
    wiremill_client_close (&client[1]);
    free_right (&right);
}

static void forget (const char *broker, const char *path)
{
    right_t right = make_right (path, 4 * CALL);
    float *scores = malloc (right.n * right.n_output * sizeof (float));
    uint8_t *status = malloc (right.n);
    uint64_t ticket[3];
    size_t n_done = 99;
    wiremill_client_t *client = connect_or_end (broker);
    for (int i = 0; i < 3; i++)
        CHECK (!wiremill_submit (client, right.patches, right.n, right.n_value, -1, &ticket[i],
                                 &last));
    wiremill_forget (client, ticket[1]);
    wiremill_forget (client, ticket[1]);
    wiremill_forget (client, 12345);
    CHECK (wiremill_poll (client, ticket[1], &n_done, &last) == WIREMILL_USAGE && n_done == 99);
    CHECK (wiremill_wait (client, ticket[1], -1, scores, status, &last) == WIREMILL_USAGE);
    CHECK (strstr (last.text, "no ticket"));
    CHECK (!wiremill_wait (client, ticket[2], -1, scores, status, &last));
    CHECK (is_right (&right, 0, right.n, scores, status));
    CHECK (wiremill_wait (client, ticket[2], 0, scores, status, &last) == WIREMILL_USAGE);
    while (wiremill_poll (client, ticket[0], &n_done, &last) == WIREMILL_AGAIN)
        usleep (1000);
    CHECK (n_done == right.n && !wiremill_poll (client, ticket[0], NULL, NULL));
    CHECK (wiremill_wait (client, ticket[0], 0, NULL, NULL, &last) == WIREMILL_USAGE);
    CHECK (!wiremill_wait (client, ticket[0], 0, scores, NULL, NULL));
    CHECK (!wiremill_submit (client, right.patches, right.n, right.n_value, -1, &ticket[0], &last));
    wiremill_client_close (&client); /* with patches under way */
    free (scores), free (status);
    free_right (&right);
}

static void room_is_bounded (const char *broker, const char *path)
{
    right_t right = make_right (path, CALL);
    float *scores = malloc (right.n * right.n_output * sizeof (float));
    uint64_t ticket[2];
    size_t n_done = 99;
    options.memory = right.n * right.n_value * sizeof (float);
    wiremill_client_t *client = connect_or_end (broker);
    CHECK (!wiremill_submit (client, right.patches, right.n, right.n_value, 0, &ticket[0], &last));
    CHECK (wiremill_submit (client, right.patches, right.n, right.n_value, 50, &ticket[1], &last) ==
           WIREMILL_AGAIN);
    CHECK (strstr (last.text, "under way"));
    CHECK (wiremill_poll (client, ticket[0], &n_done, &last) == WIREMILL_AGAIN && n_done < 5);
    CHECK (wiremill_wait (client, ticket[0], 50, scores, NULL, &last) == WIREMILL_AGAIN);
    CHECK (strstr (last.text, "after 50 ms"));
    CHECK (!wiremill_submit (client, right.patches, 0, right.n_value, 0, &ticket[1], &last));
    CHECK (!wiremill_wait (client, ticket[1], 0, NULL, NULL, &last));
    wiremill_client_close (&client);
    free (scores);
    free_right (&right);
}

static void gone (const char *broker, const char *path)
{
    right_t right = make_right (path, 20 * CALL);
    uint64_t ticket;
    wiremill_client_t *client = connect_or_end (broker);
    CHECK (!wiremill_submit (client, right.patches, right.n, right.n_value, -1, &ticket, &last));
    puts ("submitted");
    fflush (stdout);
    pause ();
}

/* ---- the helper ------------------------------------------------------------------------------ */

/* The process whose arguments have "--of" and our id; 0: there is none.  */
static pid_t helper_of (pid_t owner)
{
    DIR *list = opendir ("/proc");
    char path[300], text[4096], of[16];
    pid_t found = 0;
    snprintf (of, sizeof of, "%ld", (long) owner);
    for (const struct dirent *entry; list && !found && (entry = readdir (list));) {
        snprintf (path, sizeof path, "/proc/%.200s/cmdline", entry->d_name);
        FILE *file = fopen (path, "r");
        const size_t n = file ? fread (text, 1, sizeof text - 1, file) : 0;
        text[n] = 0;
        for (size_t at = 0; at + 5 < n; at += strlen (text + at) + 1)
            if (!strcmp (text + at, "--of") && !strcmp (text + at + 5, of))
                found = (pid_t) atol (entry->d_name);
        if (file)
            fclose (file);
    }
    closedir (list);
    return found;
}

static void no_helper_is_left (void)
{
    for (int i = 0; i < 1000 && helper_of (getpid ()); i++)
        usleep (10000);
    CHECK (!helper_of (getpid ()));
}

static void helper (const char *broker, const char *path)
{
    right_t right = make_right (path, 2 * CALL);
    float *scores = malloc (right.n * right.n_output * sizeof (float));
    uint8_t *status = malloc (right.n);
    uint64_t ticket;
    wiremill_client_t *client = connect_or_end (broker);
    const pid_t before = helper_of (getpid ());
    CHECK (before > 1);
    CHECK (!wiremill_submit (client, right.patches, right.n, right.n_value, -1, &ticket, &last));
    CHECK (!kill (before, SIGKILL));
    CHECK (wiremill_wait (client, ticket, -1, scores, status, &last) == WIREMILL_HOST);
    CHECK (strstr (last.text, "helper process"));
    for (size_t i = 0; i < right.n; i++)
        CHECK (status[i] == WIREMILL_HELD && isnan (scores[i * right.n_output]));
    CHECK (!wiremill_submit (client, right.patches, right.n, right.n_value, -1, &ticket, &last));
    CHECK (helper_of (getpid ()) > 1 && helper_of (getpid ()) != before);
    wiremill_client_close (&client);
    no_helper_is_left ();
    free (scores), free (status);
    free_right (&right);
}

static void again (const char *broker, const char *path)
{
    right_t right = make_right (path, CALL);
    float *scores = malloc (right.n * right.n_output * sizeof (float));
    uint8_t status[CALL];
    wiremill_client_t *client = connect_or_end (broker);
    for (int i = 0; i < 3; i++) {
        CHECK (!kill (helper_of (getpid ()), SIGKILL));
        int fault = WIREMILL_HOST; /* the end of the helper may show in the first call */
        for (int k = 0; k < 2 && fault; k++)
            fault = wiremill_client_score (client, right.patches, right.n, right.n_value, scores,
                                           status, &last);
        CHECK (!fault && is_right (&right, 0, right.n, scores, status));
    }
    wiremill_client_close (&client);
    free (scores);
    free_right (&right);
}

/* ---- what is left alone, what is refused ----------------------------------------------------- */

static void forks (const char *broker, const char *path)
{
    right_t right = make_right (path, CALL);
    float *scores = malloc (right.n * right.n_output * sizeof (float));
    uint8_t status[CALL];
    uint64_t ticket;
    int how;
    wiremill_client_t *client = connect_or_end (broker);
    CHECK (!wiremill_submit (client, right.patches, right.n, right.n_value, -1, &ticket, &last));
    const pid_t child = fork ();
    if (child == 0) {
        alarm (60);
        CHECK (wiremill_wait (client, ticket, -1, scores, status, &last) == WIREMILL_USAGE);
        CHECK (strstr (last.text, "before fork"));
        CHECK (wiremill_client_score (client, right.patches, right.n, right.n_value, scores, status,
                                      &last) == WIREMILL_USAGE);
        CHECK (wiremill_poll (client, ticket, NULL, &last) == WIREMILL_USAGE);
        wiremill_forget (client, ticket);
        wiremill_client_close (&client);
        client = connect_or_end (broker);
        CHECK (!wiremill_client_score (client, right.patches, right.n, right.n_value, scores,
                                       status, &last));
        CHECK (is_right (&right, 0, right.n, scores, status));
        wiremill_client_close (&client);
        _exit (0);
    }
    CHECK (waitpid (child, &how, 0) == child && WIFEXITED (how) && !WEXITSTATUS (how));
    CHECK (!wiremill_wait (client, ticket, -1, scores, status, &last));
    CHECK (is_right (&right, 0, right.n, scores, status));
    const pid_t other = fork (); /* which has the socket as long as it lives */
    if (other == 0) {
        alarm (60);
        for (;;)
            pause ();
    }
    wiremill_client_close (&client);
    no_helper_is_left ();
    CHECK (!kill (other, SIGKILL) && waitpid (other, NULL, 0) == other);
    free (scores);
    free_right (&right);
}

static void quiet (const char *broker, const char *path)
{
    struct sigaction before[65], after;
    const int files = entries ("/proc/self/fd"), tasks = entries ("/proc/self/task");
    memset (before, 0, sizeof before);
    for (int i = 1; i < 65; i++)
        sigaction (i, NULL, &before[i]);
    right_t right = make_right (path, CALL);
    float *scores = malloc (right.n * right.n_output * sizeof (float));
    wiremill_client_t *client = connect_or_end (broker);
    CHECK (waitpid (-1, NULL, WNOHANG) < 0 && errno == ECHILD);
    CHECK (!wiremill_client_score (client, right.patches, right.n, right.n_value, scores, NULL,
                                   &last));
    CHECK (entries ("/proc/self/task") == tasks + 1);
    for (int i = 1; i < 65; i++)
        CHECK (sigaction (i, NULL, &after) || after.sa_handler == before[i].sa_handler);
    wiremill_client_close (&client);
    CHECK (entries ("/proc/self/fd") == files && entries ("/proc/self/task") == tasks);
    free (scores);
    free_right (&right);
}

/* Whether connecting fails with this fault, and a text that contains `text`.  */
static int refuses (const char *broker, const wiremill_connect_options_t *how, int fault,
                    const char *text)
{
    memset (&last, 0, sizeof last);
    wiremill_client_t *client = wiremill_connect (broker, how, &last);
    fprintf (stderr, "# %s\n", last.text);
    return !client && last.fault == fault && strstr (last.text, text) != NULL;
}

static void errors (const char *broker, const char *path)
{
    wiremill_connect_options_t how = { 0 };
    right_t right = make_right (path, 10);
    float scores[10 * 64];
    uint64_t ticket;
    CHECK (refuses (NULL, NULL, WIREMILL_USAGE, "no broker is named"));
    CHECK (refuses ("", NULL, WIREMILL_USAGE, "no broker is named"));
    CHECK (refuses (broker, &how, WIREMILL_USAGE, "size is 0"));
    how.size = sizeof how, how.reserved = 1;
    CHECK (refuses (broker, &how, WIREMILL_USAGE, "reserved"));
    how.reserved = 0, how.patience_ms = 300;
    CHECK (
        refuses ("ipc:///proc/nowhere/at/all", &how, WIREMILL_HOST, "ipc:///proc/nowhere/at/all"));
    CHECK (refuses ("carrier pigeon", &how, WIREMILL_USAGE, "carrier pigeon"));
    how.join_file = "/proc/nowhere/key";
    CHECK (refuses (broker, &how, WIREMILL_USAGE, "/proc/nowhere/key"));
    how.join_file = NULL;
    setenv ("WM_CLIENT_PROGRAM", "/proc/nowhere/program", 1);
    CHECK (refuses (broker, &how, WIREMILL_HOST, "/proc/nowhere/program"));
    setenv ("WM_CLIENT_PROGRAM", "/bin/true", 1);
    CHECK (refuses (broker, &how, WIREMILL_HOST, "/bin/true"));
    unsetenv ("WM_CLIENT_PROGRAM");
    wiremill_client_t *client = connect_or_end (broker);
    CHECK (wiremill_submit (NULL, right.patches, 1, right.n_value, 0, &ticket, &last) ==
           WIREMILL_USAGE);
    CHECK (wiremill_submit (client, NULL, 1, right.n_value, 0, &ticket, &last) == WIREMILL_USAGE);
    CHECK (wiremill_submit (client, right.patches, 1, right.n_value, 0, NULL, &last) ==
           WIREMILL_USAGE);
    CHECK (wiremill_submit (client, right.patches, 1, right.n_value - 1, 0, &ticket, &last) ==
           WIREMILL_USAGE);
    CHECK (strstr (last.text, "the model takes ("));
    CHECK (wiremill_submit (client, right.patches, (size_t) -1 / 4, right.n_value, 0, &ticket,
                            &last) == WIREMILL_USAGE);
    CHECK (wiremill_client_score (client, right.patches, 1, right.n_value, NULL, NULL, &last) ==
           WIREMILL_USAGE);
    CHECK (wiremill_client_score (NULL, right.patches, 1, right.n_value, scores, NULL, &last) ==
           WIREMILL_USAGE);
    wiremill_client_close (&client);
    wiremill_client_close (&client);
    wiremill_client_close (NULL);
    free_right (&right);
}

int main (int argc, char **argv)
{
    const char *what = argc > 3 ? argv[1] : "", *broker = argc > 3 ? argv[2] : "";
    const char *path = argc > 3 ? argv[3] : "", *patience = getenv ("PATIENCE");
    const size_t n = argc > 4 ? (size_t) atol (argv[4]) : 1;
    options.size = sizeof options;
    options.patience_ms = patience ? (uint32_t) atol (patience) : 0;
    options.join_file = getenv ("JOIN");
    if (!strcmp (what, "score"))
        score (broker, path, n);
    else if (!strcmp (what, "steady"))
        steady (broker, path, n);
    else if (!strcmp (what, "many") && argc > 4)
        many (broker, path, argv[4]);
    else if (!strcmp (what, "threads"))
        threads (broker, path, n);
    else if (!strcmp (what, "forget"))
        forget (broker, path);
    else if (!strcmp (what, "room"))
        room_is_bounded (broker, path);
    else if (!strcmp (what, "gone"))
        gone (broker, path);
    else if (!strcmp (what, "helper"))
        helper (broker, path);
    else if (!strcmp (what, "again"))
        again (broker, path);
    else if (!strcmp (what, "fork"))
        forks (broker, path);
    else if (!strcmp (what, "errors"))
        errors (broker, path);
    else if (!strcmp (what, "quiet"))
        quiet (broker, path);
    else if (!strcmp (what, "refused"))
        return wiremill_connect (broker, &options, &last)
                   ? (puts ("connected"), 0)
                   : (printf ("fault %d: %s\n", (int) last.fault, last.text), 1);
    else
        return fprintf (stderr, "usage: see client.c\n"), 2;
    return 0;
}
