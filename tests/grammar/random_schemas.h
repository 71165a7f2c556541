// Random schemas, an independent validator for them, and random texts that they allow, in the spelling that
// grammar/grammar.h documents.
#pragma once

#include <algorithm>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "grammar/chars.h"
#include "grammar/notation.h"
#include "grammar/support.h"

namespace ingot::grammar {

namespace json = base::json;

struct Random {
  uint64_t seed;
  const Notation& notation = kJsonNotation;  // of the generated texts
  uint64_t drawn = 0;
  Spelling spelling() { return notation.strings[(*this)(notation.strings.size())]; }
  size_t operator()(size_t bound) { return base::DeriveSeed(seed, drawn++) % bound; }
  bool Chance(size_t one_in) { return (*this)(one_in) == 0; }
};

inline const char* const kPatterns[] = {"^[a-c]{1,3}$", "x", "^(ab|cd)+[0-9]?$", "[^a]$"};
inline const char* const kMatches[][2] = {{"abc", "b"}, {"x", "a\nx\"y"}, {"ab", "cdab7"}, {"ab", "\xC3\xA9"}};
inline const char* const kKeys[] = {"a", "b", "name", "a b", "\xC3\xA9", "q\"\n"};

// --- schemas ---

inline json::value RandomSchema(Random& random, int depth);

inline json::object RandomScalar(Random& random) {
  json::object s;
  switch (random(6)) {
    case 0:
      s["type"] = "string";
      if (random.Chance(2)) s["minLength"] = random(4);
      if (random.Chance(2)) s["maxLength"] = 3 + random(8);
      break;
    case 1:
      s["type"] = "string";
      s["pattern"] = kPatterns[random(4)];
      break;
    case 2:
      s["type"] = "integer";
      if (random.Chance(2)) s["minimum"] = static_cast<int64_t>(random(100)) - 50;
      if (random.Chance(2)) s["exclusiveMaximum"] = 51 + random(2000);
      break;
    case 3:
      s["type"] = "number";
      if (random.Chance(2)) s["minimum"] = -0.5 - static_cast<double>(random(10));
      if (random.Chance(2)) s["maximum"] = 0.75 + static_cast<double>(random(10));
      break;
    case 4:
      s["enum"] = json::array{"p", "q\t", 3, -1, nullptr, true, json::object{{"z", json::array{1, "w"}}}};
      break;
    default:
      s["type"] = random.Chance(2) ? json::value("boolean") : json::value(json::array{"null", "boolean", "integer"});
  }
  return s;
}

inline json::value RandomSchema(Random& random, int depth) {
  const size_t kind = depth <= 0 ? 0 : random(8);
  if (kind <= 1) return RandomScalar(random);
  json::object s;
  if (kind <= 4) {
    s["type"] = "object";
    json::object properties;
    json::array required;
    for (const char* key : kKeys) {
      if (!random.Chance(3)) continue;
      properties[key] = RandomSchema(random, depth - 1);
      if (random.Chance(2)) required.emplace_back(key);
    }
    s["properties"] = std::move(properties);
    if (random.Chance(2)) s["required"] = std::move(required);
    if (random.Chance(2)) s["additionalProperties"] = random.Chance(2) ? json::value(false) : RandomSchema(random, 0);
  } else if (kind == 5) {
    s["type"] = "array";
    s["items"] = RandomSchema(random, depth - 1);
    if (random.Chance(3)) s["prefixItems"] = json::array{RandomSchema(random, 0), RandomSchema(random, depth - 1)};
    if (random.Chance(2)) s["minItems"] = random(3);
    if (random.Chance(2)) s["maxItems"] = 2 + random(3);
  } else if (kind == 6) {
    s[random.Chance(2) ? "anyOf" : "oneOf"] =
        json::array{RandomSchema(random, depth - 1), RandomSchema(random, depth - 1)};
  } else {
    s["$ref"] = random.Chance(2) ? "#/$defs/scalar" : "#/$defs/tree";
  }
  return s;
}

inline json::object RandomDocument(Random& random) {
  json::object document;
  const json::value schema = RandomSchema(random, 3);
  for (const auto& [key, value] : schema.as_object()) document[key] = value;
  document["$defs"] = json::object{
      {"scalar", RandomScalar(random)},
      {"tree",
       json::object{{"type", "object"},
                    {"properties", json::object{{"v", RandomScalar(random)},
                                                {"kids", json::object{{"type", "array"},
                                                                      {"items", json::object{{"$ref", "#/$defs/tree"}}},
                                                                      {"maxItems", 2}}}}},
                    {"required", json::array{"v"}}}}};
  return document;
}

// --- the validator ---

inline std::string Text(const json::value& v) { return {v.get_string().data(), v.get_string().size()}; }

inline bool HasType(const json::value& value, const json::value& type) {
  if (type.is_array()) {
    for (const json::value& one : type.get_array()) {
      if (HasType(value, one)) return true;
    }
    return false;
  }
  const std::string t = Text(type);
  if (t == "null") return value.is_null();
  if (t == "boolean") return value.is_bool();
  if (t == "string") return value.is_string();
  if (t == "array") return value.is_array();
  if (t == "object") return value.is_object();
  return t == "number" ? value.is_number() : value.is_int64() || value.is_uint64();
}

inline bool Valid(const json::value& schema, const json::value& value, const json::value& root) {
  if (schema.is_bool()) return schema.get_bool();
  const auto has = [&](const char* key) { return base::Find(schema, key); };
  const auto number = [&](const char* key) { return base::Find(schema, key)->to_number<double>(); };
  if (const auto* ref = has("$ref")) {
    if (!Valid(*base::Find(*base::Find(root, "$defs"), Text(*ref).substr(8)), value, root)) return false;
  }
  if (has("type") && !HasType(value, *has("type"))) return false;
  if (const auto* list = has("enum")) {
    const json::array& values = list->get_array();
    if (std::find(values.begin(), values.end(), value) == values.end()) return false;
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    if (!has(key)) continue;
    const json::array& list = has(key)->get_array();
    if (std::none_of(list.begin(), list.end(), [&](const json::value& s) { return Valid(s, value, root); }))
      return false;
  }
  if (value.is_number()) {
    const double x = value.to_number<double>();
    if (has("minimum") && x < number("minimum")) return false;
    if (has("maximum") && x > number("maximum")) return false;
    if (has("exclusiveMaximum") && x >= number("exclusiveMaximum")) return false;
  }
  if (value.is_string()) {
    const std::string text = Text(value);
    if (has("minLength") && base::CountCharacters(text) < number("minLength")) return false;
    if (has("maxLength") && base::CountCharacters(text) > number("maxLength")) return false;
    if (has("pattern") && !std::regex_search(text, std::regex(Text(*has("pattern"))))) return false;
  }
  if (value.is_array()) {
    const json::array& items = value.get_array();
    if (has("minItems") && items.size() < number("minItems")) return false;
    if (has("maxItems") && items.size() > number("maxItems")) return false;
    for (size_t i = 0; i < items.size(); ++i) {
      const auto* prefix = has("prefixItems");
      const json::value* s = prefix && i < prefix->get_array().size() ? &prefix->get_array()[i] : has("items");
      if (s && !Valid(*s, items[i], root)) return false;
    }
  }
  if (value.is_object()) {
    if (const auto* required = has("required")) {
      for (const json::value& key : required->get_array()) {
        if (!base::Find(value, Text(key))) return false;
      }
    }
    for (const auto& [key, member] : value.get_object()) {
      const json::value* s = has("properties") ? has("properties")->get_object().if_contains(key) : nullptr;
      if (s == nullptr) s = has("additionalProperties");
      if (s && !Valid(*s, member, root)) return false;
    }
  }
  return true;
}

// --- valid texts in the documented spelling ---

inline std::string Space(Random& random) {
  const size_t kind = random(5);
  return kind == 0 ? " " : kind == 1 ? "\n" + std::string(random(kMaxIndent + 1), ' ') : "";
}

inline std::optional<std::string> Spell(const json::value& schema, const json::value& root, Random& random, int depth);

inline std::string SpellValue(const json::value& value, Random& random) {
  if (value.is_object()) {
    std::string out = "{" + Space(random);
    bool first = true;
    for (const auto& [key, member] : value.get_object()) {
      if (!std::exchange(first, false)) out += "," + Space(random);
      out += QuoteText({key.data(), key.size()}, random.spelling()) + ":" + Space(random) + SpellValue(member, random);
    }
    return out + (first ? "" : Space(random)) + "}";
  }
  if (value.is_array()) {
    std::string out = "[" + Space(random);
    bool first = true;
    for (const json::value& item : value.get_array()) {
      if (!std::exchange(first, false)) out += "," + Space(random);
      out += SpellValue(item, random);
    }
    return out + (first ? "" : Space(random)) + "]";
  }
  if (value.is_string()) return QuoteText(Text(value), random.spelling());
  if (value.is_null()) return std::string(random.notation.null);
  if (value.is_bool()) return std::string(value.get_bool() ? random.notation.yes : random.notation.no);
  return base::PrintJson(value);
}

inline std::string SpellScalar(const json::value& schema, const std::string& type, Random& random) {
  const auto at = [&](const char* key, double missing) {
    const auto* v = base::Find(schema, key);
    return v ? v->to_number<double>() : missing;
  };
  if (type == "null") return SpellValue(nullptr, random);
  if (type == "boolean") return SpellValue(random.Chance(2), random);
  if (type == "integer") {
    const auto low = static_cast<int64_t>(at("minimum", -1e15)),
               high = static_cast<int64_t>(at("exclusiveMaximum", 1e15));
    return std::to_string(low + static_cast<int64_t>(random(static_cast<size_t>(high - low))));
  }
  if (type == "number") {
    const double low = at("minimum", -1000), high = at("maximum", 1000);
    const auto steps = static_cast<int64_t>((high - low) * 8);
    const double value = low + static_cast<double>(random(static_cast<size_t>(steps + 1))) / 8;
    return base::PrintJson(value == 0 ? json::value(0) : json::value(value));  // bounds exclude "-0.0"
  }
  if (const auto* pattern = base::Find(schema, "pattern")) {
    for (size_t i = 0; i < 4; ++i) {
      if (Text(*pattern) == kPatterns[i]) return QuoteText(kMatches[i][random(2)], random.spelling());
    }
  }
  const std::vector<std::string> in_json = {"\\ud83d\\ude00", "\\/", "\\b"},
                                 in_python = {"\\U0001F600", "\\xe9", "\\'", "\\U0010ffff"};
  std::vector<std::string> spellings = {"a", "\\u0041", "\xC3\xA9", "\xF0\x9F\x98\x80", "\\\"", " ", "\\n", "\\\\"};
  const char mark = QuotationMark(random.spelling());
  for (const std::string& one : mark == '"' && random.notation.name == "json" ? in_json : in_python) {
    spellings.push_back(one);
  }
  if (mark == '\'') spellings.push_back("\"");
  const auto least = static_cast<size_t>(at("minLength", 0)), most = static_cast<size_t>(at("maxLength", 20));
  std::string out(1, mark);
  for (size_t n = least + random(most - least + 1); n-- > 0;) out += spellings[random(spellings.size())];
  return out + mark;
}

// The members of an object. `key_text` gives a name with everything up to its value.
template <typename Key>
std::optional<std::vector<std::string>> SpellMembers(const json::value& schema, const json::value& root, Random& random,
                                                     int depth, const Key& key_text) {
  std::vector<std::string> members;
  const auto* required = base::Find(schema, "required");
  for (const auto& [key, member] : base::Find(schema, "properties")->get_object()) {
    const bool needed = required && std::find(required->get_array().begin(), required->get_array().end(), key) !=
                                        required->get_array().end();
    if (!needed && (depth <= 0 || random.Chance(2))) continue;
    auto text = Spell(member, root, random, depth - 1);
    if (!text.has_value()) return std::nullopt;
    members.push_back(key_text({key.data(), key.size()}) + *text);
  }
  if (const auto* more = base::Find(schema, "additionalProperties"); more && !more->is_bool() && random.Chance(2)) {
    auto text = Spell(*more, root, random, depth - 1);
    if (!text.has_value()) return std::nullopt;
    members.push_back(key_text("other" + std::to_string(random(3))) + *text);
  }
  return members;
}

inline std::optional<std::string> SpellObject(const json::value& schema, const json::value& root, Random& random,
                                              int depth) {
  const auto key = [&](const std::string& name) { return QuoteText(name, random.spelling()) + ":" + Space(random); };
  const auto members = SpellMembers(schema, root, random, depth, key);
  if (!members.has_value()) return std::nullopt;
  std::string out = "{" + Space(random);
  for (size_t i = 0; i < members->size(); ++i) out += (i > 0 ? "," + Space(random) : "") + (*members)[i];
  return out + (members->empty() ? "" : Space(random)) + "}";
}

inline std::optional<std::string> Spell(const json::value& schema, const json::value& root, Random& random, int depth) {
  if (depth < -12) return std::nullopt;
  if (const auto* ref = base::Find(schema, "$ref"))
    return Spell(*base::Find(*base::Find(root, "$defs"), Text(*ref).substr(8)), root, random, depth);
  for (const char* key : {"anyOf", "oneOf"}) {
    if (const auto* list = base::Find(schema, key)) return Spell(list->get_array()[random(2)], root, random, depth);
  }
  if (const auto* list = base::Find(schema, "enum"))
    return SpellValue(list->get_array()[random(list->get_array().size())], random);
  const json::value& type = *base::Find(schema, "type");
  const std::string t = Text(type.is_array() ? type.get_array()[random(type.get_array().size())] : type);
  if (t == "object") return SpellObject(schema, root, random, depth);
  if (t != "array") return SpellScalar(schema, t, random);
  const auto* least = base::Find(schema, "minItems");
  const auto* most = base::Find(schema, "maxItems");
  const auto low = least ? static_cast<size_t>(least->to_number<double>()) : 0;
  const auto high = depth <= 0 ? low : most ? static_cast<size_t>(most->to_number<double>()) : 4;
  const size_t count = low + random(high - low + 1);
  std::string out = "[" + Space(random);
  for (size_t i = 0; i < count; ++i) {
    const auto* prefix = base::Find(schema, "prefixItems");
    auto text = Spell(prefix && i < 2 ? prefix->get_array()[i] : *base::Find(schema, "items"), root, random, depth - 1);
    if (!text.has_value()) return std::nullopt;
    out += (i > 0 ? "," + Space(random) : "") + *text;
  }
  return out + (count > 0 ? Space(random) : "") + "]";
}

// Samples random allowed tokens until the text is complete. After a while it prefers tokens that bring the end nearer.
inline std::string Sample(const std::shared_ptr<const Program>& program, Random& random) {
  const Vocabulary& vocabulary = *program->vocabulary;
  Matcher matcher(program);
  std::string text;
  for (int step = 0; step < 5000; ++step) {
    const auto allowed = matcher.Allowed();
    if (!allowed.ok()) ADD_FAILURE() << allowed.status();
    if (matcher.complete() && ((*allowed)->count() == 0 || random.Chance(3))) return text;
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
      const uint8_t first = vocabulary.bytes(id).empty() ? 0 : static_cast<uint8_t>(vocabulary.bytes(id)[0]);
      const bool closing = std::string_view("\"'}]abx0").find(static_cast<char>(first)) != std::string_view::npos;
      if ((*allowed)->contains(id) && (step < 60 || closing)) ids.push_back(id);
    }
    for (int32_t id = 0; ids.empty() && id < vocabulary.size(); ++id) {
      if ((*allowed)->contains(id) && vocabulary.bytes(id) != "[" && vocabulary.bytes(id) != "{") ids.push_back(id);
    }
    for (int32_t id = 0; ids.empty() && id < vocabulary.size(); ++id) {
      if ((*allowed)->contains(id)) ids.push_back(id);
    }
    if (ids.empty()) break;
    const int32_t id = ids[random(ids.size())];
    text += vocabulary.bytes(id);
    if (!matcher.Accept(id)) break;
  }
  ADD_FAILURE() << "did not end: " << text.substr(0, 300);
  return text;
}

}  // namespace ingot::grammar
