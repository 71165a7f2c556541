#include "engines/server/server_control.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/printable.h"
#include "base/secret.h"
#include "engines/api/event_stream.h"

namespace ingot::engines {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kHealthTimeout = seconds(5);
constexpr float kSameLogprob = 1e-3F;
constexpr char kCheckSalt[] = "ingot-check";
constexpr float kCertainBias = 100;  // the largest that servers accept

// Returns the greatest difference between log-probs of ids that both lists have.
float GreatestDifference(const v1::TopLogprobs& a, const v1::TopLogprobs& b) {
  float greatest = 0;
  for (const v1::TopLogprob& x : a.entries()) {
    for (const v1::TopLogprob& y : b.entries()) {
      if (x.token_id() == y.token_id()) greatest = std::max(greatest, std::abs(x.logprob() - y.logprob()));
    }
  }
  return greatest;
}

// Returns whether the most likely ids of a position have log-probs, rather than logits.
bool AreLogprobs(const v1::TopLogprobs& top, int32_t vocab_size) {
  double sum = 0, greatest = 0;
  for (const v1::TopLogprob& entry : top.entries()) {
    const double probability = std::exp(static_cast<double>(entry.logprob()));
    sum += probability;
    greatest = std::max(greatest, probability);
  }
  return sum <= 1 + kSameLogprob && greatest * vocab_size >= 1 - kSameLogprob;
}

// Merges the parts of a streamed answer into one event.
absl::StatusOr<AnswerEvent> WholeAnswer(const EngineApi& api, const std::string& body) {
  AnswerEvent all;
  EventStream stream;
  INGOT_RETURN_IF_ERROR(stream.Push(body + "\n\n", [&](std::string_view data) -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(const std::optional<AnswerEvent> event, api.ReadEvent(data));
    if (!event.has_value()) return absl::OkStatus();
    all.ids.insert(all.ids.end(), event->ids.begin(), event->ids.end());
    all.logprobs.insert(all.logprobs.end(), event->logprobs.begin(), event->logprobs.end());
    all.top_logprobs.insert(all.top_logprobs.end(), event->top_logprobs.begin(), event->top_logprobs.end());
    if (event->finish == ServerFinish::kNone) return absl::OkStatus();
    all.finish = event->finish;
    all.spans = event->spans;
    return absl::OkStatus();
  }));
  return all;
}

// A request for ids after the prompt, regardless of ids that end a turn.
v1::GenerateRequest SamplingRequest(const std::vector<int32_t>& prompt, int32_t count, float temperature) {
  v1::GenerateRequest request;
  request.mutable_prompt_ids()->Add(prompt.begin(), prompt.end());
  request.mutable_sampling()->set_temperature(temperature);
  request.mutable_sampling()->set_max_new_tokens(count);
  request.mutable_sampling()->set_ignore_eos(true);
  return request;
}

// With this kind of log-probs, no temperature is rejected.
GenerateContext SamplingContext(const ServedModel& model, const ServedWeights& served) {
  return {.model = model, .salt = served.salt, .logprobs = LogprobKind::kProcessed, .adapter = served.adapter};
}

}  // namespace

void ServerControl::set_url(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  base::MutexLock lock(mu_);
  url_ = std::move(url);
}

std::string ServerControl::url() const {
  base::MutexLock lock(mu_);
  return url_;
}

absl::StatusOr<std::string> ServerControl::Call(const ServerRequest& request, milliseconds timeout) {
  http::ClientRequest asked{.url = url() + request.path, .method = request.method, .body = request.body, .key = key_};
  if (!request.body.empty()) asked.headers["Content-Type"] = "application/json";
  asked.timeout = timeout;
  asked.cancelled = [this, before = interrupts_.load()] { return stopped_ || interrupts_ != before; };
  absl::StatusOr<http::Answer> answer = client_.Send(asked);
  const std::string where = absl::StrCat(name(), request.path.substr(0, request.path.find('?')));
  if (!answer.ok()) return base::Annotate(answer.status(), where);
  const absl::Status status = base::WithoutKey(api_.StatusOf(answer->status, answer->body), key_);
  INGOT_RETURN_IF_ERROR(base::Annotate(status, where));
  return std::move(answer->body);
}

absl::Status ServerControl::Health() { return Call(api_.Health(), kHealthTimeout).status(); }

absl::StatusOr<std::string> ServerControl::Label() {
  INGOT_ASSIGN_OR_RETURN(const std::string body, Call(api_.GetLabel(), kHealthTimeout));
  return api_.ReadLabel(body);
}

absl::Status ServerControl::Pause(SwapMode mode, milliseconds timeout) {
  for (const ServerRequest& call : api_.Pause(mode)) INGOT_RETURN_IF_ERROR(Call(call, timeout).status());
  return absl::OkStatus();
}

absl::Status ServerControl::LoadAndLabel(const std::string& model_dir, const std::string& label, milliseconds timeout) {
  INGOT_RETURN_IF_ERROR(Call(api_.Load(model_dir), timeout).status());
  INGOT_RETURN_IF_ERROR(Call(api_.SetLabel(label), timeout).status());
  INGOT_ASSIGN_OR_RETURN(const std::string reported, Label());
  if (reported == label) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(name(), " reports the weights '", base::Shown(reported), "' after '", label, "' was loaded"));
}

absl::StatusOr<AnswerEvent> ServerControl::Answer(const v1::GenerateRequest& request, const GenerateContext& context,
                                                  milliseconds timeout) {
  INGOT_ASSIGN_OR_RETURN(const ServerRequest asked, api_.Generate(request, context));
  INGOT_ASSIGN_OR_RETURN(const std::string body, Call(asked, timeout));
  return WholeAnswer(api_, body);
}

absl::StatusOr<AnswerEvent> ServerControl::Sample(const ServedModel& model, const std::vector<int32_t>& prompt,
                                                  const ServedWeights& served, milliseconds timeout,
                                                  float temperature) {
  v1::GenerateRequest request = SamplingRequest(prompt, 1, temperature);
  request.set_top_logprobs(5);
  INGOT_ASSIGN_OR_RETURN(AnswerEvent all, Answer(request, SamplingContext(model, served), timeout));
  if (all.ids.size() == 1 && all.logprobs.size() == 1 && all.top_logprobs.size() == 1) return all;
  if (all.finish == ServerFinish::kAborted) {
    return absl::UnavailableError(absl::StrCat(name(), " aborted a request for one token"));
  }
  return absl::FailedPreconditionError(absl::StrCat(name(), " answered a request for one token with ", all.ids.size()));
}

absl::StatusOr<AnswerEvent> ServerControl::Continue(const ServedModel& model, const std::vector<int32_t>& prompt,
                                                    int32_t count, const ServedWeights& served, milliseconds timeout) {
  INGOT_ASSIGN_OR_RETURN(AnswerEvent all, Answer(SamplingRequest(prompt, count, /*temperature=*/1),
                                                 SamplingContext(model, served), timeout));
  const bool whole = std::ssize(all.ids) == count && all.logprobs.size() == all.ids.size();
  if (!whole || all.finish != ServerFinish::kLength) {
    return absl::UnavailableError(
        absl::StrCat(name(), " answered a request for ", count, " tokens with ", all.ids.size()));
  }
  const auto outside = [&](int32_t id) { return id < 0 || id >= model.vocab_size; };
  if (std::none_of(all.ids.begin(), all.ids.end(), outside)) return all;
  return absl::DataLossError(absl::StrCat(name(), " sampled an id outside the vocabulary of ", model.vocab_size,
                                          ": does it serve the run's model?"));
}

absl::StatusOr<AnswerEvent> ServerControl::Score(const ServedModel& model, const std::vector<int32_t>& prompt,
                                                 const ServedWeights& served, milliseconds timeout) {
  v1::GenerateRequest request;
  request.mutable_prompt_ids()->Add(prompt.begin(), prompt.end());
  request.set_score_ids(static_cast<int32_t>(prompt.size()) - 1);
  request.mutable_sampling()->set_temperature(1);
  INGOT_ASSIGN_OR_RETURN(const ServerRequest asked,
                         api_.Generate(request, {.model = model, .salt = served.salt, .adapter = served.adapter}));
  INGOT_ASSIGN_OR_RETURN(const std::string body, Call(asked, timeout));
  return api_.ReadScores(request, body);
}

absl::StatusOr<std::optional<bool>> ServerControl::KnowsId(const ServedModel& model, int32_t id, milliseconds timeout) {
  v1::GenerateRequest request = SamplingRequest({0, 0}, 1, /*temperature=*/1);
  (*request.mutable_sampling()->mutable_logit_bias())[id] = kCertainBias;
  const absl::StatusOr<AnswerEvent> answer = Answer(request, {.model = model, .salt = kCheckSalt}, timeout);
  if (absl::IsInvalidArgument(answer.status())) return std::optional(false);
  INGOT_RETURN_IF_ERROR(answer.status());
  return answer->ids == std::vector<int32_t>{id} ? std::optional(true) : std::nullopt;
}

// The servers check a bias's id before the model sees it, but not all of them check a prompt's.
absl::Status ServerControl::CheckVocabulary(const ServedModel& model, milliseconds timeout) {
  const auto other = [&](std::string_view knows, int32_t id) {
    return absl::FailedPreconditionError(absl::StrCat(name(), " ", base::View(knows), " the id ", id,
                                                      ", but the run's model has a vocabulary of ", model.vocab_size,
                                                      " ids: start it with the run's model"));
  };
  INGOT_ASSIGN_OR_RETURN(const std::optional<bool> after, KnowsId(model, model.vocab_size, timeout));
  if (after == true) return other("samples", model.vocab_size);
  INGOT_ASSIGN_OR_RETURN(const std::optional<bool> last, KnowsId(model, model.vocab_size - 1, timeout));
  if (last != false) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const std::optional<bool> first, KnowsId(model, 0, timeout));
  return first == true ? other("rejects", model.vocab_size - 1) : absl::OkStatus();  // otherwise, it takes no biases
}

absl::StatusOr<LogprobKind> ServerControl::CheckStart(const ServedModel& model, SwapMode swap, milliseconds timeout) {
  INGOT_ASSIGN_OR_RETURN(const std::string info, Call(api_.Info(), kHealthTimeout));
  INGOT_ASSIGN_OR_RETURN(const int64_t length, api_.ReadContextLength(info, swap));
  if (length != 0 && length < model.context_length) {
    return absl::FailedPreconditionError(absl::StrCat(
        name(), " has a context of ", length, " tokens, but the run's is ", model.context_length, ": start it with ",
        api_.flags().context, " ", model.context_length, ", or lower rollout.context_length"));
  }
  INGOT_RETURN_IF_ERROR(Label().status());
  INGOT_RETURN_IF_ERROR(Call(api_.Resume(), kHealthTimeout).status());
  INGOT_RETURN_IF_ERROR(CheckVocabulary(model, timeout));
  const std::vector<int32_t> prompt = {0, std::min(1, model.vocab_size - 1)};
  INGOT_ASSIGN_OR_RETURN(const AnswerEvent plain, Sample(model, prompt, kCheckSalt, timeout));
  INGOT_ASSIGN_OR_RETURN(const AnswerEvent hot, Sample(model, prompt, kCheckSalt, timeout, /*temperature=*/2));
  if (plain.spans.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(name(), " does not report which weights sampled a token: it needs a newer release"));
  }
  if (!AreLogprobs(plain.top_logprobs[0], model.vocab_size)) {
    return absl::FailedPreconditionError(
        absl::StrCat(name(), " does not report log-probs: start it with ", api_.flags().raw_logprobs));
  }
  const bool same = GreatestDifference(plain.top_logprobs[0], hot.top_logprobs[0]) < kSameLogprob;
  return same ? LogprobKind::kRaw : LogprobKind::kProcessed;
}

}  // namespace ingot::engines
