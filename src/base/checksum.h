// XXH3: the checksums of segments, weights and stored records. Not cryptographic.
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

// A content key: the canonical (big-endian) form of XXH3-128.
using Key128 = std::array<char, 16>;
Key128 ContentKey128(std::string_view bytes);
inline std::string_view KeyBytes(const Key128& key) { return {key.data(), key.size()}; }
// nullopt: that are not 16 bytes.
std::optional<Key128> KeyOfBytes(std::string_view bytes);
// For hashed containers: its bytes are as good as random.
struct Key128Hash {
  size_t operator()(const Key128& key) const;
};
// The same in a string.
inline std::string ContentKey(std::string_view bytes) { return std::string(KeyBytes(ContentKey128(bytes))); }

// ContentKey128 of what has been given so far, piece by piece.
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

// Checksum64 over a sequence of pieces; equal to the checksum of their concatenation.
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

// Lower-case hexadecimal of `bytes`, for logs and file names.
std::string Hex(std::string_view bytes);
// 16 lower-case hexadecimal digits.
std::string Hex(uint64_t value);

}  // namespace ingot::base
