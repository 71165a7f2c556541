#include "rollout/engine/engine_core.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/device_failure.h"
#include "base/log.h"

namespace ingot::rollout {

using std::chrono::nanoseconds;

namespace {

std::vector<std::unique_ptr<Drafter>> DraftersOf(const EngineOptions& options, ModelRunner& runner,
                                                 std::vector<std::unique_ptr<Drafter>> drafters) {
  if (!runner.can_take_back()) return {};
  return drafters.empty() ? MakeDrafters(options.speculation, runner) : std::move(drafters);
}

}  // namespace

absl::Status CheckMinVersion(const Sequence& sequence, const WeightVersion* newest) {
  const int64_t least = sequence.min_version;
  if (sequence.keeps_version && sequence.pinned != nullptr && newest != nullptr &&
      sequence.pinned->version > newest->version) {
    return absl::UnavailableError(absl::StrCat("this engine went back to version ", newest->version,
                                               ", but the request began with version ", sequence.pinned->version,
                                               ": retry it"));
  }
  if (sequence.pinned != nullptr || newest == nullptr || newest->version >= least) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("this engine is at version ", newest->version,
                                             ", but the request needs version ", least,
                                             " or later: retry later or on another engine"));
}

EngineCore::EngineCore(const EngineOptions& options, ModelRunner* runner, const base::Clock* clock,
                       std::vector<std::unique_ptr<Drafter>> drafters, std::optional<KvTransfer::Parts> store)
    : options_(options),
      runner_(*runner),
      clock_(*clock),
      speculator_(DraftersOf(options, *runner, std::move(drafters)), options.speculation.min_gain,
                  runner->vocab_size()),
      draft_shadow_(options.speculation, *runner),
      blocks_(static_cast<int32_t>(options.kv_cache_tokens / options.kv_block_tokens), options.kv_block_tokens) {
  if (store.has_value()) transfer_ = std::make_unique<KvTransfer>(*std::move(store), &blocks_, clock);
}

void EngineCore::Add(SequencePtr sequence) {
  next_deadline_ = std::min(next_deadline_, sequence->deadline);
  waiting_.push_back(std::move(sequence));
}

void EngineCore::SetNewest(std::shared_ptr<const WeightVersion> version) {
  newest_ = std::move(version);
  speculator_.UseNewest(newest_);
  DropUnusedSalts();
}

bool EngineCore::CanStep() const {
  if (parked()) return false;
  if (!running_.empty()) return true;
  return std::any_of(waiting_.begin(), waiting_.end(), [this](const SequencePtr& s) { return !IsHeld(*s); });
}

Prefill EngineCore::prefill() const {
  Prefill prefill;
  const auto add = [&](const Sequence& sequence) {
    if (sequence.computed + 1 >= sequence.computable()) return;  // only one row is left, as during sampling
    prefill.oldest = prefill.requests++ == 0 ? sequence.arrived : std::min(prefill.oldest, sequence.arrived);
    prefill.tokens += static_cast<int64_t>(sequence.computable());
    prefill.prefilled += static_cast<int64_t>(sequence.computed);
  };
  for (const SequencePtr& sequence : running_) add(*sequence);
  for (const SequencePtr& sequence : waiting_) add(*sequence);
  return prefill;
}

void EngineCore::Step(std::vector<Emission>* out) {
  Reap(out);
  if (parked()) return;
  DropUnusedSalts();
  FetchChunks();
  Admit();
  const nanoseconds start = clock_.Now();
  PlanDrafts(Plan());
  const int64_t rows = PlannedRows();
  // One pass per version present, in the order of each version's oldest request. There are few versions, so quadratic
  // time is fine.
  std::vector<const WeightVersion*> versions;
  for (const SequencePtr& sequence : running_) {
    const WeightVersion* version = VersionOf(*sequence);
    if (sequence->planned > 0 && std::find(versions.begin(), versions.end(), version) == versions.end()) {
      versions.push_back(version);
    }
  }
  const bool decodes_only = std::all_of(running_.begin(), running_.end(),
                                        [](const SequencePtr& s) { return s->planned <= 1 && s->score_from == 0; });
  for (const WeightVersion* version : versions) RunVersion(*version, out);
  if (decodes_only && versions.size() == 1) speculator_.Measured(rows, clock_.Now() - start);
  draft_shadow_.EndStep();
  FinishPrefills(out);
  std::erase_if(running_, [](const SequencePtr& sequence) { return sequence == nullptr || sequence->gate == nullptr; });
}

void EngineCore::FailAll(const absl::Status& status, std::vector<Emission>* out) {
  for (const SequencePtr& sequence : running_) out->push_back({std::move(sequence->gate), status, true});
  for (const SequencePtr& sequence : waiting_) out->push_back({std::move(sequence->gate), status, true});
  for (const SequencePtr& sequence : prefilled_) out->push_back({std::move(sequence->gate), status, true});
  for (const SequencePtr& sequence : running_) Release(*sequence);
  for (const SequencePtr& sequence : waiting_) Release(*sequence);
  running_.clear();
  waiting_.clear();
  prefilled_.clear();
}

const WeightVersion* EngineCore::VersionOf(const Sequence& sequence) const {
  return sequence.pinned != nullptr ? sequence.pinned.get() : newest_.get();
}

// --- cancelled and late requests ---

void EngineCore::StopPausing() {
  const auto stop = [](const SequencePtr& sequence) {
    sequence->may_pause = false;
    sequence->pause_size = std::numeric_limits<size_t>::max();
    sequence->pause_time = nanoseconds::max();
    sequence->hold_until = nanoseconds(0);
  };
  std::for_each(running_.begin(), running_.end(), stop);
  std::for_each(waiting_.begin(), waiting_.end(), stop);
}

void EngineCore::Reap(std::vector<Emission>* out) {
  const nanoseconds now = clock_.Now();
  next_deadline_ = nanoseconds::max();
  std::erase_if(running_, [&](const SequencePtr& s) { return ReapOne(*s, now, /*is_waiting=*/false, out); });
  std::erase_if(waiting_, [&](const SequencePtr& s) { return ReapOne(*s, now, /*is_waiting=*/true, out); });
}

bool EngineCore::ReapOne(Sequence& sequence, nanoseconds now, bool is_waiting, std::vector<Emission>* out) {
  const bool late = !parked() && now >= sequence.deadline;
  absl::Status current = CheckMinVersion(sequence, newest_.get());
  if (current.ok()) current = CheckParkedWait(sequence, now);
  if (!late && !sequence.gate->closed() && current.ok()) {
    next_deadline_ = std::min(next_deadline_, sequence.deadline);
    return false;
  }
  Release(sequence);
  Emission emission{std::move(sequence.gate), v1::GenerateChunk(), true};
  if (!late && !current.ok()) {
    emission.chunk = base::Annotate(current, absl::StrCat("request ", sequence.request_id));
  } else if (sequence.sampled() > sequence.first_index) {
    FillLast(sequence, v1::FINISH_ABORTED, &*emission.chunk);
  } else {
    const char* cause = !is_waiting                      ? "its prompt was being computed"
                        : VersionOf(sequence) == nullptr ? "it was waiting for this engine's first weights"
                        : AwaitsVersion(sequence) ? "it was waiting for a newer version (rollout.slice_wait_seconds)"
                                                  : "it was waiting for a place in the batch";
    emission.chunk = absl::DeadlineExceededError(
        absl::StrCat("request ", sequence.request_id, ": rollout.request_deadline_ms (", options_.request_deadline_ms,
                     ") passed while ", cause, "; lower the load, or raise the deadline or the engine's limits"));
  }
  out->push_back(std::move(emission));
  return true;
}

absl::Status EngineCore::CheckParkedWait(const Sequence& sequence, nanoseconds now) const {
  if (!parked() || now - std::max(sequence.arrived, *parked_at_) < base::FromSeconds(options_.parked_wait_s)) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("the engine has been parked for longer than rollout.parked_wait_s (", options_.parked_wait_s,
                   " s) while the trainer uses its device: retry later or on another engine"));
}

void EngineCore::Park() {
  if (parked()) return;
  while (!running_.empty()) Preempt(running_.size() - 1);
  for (const auto& [salt, version] : salts_) blocks_.Drop(salt);
  salts_.clear();
  parked_at_ = clock_.Now();
}

void EngineCore::Resume() {
  if (!parked()) return;
  const nanoseconds now = clock_.Now();
  for (const SequencePtr& sequence : waiting_) {
    const nanoseconds waited = now - std::max(sequence->arrived, *parked_at_);
    for (nanoseconds* time : {&sequence->deadline, &sequence->pause_time}) {
      if (*time != nanoseconds::max()) *time += waited;
    }
  }
  parked_at_.reset();
}

void EngineCore::DropUnusedSalts() {
  std::erase_if(salts_, [&](const auto& entry) {
    if (!entry.second.expired()) return false;
    blocks_.Drop(entry.first);
    return true;
  });
}

// --- admission ---

void EngineCore::Admit() {
  size_t passed_over = 0;
  for (auto it = waiting_.begin();
       it != waiting_.end() && running_.size() < static_cast<size_t>(options_.max_running);) {
    Sequence& sequence = **it;
    if (IsHeld(sequence)) {
      ++it;
      continue;
    }
    const WeightVersion* version = VersionOf(sequence);
    // Blocks that a sibling computes under an earlier version are useless, so only siblings with this version count.
    const size_t matchable = options_.prefix_cache ? sequence.reusable() : 0;
    const size_t matched = static_cast<size_t>(blocks_.CountMatch(
                               version->salt, std::span(sequence.tokens).first(matchable), sequence.contents)) *
                           blocks_.block_tokens();
    if (AwaitsSibling(sequence, version->salt, matched)) {
      if (++passed_over >= static_cast<size_t>(options_.max_running)) break;
      ++it;
      continue;
    }
    if (!TryAdmit(sequence)) break;
    // A preempted request is older than some running requests, so this keeps the order.
    const auto place = std::upper_bound(running_.begin(), running_.end(), sequence.order,
                                        [](int64_t order, const SequencePtr& s) { return order < s->order; });
    running_.insert(place, std::move(*it));
    it = waiting_.erase(it);
  }
}

// Returns true if the request follows the newest version, but none is loaded yet, or the rest of a paused request waits
// for a newer one.
bool EngineCore::AwaitsVersion(const Sequence& sequence) const {
  if (sequence.pinned != nullptr) return false;
  return newest_ == nullptr || (newest_->version <= sequence.newer_than && clock_.Now() < sequence.hold_until);
}

bool EngineCore::IsHeld(const Sequence& sequence) const {
  if (AwaitsVersion(sequence)) return true;
  return transfer_ != nullptr && transfer_->Awaits(sequence, VersionOf(sequence)->salt);
}

// Remembers that blocks are named under the version's salt.
void EngineCore::NoteSalt(const WeightVersion& version) {
  if (std::none_of(salts_.begin(), salts_.end(), [&](const auto& entry) { return entry.first == version.salt; })) {
    salts_.emplace_back(version.salt, version.weak_from_this());
  }
}

bool EngineCore::TryAdmit(Sequence& sequence) {
  const WeightVersion& version = *VersionOf(sequence);
  // The last token is always computed because its row gives the next token's distribution.
  if (options_.prefix_cache) {
    const auto reusable = std::span<const int32_t>(sequence.tokens).first(sequence.reusable());
    sequence.blocks = blocks_.Match(version.salt, reusable, sequence.contents);
  }
  sequence.published = sequence.blocks.size();
  sequence.computed = sequence.published * blocks_.block_tokens();
  sequence.kv_salt = sequence.computed > 0 ? version.salt : 0;
  const size_t cached = sequence.computed;
  // Leaves room for each running request to grow by one block. Otherwise, the new request would soon be preempted and
  // recomputed. Checks before allocating anything because allocation evicts cached blocks.
  const size_t needed = MissingBlocks(sequence, sequence.tokens.size()) + running_.size();
  if (transfer_ != nullptr && running_.empty() && static_cast<size_t>(blocks_.available()) < needed) {
    transfer_->AbandonAll();
  }
  if (static_cast<size_t>(blocks_.available()) < needed || !EnsureBlocks(sequence, sequence.tokens.size())) {
    sequence.ReleaseKv();
    return false;
  }
  if (sequence.keeps_version && sequence.pinned == nullptr) sequence.pinned = newest_;
  if (sequence.cached_tokens < 0) {
    const size_t of_prompt = std::min(cached, sequence.prompt_size);
    sequence.cached_tokens = static_cast<int32_t>(of_prompt);
    if (sequence.first_index == 0 && !sequence.prefill_only) {  // the rest of a call repeats its prompt
      stats_.prompt_tokens += static_cast<int64_t>(sequence.prompt_size);
      stats_.cached_prompt_tokens += static_cast<int64_t>(of_prompt);
    }
    if (sequence.score_from == 0 && !sequence.prefill_only) speculator_.Begun(sequence, cached);
  }
  return true;
}

bool EngineCore::AwaitsSibling(const Sequence& sequence, uint64_t salt, size_t matched_tokens) const {
  if (!options_.prefix_cache) return false;
  for (const SequencePtr& other : running_) {
    const size_t whole = other->prompt_size - other->prompt_size % blocks_.block_tokens();
    if (other->computed >= whole || other->kv_mixed || VersionOf(*other)->salt != salt) continue;
    if (other->kv_salt != 0 && other->kv_salt != salt) continue;
    const size_t most = std::min(sequence.reusable(), whole);
    const auto differ = std::mismatch(other->tokens.begin(), other->tokens.begin() + most, sequence.tokens.begin());
    size_t common =
        sequence.contents.FirstDifference(other->contents, static_cast<size_t>(differ.first - other->tokens.begin()));
    common -= common % blocks_.block_tokens();
    if (common > matched_tokens && common > other->computed) return true;
  }
  return false;
}

// --- planning and forward passes ---

// Returns the number of rows for the next step: all remaining ones, within `budget`. Scored rows also count against
// `scored_budget`.
size_t EngineCore::RowsOf(const Sequence& sequence, size_t budget, size_t& scored_budget) const {
  const size_t rows = std::min(sequence.computable() - sequence.computed, budget);
  if (sequence.score_from == 0) return rows;
  const size_t first = sequence.score_from - 1;  // the first scored row
  const size_t before = first > sequence.computed ? first - sequence.computed : 0;
  if (rows <= before) return rows;
  const size_t scored = std::min(rows - before, scored_budget);
  scored_budget -= scored;
  return before + scored;
}

size_t EngineCore::Plan() {
  for (const SequencePtr& sequence : running_) sequence->planned = 0;
  const auto most = static_cast<size_t>(options_.max_batch_tokens);
  size_t scored_budget = kScoredRows;
  const size_t left = PlanRows(/*decoding=*/true, most, scored_budget);
  const auto piece = static_cast<size_t>(options_.prefill_piece_tokens);
  const size_t for_prompts = left < most && piece > 0 ? std::min(left, piece) : left;
  return left - for_prompts + PlanRows(/*decoding=*/false, for_prompts, scored_budget);
}

// Plans rows for the requests that sample, or for prompts, within `budget`. Returns the rest of the budget.
size_t EngineCore::PlanRows(bool decoding, size_t budget, size_t& scored_budget) {
  for (size_t i = 0; i < running_.size() && budget > 0; ++i) {
    Sequence& sequence = *running_[i];
    const size_t left = sequence.computable() - sequence.computed;
    if ((left == 1) != decoding) continue;
    const size_t rows = RowsOf(sequence, budget, scored_budget);
    if (rows == 0) continue;  // other requests exhaust this step's scored rows
    bool fits = EnsureBlocks(sequence, sequence.computed + rows);
    if (!fits && transfer_ != nullptr) {  // waiting requests give way to running ones
      transfer_->AbandonAll();
      fits = EnsureBlocks(sequence, sequence.computed + rows);
    }
    while (!fits && i + 1 < running_.size()) {  // preempt the youngest request to make room
      budget += running_.back()->planned;
      Preempt(running_.size() - 1);
      fits = EnsureBlocks(sequence, sequence.computed + rows);
    }
    if (!fits) {  // this request is itself the youngest
      Preempt(i);
      break;
    }
    sequence.planned = rows;
    budget -= rows;
  }
  return budget;
}

int64_t EngineCore::PlannedRows() const {
  size_t rows = 0;
  for (const SequencePtr& sequence : running_) rows += sequence->planned + sequence->draft.ids.size();
  return static_cast<int64_t>(rows);
}

// Returns the number of drafts after which the request can still sample an id.
size_t EngineCore::RoomForDrafts(const Sequence& sequence) const {
  const size_t tokens = sequence.tokens.size();
  if (!sequence.takes_drafts || sequence.score_from > 0 || sequence.computed + sequence.planned != tokens) return 0;
  const size_t forced = sequence.forced_ids.size(), sampled = static_cast<size_t>(sequence.sampled());
  const size_t end = std::min(sequence.limit, sequence.pause_size);
  return std::min(end - tokens, forced > 0 ? forced - sampled : end) - 1;
}

// Drafts get no block that another request of this step needs, and preempt nobody.
void EngineCore::PlanDrafts(size_t free_rows) {
  if (!speculator_.enabled()) return;
  const int64_t rows = PlannedRows();
  sampling_.clear();
  for (const SequencePtr& sequence : running_) {
    if (sequence->planned > 0 && sequence->computed + sequence->planned == sequence->tokens.size()) {
      sampling_.push_back({sequence.get(), RoomForDrafts(*sequence)});
    }
  }
  speculator_.Plan(sampling_, rows, static_cast<int64_t>(std::min<size_t>(free_rows, kDraftRows)));
  for (const Speculator::Sampling& one : sampling_) {
    Sequence& sequence = *one.sequence;
    const size_t tokens = sequence.tokens.size();
    const size_t room = (sequence.blocks.size() + static_cast<size_t>(blocks_.available())) *
                        static_cast<size_t>(blocks_.block_tokens());
    sequence.draft.ids.resize(std::min(sequence.draft.ids.size(), room - tokens));
    if (!EnsureBlocks(sequence, tokens + sequence.draft.ids.size())) sequence.draft.ids.clear();
  }
  speculator_.Complete(sampling_);
}

size_t EngineCore::MissingBlocks(const Sequence& sequence, size_t tokens) const {
  const size_t needed = (tokens + blocks_.block_tokens() - 1) / blocks_.block_tokens();
  return needed - std::min(needed, sequence.blocks.size());
}

bool EngineCore::EnsureBlocks(Sequence& sequence, size_t tokens) {
  const size_t missing = MissingBlocks(sequence, tokens);
  if (static_cast<size_t>(blocks_.available()) < missing) return false;
  for (size_t i = 0; i < missing; ++i) {
    std::optional<KvBlocks::Ref> block = blocks_.Allocate();
    if (!block.has_value()) return false;
    sequence.blocks.push_back(*std::move(block));
  }
  return true;
}

void EngineCore::Preempt(size_t running_index) {
  SequencePtr victim = std::move(running_[running_index]);
  running_.erase(running_.begin() + static_cast<ptrdiff_t>(running_index));
  victim->ReleaseKv();
  victim->kv_looked_salt = 0;
  victim->kv_wait = nullptr;
  ++stats_.preemptions;
  const auto place = std::upper_bound(waiting_.begin(), waiting_.end(), victim->order,
                                      [](int64_t order, const SequencePtr& s) { return order < s->order; });
  waiting_.insert(place, std::move(victim));
}

void EngineCore::AppendRows(Sequence& sequence, const WeightVersion& version) {
  if (sequence.kv_salt != 0 && sequence.kv_salt != version.salt) sequence.kv_mixed = true;
  sequence.kv_salt = version.salt;
  const int64_t block_tokens = blocks_.block_tokens();
  kernels::AttentionSequence attention;
  attention.q_begin = static_cast<int64_t>(batch_.token_ids.size());
  attention.q_count = static_cast<int64_t>(sequence.planned + sequence.draft.ids.size());
  attention.q_offset = static_cast<int64_t>(sequence.computed);
  attention.key_count = attention.q_offset + attention.q_count;
  batch_.sequences.push_back(attention);
  for (int64_t at = attention.q_offset; at < attention.key_count; ++at) {
    const auto place = static_cast<size_t>(at), tokens = sequence.tokens.size();
    batch_.token_ids.push_back(place < tokens ? sequence.tokens[place] : sequence.draft.ids[place - tokens]);
    batch_.positions.push_back(at);
    batch_.slots.push_back(sequence.blocks[at / block_tokens].id() * block_tokens + at % block_tokens);
  }
  const int64_t used = (attention.key_count + block_tokens - 1) / block_tokens;
  for (int64_t i = 0; i < used; ++i) batch_.block_tables.push_back(sequence.blocks[i].id());
  batch_sequences_.push_back(&sequence);
  if (sequence.score_from > 0) {
    for (int64_t at = attention.q_offset; at < attention.key_count; ++at) {
      if (static_cast<size_t>(at) + 1 < sequence.score_from) continue;
      batch_.sampled_rows.push_back(attention.q_begin + at - attention.q_offset);
      batch_.temperatures.push_back(sequence.draw.temperature);
      batch_.races.emplace_back();
      batch_sampled_.push_back(&sequence);
      batch_targets_.push_back(static_cast<size_t>(at) + 1);
    }
    return;
  }
  if (static_cast<size_t>(attention.key_count) >= sequence.tokens.size()) {
    const auto draws = static_cast<int64_t>(sequence.draft.ids.size()) + 1;
    const float temperature = sequence.draw.temperature;
    const bool whole = sequence.needs_only_the_draw();
    for (int64_t back = draws; back > 0; --back) {
      batch_.races.push_back({whole, RaceSeed(sequence.draw, sequence.sampled() + draws - back)});
      batch_targets_.push_back(0);
      batch_.sampled_rows.push_back(static_cast<int64_t>(batch_.token_ids.size()) - back);
      batch_.temperatures.push_back(temperature == 0 ? 1.0f : temperature);
      batch_sampled_.push_back(&sequence);
    }
    batch_.want_normalizers |= sequence.shaper.has_value() && sequence.shaper->needs_normalizer();
    batch_.want_routes |= sequence.record_routes;
  }
}

void EngineCore::NoteFailedPass(const absl::Status& error, nanoseconds start) {
  const bool first = failed_passes_++ == 0;
  const nanoseconds before =
      first ? nanoseconds(0) : failing_time_ + std::min<nanoseconds>(start - last_failure_, kMaxPause);
  last_failure_ = clock_.Now();
  failing_time_ = before + last_failure_ - start;
  if (!fault_.ok()) return;
  if (base::IsDeviceFailure(error)) {
    fault_ = error;
  } else if (failed_passes_ >= kMinFailedPasses && failing_time_ >= kMinFailingTime) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(failing_time_).count();
    fault_ = absl::InternalError(
        absl::StrCat("for ", seconds, " s, all ", failed_passes_, " forward passes failed: ", error.message()));
  }
}

void EngineCore::FailPass(const absl::Status& error, nanoseconds start, std::vector<Emission>* out) {
  INGOT_LOG(error, "rollout: a forward pass of {} requests failed: {}", batch_sequences_.size(),
            std::string(error.message()));
  NoteFailedPass(error, start);
  // Other engines can continue the requests of an engine that is lost, or whose passes all fail.
  const absl::Status failed = fault_.ok() && failed_passes_ < kMinFailedPasses
                                  ? base::Annotate(error, "the engine's forward pass failed")
                                  : absl::UnavailableError(absl::StrCat("the engine failed: ", error.message()));
  for (Sequence* sequence : batch_sequences_) {
    Release(*sequence);
    out->push_back({std::move(sequence->gate), failed, true});
  }
}

void EngineCore::RunVersion(const WeightVersion& version, std::vector<Emission>* out) {
  batch_.Clear();
  batch_sequences_.clear();
  batch_sampled_.clear();
  batch_targets_.clear();
  for (const SequencePtr& sequence : running_) {
    if (sequence->planned > 0 && VersionOf(*sequence) == &version) AppendRows(*sequence, version);
  }
  const int32_t* table = batch_.block_tables.data();
  for (kernels::AttentionSequence& attention : batch_.sequences) {
    attention.block_table = table;
    table += (attention.key_count + blocks_.block_tokens() - 1) / blocks_.block_tokens();
  }
  ++stats_.forward_passes;
  stats_.forward_rows += static_cast<int64_t>(batch_.token_ids.size());
  const nanoseconds start = clock_.Now();
  const absl::StatusOr<std::span<const float>> rows = runner_.Forward(*version.model, batch_);
  if (!rows.ok()) {
    FailPass(rows.status(), start, out);
    return;
  }
  failed_passes_ = 0;
  NoteSalt(version);
  ListDrawRows(*rows);
  TakeBackNaN();
  for (Sequence* sequence : batch_sequences_) {
    sequence->computed += sequence->planned;
    Publish(*sequence, version.salt);
  }
  OfferChunks(version, clock_.Now() - start);
  for (size_t m = 0, count = 1; m < batch_sampled_.size(); m += count) {
    Sequence& sequence = *batch_sampled_[m];
    count = 1;
    while (batch_targets_[m] == 0 && m + count < batch_sampled_.size() && batch_sampled_[m + count] == &sequence)
      ++count;
    if (sequence.planned == 0) continue;  // it was undone or has failed
    if (batch_targets_[m] == 0) {
      if (Sample(sequence, version, std::span(draw_rows_).subspan(m, count), out)) Release(sequence);
    } else if (const absl::Status scored = Score(sequence, batch_targets_[m], version, draw_rows_[m].logprobs);
               !scored.ok() && sequence.gate != nullptr) {
      out->push_back({std::move(sequence.gate), scored, true});
      Release(sequence);
    }
  }
  for (Sequence* sequence : batch_sequences_) FinishScored(*sequence, version, out);
}

void EngineCore::ListDrawRows(std::span<const float> rows) {
  const auto width = static_cast<size_t>(runner_.vocab_size());
  const std::span<const float> normalizers =
      batch_.want_normalizers ? runner_.LogNormalizers() : std::span<const float>();
  const std::span<const uint16_t> routes = batch_.want_routes ? runner_.Routes() : std::span<const uint16_t>();
  const size_t taken = batch_sampled_.empty() ? 0 : routes.size() / batch_sampled_.size();  // per row
  std::span<const DrawnId> drawn = runner_.draws() ? runner_.Drawn() : std::span<const DrawnId>();
  draw_rows_.clear();
  for (size_t m = 0; m < batch_sampled_.size(); ++m) {
    DrawRow& row = draw_rows_.emplace_back();
    row.log_normalizer = normalizers.empty() ? 0 : normalizers[m];
    row.routes = routes.subspan(m * taken, taken);
    if (runner_.draws() && batch_.races[m].whole) {
      row.drawn = drawn[0];
      drawn = drawn.subspan(1);
    } else {
      row.logprobs = rows.first(width);
      rows = rows.subspan(width);
    }
  }
}

// A draft whose keys or values are not finite also spoils the rows before it, because attention multiplies them by a
// probability of 0. Such a request is computed again without drafts.
void EngineCore::TakeBackNaN() {
  for (size_t m = 0; m < batch_sampled_.size(); ++m) {
    Sequence& sequence = *batch_sampled_[m];
    if (sequence.draft.ids.empty() || !draw_rows_[m].nan()) continue;
    sequence.takes_drafts = false;
  }
  for (size_t i = running_.size(); i-- > 0;) {
    if (!running_[i]->takes_drafts && !running_[i]->draft.ids.empty()) Preempt(i);
  }
}

void EngineCore::Publish(Sequence& sequence, uint64_t salt) {
  if (!options_.prefix_cache || sequence.kv_mixed) return;
  const size_t block_tokens = static_cast<size_t>(blocks_.block_tokens());
  for (; (sequence.published + 1) * block_tokens <= sequence.computed; ++sequence.published) {
    const size_t i = sequence.published;
    const KvBlocks::Ref* parent = i == 0 ? nullptr : &sequence.blocks[i - 1];
    const auto tokens = std::span<const int32_t>(sequence.tokens).subspan(i * block_tokens, block_tokens);
    const std::string contents = sequence.contents.KeyOf(i * block_tokens, (i + 1) * block_tokens);
    if (!blocks_.Publish(salt, parent, tokens, &sequence.blocks[i], contents)) return;
  }
}

}  // namespace ingot::rollout
