// Tracks the entries under a prefix and computes the changes that a watcher reports. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "registry/registry.h"

namespace ingot::registry {

class View {
 public:
  // Replaces everything with a full listing. Returns the changes between the two, sorted by revision. A deletion has
  // the listing's revision.
  std::vector<Event> Replace(const Listing& listing);
  // Applies one change. Returns false if it was already known.
  bool Apply(const Event& event);
  // Returns the latest revision for which all changes are known.
  int64_t revision() const { return revision_; }

 private:
  std::map<std::string, int64_t> revisions_;  // mod_revision by key
  int64_t revision_ = 0;
};

}  // namespace ingot::registry
