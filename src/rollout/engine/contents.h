// Stores the contents of a prompt's placeholders (v1::Placeholders), which distinguish equal ids in the KV cache. Text
// prompts have none. Immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/tree.pb.h"

namespace ingot::rollout {

class Contents {
 public:
  Contents() = default;  // contents of text
  // REQUIRES: the runs are valid (base::PlaceholdersFault).
  explicit Contents(const google::protobuf::RepeatedPtrField<v1::Placeholders>& runs);

  // Returns a key for the contents of ids [begin, end), relative to `begin`. Equal contents have equal keys, and text
  // has an empty key. A nonempty key is never a prefix of another key.
  std::string KeyOf(size_t begin, size_t end) const;

  // Returns the first index below `most` where this object and `other` differ, or `most` if there is none.
  size_t FirstDifference(const Contents& other, size_t most) const;

 private:
  struct Run {
    size_t begin, end;
    std::string content;
    bool operator==(const Run&) const = default;
  };
  std::vector<Run> runs_;  // ascending; adjacent runs with the same content are merged
};

}  // namespace ingot::rollout
