#include "text/jinja/markup.h"

namespace ingot::text::jinja {

StrPtr WithMarkup(const StrPtr& text, bool markup) {
  return text->markup == markup ? text : std::make_shared<const Str>(text->bytes, text->marks, markup);
}

StrPtr Escaped(const StrPtr& text) {
  if (text->markup) return text;
  StrBuilder out;
  size_t done = 0;
  for (size_t i = 0; i < text->bytes.size(); ++i) {
    const char* entity = nullptr;
    switch (text->bytes[i]) {
      case '&':
        entity = "&amp;";
        break;
      case '>':
        entity = "&gt;";
        break;
      case '<':
        entity = "&lt;";
        break;
      case '\'':
        entity = "&#39;";
        break;
      case '"':
        entity = "&#34;";
        break;
      default:
        continue;
    }
    out.Append(*text, done, i);
    out.AppendDerived(entity, *text);
    done = i + 1;
  }
  out.Append(*text, done, text->bytes.size());
  return out.Release(true);
}

}  // namespace ingot::text::jinja
