/* wm_broker_bench.h - `wiremill-broker --bench`: the mode that measures brokers.  */
#ifndef WM_BROKER_BENCH_H
#define WM_BROKER_BENCH_H

/* Measures and prints; argv[0] is "--bench". Returns the exit code, or ends the process with 1
   where something fails.  */
int wm_broker_bench_main (int argc, char **argv);

#endif
