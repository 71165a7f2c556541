#include "registry/lease_keeper.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace ingot::registry {
namespace {

constexpr std::chrono::nanoseconds kRevokeDeadline = std::chrono::seconds(1);

}  // namespace

class LeaseKeeper::Kept final : public Lease {
 public:
  Kept(LeaseKeeper& keeper, std::shared_ptr<State> state) : keeper_(keeper), state_(std::move(state)) {}
  ~Kept() override { keeper_.Drop(state_); }
  int64_t id() const override { return state_->id; }
  bool alive() const override { return keeper_.IsAlive(*state_); }

 private:
  LeaseKeeper& keeper_;
  const std::shared_ptr<State> state_;
};

LeaseKeeper::LeaseKeeper(const base::Clock& clock, Server server)
    : clock_(clock), server_(std::move(server)), thread_([this] { Run(); }) {}

LeaseKeeper::~LeaseKeeper() {
  {
    base::MutexLock lock(mu_);
    stopping_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

std::unique_ptr<Lease> LeaseKeeper::KeepAlive(int64_t id, std::chrono::nanoseconds ttl, std::chrono::nanoseconds sent,
                                              std::function<void()> on_lost) {
  auto state = std::make_shared<State>();
  state->id = id;
  state->ttl = ttl;
  state->due = sent + ttl / 3;
  state->expires = sent + ttl;
  state->on_lost = std::move(on_lost);
  base::MutexLock lock(mu_);
  leases_[id] = state;
  changed_.SignalAll();
  return std::make_unique<Kept>(*this, std::move(state));
}

bool LeaseKeeper::IsAlive(State& lease) {
  base::MutexLock lock(mu_);
  if (clock_.Now() >= lease.expires) lease.lost = true;
  return !lease.lost;
}

void LeaseKeeper::Drop(const std::shared_ptr<State>& lease) {
  {
    base::MutexLock lock(mu_);
    leases_.erase(lease->id);
    while (visited_ == lease->id) changed_.Wait(mu_);
  }
  server_.revoke(lease->id, kRevokeDeadline);
}

std::shared_ptr<LeaseKeeper::State> LeaseKeeper::Earliest() const {
  std::shared_ptr<State> earliest;
  for (const auto& [id, lease] : leases_) {
    if (!lease->reported && (earliest == nullptr || lease->due < earliest->due)) earliest = lease;
  }
  return earliest;
}

void LeaseKeeper::Run() {
  base::MutexLock lock(mu_);
  while (!stopping_) {
    const std::shared_ptr<State> lease = Earliest();
    if (lease == nullptr) {
      changed_.Wait(mu_);
    } else if (!lease->lost && clock_.Now() < lease->due) {
      clock_.WaitUntil(changed_, mu_, lease->due);
    } else {
      Visit(lease);
    }
  }
}

void LeaseKeeper::Visit(const std::shared_ptr<State>& lease) {
  const std::chrono::nanoseconds sent = clock_.Now();
  if (sent >= lease->expires) lease->lost = true;
  if (!lease->lost) {
    const std::chrono::nanoseconds deadline = std::min(lease->ttl / 3, lease->expires - sent);
    visited_ = lease->id;
    mu_.Unlock();
    const absl::Status renewed = server_.renew(lease->id, deadline);
    mu_.Lock();
    // Logs only the first failure in a row.
    if (!renewed.ok() && !lease->failing) {
      INGOT_LOG(warn, "cannot renew a lease; retrying: {}", std::string(renewed.message()));
    }
    lease->failing = !renewed.ok();
    visited_ = 0;
    changed_.SignalAll();
    const std::chrono::nanoseconds now = clock_.Now();
    if (absl::IsNotFound(renewed) || now >= lease->expires) lease->lost = true;
    if (renewed.ok() && !lease->lost) lease->expires = sent + lease->ttl;
    lease->due = renewed.ok() ? sent + lease->ttl / 3 : std::min(now + lease->ttl / 30, lease->expires);
  }
  if (lease->lost && leases_.contains(lease->id)) NotifyLost(lease);
}

void LeaseKeeper::NotifyLost(const std::shared_ptr<State>& lease) {
  lease->reported = true;
  visited_ = lease->id;
  mu_.Unlock();
  server_.revoke(lease->id, kRevokeDeadline);  // it may not have expired on the server yet
  if (lease->on_lost) lease->on_lost();
  mu_.Lock();
  visited_ = 0;
  changed_.SignalAll();
}

}  // namespace ingot::registry
