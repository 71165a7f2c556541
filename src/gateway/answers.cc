#include "gateway/answers.h"

#include <utility>

#include "base/log.h"
#include "gateway/api/api_error.h"
#include "gateway/episodes/episode_key.h"
#include "gateway/episodes/session_key.h"

namespace ingot::gateway {

std::shared_ptr<Answer> Answers::Start(const Caller& caller, const Dialect& dialect, RawRequest raw,
                                       std::function<void()> wake) {
  auto answer = std::make_shared<Answer>(core_, dialect, std::move(raw));
  answer->SetHooks(
      {.find = [this, caller] { return access_.FindForCall(caller); },
       .open =
           [this, key = caller.api_key](const GatewayRequest& request) {
             const bool by_conversation = core_.options.session_per_conversation;
             const std::string user = core_.parts.feedback == nullptr ? "" : core_.parts.feedback->UserOf(key);
             return openings_.OpenSession(by_conversation ? SessionKeyOf(key, request) : key, user);
           },
       .reserve =
           [this](int calls) {
             base::MutexLock lock(mu_);
             return Reserve(calls);
           },
       .confirm = [this](const std::shared_ptr<Episode>& episode,
                         absl::Status why) { return fencing_.Confirmed(episode, std::move(why)); },
       .on_done = [this, caller](const std::shared_ptr<Answer>& done, int extra) { OnDone(caller, done, extra); },
       .wake = std::move(wake)});
  absl::Status rejected;
  {
    base::MutexLock lock(mu_);
    rejected = Reserve(1);
    if (rejected.ok()) answers_.insert(answer);
  }
  if (rejected.ok() && !core_.workers.TryPost([this, caller, answer] { Prepare(caller, answer); }).ok()) {
    rejected = ApiError(503, "overloaded", "",
                        "too many requests are waiting for a worker (max_queued_work): try again later");
  }
  if (!rejected.ok()) answer->Reject(std::move(rejected));
  return answer;
}

absl::Status Answers::Reserve(int calls) {
  if (closed_) return ShuttingDown();
  if (active_calls_ + calls > core_.options.max_active_calls) {
    return absl::ResourceExhaustedError(
        absl::StrCat(active_calls_, " calls are in progress, which is the limit: ", core_.options.max_active_calls,
                     " (max_active_calls): try again later"));
  }
  active_calls_ += calls;
  core_.counters.active_calls = active_calls_;
  return absl::OkStatus();
}

void Answers::Prepare(const Caller& caller, const std::shared_ptr<Answer>& answer) {
  // Errors are ignored here because the answer looks up the episode again.
  const auto episode = access_.FindForCall(caller);
  if (episode.ok() && *episode != nullptr) {
    const auto resume = [this, caller, answer] {
      if (core_.workers.TryPost([this, caller, answer] { Prepare(caller, answer); }).ok()) return;
      answer->Reject(ApiError(503, "overloaded", "", "too many requests are waiting for a worker: try again later"));
    };
    if (!(*episode)->Pass(resume)) return snapshots_.RequestForkEnd(**episode);
    if (!answer->Enter(*episode)) Leave(**episode);  // the answer was aborted in the meantime
  }
  answer->Prepare();
}

void Answers::Leave(Episode& episode) {
  episode.Leave();
  snapshots_.RequestForkEnd(episode);
}

void Answers::NoteAnswer(const Caller& caller, const absl::Status& status) {
  const KeyHashes hashes(caller.api_key);
  std::shared_ptr<Episode> episode;
  if (!caller.episode.empty()) {
    episode = open_.Lookup(caller.episode).open;
    // Requests from other callers who know the id are unrelated to the episode's agent.
    const std::string own = episode != nullptr ? episode->record().key_hash() : "";
    const bool is_own = own == hashes.as_owner || own == hashes.as_caller;
    if (caller.api_key.empty() ? HttpStatusOf(status) == 401 : !is_own && !core_.admin_key.Is(caller.api_key)) return;
  } else if (!caller.api_key.empty()) {
    episode = open_.FindByKey(hashes);
  }
  if (episode == nullptr) return;
  episode->NoteAnswer(status);
  if (episode->taken()) (void)fencing_.GiveUp(episode);
}

void Answers::OnDone(const Caller& caller, const std::shared_ptr<Answer>& answer, int extra) {
  NoteAnswer(caller, answer->outcome());
  if (const auto entered = answer->entered()) Leave(*entered);
  base::MutexLock lock(mu_);
  if (answers_.erase(answer) == 0) return;  // the answer was rejected, so nothing is reserved for it
  active_calls_ -= 1 + extra;
  core_.counters.active_calls = active_calls_;
  changed_.SignalAll();
}

void Answers::AbortLate() {
  if (core_.options.call_deadline_s <= 0) return;
  const auto now = core_.parts.clock->Now();
  std::vector<std::shared_ptr<Answer>> late;
  {
    base::MutexLock lock(mu_);
    for (const auto& answer : answers_) {
      if (now - answer->arrival() > base::FromSeconds(core_.options.call_deadline_s)) late.push_back(answer);
    }
  }
  for (const auto& answer : late) {
    answer->Abort(ApiError(504, "deadline_exceeded", "",
                           absl::StrCat("the call took longer than ", core_.options.call_deadline_s,
                                        " s (call_deadline_s); its sampled tokens are recorded as aborted")));
  }
}

std::vector<std::shared_ptr<Answer>> Answers::Close() {
  base::MutexLock lock(mu_);
  closed_ = true;
  return {answers_.begin(), answers_.end()};
}

void Answers::AwaitAll() {
  const base::Clock& clock = *core_.parts.clock;
  const auto deadline = clock.Now() + base::FromSeconds(core_.options.end_wait_s);
  base::MutexLock lock(mu_);
  while (!answers_.empty()) {
    if (clock.Now() >= deadline) {
      INGOT_LOG(error, "{} requests were still being recorded after {} s", answers_.size(), core_.options.end_wait_s);
      return;
    }
    clock.WaitUntil(changed_, mu_, deadline);
  }
}

bool Answers::closed() const {
  base::MutexLock lock(mu_);
  return closed_;
}

int Answers::active_calls() const {
  base::MutexLock lock(mu_);
  return active_calls_;
}

}  // namespace ingot::gateway
