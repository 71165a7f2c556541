#include "gateway/api/conversation_builder.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/status.h"

namespace ingot::gateway {
namespace {

constexpr size_t kCallIdDigits = 32;

bool IsHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

}  // namespace

std::string EchoedId(std::string_view prefix, std::string_view call_id, int index) {
  return absl::StrCat(base::View(prefix), "_", base::View(call_id), "_", index);
}

std::string CallIdIn(std::string_view id) {
  const size_t begin = id.find('_') + 1;  // npos + 1 is 0
  if (begin == 0 || id.size() < begin + kCallIdDigits) return "";
  const std::string_view digits = id.substr(begin, kCallIdDigits);
  const bool ends = id.size() == begin + kCallIdDigits || id[begin + kCallIdDigits] == '_';
  return ends && std::all_of(digits.begin(), digits.end(), IsHex) ? std::string(digits) : "";
}

std::optional<size_t> IndexIn(std::string_view id) {
  if (CallIdIn(id).empty()) return std::nullopt;
  id.remove_prefix(std::min(id.find('_') + kCallIdDigits + 2, id.size()));
  uint32_t index = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), index);
  if (error != std::errc() || end != id.data() + id.size()) return std::nullopt;
  return index;
}

void ConversationBuilder::Add(text::Message message) {
  only_results_ = only_results_ && message.role == "tool";
  request_.conversation.messages.push_back(std::move(message));
  request_.echoed_ids.push_back({});
  in_turn_ = false;
}

void ConversationBuilder::BeginTurn() {
  Add({.role = "assistant", .content = {}, .reasoning = {}, .tool_calls = {}, .tool_call_id = {}, .name = {}});
  turn_ = request_.conversation.messages.size() - 1;
  turn_call_.clear();
  last_ = PartKind::kReasoning;
  referred_reasoning_ = referred_content_ = false;
  only_results_ = true;
  in_turn_ = true;
}

text::Message& ConversationBuilder::Turn(PartKind kind, std::string_view id) {
  std::vector<text::Message>& messages = request_.conversation.messages;
  const std::string call = CallIdIn(id);
  const bool same = !call.empty() && call == turn_call_;
  const bool other = !call.empty() && !turn_call_.empty() && call != turn_call_;
  bool joins = in_turn_;
  if (!joins && turn_ < messages.size()) {
    const bool last = turn_ + 1 == messages.size();
    joins = (last && !other && (same || kind >= last_)) || (same && kind == PartKind::kCall && only_results_);
  }
  if (!joins) {
    BeginTurn();
    in_turn_ = false;
  }
  last_ = kind;
  if (!call.empty()) {
    turn_call_ = call;
    request_.echoed_ids[turn_].emplace_back(id);
  }
  return messages[turn_];
}

void ConversationBuilder::AddReasoning(std::string_view text, std::string_view id) {
  Turn(PartKind::kReasoning, id).reasoning += text;
}

void ConversationBuilder::AddContent(std::string_view text, std::string_view id) {
  Turn(PartKind::kContent, id).content += text;
}

void ConversationBuilder::AddCall(text::ToolCall call) {
  text::Message& turn = Turn(PartKind::kCall, call.id);
  turn.tool_calls.push_back(std::move(call));
}

bool ConversationBuilder::AddReference(PartKind kind, std::string_view id, std::string path) {
  const std::optional<size_t> index = IndexIn(id);
  if (!index.has_value()) return false;
  text::Message& turn = Turn(kind, id);
  GatewayRequest::ItemReference reference{turn_, kind, 0, CallIdIn(id), *index, std::move(path)};
  if (kind == PartKind::kCall) {
    reference.at = turn.tool_calls.size();
    turn.tool_calls.emplace_back();
  } else {
    // The first reference represents the answer's entire text, even if it was delivered in several parts.
    if (std::exchange(kind == PartKind::kReasoning ? referred_reasoning_ : referred_content_, true)) return true;
    reference.at = (kind == PartKind::kReasoning ? turn.reasoning : turn.content).size();
  }
  request_.references.push_back(std::move(reference));
  return true;
}

}  // namespace ingot::gateway
