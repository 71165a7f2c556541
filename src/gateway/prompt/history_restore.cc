// Implements History::Restored, which undoes a client's changes to a conversation.
#include <algorithm>
#include <string>
#include <utility>

#include "gateway/prompt/history.h"

namespace ingot::gateway {
namespace {

// Returns true if a message that matched the delivered message also has the same spelling. REQUIRES: both have the same
// number of calls.
bool SaysAsDelivered(const text::Message& sent, const text::Message& delivered) {
  const auto same = [](const text::ToolCall& a, const text::ToolCall& b) {
    return a.name == b.name && a.arguments_json == b.arguments_json && a.written_id == b.written_id;
  };
  return sent.content == delivered.content && sent.reasoning == delivered.reasoning &&
         std::equal(sent.tool_calls.begin(), sent.tool_calls.end(), delivered.tool_calls.begin(), same);
}

void SayAsDelivered(const text::Message& delivered, text::Message& sent) {
  sent.content = delivered.content;
  sent.reasoning = delivered.reasoning;
  for (size_t i = 0; i < sent.tool_calls.size(); ++i) {
    sent.tool_calls[i].name = delivered.tool_calls[i].name;
    sent.tool_calls[i].arguments_json = delivered.tool_calls[i].arguments_json;
    sent.tool_calls[i].written_id = delivered.tool_calls[i].written_id;
  }
}

// A copy-on-write conversation.
class Restoring {
 public:
  explicit Restoring(const text::Conversation& sent) : sent_(sent) {}

  const text::Message& operator[](size_t message) const {
    return restored_.has_value() ? restored_->messages[message] : sent_.messages[message];
  }
  text::Message& Change(size_t message) {
    if (!restored_.has_value()) restored_ = sent_;
    return restored_->messages[message];
  }
  std::optional<text::Conversation> TakeRestored() { return std::move(restored_); }

 private:
  const text::Conversation& sent_;
  std::optional<text::Conversation> restored_;
};

}  // namespace

const std::string& History::WrittenId(const text::ToolCall& call) const {
  const auto found = written_ids_.find(call.id);
  return found == written_ids_.end() ? call.written_id : found->second;
}

int History::DeliveredAs(const text::Conversation& conversation, const ConversationKeys& keys, const EchoedIds& echoed,
                         size_t message) const {
  if (conversation.messages[message].role != "assistant") return -1;
  const auto here = by_prefix_.find(keys.after[message + 1]);
  return here == by_prefix_.end() ? -1 : Choose(here->second, conversation, keys, message, echoed);
}

const std::string* History::DroppedReasoning(const text::Conversation& conversation, const ConversationKeys& keys,
                                             const EchoedIds& echoed, size_t message) const {
  const text::Message& sent = conversation.messages[message];
  if (!any_reasoning_ || sent.role != "assistant" || !sent.reasoning.empty()) return nullptr;
  int chosen = DeliveredAs(conversation, keys, echoed, message);
  if (chosen < 0) chosen = NamedElsewhere(sent, keys.message[message], EchoedOf(echoed, message));
  if (chosen < 0 || calls_[chosen].delivered.reasoning.empty()) return nullptr;
  return &calls_[chosen].delivered.reasoning;
}

std::optional<text::Conversation> History::Restored(const text::Conversation& conversation,
                                                    const ConversationKeys& keys, const EchoedIds& echoed,
                                                    int call) const {
  const size_t count = conversation.messages.size();
  Restoring messages(conversation);
  for (size_t i = 0; i < count; ++i) {
    if (const std::string* reasoning = DroppedReasoning(conversation, keys, echoed, i)) {
      messages.Change(i).reasoning = *reasoning;
    }
    for (size_t c = 0; c < messages[i].tool_calls.size(); ++c) {
      const std::string& written_id = WrittenId(messages[i].tool_calls[c]);
      if (messages[i].tool_calls[c].written_id != written_id) messages.Change(i).tool_calls[c].written_id = written_id;
    }
  }
  size_t end = count;  // end of the range of messages that contains the answer of `call`
  std::vector<bool> on_path(count);
  for (; call >= 0; call = calls_[call].turn_before) {
    const Entry& entry = calls_[call];
    const size_t answer = AnswerOf(call, keys, end);
    if (answer == end) break;
    end = answer;
    on_path[answer] = true;
    if (SaysAsDelivered(messages[answer], entry.delivered)) continue;
    const std::optional<GrownAnswer> grown = GrownAnswerOf(call, messages[answer]);
    SayAsDelivered(entry.delivered, messages.Change(answer));
    if (grown.has_value()) messages.Change(answer).content = grown->content;
  }
  for (size_t i = 0; i < count; ++i) {
    const int delivered = on_path[i] ? -1 : DeliveredAs(conversation, keys, echoed, i);
    if (delivered < 0 || SaysAsDelivered(messages[i], calls_[delivered].delivered)) continue;
    SayAsDelivered(calls_[delivered].delivered, messages.Change(i));
  }
  return messages.TakeRestored();
}

}  // namespace ingot::gateway
