/* wm_terminal.h - takes over the terminal for a live screen, and gives it back.

   Between enter and leave the alternate screen is shown, keys arrive one by one, and what this
   process or a library writes to stderr is kept, so that no line tears the screen. leave is called
   at every way out: by exit, by signals that end or crash the process, and before Ctrl-Z stops it.
   Thread: one; it gets the signals, so others block them.  */
#ifndef WM_TERMINAL_H
#define WM_TERMINAL_H

#include "schema/base/wm_fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What wm_terminal_wait returns beside the byte of a key.  */
enum {
    WM_KEY_NONE = 0, /* time is up, or the descriptor is readable */
    WM_KEY_REDRAW = 256,
    WM_KEY_END, /* a signal or a hang-up: the caller leaves */
    WM_KEY_UP,
    WM_KEY_DOWN,
    WM_KEY_PAGE_UP,
    WM_KEY_PAGE_DOWN,
    WM_KEY_HOME,
    WM_KEY_LAST,
    WM_KEY_ESCAPE,
    WM_KEY_CLICK, /* wm_terminal_pointer has the place */
    WM_KEY_WHEEL_UP,
    WM_KEY_WHEEL_DOWN,
};

/* Returns whether stdin and stdout are a terminal that can place its cursor.  */
bool wm_terminal_is_usable (void);

wm_fault_t wm_terminal_enter (wm_error_t *error);

/* Also prints what came to stderr meanwhile. Without enter it does nothing.  */
void wm_terminal_leave (void);

/* Has the terminal report its mouse, as enter does, or select text by it.  */
void wm_terminal_mouse (bool is_reported);

/* Returns the row of the last click, 0 the first.  */
int wm_terminal_pointer (void);

void wm_terminal_size (int *rows, int *columns);

/* Waits for a key, a signal, or that `fd` is readable.  */
int wm_terminal_wait (int64_t ms, int fd);

/* false: the terminal is gone.  */
bool wm_terminal_write (const char *bytes, size_t size);

/* Returns the last whole line that came to stderr since the last call, "": none.  */
const char *wm_terminal_said (void);

#endif
