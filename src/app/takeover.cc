#include "app/takeover.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.h"

namespace ingot::app {

Takeover::Takeover(RunRegistry& registry, std::vector<Node> nodes, std::chrono::milliseconds grace,
                   std::chrono::milliseconds poll)
    : registry_(registry), grace_(grace), poll_(poll) {
  for (Node& node : nodes) nodes_.push_back({std::move(node), false, false, std::nullopt});
  thread_ = std::thread([this] { Run(); });
}

Takeover::~Takeover() {
  {
    base::MutexLock lock(mu_);
    stopping_ = true;
    stopped_.SignalAll();
  }
  thread_.join();
}

std::vector<RoleSpec> Takeover::Arrived() {
  base::MutexLock lock(mu_);
  return std::exchange(arrived_, {});
}

void Takeover::Run() {
  const base::Clock& clock = base::Clock::Real();
  while (true) {
    Look();
    base::MutexLock lock(mu_);
    const std::chrono::nanoseconds next = clock.Now() + poll_;
    while (!stopping_ && clock.WaitUntil(stopped_, mu_, next)) {
    }
    if (stopping_) return;
  }
}

void Takeover::Look() {
  const absl::StatusOr<std::vector<NodePlace>> present = registry_.Nodes();
  if (!present.ok()) {
    // Nobody knows who lives: nothing is moved, and no time counts.
    for (Watched& watched : nodes_) watched.missing_since.reset();
    return;
  }
  const std::chrono::nanoseconds now = base::Clock::Real().Now();
  for (Watched& watched : nodes_) {
    if (watched.taken) continue;
    const bool there = std::any_of(present->begin(), present->end(),
                                   [&](const NodePlace& place) { return place.name == watched.node.name; });
    watched.seen = watched.seen || there;
    if (there) watched.missing_since.reset();
    if (there || !watched.seen) continue;
    if (!watched.missing_since.has_value()) watched.missing_since = now;
    if (now - *watched.missing_since >= grace_) Take(watched);
  }
}

void Takeover::Take(Watched& watched) {
  const absl::Status registered = registry_.RegisterNode(watched.node.name, "", std::chrono::milliseconds(0));
  if (!registered.ok()) {
    INGOT_LOG(warn, "node {} is gone, and its roles do not move yet: {}", watched.node.name,
              std::string(registered.message()));
    return;
  }
  watched.taken = true;
  INGOT_LOG(warn, "node {} is gone; its roles move here", watched.node.name);
  base::MutexLock lock(mu_);
  std::move(watched.node.roles.begin(), watched.node.roles.end(), std::back_inserter(arrived_));
}

}  // namespace ingot::app
