// What clients change of a conversation, put back: History::Restored.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "gateway/history.h"

namespace ingot::gateway {
namespace {

// Whether a message that matched what was delivered also has its spelling. REQUIRES: as many calls in both.
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

bool ContinuesEchoed(const EchoedIds& now, const EchoedIds& before) {
  return now.empty() ? before.empty() : before.settled() > 0 && now.ContinuesSettled(before);
}

constexpr size_t kMaxCallsSince = 32;  // to be looked at for each conversation that goes on

}  // namespace

// It is the same in every conversation that goes on from these messages by the same call, as long as no other call of
// the history has to do with them.
struct History::RestoredBeginning {
  uint64_t history = 0;                         // Identity
  base::Key128 key = {};                        // ConversationKeys::after
  EchoedIds echoed;                             // settled
  int call = -1;                                // RestoreSettled's
  size_t calls = 0;                             // that the history had
  bool looked_elsewhere = false;                // for a message that is no answer to what stands before it
  std::unordered_set<std::string> unknown_ids;  // of tool calls, by which no other id is known
  std::optional<text::MessageList> messages;    // all settled; nullopt: as they were sent
};

struct History::Restoring {
  const text::Conversation& sent;
  const ConversationKeys& keys;
  const EchoedIds& echoed;
  text::MessageList messages;  // of `sent`, so far
  RestoredBeginning* looked;   // null: what was looked for is not asked
  bool changed = false;
};

uint64_t History::Identity::New() {
  static std::atomic<uint64_t> count{0};
  return ++count;
}

const std::string& History::WrittenId(const text::ToolCall& call) const {
  const auto found = written_ids_.find(call.id);
  return found == written_ids_.end() ? call.written_id : found->second;
}

void History::PutBack(Restoring& restoring, size_t first, size_t count) const {
  static constexpr char kWithReasoning = 0, kWithWrittenIds = 0;
  const auto has_ids = [this](const text::Message& message) {
    return std::all_of(message.tool_calls.begin(), message.tool_calls.end(),
                       [&](const text::ToolCall& call) { return call.written_id == WrittenId(call); });
  };
  const auto put_reasoning = [&](size_t i) {
    const text::Message& message = restoring.sent.messages[i];
    if (message.role != "assistant" || !message.reasoning.empty()) return;
    const auto here = by_prefix_.find(restoring.keys.after[i + 1]);
    int chosen =
        here == by_prefix_.end() ? -1 : Choose(here->second, restoring.sent, restoring.keys, i, restoring.echoed);
    if (chosen < 0) {
      if (restoring.looked != nullptr) restoring.looked->looked_elsewhere = true;
      chosen = NamedElsewhere(message, restoring.keys.message[i], EchoedOf(restoring.echoed, i));
    }
    if (chosen < 0 || calls_[chosen].delivered.reasoning.empty()) return;
    const std::string& reasoning = calls_[chosen].delivered.reasoning;
    restoring.changed = true;
    restoring.messages.Exchange(
        i, &kWithReasoning, [&](const text::Message& copy) { return copy.reasoning == reasoning; },
        [&](text::Message& copy) { copy.reasoning = reasoning; });
  };
  for (size_t i = first; i < count; ++i) {
    put_reasoning(i);
    const text::Message& message = restoring.messages[i];
    for (size_t c = 0; restoring.looked != nullptr && c < message.tool_calls.size(); ++c) {
      const std::string& id = message.tool_calls[c].id;
      if (!written_ids_.contains(id)) restoring.looked->unknown_ids.insert(id);
    }
    if (has_ids(message)) continue;
    restoring.changed = true;
    restoring.messages.Exchange(i, &kWithWrittenIds, has_ids, [this](text::Message& copy) {
      for (text::ToolCall& call : copy.tool_calls) call.written_id = WrittenId(call);
    });
  }
}

int History::PutDelivered(Restoring& restoring, int call, size_t first, size_t end) const {
  static constexpr char kAsDelivered = 0;
  for (; call >= 0; call = calls_[call].parent) {
    const Entry& entry = calls_[call];
    const size_t message = AnswerOf(call, restoring.keys, end);
    if (message == end) return -1;
    if (message < first) return call;
    end = message;
    if (SaysAsDelivered(restoring.messages[message], entry.delivered)) continue;
    restoring.changed = true;
    restoring.messages.Exchange(
        message, &kAsDelivered, [&](const text::Message& copy) { return SaysAsDelivered(copy, entry.delivered); },
        [&](text::Message& copy) { SayAsDelivered(entry.delivered, copy); });
  }
  return -1;
}

// A call that has come since changes what was found if it is found by what was looked for: the keys of prefixes, those
// of messages, and ids.
bool History::StillHolds(const RestoredBeginning& beginning, const ConversationKeys& keys, size_t settled) const {
  const auto has = [settled](const std::vector<base::Key128>& all, size_t first, const base::Key128& key) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(settled);
    return std::find(begin, end, key) != end;
  };
  for (size_t i = beginning.calls; i < calls_.size(); ++i) {
    const Entry& entry = calls_[i];
    if (entry.broken_off) continue;
    if (has(keys.after, 1, entry.prefix)) return false;
    if (beginning.looked_elsewhere && has(keys.message, 0, entry.message)) return false;
    for (const text::ToolCall& call : entry.delivered.tool_calls) {
      if (!call.written_id.empty() && beginning.unknown_ids.contains(call.id)) return false;
    }
  }
  return true;
}

std::shared_ptr<const History::RestoredBeginning> History::RestoreSettled(const text::Conversation& conversation,
                                                                          const ConversationKeys& keys,
                                                                          const EchoedIds& echoed, int call) const {
  static constexpr char kRestored = 0;
  const text::MessageList& messages = conversation.messages;
  const size_t settled = messages.settled();
  const bool alike = echoed.empty() || echoed.settled() == settled;  // others are told apart by no one thing
  auto known = alike ? messages.OfSettled<RestoredBeginning>(&kRestored) : nullptr;
  if (known != nullptr && known->history == identity_.value && known->key == keys.after[settled] &&
      known->echoed.SharesSettled(echoed) && known->call == call && StillHolds(*known, keys, settled)) {
    if (calls_.size() - known->calls < kMaxCallsSince) return known;
    auto renewed = std::make_shared<RestoredBeginning>(*known);
    renewed->calls = calls_.size();
    messages.KeepOfSettled<RestoredBeginning>(&kRestored, renewed);
    return renewed;
  }
  auto made = std::make_shared<RestoredBeginning>();
  made->history = identity_.value;
  made->key = keys.after[settled];
  made->echoed = echoed.SettledPart();
  made->call = call;
  made->calls = calls_.size();
  Restoring restoring{conversation, keys, echoed, messages.SettledPart(), made.get()};
  // What was settled before more was is as it was then, if that was made for the call from which this comes.
  auto [earlier, first] = messages.TakeOfEarlier<RestoredBeginning>(&kRestored);
  if (earlier == nullptr || !alike || earlier->history != identity_.value || earlier->key != keys.after[first] ||
      !ContinuesEchoed(echoed, earlier->echoed) || !StillHolds(*earlier, keys, first)) {
    earlier = nullptr;
    first = settled;
  }
  PutBack(restoring, first, settled);
  const int before = PutDelivered(restoring, call, first, settled);
  if (earlier != nullptr && earlier->call == before) {
    made->looked_elsewhere |= earlier->looked_elsewhere;
    made->unknown_ids.insert(earlier->unknown_ids.begin(), earlier->unknown_ids.end());
    if (earlier->messages.has_value()) {
      restoring.messages.TakeSettled(*earlier->messages);
      restoring.changed = true;
    }
  } else {
    PutBack(restoring, 0, first);
    PutDelivered(restoring, before, 0, first);
  }
  if (restoring.changed) {
    restoring.messages.Settle(settled);
    made->messages = std::move(restoring.messages);
  }
  if (alike) messages.KeepOfSettled<RestoredBeginning>(&kRestored, made);
  return made;
}

std::optional<text::Conversation> History::Restored(const text::Conversation& conversation,
                                                    const ConversationKeys& keys, const EchoedIds& echoed,
                                                    int call) const {
  const size_t settled = conversation.messages.settled(), count = conversation.messages.size();
  Restoring restoring{conversation, keys, echoed, conversation.messages, nullptr};
  PutBack(restoring, settled, count);
  const int before = PutDelivered(restoring, call, settled, count);
  if (settled > 0) {
    const auto beginning = RestoreSettled(conversation, keys, echoed, before);
    if (beginning->messages.has_value()) {
      restoring.messages.TakeSettled(*beginning->messages);
      restoring.changed = true;
    }
  }
  if (!restoring.changed) return std::nullopt;
  return text::Conversation{std::move(restoring.messages), conversation.tools, conversation.template_variables};
}

}  // namespace ingot::gateway
