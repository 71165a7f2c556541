// Reads a file sequentially in small pieces and tracks the remaining bytes. Part of File::Open.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ingot::gguf {

class Reader {
 public:
  // `most` is the position where reading must stop; at most the file size.
  Reader(const std::string& path, int descriptor, uint64_t size, uint64_t most)
      : path_(path), descriptor_(descriptor), size_(size), most_(most) {}

  uint64_t at() const { return at_; }
  uint64_t left() const { return size_ - at_; }

  // Sets the current part of the file, such as "field 3 of 31", which every error message includes.
  void SetPlace(std::string place) { place_ = std::move(place); }
  // Returns INVALID_ARGUMENT "FILE: not a usable GGUF file: PLACE WHAT".
  absl::Status Bad(std::string_view what) const;

  // Fails if fewer bytes are left.
  absl::Status ReadBytes(void* to, uint64_t bytes);
  template <typename T>
  absl::StatusOr<T> Number() {
    T value;
    INGOT_RETURN_IF_ERROR(ReadBytes(&value, sizeof(value)));
    return value;
  }
  // Reads a 64-bit length and that many bytes of UTF-8.
  absl::StatusOr<std::string> Text();
  // Reads a 64-bit count. Fails unless that many `things` of at least `least_bytes` each fit into the remaining file.
  absl::StatusOr<uint64_t> Count(std::string_view things, uint64_t least_bytes);

 private:
  absl::Status Fill();

  const std::string& path_;
  const int descriptor_;
  const uint64_t size_, most_;
  std::string place_;
  uint64_t at_ = 0;
  std::vector<char> buffer_;
  size_t next_ = 0;  // position in the buffer
};

// Reads exactly `bytes` bytes at `offset`. Returns INVALID_ARGUMENT if the file is too short.
absl::Status ReadAt(const std::string& path, int descriptor, uint64_t offset, void* to, uint64_t bytes);

}  // namespace ingot::gguf
