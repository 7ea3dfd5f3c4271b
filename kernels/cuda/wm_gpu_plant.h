/* wm_gpu_plant.h - mistakes that the tests plant in the engine and its kernels, one at a time.

   A plant is a constant 0 in everything that is shipped. Only the tests' build (WM_PLANTS) can
   switch one on, and expects that it is caught.  */
#ifndef WM_GPU_PLANT_H
#define WM_GPU_PLANT_H

typedef enum {
    WM_PLANT_NONE,
    WM_PLANT_PADDING, /* fill: margins of 0 where the zero level is another */
    WM_PLANT_STRIDE,  /* gather: rows of the image one cell too short */
    WM_PLANT_TAIL,    /* tail: the last split's sum forgotten */
    WM_PLANT_RELU,    /* tail: no ReLU */
    WM_PLANT_SOFTMAX, /* tail: the largest value not subtracted: overflows */
    WM_PLANT_HELD,    /* tail: a held patch is scored all the same */
    WM_PLANT_MEETING, /* no __syncthreads: a thread runs through all phases alone */
    WM_PLANT_WAIT,    /* scores are read before their copy was waited for */
    WM_PLANT_REUSE,   /* pinned memory is written while its copy is under way */
    WM_PLANT_PLANE,   /* a chunk does not wait for the plane, which another stream writes */
    WM_PLANT_WEIGHTS, /* the convolution's weights in the order of the file */
    WM_PLANT_PIN,     /* an algorithm whose bits depend on the place of a row is taken */
    WM_PLANT_MARGIN,  /* a hit's place without the image's margin */
    WM_PLANT_PHASE,   /* own view: a phase's image begins a tick late */
    WM_PLANT_RUNS,    /* own view: a bin that two runs touch has one of them */
    WM_PLANT_CLAMP,   /* own view: the tail that a clamped patch frees is filled */
    WM_PLANTS_COUNT
} wm_plant_t;

#ifdef WM_PLANTS
extern wm_plant_t wm_planted;
#define WM_PLANT(n) (wm_planted == (n))
#else
#define WM_PLANT(n) 0
#endif

#endif
