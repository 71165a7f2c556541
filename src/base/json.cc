#include "base/json.h"
#include "base/big_integer.h"

#include <simdjson.h>

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <cmath>
#include <vector>

namespace ingot::base {
namespace {

void PrintDouble(double number, std::string& out) {
  if (!std::isfinite(number)) {  // JSON cannot represent it
    out += "null";
    return;
  }
  char buffer[32];
  // Writes the shortest digits that read back as the same value, with an exponent where Python would write one.
  const double size = std::abs(number);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), number,
                                    fixed ? std::chars_format::fixed : std::chars_format::scientific);
  const std::string_view text(buffer, result.ptr - buffer);
  out += text;
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";
}

std::string_view View(json::string_view text) { return {text.data(), text.size()}; }

void Print(const json::value& value, bool sort_keys, std::string& out);

void PrintField(const json::key_value_pair& field, bool sort_keys, std::string& out) {
  if (out.back() != '{') out += ',';  // only the first field follows '{'
  AppendJsonString(View(field.key()), out);
  out += ':';
  Print(field.value(), sort_keys, out);
}

void PrintObject(const json::object& object, bool sort_keys, std::string& out) {
  out += '{';
  if (sort_keys) {
    std::vector<const json::key_value_pair*> fields;
    for (const auto& field : object) fields.push_back(&field);
    std::sort(fields.begin(), fields.end(), [](const auto* a, const auto* b) { return a->key() < b->key(); });
    for (const auto* field : fields) PrintField(*field, sort_keys, out);
  } else {
    for (const auto& field : object) PrintField(field, sort_keys, out);
  }
  out += '}';
}

void PrintArray(const json::array& array, bool sort_keys, std::string& out) {
  out += '[';
  bool first = true;
  for (const json::value& item : array) {
    if (!first) out += ',';
    first = false;
    Print(item, sort_keys, out);
  }
  out += ']';
}

void Print(const json::value& value, bool sort_keys, std::string& out) {
  if (const std::string_view digits = BigInteger(value); !digits.empty()) {
    out += digits;
    return;
  }
  switch (value.kind()) {
    case json::kind::object:
      return PrintObject(value.get_object(), sort_keys, out);
    case json::kind::array:
      return PrintArray(value.get_array(), sort_keys, out);
    case json::kind::string:
      return AppendJsonString(View(value.get_string()), out);
    case json::kind::int64:
      return absl::StrAppend(&out, value.get_int64());
    case json::kind::uint64:
      return absl::StrAppend(&out, value.get_uint64());
    case json::kind::double_:
      return PrintDouble(value.get_double(), out);
    case json::kind::bool_:
      out += value.get_bool() ? "true" : "false";
      return;
    default:
      out += "null";
  }
}

constexpr size_t kMaxDepth = 100;
constexpr size_t kParserBytes = 1 << 20;  // limit on text parsed with the thread's reusable parser

json::value FromSimd(const simdjson::dom::element& element, const json::storage_ptr& storage) {
  namespace dom = simdjson::dom;
  switch (element.type()) {
    case dom::element_type::OBJECT: {
      const dom::object fields = element.get_object().value_unsafe();
      json::object object(storage);
      object.reserve(fields.size());
      for (const auto field : fields) {
        object[json::string_view(field.key.data(), field.key.size())] = FromSimd(field.value, storage);
      }
      return json::value(std::move(object));
    }
    case dom::element_type::ARRAY: {
      const dom::array items = element.get_array().value_unsafe();
      json::array array(storage);
      array.reserve(items.size());
      for (const auto item : items) array.push_back(FromSimd(item, storage));
      return json::value(std::move(array));
    }
    case dom::element_type::STRING: {
      const std::string_view text = element.get_string().value_unsafe();
      return json::value(json::string(json::string_view(text.data(), text.size()), storage));
    }
    case dom::element_type::INT64:
      return json::value(element.get_int64().value_unsafe(), storage);
    case dom::element_type::UINT64:
      return json::value(element.get_uint64().value_unsafe(), storage);
    case dom::element_type::DOUBLE:
      return json::value(element.get_double().value_unsafe(), storage);
    case dom::element_type::BOOL:
      return json::value(element.get_bool().value_unsafe(), storage);
    default:
      return json::value(nullptr, storage);
  }
}

// Parses `text` with simdjson. Returns false if it is malformed, is nested close to the limit, or has an integer that
// only a double can hold. Boost then parses the text again because it reports locations and supports such integers.
bool ReadFast(std::string_view text, const json::storage_ptr& storage, json::value& value) {
  thread_local simdjson::dom::parser kept(kParserBytes);
  simdjson::dom::parser large;
  simdjson::dom::parser& parser = text.size() <= kParserBytes ? kept : large;
  simdjson::dom::element root;
  const size_t room = std::max<size_t>(text.size(), 1024);
  if (parser.capacity() < room && parser.allocate(room, kMaxDepth - 2) != simdjson::SUCCESS) return false;
  if (parser.parse(text.data(), text.size()).get(root) != simdjson::SUCCESS) return false;
  value = FromSimd(root, storage);
  return true;
}

constexpr char kBigInteger[] = "\xff";  // the key that stores its digits

// Same as Boost's own handler, except for integers beyond 64 bits.
class ExactHandler {
 public:
  using error_code = boost::system::error_code;
  static constexpr size_t max_object_size = json::object::max_size(), max_array_size = json::array::max_size();
  static constexpr size_t max_key_size = json::string::max_size(), max_string_size = json::string::max_size();

  explicit ExactHandler(json::storage_ptr storage) { stack_.reset(std::move(storage)); }
  json::value Release() { return stack_.release(); }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_object_begin(error_code&) { return true; }
  bool on_object_end(size_t size, error_code&) {
    stack_.push_object(size);
    return true;
  }
  bool on_array_begin(error_code&) { return true; }
  bool on_array_end(size_t size, error_code&) {
    stack_.push_array(size);
    return true;
  }
  bool on_key_part(json::string_view text, size_t, error_code&) { return Chars(text); }
  bool on_key(json::string_view text, size_t, error_code&) {
    stack_.push_key(text);
    return true;
  }
  bool on_string_part(json::string_view text, size_t, error_code&) { return Chars(text); }
  bool on_string(json::string_view text, size_t, error_code&) {
    stack_.push_string(text);
    return true;
  }
  bool on_number_part(json::string_view text, error_code&) {
    number_ += View(text);
    return true;
  }
  bool on_int64(int64_t value, json::string_view, error_code&) {
    number_.clear();
    stack_.push_int64(value);
    return true;
  }
  bool on_uint64(uint64_t value, json::string_view, error_code&) {
    number_.clear();
    stack_.push_uint64(value);
    return true;
  }
  bool on_double(double value, json::string_view text, error_code&) {
    number_ += View(text);
    if (number_.find_first_of(".eE") == std::string::npos) {
      stack_.push_key(kBigInteger);
      stack_.push_string(number_);
      stack_.push_object(1);
    } else {
      stack_.push_double(value);
    }
    number_.clear();
    return true;
  }
  bool on_bool(bool value, error_code&) {
    stack_.push_bool(value);
    return true;
  }
  bool on_null(error_code&) {
    stack_.push_null();
    return true;
  }
  bool on_comment_part(json::string_view, error_code&) { return true; }
  bool on_comment(json::string_view, error_code&) { return true; }

 private:
  bool Chars(json::string_view text) {
    stack_.push_chars(text);
    return true;
  }

  json::value_stack stack_;
  std::string number_;  // the characters of the current number so far
};

}  // namespace

absl::StatusOr<json::value> ParseJsonExactly(std::string_view text, json::storage_ptr storage) {
  if (json::value value(nullptr, storage); ReadFast(text, storage, value)) return value;
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = kMaxDepth;
  json::basic_parser<ExactHandler> parser(options, storage);
  const size_t used = parser.write_some(false, text.data(), text.size(), error);
  if (error || text.find_first_not_of(" \t\r\n", used) != std::string_view::npos)
    return ParseJson(text, std::move(storage));  // its error gives the position
  return parser.handler().Release();
}

std::string_view BigInteger(const json::value& value) {
  if (!value.is_object() || value.get_object().size() != 1) return {};
  const json::key_value_pair& field = *value.get_object().begin();
  return field.key() == kBigInteger && field.value().is_string() ? View(json::string_view(field.value().get_string()))
                                                                 : std::string_view();
}

absl::StatusOr<json::value> ParseJson(std::string_view text, json::storage_ptr storage) {
  if (json::value value(nullptr, storage); ReadFast(text, storage, value)) return value;
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = kMaxDepth;
  json::stream_parser parser(std::move(storage), options);
  size_t used = parser.write_some(text.data(), text.size(), error);
  if (!error && !parser.done()) parser.finish(error);
  if (!error) {
    const size_t rest = text.find_first_not_of(" \t\r\n", used);
    if (rest == std::string_view::npos) return parser.release();
    used = rest;
    error = json::make_error_code(json::error::extra_data);
  }
  const std::string_view before = text.substr(0, used);
  const size_t line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t last_newline = before.rfind('\n');
  const size_t column = last_newline == std::string_view::npos ? used + 1 : used - last_newline;
  return absl::InvalidArgumentError(
      absl::StrCat("malformed JSON at line ", line, ", column ", column, ": ",
                   error == json::error::extra_data ? "there is more text after the value" : error.message()));
}

void AppendJsonString(std::string_view text, std::string& out) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += '"';
  size_t plain = 0;  // start of the bytes that need no escape
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, plain, i - plain);
    plain = i + 1;
    out += '\\';
    switch (c) {
      case '"':
      case '\\':
        out += text[i];
        break;
      case '\b':
        out += 'b';
        break;
      case '\f':
        out += 'f';
        break;
      case '\n':
        out += 'n';
        break;
      case '\r':
        out += 'r';
        break;
      case '\t':
        out += 't';
        break;
      default:
        out += "u00";
        out += kDigits[c >> 4];
        out += kDigits[c & 15];
    }
  }
  out.append(text, plain);
  out += '"';
}

std::string PrintJson(const json::value& value) {
  std::string out;
  Print(value, false, out);
  return out;
}

std::string CanonicalJson(const json::value& value) {
  std::string out;
  Print(value, true, out);
  return out;
}

const json::value* Find(const json::value& value, std::string_view key) {
  return value.is_object() ? value.get_object().if_contains(json::string_view(key.data(), key.size())) : nullptr;
}

}  // namespace ingot::base
