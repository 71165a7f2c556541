#include "engines/api/answer_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/printable.h"

namespace ingot::engines {
namespace {

// The server does not report whether a limit changed a draw, so each one that is set counts.
v1::SamplingParams FlagsOf(const v1::SamplingParams& sampling) {
  v1::SamplingParams flags;
  flags.set_penalty_acted(sampling.frequency_penalty() != 0 || sampling.presence_penalty() != 0 ||
                          (sampling.repetition_penalty() != 0 && sampling.repetition_penalty() != 1));
  flags.set_bias_acted(sampling.logit_bias_size() > 0 || sampling.min_new_tokens() > 0);
  flags.set_grammar_acted(sampling.has_grammar());
  return flags;
}

std::optional<rollout::StopMatcher> StopsOf(const v1::GenerateRequest& request,
                                            std::shared_ptr<const text::Tokenizer> tokenizer) {
  const auto& stops = request.sampling().stop();
  if (stops.empty()) return std::nullopt;
  return rollout::StopMatcher(std::move(tokenizer), std::vector<std::string>(stops.begin(), stops.end()),
                              *request.prompt_ids().rbegin());
}

std::optional<int64_t> VersionOfSpan(const LabelSpan& span, const AnswerReader::VersionRules& rules,
                                     const AnswerReader::VersionOf& version_of) {
  if (rules.adapter < 0) return version_of(span.label);
  return span.label == rules.sent_as ? std::optional(rules.adapter) : std::nullopt;
}

absl::Status BadLogprob(float logprob, int32_t id) {
  return absl::DataLossError(absl::StrCat("the server sent the log-prob ", logprob, " for id ", id,
                                          ": it must be a number of at most 0; the answer is not recorded"));
}

}  // namespace

AnswerReader::AnswerReader(const v1::GenerateRequest& request, const ServedModel& model,
                           std::shared_ptr<const text::Tokenizer> tokenizer, const rollout::HaltOptions& halt)
    : model_(model),
      top_logprobs_(request.top_logprobs()),
      most_ids_(std::max(request.sampling().max_new_tokens(), request.score_ids())),
      min_new_tokens_(request.sampling().min_new_tokens()),
      flags_(FlagsOf(request.sampling())),
      stops_(StopsOf(request, std::move(tokenizer))) {
  // A client that ignores the end of the turn expects exactly this many tokens.
  const bool watched = request.score_ids() == 0 && !request.sampling().ignore_eos() && halt.Watches(model.vocab_size);
  if (watched) watch_.emplace(halt);
}

absl::StatusOr<v1::GenerateChunk> AnswerReader::Take(const AnswerEvent& event, int64_t live_version,
                                                     const VersionRules& rules, const VersionOf& version_of) {
  v1::GenerateChunk chunk;
  if (event.logprobs.size() != event.ids.size()) {
    return absl::DataLossError(absl::StrCat("the server sent ", event.ids.size(), " ids with ", event.logprobs.size(),
                                            " log-probs, so the answer is not recorded"));
  }
  received_ += std::ssize(event.ids);
  if (event.total > 0 && event.total != received_) {
    return absl::DataLossError(absl::StrCat("the server counts ", event.total, " ids, but sent ", received_,
                                            ", so the answer is not recorded"));
  }
  for (size_t i = 0; i < event.ids.size(); ++i) {
    if (ended()) {
      ++dropped_;
    } else {
      INGOT_RETURN_IF_ERROR(TakeId(event, i, chunk));
    }
  }
  chunk.set_provisional(true);
  if (chunk.token_ids_size() > 0) {
    v1::VersionRun& run = *chunk.add_versions();
    run.set_version(live_version);
    run.set_count(chunk.token_ids_size());
    arrived_at_.resize(ids_.size(), live_version);
  }
  if (event.finish != ServerFinish::kNone) INGOT_RETURN_IF_ERROR(Finish(event, rules, version_of, chunk));
  return chunk;
}

absl::Status AnswerReader::TakeId(const AnswerEvent& event, size_t index, v1::GenerateChunk& chunk) {
  const int32_t id = event.ids[index];
  const float logprob = event.logprobs[index];
  if (id < 0 || id >= model_.vocab_size) {
    return absl::DataLossError(absl::StrCat("the server sent the id ", id, ", outside the vocabulary of ",
                                            model_.vocab_size, ": does it serve the run's model?"));
  }
  if (!std::isfinite(logprob) || logprob > 0) return BadLogprob(logprob, id);
  if (size() >= most_ids_) {
    return absl::DataLossError(absl::StrCat("the server sent more than the ", most_ids_, " requested ids"));
  }
  ids_.push_back(id);
  chunk.add_token_ids(id);
  chunk.add_logprobs(logprob);
  if (top_logprobs_ > 0) {
    v1::TopLogprobs& top = *chunk.add_top_logprobs();
    if (index < event.top_logprobs.size()) top = event.top_logprobs[index];
    const int extra = top.entries_size() - top_logprobs_;
    if (extra > 0) top.mutable_entries()->DeleteSubrange(top_logprobs_, extra);
  }
  ApplyRules(id, logprob);
  return absl::OkStatus();
}

void AnswerReader::ApplyRules(int32_t id, float logprob) {
  if (stops_.has_value() && size() <= min_new_tokens_) {
    stops_->Skip(id);
  } else if (stops_.has_value()) {
    if (const int stop = stops_->Push(id); stop >= 0) {
      stop_string_ = stops_->stop(stop);
      finish_ = v1::FINISH_STOP;
      return;
    }
  }
  if (watch_.has_value() && watch_->Push(ids_, logprob)) finish_ = v1::FINISH_REPETITION;
}

absl::Status AnswerReader::Finish(const AnswerEvent& event, const VersionRules& rules, const VersionOf& version_of,
                                  v1::GenerateChunk& chunk) {
  const bool natural = event.finish == ServerFinish::kStop || event.finish == ServerFinish::kLength;
  if (event.finish == ServerFinish::kFailed) return absl::UnavailableError("the server failed during the request");
  if (!natural && !ended()) return absl::UnavailableError("the server aborted the request: retry it");
  if (ids_.empty()) return absl::UnavailableError("the server ended the request without a token");
  // An answer whose last id both ends a turn and completes a repetition has ended by itself.
  const bool by_server = natural && dropped_ == 0 && finish_ != v1::FINISH_STOP;
  const v1::FinishReason said = event.finish == ServerFinish::kLength ? v1::FINISH_LENGTH : v1::FINISH_STOP;
  chunk.set_finish(by_server ? said : finish_);
  chunk.set_stop_string(stop_string_);
  chunk.set_penalty_acted(flags_.penalty_acted());
  chunk.set_bias_acted(flags_.bias_acted());
  chunk.set_grammar_acted(flags_.grammar_acted());
  return AddVersions(event, rules, version_of, chunk);
}

absl::Status AnswerReader::AddVersions(const AnswerEvent& event, const VersionRules& rules, const VersionOf& version_of,
                                       v1::GenerateChunk& chunk) {
  int64_t covered = 0;
  for (const LabelSpan& span : event.spans) {
    if (span.begin != covered || span.end < span.begin) {
      return absl::DataLossError("the server's weight versions do not cover the answer, so it is not recorded");
    }
    covered = span.end;
    const int64_t count = std::min(span.end, size()) - span.begin;
    if (count <= 0) continue;
    const std::optional<int64_t> version = VersionOfSpan(span, rules, version_of);
    foreign_label_ = !version.has_value();
    if (foreign_label_) {
      return absl::UnavailableError(
          absl::StrCat("the server's weights have the label '", base::Shown(span.label),
                       "', which Ingot did not set: someone else changed or restarted the server"));
    }
    const bool allowed = rules.pinned >= 0 ? *version == rules.pinned : *version >= rules.at_least;
    if (!allowed) {
      return absl::UnavailableError(absl::StrCat("version ", *version, " sampled a token, but the request needs ",
                                                 rules.pinned >= 0 ? "version " : "at least version ",
                                                 rules.pinned >= 0 ? rules.pinned : rules.at_least));
    }
    const auto begin = arrived_at_.begin() + span.begin;
    corrected_ = corrected_ || std::any_of(begin, begin + count, [&](int64_t at) { return at != *version; });
    v1::VersionRun& run = *chunk.add_answer_versions();
    run.set_version(*version);
    run.set_count(static_cast<int32_t>(count));
    run.set_kv_mixed(rules.keeps_cache && span.label != rules.sent_as);
  }
  if (covered >= size()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the server's weight versions cover ", covered, " of ", size(),
                                          " ids, so the answer is not recorded"));
}

}  // namespace ingot::engines
