#include "gguf/reader.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ingot::gguf {
namespace {

constexpr uint64_t kBufferBytes = 256 << 10;

}  // namespace

absl::Status ReadAt(const std::string& path, int descriptor, uint64_t offset, void* to, uint64_t bytes) {
  char* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor, at, std::min<uint64_t>(bytes, 1 << 30), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": reading failed"));
    if (got == 0) return absl::InvalidArgumentError(absl::StrCat(path, ": the file became shorter while it was read"));
    at += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

absl::Status Reader::Bad(std::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat(path_, ": not a usable GGUF file: ", place_, place_.empty() ? "" : " ", base::View(what)));
}

absl::Status Reader::Fill() {
  buffer_.resize(std::min(kBufferBytes, size_ - at_));
  next_ = 0;
  return ReadAt(path_, descriptor_, at_, buffer_.data(), buffer_.size());
}

absl::Status Reader::ReadBytes(void* to, uint64_t bytes) {
  if (bytes > left()) {
    return Bad(
        absl::StrCat("needs ", bytes, " bytes at byte ", at_, ", but the file has ", size_, ": is it truncated?"));
  }
  if (bytes > most_ - std::min(at_, most_)) {
    return Bad(absl::StrCat("is past byte ", most_, ", where the tensor data must begin"));
  }
  char* out = static_cast<char*>(to);
  while (bytes > 0) {
    if (next_ == buffer_.size()) INGOT_RETURN_IF_ERROR(Fill());
    const uint64_t part = std::min<uint64_t>(bytes, buffer_.size() - next_);
    std::memcpy(out, buffer_.data() + next_, part);
    next_ += part;
    at_ += part;
    out += part;
    bytes -= part;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Reader::Text() {
  INGOT_ASSIGN_OR_RETURN(const uint64_t bytes, Count("bytes of text", 1));
  std::string text(bytes, '\0');
  INGOT_RETURN_IF_ERROR(ReadBytes(text.data(), bytes));
  return text;
}

absl::StatusOr<uint64_t> Reader::Count(std::string_view things, uint64_t least_bytes) {
  INGOT_ASSIGN_OR_RETURN(const auto count, Number<uint64_t>());
  const uint64_t room = std::min(left(), most_ - std::min(at_, most_));
  if (count > room / least_bytes) {
    return Bad(absl::StrCat("claims ", count, " ", base::View(things), ", but only ", room, " bytes are left"));
  }
  return count;
}

}  // namespace ingot::gguf
