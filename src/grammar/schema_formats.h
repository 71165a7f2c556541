// Converts JSON Schema formats to patterns (grammar/regex.h).
#pragma once

#include <string_view>

namespace ingot::grammar {

// Returns a pattern for strings with `format` as defined in its RFC, or an empty string for formats not listed here. A
// pattern may allow fewer strings than the RFC: date, time, date-time (with a time zone, no leap seconds, at most nine
// digits after the point), duration, email (plain ASCII addresses), hostname (up to eight labels of up to 30
// characters), ipv4, ipv6 (without an IPv4 suffix), and uuid.
std::string_view FormatPattern(std::string_view format);

}  // namespace ingot::grammar
