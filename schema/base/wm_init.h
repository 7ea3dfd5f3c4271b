/* wm_init.h - process 1 of a container, for a program that is started as that.

   Process 1 of a PID namespace is special in three ways: a signal whose action is the default does
   nothing to it, it is the parent of every process whose own parent has ended, and "my parent is
   process 1" is no sign there that a parent has ended. No program of ours has to know: the one that
   is started as process 1 goes on as a child of itself, and process 1 does nothing but hand signals
   on, wait for whatever ends, and end as the program does.

   Thread: before there is another.  */
#ifndef WM_INIT_H
#define WM_INIT_H

#define WM_INIT_NAME "wm-init" /* in /proc/1/comm */

/* In process 1: forks, and returns in the child only; process 1 exits as the child does (128 + N
   where signal N ended it). In every other process, and where no process can be made: nothing.  */
void wm_init_begin (void);

#endif
