// The contents of a prompt's placeholders (v1::Placeholders), which distinguish equal ids in the KV cache. A text
// prompt has no contents. Immutable.
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

  // The contents of ids [begin, end), relative to `begin`: equal strings for equal contents, empty for text. No
  // nonempty string is a prefix of another.
  std::string KeyOf(size_t begin, size_t end) const;

  // The first index below `most` at which the two differ; `most` if they do not differ.
  size_t FirstDifference(const Contents& other, size_t most) const;

 private:
  struct Run {
    size_t begin, end;
    std::string content;
    bool operator==(const Run&) const = default;
  };
  std::vector<Run> runs_;  // ascending; neighbours with the same content are one run
};

}  // namespace ingot::rollout
