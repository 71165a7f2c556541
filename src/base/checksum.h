// Computes XXH3 checksums and content keys, and prints bytes in hexadecimal. Not cryptographic.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ingot::base {

uint64_t Checksum64(std::span<const std::byte> bytes);
inline uint64_t Checksum64(std::string_view bytes) {
  return Checksum64(std::as_bytes(std::span<const char>(bytes.data(), bytes.size())));
}

// A content key: XXH3-128 in canonical (big-endian) form.
using Key128 = std::array<char, 16>;
Key128 ContentKey128(std::string_view bytes);
inline std::string_view KeyBytes(const Key128& key) { return {key.data(), key.size()}; }
// Returns nullopt unless `bytes` has size 16.
std::optional<Key128> KeyOfBytes(std::string_view bytes);
// A hash function for containers. It returns the key's first bytes, which are uniformly distributed.
struct Key128Hash {
  size_t operator()(const Key128& key) const;
};
// Returns ContentKey128 as a 16-byte string.
inline std::string ContentKey(std::string_view bytes) { return std::string(KeyBytes(ContentKey128(bytes))); }

// Computes ContentKey128 over a sequence of pieces. The result equals the key of their concatenation.
class StreamingContentKey {
 public:
  StreamingContentKey();
  ~StreamingContentKey();
  StreamingContentKey(const StreamingContentKey&) = delete;
  StreamingContentKey& operator=(const StreamingContentKey&) = delete;
  void Update(std::string_view bytes);
  Key128 Digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Computes Checksum64 over a sequence of pieces. The result equals the checksum of their concatenation.
class StreamingChecksum {
 public:
  StreamingChecksum();
  ~StreamingChecksum();
  StreamingChecksum(const StreamingChecksum&) = delete;
  StreamingChecksum& operator=(const StreamingChecksum&) = delete;
  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view bytes) { Update(std::as_bytes(std::span<const char>(bytes.data(), bytes.size()))); }
  uint64_t Digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns `bytes` in lowercase hexadecimal.
std::string Hex(std::string_view bytes);
// Returns `value` as 16 lowercase hexadecimal digits.
std::string Hex(uint64_t value);

}  // namespace ingot::base
