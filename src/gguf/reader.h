// Reads a file forward in small pieces and tracks how much is left. Part of File::Open.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ingot::gguf {

class Reader {
 public:
  // `most`: the position at which reading must stop, at most the file's size.
  Reader(const std::string& path, int descriptor, uint64_t size, uint64_t most)
      : path_(path), descriptor_(descriptor), size_(size), most_(most) {}

  uint64_t at() const { return at_; }
  uint64_t left() const { return size_ - at_; }

  // The current part of the file, such as "field 3 of 31": every error names it.
  void SetPlace(std::string place) { place_ = std::move(place); }
  // INVALID_ARGUMENT "FILE: not a usable GGUF file: PLACE WHAT".
  absl::Status Bad(std::string_view what) const;

  // Each fails if fewer bytes are left.
  absl::Status ReadBytes(void* to, uint64_t bytes);
  template <typename T>
  absl::StatusOr<T> Number() {
    T value;
    INGOT_RETURN_IF_ERROR(ReadBytes(&value, sizeof(value)));
    return value;
  }
  // A length of 64 bits and as many bytes of UTF-8.
  absl::StatusOr<std::string> Text();
  // A count of 64 bits; fails unless as many things of at least `least_bytes` each fit into the rest.
  absl::StatusOr<uint64_t> Count(std::string_view things, uint64_t least_bytes);

 private:
  absl::Status Fill();

  const std::string& path_;
  const int descriptor_;
  const uint64_t size_, most_;
  std::string place_;
  uint64_t at_ = 0;
  std::vector<char> buffer_;
  size_t next_ = 0;  // of the buffer
};

// Reads exactly `bytes` bytes at `offset`. INVALID_ARGUMENT: the file ends before.
absl::Status ReadAt(const std::string& path, int descriptor, uint64_t offset, void* to, uint64_t bytes);

}  // namespace ingot::gguf
