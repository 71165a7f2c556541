#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/checksum.h"
#include "weights/byte_planes.h"
#include "weights/delta.h"
#include "weights/delta_payload.h"
#include "weights/pieces.h"
#include "weights/tensor_checksum.h"
#include "weights/ulp_slice.h"
#include "weights/zstd_frame.h"

namespace ingot::weights {
namespace {

constexpr int kFewestSliceBits = 6, kMaxSliceBits = 30;

// Decodes one payload. All sizes were already checked against the manifest.
class TensorDecoder {
 public:
  // Fills `out` and returns its checksum.
  absl::StatusOr<uint64_t> Decode(const v1::TensorDelta& delta, const v1::TensorInfo& info,
                                  std::span<const std::byte> base, std::span<std::byte> out) {
    INGOT_ASSIGN_OR_RETURN(const int64_t element_bytes, DtypeBytes(info.dtype()));
    const std::string& payload = delta.payload();
    if (payload.size() < kPayloadOverhead || payload.size() > out.size() + kPayloadOverhead) {
      return absl::DataLossError(
          absl::StrCat("payload of ", payload.size(), " bytes for a tensor of ", out.size(), " bytes"));
    }
    const std::string_view form_and_body(payload.data(), payload.size() - 8);
    if (ReadInt(std::string_view(payload).substr(payload.size() - 8)) != PayloadChecksum(delta, form_and_body)) {
      return absl::DataLossError("payload fails its checksum");
    }
    const char form = form_and_body[0];
    const std::string_view body = form_and_body.substr(1);
    if (form != kRaw && form != kZstd) return absl::DataLossError(absl::StrCat("unknown payload form ", int{form}));
    switch (delta.coding()) {
      case v1::TENSOR_FULL:
        INGOT_RETURN_IF_ERROR(Unpack(form, body, out));
        break;
      case v1::TENSOR_XOR:
        scratch_.resize(out.size());
        INGOT_RETURN_IF_ERROR(Unpack(form, body, scratch_));
        XorFromPlanes(base.data(), scratch_.data(), static_cast<int64_t>(out.size()) / element_bytes, element_bytes,
                      out.data());
        break;
      case v1::TENSOR_SPARSE:
        INGOT_RETURN_IF_ERROR(DecodeSparse(form, body, base, element_bytes, out));
        break;
      case v1::TENSOR_ULP:
        if (info.dtype() != "BF16" || form != kRaw) {
          return absl::DataLossError(absl::StrCat("changed words of dtype ", info.dtype(), " in form ", int{form}));
        }
        return DecodeUlp(body, base, out);
      default:
        return absl::InvalidArgumentError(absl::StrCat("unknown tensor coding ", delta.coding()));
    }
    return TensorChecksum(out);
  }

 private:
  absl::Status Unpack(char form, std::string_view body, std::span<std::byte> out) {
    if (form == kZstd) return zstd_.Decompress(body, out);
    if (body.size() != out.size()) {
      return absl::DataLossError(absl::StrCat("payload holds ", body.size(), " bytes instead of ", out.size()));
    }
    if (!out.empty()) std::memcpy(out.data(), body.data(), body.size());
    return absl::OkStatus();
  }

  absl::Status DecodeSparse(char form, std::string_view body, std::span<const std::byte> base, int64_t element_bytes,
                            std::span<std::byte> out) {
    if (form == kZstd) {
      INGOT_ASSIGN_OR_RETURN(const size_t size, zstd_.ContentSize(body, out.size()));
      scratch_.resize(size);
      INGOT_RETURN_IF_ERROR(zstd_.Decompress(body, scratch_));
      body = std::string_view(reinterpret_cast<const char*>(scratch_.data()), size);
    }
    if (body.size() < 8) return absl::DataLossError("sparse payload is truncated");
    const uint64_t count = ReadInt(body);
    body.remove_prefix(8);
    const uint64_t elements = out.size() / element_bytes;
    // A change takes a gap of at least one byte plus its element, so this check also limits the memory for positions.
    if (count > elements || count > body.size() / (1 + element_bytes)) {
      return absl::DataLossError(absl::StrCat("sparse payload declares ", count, " changes"));
    }
    positions_.resize(count);
    uint64_t next = 0;
    for (uint64_t i = 0; i < count; ++i) {
      INGOT_ASSIGN_OR_RETURN(const uint64_t gap, TakeVarint(body));
      if (gap >= elements - next) return absl::DataLossError("sparse payload points past its tensor");
      positions_[i] = next + gap;
      next = positions_[i] + 1;
      if (next == elements && i + 1 < count) return absl::DataLossError("sparse payload points past its tensor");
    }
    if (body.size() != count * element_bytes) return absl::DataLossError("sparse payload has the wrong length");
    std::memcpy(out.data(), base.data(), out.size());
    for (int64_t plane = 0; plane < element_bytes; ++plane) {
      for (uint64_t i = 0; i < count; ++i) {
        out[positions_[i] * element_bytes + plane] = static_cast<std::byte>(body[plane * count + i]);
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> DecodeUlp(std::string_view body, std::span<const std::byte> base, std::span<std::byte> out) {
    if (body.empty()) return absl::DataLossError("payload of changed words is empty");
    const int bits = static_cast<unsigned char>(body[0]);
    if (bits < kFewestSliceBits || bits > kMaxSliceBits) {
      return absl::DataLossError(absl::StrCat("payload has slices of 2^", bits, " words"));
    }
    const size_t slice_bytes = static_cast<size_t>(kWordBytes) << bits;
    const size_t slices = (out.size() + slice_bytes - 1) / slice_bytes;
    if ((body.size() - 1) / 4 < slices) return absl::DataLossError("payload of changed words is truncated");
    std::string_view sizes = body.substr(1, 4 * slices);
    body.remove_prefix(1 + sizes.size());
    StreamingTensorChecksum sum;
    for (size_t begin = 0; begin < out.size(); begin += slice_bytes, sizes.remove_prefix(4)) {
      const uint64_t size = ReadInt(sizes, 4);
      if (size > body.size()) return absl::DataLossError("payload of changed words is truncated");
      const std::span<std::byte> words = out.subspan(begin, std::min(slice_bytes, out.size() - begin));
      std::memcpy(words.data(), base.data() + begin, words.size());
      if (size > 0) INGOT_RETURN_IF_ERROR(ulp_.Decode(body.substr(0, size), words));
      body.remove_prefix(size);
      sum.Update(words);
    }
    if (!body.empty()) return absl::DataLossError("payload of changed words has the wrong length");
    return sum.Finish();
  }

  UlpDecoder ulp_;
  ZstdFrame zstd_;
  std::vector<std::byte> scratch_;
  std::vector<uint64_t> positions_;
};

absl::Status CheckBase(const Snapshot* base, const v1::DeltaHeader& header) {
  const std::string wanted = absl::StrCat("the delta to version ", header.target().version(), " is based on version ",
                                          header.base_version(), " with checksum ", base::Hex(header.base_checksum()));
  if (base == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(wanted, ", but no version is held; send a full copy"));
  }
  if (base->version() != header.base_version() || base->checksum() != header.base_checksum()) {
    return absl::FailedPreconditionError(absl::StrCat(wanted, ", but version ", base->version(), " with checksum ",
                                                      base::Hex(base->checksum()), " is held; send a full copy"));
  }
  if (!SameLayout(base->manifest(), header.target())) {
    return absl::InvalidArgumentError(absl::StrCat(wanted, " but has different tensors; send a full copy"));
  }
  return absl::OkStatus();
}

std::string Describe(const v1::Manifest& manifest, size_t tensor) {
  return absl::StrCat("tensor '", manifest.tensors(static_cast<int>(tensor)).name(), "' of version ",
                      manifest.version());
}

absl::Status CheckEntry(const v1::TensorDelta& tensor, size_t index, bool full) {
  if (tensor.tensor() != static_cast<int32_t>(index)) {
    return absl::InvalidArgumentError(absl::StrCat("entry ", index, " is for tensor ", tensor.tensor()));
  }
  if (full && tensor.coding() != v1::TENSOR_FULL)
    return absl::InvalidArgumentError("its coding needs a base, but this is a full copy");
  if (tensor.coding() == v1::TENSOR_UNCHANGED && !tensor.payload().empty()) {
    return absl::DataLossError("unchanged, but with a payload");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::shared_ptr<std::byte[]>>> Snapshot::Decode(const Snapshot* base,
                                                                           const EncodedDelta& delta,
                                                                           const std::vector<int64_t>& sizes,
                                                                           const CodecOptions& options) {
  const v1::Manifest& manifest = delta.header.target();
  const bool full = IsFullCopy(delta.header);
  std::vector<size_t> order(sizes.size());  // largest first, so that threads finish at the same time
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  std::vector<std::shared_ptr<std::byte[]>> buffers(sizes.size());
  std::vector<absl::Status> statuses(sizes.size());
  const int threads = ThreadsFor(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}), options.threads);
  std::vector<TensorDecoder> decoders(static_cast<size_t>(threads));
  const auto decode = [&](size_t i, TensorDecoder& decoder) -> absl::Status {
    if (delta.tensors[i].coding() == v1::TENSOR_UNCHANGED) {
      if (base->manifest().tensors(static_cast<int>(i)).checksum() !=
          manifest.tensors(static_cast<int>(i)).checksum()) {
        return absl::DataLossError("unchanged, but with a different checksum; send a full copy");
      }
      buffers[i] = base->buffers_[i];
      return absl::OkStatus();
    }
    INGOT_ASSIGN_OR_RETURN(buffers[i],
                           options.buffers == nullptr ? AllocateBuffer(sizes[i]) : options.buffers->Acquire(sizes[i]));
    const v1::TensorInfo& info = manifest.tensors(static_cast<int>(i));
    INGOT_ASSIGN_OR_RETURN(const uint64_t checksum,
                           decoder.Decode(delta.tensors[i], info, full ? std::span<const std::byte>() : base->bytes(i),
                                          {buffers[i].get(), static_cast<size_t>(sizes[i])}));
    return CheckTensor(info, checksum);
  };
  ForEachPiece(threads, std::ssize(order), [&](int64_t piece, int worker) {
    const size_t i = order[static_cast<size_t>(piece)];
    statuses[i] = decode(i, decoders[static_cast<size_t>(worker)]);
  });
  for (size_t i = 0; i < sizes.size(); ++i) {
    INGOT_RETURN_IF_ERROR(base::Annotate(statuses[i], Describe(manifest, i)));
  }
  return buffers;
}

absl::StatusOr<std::shared_ptr<const Snapshot>> Apply(const std::shared_ptr<const Snapshot>& base,
                                                      const EncodedDelta& delta, const CodecOptions& options) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  const v1::DeltaHeader& header = delta.header;
  const v1::Manifest& manifest = header.target();
  if (header.checksum() != HeaderChecksum(header)) {
    return absl::DataLossError("the header of a weight delta fails its checksum; send a full copy");
  }
  const bool full = IsFullCopy(header);
  if (!full) INGOT_RETURN_IF_ERROR(CheckBase(base.get(), header));
  if (manifest.checksum() != ManifestChecksum(manifest)) {
    return absl::DataLossError("the manifest of a weight delta fails its checksum; send a full copy");
  }
  INGOT_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, TensorSizes(manifest, options.max_bytes));
  if (delta.tensors.size() != sizes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the delta to version ", manifest.version(), " has ",
                                                   delta.tensors.size(), " of ", sizes.size(), " tensors"));
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    INGOT_RETURN_IF_ERROR(base::Annotate(CheckEntry(delta.tensors[i], i, full), Describe(manifest, i)));
  }
  INGOT_ASSIGN_OR_RETURN(auto buffers, Snapshot::Decode(base.get(), delta, sizes, options));
  return std::shared_ptr<const Snapshot>(new Snapshot(manifest, std::move(buffers), std::vector<int64_t>(sizes)));
}

}  // namespace ingot::weights
