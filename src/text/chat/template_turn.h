// Compares a sampled turn with the text that a chat template writes for it when more messages follow.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "text/chat/chat.h"
#include "text/chat/template_layout.h"
#include "text/jinja/template.h"
#include "text/output/output_row.h"

namespace ingot::text {

struct TurnView {
  const Message& message;               // the sampled turn as parsed by the output format, including reasoning
  std::string_view prompt;              // the turn's header and the answer's prefill
  std::span<const int32_t> ids;         // the sampled ids
  std::string_view sampled;             // their text, excluding the id that ended the turn
  const jinja::RenderedText& rendered;  // the conversation as rendered by the template
  Region written;                       // the turn in `rendered`, from its header to its closing token
};

enum class ThoughtMatch {
  kSame,   // both or neither have reasoning marks, and the template writes the reasoning
  kLost,   // the template drops the reasoning, or the marks around empty reasoning
  kAdded,  // the template writes reasoning marks, but none were sampled
};

// Finds reasoning in turns. Immutable and thread safe.
class ThoughtComparer {
 public:
  ThoughtComparer(std::shared_ptr<const Tokenizer> tokenizer, const OutputRow& row)
      : tokenizer_(std::move(tokenizer)), begin_(row.think_begin), end_(row.think_end) {}

  ThoughtMatch Compare(const TurnView& turn) const;
  // Returns whether `region` of the rendered text contains the message's reasoning. Also returns true if the message
  // has none.
  static bool Reasons(const jinja::RenderedText& rendered, const Region& region, const Message& message);
  // Returns whether `before` has a reasoning mark at `common`, where it starts to differ from a later rendering.
  bool PartsAtThought(std::string_view before, size_t common) const;
  // Returns `text` without the first empty reasoning block after `from` and the whitespace that follows it.
  std::string WithoutEmptyThought(std::string_view text, size_t from) const;

 private:
  bool Sampled(const TurnView& turn) const;
  bool Written(const TurnView& turn) const;

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const std::string begin_, end_;  // reasoning marks; empty = the format has no reasoning
};

}  // namespace ingot::text
