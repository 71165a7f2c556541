#include "rollout/sequence_maker.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/fault.h"

namespace ingot::rollout {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

}  // namespace

absl::StatusOr<std::unique_ptr<Sequence>> SequenceMaker::Make(const v1::GenerateRequest& request) {
  INGOT_RETURN_IF_ERROR(CheckRequest(request, Limits()));
  auto sequence = std::make_unique<Sequence>();
  sequence->request_id = request.request_id();
  sequence->contents = Contents(request.placeholders());
  sequence->draw = DrawOptions::From(request.sampling());
  sequence->forced_ids.assign(request.forced_ids().begin(), request.forced_ids().end());
  sequence->top_logprobs = request.top_logprobs();
  sequence->record_routes = request.record_routes() || options_.record_routes;
  sequence->record_alternatives = options_.record_alternatives;
  sequence->min_version = request.min_version();
  sequence->pinned_version = request.pinned_version();
  sequence->tokens.assign(request.prompt_ids().begin(), request.prompt_ids().end());
  sequence->first_index = request.first_index();
  sequence->prompt_size = sequence->tokens.size() - static_cast<size_t>(sequence->first_index);
  sequence->draft_ids.assign(request.draft_ids().begin(), request.draft_ids().end());
  sequence->limit = std::min<size_t>(sequence->prompt_size + request.sampling().max_new_tokens(),
                                     static_cast<size_t>(options_.context_length));
  sequence->tokens.reserve(std::min<size_t>(sequence->limit, sequence->prompt_size + 1024));
  if (request.score_ids() > 0) {
    sequence->score_from = sequence->prompt_size - static_cast<size_t>(request.score_ids());
    sequence->scores.resize(static_cast<size_t>(request.score_ids()));
  }
  sequence->stop_ids.assign(request.sampling().stop_token_ids().begin(), request.sampling().stop_token_ids().end());
  if (!request.sampling().ignore_eos()) {
    sequence->stop_ids.insert(sequence->stop_ids.end(), runner_.eos_ids().begin(), runner_.eos_ids().end());
  }
  sequence->min_new_tokens = request.sampling().min_new_tokens();
  if (request.sampling().stop_size() > 0) {
    sequence->stops.emplace(
        tokenizer_, std::vector<std::string>(request.sampling().stop().begin(), request.sampling().stop().end()),
        sequence->tokens[sequence->prompt_size - 1]);
  }
  INGOT_RETURN_IF_ERROR(AddGuards(request, sequence.get()));
  INGOT_RETURN_IF_ERROR(Replay(sequence.get()));
  sequence->deadline = options_.request_deadline_ms == 0
                           ? nanoseconds::max()
                           : clock_.Now() + nanoseconds(milliseconds(options_.request_deadline_ms));
  sequence->arrived = clock_.Now();
  sequence->times.set_arrival_unix_ns(clock_.UnixNanos());
  sequence->times.set_queued_unix_ns(sequence->times.arrival_unix_ns());
  return sequence;
}

RequestLimits SequenceMaker::Limits() const {
  return {.vocab_size = runner_.vocab_size(),
          .context_length = options_.context_length,
          .kv_tokens = options_.kv_cache_tokens / options_.kv_block_tokens * options_.kv_block_tokens,
          .has_tokenizer = tokenizer_ != nullptr};
}

absl::Status SequenceMaker::AddGuards(const v1::GenerateRequest& request, Sequence* sequence) {
  if (request.forced_ids_size() == 0 && LogitShaper::IsRequested(request.sampling())) {
    sequence->shaper.emplace(request.sampling(), std::span(sequence->tokens).first(sequence->prompt_size),
                             sequence->stop_ids);
  }
  if (request.forced_ids_size() == 0 && request.sampling().has_grammar()) {
    INGOT_RETURN_IF_ERROR(AddConstraint(request.sampling().grammar(), sequence));
  }
  // A client that ignores the end of the turn expects exactly this many tokens.
  if (request.forced_ids_size() == 0 && !request.sampling().ignore_eos() &&
      options_.halt.Watches(runner_.vocab_size())) {
    sequence->watch.emplace(options_.halt);
  }
  return absl::OkStatus();
}

// Brings the guards to the state after the ids that were sampled before.
absl::Status SequenceMaker::Replay(Sequence* sequence) {
  const auto sampled = std::span<const int32_t>(sequence->tokens).subspan(sequence->prompt_size);
  for (size_t i = 0; i < sampled.size(); ++i) {
    const int32_t id = sampled[i];
    if (sequence->shaper.has_value()) sequence->shaper->RecordSampled(id);
    if (sequence->watch.has_value()) sequence->watch->Push(sampled.first(i + 1), RepetitionWatch::kUnknownLogprob);
    if (sequence->stops.has_value() && static_cast<int64_t>(i) < sequence->min_new_tokens) sequence->stops->Skip(id);
    if (sequence->stops.has_value() && static_cast<int64_t>(i) >= sequence->min_new_tokens) sequence->stops->Push(id);
    if (!sequence->constraint.has_value()) continue;
    if (!sequence->constraint->Accept(id).ok()) {
      return absl::InvalidArgumentError(absl::StrCat("first_index is ", sampled.size(), ", but sampling.grammar does ",
                                                     "not allow id ", id, " as sampled id ", i));
    }
  }
  if (sequence->constraint.has_value() && !sampled.empty()) sequence->constraint->AssumeActed();
  return absl::OkStatus();
}

absl::Status SequenceMaker::AddConstraint(const v1::Grammar& grammar, Sequence* sequence) {
  if (tokenizer_ == nullptr) {
    return absl::InvalidArgumentError(
        "sampling.grammar needs a tokenizer, but this engine started without a tokenizer");
  }
  if (sequence->stop_ids.empty()) {
    return absl::InvalidArgumentError(
        "sampling.grammar needs an id that ends the turn: set stop_token_ids, or leave ignore_eos off");
  }
  for (const int32_t id : sequence->stop_ids) {
    if (id >= 0 && id < runner_.vocab_size()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("stop_token_ids has ", id, ", outside the vocabulary of ", runner_.vocab_size()));
  }
  grammar::Compiler* grammars = nullptr;
  {
    base::MutexLock lock(grammar_mu_);
    if (grammars_ == nullptr) {
      grammars_ = std::make_unique<grammar::Compiler>(VocabularyOf(*tokenizer_, runner_.vocab_size()));
    }
    grammars = grammars_.get();  // exists as long as the engine and has its own locks
  }
  INGOT_ASSIGN_OR_RETURN(const grammar::Spec spec, SpecOf(grammar));
  auto program = grammars->Compile(spec);
  if (absl::IsInvalidArgument(program.status()) && !base::FaultOf(program.status()).has_value()) {
    return base::FaultError({"sampling.grammar", std::string(program.status().message())});
  }
  INGOT_RETURN_IF_ERROR(program.status());
  sequence->constraint.emplace(*std::move(program), sequence->stop_ids);
  return absl::OkStatus();
}

absl::Status SequenceMaker::Check(const v1::GenerateRequest& request) const {
  if (request.prompt_ids_size() == 0)
    return absl::InvalidArgumentError("prompt_ids is empty; it needs at least one id");
  for (const int32_t id : request.prompt_ids()) {
    if (id >= 0 && id < runner_.vocab_size()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("prompt_ids has ", id, ", outside the vocabulary of ", runner_.vocab_size()));
  }
  for (const int32_t id : request.forced_ids()) {
    if (id >= 0 && id < runner_.vocab_size()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("forced_ids has ", id, ", outside the vocabulary of ", runner_.vocab_size()));
  }
  for (const int32_t id : request.draft_ids()) {
    if (id >= 0 && id < runner_.vocab_size()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("draft_ids has ", id, ", outside the vocabulary of ", runner_.vocab_size()));
  }
  if (const std::string fault = base::PlaceholdersFault(request.placeholders(), request.prompt_ids_size());
      !fault.empty()) {
    return absl::InvalidArgumentError(fault);
  }
  INGOT_RETURN_IF_ERROR(ValidateSampling(request.sampling()));
  INGOT_RETURN_IF_ERROR(ValidateShaping(request.sampling(), runner_.vocab_size()));
  INGOT_RETURN_IF_ERROR(CheckStops(request.sampling()));
  INGOT_RETURN_IF_ERROR(CheckContinued(request));
  INGOT_RETURN_IF_ERROR(CheckSize(request));
  if (request.top_logprobs() < 0 || request.top_logprobs() > kMaxTopLogprobs) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_logprobs is ", request.top_logprobs(), "; it must be 0 to ", kMaxTopLogprobs));
  }
  if (request.pinned_version() < -1) {
    return absl::InvalidArgumentError(
        absl::StrCat("pinned_version is ", request.pinned_version(), "; it must be -1 (follow) or a version"));
  }
  return CheckScored(request);
}

absl::Status SequenceMaker::CheckContinued(const v1::GenerateRequest& request) {
  const int64_t first = request.first_index();
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

absl::Status SequenceMaker::CheckStops(const v1::SamplingParams& sampling) const {
  if (sampling.stop_size() == 0) return absl::OkStatus();
  if (tokenizer_ == nullptr) {
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

absl::Status SequenceMaker::CheckSize(const v1::GenerateRequest& request) const {
  const int64_t prompt = request.prompt_ids_size();
  if (request.score_ids() > 0 ? prompt > options_.context_length : prompt >= options_.context_length) {
    return absl::InvalidArgumentError(absl::StrCat("the prompt has ", prompt,
                                                   " tokens; sampling does not fit into the context length of ",
                                                   options_.context_length));
  }
  // The last sampled token is never computed.
  const int64_t end = prompt - request.first_index() + request.sampling().max_new_tokens();
  const int64_t most = std::min<int64_t>(end, options_.context_length) - 1;
  const int64_t room = options_.kv_cache_tokens / options_.kv_block_tokens * options_.kv_block_tokens;
  if (most > room) {
    return absl::InvalidArgumentError(absl::StrCat("prompt_ids (", prompt, ") and max_new_tokens (",
                                                   request.sampling().max_new_tokens(), ") need ", most,
                                                   " tokens of KV cache, but the engine has only ", room,
                                                   ": lower max_new_tokens or raise rollout.kv_cache_tokens"));
  }
  return absl::OkStatus();
}

absl::Status SequenceMaker::CheckScored(const v1::GenerateRequest& request) {
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
      request.sampling().stop_size() == 0 && request.first_index() == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "score_ids excludes forced_ids, first_index, top_logprobs, a grammar and stop strings");
}

}  // namespace ingot::rollout
