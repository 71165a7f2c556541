#include "base/checksum.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ingot::base {

struct StreamingChecksum::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

uint64_t Checksum64(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

namespace {

Key128 Canonical(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  static_assert(sizeof(Key128) == sizeof(canonical.digest));
  return std::bit_cast<Key128>(canonical.digest);
}

}  // namespace

Key128 ContentKey128(std::string_view bytes) { return Canonical(XXH3_128bits(bytes.data(), bytes.size())); }

struct StreamingContentKey::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

StreamingContentKey::StreamingContentKey() : state_(std::make_unique<State>()) { XXH3_128bits_reset(state_->xxh); }
StreamingContentKey::~StreamingContentKey() = default;
void StreamingContentKey::Update(std::string_view bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}
Key128 StreamingContentKey::Digest() const { return Canonical(XXH3_128bits_digest(state_->xxh)); }

std::optional<Key128> KeyOfBytes(std::string_view bytes) {
  Key128 key;
  if (bytes.size() != key.size()) return std::nullopt;
  std::copy(bytes.begin(), bytes.end(), key.begin());
  return key;
}

size_t Key128Hash::operator()(const Key128& key) const {
  size_t hash = 0;
  std::memcpy(&hash, key.data(), sizeof(hash));
  return hash;
}

StreamingChecksum::StreamingChecksum() : state_(std::make_unique<State>()) { XXH3_64bits_reset(state_->xxh); }
StreamingChecksum::~StreamingChecksum() = default;
void StreamingChecksum::Update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_->xxh, bytes.data(), bytes.size());
}
uint64_t StreamingChecksum::Digest() const { return XXH3_64bits_digest(state_->xxh); }

std::string Hex(std::string_view bytes) { return absl::BytesToHexString(View(bytes)); }

std::string Hex(uint64_t value) { return absl::StrCat(absl::Hex(value, absl::kZeroPad16)); }

}  // namespace ingot::base
