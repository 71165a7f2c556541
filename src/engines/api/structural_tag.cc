#include "engines/api/structural_tag.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/fault.h"
#include "base/printable.h"

namespace ingot::engines {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

// JSON Schema keywords that xgrammar accepts but does not apply.
constexpr std::string_view kIgnored[] = {"contains", "dependencies", "dependentRequired", "dependentSchemas", "else",
                                         "if",       "maxContains",  "minContains",       "multipleOf",       "not",
                                         "then",     "uniqueItems",  "$dynamicRef"};
// Limits that it applies only next to `type`.
constexpr std::string_view kTyped[] = {"exclusiveMaximum", "exclusiveMinimum", "format",  "maxItems",
                                       "maxLength",        "maxProperties",    "maximum", "minItems",
                                       "minLength",        "minProperties",    "minimum", "pattern"};
constexpr std::string_view kFormats[] = {
    "email",    "date", "time", "date-time",     "duration",     "ipv4",         "ipv6",
    "hostname", "uuid", "uri",  "uri-reference", "uri-template", "json-pointer", "relative-json-pointer"};
// Keywords whose value maps names to schemas, and keywords whose value is data.
constexpr std::string_view kNamed[] = {"$defs", "definitions", "patternProperties", "properties"};
constexpr std::string_view kData[] = {"const", "default", "enum", "examples", "required"};

bool IsIn(std::string_view word, const auto& words) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

absl::Status Unserved(const std::string& place, std::string_view what) {
  return base::FaultError({place, absl::StrCat("the server's grammars do not apply ", base::View(what))});
}

bool AppliesFormat(const value& format) { return format.is_string() && IsIn(format.get_string(), kFormats); }

// Returns the first name in `required` that `properties` does not define; empty = none.
std::string UndefinedName(const value& schema) {
  const value *required = base::Find(schema, "required"), *properties = base::Find(schema, "properties");
  if (required == nullptr || !required->is_array()) return "";
  for (const value& name : required->get_array()) {
    if (!name.is_string()) continue;
    const std::string word(name.get_string());
    if (properties == nullptr || base::Find(*properties, word) == nullptr) return word;
  }
  return "";
}

// Returns a constraint of this schema, not of nested ones, that xgrammar does not apply; empty = none.
std::string IgnoredIn(const value& schema) {
  const auto has = [&](const char* key) { return base::Find(schema, key) != nullptr; };
  for (const auto& field : schema.get_object()) {
    const std::string key(field.key());
    if (IsIn(key, kIgnored) || (IsIn(key, kTyped) && !has("type"))) return key;
  }
  const value* all = base::Find(schema, "allOf");
  if (all != nullptr && all->is_array() && (all->get_array().size() > 1 || has("properties"))) return "allOf";
  if (const value* format = base::Find(schema, "format"); format != nullptr && !AppliesFormat(*format)) return "format";
  if ((has("pattern") || has("format")) && (has("minLength") || has("maxLength"))) return "minLength or maxLength";
  if (const std::string name = UndefinedName(schema); !name.empty()) return "required/" + name;
  return "";
}

// `path` is a JSON pointer.
absl::Status CheckSchema(const value& schema, const std::string& place, const std::string& path) {
  if (schema.is_array()) {
    for (size_t i = 0; i < schema.get_array().size(); ++i) {
      INGOT_RETURN_IF_ERROR(CheckSchema(schema.get_array()[i], place, absl::StrCat(path, "/", i)));
    }
  }
  if (!schema.is_object()) return absl::OkStatus();
  if (const std::string ignored = IgnoredIn(schema); !ignored.empty()) {
    return Unserved(place, base::Shown(absl::StrCat("the JSON schema's ", path, "/", ignored)));
  }
  for (const auto& field : schema.get_object()) {
    const std::string key(field.key()), at = absl::StrCat(path, "/", key);
    if (IsIn(key, kData)) continue;
    if (!IsIn(key, kNamed) || !field.value().is_object()) {
      INGOT_RETURN_IF_ERROR(CheckSchema(field.value(), place, at));
      continue;
    }
    for (const auto& named : field.value().get_object()) {
      INGOT_RETURN_IF_ERROR(CheckSchema(named.value(), place, absl::StrCat(at, "/", std::string(named.key()))));
    }
  }
  return absl::OkStatus();
}

object Literal(const std::string& text) { return {{"type", "const_string"}, {"value", text}}; }
object Sequence(array elements) { return {{"type", "sequence"}, {"elements", std::move(elements)}}; }

absl::StatusOr<object> AnyOf(const google::protobuf::RepeatedPtrField<v1::GrammarSequence>& alternatives,
                             const std::string& place);

absl::StatusOr<object> Repeated(const v1::GrammarRepeat& repeat, const std::string& place) {
  INGOT_ASSIGN_OR_RETURN(object first, AnyOf(repeat.alternatives(), place));
  array next;
  if (!repeat.between().empty()) next.push_back(Literal(repeat.between()));
  next.push_back(first);
  object more = {{"type", "star"}, {"content", Sequence(std::move(next))}};
  return Sequence({std::move(first), std::move(more)});
}

absl::StatusOr<object> PartOf(const v1::GrammarPart& part, const std::string& place) {
  if (part.has_literal()) return Literal(part.literal());
  if (part.has_regex()) return object{{"type", "regex"}, {"pattern", part.regex()}};
  if (part.has_repeat()) return Repeated(part.repeat(), place);
  if (part.has_parameters()) return Unserved(place, "this model's format of tool calls (parameters between marks)");
  if (part.has_python_keywords()) return Unserved(place, "this model's format of tool calls (Python keywords)");
  if (!part.has_json_schema()) return Unserved(place, "an empty part");
  absl::StatusOr<value> schema = base::ParseJson(part.json_schema());
  if (!schema.ok()) return base::FaultError({place, absl::StrCat("invalid JSON schema: ", schema.status().message())});
  INGOT_RETURN_IF_ERROR(CheckSchema(*schema, place, ""));
  return object{{"type", "json_schema"}, {"json_schema", *std::move(schema)}};
}

absl::StatusOr<object> AnyOf(const google::protobuf::RepeatedPtrField<v1::GrammarSequence>& alternatives,
                             const std::string& place) {
  array all;
  for (int i = 0; i < alternatives.size(); ++i) {
    const std::string name = place.empty() ? absl::StrCat("grammar.alternatives[", i, "]") : place;
    array parts;
    for (const v1::GrammarPart& part : alternatives[i].parts()) {
      INGOT_ASSIGN_OR_RETURN(object element, PartOf(part, name));
      parts.push_back(std::move(element));
    }
    if (parts.empty()) return Unserved(name, "an empty alternative");
    all.push_back(Sequence(std::move(parts)));
  }
  if (all.empty()) return Unserved("grammar.alternatives", "a grammar without alternatives");
  return object{{"type", "or"}, {"elements", std::move(all)}};
}

}  // namespace

absl::StatusOr<object> StructuralTagOf(const v1::Grammar& grammar) {
  INGOT_ASSIGN_OR_RETURN(object format, AnyOf(grammar.alternatives(), ""));
  if (!grammar.begins_after().empty()) {
    object free = {
        {"type", "tag"}, {"begin", ""}, {"content", object{{"type", "any_text"}}}, {"end", grammar.begins_after()}};
    format = Sequence({std::move(free), std::move(format)});
  }
  return object{{"type", "structural_tag"}, {"format", std::move(format)}};
}

}  // namespace ingot::engines
