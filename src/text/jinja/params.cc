#include "text/jinja/params.h"

#include <cstring>

#include "text/jinja/budget.h"

namespace ingot::text::jinja {

Params::Params(std::string_view function, const Args& args, std::initializer_list<const char*> names, size_t required)
    : function_(function), values_(names.size()) {
  if (args.positional.size() > names.size()) {
    Fail(absl::StrCat("TypeError: ", base::View(function), "() takes at most ", names.size(), " arguments (",
                      args.positional.size(), " given)"));
  }
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = args.positional[i];
  for (const auto& [name, value] : args.named) {
    size_t i = 0;
    for (const char* known : names) {
      if (name == known) break;
      ++i;
    }
    if (i == names.size()) {
      Fail(absl::StrCat("TypeError: ", base::View(function), "() got an unexpected keyword argument '", name, "'"));
    }
    if (values_[i].has_value()) {
      Fail(absl::StrCat("TypeError: ", base::View(function), "() got multiple values for argument '", name, "'"));
    }
    values_[i] = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i].has_value()) continue;
    Fail(absl::StrCat("TypeError: ", base::View(function), "() missing a required argument: '", names.begin()[i], "'"));
  }
}

int64_t Params::Integer(size_t i, int64_t missing) const {
  if (!has(i) || values_[i]->is_none()) return missing;
  if (values_[i]->is_undefined()) FailUndefined(*values_[i]);
  if (!values_[i]->is_integral()) {
    Fail(absl::StrCat("TypeError: '", TypeName(*values_[i]), "' object cannot be interpreted as an integer, in ",
                      base::View(function_), "()"));
  }
  return values_[i]->integer();
}

StrPtr Params::Text(size_t i, const char* missing) const {
  return has(i) ? ToStr(*values_[i]) : std::make_shared<const Str>(missing);
}

const StrPtr& Params::RequireText(size_t i) const {
  if (!values_[i]->is_str()) {
    Fail(absl::StrCat("TypeError: ", base::View(function_), "() expects a str, not ", TypeName(*values_[i])));
  }
  return values_[i]->str();
}

size_t FindText(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  const void* at = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return at == nullptr ? std::string_view::npos : static_cast<const char*>(at) - text.data();
}

StrPtr ReplaceText(const StrPtr& text, const Str& old_part, const Str& new_part, int64_t count) {
  StrBuilder out;
  const std::string_view bytes = text->bytes;
  size_t done = 0;
  if (old_part.bytes.empty()) {  // inserts between all characters and at both ends
    for (size_t at = 0; count != 0; --count) {
      out.Append(new_part);
      if (at == bytes.size()) break;
      NextCharacter(bytes, at);
      out.Append(*text, done, at);
      done = at;
    }
  } else {
    for (; count != 0; --count) {
      const size_t at = FindText(bytes, old_part.bytes, done);
      if (at == std::string_view::npos) break;
      out.Append(*text, done, at);
      out.Append(new_part);
      done = at + old_part.bytes.size();
    }
    if (done == 0) return text;
  }
  out.Append(*text, done, bytes.size());
  return out.Release(text->markup);
}

std::vector<Range> LineRanges(std::string_view text, bool keep_ends) {
  std::vector<Range> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    const char32_t c = NextCharacter(text, at);
    if (!IsLineBreak(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    ChargeBytes(sizeof(Range));
    lines.push_back({begin, keep_ends ? at : here});
    begin = at;
  }
  if (begin < text.size()) lines.push_back({begin, text.size()});
  return lines;
}

StrPtr JoinTexts(const Str& separator, const std::vector<StrPtr>& parts, bool markup) {
  StrBuilder out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out.Append(separator);
    out.Append(*parts[i]);
  }
  return out.Release(markup);
}

}  // namespace ingot::text::jinja
