#include "app/probe.h"

#include <algorithm>
#include <memory>

#include "base/mutex.h"
#include "base/rng.h"

namespace ingot::app {
namespace {

// Chunks of all probe requests, filled by the engine's threads.
struct Gather {
  base::Mutex mu;
  base::CondVar changed;
  std::vector<std::vector<v1::GenerateChunk>> chunks ABSL_GUARDED_BY(mu);
  int open ABSL_GUARDED_BY(mu) = 0;
  absl::Status first_error ABSL_GUARDED_BY(mu);
};

tree::CallPath ToCall(const std::vector<int32_t>& context, float temperature,
                      const std::vector<v1::GenerateChunk>& chunks) {
  tree::CallPath call;
  call.temperature = temperature;
  call.context = tree::TokenPath(context);
  for (const v1::GenerateChunk& chunk : chunks) {
    call.sampled.insert(call.sampled.end(), chunk.token_ids().begin(), chunk.token_ids().end());
    call.logprobs.insert(call.logprobs.end(), chunk.logprobs().begin(), chunk.logprobs().end());
    tree::AppendRoutes(chunk.routes(), call.routes);
    for (const v1::VersionRun& run : chunk.versions()) {
      call.versions.insert(call.versions.end(), run.count(), run.version());
      call.kv_mixed.insert(call.kv_mixed.end(), run.count(), run.kv_mixed());
    }
  }
  return call;
}

}  // namespace

absl::StatusOr<std::vector<tree::CallPath>> SampleProbe(rollout::Client& engine, int64_t version, int64_t tokens,
                                                        const std::vector<std::vector<int32_t>>& contexts,
                                                        float temperature, uint64_t seed,
                                                        std::chrono::milliseconds timeout, const base::Clock& clock) {
  if (contexts.empty()) return absl::InvalidArgumentError("the probe needs at least one context");
  const auto per_context = static_cast<int32_t>((tokens + static_cast<int64_t>(contexts.size()) - 1) /
                                                static_cast<int64_t>(contexts.size()));
  auto gather = std::make_shared<Gather>();
  {
    base::MutexLock lock(gather->mu);
    gather->chunks.resize(contexts.size());
    gather->open = static_cast<int>(contexts.size());
  }
  std::vector<std::unique_ptr<rollout::Client::Request>> requests;
  for (size_t i = 0; i < contexts.size(); ++i) {
    v1::GenerateRequest request;
    request.set_request_id(absl::StrCat("probe-", version, "-", i));
    request.mutable_prompt_ids()->Add(contexts[i].begin(), contexts[i].end());
    request.set_pinned_version(-1);
    request.mutable_sampling()->set_temperature(temperature);
    request.mutable_sampling()->set_seed(base::DeriveSeed(seed, i));
    request.mutable_sampling()->set_max_new_tokens(per_context);
    request.mutable_sampling()->set_ignore_eos(true);
    requests.push_back(engine.Generate(std::move(request), [gather, i](absl::StatusOr<v1::GenerateChunk> chunk) {
      base::MutexLock lock(gather->mu);
      bool done = !chunk.ok();
      if (chunk.ok()) {
        done = chunk->finish() != v1::FINISH_UNSPECIFIED;
        gather->chunks[i].push_back(*std::move(chunk));
      } else {
        gather->first_error.Update(chunk.status());
      }
      if (done && --gather->open == 0) gather->changed.SignalAll();
    }));
  }
  const std::chrono::nanoseconds deadline = clock.Now() + timeout;
  std::vector<tree::CallPath> calls;
  {
    base::MutexLock lock(gather->mu);
    while (gather->open > 0) {
      if (clock.WaitUntil(gather->changed, gather->mu, deadline) || gather->open == 0) continue;
      return absl::DeadlineExceededError("the engine did not sample the probe in time");
    }
    INGOT_RETURN_IF_ERROR(gather->first_error);
    for (size_t i = 0; i < contexts.size(); ++i) calls.push_back(ToCall(contexts[i], temperature, gather->chunks[i]));
  }
  std::erase_if(calls, [version](const tree::CallPath& call) {
    return call.logprobs.empty() ||
           !std::all_of(call.versions.begin(), call.versions.end(), [&](int64_t v) { return v == version; }) ||
           std::any_of(call.kv_mixed.begin(), call.kv_mixed.end(), [](uint8_t mixed) { return mixed != 0; });
  });
  return calls;
}

}  // namespace ingot::app
