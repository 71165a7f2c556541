#include "text/output/argument_values.h"

#include <algorithm>

#include "text/output/python_literal.h"

namespace ingot::text {
namespace {

namespace json = base::json;
using base::Find;

constexpr std::string_view kSpace = " \t\r\n";

unsigned KindOf(const json::value& value) {
  switch (value.kind()) {
    case json::kind::string:
      return kStringBit;
    case json::kind::bool_:
      return kBoolBit;
    case json::kind::null:
      return kNullBit;
    case json::kind::object:
      return kObjectBit;
    case json::kind::array:
      return kArrayBit;
    default:
      return kNumberBit;
  }
}

unsigned NamedType(std::string_view name) {
  if (name == "string") return kStringBit;
  if (name == "number" || name == "integer") return kNumberBit;
  if (name == "boolean") return kBoolBit;
  if (name == "null") return kNullBit;
  if (name == "object") return kObjectBit;
  if (name == "array") return kArrayBit;
  return 0;
}

// Follows a reference such as "#/$defs/Name" within `root`. Returns null if there is no such value.
const json::value* Resolve(const json::value& root, std::string_view reference) {
  if (!reference.starts_with("#")) return nullptr;
  const json::value* at = &root;
  reference.remove_prefix(1);
  while (at != nullptr && reference.starts_with("/")) {
    reference.remove_prefix(1);
    const size_t end = std::min(reference.find('/'), reference.size());
    at = Find(*at, reference.substr(0, end));
    reference.remove_prefix(end);
  }
  return at;
}

// `steps` limits the schemas visited for one parameter, so a schema that refers to itself many times terminates.
unsigned TypesOf(const json::value& schema, const json::value& root, int depth, int& steps) {
  if (depth > 8 || --steps < 0) return 0;
  unsigned types = 0;
  if (const json::value* type = Find(schema, "type")) {
    if (type->is_string()) types |= NamedType(type->get_string());
    if (type->is_array()) {
      for (const json::value& item : type->get_array()) {
        if (item.is_string()) types |= NamedType(item.get_string());
      }
    }
    return types;
  }
  if (const json::value* constant = Find(schema, "const")) return KindOf(*constant);
  if (const json::value* values = Find(schema, "enum"); values != nullptr && values->is_array()) {
    for (const json::value& item : values->get_array()) types |= KindOf(item);
    return types;
  }
  if (const json::value* reference = Find(schema, "$ref"); reference != nullptr && reference->is_string()) {
    const json::value* target = Resolve(root, reference->get_string());
    return target == nullptr ? 0 : TypesOf(*target, root, depth + 1, steps);
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    const json::value* options = Find(schema, key);
    if (options == nullptr || !options->is_array()) continue;
    for (const json::value& option : options->get_array()) {
      const unsigned more = TypesOf(option, root, depth + 1, steps);
      if (more == 0 && std::string_view(key) != "allOf") return 0;  // an alternative that allows everything
      types |= more;
    }
  }
  if (types == 0 && Find(schema, "properties") != nullptr) types = kObjectBit;
  if (types == 0 && Find(schema, "items") != nullptr) types = kArrayBit;
  return types;
}

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

ParameterTypes::ParameterTypes(std::span<const json::value> tools) {
  for (const json::value& tool : tools) {
    const json::value* function = Find(tool, "function");
    if (function == nullptr) function = &tool;
    const json::value* name = Find(*function, "name");
    const json::value* schema = Find(*function, "parameters");
    if (schema == nullptr) schema = Find(*function, "input_schema");
    if (name == nullptr || !name->is_string() || schema == nullptr) continue;
    const json::value* properties = Find(*schema, "properties");
    if (properties == nullptr || !properties->is_object()) continue;
    auto& known = types_[std::string(name->get_string())];
    int steps = 100'000;
    for (const auto& property : properties->get_object()) {
      known[std::string(property.key())] = TypesOf(property.value(), *schema, 0, steps);
    }
  }
}

unsigned ParameterTypes::Of(std::string_view tool, std::string_view parameter) const {
  const auto known = types_.find(tool);
  if (known == types_.end()) return 0;
  const auto type = known->second.find(parameter);
  return type == known->second.end() ? 0 : type->second;
}

std::string JsonOfText(std::string_view text, unsigned types) {
  unsigned admitted = types == 0 ? ~unsigned{kStringBit} : types;
  if ((admitted & kStringBit) == 0) admitted |= kNullBit;
  const std::string_view value = Trimmed(text);
  if ((admitted & ~unsigned{kStringBit}) == 0 || value.empty()) return JsonString(text);
  if (const auto parsed = base::ParseJson(value); parsed.ok()) {
    const unsigned kind = KindOf(*parsed);
    if (kind != kStringBit && (kind & admitted) != 0) return std::string(value);
  } else if (const auto python = JsonOfPython(value)) {
    const auto again = base::ParseJson(*python);
    if (again.ok() && KindOf(*again) != kStringBit && (KindOf(*again) & admitted) != 0) return *python;
  }
  return JsonString(text);
}

}  // namespace ingot::text
