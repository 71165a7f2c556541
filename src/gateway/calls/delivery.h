// Turns a growing generation into Events, and counts the ids whose text was sent. Not thread safe: ChatCall calls it
// under its lock.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/api/event.h"
#include "gateway/api/request.h"
#include "gateway/core.h"
#include "gateway/prompt/generation.h"
#include "gateway/prompt/prompt_plan.h"
#include "gateway/prompt/turn_text.h"

namespace ingot::gateway {

class Delivery {
 public:
  Delivery(const GatewayParts& parts, std::shared_ptr<const GatewayRequest> request,
           std::shared_ptr<const PromptPlan> plan, std::string call_id);

  // The number of ids after which the turn ends, because the client takes one tool call at a time and the first is
  // complete. nullopt = the turn continues. Call it for every state of `generation`, before AddEvents.
  std::optional<int> EndsAfter(const Generation& generation);

  // The generation has ended: message() is now the delivered message. Its calls carry the ids of their events. A
  // malformed call whose arguments were partly sent stays a call, with all of the model's text as its arguments.
  void End(const Generation& generation);
  const text::Message& message() const { return message_; }
  bool malformed() const { return text_.message().malformed; }  // REQUIRES: End

  // The events of `generation` since the last call. Each call confirms that the previous events were sent.
  // After End the last event is AnswerEnd, once.
  void AddEvents(const Generation& generation, std::vector<Event>& out);
  // The number of sampled ids that are text: all except an id that ends the answer.
  int text_tokens(const Generation& generation) const;
  // Numbers of sampled ids whose text was certainly sent, and whose text may have been sent.
  int confirmed_tokens() const { return confirmed_; }
  int taken_tokens() const { return text_.delivered_tokens(); }

 private:
  void Feed(const Generation& generation);
  void TakeParts(const Generation& generation, std::vector<Event>& out);
  void Open(const TurnText::Delta& delta, std::vector<Event>& out);
  void ClosePart(std::vector<Event>& out, bool cut);
  // The tokens before id `last` that no event has carried.
  std::vector<Token> TakeTokens(const Generation& generation, int last);

  const GatewayParts& parts_;
  const std::shared_ptr<const GatewayRequest> request_;
  const std::shared_ptr<const PromptPlan> plan_;
  const std::string call_id_;
  const bool one_call_;  // the turn ends after its first tool call
  TurnText text_;
  text::Message message_;
  std::optional<PartKind> open_;  // the part in progress
  int calls_ = 0;                 // tool calls begun
  int fed_ = 0;                   // ids pushed into text_
  int emitted_ = 0;               // ids whose tokens were in an event
  int confirmed_ = 0;             // confirmed_tokens()
  bool begun_ = false;
  bool ended_ = false;     // End was called
  bool finished_ = false;  // AddEvents added AnswerEnd
};

}  // namespace ingot::gateway
