// The `format` of a JSON Schema, as a pattern (grammar/regex.h).
#pragma once

#include <string_view>

namespace ingot::grammar {

// Strings that are of `format` by its RFC, though not all of them: date, time, date-time (with a time zone, no leap
// second, at most nine digits behind the point), duration, email (plain ASCII addresses), hostname (up to eight labels
// of up to 30 characters), ipv4, ipv6 (without an IPv4 tail), uuid. Empty: the format is none of these.
std::string_view FormatPattern(std::string_view format);

}  // namespace ingot::grammar
