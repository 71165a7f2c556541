// Exports a Schema as JSON Schema, for editors.
#include <cmath>
#include <sstream>
#include <utility>

#include "base/config_entry.h"
#include "base/json.h"

namespace ingot::base {
namespace {

// Returns the object for a section in `root`, creating it if missing. `words` is the section's path.
json::object& SectionObject(json::object& root, const std::vector<std::string>& words) {
  json::object* at = &root;
  for (const std::string& word : words) {
    json::object& properties = (*at)["properties"].as_object();
    if (!properties.contains(word)) {
      properties[word] =
          json::object{{"type", "object"}, {"additionalProperties", false}, {"properties", json::object()}};
    }
    at = &properties[word].as_object();
  }
  return *at;
}

std::vector<std::string> Words(const std::string& key) {
  std::vector<std::string> words;
  std::stringstream path(key);
  for (std::string word; std::getline(path, word, '.');) words.push_back(word);
  return words;
}

json::object TypeOf(const std::string& type) {
  if (type == "bool") return {{"type", "boolean"}};
  // The configuration treats 1_000_000 as a number, but YAML 1.2 treats it as a word.
  if (type == "int") return {{"type", json::array{"integer", "string"}}, {"pattern", "^-?[0-9_]+$"}};
  if (type == "number") return {{"type", "number"}};
  if (type == "list of strings") return {{"type", "array"}, {"items", json::object{{"type", "string"}}}};
  if (type == "string or mapping of strings") {
    return {{"type", json::array{"string", "number", "boolean", "object"}}};
  }
  if (type == "string or list of strings") {
    return {{"type", json::array{"string", "number", "boolean", "array"}},
            {"items", json::object{{"type", json::array{"string", "number", "boolean"}}}}};
  }
  if (type == "mapping of strings" || type == "mapping of numbers" || type == "mapping of values")
    return {{"type", "object"}};
  if (type.find(" | ") != std::string::npos) {
    json::array names;
    std::string rest = type;
    for (size_t end; (end = rest.find(" | ")) != std::string::npos; rest = rest.substr(end + 3)) {
      names.emplace_back(rest.substr(0, end));
    }
    names.emplace_back(rest);
    return {{"enum", std::move(names)}};
  }
  // YAML reads a word such as 7 as a number, but the configuration accepts it as a string.
  return {{"type", json::array{"string", "number", "boolean"}}};
}

// Writes a whole number without a fraction because editors display it.
json::value Number(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? json::value(static_cast<int64_t>(value)) : json::value(value);
}

// If a bound also allows 0, widens the bound to include 0.
void PutBound(json::object& type, const Bound& bound) {
  if (bound.or_zero && bound.low >= 0) {
    type["minimum"] = 0;
  } else if (bound.low > -Bound::kNone) {
    type[bound.above_low ? "exclusiveMinimum" : "minimum"] = Number(bound.low);
  }
  if (bound.high < Bound::kNone) type[bound.below_high ? "exclusiveMaximum" : "maximum"] = Number(bound.high);
}

void Put(json::object& root, const std::string& key, json::object value) {
  std::vector<std::string> words = Words(key);
  const std::string name = words.back();
  words.pop_back();
  SectionObject(root, words)["properties"].as_object()[name] = std::move(value);
}

}  // namespace

json::object Schema::JsonSchemaObject() const {
  json::object root{{"type", "object"}, {"additionalProperties", false}, {"properties", json::object()}};
  for (const auto& entry : entries_) {
    json::object value = TypeOf(entry->type);
    if (entry->type == "mapping of numbers") {
      json::object number = TypeOf("number");
      PutBound(number, entry->bound);
      value["additionalProperties"] = std::move(number);
    } else {
      PutBound(value, entry->bound);
    }
    value["description"] = absl::StrCat(entry->doc, " (default: ", FlowYaml(entry->default_value), ")");
    Put(root, entry->key, std::move(value));
  }
  for (const auto& list : lists_) {
    Schema element;
    list->bind_prototype(element);
    Put(root, list->key, {{"type", "array"}, {"description", list->doc}, {"items", element.JsonSchemaObject()}});
  }
  // A section that may be a single word is either an object or a string.
  for (const auto& [section, shorthand] : shorthands_) {
    std::vector<std::string> words = Words(section);
    const std::string name = words.back();
    words.pop_back();
    json::object& properties = SectionObject(root, words)["properties"].as_object();
    if (!properties.contains(name)) continue;
    json::object whole = std::move(properties[name].as_object());
    properties[name] = json::object{{"anyOf", json::array{std::move(whole), json::object{{"type", "string"}}}}};
  }
  return root;
}

std::string Schema::JsonSchema() const {
  json::object schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "An Ingot run"}};
  for (auto& [key, value] : JsonSchemaObject()) schema[key] = value;
  return PrintJson(schema);
}

std::vector<std::string> Schema::Keys() const {
  std::vector<std::string> keys;
  for (const auto& entry : entries_) keys.push_back(entry->key);
  for (const auto& list : lists_) keys.push_back(list->key);
  return keys;
}

}  // namespace ingot::base
