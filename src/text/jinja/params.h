// Binds the arguments of a built-in function to its parameters, as in Python.
#pragma once

#include <initializer_list>

#include "text/jinja/chars.h"
#include "text/jinja/value.h"

namespace ingot::text::jinja {

class Params {
 public:
  // The first `required` names are mandatory. Fails on excess, unknown, or duplicate arguments.
  Params(std::string_view function, const Args& args, std::initializer_list<const char*> names, size_t required = 0);

  bool has(size_t i) const { return values_[i].has_value(); }
  // REQUIRES: has(i).
  const Value& operator[](size_t i) const { return *values_[i]; }
  Value Or(size_t i, const Value& missing) const { return has(i) ? *values_[i] : missing; }
  bool Flag(size_t i, bool missing) const { return has(i) ? Truth(*values_[i]) : missing; }
  // None counts as missing.
  int64_t Integer(size_t i, int64_t missing) const;
  StrPtr Text(size_t i, const char* missing) const;
  // Fails if it is not a string.
  const StrPtr& RequireText(size_t i) const;

 private:
  std::string_view function_;
  std::vector<std::optional<Value>> values_;
};

// Returns the byte offset of `part` in `text` at or after `from`, or npos. Takes linear time.
size_t FindText(std::string_view text, std::string_view part, size_t from = 0);
// ReplaceText is like str.replace (`count` -1 = replace all). LineRanges is like str.splitlines.
StrPtr ReplaceText(const StrPtr& text, const Str& old_part, const Str& new_part, int64_t count);
std::vector<Range> LineRanges(std::string_view text, bool keep_ends);
StrPtr JoinTexts(const Str& separator, const std::vector<StrPtr>& parts, bool markup);

}  // namespace ingot::text::jinja
