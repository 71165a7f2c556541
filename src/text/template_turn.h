// A sampled turn beside what a chat template writes for it, now that the conversation has gone on.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "text/chat.h"
#include "text/jinja/template.h"
#include "text/output_row.h"
#include "text/template_layout.h"

namespace ingot::text {

struct TurnView {
  const Message& message;           // what was sampled, as it was read; reasoning included
  std::string_view prompt;          // the turn's header, and what the generation prompt wrote of the answer
  std::span<const int32_t> ids;     // sampled
  std::string_view sampled;         // their text, without that of the id that ended the turn
  const jinja::Rendered& rendered;  // the conversation as the template writes it
  Region written;                   // the turn in it, from its header to what closes it
};

enum class ThoughtMatch {
  kSame,   // the marks of a thought stand on both sides or on neither, and the reasoning in what the template writes
  kLost,   // the template leaves out reasoning, or the marks of an empty thought
  kAdded,  // it writes the marks of a thought that was not sampled
};

// Finds thoughts in turns. Immutable, thread safe.
class ThoughtComparer {
 public:
  ThoughtComparer(std::shared_ptr<const Tokenizer> tokenizer, const OutputRow& row)
      : tokenizer_(std::move(tokenizer)), begin_(row.think_begin), end_(row.think_end) {}

  ThoughtMatch Compare(const TurnView& turn) const;
  // Whether the reasoning of `message` stands in its region of what the template writes; none always does.
  static bool Reasons(const jinja::Rendered& rendered, const Region& region, const Message& message);
  // Whether the text that `before` and `now` have in common ends at the marks of a thought in `before`.
  bool PartsAtThought(std::string_view before, size_t common) const;
  // `text` without the first empty thought from `from` on, and the white space behind it; the same if there is none.
  std::string WithoutEmptyThought(std::string_view text, size_t from) const;

 private:
  bool Sampled(const TurnView& turn) const;
  bool Written(const TurnView& turn) const;

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const std::string begin_, end_;  // marks; empty: the format has none
};

}  // namespace ingot::text
