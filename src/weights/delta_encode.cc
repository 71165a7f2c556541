#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "weights/byte_planes.h"
#include "weights/delta.h"
#include "weights/delta_payload.h"
#include "weights/pieces.h"
#include "weights/ulp_slice.h"
#include "weights/zstd_frame.h"

namespace ingot::weights {
namespace {

constexpr int kSliceBits = 20;  // 2 MiB of bf16: both versions of a slice fit into the L2 cache

// Returns the marks for a tensor's words. Null = compare the tensor.
const ChangeMask* MaskOf(const Snapshot& base, const Snapshot& target, int tensor) {
  const Changes* changes = target.changes();
  if (changes == nullptr || changes->base_checksum != base.checksum()) return nullptr;
  const auto found = changes->masks.find(target.manifest().tensors(tensor).name());
  if (found == changes->masks.end()) return nullptr;
  const auto words = static_cast<int64_t>(target.bytes(static_cast<size_t>(tensor)).size()) / kWordBytes;
  return found->second.words() == words ? &found->second : nullptr;
}

// The slices of a BF16 tensor, each encoded separately.
struct UlpTensor {
  size_t tensor = 0;
  std::vector<std::string> slices;
  std::vector<int64_t> changed;  // words, per slice

  int64_t all_changed() const { return std::accumulate(changed.begin(), changed.end(), int64_t{0}); }
  std::string Body() const {
    std::string body(1, static_cast<char>(kSliceBits));
    for (const std::string& slice : slices) AppendInt(slice.size(), 4, body);
    for (const std::string& slice : slices) body += slice;
    return body;
  }
};

// Finds the smallest payload (coding, form, and body) for one tensor.
class TensorEncoder {
 public:
  explicit TensorEncoder(int level) : level_(level) {}

  // `base` is empty for a full copy. Returns the number of changed elements.
  int64_t Encode(std::span<const std::byte> base, std::span<const std::byte> target, int64_t element_bytes,
                 v1::TensorDelta& out) {
    const int64_t elements = static_cast<int64_t>(target.size()) / element_bytes;
    Begin(target);
    int64_t changed = elements;
    if (!base.empty()) {
      changed = CountChanged(base.data(), target.data(), elements, element_bytes);
      if (changed == 0) {
        out.set_coding(v1::TENSOR_UNCHANGED);
        return 0;
      }
      scratch_.resize(target.size());
      XorToPlanes(base.data(), target.data(), elements, element_bytes, scratch_.data());
      Offer(v1::TENSOR_XOR, scratch_);
      TrySparse(base, target, elements, element_bytes, changed);
    }
    // A tensor whose XOR compresses well rarely compresses better without its base, so this skips FULL.
    if (base.empty() || best_size_ > target.size() / 2) Offer(v1::TENSOR_FULL, target);
    Finish(target, out);
    return changed;
  }

  // REQUIRES: `ulp` has changes.
  void Encode(const UlpTensor& ulp, std::span<const std::byte> target, v1::TensorDelta& out) {
    Begin(target);
    OfferAsItIs(v1::TENSOR_ULP, ulp.Body());
    if (best_size_ > target.size() / 2) Offer(v1::TENSOR_FULL, target);
    Finish(target, out);
  }

 private:
  void Begin(std::span<const std::byte> target) {
    coding_ = v1::TENSOR_FULL;
    best_.clear();
    best_size_ = target.size() + 1;  // for uncompressed FULL, which any other payload must beat
  }

  void Finish(std::span<const std::byte> target, v1::TensorDelta& out) {
    if (coding_ == v1::TENSOR_FULL && best_.empty()) {
      best_.reserve(target.size() + kPayloadOverhead);
      best_.push_back(kRaw);
      best_.append(reinterpret_cast<const char*>(target.data()), target.size());
    }
    out.set_coding(coding_);
    AppendInt(PayloadChecksum(out, best_), 8, best_);
    out.set_payload(std::move(best_));
    best_ = std::string();
  }

  void TrySparse(std::span<const std::byte> base, std::span<const std::byte> target, int64_t elements,
                 int64_t element_bytes, int64_t changed) {
    // Gaps take one byte at the densities where SPARSE can win.
    if (8 + changed * (element_bytes + 1) >= static_cast<int64_t>(target.size()) / 2) return;
    sparse_.clear();
    AppendInt(changed, 8, sparse_);
    changed_.clear();
    int64_t previous = -1;
    const auto visit = [&](int64_t index) {
      AppendVarint(static_cast<uint64_t>(index - previous - 1), sparse_);
      previous = index;
      changed_.push_back(index);
    };
    if (element_bytes == 4) {
      ForEachChanged<uint32_t>(base.data(), target.data(), elements, visit);
    } else {
      ForEachChanged<uint16_t>(base.data(), target.data(), elements, visit);
    }
    for (int64_t plane = 0; plane < element_bytes; ++plane) {
      for (const int64_t index : changed_) {
        sparse_.push_back(static_cast<char>(target[index * element_bytes + plane]));
      }
    }
    OfferAsItIs(v1::TENSOR_SPARSE, sparse_);
    Offer(v1::TENSOR_SPARSE, AsBytes(sparse_));
  }

  // Makes the body the best payload if it is smaller.
  void OfferAsItIs(v1::TensorCoding coding, std::string_view body) {
    if (body.size() + 1 >= best_size_) return;
    coding_ = coding;
    best_size_ = body.size() + 1;
    best_.assign(1, kRaw);
    best_ += body;
  }

  // Makes the compressed body the best payload if it is smaller.
  void Offer(v1::TensorCoding coding, std::span<const std::byte> body) {
    candidate_.assign(1, kZstd);
    if (best_size_ <= 1 || !zstd_.Compress(body, level_, best_size_ - 1, candidate_)) return;
    coding_ = coding;
    best_size_ = candidate_.size();
    best_.assign(candidate_);
  }

  const int level_;
  ZstdFrame zstd_;
  std::vector<std::byte> scratch_;
  std::vector<int64_t> changed_;
  std::string sparse_;
  std::string candidate_;
  std::string best_;
  size_t best_size_ = 0;
  v1::TensorCoding coding_ = v1::TENSOR_FULL;
};

bool IsBf16(const v1::TensorInfo& info) { return info.dtype() == "BF16"; }

// Encodes all of a version's tensors in pieces. A piece is a slice of a BF16 tensor, or a whole tensor with another
// dtype.
class VersionEncoder {
 public:
  // `base` has the target's tensors, or is null.
  VersionEncoder(const Snapshot* base, const Snapshot& target, const CodecOptions& options)
      : base_(base), target_(target), threads_(ThreadsFor(target.total_bytes(), options.threads)) {
    for (int i = 0; i < threads_; ++i) {
      tensor_encoders_.emplace_back(options.zstd_level);
      ulp_encoders_.emplace_back(options.zstd_level);
    }
  }

  void Encode(EncodedDelta& delta) {
    delta.tensors.resize(target_.size());
    std::vector<int64_t> changed(target_.size());
    std::vector<Piece> pieces;
    std::vector<UlpTensor> ulp;
    for (size_t i = 0; i < target_.size(); ++i) {
      delta.tensors[i].set_tensor(static_cast<int32_t>(i));
      delta.total_elements += static_cast<int64_t>(target_.bytes(i).size()) / ElementBytes(i);
      if (base_ != nullptr && base_->bytes(i).data() == target_.bytes(i).data()) {  // shared
        delta.tensors[i].set_coding(v1::TENSOR_UNCHANGED);
        continue;
      }
      if (base_ == nullptr || !IsBf16(target_.manifest().tensors(static_cast<int>(i))) || target_.bytes(i).empty()) {
        pieces.push_back({i, kWhole});
        continue;
      }
      UlpTensor& tensor = ulp.emplace_back(i);
      tensor.slices.resize((target_.bytes(i).size() + kUlpBytes - 1) / kUlpBytes);
      tensor.changed.resize(tensor.slices.size());
      for (size_t slice = 0; slice < tensor.slices.size(); ++slice) pieces.push_back({ulp.size() - 1, slice});
    }
    ForEachPiece(threads_, std::ssize(pieces), [&](int64_t i, int worker) {
      const Piece& piece = pieces[static_cast<size_t>(i)];
      if (piece.slice != kWhole) return EncodeSlice(ulp[piece.index], piece.slice, worker);
      changed[piece.index] = tensor_encoders_[static_cast<size_t>(worker)].Encode(
          base_ == nullptr ? std::span<const std::byte>() : base_->bytes(piece.index), target_.bytes(piece.index),
          ElementBytes(piece.index), delta.tensors[piece.index]);
    });
    ForEachPiece(threads_, std::ssize(ulp), [&](int64_t i, int worker) {
      const UlpTensor& tensor = ulp[static_cast<size_t>(i)];
      changed[tensor.tensor] = tensor.all_changed();
      v1::TensorDelta& out = delta.tensors[tensor.tensor];
      if (changed[tensor.tensor] == 0) return out.set_coding(v1::TENSOR_UNCHANGED);
      tensor_encoders_[static_cast<size_t>(worker)].Encode(tensor, target_.bytes(tensor.tensor), out);
    });
    delta.changed_elements = std::accumulate(changed.begin(), changed.end(), int64_t{0});
  }

 private:
  static constexpr size_t kWhole = SIZE_MAX;
  static constexpr size_t kUlpBytes = static_cast<size_t>(kWordBytes) << kSliceBits;
  struct Piece {
    size_t index;  // index of the tensor, or of the UlpTensor if the piece is a slice
    size_t slice;  // kWhole = the whole tensor
  };

  int64_t ElementBytes(size_t tensor) const {
    return DtypeBytes(target_.manifest().tensors(static_cast<int>(tensor)).dtype()).value();
  }

  void EncodeSlice(UlpTensor& tensor, size_t slice, int worker) {
    const std::span<const std::byte> target = target_.bytes(tensor.tensor);
    const size_t begin = slice * kUlpBytes, size = std::min(kUlpBytes, target.size() - begin);
    const ChangeMask* mask = MaskOf(*base_, target_, static_cast<int>(tensor.tensor));
    const uint64_t* marks =
        mask == nullptr ? nullptr : mask->entries().data() + (slice << kSliceBits) / ChangeMask::kEntryWords;
    tensor.changed[slice] = ulp_encoders_[static_cast<size_t>(worker)].Encode(
        base_->bytes(tensor.tensor).data() + begin, target.data() + begin, static_cast<int64_t>(size) / kWordBytes,
        marks, tensor.slices[slice]);
  }

  const Snapshot* const base_;
  const Snapshot& target_;
  const int threads_;
  std::vector<TensorEncoder> tensor_encoders_;  // by worker, like the next member
  std::vector<UlpEncoder> ulp_encoders_;
};

}  // namespace

absl::StatusOr<EncodedDelta> Encode(const Snapshot* base, const Snapshot& target, bool retain,
                                    const CodecOptions& options) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  if (base != nullptr && !SameLayout(base->manifest(), target.manifest())) base = nullptr;
  EncodedDelta delta;
  *delta.header.mutable_target() = target.manifest();
  delta.header.set_base_version(base == nullptr ? -1 : base->version());
  delta.header.set_base_checksum(base == nullptr ? 0 : base->checksum());
  delta.header.set_retain(retain);
  delta.header.set_raw_bytes(target.total_bytes());
  delta.header.set_checksum(HeaderChecksum(delta.header));
  VersionEncoder(base, target, options).Encode(delta);
  return delta;
}

double Density(const Snapshot* base, const Snapshot& target) {
  if (base == nullptr || !SameLayout(base->manifest(), target.manifest())) return 1;
  int64_t changed = 0, all = 0;
  for (size_t i = 0; i < target.size(); ++i) {
    const std::span<const std::byte> before = base->bytes(i), after = target.bytes(i);
    const int64_t element_bytes = DtypeBytes(target.manifest().tensors(static_cast<int>(i)).dtype()).value();
    const int64_t elements = static_cast<int64_t>(after.size()) / element_bytes;
    const ChangeMask* mask = MaskOf(*base, target, static_cast<int>(i));
    all += elements;
    if (before.data() == after.data()) continue;  // shared
    changed += mask != nullptr ? CountChangedWords(before.data(), after.data(), mask->entries())
                               : CountChanged(before.data(), after.data(), elements, element_bytes);
  }
  return all == 0 ? 0 : static_cast<double>(changed) / static_cast<double>(all);
}

absl::StatusOr<EncodedDelta> EncodeHeld(const Snapshot& target, const CodecOptions& options) {
  INGOT_ASSIGN_OR_RETURN(EncodedDelta delta, Encode(nullptr, target, /*retain=*/true, options));
  delta.header.set_beside(true);
  delta.header.set_checksum(HeaderChecksum(delta.header));
  return delta;
}

EncodedDelta NameFull(const EncodedDelta& delta, bool retain) {
  EncodedDelta full = delta;
  full.header.set_base_version(-1);
  full.header.set_base_checksum(0);
  full.header.set_retain(retain);
  full.header.set_checksum(HeaderChecksum(full.header));
  return full;
}

}  // namespace ingot::weights
