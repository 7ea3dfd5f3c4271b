/* wm_duration.h - durations as people type them: 90s, 30m, 12h, 3d, 2w, 1:30:00.

   Thread: any.  */
#ifndef WM_DURATION_H
#define WM_DURATION_H

#define WM_DURATION_EXAMPLES "90s, 30m, 12h, 3d, 2w or H:MM:SS"

/* The longest: above 30 years, for who means "never".  */
#define WM_DURATION_MOST_S (12000. * 86400)

/* Returns the seconds of a number with a unit (s, m, h, d, w; "1.5h"; without one it is seconds) or
   of "H:MM:SS". NAN: the text is no duration, or one above WM_DURATION_MOST_S.  */
double wm_duration_s (const char *text);

#endif
