#include "rollout/engine/contents.h"

#include <algorithm>

namespace ingot::rollout {
namespace {

void Put(uint32_t value, std::string& out) { out.append(reinterpret_cast<const char*>(&value), sizeof(value)); }

}  // namespace

Contents::Contents(const google::protobuf::RepeatedPtrField<v1::Placeholders>& runs) {
  for (const v1::Placeholders& run : runs) {
    const auto begin = static_cast<size_t>(run.first()), end = begin + static_cast<size_t>(run.count());
    if (!runs_.empty() && runs_.back().end == begin && runs_.back().content == run.content()) {
      runs_.back().end = end;
    } else {
      runs_.push_back({begin, end, run.content()});
    }
  }
}

std::string Contents::KeyOf(size_t begin, size_t end) const {
  std::string key;
  for (const Run& run : runs_) {
    const size_t first = std::max(begin, run.begin), last = std::min(end, run.end);
    if (first >= last) continue;
    Put(static_cast<uint32_t>(first - begin), key);
    Put(static_cast<uint32_t>(last - first), key);
    Put(static_cast<uint32_t>(run.content.size()), key);
    key += run.content;
  }
  return key;
}

size_t Contents::FirstDifference(const Contents& other, size_t most) const {
  size_t least = most;
  for (size_t i = 0; i < std::max(runs_.size(), other.runs_.size()); ++i) {
    const Run* own = i < runs_.size() ? &runs_[i] : nullptr;
    const Run* theirs = i < other.runs_.size() ? &other.runs_[i] : nullptr;
    if (own != nullptr && theirs != nullptr && *own == *theirs) continue;
    // The two are equal before the earlier begin or, for runs with the same begin and content, before the earlier end.
    if (own == nullptr || theirs == nullptr) {
      least = (own == nullptr ? theirs : own)->begin;
    } else if (own->begin == theirs->begin && own->content == theirs->content) {
      least = std::min(own->end, theirs->end);
    } else {
      least = std::min(own->begin, theirs->begin);
    }
    break;
  }
  return std::min(least, most);
}

}  // namespace ingot::rollout
