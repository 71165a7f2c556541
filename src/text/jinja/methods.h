// Finds methods of the built-in types by name.
#pragma once

#include "text/jinja/value.h"

namespace ingot::text::jinja {

using StrMethod = Value (*)(const StrPtr& self, const Args& args);
// Returns nullptr if str has no such method. Excludes `format`; see BraceFormat.
StrMethod FindStrMethod(std::string_view name);

// Returns whether dicts have a method with this name, or an attribute that the sandbox forbids.
bool IsDictAttribute(std::string_view name);

// Like str.isupper (`upper` = true) and str.islower.
bool HasCase(std::string_view text, bool upper);

}  // namespace ingot::text::jinja
