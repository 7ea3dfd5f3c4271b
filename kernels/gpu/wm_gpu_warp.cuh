/* wm_gpu_warp.cuh - what threads of a block do together: barriers, asynchronous copies, tensor
   cores.

   Each is an instruction of the GPU, and on the host a function of the stand-in that runs every
   thread of a block as a fiber: copies land only when they are waited for, and what they will
   overwrite is poisoned until then; warps run in random order; an instruction of a whole warp is
   carried out when all its 32 lanes have come to it.

   Turing (sm_75) has no asynchronous copy: there it is a load and a store, and a wait does nothing.
   Its halves multiply 8 deep, two such make one step of 16.  */
#ifndef WM_GPU_WARP_CUH
#define WM_GPU_WARP_CUH

#include "kernels/gpu/wm_gpu_kernels.cuh"

#ifdef __CUDACC__
#define WM_GPU_UNROLL _Pragma ("unroll")
#define WM_GPU_NO_UNROLL _Pragma ("unroll 1")

typedef uint32_t wm_gpu_near_t; /* an address of shared memory, which is added to as to a char * */

WM_GPU_CODE wm_gpu_near_t wm_gpu_near (void *p)
{
    return (uint32_t) __cvta_generic_to_shared (p);
}

/* All threads of the block.  */
WM_GPU_CODE void wm_gpu_meet (void)
{
    __syncthreads ();
}

/* Bit l: the argument of lane l.  */
WM_GPU_CODE uint32_t wm_gpu_ballot (bool yes)
{
    return __ballot_sync (0xffffffff, yes);
}

/* 16 bytes to shared memory, zeros where they are not `there` (nothing is read then).  */
WM_GPU_CODE void wm_gpu_copy16 (wm_gpu_near_t to, const void *from, bool there)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
                 "l"(__cvta_generic_to_global (from)), "r"(there ? 16 : 0)
                 : "memory");
#else
    const uint4 r = there ? __ldg ((const uint4 *) from) : make_uint4 (0, 0, 0, 0);
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(r.x), "r"(r.y),
                 "r"(r.z), "r"(r.w)
                 : "memory");
#endif
}

/* Ends a group of this thread's copies.  */
WM_GPU_CODE void wm_gpu_copy_commit (void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Until at most `pending` (0 to 3) groups of this thread's copies have not landed.  */
WM_GPU_CODE void wm_gpu_copy_wait (uint32_t pending)
{
#if __CUDA_ARCH__ >= 800
    if (pending >= 3)
        asm volatile("cp.async.wait_group 3;" ::: "memory");
    else if (pending == 2)
        asm volatile("cp.async.wait_group 2;" ::: "memory");
    else if (pending == 1)
        asm volatile("cp.async.wait_group 1;" ::: "memory");
    else
        asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
}

/* 16 bytes of shared memory. (Volatile, like barriers, so behind them; what else is in memory these
   loads do not touch.)  */
WM_GPU_CODE void wm_gpu_load16 (uint32_t r[4], wm_gpu_near_t from)
{
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from));
}

WM_GPU_CODE void wm_gpu_load8 (uint32_t r[2], wm_gpu_near_t from)
{
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(from));
}

/* Four matrices of 8 rows of 16 bytes: lane l says where row l % 8 of matrix l / 8 is, and gets
   word l % 4 of row l / 4 of each.  */
WM_GPU_CODE void wm_gpu_matrix4 (uint32_t r[4], wm_gpu_near_t row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row));
}

/* Two matrices; the addresses of lanes 16 and up are ignored.  */
WM_GPU_CODE void wm_gpu_matrix2 (uint32_t r[2], wm_gpu_near_t row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(row));
}

/* c (16, 8) += a (16, 16) b (16, 8), halves. With g = lane / 4 and t = lane % 4: a is words t of
   rows g and g + 8, then words t + 4 of the same; b words t and t + 4 of column g; c columns 2t
   and 2t + 1 of row g, then of row g + 8.  */
WM_GPU_CODE void wm_gpu_mma (float c[4], const uint32_t a[4], const uint32_t b[2])
{
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    for (int k = 0; k < 2; k++)
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
            "{%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[2 * k]), "r"(a[2 * k + 1]), "r"(b[k]));
#endif
}

/* Lane 0's value; what all lanes wrote to shared memory before is seen behind it.  */
WM_GPU_CODE uint32_t wm_gpu_first (uint32_t value)
{
    __syncwarp ();
    return __shfl_sync (0xffffffff, value, 0);
}

/* A value that is the same in all lanes, as the compiler cannot know by itself: what depends on it
   then costs no instructions that keep lanes together.  */
WM_GPU_CODE uint32_t wm_gpu_uniform (uint32_t value)
{
    return __shfl_sync (0xffffffff, value, 0);
}

/* Adds to a counter that all threads share; returns what it was.  */
WM_GPU_CODE uint32_t wm_gpu_add (uint32_t *counter, uint32_t n)
{
    return atomicAdd (counter, n);
}

WM_GPU_CODE uint32_t wm_gpu_count (uint64_t bits)
{
    return (uint32_t) __popcll (bits);
}

/* The upper half of a product.  */
WM_GPU_CODE uint32_t wm_gpu_high (uint32_t a, uint32_t b)
{
    return __umulhi (a, b);
}

/* 16 bytes to aligned memory of the device.  */
WM_GPU_CODE void wm_gpu_write16 (void *to, const void *from)
{
    uint4 word;
    memcpy (&word, from, sizeof word);
    *(uint4 *) to = word;
}

/* 8 floats of constants, 16 bytes aligned, which all lanes read alike.  */
WM_GPU_CODE void wm_gpu_read32 (float to[8], const float *from)
{
    const float4 low = __ldg ((const float4 *) from), high = __ldg ((const float4 *) from + 1);
    to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
    to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
}

#else
#define WM_GPU_UNROLL
#define WM_GPU_NO_UNROLL

void wm_gpu_meet (void);
uint32_t wm_gpu_ballot (bool yes);
typedef char *wm_gpu_near_t;

WM_GPU_CODE wm_gpu_near_t wm_gpu_near (void *p)
{
    return (char *) p;
}

void wm_gpu_copy16 (wm_gpu_near_t to, const void *from, bool there);
void wm_gpu_copy_commit (void);
void wm_gpu_copy_wait (uint32_t pending);
void wm_gpu_load16 (uint32_t r[4], wm_gpu_near_t from);
void wm_gpu_load8 (uint32_t r[2], wm_gpu_near_t from);
void wm_gpu_matrix4 (uint32_t r[4], wm_gpu_near_t row);
void wm_gpu_matrix2 (uint32_t r[2], wm_gpu_near_t row);
void wm_gpu_mma (float c[4], const uint32_t a[4], const uint32_t b[2]);
uint32_t wm_gpu_first (uint32_t value);
uint32_t wm_gpu_add (uint32_t *counter, uint32_t n);

WM_GPU_CODE uint32_t wm_gpu_uniform (uint32_t value)
{
    return value;
}

WM_GPU_CODE uint32_t wm_gpu_count (uint64_t bits)
{
    return (uint32_t) __builtin_popcountll (bits);
}

WM_GPU_CODE uint32_t wm_gpu_high (uint32_t a, uint32_t b)
{
    return (uint32_t) ((uint64_t) a * b >> 32);
}

WM_GPU_CODE void wm_gpu_write16 (void *to, const void *from)
{
    memcpy (to, from, 16);
}

WM_GPU_CODE void wm_gpu_read32 (float to[8], const float *from)
{
    memcpy (to, from, 32);
}

#endif
#endif
