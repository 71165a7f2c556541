#include <algorithm>

#include "base/checksum.h"
#include "base/printable.h"
#include "text/chat/chat.h"
#include "text/output/format_spec.h"
#include "text/output/output_format.h"
#include "text/python_json.h"

namespace ingot::text {
namespace {

using base::Find;

// A format literal that is one token in the tokenizer.
struct Marker {
  std::string text;
  int32_t id;
};

// Assembles a prompt. Holds ordinary text back until a token or a border ends it. A tokenizer with merges then sees it
// as one piece, regardless of where it came from.
class Assembler {
 public:
  Assembler(const Tokenizer& tokenizer, const std::vector<Marker>& markers, size_t most_ids = kAnyNumberOfIds)
      : tokenizer_(tokenizer), markers_(markers), most_ids_(most_ids) {}

  // Adds message text.
  void Plain(std::string_view text) { held_ += text; }

  // Adds format text, whose markers become tokens.
  void Literal(std::string_view text) {
    while (!text.empty()) {
      size_t at = std::string_view::npos;
      const Marker* found = nullptr;
      for (const Marker& marker : markers_) {
        const size_t here = text.find(marker.text);
        if (here < at) {
          at = here;
          found = &marker;
        }
      }
      held_ += text.substr(0, at);
      if (found == nullptr) return;
      Border();
      ids_.push_back(found->id);
      text.remove_prefix(at + found->text.size());
    }
  }

  // Ends the held text here, so no id spans this point. Returns the number of ids before it.
  size_t Border() {
    if (held_.empty()) return ids_.size();
    const size_t least = ids_.size() + left_out_ + (held_.size() > most_ids_ ? tokenizer_.LeastIds(held_) : 0);
    if (least > most_ids_) {
      left_out_ = least - ids_.size();
    } else {
      const std::vector<int32_t> more = tokenizer_.Encode(held_, false);
      ids_.insert(ids_.end(), more.begin(), more.end());
    }
    held_.clear();
    return ids_.size();
  }

  // Returns TooManyIds if the text is certain to have more than `most_ids`.
  absl::StatusOr<std::vector<int32_t>> TakeIds() {
    Border();
    if (left_out_ > 0) return TooManyIds(ids_.size() + left_out_);
    return std::move(ids_);
  }

 private:
  const Tokenizer& tokenizer_;
  const std::vector<Marker>& markers_;  // longest first
  const size_t most_ids_;
  std::string held_;
  std::vector<int32_t> ids_;
  size_t left_out_ = 0;  // lower bound on the number of ids in text not encoded after most_ids_ was exceeded
};

// Returns an OpenAI tool as name(parameter, ...).
std::string Signature(const base::json::value& tool) {
  const base::json::value* function = Find(tool, "function");
  if (function == nullptr) return "";
  const base::json::value* name = Find(*function, "name");
  std::string out = name != nullptr && name->is_string() ? std::string(name->get_string()) : "";
  out += '(';
  const base::json::value* parameters = Find(*function, "parameters");
  const base::json::value* properties = parameters != nullptr ? Find(*parameters, "properties") : nullptr;
  if (properties != nullptr && properties->is_object()) {
    bool first = true;
    for (const auto& property : properties->get_object()) {
      if (!first) out += ',';
      first = false;
      out += std::string(property.key());
    }
  }
  out += ')';
  return out;
}

class SpecFormat final : public ChatFormat {
 public:
  SpecFormat(const FormatSpec& spec, std::shared_ptr<const Tokenizer> tokenizer, std::span<const int32_t> model_ends)
      : spec_(spec), tokenizer_(std::move(tokenizer)) {
    for (const std::string& text : spec_.Markers()) {
      if (const auto id = tokenizer_->SpecialId(text)) markers_.push_back({text, *id});
    }
    std::stable_sort(markers_.begin(), markers_.end(),
                     [](const Marker& a, const Marker& b) { return a.text.size() > b.text.size(); });
    turn_end_id_ = *tokenizer_->SpecialId(spec_.turn_end);
    end_of_turn_ids_.push_back(turn_end_id_);
    if (const auto id = tokenizer_->SpecialId(spec_.stop_token)) end_of_turn_ids_.push_back(*id);
    for (const int32_t id : model_ends) {
      const bool known = std::find(end_of_turn_ids_.begin(), end_of_turn_ids_.end(), id) != end_of_turn_ids_.end();
      if (!known && id < tokenizer_->vocab_size()) end_of_turn_ids_.push_back(id);
    }
    fingerprint_ = base::Hex(base::ContentKey(spec_.Definition()));
    output_ = (*FindOutputFormat(spec_.name))->ForTokenizer(*tokenizer_);  // every spec has a row in the table
  }

  absl::StatusOr<RenderedPrompt> Render(const Conversation& conversation, bool add_generation_prompt,
                                        size_t most_ids) const override {
    const std::vector<Message>& messages = conversation.messages;
    if (messages.empty()) return absl::InvalidArgumentError("a conversation needs at least one message");
    INGOT_RETURN_IF_ERROR(CheckTextAlone(messages));
    INGOT_RETURN_IF_ERROR(Check(messages, 0));
    RenderedPrompt prompt;
    Assembler out(*tokenizer_, markers_, most_ids);
    const bool begun = add_generation_prompt && conversation.ends_begun;
    for (size_t i = 0; i < messages.size(); ++i) {
      if (i == 0) RenderSystem(conversation, out);
      prompt.sampled_ranges.push_back(RenderMessage(conversation, i, begun && i + 1 == messages.size(), out));
      prompt.message_ends.push_back(out.Border());
    }
    if (begun) prompt.prefill = kBegunContent;
    if (add_generation_prompt && !begun) Header("assistant", out);
    INGOT_ASSIGN_OR_RETURN(prompt.ids, out.TakeIds());
    return prompt;
  }

  absl::StatusOr<std::vector<RenderedTurn>> RenderTurns(const Conversation& conversation,
                                                        size_t first_message) const override {
    const std::vector<Message>& messages = conversation.messages;
    INGOT_RETURN_IF_ERROR(CheckTextAlone(messages));
    std::vector<RenderedTurn> turns;
    RenderedPrompt prompt;
    size_t rendered = 0;  // messages rendered so far
    size_t before = 0;    // end of the previous turn, in ids
    for (size_t i = first_message; i < messages.size(); ++i) {
      if (messages[i].role != "assistant") continue;
      size_t shared = before;
      if (i >= rendered) {
        rendered = WrittenAlike(messages, i);
        Conversation then = conversation;
        then.messages.resize(rendered);
        const std::vector<int32_t> last = std::move(prompt.ids);
        INGOT_ASSIGN_OR_RETURN(prompt, Render(then, false, kAnyNumberOfIds));
        const auto same = std::mismatch(last.begin(), last.end(), prompt.ids.begin(), prompt.ids.end());
        shared = std::min(shared, static_cast<size_t>(same.first - last.begin()));
      }
      const auto [first, end] = prompt.sampled_ranges[i];
      const auto ids = prompt.ids.begin();
      shared = std::min(shared, first);
      turns.push_back({.message = i,
                       .shared = shared,
                       .context = {ids + static_cast<std::ptrdiff_t>(shared), ids + static_cast<std::ptrdiff_t>(first)},
                       .sampled = {ids + static_cast<std::ptrdiff_t>(first), ids + static_cast<std::ptrdiff_t>(end)}});
      before = end;
    }
    return turns;
  }

  absl::StatusOr<RenderedTail> RenderTail(const Conversation& conversation, size_t first_new,
                                          std::span<const int32_t> turn, const TailOptions& options) const override {
    const std::vector<Message>& messages = conversation.messages;
    INGOT_RETURN_IF_ERROR(CheckTail(messages, first_new));
    INGOT_RETURN_IF_ERROR(Check(messages, first_new));
    if (options.earlier == EarlierTurns::kAsTemplate) INGOT_RETURN_IF_ERROR(CheckReasoningStays(messages, first_new));
    Assembler out(*tokenizer_, markers_, options.most_ids);
    out.Plain(options.following);
    RenderedTail tail;
    if (conversation.ends_begun) tail.prefill = kBegunContent;
    if (!conversation.ends_begun || first_new < messages.size()) {
      // Other stop tokens are not the template's end of turn, so the history would lack the border.
      if (turn.empty() || turn.back() != turn_end_id_) out.Literal(spec_.turn_end);
      out.Literal(spec_.after_turn);
    }
    for (size_t i = first_new; i < messages.size(); ++i) {
      RenderMessage(conversation, i, conversation.ends_begun && i + 1 == messages.size(), out);
      out.Border();
    }
    // The entire generation prompt. It contains no part of the answer.
    if (!conversation.ends_begun) Header("assistant", out);
    INGOT_ASSIGN_OR_RETURN(tail.ids, out.TakeIds());
    return tail;
  }

  const std::shared_ptr<const OutputFormat>& output() const override { return output_; }
  bool ReadsVariable(std::string_view) const override { return false; }
  const std::vector<int32_t>& end_of_turn_ids() const override { return end_of_turn_ids_; }
  const std::string& fingerprint() const override { return fingerprint_; }
  ReasoningSyntax SyntaxOfReasoning() const override { return {spec_.think_begin, spec_.think_end, spec_.after_think}; }

 private:
  // Returns how many messages one rendering may contain if all turns starting at message `i` must have the same text as
  // when rendered one by one. The limit is the next user message that drops reasoning.
  static size_t WrittenAlike(const std::vector<Message>& messages, size_t i) {
    size_t asked = i;
    while (asked > 0 && messages[asked - 1].role != "user") --asked;
    bool reasons = false;  // some message since the last user message has reasoning
    for (size_t k = asked; k < messages.size(); ++k) {
      if (messages[k].role != "user") {
        reasons = reasons || !messages[k].reasoning.empty();
      } else if (std::exchange(reasons, false) && k > i) {
        return k;
      }
    }
    return messages.size();
  }

  // Returns FAILED_PRECONDITION if a user message at or after `first_new` drops an earlier turn's reasoning.
  static absl::Status CheckReasoningStays(const std::vector<Message>& messages, size_t first_new) {
    const auto is_user = [](const Message& message) { return message.role == "user"; };
    if (std::none_of(messages.begin() + first_new, messages.end(), is_user)) return absl::OkStatus();
    for (size_t i = first_new; i-- > 0;) {
      if (is_user(messages[i])) break;
      if (messages[i].role != "assistant" || messages[i].reasoning.empty()) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("the template omits the reasoning of message ", i, ", because a user message follows"));
    }
    return absl::OkStatus();
  }

  static absl::Status Check(const std::vector<Message>& messages, size_t first) {
    for (size_t i = first; i < messages.size(); ++i) {
      const std::string& role = messages[i].role;
      if (role == "system" || role == "user" || role == "assistant" || role == "tool") continue;
      return absl::InvalidArgumentError(
          absl::StrCat("message ", i, " has the role '", role, "'; supported: system, user, assistant, and tool"));
    }
    return absl::OkStatus();
  }

  void Header(std::string_view role, Assembler& out) const {
    out.Literal(spec_.turn_begin);
    out.Plain(role);
    out.Literal(spec_.role_end);
  }

  void EndTurn(Assembler& out) const {
    out.Literal(spec_.turn_end);
    out.Literal(spec_.after_turn);
  }

  // Writes the first system turn, which also lists the tools. It belongs to message 0.
  void RenderSystem(const Conversation& conversation, Assembler& out) const {
    const Message& first = conversation.messages[0];
    const bool has_text = first.role == "system";
    if (!has_text && conversation.tools.empty()) return;
    Header("system", out);
    if (has_text) out.Plain(first.content);
    if (!conversation.tools.empty()) {
      if (has_text) out.Literal(spec_.tools_separator);
      out.Literal(spec_.tools_begin);
      for (const base::json::value& tool : conversation.tools) {
        out.Literal(spec_.tool_prefix);
        out.Plain(spec_.tools_as_signatures ? Signature(tool) : PythonJson(tool));
      }
      out.Literal(spec_.tools_end);
    }
    EndTurn(out);
  }

  // Writes message `i`. Returns the range of ids that an assistant would have sampled. If `begun`, an assistant's
  // message ends after its content.
  std::pair<size_t, size_t> RenderMessage(const Conversation& conversation, size_t i, bool begun,
                                          Assembler& out) const {
    const std::vector<Message>& messages = conversation.messages;
    const Message& message = messages[i];
    if (message.role == "tool") {
      RenderToolResult(messages, i, out);
    } else if (message.role == "assistant") {
      Header("assistant", out);
      const size_t begin = out.Border();
      const bool answered = std::any_of(messages.begin() + static_cast<std::ptrdiff_t>(i), messages.end(),
                                        [](const Message& later) { return later.role == "user"; });
      RenderAssistant(message, !answered, out);
      if (begun) return {begin, out.Border()};
      out.Literal(spec_.turn_end);
      const size_t end = out.Border();
      out.Literal(spec_.after_turn);
      return {begin, end};
    } else if (message.role == "user" || i > 0) {
      Header(message.role, out);
      out.Plain(message.content);
      EndTurn(out);
    }
    return {0, 0};
  }

  void RenderAssistant(const Message& message, bool keep_reasoning, Assembler& out) const {
    if (keep_reasoning && !message.reasoning.empty()) {
      out.Literal(spec_.think_begin);
      out.Literal(spec_.think_pad);
      out.Plain(message.reasoning);
      out.Literal(spec_.think_pad);
      out.Literal(spec_.think_end);
      out.Literal(spec_.after_think);
    }
    out.Plain(message.content);
    bool separate = !message.content.empty();
    for (const ToolCall& call : message.tool_calls) {
      if (separate) out.Literal(spec_.call_separator);
      separate = true;
      out.Literal(spec_.call_begin);
      out.Literal(spec_.call_pad);
      out.Plain("{\"name\": ");
      out.Plain(PythonJson(base::json::value(base::json::string(call.name))));
      out.Plain(", \"arguments\": ");
      out.Plain(call.arguments_json.empty() ? "{}" : call.arguments_json);
      out.Plain("}");
      out.Literal(spec_.call_pad);
      out.Literal(spec_.call_end);
    }
  }

  // Renders one tool result. Consecutive results share a user turn.
  void RenderToolResult(const std::vector<Message>& messages, size_t i, Assembler& out) const {
    if (i == 0 || messages[i - 1].role != "tool") {
      Header("user", out);
    } else {
      out.Literal(spec_.response_separator);
    }
    out.Literal(spec_.response_begin);
    out.Literal(spec_.response_pad);
    out.Plain(messages[i].content);
    out.Literal(spec_.response_pad);
    out.Literal(spec_.response_end);
    if (i + 1 == messages.size() || messages[i + 1].role != "tool") EndTurn(out);
  }

  const FormatSpec spec_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<Marker> markers_;
  int32_t turn_end_id_ = 0;
  std::vector<int32_t> end_of_turn_ids_;
  std::string fingerprint_;
  std::shared_ptr<const OutputFormat> output_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const ChatFormat>> MakeChatFormat(const std::string& name,
                                                                 std::shared_ptr<const Tokenizer> tokenizer,
                                                                 std::span<const int32_t> model_ends) {
  std::string known;
  for (const FormatSpec& spec : BuiltinFormats()) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", spec.name);
    if (spec.name != name) continue;
    for (const std::string& token : {spec.turn_begin, spec.turn_end}) {
      if (tokenizer->SpecialId(token).has_value()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the tokenizer has no special token ", token, ", which the chat format '", name, "' needs"));
    }
    return std::make_shared<SpecFormat>(spec, std::move(tokenizer), model_ends);
  }
  return absl::NotFoundError(absl::StrCat("unknown chat format '", base::Shown(name), "'; known are ", known));
}

}  // namespace ingot::text
