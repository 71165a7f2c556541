#include "grammar/schema_compiler.h"

#include <algorithm>
#include <utility>

#include "grammar/chars.h"
#include "grammar/regex.h"

namespace ingot::grammar {

namespace {

constexpr uint32_t kMaxHeldItems = 4096;  // a lenient schema ignores a larger maxItems and lowers a larger minItems

std::string Text(json::string_view text) { return {text.data(), text.size()}; }

// Returns the schema's named keywords as a string, to find an equal rule.
std::string RuleText(const FlatSchema& schema, std::initializer_list<const char*> keys) {
  json::object part;
  for (const char* key : keys) {
    if (const json::value* value = schema.if_contains(key)) part[key] = *value;
  }
  return base::PrintJson(part);
}

}  // namespace

absl::Status SchemaCompiler::Compile(int32_t from, int32_t to) {
  INGOT_RETURN_IF_ERROR(Emit(from, to, root_, "#"));
  return BuildPending();
}

absl::Status SchemaCompiler::BuildPending() {
  while (!pending_.empty()) {
    const PendingRule rule = std::move(pending_.front());
    pending_.pop_front();
    INGOT_RETURN_IF_ERROR(rule.is_object ? BuildObject(rule) : BuildArray(rule));
  }
  return absl::OkStatus();
}

absl::Status SchemaCompiler::Emit(int32_t from, int32_t to, const json::value& schema, const std::string& path) {
  if (!flattener_.lenient()) {
    INGOT_ASSIGN_OR_RETURN(const std::vector<FlatSchema> alternatives, flattener_.Flatten(schema, path));
    for (const FlatSchema& flat : alternatives) INGOT_RETURN_IF_ERROR(EmitFlat(from, to, flat, path));
    return absl::OkStatus();
  }
  const absl::StatusOr<std::vector<FlatSchema>> flattened = [&] {
    const Budget::Share share(builder_.budget());
    return flattener_.Flatten(schema, path);
  }();
  const std::vector<FlatSchema> alternatives = flattened.ok() ? *flattened : std::vector<FlatSchema>{FlatSchema()};
  const size_t before = builder_.EdgesOf(from);
  for (const FlatSchema& flat : alternatives) {
    INGOT_RETURN_IF_ERROR(AsFarAsCanBe(flat, [&](const FlatSchema& form) { return EmitFlat(from, to, form, path); }));
  }
  // No alternative allowed anything, because its keywords contradict each other. Weakens them until one does.
  for (size_t i = 0; i < alternatives.size() && builder_.EdgesOf(from) == before; ++i) {
    INGOT_RETURN_IF_ERROR(AsFarAsCanBe(alternatives[i], [&](const FlatSchema& form) {
      INGOT_RETURN_IF_ERROR(EmitFlat(from, to, form, path));
      return builder_.EdgesOf(from) > before ? absl::OkStatus() : SchemaFault(path, "allows nothing");
    }));
  }
  return absl::OkStatus();
}

bool EraseKind(size_t kind, FlatSchema* schema) {
  size_t erased = 0;
  for (const char* key : kKinds[kind]) erased += key != nullptr ? schema->erase(key) : 0;
  return erased > 0;
}

absl::Status SchemaCompiler::EmitFlat(int32_t from, int32_t to, const FlatSchema& schema, const std::string& path) {
  if (schema.contains("enum")) return EmitEnum(from, to, schema, path);
  INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> types, TypesOf(schema, path));
  for (const std::string& type : types) {
    if (type == "null") {
      INGOT_RETURN_IF_ERROR(AddMark(from, to, notation_.null, false, false));
    } else if (type == "boolean") {
      INGOT_RETURN_IF_ERROR(AddMark(from, to, notation_.yes, false, false));
      INGOT_RETURN_IF_ERROR(AddMark(from, to, notation_.no, false, false));
    } else if (type == "string") {
      INGOT_RETURN_IF_ERROR(EmitString(from, to, schema, path));
    } else if (type == "array" || type == "object") {
      INGOT_RETURN_IF_ERROR(EmitRule(from, to, type == "object", schema, path));
    } else {
      INGOT_RETURN_IF_ERROR(EmitNumber(from, to, schema, type == "integer", path));
    }
  }
  return absl::OkStatus();
}

absl::Status SchemaCompiler::EmitString(int32_t from, int32_t to, const FlatSchema& schema, const std::string& path) {
  INGOT_ASSIGN_OR_RETURN(const StringRules rules, StringRulesOf(schema, path));
  Budget& budget = builder_.budget();
  for (const Spelling spelling : notation_.strings) {
    const auto spelled = base::View(SpellingName(spelling));
    if (rules.patterns.empty()) {
      const auto make = [&] { return StringDfa(spelling, budget); };
      INGOT_ASSIGN_OR_RETURN(const LeafPtr leaf,
                             builder_.pool().Get(absl::StrCat("string ", spelled), make, kStringBoundary));
      INGOT_RETURN_IF_ERROR(builder_.AddLeaf(from, to, leaf, rules.min, rules.max));
      continue;
    }
    // A maximum is counted outside the automaton, which would grow with it.
    StringRules unlimited = rules;
    unlimited.max = kNoLimit;
    const auto make = [&]() -> absl::StatusOr<Dfa> {
      INGOT_ASSIGN_OR_RETURN(const Dfa content, ContentDfa(unlimited, budget, spelling, path));
      return Quote(content, QuotationMark(spelling));
    };
    const bool counted = rules.max != kNoLimit;
    const std::string name = absl::StrCat(counted ? "counted " : "pattern ", spelled, " ", unlimited.Name());
    INGOT_ASSIGN_OR_RETURN(
        const LeafPtr leaf,
        builder_.pool().Get(name, make, -1, false, counted ? std::optional<Spelling>(spelling) : std::nullopt));
    INGOT_RETURN_IF_ERROR(builder_.AddLeaf(from, to, leaf, 0, rules.max));
  }
  return absl::OkStatus();
}

absl::Status SchemaCompiler::EmitNumber(int32_t from, int32_t to, const FlatSchema& schema, bool integer,
                                        const std::string& path) {
  INGOT_ASSIGN_OR_RETURN(const NumberRange range, NumberRangeOf(schema, integer, path));
  if (!range.CanBeSpelled()) {
    return SchemaFault(path, integer ? "integers have 64 bits, but the bounds exclude all 64-bit integers"
                                     : "numbers with bounds have at most 18 digits before the decimal point, but the "
                                       "bounds exclude all such numbers");
  }
  const auto text = [](const std::optional<Decimal>& bound, bool excluded) {
    if (!bound.has_value()) return std::string("*");
    return absl::StrCat(bound->negative ? "-" : "", bound->whole, ".", bound->fraction, excluded ? "x" : "");
  };
  const std::string name = absl::StrCat(integer ? "integer " : "number ", text(range.low, range.low_excluded), " ",
                                        text(range.high, range.high_excluded), " ", text(range.multiple_of, false));
  INGOT_ASSIGN_OR_RETURN(const LeafPtr leaf,
                         builder_.pool().Get(name, [&] { return NumberDfa(range, builder_.budget()); }));
  return builder_.AddLeaf(from, to, leaf);
}

absl::Status SchemaCompiler::EmitEnum(int32_t from, int32_t to, const FlatSchema& schema, const std::string& path) {
  if (!schema.at("enum").is_array()) return SchemaFault(path, "enum must be a list");
  INGOT_ASSIGN_OR_RETURN(const std::vector<json::value> values, AllowedValues(schema, path, builder_.budget()));
  if (values.empty()) return absl::OkStatus();
  const json::value list = json::array(values.begin(), values.end());
  const auto make = [&]() -> absl::StatusOr<Dfa> {
    Nfa nfa;
    const int32_t start = nfa.AddState(), end = nfa.AddState();
    for (const json::value& value : values) nfa.AddEpsilon(AddValue(nfa, start, value, notation_), end);
    return Determinize(nfa, start, end, builder_.budget());
  };
  const std::string name = absl::StrCat("enum ", base::View(notation_.name), " ", base::PrintJson(list));
  INGOT_ASSIGN_OR_RETURN(const LeafPtr leaf, builder_.pool().Get(name, make));
  return builder_.AddLeaf(from, to, leaf);
}

absl::Status SchemaCompiler::EmitRule(int32_t from, int32_t to, bool is_object, const FlatSchema& schema,
                                      const std::string& path) {
  const std::string text = is_object ? "o" + RuleText(schema, {"properties", "required", "additionalProperties"})
                                     : "a" + RuleText(schema, {"items", "prefixItems", "minItems", "maxItems"});
  INGOT_RETURN_IF_ERROR(
      Budget::Spend(builder_.budget().steps, 4 * static_cast<int64_t>(text.size()), "its schemas are too large"));
  const auto [it, fresh] = rules_.try_emplace(text, -1);
  if (fresh) {
    INGOT_ASSIGN_OR_RETURN(it->second, builder_.AddRule());
    pending_.push_back({it->second, is_object, schema, path});
  }
  return builder_.AddEdge(from, {Edge::kRule, it->second, to});
}

absl::Status SchemaCompiler::AddMark(int32_t from, int32_t to, std::string_view text, bool space_before,
                                     bool space_after) {
  const auto make = [&]() -> absl::StatusOr<Dfa> {
    Nfa nfa;
    const int32_t start = nfa.AddState();
    int32_t end = nfa.AddText(space_before ? AddWhitespace(nfa, start) : start, text);
    if (space_after) end = AddWhitespace(nfa, end);
    return Determinize(nfa, start, end, builder_.budget());
  };
  const std::string name = absl::StrCat("mark ", space_before, space_after, base::View(text));
  INGOT_ASSIGN_OR_RETURN(const LeafPtr leaf, builder_.pool().Get(name, make));
  return builder_.AddLeaf(from, to, leaf);
}

absl::Status SchemaCompiler::AddKey(int32_t from, int32_t to, const std::string& key, Keys keys,
                                    const std::string& path) {
  if (keys == Keys::kKeywords) return AddKeyword(from, to, key, path);
  for (const Spelling spelling : notation_.strings) {
    INGOT_RETURN_IF_ERROR(AddMark(from, to, QuoteText(key, spelling) + ":", false, true));
  }
  return absl::OkStatus();
}

// Adds any key other than the known ones. Allows only canonical spelling, so no other spelling of a known key is
// accepted.
absl::Status SchemaCompiler::AddOtherKeys(int32_t from, int32_t to, const std::vector<Property>& known, Keys keys) {
  if (keys == Keys::kKeywords) return AddOtherKeywords(from, to, known);
  INGOT_ASSIGN_OR_RETURN(const int32_t colon, builder_.AddState());
  for (const Spelling spelling : notation_.strings) {
    std::string name = absl::StrCat("key ", base::View(SpellingName(spelling)), " but");
    for (const Property& property : known) absl::StrAppend(&name, " ", QuoteText(property.key));
    const auto make = [&]() -> absl::StatusOr<Dfa> {
      Budget& budget = builder_.budget();
      INGOT_ASSIGN_OR_RETURN(const Dfa any, LengthDfa(0, kNoLimit, budget, spelling));
      Nfa nfa;
      const int32_t start = nfa.AddState(), end = nfa.AddState();
      for (const Property& property : known) nfa.AddEpsilon(nfa.AddText(start, QuoteText(property.key, spelling)), end);
      INGOT_ASSIGN_OR_RETURN(const Dfa names, Determinize(nfa, start, end, budget));
      return Difference(Quote(any, QuotationMark(spelling)), names, budget);
    };
    INGOT_ASSIGN_OR_RETURN(const LeafPtr leaf, builder_.pool().Get(name, make));
    INGOT_RETURN_IF_ERROR(builder_.AddLeaf(from, colon, leaf));
  }
  return AddMark(colon, to, ":", false, true);
}

absl::StatusOr<std::vector<SchemaCompiler::Property>> SchemaCompiler::PropertiesOf(
    const PendingRule& rule, const json::value* additional) const {
  static const json::value anything(true);
  std::vector<Property> out;
  std::map<std::string, size_t> places;
  if (const json::value* properties = rule.schema.if_contains("properties")) {
    if (!properties->is_object()) return SchemaFault(rule.path, "properties must be an object");
    for (const auto& [key, schema] : properties->get_object()) {
      places[Text(key)] = out.size();
      out.push_back({Text(key), &schema, false});
    }
  }
  if (const json::value* required = rule.schema.if_contains("required")) {
    if (!required->is_array()) return SchemaFault(rule.path, "required must be a list of strings");
    for (const json::value& key : required->get_array()) {
      if (!key.is_string()) return SchemaFault(rule.path, "required must be a list of strings");
      const auto [it, fresh] = places.try_emplace(Text(key.get_string()), out.size());
      if (fresh) out.push_back({it->first, additional != nullptr ? additional : &anything, false});
      out[it->second].required = true;
    }
  }
  return out;
}

// There are two rows of states. In `first`, no member is written yet. In `more` and `next`, a comma comes before the
// next key. Both rows pass a property by writing it, or by skipping it if it is optional.
//
//   first[0] -> first[1] -> ... -> first[n] -> none       first[i] -- key i, value i --> more[i + 1]
//   more[i] -- "," --> next[i];  next[i] -> next[i + 1] -> ...;  next[i] -- key i, value i --> more[i + 1]
//   more[i] -> some, where all properties from i on are optional
absl::Status SchemaCompiler::EmitMembers(const PendingRule& object, Keys keys, int32_t begin, int32_t none,
                                         int32_t some) {
  static const json::value anything(true);
  const json::value* stated = object.schema.if_contains("additionalProperties");
  INGOT_ASSIGN_OR_RETURN(const std::vector<Property> properties, PropertiesOf(object, stated));
  const json::value* others = stated != nullptr ? stated : object.schema.contains("properties") ? nullptr : &anything;
  const size_t n = properties.size();
  std::vector<int32_t> first(n + 1), more(n + 1), next(n + 1);
  for (size_t i = 0; i <= n; ++i) {
    for (std::vector<int32_t>* row : {&first, &more, &next}) {
      INGOT_ASSIGN_OR_RETURN((*row)[i], builder_.AddState());
    }
  }
  INGOT_RETURN_IF_ERROR(builder_.AddEdge(begin, {Edge::kEpsilon, 0, first[0]}));
  INGOT_RETURN_IF_ERROR(builder_.AddEdge(first[n], {Edge::kEpsilon, 0, none}));
  for (size_t i = 0; i < n; ++i) {
    const Property& property = properties[i];
    const std::string path = absl::StrCat(object.path, "/properties/", property.key);
    INGOT_ASSIGN_OR_RETURN(const int32_t value, builder_.AddState());
    INGOT_RETURN_IF_ERROR(AddKey(first[i], value, property.key, keys, path));
    INGOT_RETURN_IF_ERROR(AddKey(next[i], value, property.key, keys, path));
    INGOT_RETURN_IF_ERROR(Emit(value, more[i + 1], *property.schema, path));
    if (property.required) continue;
    INGOT_RETURN_IF_ERROR(builder_.AddEdge(first[i], {Edge::kEpsilon, 0, first[i + 1]}));
    INGOT_RETURN_IF_ERROR(builder_.AddEdge(next[i], {Edge::kEpsilon, 0, next[i + 1]}));
  }
  bool rest_optional = true;
  for (size_t i = n + 1; i-- > 0;) {
    if (i < n && properties[i].required) rest_optional = false;
    INGOT_RETURN_IF_ERROR(AddMark(more[i], next[i], ",", false, true));
    if (rest_optional) INGOT_RETURN_IF_ERROR(builder_.AddEdge(more[i], {Edge::kEpsilon, 0, some}));
  }
  if (others == nullptr) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const int32_t value, builder_.AddState());
  INGOT_RETURN_IF_ERROR(AddOtherKeys(first[n], value, properties, keys));
  INGOT_RETURN_IF_ERROR(AddOtherKeys(next[n], value, properties, keys));
  return Emit(value, more[n], *others, object.path + "/additionalProperties");
}

absl::Status SchemaCompiler::BuildObject(const PendingRule& rule) {
  INGOT_ASSIGN_OR_RETURN(const int32_t begin, builder_.AddState());
  INGOT_ASSIGN_OR_RETURN(const int32_t none, builder_.AddState());
  INGOT_ASSIGN_OR_RETURN(const int32_t some, builder_.AddState());
  INGOT_ASSIGN_OR_RETURN(const int32_t end, builder_.AddState());
  builder_.SetAccepting(end);
  INGOT_RETURN_IF_ERROR(AddMark(builder_.StartOf(rule.rule), begin, "{", false, true));
  INGOT_RETURN_IF_ERROR(AddMark(none, end, "}", false, false));
  INGOT_RETURN_IF_ERROR(AddMark(some, end, "}", true, false));
  return EmitMembers(rule, Keys::kQuoted, begin, none, some);
}

absl::Status SchemaCompiler::BuildArray(const PendingRule& rule) {
  static const json::value anything(true);
  INGOT_ASSIGN_OR_RETURN(uint32_t min, CountOf(rule.schema, "minItems", 0, rule.path));
  INGOT_ASSIGN_OR_RETURN(uint32_t max, CountOf(rule.schema, "maxItems", kNoLimit, rule.path));
  const json::value* prefix = rule.schema.if_contains("prefixItems");
  const json::value* items = rule.schema.if_contains("items");
  if (prefix != nullptr && !prefix->is_array()) return SchemaFault(rule.path, "prefixItems must be a list");
  if (items != nullptr && items->is_array()) {
    return SchemaFault(rule.path, "items as a list is not supported: use prefixItems");
  }
  const size_t named = prefix == nullptr ? 0 : prefix->get_array().size();
  if (flattener_.lenient()) {
    if (max > kMaxHeldItems) max = kNoLimit;
    min = std::min(min, kMaxHeldItems);
    if (min > max) max = kNoLimit;
  }
  // As with properties, a prefix without `items` is the whole list.
  if (prefix != nullptr && items == nullptr) max = std::min(max, static_cast<uint32_t>(named));
  const auto schema_of = [&](size_t i) {
    return i < named ? &prefix->get_array()[i] : items != nullptr ? items : &anything;
  };
  INGOT_ASSIGN_OR_RETURN(const int32_t end, builder_.AddState());
  builder_.SetAccepting(end);
  INGOT_ASSIGN_OR_RETURN(const int32_t open, builder_.AddState());
  INGOT_ASSIGN_OR_RETURN(int32_t item, builder_.AddState());
  INGOT_RETURN_IF_ERROR(AddMark(builder_.StartOf(rule.rule), open, "[", false, true));
  INGOT_RETURN_IF_ERROR(builder_.AddEdge(open, {Edge::kEpsilon, 0, item}));
  if (min == 0) INGOT_RETURN_IF_ERROR(AddMark(open, end, "]", false, false));
  // Adds one state per item while the items' schemas or the end may differ. Then adds a loop if there is no maximum.
  const size_t differ = std::max<size_t>(named, min) + 1;
  std::pair<int32_t, int32_t> like = {-1, -1};  // the states around the first item of `items`
  for (size_t i = 0; i < (max == kNoLimit ? differ : size_t{max}); ++i) {
    const std::string path = absl::StrCat(rule.path, i < named ? absl::StrCat("/prefixItems/", i) : "/items");
    INGOT_ASSIGN_OR_RETURN(const int32_t after, builder_.AddState());
    if (like.first >= 0) {
      INGOT_RETURN_IF_ERROR(builder_.CopyEdges(like.first, like.second, item, after));
    } else {
      INGOT_RETURN_IF_ERROR(Emit(item, after, *schema_of(i), path));
      if (i >= named) like = {item, after};
    }
    if (i + 1 >= min) INGOT_RETURN_IF_ERROR(AddMark(after, end, "]", true, false));
    if (max == kNoLimit && i + 1 == differ) {
      INGOT_RETURN_IF_ERROR(AddMark(after, item, ",", false, true));
    } else {
      INGOT_ASSIGN_OR_RETURN(item, builder_.AddState());
      INGOT_RETURN_IF_ERROR(AddMark(after, item, ",", false, true));
    }
  }
  return absl::OkStatus();
}

}  // namespace ingot::grammar
