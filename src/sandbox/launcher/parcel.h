// A Parcel is the file of a SetUp or a Start (launch_messages.h), mapped into memory: a header, then strings.
#pragma once

#include <cstddef>

namespace ingot::sandbox::launcher {

class Parcel {
 public:
  // Maps the file that `fd` names. The mapping lasts as long as the process.
  explicit Parcel(int fd);
  // Null: the file is shorter than its header.
  template <typename Header>
  const Header* TakeHeader() {
    return static_cast<const Header*>(Consume(sizeof(Header)));
  }
  // Null: no complete string is left.
  const char* TakeString();
  // `count` strings and a null pointer after them; null: there are fewer.
  char** TakeStrings(size_t count);
  // Null: fewer bytes are left.
  const void* TakeBytes(size_t bytes) { return Consume(bytes); }

 private:
  const void* Consume(size_t bytes);
  const char* at_ = nullptr;
  const char* end_ = nullptr;
};

}  // namespace ingot::sandbox::launcher
