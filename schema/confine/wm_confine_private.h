/* wm_confine_private.h - what wm_confine.c (system calls) and wm_confine_files.c (files) share.  */
#ifndef WM_CONFINE_PRIVATE_H
#define WM_CONFINE_PRIVATE_H

#include <stdbool.h>

/* Adds to the text of wm_confine_lacks; `number` is an errno.  */
void wm_confine_lack (const char *what, int number);

/* Whether WM_CONFINE=0.  */
bool wm_confine_is_off (void);

#endif
