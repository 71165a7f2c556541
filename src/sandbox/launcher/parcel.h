// Reads the memory-mapped file of a SetUp or Start message (launch_messages.h): a header, then strings.
#pragma once

#include <cstddef>

namespace ingot::sandbox::launcher {

class Parcel {
 public:
  // Maps the file at `fd`, which stays mapped until the process exits.
  explicit Parcel(int fd);
  // Returns null if the file is shorter than its header.
  template <typename Header>
  const Header* TakeHeader() {
    return static_cast<const Header*>(Consume(sizeof(Header)));
  }
  // Returns null if no complete string is left.
  const char* TakeString();
  // Returns `count` strings followed by a null pointer, or null if there are fewer.
  char** TakeStrings(size_t count);
  // Returns null if fewer bytes are left.
  const void* TakeBytes(size_t bytes) { return Consume(bytes); }

 private:
  const void* Consume(size_t bytes);
  const char* at_ = nullptr;
  const char* end_ = nullptr;
};

}  // namespace ingot::sandbox::launcher
