#include <utility>

#include "base/json.h"
#include "gateway/api/dialect.h"

namespace ingot::gateway {
namespace {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};

void Append(std::vector<Token>& to, const std::vector<Token>& from) { to.insert(to.end(), from.begin(), from.end()); }

}  // namespace

bool Choice::has_calls() const {
  for (const Part& part : parts) {
    if (part.kind == PartKind::kCall) return true;
  }
  return false;
}

std::string Choice::TextOf(PartKind kind) const {
  std::string text;
  for (const Part& part : parts) {
    if (part.kind == kind) text += part.text;
  }
  return text;
}

std::vector<Token> Choice::Tokens() const {
  std::vector<Token> tokens;
  for (const Part& part : parts) Append(tokens, part.tokens);
  Append(tokens, end.tokens);
  return tokens;
}

void WireEvent::AppendSse(std::string& out) const {
  if (!name.empty()) absl::StrAppend(&out, "event: ", name, "\n");
  absl::StrAppend(&out, "data: ", data, "\n\n");
}

std::string WireEvent::Sse() const {
  std::string text;
  AppendSse(text);
  return text;
}

Renderer::Renderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request)
    : head_(std::move(head)), request_(std::move(request)), choices_(request_->choices()) {
  for (size_t i = 0; i < choices_.size(); ++i) choices_[i].index = static_cast<int>(i);
}

void Renderer::Add(int index, Event event) {
  Choice& choice = choices_.at(index);
  const bool stream = request_->stream;
  const size_t before = events_.size();
  std::visit(
      Overloaded{[&](AnswerBegin& begin) {
                   choice.begin = std::move(begin);
                   if (stream) OnBegin(choice);
                 },
                 [&](PartBegin& begin) {
                   choice.parts.push_back({begin.kind, std::move(begin.id), std::move(begin.name), {}, {}, false});
                   if (stream) OnPartBegin(choice);
                 },
                 [&](const PartDelta& delta) {
                   choice.parts.back().text += delta.text;
                   Append(choice.parts.back().tokens, delta.tokens);
                   if (request_->token_events) Append(unsent_, delta.tokens);
                   if (stream) OnDelta(choice, delta);
                 },
                 [&](PartEnd end) {
                   choice.parts.back().cut = end.cut;
                   if (stream) OnPartEnd(choice);
                 },
                 [&](AnswerEnd& end) {
                   choice.end = std::move(end);
                   if (request_->token_events) Append(unsent_, choice.end.tokens);
                   if (stream) OnEnd(choice);
                 }},
      event);
  // A dialect may send nothing for an event. In that case, the next event that it sends includes the ids.
  if (!unsent_.empty() && events_.size() > before) Append(events_.back().tokens, std::exchange(unsent_, {}));
}

void Renderer::Close() {
  if (request_->stream) OnClose();
}

std::vector<WireEvent> Renderer::TakeEvents() { return std::exchange(events_, {}); }

void Renderer::Send(std::string name, const base::json::value& data) {
  SendText(std::move(name), base::PrintJson(data));
}

void Renderer::SendText(std::string name, std::string json) {
  events_.push_back({std::move(name), std::move(json), {}});
}

Usage Renderer::TotalUsage() const {
  Usage total;
  for (const Choice& choice : choices_) {
    const Usage& usage = choice.end.usage;
    if (choice.index % request_->n == 0) total.prompt_tokens += usage.prompt_tokens;
    if (choice.index % request_->n == 0) total.cached_tokens += usage.cached_tokens;
    total.completion_tokens += usage.completion_tokens;
    total.reasoning_tokens += usage.reasoning_tokens;
  }
  return total;
}

}  // namespace ingot::gateway
