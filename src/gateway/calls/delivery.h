// Converts a growing generation to Events, and counts the ids whose text was sent. Not thread safe: ChatCall holds its
// lock while calling it.
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

  // Returns the number of ids after which the turn ends, or nullopt if it continues. The turn ends early if the client
  // accepts only one tool call and the first one is complete. Must be called for every state of `generation`, before
  // AddEvents.
  std::optional<int> EndsAfter(const Generation& generation);

  // Called when the generation has ended. After this, message() is the delivered message, and its calls have the ids
  // used in their events. If a malformed call's arguments were already partly sent, it stays a call and its arguments
  // are the model's full text.
  void End(const Generation& generation);
  const text::Message& message() const { return message_; }
  bool malformed() const { return text_.message().malformed; }  // REQUIRES: End

  // Appends `generation`'s events since the last call. Each call confirms that the previous events were sent. After
  // End, the last event is a single AnswerEnd.
  void AddEvents(const Generation& generation, std::vector<Event>& out);
  // Returns the number of sampled ids that are text. This excludes an id that ends the answer.
  int text_tokens(const Generation& generation) const;
  // Return the number of sampled ids whose text was definitely sent, and the number whose text may have been sent.
  int confirmed_tokens() const { return confirmed_; }
  int taken_tokens() const { return text_.delivered_tokens(); }
  // Returns the number of sampled ids that are part of the text. They can no longer change.
  int read_tokens() const { return fed_; }

 private:
  void Feed(const Generation& generation);
  void TakeParts(const Generation& generation, std::vector<Event>& out);
  void Open(const TurnText::Delta& delta, std::vector<Event>& out);
  void ClosePart(std::vector<Event>& out, bool cut);
  // Returns the tokens before index `last` that have not been in an event yet.
  std::vector<Token> TakeTokens(const Generation& generation, int last);

  const GatewayParts& parts_;
  const std::shared_ptr<const GatewayRequest> request_;
  const std::shared_ptr<const PromptPlan> plan_;
  const std::string call_id_;
  const bool one_call_;  // the turn ends after its first tool call
  TurnText text_;
  text::Message message_;
  std::optional<PartKind> open_;  // the part in progress
  int calls_ = 0;                 // tool calls begun so far
  int fed_ = 0;                   // ids pushed into text_
  int emitted_ = 0;               // ids whose tokens were in an event
  int confirmed_ = 0;             // confirmed_tokens()
  bool begun_ = false;
  bool ended_ = false;     // End was called
  bool finished_ = false;  // AddEvents added AnswerEnd
};

}  // namespace ingot::gateway
