#include "trainer/device_checksums.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <span>
#include <vector>

#include "base/checksum.h"
#include "base/checksum_secret.h"
#include "kernels/torch/digest.h"
#include "weights/tensor_checksum.h"

namespace ingot::trainer {
namespace {

static_assert(weights::kSliceBytes == kernels::kSliceDigestBytes);

// Returns the size of the last slice if the kernel leaves it out, or 0.
int64_t ShortEnd(const at::Tensor& tensor) {
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  const int64_t last = bytes - (weights::SlicesOf(bytes) - 1) * weights::kSliceBytes;
  return last < kernels::kSliceDigestLeast ? last : 0;
}

}  // namespace

std::map<std::string, uint64_t> ChecksumsOnDevice(const std::map<std::string, at::Tensor>& tensors) {
  std::map<std::string, uint64_t> checksums;
  if (tensors.empty()) return checksums;
  const at::NoGradGuard no_history;
  const at::Device device = tensors.begin()->second.device();
  int64_t slices = 0;
  std::vector<at::Tensor> ends;
  for (const auto& [name, tensor] : tensors) {
    slices += weights::SlicesOf(static_cast<int64_t>(tensor.nbytes()));
    if (const int64_t bytes = ShortEnd(tensor); bytes > 0) {
      const int64_t elements = bytes / tensor.element_size();
      ends.push_back(tensor.detach().view(-1).narrow(0, tensor.numel() - elements, elements).view(at::kByte));
    }
  }
  const at::Tensor digests = at::zeros({slices}, at::TensorOptions().device(device).dtype(at::kLong));
  const at::Tensor keys = kernels::SliceDigestKeys(base::ChecksumSecret(), device);
  int64_t first = 0;
  for (const auto& [name, tensor] : tensors) {
    const int64_t count = weights::SlicesOf(static_cast<int64_t>(tensor.nbytes()));
    if (tensor.numel() > 0) kernels::SliceDigestsOp(tensor.detach(), keys, digests.narrow(0, first, count));
    first += count;
  }
  const at::Tensor host = digests.to(at::kCPU), host_ends = ends.empty() ? at::Tensor() : at::cat(ends).to(at::kCPU);
  auto* digest = reinterpret_cast<uint64_t*>(host.mutable_data_ptr<int64_t>());
  const auto* end = ends.empty() ? nullptr : static_cast<const std::byte*>(host_ends.const_data_ptr());
  for (const auto& [name, tensor] : tensors) {
    const std::span all(digest, static_cast<size_t>(weights::SlicesOf(static_cast<int64_t>(tensor.nbytes()))));
    const auto bytes = static_cast<size_t>(ShortEnd(tensor));
    if (bytes > 0 || tensor.numel() == 0) all.back() = base::Checksum64({end, bytes});
    if (bytes > 0) end += bytes;
    checksums[name] = weights::CombineSlices(all);
    digest += all.size();
  }
  return checksums;
}

}  // namespace ingot::trainer
