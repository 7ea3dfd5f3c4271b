/* wm_peak.h - the peak of one core of this machine, measured: multiply-adds in registers.

   A data sheet's number would not do: the clock frequency and other programs change it, so it is
   measured beside the numbers that are compared with it. Takes a tenth of a second.  */
#ifndef WM_PEAK_H
#define WM_PEAK_H

typedef enum {
    WM_PEAK_FP32,  /* the widest fused multiply-adds of AVX-512 or AVX2 */
    WM_PEAK_16BIT, /* dot products of AVX512_BF16 or AVX512_VNNI, whichever are faster */
    WM_PEAK_AMX,   /* products of tiles in bf16 */
} wm_peak_t;

/* Returns GFLOP/s of one thread; 0: this CPU has no such instructions.  */
double wm_peak_gflops (wm_peak_t what);

#endif
