#include "base/record_name.h"

#include "base/status.h"

namespace ingot::base {
namespace {

constexpr std::string_view kSignal = "signal/";

}  // namespace

RecordName ReadRecordName(std::string_view name) {
  RecordName read;
  for (const std::string_view label : {"domain", "scaffold", "set", "role"}) {
    // A signal name may contain anything.
    if (label == "set" && !name.starts_with("eval/")) continue;
    if (label == "role" && !name.starts_with("reward/")) continue;
    const std::string mark = absl::StrCat("@", View(label), ":");
    const size_t at = name.find(mark);
    if (at == std::string_view::npos) continue;
    read.labels[std::string(label)] = name.substr(at + mark.size());
    name = name.substr(0, at);
    break;
  }
  if (name.starts_with(kSignal)) {
    read.labels["name"] = name.substr(kSignal.size());
    name = "signal";
  }
  read.metric = name;
  return read;
}

std::string WriteRecordName(const RecordName& name) {
  std::string text = name.metric;
  if (const auto signal = name.labels.find("name"); signal != name.labels.end()) {
    absl::StrAppend(&text, "/", signal->second);
  }
  for (const auto& [label, value] : name.labels) {
    if (label != "name") absl::StrAppend(&text, "@", label, ":", value);
  }
  return text;
}

}  // namespace ingot::base
