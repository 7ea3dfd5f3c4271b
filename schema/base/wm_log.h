/* wm_log.h - when a line was said, for who reads it later: UTC as ISO 8601, to the second, before every
   line. A terminal gets none: who sits there knows the time.  */
#ifndef WM_LOG_H
#define WM_LOG_H

#define WM_LOG_TIME_BYTES 22

/* "2026-11-21T10:30:00Z ", or "" where stderr is a terminal.  */
const char *wm_log_time (char text[WM_LOG_TIME_BYTES]);

/* The line behind its time, if it has one.  */
const char *wm_log_line (const char *line);

/* Other people's words as part of a line: control characters become '?'.  */
void wm_log_tame (char *text);

/* From now on every line of this process's stderr begins with its time. Once, while there is one thread.
   Without memory lines stay as they are.  */
void wm_log_start (void);

#endif
