// Methods of the built-in types, by name.
#pragma once

#include "text/jinja/value.h"

namespace ingot::text::jinja {

using StrMethod = Value (*)(const StrPtr& self, const Args& args);
// nullptr: str has no such method. `format` is not included; see BraceFormat.
StrMethod FindStrMethod(std::string_view name);

// Whether dicts have a method of that name, or an attribute that the sandbox forbids.
bool IsDictAttribute(std::string_view name);

// str.isupper / str.islower.
bool HasCase(std::string_view text, bool upper);

}  // namespace ingot::text::jinja
