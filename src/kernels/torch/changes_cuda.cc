// Implements the CUDA kernels of count_changes and gather_changes. Part of libingot_cuda.so, which registers them when it
// is loaded.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/changes_launch.h"
#include "kernels/torch/changes.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

// Returns the marks of `count` elements. The starts are those of count_changes.
cuda::ChangesMarks CheckMarks(const char* op, const at::Tensor& marks, int64_t count, const at::Tensor& starts) {
  const cuda::ChangesMarks checked{Read<uint64_t>(marks), count};
  TORCH_CHECK(count >= 0 && count <= 0xffffffffLL, op, ": ", count, " elements: must be less than 2^32");
  const auto check = [&](const char* name, const at::Tensor& t, int64_t size) {
    TORCH_CHECK(t.scalar_type() == at::kLong && t.is_contiguous() && t.numel() == size && t.device() == marks.device(),
                op, ": ", name, " of ", count, " elements must be dense, int64 on ", marks.device(), " with ", size,
                " entries, got ", t.scalar_type(), " ", t.sizes(), " on ", t.device());
  };
  check("the marks", marks, checked.groups());
  check("the starts", starts, checked.blocks() + 1);
  return checked;
}

void CountChangesOnCuda(const at::Tensor& marks, int64_t count, const at::Tensor& starts) {
  const cuda::CountChangesArgs args{CheckMarks("count_changes", marks, count, starts), Write<uint64_t>(starts)};
  const c10::cuda::CUDAGuard guard(marks.device());
  C10_CUDA_CHECK(cuda::LaunchCountChanges(args, c10::cuda::getCurrentCUDAStream()));
}

void GatherChangesOnCuda(const at::Tensor& elements, const at::Tensor& marks, const at::Tensor& starts, int64_t first,
                         int64_t blocks, int64_t places, int64_t values, const at::Tensor& out) {
  constexpr const char* kOp = "gather_changes";
  cuda::GatherChangesArgs args{};
  args.marks = CheckMarks(kOp, marks, elements.numel(), starts);
  const int64_t size = elements.element_size();
  TORCH_CHECK(elements.is_contiguous() && elements.device() == marks.device() && (size == 2 || size == 4), kOp,
              ": the elements must be dense, of 2 or 4 bytes, on ", marks.device(), ", got ", elements.scalar_type(),
              " ", elements.sizes(), " on ", elements.device());
  TORCH_CHECK(first >= 0 && blocks >= 0 && first <= args.marks.blocks() - blocks, kOp, ": blocks ", first, " to ",
              first + blocks, " of ", args.marks.blocks());
  const int64_t end = std::min((first + blocks) * cuda::kChangesThreads, args.marks.groups());
  const ChangesLists lists{end - first * cuda::kChangesThreads, places, values};
  const int64_t bytes = lists.bytes(size);
  TORCH_CHECK(out.scalar_type() == at::kByte && out.is_contiguous() && out.device() == marks.device() &&
                  out.numel() >= bytes && reinterpret_cast<uintptr_t>(out.const_data_ptr()) % 8 == 0,
              kOp, ": the lists need ", bytes, " aligned bytes on ", marks.device(), ", got ", out.scalar_type(), " ",
              out.sizes(), " on ", out.device());
  auto* const to = Write<uint8_t>(out);
  args.elements = elements.const_data_ptr();
  args.starts = Read<uint64_t>(starts);
  args.first = first;
  args.counts = to;
  args.places = to + lists.places_at();
  args.values = to + lists.values_at();
  args.places_limit = places;
  args.values_limit = values;
  const c10::cuda::CUDAGuard guard(marks.device());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  C10_CUDA_CHECK(size == 2 ? cuda::LaunchGatherChanges<uint16_t>(args, blocks, stream)
                           : cuda::LaunchGatherChanges<uint32_t>(args, blocks, stream));
}

TORCH_LIBRARY_IMPL(ingot, CUDA, m) {
  m.impl("count_changes", CountChangesOnCuda);
  m.impl("gather_changes", GatherChangesOnCuda);
}

}  // namespace
}  // namespace ingot::kernels
