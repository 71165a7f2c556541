// markupsafe.Markup: text that counts as escaped.
#pragma once

#include "text/jinja/str.h"

namespace ingot::text::jinja {

// markupsafe.escape: & > < ' " as entities, unless the text is markup. The result is markup.
StrPtr Escaped(const StrPtr& text);
// The same bytes, as markup or as plain text.
StrPtr WithMarkup(const StrPtr& text, bool markup);

}  // namespace ingot::text::jinja
