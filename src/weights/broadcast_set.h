// Sends versions to several engines in one exchange. The trainer is rank 0 in a group, and the engines are the other
// ranks. BroadcastRoot (c10d: trainer/parallel/weight_group.h) performs the exchange, and BroadcastMember (gRPC) calls
// an engine.
//
//   engine got a version directly --> candidate --rebuild, in background--> member --loss, or another version--> none
//
//   Update(delta) of each member --> all arrived? --> one broadcast, each applies --> each answers
//                                    '- not within `gather`: the group ends, every engine gets this version directly
//
// A group ends when a member is lost, misses its deadline, or needs a full copy. The other members then get that
// version directly. A new group consists of the engines that applied that version or a later one. It is formed while no
// update is waiting for it. Full copies are always sent directly. Thread safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "proto/weight_group.pb.h"
#include "weights/sink.h"

namespace ingot::weights {

// The trainer's side of a group. Thread safe.
class BroadcastRoot {
 public:
  virtual ~BroadcastRoot() = default;
  // Returns where the engines meet: host, port, secret, timeout_ms, and on_devices.
  virtual v1::JoinWeightGroupRequest Place() const = 0;
  // Blocks until all members are connected, or until the group's timeout.
  virtual absl::Status Connect() = 0;
  // Blocks until the bytes have been sent, or until the group's timeout. An error ends the group.
  virtual absl::Status Broadcast(std::string_view bytes) = 0;
  // Ends the group. All waiting calls fail.
  virtual void Abort() = 0;
};

// Rank 0's interface to an engine in the group. Thread safe.
class BroadcastMember {
 public:
  virtual ~BroadcastMember() = default;
  virtual absl::Status Join(const v1::JoinWeightGroupRequest& request) = 0;
  // Same as Sink::Update. Returns ABORTED or UNAVAILABLE if the engine did not participate.
  virtual absl::StatusOr<v1::UpdateWeightsResponse> Receive(const v1::ReceiveWeightsRequest& request) = 0;
};

struct BroadcastOptions {
  std::chrono::milliseconds gather{500};   // time limit for all members' updates to arrive, > 0
  std::chrono::milliseconds rebuild{200};  // interval between checks for candidates, > 0
  std::chrono::milliseconds retry{5000};   // delay after failing to form a group, > 0
  size_t least = 2;                        // minimum number of engines in a group

  absl::Status Validate() const;
};

class BroadcastSet {
 public:
  using MakeRoot = std::function<absl::StatusOr<std::shared_ptr<BroadcastRoot>>(int size)>;

  // `clock` must outlive the set.
  static absl::StatusOr<std::shared_ptr<BroadcastSet>> Make(BroadcastOptions options, MakeRoot make_root,
                                                            const base::Clock& clock = base::Clock::Real());
  ~BroadcastSet();

  // Returns an engine's sink, which uses broadcast if possible and `direct` otherwise. The sink keeps the set alive.
  static std::unique_ptr<Sink> SinkTo(std::shared_ptr<BroadcastSet> set, std::string engine,
                                      std::shared_ptr<BroadcastMember> member, std::shared_ptr<Sink> direct);

  // Returns the members of the current group, by name. Empty = no group.
  std::vector<std::string> members() const;
  // Returns the number of versions sent by broadcast.
  int64_t broadcasts() const;

 private:
  class SetSink;
  struct Engine {
    std::string name;
    std::shared_ptr<BroadcastMember> member;
    bool operator<(const Engine& other) const { return name < other.name; }
  };
  struct Group {
    std::string name;
    std::shared_ptr<BroadcastRoot> root;
    std::set<Engine> members;
  };
  // One version that is being sent to a group.
  struct Round {
    enum class State { kGathers, kSends, kFailed };
    uint64_t delta = 0;  // DeltaHeader.checksum
    std::shared_ptr<Group> group;
    std::set<std::string> entered;
    std::set<Engine> took;  // engines that have answered
    State state = State::kGathers;
    v1::ReceiveWeightsRequest request;
    std::string bytes;
  };

  BroadcastSet(BroadcastOptions options, MakeRoot make_root, const base::Clock& clock);

  absl::StatusOr<v1::UpdateWeightsResponse> Update(const Engine& engine, Sink& direct, const EncodedDelta& delta);
  // Returns the delta's round after all members have entered it. Null = send the delta directly.
  std::shared_ptr<Round> Enter(const Engine& engine, const EncodedDelta& delta) ABSL_LOCKS_EXCLUDED(mu_);
  void Send(const std::shared_ptr<Round>& round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(const std::shared_ptr<Group>& group, const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddCandidate(const Engine& engine) ABSL_LOCKS_EXCLUDED(mu_);
  void RebuildIfDue() ABSL_LOCKS_EXCLUDED(mu_);
  // Connects the engines. Removes unreachable ones from `engines`.
  absl::StatusOr<std::shared_ptr<Group>> Connect(std::set<Engine>* engines) const;

  const BroadcastOptions options_;
  const MakeRoot make_root_;
  const base::Clock& clock_;
  mutable base::Mutex mu_;
  base::CondVar changed_;
  std::shared_ptr<Group> group_ ABSL_GUARDED_BY(mu_);  // null = none
  std::shared_ptr<Round> round_ ABSL_GUARDED_BY(mu_);  // the last round
  std::set<Engine> candidates_ ABSL_GUARDED_BY(mu_);   // engines that applied a version and are not in a group
  int receiving_ ABSL_GUARDED_BY(mu_) = 0;             // engines in a broadcast
  std::chrono::nanoseconds next_rebuild_ ABSL_GUARDED_BY(mu_){0};
  int64_t broadcasts_ ABSL_GUARDED_BY(mu_) = 0;
  base::Executor threads_;  // one rebuilds, one sends, and one may still wait in an ended group
  base::Timer rebuilding_;
};

}  // namespace ingot::weights
