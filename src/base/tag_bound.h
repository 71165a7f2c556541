// Limits the number of names in TensorBoard files, as Metrics limits labels, because agents and tasks could create an
// unbounded number of them. Not thread safe.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ingot::base {

using Scalars = std::vector<std::pair<std::string, double>>;  // names and values, in order

class TagBound {
 public:
  // `max_labels` > 0 limits each label's values per metric. A metric has at most ten times as many names.
  explicit TagBound(size_t max_labels) : max_labels_(max_labels) {}

  struct BoundedScalars {
    Scalars scalars;
    size_t others = 0;  // scalars whose names changed
  };
  // Returns `line` with bounded names. Additional label values are replaced by "other". If several numbers end up with
  // the same name, they are replaced by their mean.
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
