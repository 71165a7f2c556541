#include "sandbox/launcher/parcel.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace ingot::sandbox::launcher {

Parcel::Parcel(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0 || info.st_size <= 0) return;
  const size_t size = static_cast<size_t>(info.st_size);
  void* const mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (mapped == MAP_FAILED) return;
  at_ = static_cast<const char*>(mapped);
  end_ = at_ + size;
}

const void* Parcel::Consume(size_t bytes) {
  if (static_cast<size_t>(end_ - at_) < bytes) return nullptr;
  const char* const taken = at_;
  at_ += bytes;
  return taken;
}

const char* Parcel::TakeString() {
  if (at_ == end_) return nullptr;
  const void* const nul = memchr(at_, 0, static_cast<size_t>(end_ - at_));
  if (nul == nullptr) return nullptr;
  const char* const text = at_;
  at_ = static_cast<const char*>(nul) + 1;
  return text;
}

char** Parcel::TakeStrings(size_t count) {
  if (count > static_cast<size_t>(end_ - at_)) return nullptr;
  void* const mapped =
      mmap(nullptr, (count + 1) * sizeof(char*), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char** const strings = static_cast<char**>(mapped);
  for (size_t i = 0; i < count; ++i) {
    const char* const text = TakeString();
    if (text == nullptr) return nullptr;
    strings[i] = const_cast<char*>(text);  // required by execve's signature
  }
  return strings;
}

}  // namespace ingot::sandbox::launcher
