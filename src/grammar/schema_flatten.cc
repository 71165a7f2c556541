#include "grammar/schema_flatten.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/printable.h"
#include "grammar/regex.h"
#include "grammar/schema_formats.h"

namespace ingot::grammar {

namespace {

constexpr size_t kMaxAlternatives = 512;
constexpr int kMaxCombinatorDepth = 64;

// Keywords for people or tools. They do not affect which strings are valid.
constexpr std::array<std::string_view, 16> kAnnotations = {
    "title",   "description",  "default",  "examples", "deprecated",  "readOnly",         "writeOnly",
    "$schema", "$id",          "$comment", "$defs",    "definitions", "contentMediaType", "contentEncoding",
    "$anchor", "discriminator"};
constexpr std::array<std::string_view, 16> kPlain = {
    "type",      "properties",       "required",         "additionalProperties",
    "items",     "prefixItems",      "minItems",         "maxItems",
    "minLength", "maxLength",        "pattern",          "minimum",
    "maximum",   "exclusiveMinimum", "exclusiveMaximum", "multipleOf"};

template <size_t N>
bool OneOf(const std::array<std::string_view, N>& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

std::string_view View(const json::string& text) { return {text.data(), text.size()}; }
std::string_view View(json::string_view text) { return {text.data(), text.size()}; }

// Decodes one part of a JSON pointer: "~1" is '/', "~0" is '~', "%xx" a byte.
absl::StatusOr<std::string> PointerToken(std::string_view token, const std::string& path) {
  std::string out;
  const auto hex = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
  };
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1')) {
      out += token[++i] == '0' ? '~' : '/';
    } else if (token[i] == '%' && i + 2 < token.size() && hex(token[i + 1]) >= 0 && hex(token[i + 2]) >= 0) {
      out += static_cast<char>(hex(token[i + 1]) * 16 + hex(token[i + 2]));
      i += 2;
    } else if (token[i] == '~' || token[i] == '%') {
      return SchemaFault(path, "$ref has a malformed escape");
    } else {
      out += token[i];
    }
  }
  return out;
}

// Returns the number of values in `value`, including itself, which is the cost of a copy.
int64_t SizeOf(const json::value& value) {
  int64_t size = 1;
  if (value.is_array()) {
    for (const json::value& item : value.get_array()) size += SizeOf(item);
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.get_object()) size += SizeOf(item);
  }
  return size;
}

json::value Both(const json::value& a, const json::value& b) {
  return a == b ? a : json::value(json::object{{"allOf", json::array{a, b}}});
}

const json::value* At(const FlatSchema& schema, std::string_view key) {
  const auto it = schema.find(json::string_view(key.data(), key.size()));
  return it == schema.end() ? nullptr : &it->value();
}

// Returns the exact number at a bound, to choose the tighter of two.
absl::StatusOr<Decimal> NumberAt(const json::value& value, std::string_view key, const std::string& path) {
  if (std::optional<Decimal> number = DecimalOf(value)) return *std::move(number);
  return SchemaFault(path, absl::StrCat(base::View(key), " must be a number"));
}

// Merges `b`'s type into `out`, which has a's type.
absl::Status MergeTypes(const json::value& b, const std::string& path, FlatSchema* out) {
  const auto list = [](const json::value& v) { return v.is_array() ? v.get_array() : json::array{v}; };
  const json::array mine = list(out->at("type")), theirs = list(b);
  const auto has = [](const json::array& types, const json::value& type) {
    return std::find(types.begin(), types.end(), type) != types.end();
  };
  json::array both;
  for (const json::value& type : mine) {
    if (has(theirs, type) || (type == "integer" && has(theirs, "number"))) both.push_back(type);
  }
  for (const json::value& type : theirs) {
    if (type == "integer" && has(mine, "number") && !has(both, type)) both.push_back(type);
  }
  for (const json::value& type : both) {
    if (!type.is_string()) return SchemaFault(path, "type must be a string or a list of strings");
  }
  (*out)["type"] = std::move(both);
  return absl::OkStatus();
}

absl::Status MergeLists(std::string_view key, const json::value& b, const std::string& path, FlatSchema* out) {
  json::value& mine = out->at(json::string_view(key.data(), key.size()));
  if (!mine.is_array() || !b.is_array()) return SchemaFault(path, absl::StrCat(base::View(key), " must be a list"));
  json::array& list = mine.get_array();
  const auto in = [](const json::array& where, const json::value& v) {
    return std::find(where.begin(), where.end(), v) != where.end();
  };
  if (key == "enum") {
    json::array both;
    for (const json::value& v : list) {
      if (in(b.get_array(), v)) both.push_back(v);
    }
    list = std::move(both);
  } else {  // required
    for (const json::value& v : b.get_array()) {
      if (!in(list, v)) list.push_back(v);
    }
  }
  return absl::OkStatus();
}

// Merges the properties of both. A property that only one schema has must also satisfy the other's
// additionalProperties.
absl::Status MergeObjects(const FlatSchema& a, const FlatSchema& b, const std::string& path, FlatSchema* out) {
  const json::value *pa = At(a, "properties"), *pb = At(b, "properties");
  const json::value *more_a = At(a, "additionalProperties"), *more_b = At(b, "additionalProperties");
  for (const json::value* p : {pa, pb}) {
    if (p != nullptr && !p->is_object()) return SchemaFault(path, "properties must be an object");
  }
  if (more_a != nullptr && more_b != nullptr) {
    (*out)["additionalProperties"] = Both(*more_a, *more_b);
  } else if (more_b != nullptr) {
    (*out)["additionalProperties"] = *more_b;
  }
  if (pa == nullptr && pb == nullptr) return absl::OkStatus();
  json::object merged;
  if (pa != nullptr) {
    for (const auto& [key, schema] : pa->get_object()) {
      const json::value* other = pb == nullptr ? nullptr : pb->get_object().if_contains(key);
      if (other == nullptr) other = more_b;
      merged[key] = other == nullptr ? schema : Both(schema, *other);
    }
  }
  if (pb != nullptr) {
    for (const auto& [key, schema] : pb->get_object()) {
      if (merged.contains(key)) continue;
      merged[key] = more_a == nullptr ? schema : Both(*more_a, schema);
    }
  }
  (*out)["properties"] = std::move(merged);
  return absl::OkStatus();
}

absl::Status MergeArrays(const FlatSchema& a, const FlatSchema& b, const std::string& path, FlatSchema* out) {
  const json::value *items_a = At(a, "items"), *items_b = At(b, "items");
  const json::value *prefix_a = At(a, "prefixItems"), *prefix_b = At(b, "prefixItems");
  for (const json::value* p : {prefix_a, prefix_b}) {
    if (p != nullptr && !p->is_array()) return SchemaFault(path, "prefixItems must be a list");
  }
  if (items_a != nullptr && items_b != nullptr) {
    (*out)["items"] = Both(*items_a, *items_b);
  } else if (items_b != nullptr) {
    (*out)["items"] = *items_b;
  }
  if (prefix_a == nullptr && prefix_b == nullptr) return absl::OkStatus();
  const auto size = [](const json::value* p) { return p == nullptr ? 0 : p->get_array().size(); };
  const auto at = [&](const json::value* p, const json::value* items, size_t i) {
    return i < size(p) ? p->get_array()[i] : items != nullptr ? *items : json::value(true);
  };
  json::array merged;
  for (size_t i = 0; i < std::max(size(prefix_a), size(prefix_b)); ++i) {
    merged.push_back(Both(at(prefix_a, items_a, i), at(prefix_b, items_b, i)));
  }
  (*out)["prefixItems"] = std::move(merged);
  return absl::OkStatus();
}

bool IsCount(const json::value& value) {
  if (!value.is_number()) return false;
  const auto number = value.to_number<double>();
  return number >= 0 && number <= 1e9 && number == static_cast<uint32_t>(number);
}

bool IsSchema(const json::value& value) { return value.is_object() || value.is_bool(); }

constexpr std::array<std::string_view, 7> kTypeNames = {"null",   "boolean", "integer", "number",
                                                        "string", "array",   "object"};

bool IsType(const json::value& value) {
  if (!value.is_array()) return value.is_string() && OneOf(kTypeNames, View(value.get_string()));
  return !value.get_array().empty() &&
         std::all_of(value.get_array().begin(), value.get_array().end(),
                     [](const json::value& one) { return !one.is_array() && IsType(one); });
}

}  // namespace

absl::Status SchemaFault(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("json_schema at ", base::Shown(path), ": ", base::CutMessage(what)));
}

std::optional<Decimal> DecimalOf(const json::value& value) {
  if (value.is_int64()) return Decimal::Parse(std::to_string(value.get_int64()));
  if (value.is_uint64()) return Decimal::Parse(std::to_string(value.get_uint64()));
  return value.is_double() ? Decimal::Of(value.get_double()) : std::nullopt;
}

absl::StatusOr<FlatSchema> MergeSchemas(const FlatSchema& a, const FlatSchema& b, const std::string& path) {
  FlatSchema out = a;
  INGOT_RETURN_IF_ERROR(MergeObjects(a, b, path, &out));
  INGOT_RETURN_IF_ERROR(MergeArrays(a, b, path, &out));
  for (const auto& [name, value] : b) {
    const std::string_view key = View(name);
    if (key == "properties" || key == "additionalProperties" || key == "items" || key == "prefixItems") continue;
    const json::value* mine = At(a, key);
    if (mine == nullptr) {
      out[name] = value;
    } else if (*mine == value) {
      continue;
    } else if (key == "type") {
      INGOT_RETURN_IF_ERROR(MergeTypes(value, path, &out));
    } else if (key == "enum" || key == "required") {
      INGOT_RETURN_IF_ERROR(MergeLists(key, value, path, &out));
    } else if (key == "pattern" || key == "format" || key == "multipleOf") {
      return SchemaFault(path, absl::StrCat("two different ", base::View(key), "s for one value are not supported"));
    } else {  // for a bound, the tighter one wins
      INGOT_ASSIGN_OR_RETURN(const Decimal x, NumberAt(*mine, key, path));
      INGOT_ASSIGN_OR_RETURN(const Decimal y, NumberAt(value, key, path));
      const bool lower = key.starts_with("min") || key == "exclusiveMinimum";
      const int order = Compare(y, x);
      if (lower ? order > 0 : order < 0) out[name] = value;
    }
  }
  return out;
}

absl::StatusOr<const json::value*> SchemaFlattener::Resolve(const json::value& ref, const std::string& path) const {
  if (!ref.is_string()) return SchemaFault(path, "$ref must be a string");
  std::string_view text = View(ref.get_string());
  if (!text.starts_with("#") || (text.size() > 1 && text[1] != '/')) {
    return SchemaFault(path, absl::StrCat("$ref '", base::View(text),
                                          "' is not supported: use a reference within the schema (#/...)"));
  }
  const json::value* at = &root_;
  for (text.remove_prefix(1); !text.empty();) {
    text.remove_prefix(1);
    const size_t end = std::min(text.find('/'), text.size());
    INGOT_ASSIGN_OR_RETURN(const std::string token, PointerToken(text.substr(0, end), path));
    text.remove_prefix(end);
    const json::value* next = nullptr;
    if (at->is_object()) {
      next = at->get_object().if_contains(token);
    } else if (at->is_array() && !token.empty() && token.size() < 6 &&
               std::all_of(token.begin(), token.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      const size_t index = std::stoul(token);
      if (index < at->get_array().size()) next = &at->get_array()[index];
    }
    if (next == nullptr) {
      return SchemaFault(path, absl::StrCat("$ref '", base::View(View(ref.get_string())), "' does not exist"));
    }
    at = next;
  }
  return at;
}

SchemaFlattener::SchemaFlattener(const json::value& root, Budget& budget)
    : root_(root),
      lenient_([&] {
        const json::value* lenient = base::Find(root, "x-lenient");
        return lenient != nullptr && *lenient == true;
      }()),
      budget_(budget) {}

bool SchemaFlattener::Usable(std::string_view key, const json::value& value) const {
  if (key == "const" || key == "format") return true;
  if (key == "type") return IsType(value);
  if (key == "enum" || key == "prefixItems") return value.is_array() && !value.get_array().empty();
  if (key == "properties") return value.is_object();
  if (key == "additionalProperties" || key == "items") return IsSchema(value);
  if (key == "required") {
    return value.is_array() && std::all_of(value.get_array().begin(), value.get_array().end(),
                                           [](const json::value& name) { return name.is_string(); });
  }
  if (key == "pattern") return value.is_string() && CheckPattern(View(value.get_string())).ok();
  if (key == "minItems" || key == "maxItems" || key == "minLength" || key == "maxLength") return IsCount(value);
  if (key == "multipleOf") return value.is_number() && value.to_number<double>() > 0;
  return OneOf(kPlain, key) && value.is_number();
}

absl::Status SchemaFlattener::TakeKeyword(std::string_view key, const json::value& value, const std::string& path,
                                          FlatSchema* flat) {
  if (lenient_ && !Usable(key, value)) return absl::OkStatus();
  if (key == "const" || key == "enum") {
    if (key == "enum" && !value.is_array()) return SchemaFault(path, "enum must be a list");
    json::value list = key == "enum" ? value : json::value(json::array{value});
    if (flat->contains("enum")) return MergeLists("enum", list, path, flat);
    (*flat)["enum"] = std::move(list);
    return absl::OkStatus();
  }
  if (OneOf(kPlain, key)) {
    (*flat)[json::string_view(key.data(), key.size())] = value;
    return absl::OkStatus();
  }
  if (key == "format") {  // an unknown format is an annotation
    if (value.is_string() && !FormatPattern(View(value.get_string())).empty()) (*flat)["format"] = value;
    return absl::OkStatus();
  }
  if (OneOf(kAnnotations, key) || key.starts_with("x-")) return absl::OkStatus();
  const bool off = (key == "uniqueItems" && value.is_bool() && !value.get_bool()) ||
                   ((key == "minProperties" || key == "minContains") && value == 0);
  if (off) return absl::OkStatus();
  return SchemaFault(path, absl::StrCat("keyword '", base::View(key), "' is not supported"));
}

absl::StatusOr<std::vector<FlatSchema>> SchemaFlattener::Flatten(const json::value& schema, const std::string& path) {
  INGOT_RETURN_IF_ERROR(Budget::Spend(budget_.steps, 8 * SizeOf(schema), "its schemas combine too many other schemas"));
  if (schema.is_bool()) return schema.get_bool() ? Alternatives{FlatSchema()} : Alternatives();
  if (!schema.is_object() && lenient_) return Alternatives{FlatSchema()};
  if (!schema.is_object()) return SchemaFault(path, "a schema must be an object or a boolean");
  if (depth_ >= kMaxCombinatorDepth) return SchemaFault(path, "combinators nest more than 64 deep");
  ++depth_;
  struct Leave {
    int& depth;
    ~Leave() { --depth; }
  } leave{depth_};
  FlatSchema base;
  Alternatives parts;
  for (const auto& [name, value] : schema.get_object()) {
    const std::string_view key = View(name);
    if (key == "$ref" || key == "allOf" || key == "anyOf" || key == "oneOf") continue;
    INGOT_RETURN_IF_ERROR(TakeKeyword(key, value, path, &base));
  }
  parts.push_back(std::move(base));
  const json::value* ref = base::Find(schema, "$ref");
  if (ref != nullptr && !(lenient_ && !Resolve(*ref, path).ok())) {
    INGOT_ASSIGN_OR_RETURN(const json::value* target, Resolve(*ref, path));
    const std::string name(View(ref->get_string()));
    if (!in_progress_.insert(name).second) return Alternatives();
    absl::StatusOr<Alternatives> flat = Flatten(*target, name);
    in_progress_.erase(name);
    if (!flat.ok()) return flat.status();
    INGOT_ASSIGN_OR_RETURN(parts, Cross(parts, *flat, path));
  }
  if (const json::value* all = base::Find(schema, "allOf"); all != nullptr && !(lenient_ && !all->is_array())) {
    if (!all->is_array()) return SchemaFault(path, "allOf must be a list");
    for (size_t i = 0; i < all->get_array().size(); ++i) {
      INGOT_ASSIGN_OR_RETURN(const Alternatives flat, Flatten(all->get_array()[i], absl::StrCat(path, "/allOf/", i)));
      INGOT_ASSIGN_OR_RETURN(parts, Cross(parts, flat, path));
    }
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    const json::value* list = base::Find(schema, key);
    if (list == nullptr || (lenient_ && !list->is_array())) continue;
    INGOT_ASSIGN_OR_RETURN(const Alternatives flat, Union(*list, absl::StrCat(path, "/", key)));
    INGOT_ASSIGN_OR_RETURN(parts, Cross(parts, flat, path));
  }
  return parts;
}

absl::StatusOr<SchemaFlattener::Alternatives> SchemaFlattener::Union(const json::value& list, const std::string& path) {
  if (!list.is_array()) return SchemaFault(path, "must be a list");
  Alternatives out;
  std::set<std::string> seen;
  for (size_t i = 0; i < list.get_array().size(); ++i) {
    INGOT_ASSIGN_OR_RETURN(Alternatives flat, Flatten(list.get_array()[i], absl::StrCat(path, "/", i)));
    if (out.size() + flat.size() > kMaxAlternatives) return SchemaFault(path, "more than 512 alternatives");
    for (FlatSchema& one : flat) {
      std::string text = base::PrintJson(one);
      INGOT_RETURN_IF_ERROR(Budget::Spend(budget_.steps, 32 + static_cast<int64_t>(text.size()),
                                          "its schemas combine too many other schemas"));
      if (seen.insert(std::move(text)).second) out.push_back(std::move(one));
    }
  }
  return out;
}

absl::StatusOr<SchemaFlattener::Alternatives> SchemaFlattener::Cross(const Alternatives& a, const Alternatives& b,
                                                                     const std::string& path) {
  if (a.size() * b.size() > kMaxAlternatives) return SchemaFault(path, "more than 512 alternatives");
  Alternatives out;
  for (const FlatSchema& x : a) {
    for (const FlatSchema& y : b) {
      const int64_t cost = 16 + 8 * (SizeOf(x) + SizeOf(y));
      INGOT_RETURN_IF_ERROR(Budget::Spend(budget_.steps, cost, "its schemas combine too many other schemas"));
      absl::StatusOr<FlatSchema> both = MergeSchemas(x, y, path);
      if (!both.ok() && !lenient_) return both.status();
      out.push_back(both.ok() ? *std::move(both) : x);
    }
  }
  return out;
}

}  // namespace ingot::grammar
