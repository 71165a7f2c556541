// Reads and writes, as YAML, each type of value that a key can be bound to.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "base/config_entry.h"
#include "base/printable.h"

namespace ingot::base {
namespace {

absl::Status Expected(const std::string& what, const YAML::Node& node) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", what, ", got ", Shown(FlowYaml(node))));
}

// Returns true for a scalar without quotes. A quoted "1" is a string, not a number.
bool IsPlain(const YAML::Node& node) { return node.IsScalar() && node.Tag() != "!"; }

template <typename T>
absl::Status ParseInteger(const YAML::Node& node, T* field) {
  const std::string what = std::is_unsigned_v<T> ? "an integer >= 0" : "an integer";
  if (!IsPlain(node)) return Expected(what, node);
  std::string text = node.Scalar();
  std::erase(text, '_');  // 1_000_000
  T value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec == std::errc::result_out_of_range) return Expected(absl::StrCat(what, " that fits its type"), node);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return Expected(what, node);
  *field = value;
  return absl::OkStatus();
}

template <typename T>
absl::Status ParseReal(const YAML::Node& node, T* field) {
  if (!IsPlain(node)) return Expected("a number", node);
  const std::string& text = node.Scalar();
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || !std::isfinite(value)) {
    return Expected("a finite number", node);
  }
  *field = static_cast<T>(value);
  return absl::OkStatus();
}

// Returns the shortest decimal that reads back as the same value.
template <typename T>
YAML::Node DecimalNode(T value) {
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return YAML::Node(std::string(buffer, result.ptr));
}

// Returns the end of an error message about an out-of-bounds value.
std::string Demand(double value, const Bound& bound) {
  return absl::StrCat(": it must be ", std::isfinite(value) ? "" : "finite and ", bound.Text());
}

constexpr char kTextTag[] = "tag:yaml.org,2002:str";

// Returns true if a scalar is a string, regardless of its content.
bool IsText(const YAML::Node& node) { return node.Tag() == "!" || node.Tag() == kTextTag; }

bool IsOddBool(const std::string& word) {
  constexpr std::array<std::string_view, 6> kBools = {"true", "false", "yes", "no", "on", "off"};
  return std::find(kBools.begin(), kBools.end(), absl::AsciiStrToLower(word)) != kBools.end();
}

// Returns a mapping value in the form that WordValue reads. The emitter drops unnecessary quotes, so a string that
// looks like another type gets a tag.
YAML::Node ValueNode(const json::value& value) {
  if (!value.is_string()) return YAML::Node(PrintJson(value));
  const std::string text(value.get_string());
  YAML::Node node(text);
  const absl::StatusOr<json::value> read = WordValue(text);
  if (!read.ok() || *read != value) node.SetTag(kTextTag);
  return node;
}

YAML::Node Quoted(const std::string& text) {
  YAML::Node node(text);
  node.SetTag("!");
  return node;
}

// `expected` is used in the error.
absl::Status ParseMapping(const YAML::Node& node, const std::string& expected,
                          std::map<std::string, std::string>* field) {
  if (!node.IsMap()) return Expected(expected, node);
  std::map<std::string, std::string> values;
  for (const auto& item : node) {
    if (!item.first.IsScalar() || !item.second.IsScalar()) return Expected(expected, node);
    if (!values.emplace(item.first.Scalar(), item.second.Scalar()).second) {
      return absl::InvalidArgumentError(absl::StrCat("'", Shown(item.first.Scalar()),
                                                     "' is given twice, again on line ", item.first.Mark().line + 1));
    }
  }
  *field = std::move(values);
  return absl::OkStatus();
}

YAML::Node MappingNode(const std::map<std::string, std::string>& values) {
  YAML::Node node(YAML::NodeType::Map);
  for (const auto& [name, value] : values) node[name] = Quoted(value);
  return node;
}

}  // namespace

absl::StatusOr<json::value> WordValue(const std::string& word) {
  absl::StatusOr<json::value> value = ParseJson(word);
  if (!value.ok()) {
    if (!IsOddBool(word)) return json::value(word);
    return absl::InvalidArgumentError(
        absl::StrCat("'", word, "' is neither true nor false: use true or false, or \"", word, "\" for the string"));
  }
  if (value->is_bool() || value->is_number() || value->is_string()) return value;
  return absl::InvalidArgumentError(absl::StrCat("expected a bool, a number, or a string, but got ", Shown(word)));
}

Schema::Entry& Schema::AddField(const std::string& key, const std::string& type, const std::string& doc,
                                std::function<absl::Status(const YAML::Node&)> set, std::function<YAML::Node()> get) {
  auto entry = std::make_unique<Entry>();
  entry->key = prefix_ + key;
  entry->type = type;
  entry->doc = doc;
  entry->default_value = get();
  entry->set = std::move(set);
  entry->get = std::move(get);
  return *entries_.emplace_back(std::move(entry));
}

void Schema::Field(const std::string& key, bool* field, const std::string& doc) {
  auto set = [field](const YAML::Node& node) -> absl::Status {
    if (IsPlain(node) && node.Scalar() == "true") {
      *field = true;
    } else if (IsPlain(node) && node.Scalar() == "false") {
      *field = false;
    } else {
      return Expected("true or false", node);
    }
    return absl::OkStatus();
  };
  AddField(key, "bool", doc, set, [field] { return YAML::Node(*field); });
}

template <typename T>
void Schema::AddNumber(const std::string& key, T* field, const std::string& doc, Bound bound) {
  const auto set = [field](const YAML::Node& node) {
    if constexpr (std::is_integral_v<T>) return ParseInteger(node, field);
    if constexpr (std::is_floating_point_v<T>) return ParseReal(node, field);
  };
  const auto get = [field] { return DecimalNode(*field); };
  Entry& entry = AddField(key, std::is_integral_v<T> ? "int" : "number", doc, set, get);
  if (!bound.limits()) return;
  entry.bound = bound;
  entry.fault = [field, bound] {
    if (bound.Contains(static_cast<double>(*field))) return std::string();
    return absl::StrCat(" is ", DecimalNode(*field).Scalar(), Demand(static_cast<double>(*field), bound));
  };
}

void Schema::Field(const std::string& key, int32_t* field, const std::string& doc, Bound bound) {
  AddNumber(key, field, doc, bound);
}

void Schema::Field(const std::string& key, int64_t* field, const std::string& doc, Bound bound) {
  AddNumber(key, field, doc, bound);
}

void Schema::Field(const std::string& key, uint64_t* field, const std::string& doc, Bound bound) {
  AddNumber(key, field, doc, bound);
}

void Schema::Field(const std::string& key, float* field, const std::string& doc, Bound bound) {
  AddNumber(key, field, doc, bound);
}

void Schema::Field(const std::string& key, double* field, const std::string& doc, Bound bound) {
  AddNumber(key, field, doc, bound);
}

void Schema::Field(const std::string& key, std::string* field, const std::string& doc) {
  auto set = [field](const YAML::Node& node) -> absl::Status {
    if (!node.IsScalar()) return Expected("a string", node);
    *field = node.Scalar();
    return absl::OkStatus();
  };
  AddField(key, "string", doc, set, [field] { return Quoted(*field); });
}

void Schema::Field(const std::string& key, std::string* field, const std::string& doc, TextDemand demand) {
  Field(key, field, doc);
  entries_.back()->fault = [field, demand = std::move(demand)] {
    const std::string wanted = demand(*field);
    return wanted.empty() ? "" : absl::StrCat(" is '", Shown(*field), "': it must be ", wanted);
  };
}

void Schema::Field(const std::string& key, std::vector<std::string>* field, const std::string& doc) {
  auto set = [field](const YAML::Node& node) -> absl::Status {
    if (!node.IsSequence()) return Expected("a list of strings", node);
    std::vector<std::string> values;
    for (const YAML::Node& item : node) {
      if (!item.IsScalar()) return Expected("a list of strings", node);
      values.push_back(item.Scalar());
    }
    *field = std::move(values);
    return absl::OkStatus();
  };
  auto get = [field] {
    YAML::Node node(YAML::NodeType::Sequence);
    for (const std::string& value : *field) node.push_back(Quoted(value));
    node.SetStyle(YAML::EmitterStyle::Flow);
    return node;
  };
  AddField(key, "list of strings", doc, set, get);
}

void Schema::Field(const std::string& key, std::string* first, std::vector<std::string>* more, const std::string& doc) {
  auto set = [first, more](const YAML::Node& node) -> absl::Status {
    std::vector<std::string> values;
    if (node.IsScalar()) {
      values.push_back(node.Scalar());
    } else if (!node.IsSequence()) {
      return Expected("a string or a list of strings", node);
    }
    for (const YAML::Node& item : node) {
      if (!item.IsScalar() || item.Scalar().empty()) return Expected("a string or a list of strings", node);
      values.push_back(item.Scalar());
    }
    if (values.empty()) values.emplace_back();
    *first = std::move(values.front());
    more->assign(std::make_move_iterator(values.begin() + 1), std::make_move_iterator(values.end()));
    return absl::OkStatus();
  };
  auto get = [first, more] {
    if (more->empty()) return Quoted(*first);
    YAML::Node node(YAML::NodeType::Sequence);
    node.push_back(Quoted(*first));
    for (const std::string& value : *more) node.push_back(Quoted(value));
    node.SetStyle(YAML::EmitterStyle::Flow);
    return node;
  };
  AddField(key, "string or list of strings", doc, set, get);
}

void Schema::Field(const std::string& key, std::map<std::string, std::string>* field, const std::string& doc) {
  const std::string type = "mapping of strings";
  AddField(
      key, type, doc, [field, type](const YAML::Node& node) { return ParseMapping(node, "a " + type, field); },
      [field] { return MappingNode(*field); });
}

void Schema::Field(const std::string& key, std::map<std::string, double>* field, const std::string& doc, Bound bound) {
  auto set = [field](const YAML::Node& node) -> absl::Status {
    std::map<std::string, std::string> texts;
    INGOT_RETURN_IF_ERROR(ParseMapping(node, "a mapping of numbers", &texts));
    std::map<std::string, double> values;
    for (const auto& [name, text] : texts) {
      INGOT_RETURN_IF_ERROR(Annotate(ParseReal(YAML::Node(text), &values[name]), Shown(name)));
    }
    *field = std::move(values);
    return absl::OkStatus();
  };
  auto get = [field] {
    YAML::Node node(YAML::NodeType::Map);
    for (const auto& [name, value] : *field) node[name] = DecimalNode(value);
    return node;
  };
  Entry& entry = AddField(key, "mapping of numbers", doc, set, get);
  entry.bound = bound;
  entry.fault = [field, bound] {
    for (const auto& [name, value] : *field) {
      if (bound.Contains(value)) continue;
      return absl::StrCat(" has ", DecimalNode(value).Scalar(), " for '", Shown(name), "'", Demand(value, bound));
    }
    return std::string();
  };
}

void Schema::Field(const std::string& key, std::string* one, std::map<std::string, std::string>* several,
                   const std::string& doc) {
  auto set = [one, several](const YAML::Node& node) -> absl::Status {
    if (!node.IsScalar()) {
      INGOT_RETURN_IF_ERROR(ParseMapping(node, "a string or a mapping of strings", several));
      one->clear();
      return absl::OkStatus();
    }
    *one = node.Scalar();
    several->clear();
    return absl::OkStatus();
  };
  AddField(key, "string or mapping of strings", doc, set,
           [one, several] { return several->empty() ? Quoted(*one) : MappingNode(*several); });
}

void Schema::Field(const std::string& key, json::object* field, const std::string& doc) {
  auto set = [field](const YAML::Node& node) -> absl::Status {
    if (!node.IsMap()) return Expected("a mapping of bools, numbers, and strings", node);
    json::object values;
    for (const auto& item : node) {
      if (!item.first.IsScalar() || !item.second.IsScalar()) {
        return Expected("a mapping of bools, numbers, and strings", node);
      }
      const std::string& name = item.first.Scalar();
      absl::StatusOr<json::value> value = json::value(item.second.Scalar());
      if (!IsText(item.second)) value = WordValue(item.second.Scalar());
      if (!value.ok()) return Annotate(value.status(), Shown(name));
      if (!values.emplace(name, *std::move(value)).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("'", Shown(name), "' is given twice, again on line ", item.first.Mark().line + 1));
      }
    }
    *field = std::move(values);
    return absl::OkStatus();
  };
  auto get = [field] {
    YAML::Node node(YAML::NodeType::Map);
    for (const auto& item : *field) node[std::string(item.key())] = ValueNode(item.value());
    return node;
  };
  AddField(key, "mapping of values", doc, set, get);
}

void Schema::Choice(const std::string& key, std::string* field, const std::vector<std::string>& names,
                    const std::string& doc) {
  Entry& entry =
      AddChoice(key, names, [field] { return *field; }, [field, names](size_t index) { *field = names[index]; }, doc);
  entry.fault = [field, names] {
    if (std::find(names.begin(), names.end(), *field) != names.end()) return std::string();
    const std::string allowed =
        names.size() == 2 ? names[0] + " or " + names[1] : "one of " + absl::StrJoin(names, ", ");
    return absl::StrCat(" is '", Shown(*field), "': it must be ", allowed);
  };
}

Schema::Entry& Schema::AddChoice(const std::string& key, const std::vector<std::string>& names,
                                 std::function<std::string()> get, std::function<void(size_t)> set,
                                 const std::string& doc) {
  const std::string type = absl::StrJoin(names, " | ");
  auto set_node = [names, set = std::move(set), type, doc](const YAML::Node& node) -> absl::Status {
    if (!node.IsScalar()) return Expected(absl::StrCat("one of ", type), node);
    const auto found = std::find(names.begin(), names.end(), node.Scalar());
    if (found == names.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(Expected(absl::StrCat("one of ", type), node).message(), ": ", doc));
    }
    set(static_cast<size_t>(found - names.begin()));
    return absl::OkStatus();
  };
  auto get_node = [get = std::move(get)] { return YAML::Node(get()); };
  return AddField(key, type, doc, std::move(set_node), std::move(get_node));
}

void Schema::AddList(const std::string& key, std::function<void()> clear, std::function<void(Schema&)> append,
                     std::function<size_t()> size, std::function<void(size_t, Schema&)> bind_at,
                     std::function<void(Schema&)> bind_prototype, const std::string& doc) {
  lists_.push_back(
      std::make_unique<ListEntry>(ListEntry{prefix_ + key, doc, kUnset, std::move(clear), std::move(append),
                                            std::move(size), std::move(bind_at), std::move(bind_prototype)}));
}

}  // namespace ingot::base
