#include "text/python_json.h"
#include "base/big_integer.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace ingot::text {
void AppendPythonJsonString(std::string_view text, std::string& out) {
  out += '"';
  size_t copied = 0;  // text up to here is in `out`; unescaped text is copied in runs
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<uint8_t>(c) >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text.data() + copied, i - copied);
    copied = i + 1;
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\b':
        out += "\\b";
        break;
      default:
        constexpr char kHex[] = "0123456789abcdef";
        out += "\\u00";
        out += kHex[c >> 4];
        out += kHex[c & 15];
    }
  }
  out.append(text.data() + copied, text.size() - copied);
  out += '"';
}

// Appends the shortest digits that read back as the same value, in positional notation for exponents in [-4, 16).
void AppendPythonFloat(double number, std::string& out) {
  if (!std::isfinite(number)) {
    out += std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
    return;
  }
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), number, std::chars_format::scientific).ptr;
  // d[.ddd]e+XX with at least two exponent digits, as in Python.
  const std::string_view scientific(buffer, end - buffer);
  const size_t e = scientific.find('e');
  int exponent = 0;
  const size_t sign = scientific[e + 1] == '+' ? 1 : 0;
  std::from_chars(scientific.data() + e + 1 + sign, scientific.data() + scientific.size(), exponent);
  if (exponent < -4 || exponent >= 16) {
    out += scientific;
    return;
  }
  std::string_view mantissa = scientific.substr(0, e);
  if (mantissa[0] == '-') {
    out += '-';
    mantissa.remove_prefix(1);
  }
  std::string digits(1, mantissa[0]);
  if (mantissa.size() > 2) digits += mantissa.substr(2);
  if (exponent < 0) {
    out += "0.";
    out.append(-exponent - 1, '0');
    out += digits;
    return;
  }
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  out += digits.substr(0, whole);
  out += '.';
  out += digits.size() > whole ? digits.substr(whole) : "0";
}

namespace {

namespace json = base::json;

// base::ParseJson limits the depth and so the recursion.
void Append(const json::value& value, std::string& out) {
  if (const std::string_view digits = base::BigInteger(value); !digits.empty()) {
    out += digits;
    return;
  }
  switch (value.kind()) {
    case json::kind::object: {
      out += '{';
      bool first = true;
      for (const auto& field : value.get_object()) {
        if (!first) out += ", ";
        first = false;
        AppendPythonJsonString(std::string_view(field.key().data(), field.key().size()), out);
        out += ": ";
        Append(field.value(), out);
      }
      out += '}';
      break;
    }
    case json::kind::array: {
      out += '[';
      bool first = true;
      for (const json::value& item : value.get_array()) {
        if (!first) out += ", ";
        first = false;
        Append(item, out);
      }
      out += ']';
      break;
    }
    case json::kind::string:
      AppendPythonJsonString(std::string_view(value.get_string().data(), value.get_string().size()), out);
      break;
    case json::kind::int64:
      absl::StrAppend(&out, value.get_int64());
      break;
    case json::kind::uint64:
      absl::StrAppend(&out, value.get_uint64());
      break;
    case json::kind::double_:
      AppendPythonFloat(value.get_double(), out);
      break;
    case json::kind::bool_:
      out += value.get_bool() ? "true" : "false";
      break;
    case json::kind::null:
      out += "null";
      break;
  }
}

}  // namespace

std::string PythonJson(const json::value& value) {
  std::string out;
  Append(value, out);
  return out;
}

}  // namespace ingot::text
