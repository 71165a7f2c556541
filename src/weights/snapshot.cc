#include "weights/snapshot.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "base/checksum.h"
#include "weights/delta.h"
#include "weights/pieces.h"
#include "weights/tensor_checksum.h"

namespace ingot::weights {
namespace {

// Writes a patch's elements into a copy, slice by slice. REQUIRES: CheckPatch.
class Patcher {
 public:
  Patcher(const TensorPatch& patch, int64_t element_bytes) : patch_(patch), element_bytes_(element_bytes) {}

  // Patches the next elements, whose copy is at `to`: whole entries, unless it is the tensor's last slice.
  void Apply(std::byte* to, int64_t elements) {
    for (int64_t start = 0; start < elements; start += ChangeMask::kEntryWords, ++entry_) {
      for (uint64_t bits = patch_.marks[entry_]; bits != 0; bits &= bits - 1) {
        std::memcpy(to + (start + std::countr_zero(bits)) * element_bytes_, patch_.values.data() + used_,
                    static_cast<size_t>(element_bytes_));
        used_ += static_cast<size_t>(element_bytes_);
      }
    }
  }

 private:
  const TensorPatch& patch_;
  const int64_t element_bytes_;
  size_t entry_ = 0, used_ = 0;
};

// Copies and digests slice by slice, so that the digest reads each slice from the cache.
uint64_t CopyTensor(std::span<const std::byte> from, const std::optional<TensorPatch>& patch, int64_t element_bytes,
                    std::byte* to) {
  std::vector<uint64_t> digests(static_cast<size_t>(SlicesOf(std::ssize(from))));
  std::optional<Patcher> patcher;
  if (patch.has_value()) patcher.emplace(*patch, element_bytes);
  for (uint64_t& digest : digests) {
    const size_t size = std::min(static_cast<size_t>(kSliceBytes), from.size());
    if (size > 0) std::memcpy(to, from.data(), size);
    if (patcher.has_value()) patcher->Apply(to, static_cast<int64_t>(size) / element_bytes);
    digest = base::Checksum64({to, size});
    from = from.subspan(size);
    to += size;
  }
  return CombineSlices(digests);
}

absl::Status CheckPatch(const TensorView& tensor, int64_t elements, int64_t element_bytes) {
  const auto& [marks, values] = *tensor.patch;
  const int64_t entries = (elements + ChangeMask::kEntryWords - 1) / ChangeMask::kEntryWords;
  int64_t changed = 0;
  for (const uint64_t entry : marks) changed += std::popcount(entry);
  const int64_t rest = elements % ChangeMask::kEntryWords;
  const bool past_end = std::ssize(marks) == entries && rest > 0 && marks.back() >> rest != 0;
  if (std::ssize(marks) == entries && !past_end && std::ssize(values) == changed * element_bytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("the patch of tensor '", tensor.name, "' has ", marks.size(),
                                                 " entries of marks and ", values.size(), " bytes of values, but ",
                                                 elements, " elements need ", entries, " entries, and ", changed,
                                                 past_end ? " marks, some of them after the last element, " : " marks ",
                                                 "need ", changed * element_bytes, " bytes"));
}

void UpdateInt(base::StreamingChecksum& sum, uint64_t value) {
  std::byte bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
  sum.Update(bytes);
}

// A string is hashed with its length, so that different manifests never give the same byte sequence.
void UpdateString(base::StreamingChecksum& sum, const std::string& text) {
  UpdateInt(sum, text.size());
  sum.Update(text);
}

absl::StatusOr<int64_t> TensorBytes(const v1::TensorInfo& tensor) {
  INGOT_ASSIGN_OR_RETURN(int64_t bytes, DtypeBytes(tensor.dtype()));
  bool empty = false;
  for (const int64_t dim : tensor.shape()) {
    if (dim < 0) return absl::InvalidArgumentError(absl::StrCat("dimension ", dim, " is negative"));
    if (dim == 0) empty = true;
  }
  if (empty) return 0;
  for (const int64_t dim : tensor.shape()) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) return absl::InvalidArgumentError("shape overflows 64 bits");
  }
  return bytes;
}

}  // namespace

absl::StatusOr<int64_t> DtypeBytes(const std::string& dtype) {
  if (dtype == "F32") return 4;
  if (dtype == "BF16" || dtype == "F16") return 2;
  return absl::InvalidArgumentError(absl::StrCat("dtype '", dtype, "' is not one of F32, BF16, F16"));
}

absl::StatusOr<std::vector<int64_t>> TensorSizes(const v1::Manifest& manifest, int64_t max_bytes) {
  std::vector<int64_t> sizes;
  sizes.reserve(manifest.tensors_size());
  int64_t total = 0;
  const std::string* previous = nullptr;
  for (const v1::TensorInfo& tensor : manifest.tensors()) {
    const absl::StatusOr<int64_t> bytes = TensorBytes(tensor);
    if (!bytes.ok()) return base::Annotate(bytes.status(), "tensor '" + tensor.name() + "'");
    if (previous != nullptr && *previous >= tensor.name()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", tensor.name(), "' follows '", *previous, "': names must be unique and in order"));
    }
    previous = &tensor.name();
    if (__builtin_add_overflow(total, *bytes, &total) || total > max_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("version ", manifest.version(), " declares more than ", max_bytes, " bytes"));
    }
    sizes.push_back(*bytes);
  }
  return sizes;
}

namespace {

void UpdateTensor(base::StreamingChecksum& sum, const v1::TensorInfo& tensor) {
  UpdateString(sum, tensor.name());
  UpdateString(sum, tensor.dtype());
  UpdateInt(sum, static_cast<uint64_t>(tensor.shape_size()));
  for (const int64_t dim : tensor.shape()) UpdateInt(sum, static_cast<uint64_t>(dim));
  UpdateInt(sum, tensor.checksum());
  if (tensor.role() != v1::TENSOR_POLICY) UpdateInt(sum, static_cast<uint64_t>(tensor.role()));
}

uint64_t NotZero(uint64_t digest) { return digest == 0 ? 1 : digest; }

}  // namespace

uint64_t ManifestChecksum(const v1::Manifest& manifest) {
  base::StreamingChecksum sum;
  UpdateInt(sum, static_cast<uint64_t>(manifest.tensors_size()));
  for (const v1::TensorInfo& tensor : manifest.tensors()) UpdateTensor(sum, tensor);
  return NotZero(sum.Digest());
}

uint64_t PolicyChecksum(const v1::Manifest& manifest) {
  const auto& tensors = manifest.tensors();
  const auto of_policy = [](const v1::TensorInfo& tensor) { return tensor.role() == v1::TENSOR_POLICY; };
  base::StreamingChecksum sum;
  UpdateInt(sum, static_cast<uint64_t>(std::count_if(tensors.begin(), tensors.end(), of_policy)));
  for (const v1::TensorInfo& tensor : tensors) {
    if (of_policy(tensor)) UpdateTensor(sum, tensor);
  }
  return NotZero(sum.Digest());
}

absl::Status CheckTensor(const v1::TensorInfo& declared, uint64_t checksum) {
  if (checksum == declared.checksum()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("checksum ", base::Hex(checksum), " instead of ",
                                          base::Hex(declared.checksum()), "; send a full copy"));
}

Snapshot::Snapshot(v1::Manifest manifest, std::vector<std::shared_ptr<std::byte[]>> buffers, std::vector<int64_t> sizes)
    : manifest_(std::move(manifest)),
      buffers_(std::move(buffers)),
      sizes_(std::move(sizes)),
      total_bytes_(std::accumulate(sizes_.begin(), sizes_.end(), int64_t{0})) {
  manifest_.set_policy_checksum(PolicyChecksum(manifest_));
}

absl::StatusOr<std::shared_ptr<const Snapshot>> Snapshot::Copy(int64_t version, const std::vector<TensorView>& tensors,
                                                               const CopyOptions& options) {
  std::vector<const TensorView*> ordered;
  ordered.reserve(tensors.size());
  for (const TensorView& tensor : tensors) ordered.push_back(&tensor);
  std::sort(ordered.begin(), ordered.end(), [](const auto* a, const auto* b) { return a->name < b->name; });

  v1::Manifest manifest;
  manifest.set_version(version);
  for (const TensorView* tensor : ordered) {
    v1::TensorInfo& info = *manifest.add_tensors();
    info.set_name(tensor->name);
    info.set_dtype(tensor->dtype);
    for (const int64_t dim : tensor->shape) info.add_shape(dim);
    info.set_role(tensor->role);
  }
  INGOT_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, TensorSizes(manifest, std::numeric_limits<int64_t>::max()));
  std::vector<std::shared_ptr<std::byte[]>> buffers;
  for (size_t i = 0; i < ordered.size(); ++i) {
    const std::span<const std::byte> bytes = ordered[i]->bytes;
    if (static_cast<int64_t>(bytes.size()) != sizes[i]) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", ordered[i]->name, "' has ", bytes.size(),
                                                     " bytes, but its shape and dtype need ", sizes[i]));
    }
    if (ordered[i]->owner != nullptr) {
      buffers.push_back(ordered[i]->owner);
      continue;
    }
    if (ordered[i]->patch.has_value()) {
      const int64_t element_bytes = DtypeBytes(ordered[i]->dtype).value();
      INGOT_RETURN_IF_ERROR(CheckPatch(*ordered[i], sizes[i] / element_bytes, element_bytes));
    }
    INGOT_ASSIGN_OR_RETURN(buffers.emplace_back(),
                           options.buffers == nullptr ? AllocateBuffer(sizes[i]) : options.buffers->Acquire(sizes[i]));
  }
  std::vector<size_t> order;  // tensors to copy, largest first, so that threads finish at the same time
  std::vector<uint64_t> checksums(ordered.size());
  int64_t total = 0;
  for (size_t i = 0; i < ordered.size(); ++i) {
    checksums[i] = ordered[i]->checksum;
    if (ordered[i]->owner != nullptr) continue;
    order.push_back(i);
    total += sizes[i];
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  ForEachPiece(ThreadsFor(total, options.threads), std::ssize(order), [&](int64_t piece, int) {
    const size_t i = order[static_cast<size_t>(piece)];
    checksums[i] =
        CopyTensor(ordered[i]->bytes, ordered[i]->patch, DtypeBytes(ordered[i]->dtype).value(), buffers[i].get());
  });
  for (size_t i = 0; i < ordered.size(); ++i) {
    manifest.mutable_tensors(static_cast<int>(i))->set_checksum(checksums[i]);
  }
  manifest.set_checksum(ManifestChecksum(manifest));
  std::shared_ptr<Snapshot> snapshot(new Snapshot(std::move(manifest), std::move(buffers), std::move(sizes)));
  snapshot->changes_ = options.changes;
  return snapshot;
}

absl::StatusOr<std::shared_ptr<const Snapshot>> Snapshot::Extend(const std::shared_ptr<const Snapshot>& base,
                                                                 int64_t version, const std::vector<TensorView>& more) {
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<const Snapshot> own, Copy(version, more));
  struct Part {
    const Snapshot* of;
    int index;
  };
  std::vector<Part> parts;
  for (const Snapshot* of : {base.get(), own.get()}) {
    for (int i = 0; i < of->manifest_.tensors_size(); ++i) parts.push_back({of, i});
  }
  const auto name = [](const Part& part) -> const std::string& {
    return part.of->manifest_.tensors(part.index).name();
  };
  std::sort(parts.begin(), parts.end(), [&](const Part& a, const Part& b) { return name(a) < name(b); });
  v1::Manifest manifest;
  manifest.set_version(version);
  std::vector<std::shared_ptr<std::byte[]>> buffers;
  for (const Part& part : parts) {
    *manifest.add_tensors() = part.of->manifest_.tensors(part.index);
    buffers.push_back(part.of->buffers_[static_cast<size_t>(part.index)]);
  }
  INGOT_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, TensorSizes(manifest, std::numeric_limits<int64_t>::max()));
  manifest.set_checksum(ManifestChecksum(manifest));
  return std::shared_ptr<const Snapshot>(new Snapshot(std::move(manifest), std::move(buffers), std::move(sizes)));
}

absl::StatusOr<std::shared_ptr<const Snapshot>> Snapshot::Adopt(v1::Manifest manifest,
                                                                std::vector<std::shared_ptr<std::byte[]>> buffers) {
  INGOT_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, TensorSizes(manifest, std::numeric_limits<int64_t>::max()));
  if (buffers.size() != sizes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("version ", manifest.version(), " has ", sizes.size(),
                                                   " tensors but ", buffers.size(), " buffers"));
  }
  if (manifest.checksum() != ManifestChecksum(manifest)) {
    return absl::DataLossError(absl::StrCat("the manifest of version ", manifest.version(),
                                            " does not match the checksum that it declares; send a full copy"));
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    const uint64_t checksum = TensorChecksum({buffers[i].get(), static_cast<size_t>(sizes[i])});
    INGOT_RETURN_IF_ERROR(
        base::Annotate(CheckTensor(manifest.tensors(i), checksum),
                       absl::StrCat("tensor '", manifest.tensors(i).name(), "' of version ", manifest.version())));
  }
  return std::shared_ptr<const Snapshot>(new Snapshot(std::move(manifest), std::move(buffers), std::move(sizes)));
}

absl::StatusOr<std::shared_ptr<const Snapshot>> Snapshot::Elsewhere(std::shared_ptr<const EncodedDelta> delta) {
  const v1::Manifest& manifest = delta->header.target();
  INGOT_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, TensorSizes(manifest, std::numeric_limits<int64_t>::max()));
  std::shared_ptr<Snapshot> snapshot(new Snapshot(manifest, {}, std::move(sizes)));
  snapshot->elsewhere_ = std::move(delta);
  return snapshot;
}

std::span<const std::byte> Snapshot::bytes(size_t tensor) const {
  return {buffers_[tensor].get(), static_cast<size_t>(sizes_[tensor])};
}

TensorView Snapshot::view(size_t tensor) const {
  const v1::TensorInfo& info = manifest_.tensors(tensor);
  return {info.name(),     info.dtype(), {info.shape().begin(), info.shape().end()}, bytes(tensor), buffers_[tensor],
          info.checksum(), info.role()};
}

}  // namespace ingot::weights
