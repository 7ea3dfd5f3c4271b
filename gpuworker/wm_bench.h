/* wm_bench.h - the program's mode that measures an engine on batches that lie decoded in memory.

   It reads what `wiremill-producer batches` prints, and says one JSON object on one line. So its
   numbers are what the same cores could do if nothing but the engine ran.  */
#ifndef WM_BENCH_H
#define WM_BENCH_H

#define WM_BENCH_WORKERS_MAX 64

typedef struct {
    const char *engine, *cache; /* cache: the folder of the model */
    int threads, pin, workers;  /* workers: devices side by side, of so many threads each */
    double seconds;             /* to measure, after as many (3 at most) to warm up */
    int judged, cpus;           /* hits compared with the reference, by so many threads */
} wm_bench_config_t;

/* The exit code: 0 measured, 5 the stream or the model is bad, 6 the engine cannot run here, 1
   anything else.  */
int wm_bench_run (const wm_bench_config_t *config);

#endif
