// Code shared by safetensors reading (safetensors.cc) and writing (safetensors_save.cc). The format is an 8-byte
// little-endian header length, a JSON header {name: {dtype, shape, data_offsets}}, and then the data. Offsets are
// relative to the end of the header and must cover the data without gaps or overlaps.
#pragma once

#include <c10/core/ScalarType.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::model {

static_assert(std::endian::native == std::endian::little, "tensors are stored little-endian");

struct DType {
  std::string_view name;
  at::ScalarType type;
};
inline constexpr std::array<DType, 10> kDTypes = {{{"F64", at::kDouble},
                                                   {"F32", at::kFloat},
                                                   {"F16", at::kHalf},
                                                   {"BF16", at::kBFloat16},
                                                   {"I64", at::kLong},
                                                   {"I32", at::kInt},
                                                   {"I16", at::kShort},
                                                   {"I8", at::kChar},
                                                   {"U8", at::kByte},
                                                   {"BOOL", at::kBool}}};

inline absl::Status System(const std::string& path, const char* doing) {
  const int code = errno;
  return absl::ErrnoToStatus(code, absl::StrCat(path, ": ", doing, " failed"));
}

// Owns a file descriptor; -1 = none.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// Returns a file descriptor, or -1 with errno set on failure. Does not block on a pipe; readers reject that file type.
inline int OpenToRead(const std::string& path) { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }

}  // namespace ingot::model
