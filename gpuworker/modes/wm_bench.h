/* wm_bench.h - `wiremill-worker --bench`: measures an engine on decoded batches in memory.

   Reads the output of `wiremill-producer batches`, and prints one JSON object on one line, a point
   of `wiremill bench`. Its numbers are those of an engine that has the cores to itself.  */
#ifndef WM_BENCH_H
#define WM_BENCH_H

#define WM_BENCH_WORKERS_MAX 64

typedef struct {
    const char *engine, *cache; /* cache: folder of the model */
    int threads, pin, workers;  /* workers: devices in parallel, of so many threads each */
    double seconds;             /* to measure, after as many (3 at most) to warm up */
    int judged, cpus;           /* hits compared with the reference, by so many threads */
} wm_bench_config_t;

/* Measures and prints. Returns the exit code: 0 measured, 5 the stream or the model is bad, 6 the
   engine cannot run here, 1 any other failure.  */
int wm_bench_run (const wm_bench_config_t *config);

#endif
