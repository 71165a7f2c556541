#include "text/chat/template_turn.h"

#include <algorithm>

#include "text/output/output_pattern.h"

namespace ingot::text {
namespace {

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kWhiteSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhiteSpace) - first + 1);
}

}  // namespace

ThoughtMatch ThoughtComparer::Compare(const TurnView& turn) const {
  if (!Reasons(turn.rendered, turn.written, turn.message)) return ThoughtMatch::kLost;
  const bool sampled = Sampled(turn), written = Written(turn);
  return sampled == written ? ThoughtMatch::kSame : sampled ? ThoughtMatch::kLost : ThoughtMatch::kAdded;
}

bool ThoughtComparer::Reasons(const jinja::RenderedText& rendered, const Region& region, const Message& message) {
  const std::string_view text = std::string_view(rendered.text).substr(region.begin, region.end - region.begin);
  return text.find(Trimmed(message.reasoning)) != std::string_view::npos;
}

bool ThoughtComparer::PartsAtThought(std::string_view before, size_t common) const {
  if (begin_.empty()) return false;
  return before.find(begin_, common - std::min(common, begin_.size())) <= common;
}

std::string ThoughtComparer::WithoutEmptyThought(std::string_view text, size_t from) const {
  std::string without(text);
  const size_t at = begin_.empty() ? std::string_view::npos : text.find(begin_, from);
  if (at == std::string_view::npos) return without;
  const size_t end = text.find_first_not_of(kWhiteSpace, at + begin_.size());
  if (end == std::string_view::npos || !text.substr(end).starts_with(end_)) return without;
  const size_t following = std::min(text.find_first_not_of(kWhiteSpace, end + end_.size()), text.size());
  return without.erase(at, following - at);
}

// Only reasoning at the start of the turn counts, either in its prompt or in the sampled text.
bool ThoughtComparer::Sampled(const TurnView& turn) const {
  if (begin_.empty()) return false;
  if (turn.prompt.find(begin_) != std::string_view::npos) return true;
  const std::optional<int32_t> token = tokenizer_->SpecialId(begin_);
  if (token.has_value() && std::find(turn.ids.begin(), turn.ids.end(), *token) == turn.ids.end()) return false;
  return Trimmed(turn.sampled).starts_with(begin_);
}

// Counts only marks that the template itself wrote. The same characters in a message are ordinary text.
bool ThoughtComparer::Written(const TurnView& turn) const {
  if (begin_.empty()) return false;
  const std::string_view text = std::string_view(turn.rendered.text).substr(0, turn.written.end);
  const std::vector<jinja::Mark>& marks = turn.rendered.marks;
  for (size_t at = text.find(begin_, turn.written.begin); at != std::string_view::npos;
       at = text.find(begin_, at + 1)) {
    const auto mark = std::upper_bound(marks.begin(), marks.end(), at,
                                       [](size_t place, const jinja::Mark& m) { return place < m.end; });
    if (mark == marks.end() || mark->begin >= at + begin_.size()) return true;
  }
  return false;
}

}  // namespace ingot::text
