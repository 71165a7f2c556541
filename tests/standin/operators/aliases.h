#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_map>
#include <vector>

namespace ingot::standin {

// CPU tensors over the memory of CUDA tensors, for one call of an operator. Tensors that share a storage share the alias's storage too.
class Aliases {
 public:
  // Returns a CPU tensor over the same memory, or `tensor` itself if it is not on a CUDA device.
  at::Tensor Of(const at::Tensor& tensor);

  // Returns what an operator's result on the CPU is on `device`: the argument that it is, a view of an argument, or a copy.
  at::Tensor ToDevice(const at::Tensor& result, at::Device device) const;

  // Gives the arguments that the operator has resized their new shape and values.
  void CopyResized() const;

  // The first CUDA tensor's device, or the CPU if there was none.
  at::Device device() const { return device_; }

 private:
  struct Alias {
    at::Tensor cuda, cpu;
    void* data;  // of the storage when the alias was made
  };
  std::vector<Alias> aliases_;
  std::unordered_map<c10::StorageImpl*, c10::Storage> storages_;  // by the CUDA tensors'
  at::Device device_{at::kCPU};
};

// Waits for the current stream of the current device.
void WaitForStream();

}  // namespace ingot::standin
