#include "kernels/cuda/launch.h"
#include "kernels/cuda/policy.cuh"
#include "kernels/cuda/policy_launch.h"

namespace ingot::kernels::cuda {
namespace {

template <typename Args>
cudaError_t LaunchRows(void (*kernel)(Args), int64_t rows, int64_t parts, unsigned threads, cudaStream_t stream,
                       const Args& args) {
  if (rows == 0 || parts == 0) return cudaSuccess;
  if (rows > 0x7fffffff || parts > 65535) return cudaErrorInvalidConfiguration;
  return Launch(kernel, dim3(static_cast<unsigned>(rows), static_cast<unsigned>(parts)), threads, 0, stream, args);
}

}  // namespace

template <typename T>
cudaError_t LaunchPolicySums(const PolicySumArgs<T>& args, cudaStream_t stream) {
  const PolicyValues<T>& p = args.policy;
  const cudaError_t error = LaunchRows(PolicyPartKernel<T>, p.rows, p.parts(), kPolicyThreads, stream, args);
  if (error != cudaSuccess) return error;
  return LaunchRows(PolicyRowKernel<T>, p.rows, 1, 32, stream, args);
}

template <typename T>
cudaError_t LaunchLogPolicy(const LogPolicyArgs<T>& args, cudaStream_t stream) {
  return LaunchRows(LogPolicyKernel<T>, args.count, args.policy.parts(), kPolicyThreads, stream, args);
}

template <typename T>
cudaError_t LaunchTokenPolicy(const TokenPolicyArgs<T>& args, cudaStream_t stream) {
  return LaunchRows(TokenPolicyKernel<T>, args.blocks(), 1, kPolicyThreads, stream, args);
}

template <typename T, typename Out>
cudaError_t LaunchPolicyGradient(const PolicyGradientArgs<T, Out>& args, cudaStream_t stream) {
  return LaunchRows(PolicyGradientKernel<T, Out>, args.policy.rows, args.policy.parts(), kPolicyThreads, stream, args);
}

#define INGOT_INSTANTIATE(T)                                                       \
  template cudaError_t LaunchPolicySums<T>(const PolicySumArgs<T>&, cudaStream_t); \
  template cudaError_t LaunchLogPolicy<T>(const LogPolicyArgs<T>&, cudaStream_t);  \
  template cudaError_t LaunchTokenPolicy<T>(const TokenPolicyArgs<T>&, cudaStream_t);
INGOT_INSTANTIATE(float)
INGOT_INSTANTIATE(double)
template cudaError_t LaunchPolicyGradient<float, float>(const PolicyGradientArgs<float, float>&, cudaStream_t);
template cudaError_t LaunchPolicyGradient<double, double>(const PolicyGradientArgs<double, double>&, cudaStream_t);
template cudaError_t LaunchPolicyGradient<float, BFloat16>(const PolicyGradientArgs<float, BFloat16>&, cudaStream_t);

}  // namespace ingot::kernels::cuda
