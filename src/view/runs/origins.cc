#include "view/runs/origins.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "tree/contexts.h"

namespace ingot::view {
namespace {

constexpr char kNewConversation[] = "new_conversation";  // Call.fork_cause for a request without an assistant message

// Strings that show that a later prompt quotes an answer if it contains them.
struct Quotes {
  std::string line;                    // the answer's longest line
  std::vector<std::string> arguments;  // string arguments in its tool calls
};

void AddTexts(const base::json::value& value, std::vector<std::string>& texts) {
  if (value.is_string()) texts.emplace_back(value.get_string());
  if (value.is_array()) {
    for (const base::json::value& element : value.get_array()) AddTexts(element, texts);
  }
  if (value.is_object()) {
    for (const auto& [key, field] : value.get_object()) AddTexts(field, texts);
  }
}

Quotes QuotesOf(const v1::Call& call) {
  Quotes quotes;
  const absl::StatusOr<base::json::value> message = base::ParseJson(call.delivered_json());
  if (!message.ok()) return quotes;
  std::vector<std::string> content;
  if (const base::json::value* field = base::Find(*message, "content")) AddTexts(*field, content);
  for (const std::string& text : content) {
    const std::vector<std::string> lines = absl::StrSplit(text, '\n');
    for (const std::string& line : lines) {
      std::string bare(absl::StripAsciiWhitespace(line));
      if (bare.size() > quotes.line.size()) quotes.line = std::move(bare);
    }
  }
  const base::json::value* calls = base::Find(*message, "tool_calls");
  if (calls == nullptr || !calls->is_array()) return quotes;
  for (const base::json::value& one : calls->get_array()) {
    const base::json::value* function = base::Find(one, "function");
    const base::json::value* arguments = function == nullptr ? nullptr : base::Find(*function, "arguments");
    if (arguments == nullptr) continue;
    if (!arguments->is_string()) {
      AddTexts(*arguments, quotes.arguments);
      continue;
    }
    const absl::StatusOr<base::json::value> parsed = base::ParseJson(std::string(arguments->get_string()));
    if (parsed.ok()) AddTexts(*parsed, quotes.arguments);
  }
  return quotes;
}

class Prompts {
 public:
  Prompts(const v1::EpisodeTree& tree, const text::Tokenizer& tokenizer)
      : tree_(tree), tokenizer_(tokenizer), contexts_(tree.calls()) {}

  // Returns the text of a call's whole prompt, or "" if part of it is not stored.
  const std::string& Of(int call) {
    const auto [found, added] = texts_.try_emplace(call);
    if (!added) return found->second;
    const absl::StatusOr<std::vector<std::string>> keys = contexts_.KeysOf(tree_.calls(call));
    if (!keys.ok()) return found->second;
    std::vector<int32_t> ids;
    for (const std::string& key : *keys) {
      const auto segment = tree_.segments().find(absl::BytesToHexString(key));
      if (segment == tree_.segments().end()) return found->second;
      ids.insert(ids.end(), segment->second.token_ids().begin(), segment->second.token_ids().end());
    }
    found->second = tokenizer_.DecodeText(ids, false);
    return found->second;
  }

  // Returns true if `later` contains the text from `earlier`'s answer.
  bool Quotes(int later, int earlier, const std::string& text) {
    const auto has = [&](int call) { return Of(call).find(text) != std::string::npos; };
    return text.size() >= kMinQuote && has(later) && !has(earlier);
  }

 private:
  const v1::EpisodeTree& tree_;
  const text::Tokenizer& tokenizer_;
  const tree::Contexts contexts_;
  std::map<int, std::string> texts_;
};

}  // namespace

std::vector<Origin> OriginsOf(const v1::EpisodeTree& tree, const text::Tokenizer& tokenizer) {
  std::vector<Origin> origins(static_cast<size_t>(tree.calls_size()));
  Prompts prompts(tree, tokenizer);
  std::map<int, Quotes> quotes;
  std::set<std::string> threads;
  for (int i = 0; i < tree.calls_size(); ++i) {
    const v1::Call& call = tree.calls(i);
    Origin& origin = origins[static_cast<size_t>(i)];
    const bool begins_thread = threads.insert(call.branch()).second;
    if (begins_thread && !call.parent_branch().empty() && call.parent_branch() != call.branch()) {
      origin.kind = OriginKind::kSubAgent;
    }
    if (call.fork_cause() != kNewConversation) continue;
    for (int earlier = i - 1; earlier >= std::max(0, i - kMaxEarlier) && origin.call < 0; --earlier) {
      const auto [said, added] = quotes.try_emplace(earlier);
      if (added) said->second = QuotesOf(tree.calls(earlier));
      const std::vector<std::string>& arguments = said->second.arguments;
      const bool argument = std::any_of(arguments.begin(), arguments.end(),
                                        [&](const std::string& text) { return prompts.Quotes(i, earlier, text); });
      if (!argument && !prompts.Quotes(i, earlier, said->second.line)) continue;
      if (origin.kind == OriginKind::kNone) origin.kind = argument ? OriginKind::kSubAgent : OriginKind::kSummary;
      origin.call = tree.calls(earlier).sequence();
    }
  }
  return origins;
}

}  // namespace ingot::view
