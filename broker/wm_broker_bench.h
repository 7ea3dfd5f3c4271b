/* wm_broker_bench.h - the program's mode that measures brokers.  */
#ifndef WM_BROKER_BENCH_H
#define WM_BROKER_BENCH_H

/* argv[0] is "--bench". Returns, or ends the process with, the exit code.  */
int wm_broker_bench_main (int argc, char **argv);

#endif
