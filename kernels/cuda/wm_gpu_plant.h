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
    /* Versions 2 and 3.  */
    WM_PLANT_LAND,     /* dense: copies are not waited for */
    WM_PLANT_MEET,     /* dense: warps do not meet before a stage is written again */
    WM_PLANT_STAGE,    /* dense: copies go to the stage that is being read */
    WM_PLANT_SWIZZLE,  /* dense: values are written where they are not read */
    WM_PLANT_BANKS,    /* dense: no swizzle at all: right, and slow */
    WM_PLANT_STALE,    /* dense: the activity of the split's first row for all its rows */
    WM_PLANT_GROUP,    /* dense: activity of the groups of another warp */
    WM_PLANT_ZERO,     /* dense: an inactive hit beside an active one is multiplied */
    WM_PLANT_SEGMENT,  /* dense: the last segment of a row left out */
    WM_PLANT_SPLIT,    /* dense: the last row of a split left out */
    WM_PLANT_CHECK,    /* the checksum's weights without their low part */
    WM_PLANT_WINDOW,   /* active: a window one cell too narrow */
    WM_PLANT_CONSTANT, /* active: the constant is not subtracted */
    WM_PLANT_STRIPS,   /* a strip too narrow for its last hits */
    WM_PLANT_CURVE,    /* scores are left in the order of the curve */
    WM_PLANTS_COUNT
} wm_plant_t;

#ifdef WM_PLANTS
extern wm_plant_t wm_planted;
#define WM_PLANT(n) (wm_planted == (n))
#else
#define WM_PLANT(n) 0
#endif

#endif
