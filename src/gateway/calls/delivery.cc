#include "gateway/calls/delivery.h"

#include <algorithm>
#include <span>
#include <utility>

#include "gateway/api/conversation_builder.h"

namespace ingot::gateway {
namespace {

std::string Bytes(int32_t id, const text::Tokenizer& tokenizer) { return tokenizer.TokenBytes(id); }

// Returns the ids at the end of an answer that are not text.
std::vector<int32_t> EndsOf(const GatewayParts& parts, const GatewayRequest& request) {
  std::vector<int32_t> ends = parts.format->end_of_turn_ids();
  if (!request.emits_stop) ends.insert(ends.end(), request.stop_token_ids.begin(), request.stop_token_ids.end());
  return ends;
}

TurnText::Options ReadingOf(const GatewayParts& parts, const GatewayRequest& request, const PromptPlan& plan) {
  TurnText::Options options{.tokenizer = parts.tokenizer,
                            .ends = EndsOf(parts, request),
                            .stop = request.stop,
                            .emits_stop = request.emits_stop,
                            .stop_from = request.min_tokens,
                            .marks_content = request.wants_tokens()};
  if (request.raw_output) return options;
  options.format = parts.format->output();
  options.reading = {.tools = request.conversation.tools,
                     .prefill = plan.prefill,
                     .calls = request.tools_enabled() ? text::CallMode::kStreamed : text::CallMode::kText};
  return options;
}

}  // namespace

Delivery::Delivery(const GatewayParts& parts, std::shared_ptr<const GatewayRequest> request,
                   std::shared_ptr<const PromptPlan> plan, std::string call_id)
    : parts_(parts),
      request_(std::move(request)),
      plan_(std::move(plan)),
      call_id_(std::move(call_id)),
      one_call_(!request_->parallel_tool_calls && request_->tools_enabled() && !request_->raw_output),
      text_(ReadingOf(parts, *request_, *plan_)) {}

void Delivery::Feed(const Generation& generation) {
  const auto& ids = generation.segment.token_ids();
  if (fed_ < ids.size()) text_.Push(std::span(ids.data() + fed_, ids.size() - fed_));
  fed_ = ids.size();
}

std::optional<int> Delivery::EndsAfter(const Generation& generation) {
  if (!one_call_) return std::nullopt;
  const auto& ids = generation.segment.token_ids();
  while (fed_ < ids.size() && text_.closed_calls() == 0) text_.Push(std::span(ids.data() + fed_++, 1));
  return text_.closed_calls() > 0 ? std::optional(fed_) : std::nullopt;
}

void Delivery::End(const Generation& generation) {
  Feed(generation);
  text_.Finish(generation.stop_string);
  const text::ParsedOutput& parsed = text_.message();
  message_ = {.role = "assistant",
              .content = parsed.content,
              .reasoning = parsed.reasoning,
              .tool_calls = parsed.tool_calls,
              .tool_call_id = {},
              .name = {}};
  for (size_t i = 0; i < message_.tool_calls.size(); ++i) {
    text::ToolCall& call = message_.tool_calls[i];
    call.written_id = std::exchange(call.id, EchoedId("call", call_id_, static_cast<int>(i)));
  }
  ended_ = true;
}

void Delivery::AddEvents(const Generation& generation, std::vector<Event>& out) {
  confirmed_ = text_.delivered_tokens();
  if (finished_) return;
  if (!ended_) Feed(generation);
  if (!begun_) {
    if (generation.size() == 0 && !ended_) return;
    begun_ = true;
    AnswerBegin begin{.prompt_tokens = static_cast<int64_t>(plan_->ids.size()), .prompt_ids = {}, .prompt_text = {}};
    if (request_->return_token_ids) begin.prompt_ids = plan_->ids;
    if (request_->echo_prompt) begin.prompt_text = text::ToUtf8(parts_.tokenizer->Decode(plan_->ids, false));
    out.emplace_back(std::move(begin));
  }
  TakeParts(generation, out);
  if (!ended_) return;
  // No API has a finish reason for a call that was halted because it repeated itself. It counts as truncated.
  const bool cut = generation.finish == v1::FINISH_LENGTH || generation.finish == v1::FINISH_REPETITION;
  ClosePart(out, cut);
  finished_ = true;
  AnswerEnd end{.finish = cut ? v1::FINISH_LENGTH : generation.finish,
                .stop_string = generation.stop_string,
                .tokens = {},
                .usage = {}};
  end.tokens = TakeTokens(generation, generation.size());
  end.usage = {.prompt_tokens = static_cast<int64_t>(plan_->ids.size()),
               .completion_tokens = generation.size(),
               .cached_tokens = generation.cached_tokens,
               .reasoning_tokens = text_.reasoning_tokens()};
  out.emplace_back(std::move(end));
}

void Delivery::TakeParts(const Generation& generation, std::vector<Event>& out) {
  for (TurnText::Delta& delta : text_.TakeDeltas()) {
    Open(delta, out);
    if (delta.text.empty()) continue;
    out.emplace_back(PartDelta{std::move(delta.text), TakeTokens(generation, delta.last_id)});
  }
}

void Delivery::Open(const TurnText::Delta& delta, std::vector<Event>& out) {
  if (open_ == delta.kind && !delta.begins) return;
  ClosePart(out, false);
  open_ = delta.kind;
  PartBegin begin{.kind = delta.kind, .id = {}, .name = {}};
  if (delta.kind == PartKind::kCall) begin = {delta.kind, EchoedId("call", call_id_, calls_++), delta.name};
  out.emplace_back(std::move(begin));
}

void Delivery::ClosePart(std::vector<Event>& out, bool cut) {
  if (open_.has_value()) out.emplace_back(PartEnd{cut});
  open_.reset();
}

std::vector<Token> Delivery::TakeTokens(const Generation& generation, int last) {
  std::vector<Token> tokens;
  if (!request_->wants_tokens()) return tokens;
  const int text_end = text_tokens(generation);
  for (; emitted_ < last; ++emitted_) {
    Token token{.id = generation.segment.token_ids(emitted_),
                .logprob = generation.segment.logprobs(emitted_),
                .is_text = emitted_ < text_end,
                .is_content = text_.is_content(emitted_),
                .bytes = {},
                .top = {}};
    if (request_->logprobs) token.bytes = Bytes(token.id, *parts_.tokenizer);
    if (request_->top_logprobs > 0 && emitted_ < static_cast<int>(generation.top_logprobs.size())) {
      for (const v1::TopLogprob& entry : generation.top_logprobs[emitted_].entries()) {
        token.top.push_back({entry.token_id(), entry.logprob(), Bytes(entry.token_id(), *parts_.tokenizer)});
      }
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

int Delivery::text_tokens(const Generation& generation) const {
  const auto& ids = generation.segment.token_ids();
  const std::vector<int32_t> ends = EndsOf(parts_, *request_);
  const bool ended = !ids.empty() && std::find(ends.begin(), ends.end(), ids[ids.size() - 1]) != ends.end();
  return ids.size() - (ended ? 1 : 0);
}

}  // namespace ingot::gateway
