// Computes the checksums of tensors on a device there, to check a version that the host made from its changes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

namespace ingot::trainer {

// Returns weights::TensorChecksum of each dense tensor, by name. The tensors are on one device, with elements of 2 or 4
// bytes. Copies 8 bytes per slice of 128 KiB to the host, and the ends of tensors that are shorter than the kernel takes.
// Throws c10::Error.
std::map<std::string, uint64_t> ChecksumsOnDevice(const std::map<std::string, at::Tensor>& tensors);

}  // namespace ingot::trainer
