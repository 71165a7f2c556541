#include "standin/operators/aliases.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <cstring>

#include "standin/runtime/standin.h"

namespace ingot::standin {
namespace {

at::Tensor Over(const c10::Storage& storage, const at::Tensor& like, c10::DispatchKeySet keys) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), keys, like.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  return tensor;
}

c10::Storage Mirror(const c10::Storage& cuda) {
  at::DataPtr data(ingot_standin_reach(cuda.data()), at::Device(at::kCPU));
  return c10::Storage(c10::Storage::use_byte_size_t(), cuda.nbytes(), std::move(data), c10::GetCPUAllocator(),
                      /*resizable=*/true);
}

// Copies `from`'s elements, and whatever lies between them, to the CUDA tensor of the same shape and strides.
void CopyBytes(const at::Tensor& from, const at::Tensor& to) {
  const size_t bytes = at::detail::computeStorageNbytes(from.sizes(), from.strides(), from.itemsize());
  WaitForStream();
  if (from.numel() > 0) std::memcpy(ingot_standin_reach(to.mutable_data_ptr()), from.const_data_ptr(), bytes);
}

}  // namespace

void WaitForStream() { c10::cuda::getCurrentCUDAStream().synchronize(); }

at::Tensor Aliases::Of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  if (device_.is_cpu()) device_ = tensor.device();
  for (const Alias& alias : aliases_) {
    if (alias.cuda.is_same(tensor)) return alias.cpu;
  }
  const auto [entry, fresh] = storages_.try_emplace(tensor.storage().unsafeGetStorageImpl());
  if (fresh) entry->second = Mirror(tensor.storage());
  at::Tensor cpu = Over(entry->second, tensor, c10::DispatchKeySet(c10::DispatchKey::CPU));
  cpu._set_conj(tensor.is_conj());
  cpu._set_neg(tensor.is_neg());
  aliases_.push_back({tensor, cpu, entry->second.mutable_data()});
  return cpu;
}

at::Tensor Aliases::ToDevice(const at::Tensor& result, at::Device device) const {
  if (!result.defined()) return result;
  for (const Alias& alias : aliases_) {
    if (alias.cpu.is_same(result)) return alias.cuda;
  }
  for (const Alias& alias : aliases_) {
    if (alias.cpu.storage().is_alias_of(result.storage())) {
      return Over(alias.cuda.storage(), result, alias.cuda.key_set());
    }
  }
  at::Tensor copy = at::empty_strided(result.sizes(), result.strides(), result.options().device(device));
  CopyBytes(result, copy);
  return copy;
}

void Aliases::CopyResized() const {
  for (const Alias& alias : aliases_) {
    const bool moved = alias.cpu.storage().data() != alias.data;
    if (!moved && alias.cpu.sizes() == alias.cuda.sizes() && alias.cpu.strides() == alias.cuda.strides()) continue;
    alias.cuda.resize_(alias.cpu.sizes());
    alias.cuda.as_strided_(alias.cpu.sizes(), alias.cpu.strides(), alias.cpu.storage_offset());
    if (moved) CopyBytes(alias.cpu, alias.cuda);
  }
}

}  // namespace ingot::standin
