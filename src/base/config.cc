#include "base/config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <sstream>
#include <utility>

#include "base/file.h"

namespace ingot::base {

struct Schema::Entry {
  std::string key;
  std::string type;
  std::string doc;
  std::string default_text;
  std::string origin = "default";
  std::function<absl::Status(const YAML::Node&)> set;  // the message alone: what was expected
  std::function<YAML::Node()> get;
};

struct Schema::ListEntry {
  std::string key;
  std::string doc;
  std::string origin = "default";
  std::function<void()> clear;
  std::function<void(Schema&)> append;
  std::function<size_t()> size;
  std::function<void(size_t, Schema&)> bind_at;
  std::function<void(Schema&)> bind_prototype;
};

namespace {

std::string Place(const std::string& file, const YAML::Node& node) {
  return node.Mark().is_null() ? file : absl::StrCat(file, ":", node.Mark().line + 1);
}

std::string Flow(const YAML::Node& node) {
  YAML::Emitter out;
  out << YAML::Flow << node;
  return out.c_str();
}

absl::Status Expected(const std::string& what, const YAML::Node& node) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", what, ", got ", Flow(node)));
}

// A scalar written plainly; a quoted "1" is a string, not a number.
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

template <typename T>
std::string ShortestDecimal(T value) {
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

YAML::Node Quoted(const std::string& text) {
  YAML::Node node(text);
  node.SetTag("!");
  return node;
}

}  // namespace

size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

Schema::Schema() = default;
Schema::~Schema() = default;
Schema::Schema(Schema&&) noexcept = default;
Schema& Schema::operator=(Schema&&) noexcept = default;

void Schema::Add(std::unique_ptr<Entry> entry) {
  entry->default_text = Flow(entry->get());
  entries_.push_back(std::move(entry));
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
  Add(std::make_unique<Entry>(Entry{key, "bool", doc, "", "default", set, [field] { return YAML::Node(*field); }}));
}

void Schema::Field(const std::string& key, int32_t* field, const std::string& doc) {
  Add(std::make_unique<Entry>(Entry{key, "int", doc, "", "default",
                                    [field](const YAML::Node& node) { return ParseInteger(node, field); },
                                    [field] { return YAML::Node(ShortestDecimal(*field)); }}));
}

void Schema::Field(const std::string& key, int64_t* field, const std::string& doc) {
  Add(std::make_unique<Entry>(Entry{key, "int", doc, "", "default",
                                    [field](const YAML::Node& node) { return ParseInteger(node, field); },
                                    [field] { return YAML::Node(ShortestDecimal(*field)); }}));
}

void Schema::Field(const std::string& key, uint64_t* field, const std::string& doc) {
  Add(std::make_unique<Entry>(Entry{key, "int", doc, "", "default",
                                    [field](const YAML::Node& node) { return ParseInteger(node, field); },
                                    [field] { return YAML::Node(ShortestDecimal(*field)); }}));
}

void Schema::Field(const std::string& key, float* field, const std::string& doc) {
  Add(std::make_unique<Entry>(Entry{key, "number", doc, "", "default",
                                    [field](const YAML::Node& node) { return ParseReal(node, field); },
                                    [field] { return YAML::Node(ShortestDecimal(*field)); }}));
}

void Schema::Field(const std::string& key, double* field, const std::string& doc) {
  Add(std::make_unique<Entry>(Entry{key, "number", doc, "", "default",
                                    [field](const YAML::Node& node) { return ParseReal(node, field); },
                                    [field] { return YAML::Node(ShortestDecimal(*field)); }}));
}

void Schema::Field(const std::string& key, std::string* field, const std::string& doc) {
  auto set = [field](const YAML::Node& node) -> absl::Status {
    if (!node.IsScalar()) return Expected("a string", node);
    *field = node.Scalar();
    return absl::OkStatus();
  };
  Add(std::make_unique<Entry>(Entry{key, "string", doc, "", "default", set, [field] { return Quoted(*field); }}));
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
  Add(std::make_unique<Entry>(Entry{key, "list of strings", doc, "", "default", set, get}));
}

void Schema::Field(const std::string& key, std::map<std::string, std::string>* field, const std::string& doc) {
  auto set = [field](const YAML::Node& node) -> absl::Status {
    if (!node.IsMap()) return Expected("a mapping of strings", node);
    std::map<std::string, std::string> values;
    for (const auto& item : node) {
      if (!item.first.IsScalar() || !item.second.IsScalar()) return Expected("a mapping of strings", node);
      if (!values.emplace(item.first.Scalar(), item.second.Scalar()).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("'", item.first.Scalar(), "' is given twice, again in line ", item.first.Mark().line + 1));
      }
    }
    *field = std::move(values);
    return absl::OkStatus();
  };
  auto get = [field] {
    YAML::Node node(YAML::NodeType::Map);
    for (const auto& [name, value] : *field) node[name] = Quoted(value);
    return node;
  };
  Add(std::make_unique<Entry>(Entry{key, "mapping of strings", doc, "", "default", set, get}));
}

void Schema::Choice(const std::string& key, std::string* field, const std::vector<std::string>& names,
                    const std::string& doc) {
  AddChoice(
      key, names,
      [field, names] { return static_cast<size_t>(std::find(names.begin(), names.end(), *field) - names.begin()); },
      [field, names](size_t index) { *field = names[index]; }, doc);
}

void Schema::AddChoice(const std::string& key, const std::vector<std::string>& names, std::function<size_t()> get,
                       std::function<void(size_t)> set, const std::string& doc) {
  std::string type;
  for (const std::string& name : names) absl::StrAppend(&type, type.empty() ? "" : " | ", name);
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
  auto get_node = [names, get = std::move(get)] { return YAML::Node(names.at(get())); };
  Add(std::make_unique<Entry>(Entry{key, type, doc, "", "default", std::move(set_node), std::move(get_node)}));
}

void Schema::AddList(const std::string& key, std::function<void()> clear, std::function<void(Schema&)> append,
                     std::function<size_t()> size, std::function<void(size_t, Schema&)> bind_at,
                     std::function<void(Schema&)> bind_prototype, const std::string& doc) {
  lists_.push_back(
      std::make_unique<ListEntry>(ListEntry{key, doc, "default", std::move(clear), std::move(append), std::move(size),
                                            std::move(bind_at), std::move(bind_prototype)}));
}

absl::Status Schema::LoadFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return Annotate(text.status(), "the configuration file");
  return LoadText(*text, path);
}

absl::Status Schema::LoadText(const std::string& text, const std::string& file_name) {
  std::vector<YAML::Node> documents;
  try {
    documents = YAML::LoadAll(text);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_name, ":", error.mark.line + 1, ": malformed YAML: ", error.msg));
  }
  if (documents.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(Place(file_name, documents[1]), ": a second YAML document begins: a file holds one"));
  }
  if (documents.empty()) return absl::OkStatus();
  const YAML::Node& root = documents[0];
  if (!root.IsMap()) return absl::InvalidArgumentError(absl::StrCat(file_name, ":1: expected a mapping of keys"));
  return Load(root, "", file_name);
}

absl::Status Schema::Load(const YAML::Node& node, const std::string& prefix, const std::string& file) {
  std::set<std::string> seen;
  for (const auto& item : node) {
    const std::string place = Place(file, item.first);
    if (!item.first.IsScalar()) return absl::InvalidArgumentError(absl::StrCat(place, ": a key must be a word"));
    const std::string key = prefix.empty() ? item.first.Scalar() : absl::StrCat(prefix, ".", item.first.Scalar());
    if (!seen.insert(key).second) return absl::InvalidArgumentError(absl::StrCat(place, ": ", key, ": given twice"));

    if (Entry* const entry = FindEntry(key); entry != nullptr) {
      INGOT_RETURN_IF_ERROR(SetEntry(*entry, item.second, place, absl::StrCat(place, ": ", key)));
      continue;
    }
    const auto list =
        std::find_if(lists_.begin(), lists_.end(), [&](const auto& candidate) { return candidate->key == key; });
    if (list != lists_.end()) {
      if (!item.second.IsSequence()) {
        return absl::InvalidArgumentError(absl::StrCat(place, ": ", key, ": expected a list"));
      }
      INGOT_RETURN_IF_ERROR(LoadList(**list, item.second, file));
      (*list)->origin = place;
      continue;
    }
    const std::string section = key + ".";
    const auto inside = [&](const std::string& known) { return known.rfind(section, 0) == 0; };
    const bool is_section =
        std::any_of(entries_.begin(), entries_.end(), [&](const auto& known) { return inside(known->key); }) ||
        std::any_of(lists_.begin(), lists_.end(), [&](const auto& known) { return inside(known->key); });
    if (!is_section) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": unknown key '", key, "'; the nearest known key is '", Nearest(key, true), "'"));
    }
    if (item.second.IsNull()) continue;
    if (const auto word = shorthands_.find(key); word != shorthands_.end() && item.second.IsScalar()) {
      INGOT_RETURN_IF_ERROR(SetByWord(word->second, item.second, place, absl::StrCat(place, ": ", key)));
      continue;
    }
    if (!item.second.IsMap()) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": ", key, ": expected a mapping of keys"));
    }
    INGOT_RETURN_IF_ERROR(Load(item.second, key, file));
  }
  return absl::OkStatus();
}

Schema::Entry* Schema::FindEntry(const std::string& key) const {
  for (const auto& entry : entries_) {
    if (entry->key == key) return entry.get();
  }
  return nullptr;
}

absl::Status Schema::SetEntry(Entry& entry, const YAML::Node& value, const std::string& origin,
                              const std::string& blamed) {
  if (const absl::Status status = entry.set(value); !status.ok()) return Annotate(status, blamed);
  entry.origin = origin;
  return absl::OkStatus();
}

void Schema::Shorthand(const std::string& section, KeyOfWord key_of) {
  shorthands_[section].key_of = std::move(key_of);
}

absl::Status Schema::SetByWord(Word& word, const YAML::Node& value, const std::string& origin,
                               const std::string& blamed) {
  const absl::StatusOr<std::string> meant = word.key_of(value.Scalar());
  if (!meant.ok()) return Annotate(meant.status(), blamed);
  if (Entry* const last = FindEntry(word.key); last != nullptr && last->origin == word.origin) {
    INGOT_RETURN_IF_ERROR(SetEntry(*last, YAML::Load(word.before), word.origin_before, blamed));
  }
  Entry& entry = *FindEntry(*meant);
  word.key = *meant;
  word.origin = origin;
  word.before = YAML::Dump(entry.get());
  word.origin_before = entry.origin;
  return SetEntry(entry, value, origin, blamed);
}

absl::Status Schema::LoadList(ListEntry& list, const YAML::Node& node, const std::string& file) {
  list.clear();
  size_t index = 0;
  for (const YAML::Node& item : node) {
    const std::string name = absl::StrCat(list.key, "[", index++, "]");
    if (!item.IsMap()) {
      return absl::InvalidArgumentError(absl::StrCat(Place(file, item), ": ", name, ": expected a mapping of keys"));
    }
    Schema element;
    list.append(element);
    if (absl::Status status = element.Load(item, "", file); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(status.message(), " (in ", name, ")"));
    }
  }
  return absl::OkStatus();
}

absl::Status Schema::Set(const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    return absl::InvalidArgumentError(absl::StrCat("--set ", assignment, ": expected KEY=VALUE"));
  }
  const std::string key = assignment.substr(0, equals);
  const std::string origin = absl::StrCat("--set ", key);
  if (const auto word = shorthands_.find(key); word != shorthands_.end()) {
    return SetByWord(word->second, YAML::Node(assignment.substr(equals + 1)), origin, origin);
  }
  Entry* const entry = FindEntry(key);
  const auto list =
      std::find_if(lists_.begin(), lists_.end(), [&](const auto& candidate) { return candidate->key == key; });
  if (entry == nullptr && list == lists_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--set: unknown key '", key, "'; the nearest known key is '", Nearest(key, false), "'"));
  }
  YAML::Node value;
  try {
    value = YAML::Load(assignment.substr(equals + 1));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(origin, ": malformed YAML: ", error.msg));
  }
  if (value.IsNull()) value = YAML::Node("");
  if (list != lists_.end()) {
    if (!value.IsSequence()) return absl::InvalidArgumentError(absl::StrCat(origin, ": expected a list"));
    INGOT_RETURN_IF_ERROR(LoadList(**list, value, origin));
    (*list)->origin = origin;
    return absl::OkStatus();
  }
  return SetEntry(*entry, value, origin, origin);
}

std::string Schema::Origin(const std::string& key) const {
  if (const Entry* const entry = FindEntry(key); entry != nullptr) return entry->origin;
  for (const auto& list : lists_) {
    if (list->key == key) return list->origin;
  }
  return "default";
}

std::string Schema::Nearest(const std::string& key, bool or_section) const {
  // A key in the wrong section is a likelier slip than one with other letters: compare the last words too, where most
  // of their letters agree.
  const auto last = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
  const std::string word = last(key);
  std::string best;
  size_t best_distance = std::numeric_limits<size_t>::max();
  const auto consider = [&](const std::string& known) {
    size_t distance = EditDistance(key, known);
    const size_t elsewhere = EditDistance(word, last(known));
    if (3 * elsewhere <= word.size()) distance = std::min(distance, elsewhere + 1);
    if (distance < best_distance) {
      best_distance = distance;
      best = known;
    }
  };
  const auto consider_all = [&](const std::string& known) {
    consider(known);
    for (size_t dot = known.rfind('.'); or_section && dot != std::string::npos; dot = known.rfind('.', dot - 1)) {
      consider(known.substr(0, dot));
    }
  };
  for (const auto& entry : entries_) consider_all(entry->key);
  for (const auto& list : lists_) consider_all(list->key);
  return best;
}

std::vector<std::pair<std::string, YAML::Node>> Schema::Values() const {
  std::vector<std::pair<std::string, YAML::Node>> values;
  for (const auto& entry : entries_) values.emplace_back(entry->key, entry->get());
  for (const auto& list : lists_) {
    YAML::Node items(YAML::NodeType::Sequence);
    for (size_t i = 0; i < list->size(); ++i) {
      Schema element;
      list->bind_at(i, element);
      items.push_back(YAML::Load(element.EffectiveYaml()));
    }
    values.emplace_back(list->key, items);
  }
  return values;
}

std::vector<Schema::Difference> Schema::DifferencesFrom(const Schema& other) const {
  std::map<std::string, std::string> others;
  for (const auto& [key, value] : other.Values()) others[key] = Flow(value);
  std::vector<Difference> differences;
  for (const auto& [key, value] : Values()) {
    std::string text = Flow(value);
    if (text != others[key]) differences.push_back({key, std::move(text), others[key]});
  }
  return differences;
}

std::string Schema::EffectiveYaml() const {
  YAML::Node root(YAML::NodeType::Map);
  const auto put = [&root](const std::string& key, const YAML::Node& value) {
    YAML::Node node;
    node.reset(root);
    std::stringstream path(key);
    std::string word;
    std::vector<std::string> words;
    while (std::getline(path, word, '.')) words.push_back(word);
    for (size_t i = 0; i + 1 < words.size(); ++i) {
      YAML::Node next = node[words[i]];
      node.reset(next);
    }
    node[words.back()] = value;
  };
  for (const auto& [key, value] : Values()) put(key, value);
  YAML::Emitter out;
  out << root;
  return std::string(out.c_str()) + "\n";
}

absl::StatusOr<std::string> Schema::Explain(const std::string& prefix) const {
  std::string text;
  const auto wanted = [&](const std::string& key) {
    return prefix.empty() || key == prefix || key.rfind(prefix + ".", 0) == 0;
  };
  for (const auto& entry : entries_) {
    if (!wanted(entry->key)) continue;
    absl::StrAppend(&text, entry->key, "  (", entry->type, ", default ", entry->default_text, ")\n    ", entry->doc,
                    "\n");
  }
  for (const auto& list : lists_) {
    Schema element;
    list->bind_prototype(element);
    if (wanted(list->key))
      absl::StrAppend(&text, list->key, "  (list, default has ", list->size(), ")\n    ", list->doc, "\n");
    // Inside a list the keys are the element's, lists in it included.
    const std::string inside = list->key + "[]";
    std::string element_key;
    if (prefix.rfind(inside + ".", 0) == 0) element_key = prefix.substr(inside.size() + 1);
    if (!wanted(list->key) && prefix != inside && element_key.empty()) continue;
    const absl::StatusOr<std::string> lines = element.Explain(element_key);
    if (!lines.ok()) continue;
    std::stringstream stream(*lines);
    for (std::string line; std::getline(stream, line);) {
      absl::StrAppend(&text, line.rfind("    ", 0) == 0 ? "" : inside + ".", line, "\n");
    }
  }
  if (text.empty()) {
    return absl::NotFoundError(
        absl::StrCat("unknown key '", prefix, "'; the nearest known key is '", Nearest(prefix, true), "'"));
  }
  return text;
}

}  // namespace ingot::base
