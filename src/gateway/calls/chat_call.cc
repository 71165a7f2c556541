#include "gateway/calls/chat_call.h"

#include <algorithm>
#include <utility>

#include "base/fault.h"
#include "base/json.h"
#include "base/log.h"
#include "gateway/api/api_error.h"
#include "gateway/api/client_tools.h"
#include "gateway/calls/sampling.h"
#include "gateway/prompt/recorded_message.h"
#include "gateway/user_feedback.h"

namespace ingot::gateway {
namespace {

constexpr std::chrono::milliseconds kAskAgain(500);

}  // namespace

// ---- Starting -----------------------------------------------------------------------------------------------------

absl::Status ChatCall::Enter() {
  INGOT_ASSIGN_OR_RETURN(sequence_, setup_.episode->BeginCall(shared_from_this(), setup_.arrival));
  return absl::OkStatus();
}

void ChatCall::Fail(absl::Status why) { Done(std::move(why)); }

void ChatCall::Start(std::shared_ptr<const PromptPlan> plan) {
  plan_ = std::move(plan);
  const auto left = setup_.episode->tokens().Take(static_cast<int64_t>(plan_->ids.size()), setup_.episode->id());
  if (!left.ok()) return Done(left.status());
  took_tokens_ = true;
  sampling_ = PlanSampling(core_, *setup_.episode, *setup_.request, sequence_, setup_.choice, *plan_);
  sampling_.set_max_new_tokens(static_cast<int32_t>(std::min<int64_t>(sampling_.max_new_tokens(), *left)));
  if (core_.parts.script != nullptr) {
    const auto forced = core_.parts.script->NextAnswer(*setup_.request);
    if (!forced.ok()) return Done(forced.status());
    forced_.assign(forced->begin(), forced->end());
  }
  absl::Status aborted;
  {
    base::MutexLock lock(mu_);
    aborted = abort_;
    if (aborted.ok()) {
      queued_ = true;
      generation_.times.set_queued_unix_ns(UnixNow());
      delivery_ = std::make_unique<Delivery>(core_.parts, setup_.request, plan_, setup_.call_id);
      phase_ = Phase::kGenerating;
    }
  }
  if (!aborted.ok()) return Done(std::move(aborted));
  ++core_.counters.handed_over;
  if (KeepsVersion()) preferred_ = setup_.episode->version();
  Ask(EngineRequest());
}

void ChatCall::Ask(v1::GenerateRequest request) {
  int ask = 0;
  {
    base::MutexLock lock(mu_);
    ask = asks_;
  }
  // The callback must not own the call because the call owns the handle, which owns the callback.
  const auto on_chunk = [weak = weak_from_this(), ask](absl::StatusOr<v1::GenerateChunk> chunk) {
    if (auto self = weak.lock()) self->OnChunk(ask, std::move(chunk));
  };
  const Backend& to = backend();
  auto handle = to.text == nullptr ? to.engine->Generate(std::move(request), on_chunk)
                                   : to.text->Generate(setup_.request, std::move(request), on_chunk);
  base::MutexLock lock(mu_);
  if (phase_ == Phase::kGenerating && ask == asks_) handle_ = std::move(handle);
  // Otherwise, the call ended or went to another engine in the meantime, and the handle is destroyed here.
}

v1::GenerateRequest ChatCall::EngineRequest() const {
  v1::GenerateRequest request;
  request.set_request_id(setup_.call_id);
  request.set_lineage(setup_.episode->id());
  request.mutable_prompt_ids()->Add(plan_->ids.begin(), plan_->ids.end());
  request.mutable_placeholders()->Add(plan_->placeholders.begin(), plan_->placeholders.end());
  *request.mutable_sampling() = sampling_;
  request.set_pinned_version(PinnedVersion());
  // Law 4 measures an episode's age from the version that was live when it was admitted.
  if (request.pinned_version() < 0 && backend().weights == v1::WEIGHTS_FOLLOW) {
    request.set_min_version(setup_.episode->record().admitted_version());
  }
  if (KeepsVersion()) request.set_preferred_version(preferred_);
  request.set_top_logprobs(setup_.request->top_logprobs);
  request.set_may_pause(backend().text == nullptr);
  request.mutable_forced_ids()->Add(forced_.begin(), forced_.end());
  return request;
}

// Returns the call's pinned version: the evaluation's version if the model follows training, or else the model's
// version. -1 = the newest version, or an external server's only version.
int64_t ChatCall::PinnedVersion() const {
  return backend().weights == v1::WEIGHTS_FOLLOW ? setup_.episode->record().pinned_version() : backend().version;
}

bool ChatCall::KeepsVersion() const {
  return core_.parts.pins_episodes && PinnedVersion() < 0 && backend().weights == v1::WEIGHTS_FOLLOW &&
         backend().text == nullptr;
}

void ChatCall::Take(const absl::StatusOr<v1::GenerateChunk>& chunk) {
  if (!chunk.ok()) {
    engine_error_ = chunk.status();
    return;
  }
  away_since_.reset();
  engine_error_ = generation_.Append(*chunk, UnixNow());
  if (engine_error_.ok() && generation_.size() > 0 && KeepsVersion()) {
    setup_.episode->NoteVersion(preferred_, generation_.segment.versions(0).version());
  }
  if (engine_error_.ok() && generation_.finish == v1::FINISH_PAUSED && generation_.size() == generation_.sliced()) {
    engine_error_ = absl::InternalError("the engine paused the call before it sampled an id");
  }
  const auto ends = delivery_->EndsAfter(generation_);
  // The one id after the tool call is the end of the turn. (Complete drops the handle, which stops the engine.)
  const bool whole = generation_.finish == v1::FINISH_STOP && generation_.size() <= ends.value_or(0) + 1;
  // An answer with provisional versions ends early only after the engine has confirmed them.
  const bool early = ends.has_value() && !whole && !generation_.provisional;
  if (engine_error_.ok() && early) generation_.StopAfter(*ends);
}

std::optional<v1::GenerateRequest> ChatCall::Resume(const absl::Status& error) {
  // Before the first id, a set of engines has tried all of them. Without a new id since, none can accept the call.
  if (!absl::IsUnavailable(error) || backend().text != nullptr || !generation_.grew_since_ask()) return std::nullopt;
  // Other projects' engines cannot continue a call.
  if (generation_.provisional) return std::nullopt;
  v1::GenerateRequest request = RestAfter(Kept());
  if (handle_ != nullptr) lost_handles_.push_back(std::move(handle_));
  ++core_.counters.resumed;
  INGOT_LOG(warn, "call {} of episode {} lost its engine after {} token ids and continues on another engine: {}",
            setup_.call_id, setup_.episode->id(), generation_.size(), std::string(error.message()));
  return request;
}

int ChatCall::Kept() const {
  return std::max(setup_.request->stream ? generation_.size() : delivery_->read_tokens(), generation_.sliced());
}

bool ChatCall::AwaitEngine(const absl::Status& error) {
  const auto limit = base::FromSeconds(core_.options.engine_wait_s);
  // Text servers have their own retry policy. Other projects' engines cannot continue a call, only restart it.
  if (!absl::IsUnavailable(error) || backend().text != nullptr) return false;
  if (generation_.provisional && Kept() > 0) return false;
  const auto now = core_.parts.clock->Now();
  const bool first = !away_since_.has_value();
  if (first) away_since_ = now;
  if (now - *away_since_ >= limit) return false;
  if (handle_ != nullptr) lost_handles_.push_back(std::move(handle_));
  if (first) {
    ++core_.counters.waited;
    INGOT_LOG(info, "call {} of episode {} waits up to {} s (gateway.engine_wait_s) for an engine: {}", setup_.call_id,
              setup_.episode->id(), core_.options.engine_wait_s, std::string(error.message()));
  }
  ask_again_ = core_.workers.PostAfter(kAskAgain, [weak = weak_from_this(), &workers = core_.workers] {
    workers.Post([weak] {
      if (auto self = weak.lock()) self->AskAfterWait();
    });
  });
  return true;
}

void ChatCall::AskAfterWait() {
  std::vector<std::unique_ptr<rollout::Client::Request>> lost;
  std::optional<v1::GenerateRequest> rest;
  {
    base::MutexLock lock(mu_);
    lost.swap(lost_handles_);
    if (phase_ != Phase::kGenerating) return;
    // If the engine rejected the call immediately, Ask stored the handle only afterward. It is destroyed without mu_.
    if (handle_ != nullptr) lost.push_back(std::move(handle_));
    rest = RestAfter(Kept());
    if (generation_.sliced() > 0 && generation_.size() == generation_.sliced()) {
      rest->set_paused_version(generation_.last_version());
    }
  }
  Ask(*std::move(rest));
}

v1::GenerateRequest ChatCall::RestAfter(int kept) {
  const v1::Segment& sampled = generation_.segment;
  const auto& ids = sampled.token_ids();
  v1::GenerateRequest request = EngineRequest();
  request.mutable_prompt_ids()->Add(ids.begin(), ids.begin() + kept);
  request.set_first_index(kept);
  // Ids that are sampled again have the version of those that are kept.
  if (request.has_preferred_version() && generation_.size() > 0) {
    request.set_preferred_version(generation_.last_version());
  }
  request.mutable_first_logprobs()->Add(sampled.logprobs().begin(), sampled.logprobs().begin() + kept);
  if (!generation_.provisional) request.mutable_draft_ids()->Add(ids.begin() + kept, ids.end());
  generation_.AskAgain(kept, UnixNow());
  ++asks_;  // so that an Ask still in progress does not store the previous engine's handle
  return request;
}

void ChatCall::Continue() {
  std::unique_ptr<rollout::Client::Request> handle;
  v1::Segment slice;
  {
    base::MutexLock lock(mu_);
    if (phase_ != Phase::kPaused) return;
    storing_ = true;
    handle = std::move(handle_);
    slice = PartOf(generation_.segment, generation_.sliced(), generation_.size() - generation_.sliced());
    generation_.EndSlice();
  }
  handle.reset();
  StoreSlice(std::move(slice));
  std::optional<v1::GenerateRequest> rest;
  {
    base::MutexLock lock(mu_);
    storing_ = false;
    if (phase_ == Phase::kPaused) {
      phase_ = Phase::kGenerating;
      rest = RestAfter(generation_.size());
      rest->set_paused_version(generation_.last_version());
    }
  }
  if (rest.has_value()) return Ask(*std::move(rest));
  Complete();  // the call was aborted in the meantime
}

// If the pool does not store the slice, its ids are recorded with a later slice or with the entire call.
void ChatCall::StoreSlice(v1::Segment slice) {
  slices_.push_back(MakeSegmentRef(std::move(slice)));
  ++core_.counters.paused;
  if (core_.parts.pool == nullptr) return;
  const absl::Status stored = core_.parts.pool->AppendCall(AppendOf(Record(v1::FINISH_PAUSED, slices_), slices_));
  if (stored.ok()) {
    stored_slices_ = slices_.size();
    return;
  }
  if (absl::IsAborted(stored)) setup_.episode->MarkTaken();
  ++core_.counters.slice_failures;
  INGOT_LOG(warn, "slice {} of call {} of episode {} could not be recorded yet: {}", slices_.size(), setup_.call_id,
            setup_.episode->id(), std::string(stored.message()));
}

ChatCall::Phase ChatCall::PhaseAfterTake() const {
  if (!engine_error_.ok()) return Phase::kFinishing;
  if (generation_.finish == v1::FINISH_UNSPECIFIED) return Phase::kGenerating;
  return generation_.finish == v1::FINISH_PAUSED ? Phase::kPaused : Phase::kFinishing;
}

void ChatCall::OnChunk(int ask, absl::StatusOr<v1::GenerateChunk> chunk) {
  bool wake = false;
  Phase phase = Phase::kGenerating;
  std::optional<v1::GenerateRequest> again;
  {
    base::MutexLock lock(mu_);
    if (phase_ != Phase::kGenerating || ask != asks_) return;
    if (!chunk.ok()) again = Resume(chunk.status());
    if (!chunk.ok() && !again.has_value() && AwaitEngine(chunk.status())) return;
    if (!again.has_value()) {
      Take(chunk);
      phase = phase_ = PhaseAfterTake();
      wake = phase != Phase::kFinishing && setup_.request->stream && !woken_;
      woken_ = woken_ || wake;
    }
  }
  if (again.has_value()) return Ask(*std::move(again));
  if (phase == Phase::kFinishing) SubmitComplete();
  if (phase == Phase::kPaused) core_.writers.Post([self = shared_from_this()] { self->Continue(); });
  if (wake) setup_.wake();
}

void ChatCall::Abort(absl::Status why) {
  std::unique_ptr<rollout::Client::Request> handle;
  {
    base::MutexLock lock(mu_);
    if (phase_ == Phase::kWaiting && abort_.ok()) abort_ = why;
    if (phase_ != Phase::kGenerating && phase_ != Phase::kPaused) return;
    abort_ = std::move(why);
    phase_ = Phase::kFinishing;
    handle = std::move(handle_);
  }
  SubmitComplete();
  handle.reset();
}

void ChatCall::SubmitComplete() {
  if (!plan_->raw) setup_.episode->FinishCall(shared_from_this(), plan_->continued.asked.key);
  core_.writers.Post([self = shared_from_this()] { self->Complete(); });
}

// ---- Finishing ----------------------------------------------------------------------------------------------------

void ChatCall::Complete() {
  std::unique_ptr<rollout::Client::Request> handle;
  std::vector<std::unique_ptr<rollout::Client::Request>> lost;
  {
    base::MutexLock lock(mu_);
    if (phase_ != Phase::kFinishing || claimed_ || storing_) return;
    claimed_ = true;
    handle = std::move(handle_);
    lost.swap(lost_handles_);
  }
  handle.reset();
  lost.clear();
  absl::Status status = Outcome();
  v1::FinishReason finish = v1::FINISH_UNSPECIFIED;
  std::optional<v1::Segment> rest;  // after the slices
  {
    base::MutexLock lock(mu_);
    if (!abort_.ok()) {
      generation_.finish = v1::FINISH_ABORTED;
    } else if (!status.ok()) {
      generation_.finish = v1::FINISH_ERROR;
    }
    finish = generation_.finish;
    const int before = generation_.sliced(), left = generation_.size() - before;
    if (!generation_.provisional && left > 0) rest = PartOf(generation_.segment, before, left);
  }
  std::vector<SegmentRef> sampled = slices_;
  if (rest.has_value()) sampled.push_back(MakeSegmentRef(*std::move(rest)));
  // A call that ended early without any ids does not need a record.
  bool known = status.ok() || !sampled.empty();
  if (core_.parts.pool != nullptr && known) {
    const absl::Status recorded = Append(Record(finish, sampled), sampled);
    known = recorded.ok();
    ++(recorded.ok() ? core_.counters.recorded : core_.counters.record_failures);
    if (!recorded.ok()) {
      INGOT_LOG(error, "call {} of episode {} could not be recorded: {}", setup_.call_id, setup_.episode->id(),
                std::string(recorded.message()));
    }
    if (status.ok() && !recorded.ok()) {
      status = ApiError(503, "record_failed", "",
                        absl::StrCat("the call could not be recorded, so it is not delivered: ", recorded.message()));
    }
  }
  if (known) setup_.episode->CountRecorded(setup_.call_id, sequence_);
  if (known && !plan_->raw) {
    Remember(status.ok(), std::move(sampled));
    ReportNextMessage();
  }
  Done(std::move(status));
}

// Returns History::Call::echoed_arguments.
std::vector<std::string> ChatCall::EchoedOf(const text::Message& delivered) const {
  std::vector<std::string> echoed;
  bool other = false;
  for (const text::ToolCall& call : delivered.tool_calls) {
    echoed.push_back(EchoedArguments(*setup_.request, call));
    other = other || echoed.back() != call.arguments_json;
  }
  return other ? echoed : std::vector<std::string>();
}

// Returns the answer, including the beginning that the client wrote.
text::Message ChatCall::Turn() const {
  return plan_->begun.has_value() ? ContinuedMessage(*plan_->begun, delivery_->message()) : delivery_->message();
}

void ChatCall::ReportNextMessage() const {
  const Continuation& continued = plan_->continued;
  if (core_.parts.feedback == nullptr || continued.parent_call_id.empty()) return;
  const text::Conversation& asked =
      continued.conversation.has_value() ? *continued.conversation : setup_.request->conversation;
  // Other answers may stand between the parent's and the message, if the client changed them.
  if (continued.match.first_new + 1 != asked.messages.size()) return;
  std::optional<NextMessage> next = NextMessageIn(asked, continued.parent_call_id);
  if (next.has_value()) core_.parts.feedback->OnNextMessage(*std::move(next));
}

// Adds the call to the episode's history, with its answer or with the prefix that the client may have.
void ChatCall::Remember(bool whole, std::vector<SegmentRef> sampled) {
  std::optional<text::Message> delivered;
  History::Call call{.call_id = setup_.call_id,
                     .parent = -1,
                     .prompt = plan_->refs,
                     .sampled = std::move(sampled),
                     .text_key = plan_->text_key,
                     .prefill = plan_->prefill,
                     .begun = plan_->begun,
                     .streamed_ids = 0,
                     .reasoning = plan_->reasoning,
                     .thread = setup_.request->branch};
  {
    base::MutexLock lock(mu_);
    if (whole) {
      delivered = Turn();
      call.ending = {.stops = setup_.request->stop,
                     .stop = generation_.stop_string,
                     .text_ids = static_cast<size_t>(delivery_->text_tokens(generation_))};
    }
    call.echoed_arguments = echoed_arguments_;
    if (setup_.request->stream) call.streamed_ids = whole ? generation_.size() : delivery_->taken_tokens();
  }
  setup_.episode->AddToHistory(plan_->continued, delivered, std::move(call));
}

// Returns OK if there is an answer to deliver. delivery_ and echoed_arguments_ then hold it.
absl::Status ChatCall::Outcome() {
  base::MutexLock lock(mu_);
  if (!abort_.ok()) return abort_;
  if (absl::IsNotFound(engine_error_)) {
    return ApiError(409, "version_not_held", "", absl::StrCat("the engine: ", engine_error_.message()));
  }
  if (const auto fault = base::FaultOf(engine_error_)) {
    const std::string param = ParamOf(fault->field, *setup_.request, sampling_);
    return BadRequest(param, absl::StrCat("'", param, "' cannot be used: ", fault->what));
  }
  if (!engine_error_.ok()) return base::Annotate(engine_error_, "the engine ended the call");
  if (generation_.finish == v1::FINISH_ABORTED || generation_.finish == v1::FINISH_ERROR) {
    return absl::UnavailableError("the engine gave up on the call: retry it");
  }
  delivery_->End(generation_);
  echoed_arguments_ = EchoedOf(delivery_->message());
  if (delivery_->malformed()) ++core_.counters.malformed_tool_calls;
  if (setup_.request->tool_choice.mode == ToolChoice::Mode::kRequired && delivery_->message().tool_calls.empty()) {
    ++core_.counters.tool_choice_unforced;
  }
  return absl::OkStatus();
}

v1::Call ChatCall::Record(v1::FinishReason finish, const std::vector<SegmentRef>& sampled) {
  v1::Call call;
  call.set_call_id(setup_.call_id);
  call.set_episode_id(setup_.episode->id());
  call.set_sequence(sequence_);
  call.set_parent_call_id(plan_->continued.parent_call_id);
  call.set_branch(setup_.request->branch);
  call.set_parent_branch(setup_.request->parent_branch);
  call.set_role(setup_.request->role);
  const Continuation& continued = plan_->continued;
  // The trunk's calls are recorded in another episode in the group, which stores their segments.
  for (const std::string& key : continued.trunk_path) call.add_context_keys(key);
  const bool in_trunk = !continued.trunk_path.empty();
  if (!continued.parent_call_id.empty() && !in_trunk) {
    call.set_continued_segments(static_cast<int32_t>(continued.recorded_segments));
  }
  if (continued.unrecorded.has_value()) call.add_context_keys(continued.unrecorded->key);
  for (const SegmentRef& ref : plan_->refs) call.add_context_keys(ref.key);
  call.set_context_tokens(static_cast<int64_t>(plan_->ids.size()));
  for (const SegmentRef& ref : sampled) call.add_sampled_keys(ref.key);
  *call.mutable_sampling() = sampling_;
  call.set_tokenizer_fingerprint(core_.parts.tokenizer->fingerprint());
  call.set_template_fingerprint(core_.parts.format->fingerprint());
  call.set_model(setup_.request->model);
  const bool evaluated = backend().weights == v1::WEIGHTS_FOLLOW && PinnedVersion() >= 0;
  call.set_weights(evaluated ? v1::WEIGHTS_PINNED : backend().weights);
  call.set_encoded(backend().text != nullptr);
  call.set_finish(finish);
  call.set_fork_cause(plan_->continued.match.fork_cause);
  base::MutexLock lock(mu_);
  *call.mutable_times() = generation_.times;
  call.mutable_times()->set_arrival_unix_ns(setup_.episode->UnixNanosAt(setup_.arrival));
  const bool whole = finish == v1::FINISH_STOP || finish == v1::FINISH_LENGTH || finish == v1::FINISH_REPETITION;
  call.set_delivered_tokens(whole ? generation_.size() : delivery_->confirmed_tokens());
  call.set_cached_tokens(generation_.cached_tokens);
  call.set_tool_call_malformed(whole && delivery_->malformed());
  if (whole && !plan_->raw) {  // a later gateway may have to continue the call
    const RequestKey& asked = plan_->continued.asked;
    call.set_asked_key(std::string(base::KeyBytes(asked.key)));
    call.set_asked_key_no_tools(std::string(base::KeyBytes(asked.no_tools)));
    call.set_prompt_text_key(plan_->text_key);
    call.set_delivered_json(
        DeliveredJson({.message = Turn(), .echoed_arguments = echoed_arguments_, .stop = generation_.stop_string}));
  }
  return call;
}

v1::AppendCallRequest ChatCall::AppendOf(const v1::Call& record, const std::vector<SegmentRef>& sampled) const {
  v1::AppendCallRequest request;
  *request.mutable_call() = record;
  request.set_gateway_token(setup_.episode->record().gateway_token());
  if (stored_slices_ == 0) {
    // The segments on the parent's path were stored with earlier calls.
    if (const auto& own = plan_->continued.unrecorded; own.has_value()) *request.add_segments() = *own->segment;
    for (const SegmentRef& ref : plan_->refs) *request.add_segments() = *ref.segment;
  }
  for (size_t i = stored_slices_; i < sampled.size(); ++i) *request.add_segments() = *sampled[i].segment;
  return request;
}

absl::Status ChatCall::Append(const v1::Call& record, const std::vector<SegmentRef>& sampled) {
  v1::AppendCallRequest request = AppendOf(record, sampled);
  const absl::Status appended = core_.parts.pool->AppendCall(request);
  if (absl::IsAborted(appended)) setup_.episode->MarkTaken();
  left_.used = absl::IsAlreadyExists(appended) || (!appended.ok() && stored_slices_ > 0);
  if (left_.used) return appended;
  if (!appended.ok() && !absl::IsAborted(appended) && !datapool::IsRejection(appended)) left_.lost = std::move(request);
  return appended;
}

void ChatCall::Done(const absl::Status& status) {
  bool aborted = false;
  {
    base::MutexLock lock(mu_);
    aborted = !abort_.ok();
  }
  Count(status, aborted || absl::IsCancelled(status));
  CountTokens(status);
  {
    base::MutexLock lock(mu_);
    phase_ = Phase::kDone;
    delivers_ = status.ok();
    woken_ = true;
  }
  const auto now = core_.parts.clock->Now();
  if (sequence_ >= 0) setup_.episode->EndCall(shared_from_this(), sequence_, std::move(left_), now);
  setup_.on_done(status);
  setup_.wake();
}

void ChatCall::CountTokens(const absl::Status& status) {
  if (!took_tokens_) return;
  int64_t sampled = 0;
  {
    base::MutexLock lock(mu_);
    sampled = generation_.size();
  }
  if (sampled > 0 || status.ok()) return setup_.episode->tokens().CountSampled(sampled);
  setup_.episode->tokens().ReturnPrompt(static_cast<int64_t>(plan_->ids.size()));
}

void ChatCall::Count(const absl::Status& status, bool aborted) {
  Counters& counters = core_.counters;
  counters.CountCall(status, aborted);
  if (!queued_) return;  // the call did not reach the engine
  if (!plan_->continued.parent_call_id.empty()) ++counters.spliced;
  counters.AddConcessions(plan_->concessions);
  if (!plan_->continued.match.fork_cause.empty()) counters.AddFork(plan_->continued.match.fork_cause);
  if (sampling_.grammar_acted() || sampling_.penalty_acted() || sampling_.bias_acted()) ++counters.flagged;
  counters.prompt_tokens += plan_->ids.size();
  for (const SegmentRef& ref : plan_->refs) counters.rendered_tokens += ref.segment->token_ids_size();
  base::MutexLock lock(mu_);
  counters.cached_tokens += generation_.cached_tokens;
  counters.sampled_tokens += generation_.size();
}

// ---- Delivering ---------------------------------------------------------------------------------------------------

ChatCall::Output ChatCall::TakeOutput() {
  Output out;
  base::MutexLock lock(mu_);
  woken_ = false;
  out.done = phase_ == Phase::kDone;
  // Nothing is sent while the call is being recorded. The next event is the end or an error.
  const bool samples = phase_ == Phase::kGenerating || phase_ == Phase::kPaused;
  const bool emits = samples || (out.done && delivers_);
  if (emits) delivery_->AddEvents(generation_, out.events);
  return out;
}

}  // namespace ingot::gateway
