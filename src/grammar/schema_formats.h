// The formats of JSON Schema as patterns (grammar/regex.h).
#pragma once

#include <string_view>

namespace ingot::grammar {

// A pattern of strings with `format` by its RFC; empty if the format is not listed here. A pattern may allow fewer
// strings than the RFC: date, time, date-time (with a time zone, no leap second, at most nine digits after the point),
// duration, email (plain ASCII addresses), hostname (up to eight labels of up to 30 characters), ipv4, ipv6 (without an
// IPv4 tail), uuid.
std::string_view FormatPattern(std::string_view format);

}  // namespace ingot::grammar
