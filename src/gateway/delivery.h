// What a call's client gets, in order, and how much of it surely was sent: a generation as it grows, to Events. Not
// thread safe: ChatCall calls it under its lock.
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

  // Where the client takes one call at a time and the first one is complete: how many ids the turn has. nullopt: the
  // turn goes on. To be asked of every state of `generation`, before Take.
  std::optional<int> EndsAfter(const Generation& generation);

  // The end of the generation is known: from here on message() is what will have been delivered. Its calls have the ids
  // that their events have or had. A call that turns out malformed after its arguments began to be sent stays a call,
  // with all of what the model wrote as its arguments.
  void End(const Generation& generation);
  const text::Message& message() const { return message_; }
  bool malformed() const { return text_.message().malformed; }  // REQUIRES: End

  // The events that came of `generation` since the last call, which says that what it returned was sent. After End they
  // end with AnswerEnd, once.
  void Take(const Generation& generation, std::vector<Event>& out);
  // Of the sampled ids, how many surely had their text sent, and of how many it may have been.
  int confirmed_tokens() const { return confirmed_; }
  int taken_tokens() const { return text_.delivered_tokens(); }

 private:
  void Feed(const Generation& generation);
  void TakeParts(const Generation& generation, std::vector<Event>& out);
  void Open(const TurnText::Delta& delta, std::vector<Event>& out);
  void ClosePart(std::vector<Event>& out, bool cut);
  // The ids before `last` that no event told of yet.
  std::vector<Token> TakeTokens(const Generation& generation, int last);
  int TextTokens(const Generation& generation) const;

  const GatewayParts& parts_;
  const std::shared_ptr<const GatewayRequest> request_;
  const std::shared_ptr<const PromptPlan> plan_;
  const std::string call_id_;
  const bool one_call_;  // the turn ends after its first
  TurnText text_;
  text::Message message_;
  std::optional<PartKind> open_;  // the part that is being told
  int calls_ = 0;                 // begun
  int fed_ = 0;                   // ids pushed into text_
  int told_ = 0;                  // ids whose tokens were told
  int confirmed_ = 0;
  bool begun_ = false;
  bool ended_ = false;     // End was called
  bool finished_ = false;  // AnswerEnd was taken
};

}  // namespace ingot::gateway
