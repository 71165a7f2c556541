// Replaces the memory of a parameter's tensor, which all its handles share. No handle may be in use during the change.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <cstddef>
#include <memory>
#include <utility>

namespace ingot::trainer {

// Returns whether the tensor uses all of its storage, in order, so that its memory can be replaced.
inline bool OwnsItsMemory(const at::Tensor& parameter) {
  return parameter.is_contiguous() && parameter.storage_offset() == 0 &&
         parameter.storage().nbytes() == parameter.nbytes();
}

// Allocates new, uninitialized memory.
inline void Allocate(const at::Tensor& parameter) {
  const c10::DeviceGuard device(parameter.device());  // an allocator uses the current device
  c10::StorageImpl* const storage = parameter.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(parameter.nbytes()));
  storage->set_nbytes(parameter.nbytes());
}

// Frees the tensor's memory.
inline void Drop(const at::Tensor& parameter) {
  c10::StorageImpl* const storage = parameter.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::DataPtr(nullptr, parameter.device()));
  storage->set_nbytes(0);
}

using SharedMemory = std::shared_ptr<std::byte[]>;
inline void LetGo(void* memory) { delete static_cast<SharedMemory*>(memory); }

// Makes the CPU tensor use `memory`, which is at least as large.
inline void PointAt(const at::Tensor& parameter, SharedMemory memory) {
  std::byte* const data = memory.get();
  parameter.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      c10::DataPtr(data, new SharedMemory(std::move(memory)), &LetGo, parameter.device()));
}

// Returns whether PointAt set the tensor's memory, which means that a version may share it.
inline bool MayBeShared(const at::Tensor& parameter) { return parameter.storage().data_ptr().get_deleter() == &LetGo; }

}  // namespace ingot::trainer
