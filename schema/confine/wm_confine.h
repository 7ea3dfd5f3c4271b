/* wm_confine.h - takes from a process what it does not need, before it reads files of others.

   Two layers, each used where the kernel has it. seccomp, for the whole process: no new processes,
   no other sockets than those named, none that listen, no ptrace, no signals to others, none of the
   kernel's rarer interfaces. Landlock, for the calling thread and those it starts later: files are
   read and written below the folders named here only, TCP ports are not bound. And no core file.

   An attempt at a call that is not allowed is logged, once each, and fails with EPERM; to start a
   program, a process, or a trace of another process ends this one with SIGSYS, since only foreign
   code does that here. What Landlock refuses fails with EACCES. WM_CONFINE=0 in the environment
   switches all of it off. schema/CONFINEMENT.md has who is confined how.

   Thread: one, before others start, but for wm_confine_files_apply.  */
#ifndef WM_CONFINE_H
#define WM_CONFINE_H

#include <stdbool.h>
#include <stddef.h>

/* Which sockets may still be made.  */
enum { WM_CONFINE_NO_NET = 0, WM_CONFINE_TCP = 1, WM_CONFINE_IPC = 2 };

/* Takes away system calls, core files, root's powers but those over files, and more private memory
   than this machine has. `who` (must stay valid) begins the log's lines. Repeating it takes away
   more, never less.  */
void wm_confine_calls (const char *who, unsigned sockets);

/* Which files stay open to a thread. wm_confine_files_new begins with those that libraries and name
   resolution read (/usr, /etc, /proc, ...) and, under WM_FAILPOINT, its file. NULL: no Landlock
   here; the others accept that.  */
typedef struct wm_confine_files_t wm_confine_files_t;
wm_confine_files_t *wm_confine_files_new (void);

/* Adds a file, or a folder with all below it. What is not there is left out. Symbolic links can be
   made in a scratch folder only: who takes a file out of one checks that it is no link.  */
void wm_confine_files_read (wm_confine_files_t *self, const char *path);
void wm_confine_files_write (wm_confine_files_t *self, const char *folder);
void wm_confine_files_scratch (wm_confine_files_t *self, const char *folder);

/* Names a folder that wm_confine_files_beside does not open from now on, in this process and its
   forks: the campaign's. The last WM_CONFINE_SPARED_MAX hold; one that is not there is passed
   over.  */
#define WM_CONFINE_SPARED_MAX 16
void wm_confine_spare (const char *folder);

/* Adds the folder that holds `path`, where inputs are: they may be replaced, and have others beside
   them. Of a home, of a folder that is above a home or above one that is spared, and of / only
   `path` itself and the files directly there that are not hidden; in one that is spared only `path`
   itself.  */
void wm_confine_files_beside (wm_confine_files_t *self, const char *path);

/* Adds what the links beside `path` lead to, and those in folders below: a model's data may be
   elsewhere, as in caches of models. Hidden ones are not followed, nor those to devices, to homes,
   to folders above these, and to those that are spared.  */
void wm_confine_files_links (wm_confine_files_t *self, const char *path);

/* From now on this thread, and those it starts, have no other files. Frees the object.  */
void wm_confine_files_apply (wm_confine_files_t **self_p);

/* Explains what this process lacks of its confinement ("this kernel has no Landlock (Linux 5.13)"),
   for one line of a log; "": nothing, or WM_CONFINE=0 switched it off. Static.  */
const char *wm_confine_lacks (void);

/* The version of Landlock in this kernel, 0: none; and whether it has seccomp.  */
int wm_confine_landlock (void);
bool wm_confine_seccomp (void);

#endif
