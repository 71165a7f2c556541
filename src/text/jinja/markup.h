// markupsafe: text that counts as escaped already.
#pragma once

#include "text/jinja/str.h"

namespace ingot::text::jinja {

// markupsafe.escape: & > < ' " as entities, unless the text is markup; the result is.
StrPtr Escaped(const StrPtr& text);
// The same bytes, as markup or as plain text.
StrPtr WithMarkup(const StrPtr& text, bool markup);

}  // namespace ingot::text::jinja
