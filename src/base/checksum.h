// XXH3: the checksums of segments, weights and stored records. Not cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ingot::base {

uint64_t Checksum64(std::span<const std::byte> bytes);
inline uint64_t Checksum64(std::string_view bytes) {
  return Checksum64(std::as_bytes(std::span<const char>(bytes.data(), bytes.size())));
}

// 16 bytes, canonical (big-endian) form of XXH3-128: a content key.
std::string ContentKey(std::string_view bytes);

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
