// Names of numbers in the record of a run, with their labels.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace ingot::base {

// A name in a log line, split into the metric and the untrusted parts:
//
//   signal/NAME        metric "signal", labels {name: NAME}
//   METRIC@domain:D    metric METRIC, labels {domain: D}; likewise for scaffold, and for set under eval/
struct RecordName {
  std::string metric;
  std::map<std::string, std::string> labels;
};

RecordName ReadRecordName(std::string_view name);
// The inverse of ReadRecordName.
std::string WriteRecordName(const RecordName& name);

}  // namespace ingot::base
