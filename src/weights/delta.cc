#include "weights/delta.h"

#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/checksum.h"
#include "weights/byte_planes.h"
#include "weights/zstd_frame.h"

namespace ingot::weights {
namespace {

constexpr char kRaw = 0;
constexpr char kZstd = 1;
constexpr size_t kOverhead = 1 + 8;  // form and checksum
constexpr int64_t kMaxVarint = 10;

void AppendInt(uint64_t value, int bytes, std::string& out) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t ReadInt(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

uint64_t PayloadChecksum(const v1::TensorDelta& delta, std::string_view form_and_body) {
  std::string place;
  AppendInt(static_cast<uint32_t>(delta.tensor()), 4, place);
  AppendInt(static_cast<uint32_t>(delta.coding()), 4, place);
  base::StreamingChecksum sum;
  sum.Update(place);
  sum.Update(form_and_body);
  return sum.Digest();
}

bool SameLayout(const v1::Manifest& a, const v1::Manifest& b) {
  if (a.tensors_size() != b.tensors_size()) return false;
  for (int i = 0; i < a.tensors_size(); ++i) {
    const v1::TensorInfo& x = a.tensors(i);
    const v1::TensorInfo& y = b.tensors(i);
    if (x.name() != y.name() || x.dtype() != y.dtype() || x.shape_size() != y.shape_size() ||
        !std::equal(x.shape().begin(), x.shape().end(), y.shape().begin())) {
      return false;
    }
  }
  return true;
}

// Finds the smallest payload (coding, form and body) of one tensor.
class TensorEncoder {
 public:
  explicit TensorEncoder(int level) : level_(level) {}

  // `base` is empty for a full copy. Returns the number of changed elements.
  int64_t Encode(std::span<const std::byte> base, std::span<const std::byte> target, int64_t element_bytes,
                 v1::TensorDelta& out) {
    const int64_t elements = static_cast<int64_t>(target.size()) / element_bytes;
    coding_ = v1::TENSOR_FULL;
    best_.clear();
    best_size_ = target.size() + 1;  // of FULL, uncompressed, which another payload has to beat
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
    // A tensor whose XOR compresses well hardly ever compresses better without its base: FULL is then not tried.
    if (base.empty() || best_size_ > target.size() / 2) Offer(v1::TENSOR_FULL, target);
    if (coding_ == v1::TENSOR_FULL && best_.empty()) {
      best_.reserve(target.size() + kOverhead);
      best_.push_back(kRaw);
      best_.append(reinterpret_cast<const char*>(target.data()), target.size());
    }
    out.set_coding(coding_);
    AppendInt(PayloadChecksum(out, best_), 8, best_);
    out.set_payload(std::move(best_));
    best_ = std::string();
    return changed;
  }

 private:
  void TrySparse(std::span<const std::byte> base, std::span<const std::byte> target, int64_t elements,
                 int64_t element_bytes, int64_t changed) {
    // A gap takes one byte at the densities at which SPARSE can win.
    if (8 + changed * (element_bytes + 1) >= static_cast<int64_t>(target.size()) / 2) return;
    sparse_.clear();
    AppendInt(changed, 8, sparse_);
    changed_.clear();
    int64_t previous = -1;
    const auto visit = [&](int64_t index) {
      uint64_t gap = index - previous - 1;
      previous = index;
      changed_.push_back(index);
      for (; gap >= 128; gap >>= 7) sparse_.push_back(static_cast<char>(gap | 128));
      sparse_.push_back(static_cast<char>(gap));
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
    if (sparse_.size() + 1 < best_size_) {
      coding_ = v1::TENSOR_SPARSE;
      best_size_ = sparse_.size() + 1;
      best_.assign(1, kRaw);
      best_ += sparse_;
    }
    Offer(v1::TENSOR_SPARSE, AsBytes(sparse_));
  }

  // The compressed body becomes the best payload if it is smaller.
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

// Decodes one payload. All sizes were checked against the manifest before.
class TensorDecoder {
 public:
  absl::Status Decode(const v1::TensorDelta& delta, std::span<const std::byte> base, int64_t element_bytes,
                      std::span<std::byte> out) {
    const std::string& payload = delta.payload();
    if (payload.size() < kOverhead || payload.size() > out.size() + kOverhead) {
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
        return Unpack(form, body, out);
      case v1::TENSOR_XOR:
        scratch_.resize(out.size());
        INGOT_RETURN_IF_ERROR(Unpack(form, body, scratch_));
        XorFromPlanes(base.data(), scratch_.data(), static_cast<int64_t>(out.size()) / element_bytes, element_bytes,
                      out.data());
        return absl::OkStatus();
      case v1::TENSOR_SPARSE:
        return DecodeSparse(form, body, base, element_bytes, out);
      default:
        return absl::InvalidArgumentError(absl::StrCat("unknown tensor coding ", delta.coding()));
    }
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
    if (body.size() < 8) return absl::DataLossError("sparse payload is cut short");
    const uint64_t count = ReadInt(body);
    body.remove_prefix(8);
    const uint64_t elements = out.size() / element_bytes;
    // A change takes a gap of at least one byte and its element: the check bounds the positions in memory too.
    if (count > elements || count > body.size() / (1 + element_bytes)) {
      return absl::DataLossError(absl::StrCat("sparse payload declares ", count, " changes"));
    }
    positions_.resize(count);
    uint64_t next = 0;
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t gap = 0;
      INGOT_RETURN_IF_ERROR(ReadVarint(body, gap));
      if (gap >= elements - next) return absl::DataLossError("sparse payload points past its tensor");
      positions_[i] = next + gap;
      next = positions_[i] + 1;
      if (next == elements && i + 1 < count) return absl::DataLossError("sparse payload points past its tensor");
    }
    if (body.size() != count * element_bytes) return absl::DataLossError("sparse payload has another length");
    std::memcpy(out.data(), base.data(), out.size());
    for (int64_t plane = 0; plane < element_bytes; ++plane) {
      for (uint64_t i = 0; i < count; ++i) {
        out[positions_[i] * element_bytes + plane] = static_cast<std::byte>(body[plane * count + i]);
      }
    }
    return absl::OkStatus();
  }

  static absl::Status ReadVarint(std::string_view& body, uint64_t& value) {
    for (int64_t i = 0; i < kMaxVarint && !body.empty(); ++i) {
      const unsigned char byte = body.front();
      body.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 127) << (7 * i);
      if (byte < 128) return absl::OkStatus();
    }
    return absl::DataLossError("sparse payload has a broken gap");
  }

  ZstdFrame zstd_;
  std::vector<std::byte> scratch_;
  std::vector<uint64_t> positions_;
};

absl::Status CheckBase(const Snapshot* base, const v1::DeltaHeader& header) {
  const std::string wanted = absl::StrCat("the delta to version ", header.target().version(), " was made from version ",
                                          header.base_version(), " with checksum ", base::Hex(header.base_checksum()));
  if (base == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(wanted, ", but no version is held; send a full copy"));
  }
  if (base->version() != header.base_version() || base->checksum() != header.base_checksum()) {
    return absl::FailedPreconditionError(absl::StrCat(wanted, ", but version ", base->version(), " with checksum ",
                                                      base::Hex(base->checksum()), " is held; send a full copy"));
  }
  if (!SameLayout(base->manifest(), header.target())) {
    return absl::InvalidArgumentError(absl::StrCat(wanted, " but names other tensors; send a full copy"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CodecOptions::Validate() const {
  if (zstd_level < -7 || zstd_level > 19) {
    return absl::InvalidArgumentError(absl::StrCat("zstd_level is ", zstd_level, ": -7 to 19"));
  }
  if (max_bytes <= 0) return absl::InvalidArgumentError(absl::StrCat("max_bytes is ", max_bytes, ": must be > 0"));
  return absl::OkStatus();
}

uint64_t HeaderChecksum(const v1::DeltaHeader& header) {
  std::string fields;
  AppendInt(header.target().version(), 8, fields);
  AppendInt(header.target().checksum(), 8, fields);
  AppendInt(header.base_version(), 8, fields);
  AppendInt(header.base_checksum(), 8, fields);
  AppendInt(header.retain() ? 1 : 0, 1, fields);
  AppendInt(header.raw_bytes(), 8, fields);
  AppendInt(header.beside() ? 1 : 0, 1, fields);
  return base::Checksum64(fields);
}

int64_t EncodedDelta::wire_bytes() const {
  int64_t bytes = static_cast<int64_t>(header.ByteSizeLong());
  for (const v1::TensorDelta& tensor : tensors) bytes += static_cast<int64_t>(tensor.payload().size());
  return bytes;
}

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
  TensorEncoder encoder(options.zstd_level);
  delta.tensors.reserve(target.size());
  for (size_t i = 0; i < target.size(); ++i) {
    INGOT_ASSIGN_OR_RETURN(const int64_t element_bytes, DtypeBytes(target.manifest().tensors(i).dtype()));
    v1::TensorDelta& tensor = delta.tensors.emplace_back();
    tensor.set_tensor(static_cast<int32_t>(i));
    delta.total_elements += static_cast<int64_t>(target.bytes(i).size()) / element_bytes;
    delta.changed_elements += encoder.Encode(base == nullptr ? std::span<const std::byte>() : base->bytes(i),
                                             target.bytes(i), element_bytes, tensor);
  }
  return delta;
}

absl::StatusOr<EncodedDelta> EncodeBeside(const Snapshot& target, const CodecOptions& options) {
  INGOT_ASSIGN_OR_RETURN(EncodedDelta delta, Encode(nullptr, target, /*retain=*/true, options));
  delta.header.set_beside(true);
  delta.header.set_checksum(HeaderChecksum(delta.header));
  return delta;
}

absl::StatusOr<std::shared_ptr<const Snapshot>> Apply(const std::shared_ptr<const Snapshot>& base,
                                                      const EncodedDelta& delta, const CodecOptions& options) {
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
  std::vector<std::shared_ptr<std::byte[]>> buffers(sizes.size());
  TensorDecoder decoder;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const v1::TensorDelta& tensor = delta.tensors[i];
    const auto describe = [&] {
      return absl::StrCat("tensor '", manifest.tensors(i).name(), "' of version ", manifest.version());
    };
    if (tensor.tensor() != static_cast<int32_t>(i)) {
      return absl::InvalidArgumentError(absl::StrCat(describe(), ": entry ", i, " is for tensor ", tensor.tensor()));
    }
    if (full && tensor.coding() != v1::TENSOR_FULL) {
      return absl::InvalidArgumentError(absl::StrCat(describe(), " needs a base, in a full copy"));
    }
    if (tensor.coding() == v1::TENSOR_UNCHANGED) {
      if (!tensor.payload().empty()) {
        return absl::DataLossError(absl::StrCat(describe(), ": unchanged, but with a payload"));
      }
      buffers[i] = base->buffers_[i];
      continue;
    }
    INGOT_ASSIGN_OR_RETURN(const int64_t element_bytes, DtypeBytes(manifest.tensors(i).dtype()));
    INGOT_ASSIGN_OR_RETURN(buffers[i], AllocateBuffer(sizes[i]));
    INGOT_RETURN_IF_ERROR(
        base::Annotate(decoder.Decode(tensor, full ? std::span<const std::byte>() : base->bytes(i), element_bytes,
                                      {buffers[i].get(), static_cast<size_t>(sizes[i])}),
                       describe()));
  }
  return Snapshot::Adopt(manifest, std::move(buffers));
}

}  // namespace ingot::weights
