// How much one answer of the pool holds.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ingot::datapool {

class PageBound {
 public:
  // 0: the default.
  explicit PageBound(int limit, int64_t max_bytes = 0)
      : limit_(limit == 0 ? 10'000 : limit), max_bytes_(max_bytes == 0 ? kMaxBytes : std::min(max_bytes, kMaxBytes)) {}
  int64_t max_bytes() const { return max_bytes_; }
  void Add(int64_t bytes) { bytes_ += bytes; }
  // Nothing more goes into an answer that has so many entries, and looked at what was added.
  bool Full(int entries) const { return entries >= limit_ || bytes_ > max_bytes_; }

 private:
  // Even below its limit: an answer has to fit into a message, and to be made in time.
  static constexpr int64_t kMaxBytes = int64_t{32} << 20;
  const int limit_;
  const int64_t max_bytes_;
  int64_t bytes_ = 0;
};

}  // namespace ingot::datapool
