// The memory of a parameter's tensor, shared by all handles of the tensor. No handle may be in use while it changes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <cstddef>
#include <memory>
#include <utility>

namespace ingot::trainer {

// Whether the tensor uses all of its storage, in order, so that the memory can be replaced.
inline bool OwnsItsMemory(const at::Tensor& parameter) {
  return parameter.is_contiguous() && parameter.storage_offset() == 0 &&
         parameter.storage().nbytes() == parameter.nbytes();
}

// New memory of unknown content.
inline void Allocate(const at::Tensor& parameter) {
  const c10::DeviceGuard device(parameter.device());  // an allocator uses the current device
  c10::StorageImpl* const storage = parameter.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(parameter.nbytes()));
  storage->set_nbytes(parameter.nbytes());
}

// The tensor keeps no memory.
inline void Drop(const at::Tensor& parameter) {
  c10::StorageImpl* const storage = parameter.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::DataPtr(nullptr, parameter.device()));
  storage->set_nbytes(0);
}

using SharedMemory = std::shared_ptr<std::byte[]>;
inline void LetGo(void* memory) { delete static_cast<SharedMemory*>(memory); }

// The tensor of the CPU keeps `memory`, of at least its size.
inline void PointAt(const at::Tensor& parameter, SharedMemory memory) {
  std::byte* const data = memory.get();
  parameter.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      c10::DataPtr(data, new SharedMemory(std::move(memory)), &LetGo, parameter.device()));
}

// Whether the tensor's memory is of PointAt, so that a version may share it.
inline bool MayBeShared(const at::Tensor& parameter) { return parameter.storage().data_ptr().get_deleter() == &LetGo; }

}  // namespace ingot::trainer
