#include "weights/broadcast_set.h"

#include <map>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/random.h"

namespace ingot::weights {
namespace {

// Returns true for an answer from an engine that took part in the broadcast.
bool TookPart(const absl::Status& status) {
  return status.ok() || absl::IsFailedPrecondition(status) || absl::IsDataLoss(status) ||
         absl::IsInvalidArgument(status);
}

}  // namespace

class BroadcastSet::SetSink final : public Sink {
 public:
  SetSink(std::shared_ptr<BroadcastSet> set, Engine engine, std::shared_ptr<Sink> direct)
      : set_(std::move(set)), engine_(std::move(engine)), direct_(std::move(direct)) {}

  absl::StatusOr<v1::UpdateWeightsResponse> Update(const EncodedDelta& delta) override {
    return set_->Update(engine_, *direct_, delta);
  }
  absl::Status Release(int64_t version) override { return direct_->Release(version); }
  absl::StatusOr<int64_t> LiveVersion() override { return direct_->LiveVersion(); }
  absl::StatusOr<std::vector<HeldVersion>> HeldVersions() override { return direct_->HeldVersions(); }

 private:
  const std::shared_ptr<BroadcastSet> set_;
  const Engine engine_;
  const std::shared_ptr<Sink> direct_;
};

absl::Status BroadcastOptions::Validate() const {
  if (gather.count() > 0 && rebuild.count() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("a broadcast's timeouts must be above 0 ms");
}

absl::StatusOr<std::shared_ptr<BroadcastSet>> BroadcastSet::Make(BroadcastOptions options, MakeRoot make_root,
                                                                 const base::Clock& clock) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  std::shared_ptr<BroadcastSet> set(new BroadcastSet(options, std::move(make_root), clock));
  set->rebuilding_ = set->threads_.PostEvery(options.rebuild, [self = set.get()] { self->RebuildIfDue(); });
  return set;
}

BroadcastSet::BroadcastSet(BroadcastOptions options, MakeRoot make_root, const base::Clock& clock)
    : options_(options),
      make_root_(std::move(make_root)),
      clock_(clock),
      threads_({.name = "broadcast", .threads = 3}, clock) {}

BroadcastSet::~BroadcastSet() {
  rebuilding_.Cancel();
  base::MutexLock lock(mu_);
  if (group_ != nullptr) group_->root->Abort();
}

std::unique_ptr<Sink> BroadcastSet::SinkTo(std::shared_ptr<BroadcastSet> set, std::string engine,
                                           std::shared_ptr<BroadcastMember> member, std::shared_ptr<Sink> direct) {
  return std::make_unique<SetSink>(std::move(set), Engine{std::move(engine), std::move(member)}, std::move(direct));
}

std::vector<std::string> BroadcastSet::members() const {
  base::MutexLock lock(mu_);
  std::vector<std::string> names;
  if (group_ == nullptr) return names;
  for (const Engine& engine : group_->members) names.push_back(engine.name);
  return names;
}

int64_t BroadcastSet::broadcasts() const {
  base::MutexLock lock(mu_);
  return broadcasts_;
}

// --- One version ---

absl::StatusOr<v1::UpdateWeightsResponse> BroadcastSet::Update(const Engine& engine, Sink& direct,
                                                               const EncodedDelta& delta) {
  if (const std::shared_ptr<Round> round = Enter(engine, delta); round != nullptr) {
    absl::StatusOr<v1::UpdateWeightsResponse> response = engine.member->Receive(round->request);
    {
      base::MutexLock lock(mu_);
      --receiving_;
      if (TookPart(response.status())) {
        // The group may have ended in the meantime, or another member's answer to this version may end it.
        (group_ == round->group ? round->took : candidates_).insert(engine);
        return response;
      }
      End(round->group, absl::StrCat("engine ", engine.name, ": ", response.status().ToString()));
    }
    // It is too late for this version. Ending the group has released the other members.
    if (absl::IsDeadlineExceeded(response.status())) return response;
  }
  absl::StatusOr<v1::UpdateWeightsResponse> response = direct.Update(delta);
  if (response.ok() && !delta.header.beside()) AddCandidate(engine);
  return response;
}

std::shared_ptr<BroadcastSet::Round> BroadcastSet::Enter(const Engine& engine, const EncodedDelta& delta) {
  base::MutexLock lock(mu_);
  if (group_ == nullptr || delta.header.beside() || !group_->members.contains(engine)) return nullptr;
  if (IsFullCopy(delta.header)) {
    End(group_, absl::StrCat("engine ", engine.name, " needs a full copy"));
    return nullptr;
  }
  const uint64_t checksum = delta.header.checksum();
  if (round_ == nullptr || round_->group != group_ || round_->delta != checksum ||
      round_->state != Round::State::kGathers) {
    round_ = std::make_shared<Round>();
    round_->delta = checksum;
    round_->group = group_;
    round_->request.set_group(group_->name);
    *round_->request.mutable_header() = delta.header;
    for (const v1::TensorDelta& tensor : delta.tensors) {
      v1::TensorPart* const part = round_->request.add_tensors();
      part->set_coding(tensor.coding());
      part->set_payload_bytes(std::ssize(tensor.payload()));
      round_->bytes += tensor.payload();
    }
    round_->request.set_bytes(std::ssize(round_->bytes));
  }
  const std::shared_ptr<Round> round = round_;
  round->entered.insert(engine.name);
  if (round->entered.size() == round->group->members.size()) Send(round);
  const std::chrono::nanoseconds deadline = clock_.Now() + options_.gather;
  while (round->state == Round::State::kGathers) {
    if (clock_.WaitUntil(changed_, mu_, deadline) || round->state != Round::State::kGathers) continue;
    End(round->group, absl::StrCat("version ", delta.header.target().version(), " goes to ", round->entered.size(),
                                   " of ", round->group->members.size(), " engines"));
  }
  if (round->state != Round::State::kSends) return nullptr;
  ++receiving_;
  return round;
}

void BroadcastSet::Send(const std::shared_ptr<Round>& round) {
  round->state = Round::State::kSends;
  ++broadcasts_;
  changed_.SignalAll();
  threads_.Post([this, round] {
    const absl::Status sent = round->group->root->Broadcast(round->bytes);
    if (sent.ok()) return;
    base::MutexLock lock(mu_);
    End(round->group, sent.ToString());
  });
}

void BroadcastSet::End(const std::shared_ptr<Group>& group, const std::string& why) {
  if (round_ != nullptr && round_->group == group && round_->state == Round::State::kGathers) {
    round_->state = Round::State::kFailed;
    changed_.SignalAll();
  }
  if (group_ != group) return;  // it has already ended
  INGOT_LOG(warn, "weights are sent to each engine directly until a new broadcast group forms: {}", why);
  group_ = nullptr;
  group->root->Abort();
  if (round_ != nullptr && round_->group == group) candidates_.insert(round_->took.begin(), round_->took.end());
}

// --- Groups ---

void BroadcastSet::AddCandidate(const Engine& engine) {
  base::MutexLock lock(mu_);
  candidates_.insert(engine);
}

void BroadcastSet::RebuildIfDue() {
  std::set<Engine> engines;
  {
    base::MutexLock lock(mu_);
    engines = candidates_;
    if (group_ != nullptr) engines.insert(group_->members.begin(), group_->members.end());
    const bool in_use = receiving_ > 0 || (round_ != nullptr && round_->state == Round::State::kGathers);
    if (candidates_.empty() || engines.size() < options_.least || in_use || clock_.Now() < next_rebuild_) return;
    candidates_.clear();
    if (group_ != nullptr) group_->root->Abort();
    group_ = nullptr;
  }
  const absl::StatusOr<std::shared_ptr<Group>> made = Connect(&engines);
  base::MutexLock lock(mu_);
  if (made.ok()) {
    group_ = *made;
    INGOT_LOG(info, "weights are broadcast to {} engines", group_->members.size());
    return;
  }
  INGOT_LOG(warn, "cannot form a broadcast group, retrying: {}", made.status().ToString());
  candidates_.insert(engines.begin(), engines.end());
  next_rebuild_ = clock_.Now() + options_.retry;
}

absl::StatusOr<std::shared_ptr<BroadcastSet::Group>> BroadcastSet::Connect(std::set<Engine>* engines) const {
  auto group = std::make_shared<Group>();
  group->name = base::RandomHex(16);
  group->members = *engines;
  const int size = static_cast<int>(engines->size()) + 1;
  INGOT_ASSIGN_OR_RETURN(group->root, make_root_(size));
  v1::JoinWeightGroupRequest request = group->root->Place();
  request.set_group(group->name);
  request.set_size(size);
  std::map<std::string, absl::Status> joined;
  std::vector<std::thread> threads;
  for (const Engine& engine : *engines) {
    request.set_rank(request.rank() + 1);
    absl::Status& status = joined[engine.name];
    threads.emplace_back([&status, &engine, request] { status = engine.member->Join(request); });
  }
  absl::Status connected = group->root->Connect();
  for (std::thread& thread : threads) thread.join();
  for (const auto& [name, status] : joined) {
    if (status.ok()) continue;
    connected = base::Annotate(status, absl::StrCat("engine ", name));
    // An engine that does not answer is excluded until it has applied another version.
    if (!absl::IsDeadlineExceeded(status)) std::erase_if(*engines, [&](const Engine& one) { return one.name == name; });
  }
  if (connected.ok()) return group;
  group->root->Abort();
  return connected;
}

}  // namespace ingot::weights
