#include "kernels/torch/digest.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <cstring>

#include "kernels/cuda/digest_args.h"

namespace ingot::kernels {
namespace {

static_assert(kSliceDigestBytes == cuda::kDigestSliceBytes && kSliceDigestLeast == cuda::kDigestLeastBytes);

TORCH_LIBRARY_FRAGMENT(ingot, m) { m.def("slice_digests(Tensor tensor, Tensor keys, Tensor(a!) digests) -> ()"); }

}  // namespace

at::Tensor SliceDigestKeys(std::span<const std::byte> secret, at::Device device) {
  constexpr int64_t kBytes = 192, kLast = 121, kMerge = 11;  // the secret, and the offsets of its last words
  TORCH_CHECK(std::ssize(secret) == kBytes, "slice_digests: a secret of ", secret.size(), " bytes instead of ", kBytes);
  const at::Tensor keys = at::empty({cuda::kDigestKeys}, at::kLong);
  auto* to = keys.mutable_data_ptr<int64_t>();
  const auto add = [&](int64_t offset, int count) {
    std::memcpy(to, secret.data() + offset, static_cast<size_t>(count) * sizeof(*to));
    to += count;
  };
  add(0, cuda::kDigestStripeKeys);
  add(kLast, cuda::kDigestLastKeys);
  add(kMerge, cuda::kDigestMergeKeys);
  return keys.to(device);
}

void SliceDigestsOp(const at::Tensor& tensor, const at::Tensor& keys, const at::Tensor& digests) {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("ingot::slice_digests", "");
  op.typed<SliceDigestsSignature>().call(tensor, keys, digests);
}

}  // namespace ingot::kernels
