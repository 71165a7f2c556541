// Implements History::JoinTurns, which joins the parts of a turn that a client sent as separate messages.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "gateway/prompt/canonical.h"
#include "gateway/prompt/history.h"

namespace ingot::gateway {
namespace {

// Maximum number of parts in a turn that are compared with delivered messages.
constexpr size_t kMaxParts = 16;
// Separates the text of two parts that do not match a known answer. Parts of a known answer are not separated.
constexpr char kEmptyLine[] = "\n\n";

void JoinTo(text::Message& turn, const text::Message& part, std::string_view between) {
  const auto join = [&](std::string& text, const std::string& more) {
    if (!text.empty() && !more.empty()) text += between;
    text += more;
  };
  join(turn.content, part.content);
  join(turn.reasoning, part.reasoning);
  turn.tool_calls.insert(turn.tool_calls.end(), part.tool_calls.begin(), part.tool_calls.end());
  if (turn.name.empty()) turn.name = part.name;
  for (const auto& field : part.extra) turn.extra.emplace(field.key(), field.value());
}

}  // namespace

int History::NamedCall(const text::Message& message, const std::vector<std::string>* ids) const {
  for (size_t i = calls_.size(); i-- > 0;) {
    if (Names(static_cast<int>(i), message, ids)) return static_cast<int>(i);
  }
  return -1;
}

History::TurnParts History::PartsOfTurn(const text::Conversation& conversation, size_t first, size_t end,
                                        const base::Key128& before, const EchoedIds& echoed) const {
  const std::vector<text::Message>& messages = conversation.messages;
  TurnParts answer, asked, elsewhere;
  text::Message turn = messages[first], spaced = messages[first];
  for (size_t count = 1; count <= std::min(end - first, kMaxParts); ++count) {
    if (count > 1) {
      JoinTo(turn, messages[first + count - 1], "");
      JoinTo(spaced, messages[first + count - 1], kEmptyLine);
    }
    const base::Key128 key = MessageKey(turn);
    if (by_prefix_.contains(Chain(before, key))) answer = {count, ""};
    if (by_message_.contains(key)) elsewhere = {count, ""};
    if (asked.count > 0) continue;
    if (asked_.contains(Chain(before, key))) asked = {count, ""};
    if (asked_.contains(Chain(before, MessageKey(spaced)))) asked = {count, kEmptyLine};
  }
  for (const TurnParts& known : {answer, asked, elsewhere}) {
    if (known.count > 0) return known;
  }
  TurnParts unknown{1, kEmptyLine};
  int named = NamedCall(messages[first], EchoedOf(echoed, first));
  for (size_t i = first + 1; i < end; ++i, ++unknown.count) {
    const int other = NamedCall(messages[i], EchoedOf(echoed, i));
    const bool apart = named >= 0 && other >= 0 && named != other;
    if (apart || by_message_.contains(MessageKey(messages[i]))) break;
    if (named < 0) named = other;
  }
  return unknown;
}

std::optional<JoinedTurns> History::JoinTurns(const text::Conversation& sent, const ConversationKeys& keys,
                                              const EchoedIds& echoed) const {
  const std::vector<text::Message>& messages = sent.messages;
  const auto is_turn = [&](size_t i) { return i < messages.size() && messages[i].role == "assistant"; };
  const auto both = [](const text::Message& a, const text::Message& b) {
    return a.role == "assistant" && b.role == "assistant";
  };
  if (std::adjacent_find(messages.begin(), messages.end(), both) == messages.end()) return std::nullopt;
  JoinedTurns joined;
  joined.conversation.tools = sent.tools;
  joined.conversation.template_variables = sent.template_variables;
  joined.conversation.ends_begun = sent.ends_begun;
  base::Key128 before = keys.after[0];
  for (size_t i = 0; i < messages.size();) {
    size_t end = i + 1;
    while (is_turn(i) && is_turn(end)) ++end;
    const TurnParts parts = end - i > 1 ? PartsOfTurn(sent, i, end, before, echoed) : TurnParts{1, ""};
    text::Message& turn = joined.conversation.messages.emplace_back(messages[i]);
    std::vector<std::string>& ids = joined.echoed.emplace_back();
    for (end = i + parts.count; i < end; ++i) {
      if (i + parts.count > end) JoinTo(turn, messages[i], parts.between);
      if (const auto* own = EchoedOf(echoed, i)) ids.insert(ids.end(), own->begin(), own->end());
    }
    before = Chain(before, parts.count > 1 ? MessageKey(turn) : keys.message[end - 1]);
  }
  if (joined.conversation.messages.size() == messages.size()) return std::nullopt;
  joined.keys = ConversationKeys::Of(joined.conversation);
  joined.keys.thread = keys.thread;
  return joined;
}

}  // namespace ingot::gateway
