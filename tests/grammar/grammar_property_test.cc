// Random schemas: what is sampled under one is valid JSON and valid under it, by a validator of its own; what is made
// to be valid, in the documented spelling, is taken. Mutated schemas never crash, hang or run away.
#include <ctime>
#include <regex>
#include <set>

#include "base/json.h"
#include "base/rng.h"
#include "grammar/chars.h"
#include "grammar/support.h"

namespace ingot::grammar {
namespace {

namespace json = base::json;
using base::Find;

struct Random {
  uint64_t seed, drawn = 0;
  size_t operator()(size_t bound) { return base::DeriveSeed(seed, drawn++) % bound; }
  bool Chance(size_t one_in) { return (*this)(one_in) == 0; }
};

const char* const kPatterns[] = {"^[a-c]{1,3}$", "x", "^(ab|cd)+[0-9]?$", "[^a]$"};
const char* const kMatches[][2] = {{"abc", "b"}, {"x", "a\nx\"y"}, {"ab", "cdab7"}, {"ab", "\xC3\xA9"}};
const char* const kKeys[] = {"a", "b", "name", "a b", "\xC3\xA9", "q\"\n"};

// --- schemas ---

json::value RandomSchema(Random& random, int depth);

json::object RandomScalar(Random& random) {
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

json::value RandomSchema(Random& random, int depth) {
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

json::object RandomDocument(Random& random) {
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

std::string Text(const json::value& v) { return {v.get_string().data(), v.get_string().size()}; }

bool HasType(const json::value& value, const json::value& type) {
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

bool Valid(const json::value& schema, const json::value& value, const json::value& root) {
  if (schema.is_bool()) return schema.get_bool();
  const auto has = [&](const char* key) { return Find(schema, key); };
  const auto number = [&](const char* key) { return Find(schema, key)->to_number<double>(); };
  if (const auto* ref = has("$ref")) {
    if (!Valid(*Find(*Find(root, "$defs"), Text(*ref).substr(8)), value, root)) return false;
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
    if (has("minLength") && CountCodePoints(text) < number("minLength")) return false;
    if (has("maxLength") && CountCodePoints(text) > number("maxLength")) return false;
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
        if (!Find(value, Text(key))) return false;
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

std::string Space(Random& random) {
  const size_t kind = random(5);
  return kind == 0 ? " " : kind == 1 ? "\n" + std::string(random(kMaxIndent + 1), ' ') : "";
}

std::optional<std::string> Spell(const json::value& schema, const json::value& root, Random& random, int depth);

std::string SpellValue(const json::value& value, Random& random) {
  if (value.is_object()) {
    std::string out = "{" + Space(random);
    bool first = true;
    for (const auto& [key, member] : value.get_object()) {
      if (!std::exchange(first, false)) out += "," + Space(random);
      out += QuoteText({key.data(), key.size()}) + ":" + Space(random) + SpellValue(member, random);
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
  return value.is_string() ? QuoteText(Text(value)) : base::PrintJson(value);
}

std::string SpellScalar(const json::value& schema, const std::string& type, Random& random) {
  const auto at = [&](const char* key, double missing) {
    const auto* v = Find(schema, key);
    return v ? v->to_number<double>() : missing;
  };
  if (type == "null") return "null";
  if (type == "boolean") return random.Chance(2) ? "true" : "false";
  if (type == "integer") {
    const auto low = static_cast<int64_t>(at("minimum", -1e15)),
               high = static_cast<int64_t>(at("exclusiveMaximum", 1e15));
    return std::to_string(low + static_cast<int64_t>(random(static_cast<size_t>(high - low))));
  }
  if (type == "number") {
    const double low = at("minimum", -1000), high = at("maximum", 1000);
    const auto steps = static_cast<int64_t>((high - low) * 8);
    const double value = low + static_cast<double>(random(static_cast<size_t>(steps + 1))) / 8;
    return base::PrintJson(value == 0 ? json::value(0) : json::value(value));  // bounds forbid "-0.0"
  }
  if (const auto* pattern = Find(schema, "pattern")) {
    for (size_t i = 0; i < 4; ++i) {
      if (Text(*pattern) == kPatterns[i]) return QuoteText(kMatches[i][random(2)]);
    }
  }
  const char* const spellings[] = {"a",   "\\u0041", "\xC3\xA9", "\\ud83d\\ude00", "\xF0\x9F\x98\x80", "\\\"",
                                   "\\/", " ",       "\\n"};
  const auto least = static_cast<size_t>(at("minLength", 0)), most = static_cast<size_t>(at("maxLength", 20));
  std::string out = "\"";
  for (size_t n = least + random(most - least + 1); n-- > 0;) out += spellings[random(9)];
  return out + "\"";
}

std::optional<std::string> SpellObject(const json::value& schema, const json::value& root, Random& random, int depth) {
  std::vector<std::string> members;
  const auto* required = Find(schema, "required");
  for (const auto& [key, member] : Find(schema, "properties")->get_object()) {
    const bool needed = required && std::find(required->get_array().begin(), required->get_array().end(), key) !=
                                        required->get_array().end();
    if (!needed && (depth <= 0 || random.Chance(2))) continue;
    auto text = Spell(member, root, random, depth - 1);
    if (!text.has_value()) return std::nullopt;
    members.push_back(QuoteText({key.data(), key.size()}) + ":" + Space(random) + *text);
  }
  if (const auto* more = Find(schema, "additionalProperties"); more && !more->is_bool() && random.Chance(2)) {
    auto text = Spell(*more, root, random, depth - 1);
    if (!text.has_value()) return std::nullopt;
    members.push_back("\"other" + std::to_string(random(3)) + "\":" + Space(random) + *text);
  }
  std::string out = "{" + Space(random);
  for (size_t i = 0; i < members.size(); ++i) out += (i > 0 ? "," + Space(random) : "") + members[i];
  return out + (members.empty() ? "" : Space(random)) + "}";
}

std::optional<std::string> Spell(const json::value& schema, const json::value& root, Random& random, int depth) {
  if (depth < -12) return std::nullopt;
  if (const auto* ref = Find(schema, "$ref"))
    return Spell(*Find(*Find(root, "$defs"), Text(*ref).substr(8)), root, random, depth);
  for (const char* key : {"anyOf", "oneOf"}) {
    if (const auto* list = Find(schema, key)) return Spell(list->get_array()[random(2)], root, random, depth);
  }
  if (const auto* list = Find(schema, "enum"))
    return SpellValue(list->get_array()[random(list->get_array().size())], random);
  const json::value& type = *Find(schema, "type");
  const std::string t = Text(type.is_array() ? type.get_array()[random(type.get_array().size())] : type);
  if (t == "object") return SpellObject(schema, root, random, depth);
  if (t != "array") return SpellScalar(schema, t, random);
  const auto* least = Find(schema, "minItems");
  const auto* most = Find(schema, "maxItems");
  const auto low = least ? static_cast<size_t>(least->to_number<double>()) : 0;
  const auto high = depth <= 0 ? low : most ? static_cast<size_t>(most->to_number<double>()) : 4;
  const size_t count = low + random(high - low + 1);
  std::string out = "[" + Space(random);
  for (size_t i = 0; i < count; ++i) {
    const auto* prefix = Find(schema, "prefixItems");
    auto text = Spell(prefix && i < 2 ? prefix->get_array()[i] : *Find(schema, "items"), root, random, depth - 1);
    if (!text.has_value()) return std::nullopt;
    out += (i > 0 ? "," + Space(random) : "") + *text;
  }
  return out + (count > 0 ? Space(random) : "") + "]";
}

// Random tokens until the text is whole; after a while those that bring the end nearer.
std::string Sample(const std::shared_ptr<const Program>& program, Random& random) {
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
      const bool closing = std::string_view("\"}]abx0").find(static_cast<char>(first)) != std::string_view::npos;
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

TEST(GrammarPropertyTest, WhatIsSampledIsValidAndWhatIsValidIsTaken) {
  Compiler compiler(
      MakeVocabulary({"\"name\": \"", "\", \"", "ab", "}}", "\xA9\"", "\xC3\xA9", "[[", "]}", "],", "12", "\n  "}), 0);
  int compiled = 0, taken = 0;
  for (uint64_t seed = 0; seed < 250; ++seed) {
    Random random{seed};
    const json::value document = RandomDocument(random);
    const std::string text = base::PrintJson(document);
    const auto program = compiler.Compile(SchemaSpec(text));
    if (!program.ok()) {
      EXPECT_THAT(std::string(program.status().message()), testing::HasSubstr("no text")) << text;
      continue;
    }
    ++compiled;
    for (int round = 0; round < 3; ++round) {
      const std::string sampled = Sample(*program, random);
      const auto value = base::ParseJson(sampled);
      ASSERT_TRUE(value.ok()) << text << "\n" << sampled << "\n" << value.status();
      ASSERT_TRUE(Valid(document, *value, document)) << text << "\n" << sampled;
    }
    for (int round = 0; round < 10; ++round) {
      const std::optional<std::string> made = Spell(document, document, random, 4);
      if (!made.has_value()) continue;
      ++taken;
      ASSERT_TRUE(Takes(*program, *made)) << text << "\n" << *made;
    }
  }
  EXPECT_GT(compiled, 200);
  EXPECT_GT(taken, 1500);
}

// --- schemas from nowhere good ---

std::string Mutated(std::string text, Random& random) {
  const std::string tokens[] = {"null",
                                "true",
                                "{}",
                                "[]",
                                "-1",
                                "1e9",
                                "\"$ref\":\"#\",",
                                "\"anyOf\":[{},{\"$ref\":\"#\"}],",
                                "\"allOf\":[{\"$ref\":\"#\"}],",
                                "\"minLength\":100000000,",
                                "\"maxItems\":999999,",
                                "\"pattern\":\"(a|b)*a(a|b){12}\",",
                                "\"not\":{},",
                                "\xFF",
                                "{",
                                "]"};
  for (size_t n = 1 + random(3); n-- > 0 && !text.empty();) {
    const size_t at = random(text.size());
    switch (random(4)) {
      case 0:
        text.erase(at, 1 + random(6));
        break;
      case 1:
        text.insert(at, tokens[random(16)]);
        break;
      case 2:
        text[at] = static_cast<char>(random(256));
        break;
      default:
        // Behind an opening brace, where a keyword may stand.
        if (const size_t brace = text.find('{', at); brace != std::string::npos)
          text.insert(brace + 1, tokens[6 + random(6)]);
    }
  }
  return text;
}

TEST(GrammarPropertyTest, MutatedSchemasAreRefusedOrWorkAndNeverRunAway) {
  Compiler compiler(MakeVocabulary({"\": \"", "ab", "}}"}), 0);
  int compiled = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    Random random{1000 + seed};
    const std::string text = Mutated(base::PrintJson(RandomDocument(random)), random);
    const auto program = compiler.Compile(SchemaSpec(text));
    if (!program.ok()) {
      EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument) << text;
      continue;
    }
    ++compiled;
    Matcher matcher(*program);
    for (int step = 0; step < 30; ++step) {
      const auto allowed = matcher.Allowed();
      if (!allowed.ok() || (*allowed)->count() == 0) break;
      const size_t skip = random((*allowed)->count());
      int32_t id = 0;
      for (size_t seen = 0; !(*allowed)->contains(id) || seen++ < skip;) ++id;
      ASSERT_TRUE(matcher.Accept(id)) << text;
    }
  }
  EXPECT_GT(compiled, 50);
}

TEST(GrammarPropertyTest, HostileSchemasEndSoon) {
  std::vector<std::string> schemas = {
      R"({"type":"string","pattern":"((((a{1000}){1000}){1000}){1000}){1000}"})",
      R"({"type":"string","pattern":"(a|b)*a(a|b){40}"})",
      R"({"type":"string","pattern":"^[^a]{1000}(.*b){1000}$"})",
      R"({"type":"string","pattern":"^a*$","maxLength":1000000000})",
      R"({"type":"array","maxItems":1000000000,"items":{}})",
      R"({"type":"array","minItems":1000000000})",
      R"({"anyOf":[{"$ref":"#"},{"allOf":[{"$ref":"#"},{"$ref":"#"}]},{"type":"object","properties":{"a":{"allOf":[{"$ref":"#"},{"minLength":1}]}}}]})",
      R"({"type":"object","properties":{"a":{"allOf":[{"$ref":"#"},{"properties":{"b":{"$ref":"#"}}}]}}})",
      R"({"type":"array","items":{"anyOf":[{"type":"array","items":{"$ref":"#"},"maxItems":3},{"$ref":"#"}]}})",
  };
  std::string doubling = "{\"$defs\":{\"d0\":{\"type\":\"null\"}";  // 2^40 alternatives by reference
  for (int i = 1; i <= 40; ++i) {
    absl::StrAppend(&doubling, ",\"d", i, "\":{\"anyOf\":[{\"$ref\":\"#/$defs/d", i - 1,
                    "\"},{\"title\":\"x\",\"$ref\":\"#/$defs/d", i - 1, "\"}]}");
  }
  schemas.push_back(doubling + "},\"$ref\":\"#/$defs/d40\"}");
  std::string wide = "{\"type\":\"object\",\"properties\":{\"p\":true";
  for (int i = 0; i < 3000; ++i) absl::StrAppend(&wide, ",\"key", i, "\":{\"type\":\"integer\",\"minimum\":", i, "}");
  schemas.push_back(wide + "}}");
  std::string deep;
  for (int i = 0; i < 60; ++i) deep += R"({"type":"array","items":)";
  schemas.push_back(deep + "{}" + std::string(60, '}'));
  Compiler compiler(MakeVocabulary({"[[", "]]", "\"a"}), 0);
  for (const std::string& schema : schemas) {
    const std::clock_t start = std::clock();
    const auto program = compiler.Compile(SchemaSpec(schema));
    if (program.ok()) {
      Matcher matcher(*program);
      for (int i = 0; i < 20 && matcher.Allowed().ok() && matcher.AcceptText("["); ++i) {
      }
    }
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;  // of this process
    EXPECT_LT(seconds, 60) << schema.substr(0, 200);  // a bound that only running away breaks
  }
}

}  // namespace
}  // namespace ingot::grammar
