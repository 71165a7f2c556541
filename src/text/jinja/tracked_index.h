// Which of the tracked dicts a loop's item is.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "text/jinja/template.h"

namespace ingot::text::jinja {

// Loops go over them in order or backwards, so most are beside the one before, and no table is made until one is not.
// Not thread safe.
class TrackedIndex {
 public:
  explicit TrackedIndex(const std::vector<Tracked>& items) : items_(items) {}

  std::optional<size_t> Find(const Value& value) const {
    if (!value.is_dict() || items_.empty()) return std::nullopt;
    const Dict* const dict = value.dict().get();
    for (const size_t guess : {last_ + 1, last_ - 1, last_, items_.size() - 1}) {
      if (guess < items_.size() && Is(guess, dict)) return last_ = guess;
    }
    if (table_.empty()) MakeTable();
    for (size_t at = PlaceOf(dict); table_[at] != 0; at = (at + 1) & (table_.size() - 1)) {
      if (Is(table_[at] - 1, dict)) return last_ = table_[at] - 1;
    }
    return std::nullopt;
  }
  bool Is(size_t index, const Dict* dict) const {
    const Value& item = items_[index].dict;
    return item.is_dict() && item.dict().get() == dict;
  }

 private:
  size_t PlaceOf(const Dict* dict) const {
    return (reinterpret_cast<uintptr_t>(dict) * 0x9E3779B97F4A7C15 >> 32) & (table_.size() - 1);
  }
  void MakeTable() const {
    table_.resize(std::bit_ceil(items_.size() * 2));
    for (size_t i = 0; i < items_.size(); ++i) {
      if (!items_[i].dict.is_dict()) continue;
      size_t at = PlaceOf(items_[i].dict.dict().get());
      while (table_[at] != 0) at = (at + 1) & (table_.size() - 1);
      table_[at] = static_cast<uint32_t>(i + 1);
    }
  }

  const std::vector<Tracked>& items_;
  mutable size_t last_ = static_cast<size_t>(-1);  // found
  mutable std::vector<uint32_t> table_;            // by address, open: 1 + the index; 0: free. At most half is taken
};

}  // namespace ingot::text::jinja
