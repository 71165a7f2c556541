#include "rollout/routing/remote_prefill.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace ingot::rollout {
namespace {

// Runs the timers of all prefills. Never destroyed, because a request may outlive the clients of its engines.
base::Executor& Timers() {
  static base::Executor& timers = *new base::Executor({.name = "prefill timers"});
  return timers;
}

v1::GenerateRequest PrefillOf(const v1::GenerateRequest& request) {
  v1::GenerateRequest prefill;
  prefill.set_request_id(request.request_id());
  *prefill.mutable_prompt_ids() = request.prompt_ids();
  prefill.mutable_sampling()->set_temperature(1);
  prefill.mutable_sampling()->set_max_new_tokens(1);
  prefill.set_pinned_version(request.pinned_version());
  prefill.set_min_version(request.min_version());
  if (request.has_preferred_version()) prefill.set_preferred_version(request.preferred_version());
  prefill.set_prefill_only(true);
  return prefill;
}

}  // namespace

void RemotePrefill::Start(Client& engine, const v1::GenerateRequest& request, std::chrono::milliseconds wait) {
  std::unique_ptr<Client::Request> sent =
      engine.Generate(PrefillOf(request), [self = shared_from_this()](const absl::StatusOr<v1::GenerateChunk>& chunk) {
        if (!chunk.ok() || chunk->finish() != v1::FINISH_UNSPECIFIED) self->End(chunk.status());
      });
  base::Timer timer = Timers().PostAfter(wait, [self = shared_from_this(), wait] {
    self->End(absl::DeadlineExceededError(
        absl::StrCat("the prompt was not computed within rollout.router.prefill_wait_ms (", wait.count(), ")")));
  });
  base::MutexLock lock(mu_);
  if (done_ == nullptr) return;  // both are destroyed after the lock
  request_ = std::move(sent);
  timer_ = std::move(timer);
}

void RemotePrefill::End(const absl::Status& status) {
  const std::shared_ptr<RemotePrefill> self = shared_from_this();  // destroying the request may destroy its callback
  if (const Done done = Stop(); done != nullptr) done(status);
}

RemotePrefill::Done RemotePrefill::Stop() {
  std::unique_ptr<Client::Request> request;
  base::Timer timer;
  base::MutexLock lock(mu_);
  request = std::move(request_);
  timer = std::move(timer_);
  return std::exchange(done_, nullptr);
}

}  // namespace ingot::rollout
