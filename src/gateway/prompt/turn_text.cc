#include "gateway/prompt/turn_text.h"

#include <algorithm>
#include <utility>

namespace ingot::gateway {
namespace {

constexpr size_t kMaxAfterContent = 256;  // bytes

// Decodes ids as if in the middle of text, so the first word keeps its space.
text::DecodeStream MidText(std::shared_ptr<const text::Tokenizer> tokenizer) {
  return {std::move(tokenizer), /*skip_special=*/false, text::DecodeState::MidText()};
}

TurnText::Options WithoutReading(TurnText::Options options) {
  options.reading = {};
  return options;
}

}  // namespace

TurnText::TurnText(const Options& options) : options_(WithoutReading(options)), decode_(MidText(options.tokenizer)) {
  if (options.format != nullptr) stream_.emplace(options.format, options.reading);
  for (const std::string& stop : options_.stop) stops_.emplace_back(stop);
}

void TurnText::Push(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    if (held_end_.has_value()) Add(*std::exchange(held_end_, std::nullopt));
    if (std::find(options_.ends.begin(), options_.ends.end(), id) != options_.ends.end()) {
      held_end_ = id;
    } else {
      Add(id);
    }
  }
}

void TurnText::Add(int32_t id) {
  const bool is_token = text::IsWrittenToken(*options_.tokenizer, id, options_.tokenizer->TokenBytes(id));
  if (is_token && decode_.holds()) {  // an incomplete character belongs to the previous ids
    Append(decode_.Flush(), ids_.size() - 1);
    ids_.back().end = text_.size();
  }
  Append(decode_.Push(id), ids_.size());
  ids_.push_back({.end = text_.size(), .is_token = is_token});
  if (!decode_.holds()) whole_ids_ = ids_.size();
  size_t limit = text_.size();
  for (const StopHold& stop : stops_) {
    limit = std::min(limit, stop_begin_ + (options_.emits_stop ? stop.seen() : stop.clear()));
  }
  Feed(limit);
}

// `id` is the index of the id that the text belongs to.
void TurnText::Append(std::string_view text, size_t id) {
  text_ += text;
  if (id < static_cast<size_t>(options_.stop_from)) {
    stop_begin_ = text_.size();
  } else {
    for (StopHold& stop : stops_) stop.Push(text);
  }
}

void TurnText::Finish(const std::string& stop_string) {
  Append(decode_.Flush(), ids_.empty() ? 0 : ids_.size() - 1);
  if (!ids_.empty()) ids_.back().end = text_.size();
  if (!stop_string.empty()) {
    // The turn ended as soon as the stop string was complete. So it does not occur earlier, and at most the remainder
    // of its last token follows it.
    const size_t cut = text_.find(stop_string, stop_begin_);
    if (cut != std::string::npos) text_.resize(cut + (options_.emits_stop ? stop_string.size() : 0));
    for (Id& id : ids_) {
      if (id.end <= text_.size()) continue;
      id = {.end = text_.size(), .is_token = false, .is_content = id.is_content};
    }
  }
  Feed(text_.size());
  if (stream_.has_value()) Emit(stream_->Finish());
  whole_ids_ = ids_.size();
  finished_ = true;
}

void TurnText::Feed(size_t limit) {
  while (fed_ < limit) {
    while (ids_[next_].end <= fed_) ++next_;
    const Id& id = ids_[next_];
    if (id.is_token && id.end > limit) return;  // a token is read as a unit
    const size_t end = std::min(id.end, limit);
    Read(std::string_view(text_).substr(fed_, end - fed_), id.is_token);
    fed_ = end;
  }
}

void TurnText::Read(std::string_view text, bool is_token) {
  if (stream_.has_value()) return Emit(stream_->Push(text, is_token));
  raw_.content += text;
  if (options_.marks_content) MarkContent(fed_, fed_ + text.size());
  Emit(PartKind::kContent, std::string(text), nullptr);
}

void TurnText::Emit(text::OutputDelta delta) {
  // The remainder of a call in progress comes first.
  if (!delta.calls.empty() && !delta.calls[0].begins) {
    Emit(PartKind::kCall, std::move(delta.calls[0].arguments), &delta.calls[0]);
    delta.calls.erase(delta.calls.begin());
  }
  Emit(PartKind::kReasoning, std::move(delta.reasoning), nullptr);
  if (options_.marks_content && !delta.content.empty()) MarkContent(delta.content);
  Emit(PartKind::kContent, std::move(delta.content), nullptr);
  for (text::CallDelta& call : delta.calls) {
    std::string arguments = std::move(call.arguments);
    Emit(PartKind::kCall, std::move(arguments), &call);
  }
}

// The stream returns content as it was written. The settled text after it contains at most the delimiter that closed
// it.
void TurnText::MarkContent(std::string_view content) {
  const size_t settled = finished_ ? text_.size() : std::min(stream_->settled_bytes(), text_.size());
  const size_t last = settled - std::min(settled, content.size());
  const size_t first = last - std::min(last, kMaxAfterContent);
  const size_t found = std::string_view(text_).substr(first, settled - first).rfind(content);
  if (found != std::string_view::npos) MarkContent(first + found, first + found + content.size());
}

// Marks the ids of bytes [begin, end) of text_. An id with only the first bytes of a character has no bytes in text_.
// It is marked together with the id that completes the character.
void TurnText::MarkContent(size_t begin, size_t end) {
  auto id = std::upper_bound(ids_.begin(), ids_.end(), begin, [](size_t at, const Id& id) { return at < id.end; });
  for (auto before = id; before != ids_.begin(); --before) {
    const size_t from = before - ids_.begin() > 1 ? (before - 2)->end : 0;
    if ((before - 1)->end > from) break;
    (before - 1)->is_content = true;
  }
  for (size_t from = id == ids_.begin() ? 0 : (id - 1)->end; id != ids_.end() && from < end; ++id) {
    id->is_content = true;
    from = id->end;
  }
}

void TurnText::Emit(PartKind kind, std::string text, const text::CallDelta* call) {
  const bool begins = call != nullptr && call->begins;
  if (text.empty() && !begins) return;
  const int last_id = static_cast<int>(std::min(next_ + 1, ids_.size()));
  if (kind == PartKind::kReasoning) {
    if (reasoning_end_ == 0) reasoning_begin_ = last_id - 1;
    reasoning_end_ = last_id;
  }
  // Call text belongs to the most recent call.
  if (!untaken_.empty() && untaken_.back().kind == kind && !begins) {
    untaken_.back().text += text;
    untaken_.back().last_id = last_id;
    return;
  }
  untaken_.push_back({kind, std::move(text), begins, begins ? call->name : "", last_id});
}

std::vector<TurnText::Delta> TurnText::TakeDeltas() {
  const size_t settled = finished_ ? text_.size() : stream_.has_value() ? stream_->settled_bytes() : fed_;
  const auto following =
      std::upper_bound(ids_.begin(), ids_.end(), settled, [](size_t at, const Id& id) { return at < id.end; });
  delivered_ = static_cast<int>(std::min<size_t>(following - ids_.begin(), whole_ids_));
  return std::exchange(untaken_, {});
}

}  // namespace ingot::gateway
