// Implements EngineCore's work after a forward pass: sampling, stopping, and sending chunks.
#include <algorithm>
#include <cmath>
#include <string>

#include "rollout/engine/engine_core.h"

namespace ingot::rollout {

namespace {

// One NaN or infinite logit makes every entry of a log-softmax row NaN.
absl::Status CheckRow(const WeightVersion& version, bool nan) {
  if (!nan) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the weights of version ", version.version,
                                          " give NaN log-probs: training has diverged, or the checkpoint is broken"));
}

std::string RouteBytes(std::span<const uint16_t> routes) {
  std::string bytes;
  bytes.reserve(2 * routes.size());
  for (const uint16_t expert : routes) {
    bytes += static_cast<char>(expert & 0xFF);
    bytes += static_cast<char>(expert >> 8);
  }
  return bytes;
}

// Adds the `count` most likely ids of a row to a chunk, for the record.
void AddAlternatives(std::span<const float> row, int32_t count, v1::GenerateChunk& chunk) {
  const v1::TopLogprobs top = TopOf(row, count);
  for (const v1::TopLogprob& entry : top.entries()) {
    chunk.add_alternative_ids(entry.token_id());
    chunk.add_alternative_logprobs(entry.logprob());
  }
}

}  // namespace

bool EngineCore::DrawRow::nan() const { return logprobs.empty() ? drawn.id < 0 : std::isnan(logprobs[0]); }

absl::StatusOr<DrawnId> EngineCore::NextId(Sequence& sequence, const WeightVersion& version, const DrawRow& drawn) {
  INGOT_RETURN_IF_ERROR(CheckRow(version, drawn.nan()));
  if (drawn.logprobs.empty()) return drawn.drawn;
  const std::span<const float> row = drawn.logprobs;
  if (!sequence.forced_ids.empty()) {
    const int32_t forced = sequence.forced_ids[sequence.sampled()];
    return DrawnId{forced, row[forced]};
  }
  ShapedRow drawn_from{row, {}};
  if (sequence.shaper.has_value()) {
    scratch_.row.assign(row.begin(), row.end());
    sequence.shaper->Shape(drawn.log_normalizer, scratch_.row);
    drawn_from.logprobs = scratch_.row;
  }
  if (sequence.constraint.has_value()) {
    INGOT_ASSIGN_OR_RETURN(drawn_from, sequence.constraint->Restrict(drawn_from.logprobs, scratch_));
  }
  INGOT_ASSIGN_OR_RETURN(const int32_t id, sampler_.Draw(drawn_from, sequence.draw, sequence.sampled()));
  if (sequence.constraint.has_value()) INGOT_RETURN_IF_ERROR(sequence.constraint->Accept(id));
  return DrawnId{id, row[id]};
}

bool EngineCore::Sample(Sequence& sequence, const WeightVersion& version, std::span<const DrawRow> rows,
                        std::vector<Emission>* out) {
  ++stats_.sampling_passes;
  const size_t before = sequence.tokens.size();
  sequence.drafted_tokens += static_cast<int32_t>(sequence.draft.ids.size());
  sequence.accepted = 0;
  bool ended = false;
  for (size_t j = 0; j < rows.size(); ++j) {
    sequence.drawn_row = static_cast<size_t>(&rows[j] - draw_rows_.data());
    ended = SampleOne(sequence, version, rows[j], out);
    if (ended || sequence.accepted == j) break;
    ++sequence.computed;  // draft j is a token now
  }
  speculator_.Sampled(sequence, sequence.tokens.size() - before);
  if (sequence.tokens.size() > before) draft_shadow_.Sampled(sequence, version, sequence.tokens.size() - before);
  Settle(sequence, version.salt);
  return ended;
}

// Names the blocks of accepted drafts, and frees those that only rejected ones needed.
void EngineCore::Settle(Sequence& sequence, uint64_t salt) {
  if (!speculator_.enabled()) return;
  Publish(sequence, salt);
  const size_t needed = (sequence.computed + blocks_.block_tokens() - 1) / blocks_.block_tokens();
  while (sequence.blocks.size() > needed) sequence.blocks.pop_back();
}

// Returns true if the request ended.
bool EngineCore::SampleOne(Sequence& sequence, const WeightVersion& version, const DrawRow& drawn,
                           std::vector<Emission>* out) {
  const std::span<const float> row = drawn.logprobs;
  const absl::StatusOr<DrawnId> next = NextId(sequence, version, drawn);
  if (!next.ok()) {
    out->push_back({std::move(sequence.gate), next.status(), true});
    return true;
  }
  const auto [id, logprob] = *next;
  Emission emission{sequence.gate, v1::GenerateChunk(), false};
  Count(sequence, version, id);
  v1::GenerateChunk& chunk = *emission.chunk;
  chunk.add_token_ids(id);
  chunk.add_logprobs(logprob);
  v1::VersionRun& run = *chunk.add_versions();
  run.set_version(version.version);
  run.set_count(1);
  run.set_kv_mixed(sequence.kv_mixed);
  if (sequence.record_routes) chunk.set_routes(RouteBytes(drawn.routes));
  if (sequence.top_logprobs > 0) *chunk.add_top_logprobs() = TopOf(row, sequence.top_logprobs);
  if (sequence.record_alternatives > 0) AddAlternatives(row, sequence.record_alternatives, chunk);
  const v1::FinishReason finish = FinishOf(sequence, id, logprob, &chunk);
  if (finish != v1::FINISH_UNSPECIFIED) {
    FillLast(sequence, finish, &chunk);
    stats_.paused_requests += finish == v1::FINISH_PAUSED ? 1 : 0;
    emission.last = true;
    sequence.gate = nullptr;
  }
  out->push_back(std::move(emission));
  return finish != v1::FINISH_UNSPECIFIED;
}

void EngineCore::Count(Sequence& sequence, const WeightVersion& version, int32_t id) {
  const int64_t index = sequence.sampled() - sequence.first_index;
  if (index < std::ssize(sequence.draft_ids) && sequence.draft_ids[static_cast<size_t>(index)] != id) {
    DropDraftIds(sequence, index);
  }
  if (sequence.accepted < sequence.draft.ids.size() && sequence.draft.ids[sequence.accepted] == id) {
    ++sequence.accepted;
    ++sequence.accepted_tokens;
  }
  if (sequence.shaper.has_value()) sequence.shaper->RecordSampled(id);
  sequence.tokens.push_back(id);
  ++stats_.sampled_tokens;
  if (&version == newest_.get()) stats_.newest_sampled_salt = version.salt;
  if (index == 0 && sequence.may_pause && options_.slice_seconds > 0) {
    sequence.pause_time = clock_.Now() + base::FromSeconds(options_.slice_seconds);
  }
  const int64_t now = sequence.times.arrival_unix_ns() + (clock_.Now() - sequence.arrived).count();
  if (sequence.times.first_token_unix_ns() == 0) sequence.times.set_first_token_unix_ns(now);
  sequence.times.set_end_unix_ns(now);
}

// Drops the request's draft_ids from `index` on. They can no longer be the ids that it samples.
void EngineCore::DropDraftIds(Sequence& sequence, int64_t index) {
  stats_.dropped_draft_ids += std::max<int64_t>(std::ssize(sequence.draft_ids) - index, 0);
  sequence.draft_ids.clear();
}

void EngineCore::Release(Sequence& sequence) {
  DropDraftIds(sequence, sequence.sampled() - sequence.first_index);
  sequence.ReleaseKv();
  speculator_.Ended(sequence);
  draft_shadow_.Ended(sequence);
}

v1::FinishReason EngineCore::FinishOf(Sequence& sequence, int32_t id, float logprob, v1::GenerateChunk* chunk) {
  // Stop strings come first: an answer whose last id both completes one and is a stop id ends before the string's text.
  if (sequence.stops.has_value() && sequence.sampled() <= sequence.min_new_tokens) {
    sequence.stops->Skip(id);
  } else if (sequence.stops.has_value()) {
    if (const int stop = sequence.stops->Push(id); stop >= 0) {
      chunk->set_stop_string(sequence.stops->stop(stop));
      return v1::FINISH_STOP;
    }
  }
  if (std::find(sequence.stop_ids.begin(), sequence.stop_ids.end(), id) != sequence.stop_ids.end()) {
    return v1::FINISH_STOP;
  }
  const auto forced = static_cast<int64_t>(sequence.forced_ids.size());
  if (forced > 0 && sequence.sampled() >= forced) return v1::FINISH_STOP;
  if (sequence.tokens.size() >= sequence.limit) return v1::FINISH_LENGTH;
  const bool halted = sequence.watch.has_value() &&
                      sequence.watch->Push(std::span(sequence.tokens).subspan(sequence.prompt_size), logprob);
  if (halted) return v1::FINISH_REPETITION;
  return Pauses(sequence) ? v1::FINISH_PAUSED : v1::FINISH_UNSPECIFIED;
}

bool EngineCore::Pauses(const Sequence& sequence) const {
  return sequence.tokens.size() >= sequence.pause_size || clock_.Now() >= sequence.pause_time;
}

absl::Status EngineCore::Score(Sequence& sequence, size_t token, const WeightVersion& version,
                               std::span<const float> row) {
  INGOT_RETURN_IF_ERROR(CheckRow(version, std::isnan(row[0])));
  sequence.scores[token - sequence.score_from] = row[sequence.tokens[token]];
  return absl::OkStatus();
}

void EngineCore::FinishScored(Sequence& sequence, const WeightVersion& version, std::vector<Emission>* out) {
  if (sequence.score_from == 0 || sequence.gate == nullptr || sequence.computed < sequence.computable()) return;
  Emission emission{std::move(sequence.gate), v1::GenerateChunk(), true};
  v1::GenerateChunk& chunk = *emission.chunk;
  const auto scored = std::span(sequence.tokens).subspan(sequence.score_from);
  chunk.mutable_token_ids()->Add(scored.begin(), scored.end());
  chunk.mutable_logprobs()->Add(sequence.scores.begin(), sequence.scores.end());
  v1::VersionRun& run = *chunk.add_versions();
  run.set_version(version.version);
  run.set_count(static_cast<int32_t>(scored.size()));
  FillLast(sequence, v1::FINISH_STOP, &chunk);
  Release(sequence);
  out->push_back(std::move(emission));
}

void EngineCore::FillLast(const Sequence& sequence, v1::FinishReason finish, v1::GenerateChunk* chunk) const {
  chunk->set_finish(finish);
  chunk->set_cached_tokens(std::max(sequence.cached_tokens, 0));
  chunk->set_drafted_tokens(sequence.drafted_tokens);
  chunk->set_accepted_tokens(sequence.accepted_tokens);
  *chunk->mutable_times() = sequence.times;
  chunk->set_grammar_acted(sequence.constraint.has_value() && sequence.constraint->acted());
  if (!sequence.shaper.has_value()) return;
  chunk->set_penalty_acted(sequence.shaper->penalty_acted());
  chunk->set_bias_acted(sequence.shaper->bias_acted());
}

}  // namespace ingot::rollout
