// The entries of a prefix as a watcher has reported them, and the changes that bring it up to date. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "registry/registry.h"

namespace ingot::registry {

class View {
 public:
  // Takes over a whole listing. Returns the changes that lead to it, by revision; a deletion has the listing's
  // revision.
  std::vector<Event> Replace(const Listing& listing);
  // Takes over one change. False: it was known already.
  bool Apply(const Event& event);
  // The revision up to which changes are known.
  int64_t revision() const { return revision_; }

 private:
  std::map<std::string, int64_t> revisions_;  // mod_revision by key
  int64_t revision_ = 0;
};

}  // namespace ingot::registry
