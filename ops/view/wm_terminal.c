/* wm_terminal.c - see wm_terminal.h. */

#include "ops/view/wm_terminal.h"
#include "schema/base/wm_file.h"
#include "schema/wm_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define ESCAPE_MS 60 /* the rest of a key's sequence arrives within this */
#define ROWS_DEFAULT 24
#define COLUMNS_DEFAULT 80

/* alternate screen, cursor hidden, no wrapping; and back */
static const char enter_codes[] = "\033[?1049h\033[?25l\033[?7l\033[H\033[2J";
static const char leave_codes[] = "\033[0m\033[?1006l\033[?1000l\033[?7h\033[?25h\033[?1049l";
/* clicks and the wheel, their places as decimal numbers */
static const char mouse_codes[] = "\033[?1000h\033[?1006h";
static const char no_mouse_codes[] = "\033[?1006l\033[?1000l";

static const int caught[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH };
static const int crashes[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL };

static volatile sig_atomic_t entered, ends, stops, changed;
static struct termios before;
static int wake[2] = { -1, -1 };                  /* a handler's byte ends poll */
static int saved = -1, collected[2] = { -1, -1 }; /* the real stderr; a pipe in its place */
static char kept[4096], line[512], unread[512];   /* stderr's text, its line, the last line */
static size_t n_kept, n_line;
static unsigned char typed[64];
static size_t n_typed;
static bool has_mouse = true;
static int pointer;

bool wm_terminal_is_usable (void)
{
    const char *term = getenv ("TERM");
    return isatty (STDIN_FILENO) && isatty (STDOUT_FILENO) && term && *term &&
           strcmp (term, "dumb") != 0;
}

/* ---- in and out ------------------------------------------------------------------------------ */

/* Only calls that a signal handler may make.  */
static void restore (void)
{
    if (!entered)
        return;
    entered = 0;
    wm_file_append (STDOUT_FILENO, leave_codes, sizeof leave_codes - 1);
    tcsetattr (STDIN_FILENO, TCSADRAIN, &before);
    if (saved >= 0)
        dup2 (saved, STDERR_FILENO);
}

static void on_signal (int number)
{
    const int error_number = errno;
    if (number == SIGTSTP)
        stops = 1;
    else if (number == SIGWINCH || number == SIGCONT)
        changed = number == SIGCONT ? 2 : changed ? changed : 1;
    else
        ends = 1;
    if (write (wake[1], "", 1) < 0) /* full: poll ends without this byte, too */
        errno = 0;
    errno = error_number;
}

/* What an assertion printed is still in the pipe.  */
static void on_crash (int number)
{
    char text[1024];
    restore ();
    for (ssize_t n; collected[0] >= 0 && (n = read (collected[0], text, sizeof text)) > 0;)
        wm_file_append (STDERR_FILENO, text, (size_t) n);
    raise (number);
}

static void handle (const int *list, size_t n, void (*handler) (int), int flags)
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
    sigemptyset (&action.sa_mask);
    for (size_t i = 0; i < n; i++)
        sigaction (list[i], &action, NULL);
}
#define COUNT(list) (sizeof list / sizeof *list)

static bool make_pipe (int fd[2])
{
    return fd[0] >= 0 || pipe2 (fd, O_CLOEXEC | O_NONBLOCK) == 0;
}

void wm_terminal_mouse (bool is_reported)
{
    has_mouse = is_reported;
    if (has_mouse)
        wm_file_append (STDOUT_FILENO, mouse_codes, sizeof mouse_codes - 1);
    else
        wm_file_append (STDOUT_FILENO, no_mouse_codes, sizeof no_mouse_codes - 1);
}

int wm_terminal_pointer (void)
{
    return pointer;
}

static void take_over (void)
{
    struct termios raw = before;
    raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO | IEXTEN); /* signals by key stay */
    raw.c_iflag &= (tcflag_t) ~(IXON | ICRNL);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    entered = 1;
    tcsetattr (STDIN_FILENO, TCSADRAIN, &raw);
    wm_file_append (STDOUT_FILENO, enter_codes, sizeof enter_codes - 1);
    wm_terminal_mouse (has_mouse);
    if (saved >= 0)
        dup2 (collected[1], STDERR_FILENO);
}

wm_fault_t wm_terminal_enter (wm_error_t *error)
{
    static bool is_first = true;
    if (tcgetattr (STDIN_FILENO, &before) || !make_pipe (wake) || !make_pipe (collected))
        return wm_fault (error, WM_EAGAIN, "the terminal cannot be used: %s", strerror (errno));
    if (isatty (STDERR_FILENO) && saved < 0)
        saved = fcntl (STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (is_first)
        atexit (wm_terminal_leave);
    is_first = false;
    handle (caught, COUNT (caught), on_signal, SA_RESTART);
    handle (crashes, COUNT (crashes), on_crash, (int) SA_RESETHAND);
    take_over ();
    return WM_OK;
}

/* Takes what came to stderr; keeps the first of it for the end, and its last line.  */
static void collect (void)
{
    char text[1024];
    for (ssize_t n; collected[0] >= 0 && (n = read (collected[0], text, sizeof text)) > 0;)
        for (ssize_t i = 0; i < n; i++) {
            if (n_kept < sizeof kept)
                kept[n_kept++] = text[i];
            if (text[i] != '\n' && n_line < sizeof line - 1)
                line[n_line++] = text[i];
            else if (text[i] == '\n') {
                line[n_line] = 0;
                memcpy (unread, line, n_line + 1);
                n_line = 0;
            }
        }
}

const char *wm_terminal_said (void)
{
    static char given[sizeof unread];
    memcpy (given, unread, sizeof given);
    *unread = 0;
    return given;
}

void wm_terminal_leave (void)
{
    if (entered) {
        restore ();
        handle (caught, COUNT (caught), SIG_DFL, 0);
        handle (crashes, COUNT (crashes), SIG_DFL, 0);
    }
    collect ();
    wm_file_append (STDERR_FILENO, kept, n_kept);
    n_kept = 0;
}

/* Ctrl-Z: the shell gets its terminal as it was.  */
static void stop (void)
{
    const int tstp = SIGTSTP;
    stops = 0;
    restore ();
    handle (&tstp, 1, SIG_DFL, 0);
    kill (getpid (), SIGTSTP);
    handle (&tstp, 1, on_signal, SA_RESTART);
    tcgetattr (STDIN_FILENO, &before);
    take_over ();
    changed = 1;
}

void wm_terminal_size (int *rows, int *columns)
{
    struct winsize size;
    const bool known = ioctl (STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col;
    *rows = known ? size.ws_row : ROWS_DEFAULT;
    *columns = known ? size.ws_col : COLUMNS_DEFAULT;
}

bool wm_terminal_write (const char *bytes, size_t size)
{
    for (ssize_t n; size; bytes += n, size -= (size_t) n)
        while ((n = write (STDOUT_FILENO, bytes, size)) < 0) {
            struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
            if (errno == EAGAIN)
                poll (&out, 1, 1000);
            else if (errno != EINTR)
                return false;
            if (ends)
                return false;
        }
    return true;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static const struct {
    const char *codes;
    int key;
} sequences[] = {
    { "\033[A", WM_KEY_UP },    { "\033OA", WM_KEY_UP },       { "\033[B", WM_KEY_DOWN },
    { "\033OB", WM_KEY_DOWN },  { "\033[5~", WM_KEY_PAGE_UP }, { "\033[6~", WM_KEY_PAGE_DOWN },
    { "\033[H", WM_KEY_HOME },  { "\033OH", WM_KEY_HOME },     { "\033[1~", WM_KEY_HOME },
    { "\033[F", WM_KEY_LAST },  { "\033OF", WM_KEY_LAST },     { "\033[4~", WM_KEY_LAST },
    { "\033[7~", WM_KEY_HOME }, { "\033[8~", WM_KEY_LAST },
};

/* Bytes of the sequence that `typed` begins with; 0: its end is not there yet.  */
static size_t sequence_length (void)
{
    if (n_typed < 2)
        return 0;
    if (typed[1] == 'O')
        return n_typed < 3 ? 0 : 3;
    if (typed[1] != '[')
        return 1;
    for (size_t i = 2; i < n_typed; i++)
        if (typed[i] >= 0x40 && typed[i] <= 0x7e)
            return i + 1;
    return n_typed == sizeof typed ? n_typed : 0;
}

static void drop_typed (size_t n)
{
    memmove (typed, typed + n, n_typed - n);
    n_typed -= n;
}

/* "ESC [ < button ; column ; row M"; an m at its end: a button was released.  */
static int mouse_key (size_t n)
{
    char text[sizeof typed + 1], last;
    int button, column, row;
    memcpy (text, typed, n);
    text[n] = 0;
    if (sscanf (text, "\033[<%d;%d;%d%c", &button, &column, &row, &last) != 4 || last != 'M' ||
        row < 1 || row > INT16_MAX)
        return WM_KEY_NONE;
    pointer = row - 1;
    return button == 0    ? WM_KEY_CLICK
           : button == 64 ? WM_KEY_WHEEL_UP
           : button == 65 ? WM_KEY_WHEEL_DOWN
                          : WM_KEY_NONE;
}

/* The first key of what was typed. is_late: the rest of a sequence did not come.  */
static int next_key (bool is_late)
{
    if (!n_typed)
        return WM_KEY_NONE;
    const int first = typed[0];
    if (first != 033) {
        drop_typed (1);
        return first ? first : WM_KEY_NONE;
    }
    size_t n = sequence_length ();
    if (!n && !is_late)
        return WM_KEY_NONE;
    if (n <= 1) {
        drop_typed (n_typed > 1 && !n ? n_typed : 1);
        return WM_KEY_ESCAPE;
    }
    int key = mouse_key (n);
    for (size_t i = 0; i < COUNT (sequences); i++)
        if (strlen (sequences[i].codes) == n && memcmp (sequences[i].codes, typed, n) == 0)
            key = sequences[i].key;
    drop_typed (n);
    return key ? key : next_key (is_late);
}

static int signalled (void)
{
    if (stops)
        stop ();
    if (changed == 2) /* continued after a stop that could not be caught: the mode may be lost */
        take_over ();
    const bool was_changed = changed;
    changed = 0;
    return ends ? WM_KEY_END : was_changed ? WM_KEY_REDRAW : WM_KEY_NONE;
}

int wm_terminal_wait (int64_t ms, int fd)
{
    const int64_t end = wm_now_ms () + ms;
    for (;;) {
        int key = signalled ();
        if (key || (key = next_key (false)))
            return key;
        struct pollfd poll_on[] = { { .fd = wake[0], .events = POLLIN },
                                    { .fd = STDIN_FILENO, .events = POLLIN },
                                    { .fd = collected[0], .events = POLLIN },
                                    { .fd = fd, .events = POLLIN } };
        int64_t left = end - wm_now_ms ();
        left = n_typed && left > ESCAPE_MS ? ESCAPE_MS : left > 0 ? left : 0;
        char drain[64];
        const int n = poll (poll_on, 4, (int) left);
        if (poll_on[0].revents)
            while (read (wake[0], drain, sizeof drain) > 0)
                ;
        collect ();
        if (n > 0 && poll_on[1].revents) {
            const ssize_t got = read (STDIN_FILENO, typed + n_typed, sizeof typed - n_typed);
            if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
                return WM_KEY_END;
            n_typed += got > 0 ? (size_t) got : 0;
        } else if (n == 0 && n_typed)
            return next_key (true);
        if ((n > 0 && (poll_on[3].revents || poll_on[2].revents) && !poll_on[1].revents) ||
            (n == 0 && wm_now_ms () >= end && !stops && !ends && !changed))
            return WM_KEY_NONE;
    }
}
