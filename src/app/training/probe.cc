#include "app/training/probe.h"

#include <algorithm>
#include <memory>

#include "base/mutex.h"
#include "base/rng.h"

namespace ingot::app {
namespace {

using std::chrono::nanoseconds;

// A call is retried if its engine has stopped or has not loaded the version.
constexpr int kTries = 6;
constexpr nanoseconds kPause = std::chrono::milliseconds(500);  // before each attempt except the first

// Collects the responses to several requests from the engine's threads.
struct Gather {
  struct Answer {
    std::vector<v1::GenerateChunk> chunks;
    absl::Status ended;
  };
  base::Mutex mu;
  base::CondVar changed;
  std::vector<Answer> answers ABSL_GUARDED_BY(mu);
  size_t open ABSL_GUARDED_BY(mu) = 0;
};

// Returns the responses in request order.
absl::StatusOr<std::vector<Gather::Answer>> Ask(rollout::Client& engine, std::vector<v1::GenerateRequest> asked,
                                                nanoseconds deadline, const base::Clock& clock) {
  auto gather = std::make_shared<Gather>();
  {
    base::MutexLock lock(gather->mu);
    gather->answers.resize(asked.size());
    gather->open = asked.size();
  }
  std::vector<std::unique_ptr<rollout::Client::Request>> requests;
  for (size_t i = 0; i < asked.size(); ++i) {
    requests.push_back(engine.Generate(std::move(asked[i]), [gather, i](absl::StatusOr<v1::GenerateChunk> chunk) {
      base::MutexLock lock(gather->mu);
      Gather::Answer& answer = gather->answers[i];
      const bool done = !chunk.ok() || chunk->finish() != v1::FINISH_UNSPECIFIED;
      answer.ended = chunk.status();
      if (chunk.ok()) answer.chunks.push_back(*std::move(chunk));
      if (done && --gather->open == 0) gather->changed.SignalAll();
    }));
  }
  base::MutexLock lock(gather->mu);
  while (gather->open > 0) {
    if (clock.WaitUntil(gather->changed, gather->mu, deadline) || gather->open == 0) continue;
    return absl::DeadlineExceededError("the engine did not sample the probe in time");
  }
  return std::move(gather->answers);
}

tree::CallPath ToCall(const std::vector<int32_t>& context, float temperature,
                      const std::vector<v1::GenerateChunk>& chunks) {
  tree::CallPath call;
  call.temperature = temperature;
  call.context = tree::TokenPath(context);
  const auto add_versions = [&call](const auto& runs) {
    for (const v1::VersionRun& run : runs) {
      call.versions.insert(call.versions.end(), run.count(), run.version());
      call.kv_mixed.insert(call.kv_mixed.end(), run.count(), run.kv_mixed());
    }
  };
  for (const v1::GenerateChunk& chunk : chunks) {
    call.sampled.insert(call.sampled.end(), chunk.token_ids().begin(), chunk.token_ids().end());
    call.logprobs.insert(call.logprobs.end(), chunk.logprobs().begin(), chunk.logprobs().end());
    tree::AppendRoutes(chunk.routes(), call.routes);
    if (!chunk.answer_versions().empty()) {  // they replace those of the chunks
      call.versions.clear();
      call.kv_mixed.clear();
      add_versions(chunk.answer_versions());
    } else {
      add_versions(chunk.versions());
    }
  }
  return call;
}

bool RanAt(int64_t version, const tree::CallPath& call) {
  return !call.logprobs.empty() &&
         std::all_of(call.versions.begin(), call.versions.end(), [&](int64_t v) { return v == version; }) &&
         std::none_of(call.kv_mixed.begin(), call.kv_mixed.end(), [](uint8_t mixed) { return mixed != 0; });
}

void Pause(nanoseconds until, const base::Clock& clock) {
  base::Mutex mu;
  base::CondVar never;
  base::MutexLock lock(mu);
  while (clock.WaitUntil(never, mu, until)) {
  }
}

}  // namespace

absl::StatusOr<std::vector<tree::CallPath>> SampleProbe(rollout::Client& engine, int64_t version, int64_t tokens,
                                                        const std::vector<std::vector<int32_t>>& contexts,
                                                        float temperature, uint64_t seed,
                                                        std::chrono::milliseconds timeout, const base::Clock& clock) {
  if (contexts.empty()) return absl::InvalidArgumentError("the probe needs at least one context");
  const auto per_context = static_cast<int32_t>((tokens + static_cast<int64_t>(contexts.size()) - 1) /
                                                static_cast<int64_t>(contexts.size()));
  const nanoseconds deadline = clock.Now() + timeout;
  std::vector<size_t> open(contexts.size());  // contexts without a call
  for (size_t i = 0; i < open.size(); ++i) open[i] = i;
  std::vector<tree::CallPath> calls;
  absl::Status last;
  for (int tries = 0; tries < kTries && !open.empty(); ++tries) {
    if (tries > 0) Pause(std::min(clock.Now() + kPause, deadline), clock);
    std::vector<v1::GenerateRequest> asked;
    for (const size_t i : open) {
      v1::GenerateRequest& request = asked.emplace_back();
      request.set_request_id(absl::StrCat("probe-", version, "-", i, tries > 0 ? absl::StrCat("-", tries) : ""));
      request.mutable_prompt_ids()->Add(contexts[i].begin(), contexts[i].end());
      request.set_pinned_version(-1);
      request.mutable_sampling()->set_temperature(temperature);
      request.mutable_sampling()->set_seed(base::DeriveSeed(seed, i));
      request.mutable_sampling()->set_max_new_tokens(per_context);
      request.mutable_sampling()->set_ignore_eos(true);
    }
    const absl::StatusOr<std::vector<Gather::Answer>> answers = Ask(engine, std::move(asked), deadline, clock);
    last = answers.status();
    std::vector<size_t> again;
    for (size_t k = 0; answers.ok() && k < open.size(); ++k) {
      const Gather::Answer& answer = (*answers)[k];
      tree::CallPath call = ToCall(contexts[open[k]], temperature, answer.chunks);
      if (answer.ended.ok() && RanAt(version, call)) {
        calls.push_back(std::move(call));
      } else {
        again.push_back(open[k]);
        if (last.ok() || absl::IsUnavailable(last)) last = answer.ended;
      }
    }
    if (!last.ok() && !absl::IsUnavailable(last)) break;  // a retry would fail the same way
    open = std::move(again);
  }
  if (calls.empty() && !last.ok()) return last;
  return calls;
}

}  // namespace ingot::app
