// Puts a conversation together from whatever pieces a dialect sends it in. The Responses API sends an assistant's turn
// as several items; here they become the one message that was delivered.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/api/event.h"
#include "gateway/api/request.h"

namespace ingot::gateway {

class ConversationBuilder {
 public:
  // Fills request.conversation.messages and request.echoed_ids.
  explicit ConversationBuilder(GatewayRequest& request) : request_(request) {}

  // Role system, user or tool.
  void Add(text::Message message);

  // All that is added to the assistant until the next Add is one message, even if it is nothing.
  void BeginTurn();
  // A part of the assistant's turn. Without BeginTurn it joins the last turn if it could be of the same answer:
  // reasoning, content, calls, in this order; ids that this gateway gave (CallIdIn) decide, even across results of
  // other calls of the turn. `id`: what the client sent with the part, may be empty.
  void AddReasoning(std::string_view text, std::string_view id);
  void AddContent(std::string_view text, std::string_view id);
  void AddCall(text::ToolCall call);
  // The part of an earlier answer that has this id of ours. False: it is none.
  bool AddReference(PartKind kind, std::string_view id, std::string path);

 private:
  text::Message& Turn(PartKind kind, std::string_view id);

  GatewayRequest& request_;
  bool in_turn_ = false;                  // BeginTurn was called
  size_t turn_ = SIZE_MAX;                // the assistant's last message
  PartKind last_ = PartKind::kReasoning;  // of its parts
  std::string turn_call_;                 // CallIdIn of its parts
  bool referred_reasoning_ = false;       // a reference in it stands for that text
  bool referred_content_ = false;
  bool only_results_ = true;  // nothing but results of calls stands behind it
};

// Ids that clients echo are made of the call's id (32 hexadecimal digits): PREFIX_callid, PREFIX_callid_INDEX.
std::string EchoedId(std::string_view prefix, std::string_view call_id, int index);
// The call id in such an id; empty for any other.
std::string CallIdIn(std::string_view id);
// The index in such an id; nullopt: there is none.
std::optional<size_t> IndexIn(std::string_view id);

}  // namespace ingot::gateway
