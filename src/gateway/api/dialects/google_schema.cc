#include "gateway/api/dialects/google_schema.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

enum class Meaning {
  kSchema,   // a schema
  kSchemas,  // a list of schemas
  kNamed,    // an object whose values are schemas
  kBound,    // a number, which is a string in JSON for 64-bit fields
};
struct Keyword {
  std::string_view name;
  std::string_view other_name;  // field name in the protocol buffer; empty = same
  Meaning meaning;
};
constexpr Keyword kKeywords[] = {
    {"items", "", Meaning::kSchema},
    {"additionalProperties", "additional_properties", Meaning::kSchema},
    {"anyOf", "any_of", Meaning::kSchemas},
    {"oneOf", "one_of", Meaning::kSchemas},
    {"allOf", "all_of", Meaning::kSchemas},
    {"prefixItems", "prefix_items", Meaning::kSchemas},
    {"properties", "", Meaning::kNamed},
    {"$defs", "defs", Meaning::kNamed},
    {"minItems", "min_items", Meaning::kBound},
    {"maxItems", "max_items", Meaning::kBound},
    {"minLength", "min_length", Meaning::kBound},
    {"maxLength", "max_length", Meaning::kBound},
    {"minProperties", "min_properties", Meaning::kBound},
    {"maxProperties", "max_properties", Meaning::kBound},
};

const Keyword* FindKeyword(std::string_view name) {
  const auto found = std::find_if(std::begin(kKeywords), std::end(kKeywords), [&](const Keyword& keyword) {
    return keyword.name == name || (!keyword.other_name.empty() && keyword.other_name == name);
  });
  return found == std::end(kKeywords) ? nullptr : found;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

value Bound(const value& written) {
  if (!written.is_string()) return written;
  const std::string_view text(written.get_string());
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? value(number) : written;
}

// Returns the properties in the order given by `names`, followed by the others.
object Ordered(const object& properties, const array& names) {
  object ordered;
  for (const value& name : names) {
    const value* property = name.is_string() ? properties.if_contains(name.get_string()) : nullptr;
    if (property != nullptr) ordered[name.get_string()] = *property;
  }
  for (const auto& [name, property] : properties) {
    if (!ordered.contains(name)) ordered[name] = property;
  }
  return ordered;
}

value Converted(Meaning meaning, const value& written) {
  if (meaning == Meaning::kSchema) return JsonSchemaOf(written);
  if (meaning == Meaning::kBound) return Bound(written);
  if (meaning == Meaning::kSchemas && written.is_array()) {
    array schemas;
    for (const value& schema : written.get_array()) schemas.push_back(JsonSchemaOf(schema));
    return schemas;
  }
  if (meaning == Meaning::kNamed && written.is_object()) {
    object schemas;
    for (const auto& [name, schema] : written.get_object()) schemas[name] = JsonSchemaOf(schema);
    return schemas;
  }
  return written;
}

void AllowNull(object& schema) {
  if (value* type = schema.if_contains("type"); type != nullptr && type->is_string()) {
    *type = array{*type, "null"};
  } else if (value* any = schema.if_contains("anyOf"); any != nullptr && any->is_array()) {
    any->get_array().push_back(object{{"type", "null"}});
  }
  if (value* names = schema.if_contains("enum"); names != nullptr && names->is_array()) {
    names->get_array().push_back(nullptr);
  }
}

}  // namespace

value JsonSchemaOf(const value& written) {
  if (!written.is_object()) return written;
  object schema;
  bool nullable = false;
  const value* order = nullptr;
  for (const auto& [name, field] : written.get_object()) {
    const std::string_view key(name);
    const Keyword* keyword = FindKeyword(key);
    if (keyword != nullptr) {
      schema[keyword->name] = Converted(keyword->meaning, field);
    } else if (key == "type" && field.is_string()) {
      const std::string type = Lower(field.get_string());
      if (type != "type_unspecified") schema["type"] = type;
    } else if (key == "nullable" && field.is_bool()) {
      nullable = field.get_bool();
    } else if (key == "propertyOrdering" || key == "property_ordering") {
      order = &field;
    } else if (key != "format" || field != "enum") {  // every string with an enum has this format
      schema[name] = field;
    }
  }
  value* properties = schema.if_contains("properties");
  if (order != nullptr && order->is_array() && properties != nullptr && properties->is_object()) {
    *properties = Ordered(properties->get_object(), order->get_array());
  }
  if (nullable) AllowNull(schema);
  return schema;
}

}  // namespace ingot::gateway
