#include "gateway/calls/answer.h"

#include <utility>

#include "base/random.h"
#include "gateway/api/api_error.h"
#include "gateway/api/item_references.h"
#include "gateway/calls/sampling.h"
#include "text/chat/template_variables.h"

namespace ingot::gateway {
namespace {

// Adds the run's variables that the client did not set. If the run enables thinking, the output grammar must allow it.
void AddRunVariables(const base::json::object& variables, GatewayRequest& request) {
  const base::json::value* thinking = variables.if_contains("enable_thinking");
  const bool clients = request.conversation.template_variables.contains("enable_thinking");
  if (thinking != nullptr && thinking->is_bool() && !clients) request.thinking = thinking->get_bool();
  text::AddTemplateVariables(variables, request.conversation);
}

// A variable that the template does not use cannot change the prompt, so it must not cause a fork.
void DropUnread(const text::ChatFormat& format, base::json::object& variables) {
  for (auto variable = variables.begin(); variable != variables.end();) {
    const base::json::string_view name = variable->key();
    variable = format.ReadsVariable({name.data(), name.size()}) ? variable + 1 : variables.erase(variable);
  }
}

}  // namespace

Answer::Answer(Core& core, const Dialect& dialect, RawRequest raw)
    : core_(core),
      dialect_(dialect),
      id_(base::RandomHex(16)),
      arrival_(core.parts.clock->Now()),
      arrival_unix_ns_(core.parts.clock->UnixNanos()),
      raw_(std::move(raw)) {}

// ---- Preparing ----------------------------------------------------------------------------------------------------

bool Answer::Begin() {
  base::MutexLock lock(mu_);
  if (phase_ != Phase::kQueued) return false;
  phase_ = Phase::kPreparing;
  return true;
}

bool Answer::Enter(std::shared_ptr<Episode> episode) {
  base::MutexLock lock(mu_);
  if (phase_ != Phase::kQueued) return false;
  entered_ = std::move(episode);
  return true;
}

void Answer::Reject(absl::Status why) {
  if (!Begin()) return;
  core_.counters.CountCall(why, false);
  Finish(std::move(why));
}

void Answer::Prepare() {
  if (!Begin()) return;
  absl::Status status = Run();
  std::vector<std::shared_ptr<ChatCall>> calls;
  bool count_only = false;
  {
    base::MutexLock lock(mu_);
    calls = calls_;
    count_only = request_ != nullptr && request_->count_only;
    if (status.ok() && !count_only) return;
  }
  if (!calls.empty()) {
    for (const auto& call : calls) call->Fail(status);  // the last call finishes the answer
    return;
  }
  if (!status.ok()) core_.counters.CountCall(status, absl::IsCancelled(status));
  Finish(std::move(status));
}

absl::StatusOr<GatewayRequest> Answer::Read() {
  INGOT_ASSIGN_OR_RETURN(GatewayRequest request, dialect_.Parse(raw_));
  INGOT_RETURN_IF_ERROR(CheckModelName(core_.options, request.model));
  request.token_events = raw_.token_events;
  AddRunVariables(core_.options.template_variables, request);
  DropUnread(*core_.parts.format, request.conversation.template_variables);
  raw_ = {};
  return request;
}

absl::Status Answer::Run() {
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<Episode> episode, hooks_.find());
  {
    base::MutexLock lock(mu_);
    episode_ = episode;
  }
  absl::StatusOr<GatewayRequest> read = Read();
  if (!read.ok()) {
    base::MutexLock lock(mu_);
    unreadable_ = true;
    return read.status();
  }
  GatewayRequest parsed = *std::move(read);
  if (episode == nullptr) {
    INGOT_ASSIGN_OR_RETURN(episode, hooks_.open(parsed));
  }
  INGOT_RETURN_IF_ERROR(
      ResolveReferences([&](std::string_view call_id) { return episode->Delivered(call_id); }, parsed));
  const auto request = std::make_shared<const GatewayRequest>(std::move(parsed));
  {
    base::MutexLock lock(mu_);
    request_ = request;
  }
  if (request->count_only) return CountTokens(request);
  if (request->choices() > 1) {
    INGOT_RETURN_IF_ERROR(hooks_.reserve(request->choices() - 1));
    base::MutexLock lock(mu_);
    reserved_ = request->choices() - 1;
  }
  INGOT_RETURN_IF_ERROR(MakeCalls(episode));
  std::vector<std::shared_ptr<ChatCall>> calls;
  {
    base::MutexLock lock(mu_);
    calls = calls_;
  }
  INGOT_ASSIGN_OR_RETURN(const auto plans, PlanPrompts(*episode, *request));
  {
    base::MutexLock lock(mu_);
    if (!abort_.ok()) return abort_;
    phase_ = Phase::kRunning;
  }
  // After this point, each call ends on its own.
  for (size_t i = 0; i < calls.size(); ++i) calls[i]->Start(plans[i / request->n]);
  return absl::OkStatus();
}

absl::Status Answer::MakeCalls(const std::shared_ptr<Episode>& episode) {
  base::MutexLock lock(mu_);
  std::vector<std::shared_ptr<ChatCall>> calls;
  for (int choice = 0; choice < request_->choices(); ++choice) {
    calls.push_back(std::make_shared<ChatCall>(
        core_, ChatCall::Setup{.call_id = choice == 0 ? id_ : base::RandomHex(16),
                               .choice = choice,
                               .request = request_,
                               .episode = episode,
                               .arrival = arrival_,
                               .wake = hooks_.wake,
                               .on_done = [weak = weak_from_this()](const absl::Status& status) {
                                 // The gateway owns the answer until the last call is done.
                                 if (const auto self = weak.lock()) self->OnCallDone(status);
                               }}));
    if (choice > 0) continue;
    renderer_ = dialect_.NewRenderer({.id = calls[0]->id(),
                                      .created_unix_s = arrival_unix_ns_ / 1'000'000'000,
                                      .model = request_->model.empty() ? core_.options.model_name : request_->model},
                                     request_);
  }
  open_calls_ = static_cast<int>(calls.size());
  calls_ = calls;
  for (const auto& call : calls) INGOT_RETURN_IF_ERROR(call->Enter());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::shared_ptr<const PromptPlan>>> Answer::PlanPrompts(Episode& episode,
                                                                                   const GatewayRequest& request) {
  INGOT_RETURN_IF_ERROR(CheckToolChoice(*core_.parts.format, request));
  INGOT_RETURN_IF_ERROR(CheckStopIds(*core_.parts.tokenizer, request));
  // Errors in the prompt itself take precedence, even if no engine answers.
  const absl::StatusOr<int64_t> context = ContextOf(core_.backends.Of(request.model));
  std::vector<std::shared_ptr<const PromptPlan>> plans;
  for (int i = 0; i < request.prompts(); ++i) {
    INGOT_ASSIGN_OR_RETURN(PromptPlan plan, PlanPrompt(&episode, request, i, context));
    INGOT_RETURN_IF_ERROR(context.status());
    if (*context > 0 && std::ssize(plan.ids) >= *context) {
      return PromptTooLong(*context, request.prompt_field, plan.ids.size(), /*at_least=*/false);
    }
    plans.push_back(std::make_shared<const PromptPlan>(std::move(plan)));
  }
  // A text model gets the tools unchanged.
  const bool rendered = request.raw_prompts.empty() && core_.backends.Of(request.model).text == nullptr;
  if (rendered && request.tools_enabled()) core_.lost_tools.Note(request.conversation.tools.size());
  return plans;
}

absl::StatusOr<PromptPlan> Answer::PlanPrompt(Episode* episode, const GatewayRequest& request, int raw_prompt,
                                              const absl::StatusOr<int64_t>& context) const {
  const bool limited = context.ok() && *context > 0;
  const size_t most_ids = limited ? static_cast<size_t>(*context) - 1 : text::kAnyNumberOfIds;
  const PromptPlanner& planner = core_.planner;
  absl::StatusOr<PromptPlan> plan;
  if (!request.raw_prompts.empty()) {
    const GatewayRequest::RawPrompt& prompt = request.raw_prompts.at(raw_prompt);
    plan = planner.PlanRaw(prompt.text, prompt.ids, most_ids);
  } else {
    const auto find_kept = [&planner](const auto& conversation, size_t message, const History::SampledText& answer) {
      return planner.KeptPrefixOf(conversation, message, answer);
    };
    plan = planner.Plan(request.conversation,
                        episode == nullptr ? Continuation()
                                           : episode->FindContinuation(request.conversation, request.echoed_ids,
                                                                       request.branch, find_kept),
                        most_ids);
  }
  if (plan.ok()) return plan;
  if (const auto least = text::LeastIdsOf(plan.status())) {
    return PromptTooLong(*context, request.prompt_field, *least, /*at_least=*/true);
  }
  return BadRequest(request.prompt_field, std::string(plan.status().message()));
}

absl::Status Answer::CountTokens(std::shared_ptr<const GatewayRequest> request) {
  INGOT_ASSIGN_OR_RETURN(const PromptPlan plan,
                         PlanPrompt(nullptr, *request, 0, ContextOf(core_.backends.Of(request->model))));
  base::MutexLock lock(mu_);
  renderer_ = dialect_.NewRenderer({}, std::move(request));
  AnswerBegin begin;
  begin.prompt_tokens = static_cast<int64_t>(plan.ids.size());
  renderer_->Add(0, std::move(begin));
  return absl::OkStatus();
}

// ---- Running ------------------------------------------------------------------------------------------------------

void Answer::OnCallDone(const absl::Status& status) {
  std::vector<std::shared_ptr<ChatCall>> others;
  absl::Status failure;
  bool last = false;
  {
    base::MutexLock lock(mu_);
    last = --open_calls_ == 0;
    if (failure_.ok() && !status.ok()) {
      failure_ = status;
      if (calls_.size() > 1) others = calls_;
    }
    failure = failure_;
  }
  if (last) return Finish(std::move(failure));
  for (const auto& call : others) call->Abort(failure);
}

void Answer::Abort(absl::Status why) {
  std::vector<std::shared_ptr<ChatCall>> calls;
  bool finish = false;
  {
    base::MutexLock lock(mu_);
    if (abort_.ok()) abort_ = why;
    calls = calls_;
    if (phase_ == Phase::kQueued) {
      phase_ = Phase::kPreparing;
      finish = true;
    }
  }
  for (const auto& call : calls) call->Abort(why);
  if (!finish) return;
  core_.counters.CountCall(why, true);
  Finish(std::move(why));
}

void Answer::Finish(absl::Status status) {
  std::shared_ptr<Episode> episode;
  {
    base::MutexLock lock(mu_);
    episode = episode_;
  }
  if (!status.ok() && hooks_.confirm && MayDependOnEpisode()) status = hooks_.confirm(episode, std::move(status));
  int reserved = 0;
  {
    base::MutexLock lock(mu_);
    phase_ = Phase::kDone;
    failure_ = std::move(status);
    reserved = reserved_;
  }
  if (hooks_.on_done) hooks_.on_done(shared_from_this(), reserved);
  if (hooks_.wake) hooks_.wake();
}

// ---- Delivering ---------------------------------------------------------------------------------------------------

Answer::Output Answer::TakeOutput() {
  Output out;
  base::MutexLock lock(mu_);
  out.done = phase_ == Phase::kDone;
  out.stream = request_ != nullptr && request_->stream;
  if (out.done) out.status = failure_;
  if (renderer_ == nullptr || delivered_) return out;
  const bool whole = out.done && out.status.ok();
  if (out.stream || whole) {
    for (size_t i = 0; i < calls_.size(); ++i) {
      for (Event& event : calls_[i]->TakeOutput().events) renderer_->Add(static_cast<int>(i), std::move(event));
    }
  }
  if (whole) renderer_->Close();
  out.events = renderer_->TakeEvents();
  out.framing = renderer_->framing();
  if (whole && !out.stream) out.events = {{"", renderer_->Whole(), {}}};
  begun_ = begun_ || !out.events.empty();
  if (!out.done) return out;
  delivered_ = true;
  if (out.stream && begun_) out.trailer = renderer_->Trailer(out.status);
  return out;
}

}  // namespace ingot::gateway
