// Which of the tracked dicts a loop's item is.
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include "text/jinja/template.h"

namespace ingot::text::jinja {

// Loops go over them in order or backwards, so most are beside the one before, and no table is made until many are
// not. Not thread safe.
class TrackedIndex {
 public:
  explicit TrackedIndex(const std::vector<Tracked>& items) : items_(items) {}

  std::optional<size_t> Find(const Value& value) const {
    if (!value.is_dict() || items_.empty()) return std::nullopt;
    const Dict* const dict = value.dict().get();
    for (const size_t guess : {last_ + 1, last_ - 1, last_, items_.size() - 1}) {
      if (guess < items_.size() && Is(guess, dict)) return last_ = guess;
    }
    return table_.empty() && ++searched_ <= kSearches ? Search(dict) : LookUp(dict);
  }
  bool Is(size_t index, const Dict* dict) const {
    const Value& item = items_[index].dict;
    return item.is_dict() && item.dict().get() == dict;
  }

 private:
  static constexpr int kSearches = 32;  // which cost about what the table does

  std::optional<size_t> Search(const Dict* dict) const {
    for (size_t i = 0; i < items_.size(); ++i) {
      if (Is(i, dict)) return last_ = i;
    }
    return std::nullopt;
  }
  std::optional<size_t> LookUp(const Dict* dict) const {
    for (size_t i = 0; table_.empty() && i < items_.size(); ++i) {
      if (items_[i].dict.is_dict()) table_.emplace(items_[i].dict.dict().get(), i);
    }
    const auto found = table_.find(dict);
    if (found == table_.end()) return std::nullopt;
    return last_ = found->second;
  }

  const std::vector<Tracked>& items_;
  mutable size_t last_ = static_cast<size_t>(-1);  // found
  mutable int searched_ = 0;
  mutable std::unordered_map<const Dict*, size_t> table_;
};

}  // namespace ingot::text::jinja
