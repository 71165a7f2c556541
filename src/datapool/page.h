// How much one answer of the pool holds.
#pragma once

#include <cstdint>

namespace ingot::datapool {

class PageBound {
 public:
  // `limit` 0: the default.
  explicit PageBound(int limit) : limit_(limit == 0 ? 10'000 : limit) {}
  void Add(int64_t bytes) { bytes_ += bytes; }
  // Nothing more goes into an answer that has so many entries, and looked at what was added.
  bool Full(int entries) const { return entries >= limit_ || bytes_ > kMaxBytes; }

 private:
  // Even below its limit: an answer has to fit into a message, and to be made in time.
  static constexpr int64_t kMaxBytes = int64_t{32} << 20;
  const int limit_;
  int64_t bytes_ = 0;
};

}  // namespace ingot::datapool
