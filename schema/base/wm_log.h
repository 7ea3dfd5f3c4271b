/* wm_log.h - the time before every line of a log: UTC as ISO 8601, to the second. A terminal gets
   none. Nor does the journal of systemd, which has its own: there a line begins with its level, as
   "<4>".  */
#ifndef WM_LOG_H
#define WM_LOG_H

#define WM_LOG_TIME_BYTES 22

/* "2026-11-21T10:30:00Z ", or "" where stderr is a terminal or the journal.  */
const char *wm_log_time (char text[WM_LOG_TIME_BYTES]);

/* Returns the line without its time, if it has one.  */
const char *wm_log_line (const char *line);

/* Makes text of a peer safe to print: control characters become '?'.  */
void wm_log_sanitize (char *text);

/* Lets every further line of this process's stderr begin with its time. Once, while there is one
   thread. Without memory lines stay as they are.  */
void wm_log_start (void);

/* Gives the next line of this thread a level, in the journal; without it WM_LOG_INFO.  */
typedef enum {
    WM_LOG_ERROR = 3,   /* the program cannot go on */
    WM_LOG_WARNING = 4, /* a person should look */
    WM_LOG_NOTICE = 5,  /* normal, but worth a person's notice */
    WM_LOG_INFO = 6
} wm_log_level_t;
void wm_log_level (wm_log_level_t level);

#endif
