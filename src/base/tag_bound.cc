#include "base/tag_bound.h"

#include "base/record_name.h"

namespace ingot::base {
namespace {

constexpr char kOther[] = "other";
constexpr size_t kNamesPerValue = 10;

}  // namespace

std::string TagBound::NameOf(const std::string& name) {
  RecordName bounded = ReadRecordName(name);
  if (bounded.labels.empty()) return name;
  KnownLabels& known = known_[bounded.metric];
  for (auto& [label, value] : bounded.labels) {
    std::set<std::string>& values = known.values[label];
    if (value == kOther || values.contains(value)) continue;
    if (values.size() < max_labels_) {
      values.insert(value);
    } else {
      value = kOther;
    }
  }
  std::string text = WriteRecordName(bounded);
  if (known.names.contains(text)) return text;
  if (known.names.size() >= kNamesPerValue * max_labels_) {
    for (auto& [label, value] : bounded.labels) value = kOther;
    return WriteRecordName(bounded);
  }
  known.names.insert(text);
  return text;
}

TagBound::BoundedScalars TagBound::Bound(const Scalars& line) {
  BoundedScalars bounded;
  std::map<std::string, std::pair<size_t, int>>
      merged;  // by changed name: its index, and the number of values it represents
  for (const auto& [name, value] : line) {
    std::string tag = NameOf(name);
    if (tag == name) {
      bounded.scalars.emplace_back(name, value);
      continue;
    }
    ++bounded.others;
    const auto [at, is_new] = merged.try_emplace(tag, bounded.scalars.size(), 0);
    if (is_new) bounded.scalars.emplace_back(std::move(tag), 0.0);
    double& mean = bounded.scalars[at->second.first].second;
    mean += (value - mean) / ++at->second.second;
  }
  return bounded;
}

}  // namespace ingot::base
