// The declarations with which the runtime's headers compile on a host where the compiler's own header is missing. That header comes first if
// it is there.
#pragma once

#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDAAPI
#define CUDA_CB
#define __forceinline__ inline __attribute__((always_inline))
#define __inline_hint__
#define __location__(a)
#define __annotate__(a)
#define __no_return__ __attribute__((noreturn))
