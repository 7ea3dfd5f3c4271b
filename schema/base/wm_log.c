/* wm_log.c - puts the time, in systemd's journal the level, before every line of stderr, which
   becomes another stream.

   Lines leave whole, one write each, so that those of processes that share a log do not mix. What a
   crash handler writes to the descriptor itself comes without a time.  */
#include "schema/base/wm_log.h"
#include "schema/base/wm_file.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 8192

static _Thread_local wm_log_level_t next_level = WM_LOG_INFO;

void wm_log_level (wm_log_level_t level)
{
    next_level = level;
}

/* systemd names the journal's socket in JOURNAL_STREAM; a log file that a child got is another.  */
static bool is_journal (void)
{
    unsigned long long device, inode;
    struct stat st;
    const char *stream = getenv ("JOURNAL_STREAM");
    return stream && sscanf (stream, "%llu:%llu", &device, &inode) == 2 &&
           fstat (STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

static void stamp (char text[WM_LOG_TIME_BYTES])
{
    struct tm utc;
    const time_t now = time (NULL);
    text[0] = 0;
    if (gmtime_r (&now, &utc))
        strftime (text, WM_LOG_TIME_BYTES, "%Y-%m-%dT%H:%M:%SZ ", &utc);
}

const char *wm_log_time (char text[WM_LOG_TIME_BYTES])
{
    text[0] = 0;
    if (!isatty (STDERR_FILENO) && !is_journal ())
        stamp (text);
    return text;
}

const char *wm_log_line (const char *line)
{
    static const char form[] = "dddd-dd-ddTdd:dd:ddZ ";
    for (size_t i = 0; form[i]; i++)
        if (form[i] == 'd' ? line[i] < '0' || line[i] > '9' : line[i] != form[i])
            return line;
    return line + sizeof form - 1;
}

void wm_log_sanitize (char *text)
{
    for (; *text; text++)
        if ((unsigned char) *text < ' ' || *text == 0x7f)
            *text = '?';
}

static bool to_journal; /* since wm_log_start */

/* Takes all bytes: a log that cannot be written (a full disk) stops no process. errno is kept, for
   code that prints between a failure and its strerror. The mutex is for ThreadSanitizer, which does
   not see the stream's own lock.  */
static ssize_t take (void *cookie, const char *bytes, size_t size)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static char line[LINE_BYTES + WM_LOG_TIME_BYTES];
    static bool inside; /* a line longer than the buffer */
    const int error_number = errno;
    (void) cookie;
    pthread_mutex_lock (&mutex);
    for (size_t done = 0, n; done < size; done += n) {
        const char *end = memchr (bytes + done, '\n', size - done);
        n = end ? (size_t) (end - bytes) + 1 - done : size - done;
        n = n < LINE_BYTES ? n : LINE_BYTES;
        line[0] = 0;
        if (!inside && to_journal)
            snprintf (line, sizeof line, "<%d>", (int) next_level);
        else if (!inside)
            stamp (line);
        const size_t head = strlen (line);
        memcpy (line + head, bytes + done, n);
        wm_file_append (STDERR_FILENO, line, head + n);
        inside = line[head + n - 1] != '\n';
        next_level = inside ? next_level : WM_LOG_INFO;
    }
    pthread_mutex_unlock (&mutex);
    errno = error_number;
    return (ssize_t) size;
}

void wm_log_start (void)
{
    static char buffer[LINE_BYTES];
    if (isatty (STDERR_FILENO))
        return;
    FILE *stream = fopencookie (NULL, "w", (cookie_io_functions_t){ .write = take });
    if (!stream)
        return;
    to_journal = is_journal ();
    tzset (); /* it opens a file: within `take` that would wait for a thread which flushes all */
    setvbuf (stream, buffer, _IOLBF, sizeof buffer);
    stderr = stream;
}
