// Launches the CUDA kernels of the policy. Asynchronous: all memory must remain valid until the stream has executed
// them. T is float or double, and Out is T or, for float, BFloat16. Without rows, nothing is launched. They return
// cudaErrorInvalidConfiguration for more than 2^31 - 1 rows or 65,535 parts of a row.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/policy_args.h"

namespace ingot::kernels::cuda {

template <typename T>
cudaError_t LaunchPolicySums(const PolicySumArgs<T>& args, cudaStream_t stream);
template <typename T>
cudaError_t LaunchLogPolicy(const LogPolicyArgs<T>& args, cudaStream_t stream);
template <typename T>
cudaError_t LaunchTokenPolicy(const TokenPolicyArgs<T>& args, cudaStream_t stream);
template <typename T, typename Out>
cudaError_t LaunchPolicyGradient(const PolicyGradientArgs<T, Out>& args, cudaStream_t stream);

}  // namespace ingot::kernels::cuda
