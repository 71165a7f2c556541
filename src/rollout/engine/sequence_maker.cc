#include "rollout/engine/sequence_maker.h"

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
  sequence->keeps_version = request.has_preferred_version() && request.pinned_version() < 0;
  if (sequence->keeps_version) sequence->preferred_version = request.preferred_version();
  sequence->tokens.assign(request.prompt_ids().begin(), request.prompt_ids().end());
  sequence->first_index = request.first_index();
  sequence->prompt_size = sequence->tokens.size() - static_cast<size_t>(sequence->first_index);
  sequence->draft_ids.assign(request.draft_ids().begin(), request.draft_ids().end());
  sequence->limit = std::min<size_t>(sequence->prompt_size + request.sampling().max_new_tokens(),
                                     static_cast<size_t>(options_.context_length));
  sequence->tokens.reserve(std::min<size_t>(sequence->limit, sequence->prompt_size + 1024));
  if (request.prefill_only()) {
    const auto chunk = static_cast<size_t>(options_.kv_store.chunk_tokens);
    sequence->prefill_only = true;
    sequence->prefill_end = (sequence->tokens.size() - 1) / chunk * chunk;
  }
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
  INGOT_RETURN_IF_ERROR(Replay(request.first_logprobs(), sequence.get()));
  AddSlice(request, sequence.get());
  sequence->deadline = options_.request_deadline_ms == 0 ? nanoseconds::max()
                                                         : std::max(clock_.Now(), sequence->hold_until) +
                                                               nanoseconds(milliseconds(options_.request_deadline_ms));
  sequence->arrived = clock_.Now();
  sequence->times.set_arrival_unix_ns(clock_.UnixNanos());
  sequence->times.set_queued_unix_ns(sequence->times.arrival_unix_ns());
  return sequence;
}

RequestLimits SequenceMaker::Limits() const {
  return {.vocab_size = runner_.vocab_size(),
          .context_length = options_.context_length,
          .kv_tokens = options_.kv_cache_tokens / options_.kv_block_tokens * options_.kv_block_tokens,
          .has_tokenizer = tokenizer_ != nullptr,
          .has_store = options_.kv_store.on()};
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
absl::Status SequenceMaker::Replay(const google::protobuf::RepeatedField<float>& logprobs, Sequence* sequence) {
  const auto sampled = std::span<const int32_t>(sequence->tokens).subspan(sequence->prompt_size);
  for (size_t i = 0; i < sampled.size(); ++i) {
    const int32_t id = sampled[i];
    if (sequence->shaper.has_value()) sequence->shaper->RecordSampled(id);
    const float logprob = logprobs.empty() ? RepetitionWatch::kUnknownLogprob : logprobs[static_cast<int>(i)];
    if (sequence->watch.has_value()) sequence->watch->Push(sampled.first(i + 1), logprob);
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

void SequenceMaker::AddSlice(const v1::GenerateRequest& request, Sequence* sequence) {
  sequence->may_pause = request.may_pause();
  if (request.may_pause() && options_.max_tokens_per_turn_slice > 0) {
    sequence->pause_size = sequence->tokens.size() + static_cast<size_t>(options_.max_tokens_per_turn_slice);
  }
  if (!request.has_paused_version() || sequence->pinned_version >= 0 || sequence->keeps_version) return;
  sequence->newer_than = request.paused_version();
  sequence->hold_until = clock_.Now() + base::FromSeconds(options_.slice_wait_seconds);
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

}  // namespace ingot::rollout
