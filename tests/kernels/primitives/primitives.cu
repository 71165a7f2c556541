#include "kernels/primitives/primitives.h"

namespace ingot::kernels::primitives {
namespace {

#define INGOT_MMA(shape, a_operands, b_operand, ...)                                                           \
  asm volatile("mma.sync.aligned." shape " {%0, %1, %2, %3}, " a_operands ", " b_operand ", {%0, %1, %2, %3};" \
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                \
               : __VA_ARGS__)
#define INGOT_A4 "{%4, %5, %6, %7}"
#define INGOT_A2 "{%4, %5}"

template <Matrix S>
__device__ void Multiply(const uint32_t* a, const uint32_t* b, float (&c)[4]) {
  if constexpr (S == Matrix::kHalf16) {
    INGOT_MMA("m16n8k16.row.col.f32.f16.f16.f32", INGOT_A4, "{%8, %9}", "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
              "r"(b[0]), "r"(b[1]));
  } else if constexpr (S == Matrix::kBfloat16) {
    INGOT_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", INGOT_A4, "{%8, %9}", "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
              "r"(b[0]), "r"(b[1]));
  } else if constexpr (S == Matrix::kTf32x8) {
    INGOT_MMA("m16n8k8.row.col.f32.tf32.tf32.f32", INGOT_A4, "{%8, %9}", "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
              "r"(b[0]), "r"(b[1]));
  } else if constexpr (S == Matrix::kHalf8) {
    INGOT_MMA("m16n8k8.row.col.f32.f16.f16.f32", INGOT_A2, "{%6}", "r"(a[0]), "r"(a[1]), "r"(b[0]));
  } else if constexpr (S == Matrix::kBfloat8) {
    INGOT_MMA("m16n8k8.row.col.f32.bf16.bf16.f32", INGOT_A2, "{%6}", "r"(a[0]), "r"(a[1]), "r"(b[0]));
  } else {
    INGOT_MMA("m16n8k4.row.col.f32.tf32.tf32.f32", INGOT_A2, "{%6}", "r"(a[0]), "r"(a[1]), "r"(b[0]));
  }
}

template <Matrix S>
__global__ void MatrixKernel(const uint32_t* in, float* out) {
  const uint32_t lane = blockIdx.x * kLanes + threadIdx.x;
  const uint32_t* operands = in + lane * kMatrixWords;
  float c[4];
  for (int i = 0; i < 4; ++i) c[i] = __uint_as_float(operands[6 + i]);
  Multiply<S>(operands, operands + 4, c);
  for (int i = 0; i < 4; ++i) out[lane * 4 + i] = c[i];
}

template <Approximate F>
__global__ void ApproximateKernel(const float* in, float* out) {
  const uint32_t i = blockIdx.x * kLanes + threadIdx.x;
  const float x = in[i];
  float y;
  if constexpr (F == Approximate::kExp2) asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  if constexpr (F == Approximate::kLog2) asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  if constexpr (F == Approximate::kReciprocal) asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  if constexpr (F == Approximate::kReciprocalRoot) asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  out[i] = y;
}

__device__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

template <bool Transposed>
__global__ void LoadMatrixKernel(const uint16_t* in, uint32_t* out) {
  __shared__ alignas(16) uint16_t rows[4 * 8 * 8];
  for (int i = threadIdx.x; i < 4 * 8 * 8; i += kLanes) rows[i] = in[i];
  __syncwarp();
  const uint32_t address = SharedAddress(rows + threadIdx.x * 8);  // lane l names row l % 8 of matrix l / 8
  uint32_t r[4];
  if constexpr (Transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
  }
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = r[i];
}

__global__ void AsyncCopyKernel(const uint8_t* in, const uint32_t* kept, uint8_t* out) {
  __shared__ alignas(16) uint8_t copies[kLanes * 16];
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(SharedAddress(copies + threadIdx.x * 16)), "l"(in + threadIdx.x * 16), "r"(kept[threadIdx.x])
               : "memory");
  asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
  __syncwarp();
  for (int i = 0; i < 16; ++i) out[threadIdx.x * 16 + i] = copies[threadIdx.x * 16 + i];
}

}  // namespace

cudaError_t LaunchMatrix(Matrix shape, const uint32_t* in, float* out, int count) {
  switch (shape) {
#define INGOT_CASE(s)                                    \
  case Matrix::s:                                        \
    MatrixKernel<Matrix::s><<<count, kLanes>>>(in, out); \
    break
    INGOT_CASE(kHalf16);
    INGOT_CASE(kHalf8);
    INGOT_CASE(kBfloat16);
    INGOT_CASE(kBfloat8);
    INGOT_CASE(kTf32x8);
    INGOT_CASE(kTf32x4);
#undef INGOT_CASE
  }
  return cudaGetLastError();
}

cudaError_t LaunchApproximate(Approximate f, const float* in, float* out, int count) {
  switch (f) {
#define INGOT_CASE(f)                                                       \
  case Approximate::f:                                                      \
    ApproximateKernel<Approximate::f><<<count / kLanes, kLanes>>>(in, out); \
    break
    INGOT_CASE(kExp2);
    INGOT_CASE(kLog2);
    INGOT_CASE(kReciprocal);
    INGOT_CASE(kReciprocalRoot);
#undef INGOT_CASE
  }
  return cudaGetLastError();
}

cudaError_t LaunchLoadMatrix(bool transposed, const uint16_t* in, uint32_t* out) {
  if (transposed)
    LoadMatrixKernel<true><<<1, kLanes>>>(in, out);
  else
    LoadMatrixKernel<false><<<1, kLanes>>>(in, out);
  return cudaGetLastError();
}

cudaError_t LaunchAsyncCopy(const uint8_t* in, const uint32_t* kept, uint8_t* out) {
  AsyncCopyKernel<<<1, kLanes>>>(in, kept, out);
  return cudaGetLastError();
}

}  // namespace ingot::kernels::primitives
