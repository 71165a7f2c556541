// Validates placeholders among token ids (v1::Placeholders). Shared by all code that accepts them as input.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::base {

inline constexpr size_t kMinContentBytes = 8, kMaxContentBytes = 64;  // limits for Placeholders.content

// Describes the first invalid placeholder among `ids` ids, or returns "" if all are valid. `runs` is a repeated
// v1::Placeholders field.
template <typename Runs>
std::string PlaceholdersFault(const Runs& runs, int64_t ids) {
  int64_t end = 0;  // end of the previous run
  for (int i = 0; i < runs.size(); ++i) {
    const std::string name = absl::StrCat("placeholders[", i, "]");
    const int64_t first = runs[i].first(), count = runs[i].count();
    if (count <= 0) return absl::StrCat(name, " covers ", count, " ids");
    if (first < end) {
      return absl::StrCat(name, " begins at id ", first, ", before id ", end, ", where the run before it ends");
    }
    if (first + count > ids) return absl::StrCat(name, " covers ids ", first, " to ", first + count - 1, " of ", ids);
    const size_t bytes = runs[i].content().size();
    if (bytes < kMinContentBytes || bytes > kMaxContentBytes) {
      return absl::StrCat(name, " has a content hash of ", bytes, " bytes: ", kMinContentBytes, " to ",
                          kMaxContentBytes);
    }
    end = first + count;
  }
  return "";
}

}  // namespace ingot::base
