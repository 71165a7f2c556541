#include "registry/view.h"

#include <algorithm>

namespace ingot::registry {

std::vector<Event> View::Replace(const Listing& listing) {
  std::vector<Event> events;
  std::map<std::string, int64_t> now;
  for (const Entry& entry : listing.entries) {
    now[entry.key] = entry.mod_revision;
    const auto known = revisions_.find(entry.key);
    if (known == revisions_.end() || known->second != entry.mod_revision) events.push_back({false, entry});
  }
  for (const auto& [key, revision] : revisions_) {
    if (now.contains(key)) continue;
    Event gone;
    gone.deleted = true;
    gone.entry.key = key;
    gone.entry.mod_revision = listing.revision;
    events.push_back(std::move(gone));
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.entry.mod_revision < b.entry.mod_revision; });
  revisions_ = std::move(now);
  revision_ = listing.revision;
  return events;
}

bool View::Apply(const Event& event) {
  // A transaction may change several keys at the same revision.
  if (event.entry.mod_revision < revision_) return false;
  revision_ = event.entry.mod_revision;
  if (event.deleted) return revisions_.erase(event.entry.key) > 0;
  int64_t& known = revisions_[event.entry.key];
  if (known >= event.entry.mod_revision) return false;
  known = event.entry.mod_revision;
  return true;
}

}  // namespace ingot::registry
