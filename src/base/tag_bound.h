// TagBound bounds the names of numbers in TensorBoard's files, as Metrics bounds labels: names from agents and tasks
// must not grow without limit. Not thread safe.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot::base {

using Scalars = std::vector<std::pair<std::string, double>>;  // names and values, in order

// A name of the record, split from the texts in it that come from outside:
//
//   signal/NAME        metric "signal", labels {name: NAME}
//   METRIC@domain:D    metric METRIC, labels {domain: D}; the same for scaffold, and for set below eval/
struct RecordName {
  std::string metric;
  std::map<std::string, std::string> labels;
};

RecordName ReadRecordName(std::string_view name);
// The inverse of ReadRecordName.
std::string WriteRecordName(const RecordName& name);

class TagBound {
 public:
  // A label has at most `max_labels` > 0 values in a metric. A metric has at most ten times as many names.
  explicit TagBound(size_t max_labels) : max_labels_(max_labels) {}

  struct BoundedScalars {
    Scalars scalars;
    size_t others = 0;  // scalars whose name changed
  };
  // `line` under bounded names. More values of a label are called "other"; numbers that get the same name become one
  // number, their mean.
  BoundedScalars Bound(const Scalars& line);

 private:
  struct KnownLabels {
    std::map<std::string, std::set<std::string>> values;  // by label
    std::set<std::string> names;
  };
  std::string NameOf(const std::string& name);

  const size_t max_labels_;
  std::map<std::string, KnownLabels> known_;  // by metric
};

}  // namespace ingot::base
