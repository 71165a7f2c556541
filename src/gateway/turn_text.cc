#include "gateway/turn_text.h"

#include <algorithm>
#include <utility>

namespace ingot::gateway {
namespace {

// How many bytes at the end of `text` could be the beginning of `stop`.
size_t PossibleStop(std::string_view text, std::string_view stop) {
  for (size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.ends_with(stop.substr(0, length))) return length;
  }
  return 0;
}

std::string_view From(const std::string& text, size_t at) {
  return at < text.size() ? std::string_view(text).substr(at) : std::string_view();
}

}  // namespace

TurnText::TurnText(std::shared_ptr<const text::Tokenizer> tokenizer, std::shared_ptr<const text::ChatFormat> format,
                   std::vector<std::string> stop, Reading reading)
    : tokenizer_(std::move(tokenizer)), format_(std::move(format)), stop_(std::move(stop)), reading_(reading) {}

void TurnText::Push(std::span<const int32_t> ids) {
  const std::vector<int32_t>& ends = format_->end_of_turn_ids();
  for (const int32_t& id : ids) {
    if (!held_end_.empty()) Decode(std::exchange(held_end_, {}));
    if (std::find(ends.begin(), ends.end(), id) != ends.end()) {
      held_end_ = {id};
    } else {
      Decode(std::span(&id, 1));
    }
  }
}

void TurnText::Decode(std::span<const int32_t> ids) {
  for (const int32_t& id : ids) {
    text_ += utf8_.Push(tokenizer_->Decode(std::span(&id, 1), false));
    token_ends_.push_back(text_.size());
  }
}

void TurnText::Finish(const std::string& stop_string) {
  text_ += utf8_.Flush();
  if (!token_ends_.empty()) token_ends_.back() = text_.size();
  if (!stop_string.empty()) {
    // The turn ended as soon as the stop string was complete: no earlier occurrence, and nothing but its last token's
    // rest behind it.
    const size_t cut = text_.find(stop_string);
    if (cut != std::string::npos) text_.resize(cut);
    for (size_t& end : token_ends_) end = std::min(end, text_.size());
  }
  finished_ = true;
  message_ = ParseWhole();
}

text::ParsedOutput TurnText::Parse(std::string_view text) const {
  if (reading_ != Reading::kRaw) return format_->Parse(text);
  text::ParsedOutput raw;
  raw.content = std::string(text);
  return raw;
}

size_t TurnText::Settled(std::string_view visible) const {
  return reading_ == Reading::kRaw ? visible.size() : format_->StreamableContent(visible);
}

text::ParsedOutput TurnText::ParseWhole() const {
  text::ParsedOutput parsed = Parse(text_);
  if (reading_ == Reading::kMessage || (parsed.tool_calls.empty() && !parsed.malformed)) return parsed;
  // Everything from the first call on is text, as it stands.
  const size_t settled = Settled(text_);
  text::ParsedOutput text = Parse(std::string_view(text_).substr(0, settled));
  text.content += std::string_view(text_).substr(settled);
  return text;
}

TurnText::Delta TurnText::TakeDelta() {
  if (!finished_) {
    std::string_view visible = text_;
    size_t held = 0;
    for (const std::string& stop : stop_) {
      // A whole stop string can only stand here while the engine's final chunk is on its way.
      const size_t at = visible.find(stop, settled_ < stop.size() ? 0 : settled_ - stop.size());
      if (at != std::string_view::npos) visible = visible.substr(0, at);
      held = std::max(held, PossibleStop(visible, stop));
    }
    visible.remove_suffix(std::min(held, visible.size()));
    const size_t settled = Settled(visible);
    if (settled <= settled_) return {};
    settled_ = settled;
    message_ = Parse(visible.substr(0, settled));
  } else {
    settled_ = text_.size();
  }
  Delta delta{std::string(From(message_.content, sent_content_)),
              std::string(From(message_.reasoning, sent_reasoning_))};
  sent_content_ += delta.content.size();
  sent_reasoning_ += delta.reasoning.size();
  return delta;
}

int TurnText::delivered_tokens() const {
  return static_cast<int>(std::upper_bound(token_ends_.begin(), token_ends_.end(), settled_) - token_ends_.begin());
}

std::pair<int, int> TurnText::reasoning_ids() const {
  const size_t begin = message_.reasoning.empty() ? std::string::npos : text_.find(message_.reasoning);
  if (begin == std::string::npos) return {0, 0};  // there is none, or the format took something out of its middle
  const auto first = std::upper_bound(token_ends_.begin(), token_ends_.end(), begin);
  const auto last = std::lower_bound(first, token_ends_.end(), begin + message_.reasoning.size());
  return {static_cast<int>(first - token_ends_.begin()),
          static_cast<int>(last - token_ends_.begin()) + (last != token_ends_.end() ? 1 : 0)};
}

}  // namespace ingot::gateway
