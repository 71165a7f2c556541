#include "rollout/engine/request_check.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/placeholders.h"
#include "rollout/engine/engine_options.h"
#include "rollout/sampling/logit_shaping.h"
#include "rollout/sampling/sampling.h"

namespace ingot::rollout {
namespace {

constexpr int32_t kMaxTopLogprobs = 20;

absl::Status CheckStops(const v1::SamplingParams& sampling, bool has_tokenizer) {
  if (sampling.stop_size() == 0) return absl::OkStatus();
  if (!has_tokenizer) {
    return absl::InvalidArgumentError("sampling.stop needs a tokenizer, but this engine started without a tokenizer");
  }
  if (sampling.stop_size() > kMaxStopStrings) {
    return absl::InvalidArgumentError(absl::StrCat("sampling.stop has ", sampling.stop_size(), " strings; at most ",
                                                   kMaxStopStrings, " are allowed"));
  }
  for (const std::string& stop : sampling.stop()) {
    if (!stop.empty() && stop.size() <= static_cast<size_t>(kMaxStopBytes)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("sampling.stop has a string of ", stop.size(), " bytes; it must have 1 to ", kMaxStopBytes));
  }
  return absl::OkStatus();
}

absl::Status CheckIds(const char* field, const google::protobuf::RepeatedField<int32_t>& ids, int64_t vocab_size) {
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocab_size) continue;
    return absl::InvalidArgumentError(absl::StrCat(field, " has ", id, ", outside the vocabulary of ", vocab_size));
  }
  return absl::OkStatus();
}

// Log-probs may round to slightly above 0.
absl::Status CheckFirstLogprobs(const v1::GenerateRequest& request) {
  const auto& logprobs = request.first_logprobs();
  if (!logprobs.empty() && logprobs.size() != request.first_index()) {
    return absl::InvalidArgumentError(absl::StrCat("first_logprobs has ", logprobs.size(),
                                                   " entries; it must have one for each of the ", request.first_index(),
                                                   " ids of first_index, or none"));
  }
  for (const float logprob : logprobs) {
    if (std::isfinite(logprob) && logprob < 1e-3f) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("first_logprobs has ", logprob, "; a log-prob is finite and at most 0"));
  }
  return absl::OkStatus();
}

absl::Status CheckContinued(const v1::GenerateRequest& request) {
  const int64_t first = request.first_index();
  INGOT_RETURN_IF_ERROR(CheckFirstLogprobs(request));
  if (request.has_paused_version() && (request.paused_version() < 0 || first == 0)) {
    return absl::InvalidArgumentError(absl::StrCat("paused_version is ", request.paused_version(),
                                                   " and first_index is ", first,
                                                   "; it must be the version of the last sampled id"));
  }
  if (first == 0) return absl::OkStatus();
  const int64_t most = std::min<int64_t>(request.prompt_ids_size(), request.sampling().max_new_tokens());
  if (first < 0 || first >= most) {
    return absl::InvalidArgumentError(absl::StrCat("first_index is ", first, "; it must be 0 to ", most - 1,
                                                   ", fewer than prompt_ids and max_new_tokens"));
  }
  const int64_t forced = request.forced_ids_size();
  if (forced == 0 || first < forced) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("first_index is ", first, " of ", forced, " forced_ids"));
}

absl::Status CheckSize(const v1::GenerateRequest& request, const RequestLimits& limits) {
  const int64_t prompt = request.prompt_ids_size();
  if (request.score_ids() > 0 ? prompt > limits.context_length : prompt >= limits.context_length) {
    return absl::InvalidArgumentError(absl::StrCat("the prompt has ", prompt,
                                                   " tokens; there is no room to sample within the context length of ",
                                                   limits.context_length));
  }
  // The last sampled token is never computed.
  const int64_t end = prompt - request.first_index() + request.sampling().max_new_tokens();
  const int64_t most = std::min<int64_t>(end, limits.context_length) - 1;
  if (most > limits.kv_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("prompt_ids (", prompt, ") and max_new_tokens (",
                                                   request.sampling().max_new_tokens(), ") need ", most,
                                                   " tokens of KV cache, but the engine has only ", limits.kv_tokens,
                                                   ": lower max_new_tokens or raise rollout.kv_cache_tokens"));
  }
  return absl::OkStatus();
}

absl::Status CheckScored(const v1::GenerateRequest& request) {
  if (request.score_ids() == 0) return absl::OkStatus();
  if (request.score_ids() < 0 || request.score_ids() >= request.prompt_ids_size()) {
    return absl::InvalidArgumentError(absl::StrCat("score_ids is ", request.score_ids(), " of ",
                                                   request.prompt_ids_size(),
                                                   " prompt_ids; it must be less than the number of prompt_ids"));
  }
  if (request.pinned_version() < 0) return absl::InvalidArgumentError("score_ids needs a pinned version");
  if (!(request.sampling().temperature() > 0)) {
    return absl::InvalidArgumentError("score_ids needs a temperature above 0");
  }
  if (request.forced_ids_size() == 0 && request.top_logprobs() == 0 && !request.sampling().has_grammar() &&
      request.sampling().stop_size() == 0 && request.first_index() == 0 && !request.may_pause()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "score_ids excludes forced_ids, first_index, may_pause, top_logprobs, a grammar, and stop strings");
}

absl::Status CheckPrefill(const v1::GenerateRequest& request, bool has_store) {
  if (!request.prefill_only()) return absl::OkStatus();
  if (!has_store) {
    return absl::InvalidArgumentError("prefill_only needs an engine with a KV store: set rollout.kv_store.path");
  }
  if (request.score_ids() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError("prefill_only excludes score_ids");
}

}  // namespace

absl::Status CheckRequest(const v1::GenerateRequest& request, const RequestLimits& limits) {
  if (request.prompt_ids_size() == 0)
    return absl::InvalidArgumentError("prompt_ids is empty; it needs at least one id");
  INGOT_RETURN_IF_ERROR(CheckIds("prompt_ids", request.prompt_ids(), limits.vocab_size));
  INGOT_RETURN_IF_ERROR(CheckIds("forced_ids", request.forced_ids(), limits.vocab_size));
  INGOT_RETURN_IF_ERROR(CheckIds("draft_ids", request.draft_ids(), limits.vocab_size));
  if (const std::string fault = base::PlaceholdersFault(request.placeholders(), request.prompt_ids_size());
      !fault.empty()) {
    return absl::InvalidArgumentError(fault);
  }
  INGOT_RETURN_IF_ERROR(ValidateSampling(request.sampling()));
  INGOT_RETURN_IF_ERROR(ValidateShaping(request.sampling(), limits.vocab_size));
  INGOT_RETURN_IF_ERROR(CheckStops(request.sampling(), limits.has_tokenizer));
  INGOT_RETURN_IF_ERROR(CheckContinued(request));
  INGOT_RETURN_IF_ERROR(CheckSize(request, limits));
  if (request.top_logprobs() < 0 || request.top_logprobs() > kMaxTopLogprobs) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_logprobs is ", request.top_logprobs(), "; it must be 0 to ", kMaxTopLogprobs));
  }
  if (request.pinned_version() < -1) {
    return absl::InvalidArgumentError(
        absl::StrCat("pinned_version is ", request.pinned_version(), "; it must be -1 (follow) or a version"));
  }
  if (request.has_preferred_version() && request.preferred_version() < -1) {
    return absl::InvalidArgumentError(absl::StrCat("preferred_version is ", request.preferred_version(),
                                                   "; it must be -1 (the newest) or a version"));
  }
  INGOT_RETURN_IF_ERROR(CheckPrefill(request, limits.has_store));
  return CheckScored(request);
}

}  // namespace ingot::rollout
