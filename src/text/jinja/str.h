// Implements strings that track which of their bytes do not come from the template.
//
//   '<|im_start|>' ~ message.content ~ '<|im_end|>'
//    no mark          Mark{12, 12 + n, source}    no mark
//
// Text written in the template has no mark. Text from a conversation is marked with a number that the caller chooses,
// such as the message index. Operations that copy bytes also copy their marks: concatenation, slices, strip, split,
// join, replace, printing, and JSON. Operations that compute new bytes (case, escapes) mark the entire result if any
// input byte was marked. So every rendered byte is either template text or untrusted text, and untrusted text can never
// be mistaken for template text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace ingot::text::jinja {

// Bytes [begin, end) are untrusted. `source` is the number that the caller chose for them.
struct Mark {
  size_t begin;
  size_t end;
  int32_t source;
  bool operator==(const Mark&) const = default;
};

// Immutable after construction. Valid UTF-8 if the strings it is built from are.
struct Str {
  explicit Str(std::string text, std::vector<Mark> from_outside = {}, bool is_markup = false);

  std::string bytes;
  std::vector<Mark> marks;  // ascending and not empty; adjacent marks with the same source are merged
  size_t chars;             // number of code points
  bool markup;              // like markupsafe.Markup, for results of `safe` and `escape`

  bool ascii() const { return chars == bytes.size(); }
  std::string_view view() const { return bytes; }

 private:
  friend class StrBuilder;  // has already counted `chars`
  Str(std::string text, std::vector<Mark> from_outside, size_t chars, bool is_markup);
};
using StrPtr = std::shared_ptr<const Str>;

// Builds a string with its marks.
class StrBuilder {
 public:
  void Reserve(size_t bytes) { bytes_.reserve(bytes); }
  void Append(std::string_view template_text);
  void Append(char c) {
    bytes_ += c;
    chars_ += !base::IsContinuation(c);
  }
  void AppendChars(size_t count, char c);
  void Append(const Str& text) { Append(text, 0, text.bytes.size()); }
  void Append(const Str& text, size_t begin, size_t end);
  // Appends `text`, which was derived from `origin`. All of `text` is marked if `origin` has any mark.
  void AppendDerived(std::string_view text, const Str& origin);
  size_t size() const { return bytes_.size(); }

  // A position at which to truncate the string.
  struct Place {
    size_t bytes, marks, chars;
    size_t last_mark_end;  // saved because later appends may extend the last mark
  };
  Place Here() const { return {bytes_.size(), marks_.size(), chars_, marks_.empty() ? 0 : marks_.back().end}; }
  void CutTo(const Place& place);
  std::string_view Since(const Place& place) const { return std::string_view(bytes_).substr(place.bytes); }

  Str Build(bool markup = false) { return Str(std::move(bytes_), std::move(marks_), std::exchange(chars_, 0), markup); }
  StrPtr Release(bool markup = false) { return std::make_shared<const Str>(Build(markup)); }

 private:
  void AddMark(Mark mark);

  std::string bytes_;
  std::vector<Mark> marks_;
  size_t chars_ = 0;  // code points in bytes_, counted while appending
};

StrPtr Substring(const StrPtr& text, size_t begin, size_t end);
// Creates a string from new bytes that were computed from all of `origin`.
StrPtr Derived(std::string bytes, const Str& origin);
StrPtr Derived(std::string bytes, const Str& origin, bool markup);

}  // namespace ingot::text::jinja
