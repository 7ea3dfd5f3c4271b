/* wm_cpu_limit.h - keeps a whole `wiremill run` within one CPU where only a variable asks for that.

   A batch system that gives a slot one CPU by JUSTIN_PROCESSORS=1 alone bounds nothing: the
   engine's one thread, broker, producer and worker together would take 1.07 CPUs. So the engine
   rests after each call of the device for as long as the others computed meanwhile. `wiremill run`
   asks for it by WM_CPU_LIMIT=1 in the environment; affinity and cgroups need none of this. Used by
   the engine process; thread: one.  */
#ifndef WM_CPU_LIMIT_H
#define WM_CPU_LIMIT_H

/* Returns the CPU time, in seconds, of `wiremill run` (this process's grandparent) and of all its
   descendants but the worker's engine processes; -1 where WM_CPU_LIMIT is not 1, or where it cannot
   be read.  */
double wm_cpu_limit_begin (void);

/* Sleeps as long as those computed since wm_cpu_limit_begin returned begin_s, 2 s at most.  */
void wm_cpu_limit_end (double begin_s);

#endif
