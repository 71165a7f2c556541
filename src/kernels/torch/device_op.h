// Calls an operator that only libingot_cuda.so implements. The schema is in the program.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <utility>

namespace ingot::kernels {

template <typename Signature>
class DeviceOp {
 public:
  // Throws c10::Error if there is no schema of this name ("ingot::...").
  explicit DeviceOp(const char* name)
      : op_(c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>()) {}

  // Returns whether the operator computes with tensors like this one: fp32, fp64, or bf16 on CUDA, once
  // libingot_cuda.so is loaded.
  bool Serves(const at::Tensor& t) const {
    const at::ScalarType type = t.scalar_type();
    return t.is_cuda() && (type == at::kFloat || type == at::kDouble || type == at::kBFloat16) &&
           op_.hasKernelForDispatchKey(c10::DispatchKey::CUDA);
  }

  // Leaves no autograd history, and does not count as a change of a tensor.
  template <typename... Arguments>
  void operator()(Arguments&&... arguments) const {
    const at::AutoDispatchBelowADInplaceOrView no_history;
    op_.call(std::forward<Arguments>(arguments)...);
  }

 private:
  c10::TypedOperatorHandle<Signature> op_;
};

}  // namespace ingot::kernels
