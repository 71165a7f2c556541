// The contents of a prompt's placeholders (v1::Placeholders), as the KV cache tells equal ids apart by them. A prompt of
// text has none. Immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/tree.pb.h"

namespace ingot::rollout {

class Contents {
 public:
  Contents() = default;  // of text
  // REQUIRES: the runs are sound (base::PlaceholdersFault).
  explicit Contents(const google::protobuf::RepeatedPtrField<v1::Placeholders>& runs);

  // The contents of ids [begin, end), relative to `begin`: equal strings for equal contents, empty for text. No such
  // string begins with another one that is not empty.
  std::string KeyOf(size_t begin, size_t end) const;

  // The first index below `most` at which the two differ; `most` if none does.
  size_t FirstDifference(const Contents& other, size_t most) const;

 private:
  struct Run {
    size_t begin, end;
    std::string content;
    bool operator==(const Run&) const = default;
  };
  std::vector<Run> runs_;  // ascending; neighbours of one content are one run
};

}  // namespace ingot::rollout
