// Limits the entries and bytes in one page of a pool response.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ingot::datapool {

class PageBound {
 public:
  // `limit` is in entries; 0 = 10,000. For `max_bytes`, 0 = 32 MiB, which is also the maximum.
  explicit PageBound(int limit, int64_t max_bytes = 0)
      : limit_(limit == 0 ? 10'000 : limit), max_bytes_(max_bytes == 0 ? kMaxBytes : std::min(max_bytes, kMaxBytes)) {}
  int64_t max_bytes() const { return max_bytes_; }
  void Add(int64_t bytes) { bytes_ += bytes; }
  // Returns whether a page with this many entries is full.
  bool Full(int entries) const { return entries >= limit_ || bytes_ > max_bytes_; }

 private:
  // A page must fit into a gRPC message.
  static constexpr int64_t kMaxBytes = int64_t{32} << 20;
  const int limit_;
  const int64_t max_bytes_;
  int64_t bytes_ = 0;
};

}  // namespace ingot::datapool
