#include "text/jinja/str.h"

#include <algorithm>

#include "text/jinja/budget.h"
#include "text/jinja/chars.h"

namespace ingot::text::jinja {

Str::Str(std::string text, std::vector<Mark> from_outside, bool is_markup)
    : bytes(std::move(text)), marks(std::move(from_outside)), chars(CountCharacters(bytes)), markup(is_markup) {
  ChargeBytes(sizeof(Str));
}

Str::Str(std::string text, std::vector<Mark> from_outside, size_t count, bool is_markup)
    : bytes(std::move(text)), marks(std::move(from_outside)), chars(count), markup(is_markup) {
  ChargeBytes(sizeof(Str));
}

void StrBuilder::AddMark(Mark mark) {
  if (mark.begin == mark.end) return;
  if (!marks_.empty() && marks_.back().end == mark.begin && marks_.back().source == mark.source) {
    marks_.back().end = mark.end;
  } else {
    marks_.push_back(mark);
  }
}

void StrBuilder::CutTo(const Place& place) {
  bytes_.resize(place.bytes);
  marks_.resize(place.marks);
  if (!marks_.empty()) marks_.back().end = place.last_mark_end;
  chars_ = place.chars;
}

void StrBuilder::Append(std::string_view template_text) {
  ChargeBytes(template_text.size());
  bytes_ += template_text;
  chars_ += CountCharacters(template_text);
}

void StrBuilder::AppendChars(size_t count, char c) {
  ChargeBytes(count);
  bytes_.append(count, c);
  if (!IsContinuation(c)) chars_ += count;
}

void StrBuilder::Append(const Str& text, size_t begin, size_t end) {
  ChargeBytes(end - begin);
  const size_t at = bytes_.size();
  bytes_.append(text.bytes, begin, end - begin);
  if (text.ascii()) {
    chars_ += end - begin;
  } else {
    chars_ += end - begin == text.bytes.size() ? text.chars : CountCharacters(text.view().substr(begin, end - begin));
  }
  if (text.marks.empty()) return;
  if (end - begin == text.bytes.size()) {  // only the first mark may merge with an earlier one
    const auto moved = [at](const Mark& mark) { return Mark{at + mark.begin, at + mark.end, mark.source}; };
    AddMark(moved(text.marks.front()));
    const size_t before = marks_.size();
    marks_.resize(before + text.marks.size() - 1);
    std::transform(text.marks.begin() + 1, text.marks.end(), marks_.begin() + static_cast<std::ptrdiff_t>(before),
                   moved);
    return;
  }
  for (const Mark& mark : text.marks) {
    const size_t from = std::max(mark.begin, begin), to = std::min(mark.end, end);
    if (from < to) AddMark({at + from - begin, at + to - begin, mark.source});
  }
}

void StrBuilder::AppendDerived(std::string_view text, const Str& origin) {
  ChargeBytes(text.size());
  const size_t at = bytes_.size();
  bytes_ += text;
  chars_ += CountCharacters(text);
  if (!origin.marks.empty()) AddMark({at, bytes_.size(), origin.marks.front().source});
}

StrPtr Substring(const StrPtr& text, size_t begin, size_t end) {
  if (begin == 0 && end == text->bytes.size()) return text;
  StrBuilder out;
  out.Append(*text, begin, end);
  return out.Release(text->markup);
}

StrPtr Derived(std::string bytes, const Str& origin, bool markup) {
  ChargeBytes(bytes.size());
  std::vector<Mark> marks;
  if (!origin.marks.empty() && !bytes.empty()) marks.push_back({0, bytes.size(), origin.marks.front().source});
  return std::make_shared<const Str>(std::move(bytes), std::move(marks), markup);
}

StrPtr Derived(std::string bytes, const Str& origin) { return Derived(std::move(bytes), origin, origin.markup); }

}  // namespace ingot::text::jinja
