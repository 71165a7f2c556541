// Implements markupsafe.Markup, text that is treated as already escaped.
#pragma once

#include "text/jinja/str.h"

namespace ingot::text::jinja {

// Like markupsafe.escape: replaces & > < ' " with entities, unless the text is markup. The result is markup.
StrPtr Escaped(const StrPtr& text);
// Returns the same bytes, either as markup or as plain text.
StrPtr WithMarkup(const StrPtr& text, bool markup);

}  // namespace ingot::text::jinja
