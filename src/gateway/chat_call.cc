#include "gateway/chat_call.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/rng.h"
#include "gateway/api_error.h"

namespace ingot::gateway {
namespace {

std::vector<int32_t> IdsOf(const std::vector<Piece>& pieces) {
  std::vector<int32_t> ids;
  for (const Piece& piece : pieces) {
    ids.insert(ids.end(), piece.segment->token_ids().begin(), piece.segment->token_ids().end());
  }
  return ids;
}

}  // namespace

ChatCall::ChatCall(Core& core, std::string body, Resolve resolve, std::function<void()> wake)
    : core_(core),
      call_id_(RandomHex(16)),
      arrival_(core.parts.clock->Now()),
      arrival_unix_ns_(core.parts.clock->UnixNanos()),
      resolve_(std::move(resolve)),
      wake_(std::move(wake)),
      body_(std::move(body)) {}

// ---- Preparing ----------------------------------------------------------------------------------------------------

void ChatCall::Prepare() {
  {
    base::MutexLock lock(mu_);
    if (phase_ != Phase::kQueued) return;
    phase_ = Phase::kPreparing;
  }
  if (absl::Status status = Run(); !status.ok()) Done(std::move(status));
}

void ChatCall::Refuse(absl::Status why) {
  {
    base::MutexLock lock(mu_);
    if (phase_ != Phase::kQueued) return;
    phase_ = Phase::kPreparing;
  }
  Done(std::move(why));
}

absl::Status ChatCall::Run() {
  INGOT_ASSIGN_OR_RETURN(request_, ParseChatCompletions(body_));
  std::string().swap(body_);
  INGOT_ASSIGN_OR_RETURN(auto episode, resolve_());
  INGOT_ASSIGN_OR_RETURN(sequence_,
                         episode->BeginCall(shared_from_this(), core_.options.max_calls_per_episode, arrival_));
  episode_ = std::move(episode);
  renderer_.emplace("chatcmpl-" + call_id_, arrival_unix_ns_ / 1'000'000'000,
                    request_.model.empty() ? core_.options.model_name : request_.model);
  std::vector<int32_t> prompt_ids;
  INGOT_RETURN_IF_ERROR(PlanPrompt(prompt_ids));
  INGOT_RETURN_IF_ERROR(CheckContext(prompt_ids.size()));
  INGOT_RETURN_IF_ERROR(SetSampling(prompt_ids.size()));
  return StartEngine(std::move(prompt_ids));
}

absl::Status ChatCall::PlanPrompt(std::vector<int32_t>& prompt_ids) {
  keys_ = ConversationKeys::Of(request_.conversation);
  plan_ = episode_->PlanPrompt(request_.conversation, keys_);
  if (plan_.match.parent >= 0) {
    auto tail = core_.parts.format->RenderTail(request_.conversation, plan_.match.first_new, plan_.parent_turn);
    if (tail.ok()) {
      prompt_ids = IdsOf(plan_.path);
      prompt_ids.insert(prompt_ids.end(), tail->begin(), tail->end());
      prompt_pieces_ = PromptPieces(*tail, 0);
    } else {
      INGOT_LOG(debug, "call {}: the tail does not render ({}): rendering everything", call_id_,
                std::string(tail.status().message()));
      plan_.match = {.parent = -1, .first_new = 0, .fork_cause = kForkTailFailed};
      plan_.path.clear();
      plan_.parent_call_id.clear();
    }
  }
  if (plan_.match.parent < 0) INGOT_RETURN_IF_ERROR(RenderWhole(prompt_ids));
  prompt_tokens_ = prompt_ids.size();
  return absl::OkStatus();
}

absl::Status ChatCall::RenderWhole(std::vector<int32_t>& prompt_ids) {
  auto rendered = core_.parts.format->Render(request_.conversation, true);
  if (!rendered.ok()) return BadRequest("messages", std::string(rendered.status().message()));
  const bool system = request_.conversation.messages[0].role == "system";
  prompt_pieces_ =
      PromptPieces(rendered->ids, system && !rendered->message_ends.empty() ? rendered->message_ends[0] : 0);
  prompt_ids = std::move(rendered->ids);
  if (prompt_ids.empty()) return BadRequest("messages", "the conversation renders to no tokens");
  return absl::OkStatus();
}

absl::Status ChatCall::CheckContext(size_t prompt_tokens) {
  if (core_.context_length == 0) {
    auto status = core_.parts.engine->Status();
    if (!status.ok()) return base::Annotate(status.status(), "the engine does not answer");
    core_.context_length = status->context_length();
  }
  const int64_t context = core_.context_length;
  if (context <= 0 || static_cast<int64_t>(prompt_tokens) < context) return absl::OkStatus();
  return ApiError(400, "context_length_exceeded", "messages",
                  absl::StrCat("this model's context length is ", context, " tokens; the messages are ", prompt_tokens,
                               " tokens: shorten them"));
}

absl::Status ChatCall::SetSampling(size_t prompt_tokens) {
  switch (episode_->record().purpose()) {
    case v1::PURPOSE_TRAIN:
      PinSampling(core_.options.train_sampling);
      break;
    case v1::PURPOSE_EVAL:
      PinSampling(core_.options.eval_sampling);
      break;
    default:
      INGOT_RETURN_IF_ERROR(AskSampling());
  }
  const int64_t cap = core_.options.max_new_tokens;
  const int64_t unasked = core_.options.default_max_tokens > 0 ? core_.options.default_max_tokens : cap;
  int64_t limit = std::min(cap, request_.max_tokens > 0 ? request_.max_tokens : unasked);
  if (core_.context_length > 0) limit = std::min<int64_t>(limit, core_.context_length - prompt_tokens);
  sampling_.set_max_new_tokens(static_cast<int32_t>(limit));
  for (const std::string& stop : request_.stop) sampling_.add_stop(stop);
  for (int32_t id : core_.parts.format->end_of_turn_ids()) sampling_.add_stop_token_ids(id);
  return absl::OkStatus();
}

void ChatCall::PinSampling(const SamplingPin& pin) {
  sampling_.set_temperature(pin.temperature);
  sampling_.set_top_p(pin.top_p);
  sampling_.set_top_k(pin.top_k);
  sampling_.set_min_p(pin.min_p);
  // From the run's seed and the call's place in it, so that a run's draws can be repeated, and samples of one group
  // differ whatever seed their agents send.
  const v1::Episode& record = episode_->record();
  uint64_t seed = base::DeriveSeed(core_.options.seed, record.purpose());
  seed = base::DeriveSeed(seed, record.ref().group_id());
  seed = base::DeriveSeed(seed, (static_cast<uint64_t>(record.ref().sample_index()) << 32) | record.ref().attempt());
  // Evaluations of different versions repeat group numbers only if their scheduler does; the version keeps them apart.
  seed = base::DeriveSeed(seed, static_cast<uint64_t>(record.pinned_version() + 1));
  sampling_.set_seed(base::DeriveSeed(seed, sequence_));
}

absl::Status ChatCall::AskSampling() {
  if (request_.penalty) {
    return ApiError(400, "unsupported_parameter", "frequency_penalty",
                    "penalties and 'logit_bias' are not supported: leave them out");
  }
  sampling_.set_temperature(static_cast<float>(request_.temperature.value_or(1)));
  sampling_.set_top_p(static_cast<float>(request_.top_p.value_or(1)));
  sampling_.set_top_k(request_.top_k.value_or(0));
  sampling_.set_min_p(static_cast<float>(request_.min_p.value_or(0)));
  sampling_.set_seed(request_.seed.has_value() ? *request_.seed : RandomSeed());
  return absl::OkStatus();
}

absl::Status ChatCall::StartEngine(std::vector<int32_t> prompt_ids) {
  v1::GenerateRequest request;
  request.set_request_id(call_id_);
  request.mutable_prompt_ids()->Add(prompt_ids.begin(), prompt_ids.end());
  *request.mutable_sampling() = sampling_;
  request.set_pinned_version(episode_->record().pinned_version());
  request.set_top_logprobs(request_.top_logprobs);
  queued_unix_ns_ = core_.parts.clock->UnixNanos();
  {
    base::MutexLock lock(mu_);
    if (!abort_.ok()) return abort_;
    text_ =
        std::make_unique<TurnText>(core_.parts.tokenizer, core_.parts.format, request_.stop, request_.tools_enabled());
    phase_ = Phase::kGenerating;
  }
  // The callback does not own the call: the call owns the handle, which owns the callback.
  auto handle =
      core_.parts.engine->Generate(request, [weak = weak_from_this()](absl::StatusOr<v1::GenerateChunk> chunk) {
        if (auto self = weak.lock()) self->OnChunk(std::move(chunk));
      });
  base::MutexLock lock(mu_);
  if (phase_ == Phase::kGenerating) handle_ = std::move(handle);
  return absl::OkStatus();  // otherwise it ended meanwhile, and the handle goes here
}

void ChatCall::OnChunk(absl::StatusOr<v1::GenerateChunk> chunk) {
  bool finished = false, wake = false;
  {
    base::MutexLock lock(mu_);
    if (phase_ != Phase::kGenerating) return;
    if (chunk.ok()) {
      engine_error_ = generation_.Append(*chunk, core_.parts.clock->UnixNanos());
    } else {
      engine_error_ = chunk.status();
    }
    finished = !engine_error_.ok() || generation_.finish != v1::FINISH_UNSPECIFIED;
    if (finished) phase_ = Phase::kFinishing;
    wake = !finished && request_.stream && !woken_;
    woken_ = woken_ || wake;
  }
  if (finished) core_.workers.Submit([self = shared_from_this()] { self->Complete(); });
  if (wake) wake_();
}

void ChatCall::Abort(absl::Status why) {
  std::unique_ptr<rollout::Client::Request> handle;
  bool done = false, finish = false;
  {
    base::MutexLock lock(mu_);
    if (phase_ == Phase::kQueued) {
      phase_ = Phase::kPreparing;
      done = true;
    } else if (phase_ == Phase::kPreparing) {
      if (abort_.ok()) abort_ = std::move(why);
    } else if (phase_ == Phase::kGenerating) {
      abort_ = std::move(why);
      phase_ = Phase::kFinishing;
      handle = std::move(handle_);
      finish = true;
    }
  }
  handle.reset();
  if (done) Done(std::move(why));
  if (finish) core_.workers.Submit([self = shared_from_this()] { self->Complete(); });
}

// ---- Finishing ----------------------------------------------------------------------------------------------------

void ChatCall::Complete() {
  std::unique_ptr<rollout::Client::Request> handle;
  {
    base::MutexLock lock(mu_);
    if (phase_ != Phase::kFinishing || claimed_) return;
    claimed_ = true;
    handle = std::move(handle_);
  }
  handle.reset();
  absl::Status status = Outcome();
  v1::FinishReason finish = v1::FINISH_UNSPECIFIED;
  v1::Segment segment;
  {
    base::MutexLock lock(mu_);
    if (!abort_.ok()) {
      generation_.finish = v1::FINISH_ABORTED;
    } else if (!status.ok()) {
      generation_.finish = v1::FINISH_ERROR;
    }
    finish = generation_.finish;
    segment = generation_.segment;
  }
  std::vector<Piece> sampled;
  if (segment.token_ids_size() > 0) sampled.push_back(MakePiece(std::move(segment)));
  // A call that ended early without a token has nothing that could be lost.
  if (core_.parts.pool != nullptr && (status.ok() || !sampled.empty())) {
    const absl::Status recorded = Append(Record(finish, sampled), sampled);
    ++(recorded.ok() ? core_.counters.recorded : core_.counters.record_failures);
    if (!recorded.ok()) {
      INGOT_LOG(error, "call {} of episode {} could not be recorded: {}", call_id_, episode_->id(),
                std::string(recorded.message()));
    }
    if (status.ok() && !recorded.ok()) {
      status = ApiError(503, "record_failed", "",
                        absl::StrCat("the call could not be recorded, so it is not delivered: ", recorded.message()));
    }
  }
  if (status.ok()) {
    text::Message delivered;
    {
      base::MutexLock lock(mu_);
      delivered = message_;
    }
    episode_->AddToHistory(plan_, keys_, delivered, call_id_, prompt_pieces_, std::move(sampled));
  }
  Done(std::move(status));
}

// Whether there is an answer to deliver; if so, what it is.
absl::Status ChatCall::Outcome() {
  base::MutexLock lock(mu_);
  if (!abort_.ok()) return abort_;
  if (absl::IsNotFound(engine_error_)) {
    return ApiError(409, "version_not_held", "", absl::StrCat("the engine: ", engine_error_.message()));
  }
  if (!engine_error_.ok()) return base::Annotate(engine_error_, "the engine ended the call");
  if (generation_.finish == v1::FINISH_ABORTED || generation_.finish == v1::FINISH_ERROR) {
    return absl::UnavailableError("the engine gave the call up: send it again");
  }
  const auto& ids = generation_.segment.token_ids();
  text_->Push(std::span(ids.data() + fed_, ids.size() - fed_));
  fed_ = ids.size();
  text_->Finish(generation_.stop_string);
  const text::ParsedOutput& parsed = text_->message();
  message_ = {.role = "assistant",
              .content = parsed.content,
              .reasoning = parsed.reasoning,
              .tool_calls = parsed.tool_calls,
              .tool_call_id = {},
              .name = {}};
  for (text::ToolCall& call : message_.tool_calls) call.id = "call_" + RandomHex(12);
  finish_reason_ = FinishReasonText(generation_.finish, !message_.tool_calls.empty());
  if (parsed.malformed) ++core_.counters.malformed_tool_calls;
  if (request_.tool_choice == ToolChoice::kRequired && message_.tool_calls.empty()) {
    ++core_.counters.tool_choice_unforced;
  }
  return absl::OkStatus();
}

v1::Call ChatCall::Record(v1::FinishReason finish, const std::vector<Piece>& sampled) {
  v1::Call call;
  call.set_call_id(call_id_);
  call.set_episode_id(episode_->id());
  call.set_sequence(sequence_);
  call.set_parent_call_id(plan_.parent_call_id);
  call.set_branch(request_.branch);
  for (const Piece& piece : plan_.path) call.add_context_keys(piece.key);
  for (const Piece& piece : prompt_pieces_) call.add_context_keys(piece.key);
  for (const Piece& piece : sampled) call.add_sampled_keys(piece.key);
  *call.mutable_sampling() = sampling_;
  call.set_tokenizer_fingerprint(core_.parts.tokenizer->fingerprint());
  call.set_template_fingerprint(core_.parts.format->fingerprint());
  call.set_model(request_.model);
  call.set_weights(episode_->record().pinned_version() >= 0 ? v1::WEIGHTS_PINNED : v1::WEIGHTS_FOLLOW);
  call.set_finish(finish);
  call.set_fork_cause(plan_.match.fork_cause);
  base::MutexLock lock(mu_);
  *call.mutable_times() = generation_.times;
  call.mutable_times()->set_arrival_unix_ns(arrival_unix_ns_);
  call.mutable_times()->set_queued_unix_ns(queued_unix_ns_);
  const bool whole = finish == v1::FINISH_STOP || finish == v1::FINISH_LENGTH;
  call.set_delivered_tokens(whole ? generation_.size() : confirmed_);
  call.set_cached_tokens(generation_.cached_tokens);
  call.set_tool_call_malformed(whole && text_->message().malformed);
  return call;
}

absl::Status ChatCall::Append(const v1::Call& record, const std::vector<Piece>& sampled) {
  v1::AppendCallRequest request;
  *request.mutable_call() = record;
  // The path's segments came with the calls that are being continued.
  for (const Piece& piece : prompt_pieces_) *request.add_segments() = *piece.segment;
  for (const Piece& piece : sampled) *request.add_segments() = *piece.segment;
  return core_.parts.pool->AppendCall(request);
}

void ChatCall::Done(absl::Status status) {
  bool aborted = false;
  {
    base::MutexLock lock(mu_);
    aborted = !abort_.ok();
  }
  Count(status, aborted || absl::IsCancelled(status));
  {
    base::MutexLock lock(mu_);
    phase_ = Phase::kDone;
    status_ = std::move(status);
    woken_ = true;
  }
  if (episode_ != nullptr) episode_->EndCall(shared_from_this(), core_.parts.clock->Now());
  if (on_done_) on_done_(shared_from_this());
  if (wake_) wake_();
}

void ChatCall::Count(const absl::Status& status, bool aborted) {
  Counters& counters = core_.counters;
  ++counters.calls;
  if (status.ok()) {
    ++counters.completed;
  } else if (aborted) {
    ++counters.aborted;
  } else if (absl::IsResourceExhausted(status)) {
    ++counters.refused;
  } else {
    ++counters.failed;
  }
  if (queued_unix_ns_ == 0) return;  // never reached the engine
  if (!plan_.parent_call_id.empty()) ++counters.spliced;
  if (!plan_.match.fork_cause.empty()) counters.AddFork(plan_.match.fork_cause);
  counters.prompt_tokens += prompt_tokens_;
  base::MutexLock lock(mu_);
  counters.cached_tokens += generation_.cached_tokens;
  counters.sampled_tokens += generation_.size();
}

// ---- Delivering ---------------------------------------------------------------------------------------------------

ChatCall::Output ChatCall::Take() {
  Output out;
  base::MutexLock lock(mu_);
  woken_ = false;
  if (phase_ < Phase::kGenerating) return out;
  out.stream = request_.stream;
  if (out.stream && text_ != nullptr) TakeStream(out);
  if (phase_ != Phase::kDone) return out;
  out.done = true;
  out.status = Unshared(status_);
  if (!status_.ok() || delivered_) return out;
  delivered_ = true;
  if (out.stream) {
    EmitFinal(out);
    return out;
  }
  base::json::value logprobs = request_.logprobs ? TakeLogprobs(TextTokens()) : base::json::value(nullptr);
  base::json::object choice = ChatRenderer::Choice(message_, finish_reason_, std::move(logprobs));
  base::json::array prompt_ids;
  if (request_.return_token_ids) {
    const auto& ids = generation_.segment.token_ids();
    choice["token_ids"] = base::json::array(ids.begin(), ids.end());
    for (const auto* pieces : {&plan_.path, &prompt_pieces_}) {
      for (int32_t id : IdsOf(*pieces)) prompt_ids.emplace_back(id);
    }
  }
  base::json::object reply = renderer_->Completion(std::move(choice), UsageNow());
  if (request_.return_token_ids) reply["prompt_token_ids"] = std::move(prompt_ids);
  out.events.push_back(base::PrintJson(reply));
  return out;
}

void ChatCall::TakeStream(Output& out) {
  confirmed_ = text_->delivered_tokens();
  const auto& ids = generation_.segment.token_ids();
  if (fed_ < ids.size() && phase_ == Phase::kGenerating) {
    text_->Push(std::span(ids.data() + fed_, ids.size() - fed_));
    fed_ = ids.size();
  }
  if (!opened_ && (generation_.size() > 0 || (phase_ == Phase::kDone && status_.ok()))) {
    opened_ = true;
    EmitDelta({{"role", "assistant"}, {"content", ""}}, "", out);
  }
  if (!opened_ || phase_ == Phase::kFinishing || (phase_ == Phase::kDone && !status_.ok())) return;
  TurnText::Delta delta = text_->TakeDelta();
  if (!delta.reasoning.empty()) EmitDelta({{"reasoning_content", delta.reasoning}}, "", out);
  if (!delta.content.empty()) EmitDelta({{"content", delta.content}}, "", out);
}

// Tool calls, the reason it ended, usage: after the content.
void ChatCall::EmitFinal(Output& out) {
  for (size_t i = 0; i < message_.tool_calls.size(); ++i) {
    const text::ToolCall& call = message_.tool_calls[i];
    base::json::object first{{"index", i},
                             {"id", call.id},
                             {"type", "function"},
                             {"function", base::json::object{{"name", call.name}, {"arguments", ""}}}};
    base::json::object second{{"index", i}, {"function", base::json::object{{"arguments", call.arguments_json}}}};
    EmitDelta({{"tool_calls", base::json::array{std::move(first)}}}, "", out);
    EmitDelta({{"tool_calls", base::json::array{std::move(second)}}}, "", out);
  }
  EmitDelta({}, finish_reason_, out);
  if (request_.include_usage) out.events.push_back(base::PrintJson(renderer_->UsageChunk(UsageNow())));
}

void ChatCall::EmitDelta(base::json::object delta, const std::string& finish_reason, Output& out) {
  // The ids that came since the last chunk are told with the next one that has text, or with the last.
  const bool opening = delta.contains("role");
  const bool describe = !opening && (delta.contains("content") || !finish_reason.empty());
  const int last = finish_reason.empty() ? std::min(fed_, TextTokens()) : TextTokens();
  const int first = described_;
  base::json::value logprobs = nullptr;
  if (describe && request_.logprobs) logprobs = TakeLogprobs(last);
  base::json::object chunk =
      renderer_->Chunk(std::move(delta), finish_reason, std::move(logprobs), request_.include_usage);
  if (request_.return_token_ids) {
    base::json::object& choice = chunk["choices"].as_array()[0].as_object();
    const auto& ids = generation_.segment.token_ids();
    const int end = finish_reason.empty() ? last : generation_.size();  // the end-of-turn id comes with the last chunk
    if (describe) choice["token_ids"] = base::json::array(ids.begin() + first, ids.begin() + end);
    if (opening) {
      base::json::array prompt_ids;
      for (const auto* pieces : {&plan_.path, &prompt_pieces_}) {
        for (int32_t id : IdsOf(*pieces)) prompt_ids.emplace_back(id);
      }
      chunk["prompt_token_ids"] = std::move(prompt_ids);
    }
  }
  if (describe) described_ = last;
  out.events.push_back(base::PrintJson(chunk));
}

base::json::value ChatCall::TakeLogprobs(int last) {
  return LogprobsJson(generation_, described_, last, *core_.parts.tokenizer);
}

// The sampled ids that are text: all but an end-of-turn id that ended the turn.
int ChatCall::TextTokens() const {
  const auto& ids = generation_.segment.token_ids();
  const auto& ends = core_.parts.format->end_of_turn_ids();
  const bool ended = !ids.empty() && std::find(ends.begin(), ends.end(), ids[ids.size() - 1]) != ends.end();
  return ids.size() - (ended ? 1 : 0);
}

Usage ChatCall::UsageNow() const {
  return {.prompt_tokens = prompt_tokens_,
          .completion_tokens = generation_.size(),
          .cached_tokens = generation_.cached_tokens};
}

}  // namespace ingot::gateway
