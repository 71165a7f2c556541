// Matches messages that extend an answer: a client sends back the answer's stop string and may append text. Examples
// are text agents that put the tool result after "Observation:" in the same message, and agents that complete a closing
// tag.
//
//   delivered    Thought: add.\nAction: 1+2            by stop: ["Observation:"]
//   sampled      Thought: add.\nAction: 1+2\nObservation:
//   sent back    Thought: add.\nAction: 1+2\nObservation: 3
//                `--------------- sampled ids -----------'`-' the tail begins
//
// An answer that ended with another token is continued in the same way, but without that token. In that case, the stop
// string itself follows the sampled ids.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "gateway/prompt/canonical.h"
#include "gateway/prompt/history.h"

namespace ingot::gateway {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::string_view WithoutSpaceBefore(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kSpace), text.size()));
}

// Returns how many bytes of `text` match `beginning`, or npos if `text` does not begin with it. Both may have carriage
// returns before line feeds.
size_t BytesThatBegin(std::string_view text, std::string_view beginning) {
  size_t at = 0;
  for (size_t i = 0; i < beginning.size(); ++i, ++at) {
    if (text.substr(at).starts_with("\r\n") && beginning[i] == '\n') ++at;
    if (beginning.substr(i).starts_with("\r\n") && text.substr(at).starts_with("\n")) ++i;
    if (at >= text.size() || text[at] != beginning[i]) return std::string_view::npos;
  }
  return at;
}

// Returns the offset after the stop string at the beginning of `text`, ignoring whitespace, or npos if `text` does not
// begin with it.
size_t AfterStop(std::string_view text, std::string_view stop) {
  const std::string_view visible = Trim(stop);
  const std::string_view begin = visible.empty() ? text : WithoutSpaceBefore(text);
  const size_t bytes = BytesThatBegin(begin, visible.empty() ? stop : visible);
  return bytes == std::string_view::npos ? bytes : text.size() - begin.size() + bytes;
}

}  // namespace

std::optional<History::GrownAnswer> History::GrownAnswerOf(int call, const text::Message& sent) const {
  const Entry& entry = calls_[call];
  const std::string& answer = entry.delivered.content;
  if (!sent.tool_calls.empty() || !entry.delivered.tool_calls.empty()) return std::nullopt;
  // Compares with the answer as delivered, or as the client trimmed it.
  const std::string_view text = WithoutSpaceBefore(sent.content);
  size_t said = BytesThatBegin(text, WithoutSpaceBefore(answer));
  if (said == std::string_view::npos) said = BytesThatBegin(text, Trim(answer));
  if (said == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(said);
  const Ending& ending = entry.ending;
  if (!ending.stop.empty()) {
    const bool reported = answer.ends_with(ending.stop);  // the client requested it as part of the answer
    const size_t following = reported ? 0 : AfterStop(rest, ending.stop);
    if (following == std::string_view::npos || (reported && Trim(rest).empty())) return std::nullopt;
    GrownAnswer grown{.content = reported ? answer : answer + ending.stop};
    grown.following = grown.content.size();
    grown.content += rest.substr(following);
    return grown;
  }
  const auto stands = [&](const std::string& stop) { return AfterStop(rest, stop) != std::string_view::npos; };
  if (std::none_of(ending.stops.begin(), ending.stops.end(), stands)) return std::nullopt;
  return GrownAnswer{absl::StrCat(answer, base::View(rest)), answer.size()};
}

History::Match History::MatchAfter(const text::Conversation& conversation, const ConversationKeys& keys, size_t message,
                                   const EchoedIds& echoed) const {
  Match match;
  const auto found = stoppable_.find(keys.after[message]);
  if (found == stoppable_.end()) return match;
  const text::Message& sent = conversation.messages[message];
  for (const int call : Ordered(found->second, sent, EchoedOf(echoed, message), keys.thread)) {
    const Entry& entry = calls_[call];
    std::optional<GrownAnswer> grown = GrownAnswerOf(call, sent);
    if (!grown.has_value() || entry.ending.text_ids == 0 || !SameReasoning(sent.reasoning, entry.delivered_reasoning) ||
        !SameReasoningBefore(message, conversation, keys, call)) {
      continue;
    }
    match.kept_call = call;
    match.first_new = message + 1;
    match.kept.ids = entry.ending.text_ids;
    match.kept.message = entry.delivered;
    match.following = grown->content.substr(grown->following);
    match.kept.message.content = std::move(grown->content);
    return match;
  }
  return match;
}

}  // namespace ingot::gateway
