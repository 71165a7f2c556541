#include "app/cluster/takeover.h"

#include <iterator>
#include <utility>

#include "base/log.h"

namespace ingot::app {

Seats Seats::Nodes(RunRegistry& registry) {
  return {
      [&registry]() -> absl::StatusOr<std::set<std::string>> {
        INGOT_ASSIGN_OR_RETURN(const std::vector<NodePlace> nodes, registry.Nodes());
        std::set<std::string> names;
        for (const NodePlace& node : nodes) names.insert(node.name);
        return names;
      },
      [&registry](const std::string& name) { return registry.RegisterNode(name, "", std::chrono::milliseconds(0)); }};
}

Seats Seats::Engines(RunRegistry& registry) {
  return {[&registry] { return registry.ClaimedEngines(); },
          [&registry](const std::string& name) { return registry.ClaimEngine(name, std::chrono::milliseconds(0)); }};
}

Takeover::Takeover(Seats kind, std::vector<Seat> seats, Options options) : kind_(std::move(kind)), options_(options) {
  for (Seat& seat : seats) watched_.push_back({std::move(seat), false, std::nullopt});
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
    Poll();
    base::MutexLock lock(mu_);
    const std::chrono::nanoseconds next = clock.Now() + options_.poll;
    while (!stopping_ && clock.WaitUntil(stopped_, mu_, next)) {
    }
    if (stopping_) return;
  }
}

void Takeover::Poll() {
  const absl::StatusOr<std::set<std::string>> held = kind_.held();
  if (!held.ok()) {
    // It is unknown which nodes are alive, so nothing moves and this time does not count.
    for (WatchedSeat& watched : watched_) watched.missing_since.reset();
    return;
  }
  const std::chrono::nanoseconds now = base::Clock::Real().Now();
  auto taken = watched_.end();
  for (auto watched = watched_.begin(); watched != watched_.end(); ++watched) {
    const bool there = held->contains(watched->seat.name);
    watched->seen = watched->seen || there;
    if (there) watched->missing_since.reset();
    if (there || !watched->seen) continue;
    if (!watched->missing_since.has_value()) watched->missing_since = now;
    if (now - *watched->missing_since < options_.grace || taken != watched_.end() || taken_ >= options_.most) continue;
    if (TakeSeat(watched->seat)) taken = watched;
  }
  if (taken == watched_.end()) return;
  ++taken_;
  base::MutexLock lock(mu_);
  std::move(taken->seat.roles.begin(), taken->seat.roles.end(), std::back_inserter(arrived_));
  watched_.erase(taken);
}

bool Takeover::TakeSeat(const Seat& seat) {
  const absl::Status took = kind_.take(seat.name);
  INGOT_LOG(warn, "{} lost its agent and {}", seat.name,
            took.ok() ? "moves here" : absl::StrCat("does not move here: ", took.message()));
  return took.ok();
}

}  // namespace ingot::app
