#include "base/config.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/config_entry.h"
#include "base/file.h"
#include "base/printable.h"

namespace ingot::base {
namespace {

std::string Place(const std::string& file, const YAML::Node& node) {
  return node.Mark().is_null() ? file : absl::StrCat(file, ":", node.Mark().line + 1);
}

// Returns "a section with the keys a, b, c and 4 more" for those of `keys` that are in the section. Subsections count
// as keys.
std::string DescribeSection(const std::string& section, const std::vector<std::string>& keys) {
  constexpr size_t kShown = 12;
  const std::string prefix = section + ".";
  std::vector<std::string> words;
  for (const std::string& key : keys) {
    if (!key.starts_with(prefix)) continue;
    const std::string word = key.substr(prefix.size(), key.find('.', prefix.size()) - prefix.size());
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
  std::string text = words.size() == 1 ? "a section with the key " : "a section with the keys ";
  for (size_t i = 0; i < std::min(words.size(), kShown); ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", words[i]);
  if (words.size() > kShown) absl::StrAppend(&text, " and ", words.size() - kShown, " more");
  return text;
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

// A variable's value is not searched for variables.
std::string Schema::Replaced(const std::string& text) {
  std::string replaced;
  for (size_t at = 0; at < text.size();) {
    const auto begins = [&](const Variable& one) { return text.compare(at, one.mark.size(), one.mark) == 0; };
    const auto found = std::find_if(variables_.begin(), variables_.end(), begins);
    if (found == variables_.end() || (at > 0 && text[at - 1] == '$')) {
      replaced += text[at++];
    } else {
      replaced += found->value;
      at += found->mark.size();
      found->used = true;
    }
  }
  return replaced;
}

void Schema::ReplaceVariables(YAML::Node node) {
  if (variables_.empty()) return;
  if (node.IsScalar()) {
    if (const std::string text = Replaced(node.Scalar()); text != node.Scalar()) node = text;
  } else {
    for (auto item : node) ReplaceVariables(node.IsMap() ? item.second : YAML::Node(item));
  }
}

bool Schema::Used(const std::string& name) const {
  return std::any_of(variables_.begin(), variables_.end(),
                     [mark = "${" + name + "}"](const Variable& one) { return one.mark == mark && one.used; });
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
        absl::StrCat(file_name, ":", error.mark.line + 1, ": malformed YAML: ", Shown(error.msg)));
  }
  if (documents.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        Place(file_name, documents[1]), ": a second YAML document begins here, but a file must contain only one"));
  }
  if (documents.empty()) return absl::OkStatus();
  const YAML::Node& root = documents[0];
  if (!root.IsMap()) return absl::InvalidArgumentError(absl::StrCat(file_name, ":1: expected a mapping of keys"));
  ReplaceVariables(root);
  return Load(root, "", file_name);
}

absl::Status Schema::Load(const YAML::Node& node, const std::string& prefix, const std::string& file) {
  std::set<std::string> seen;
  for (const auto& item : node) {
    const std::string place = Place(file, item.first);
    if (!item.first.IsScalar()) return absl::InvalidArgumentError(absl::StrCat(place, ": a key must be a word"));
    const std::string key = prefix.empty() ? item.first.Scalar() : absl::StrCat(prefix, ".", item.first.Scalar());
    if (!seen.insert(key).second)
      return absl::InvalidArgumentError(absl::StrCat(place, ": ", Shown(key), ": given twice"));
    INGOT_RETURN_IF_ERROR(LoadItem(key, item.second, place, file));
  }
  return absl::OkStatus();
}

absl::Status Schema::LoadItem(const std::string& key, const YAML::Node& value, const std::string& place,
                              const std::string& file) {
  const std::string blamed = absl::StrCat(place, ": ", key);
  if (Entry* const entry = FindEntry(key); entry != nullptr) return SetEntry(*entry, value, place, blamed);
  if (ListEntry* const list = FindList(key); list != nullptr) return LoadList(*list, value, place, blamed, file);
  if (const auto found = renamed_.find(key); found != renamed_.end() && found->second.empty()) return absl::OkStatus();
  if (!IsSection(key)) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": unknown key '", Shown(key), "'; the nearest known key is '", Nearest(key, true), "'"));
  }
  if (value.IsNull()) return absl::OkStatus();
  if (const auto found = shorthands_.find(key); found != shorthands_.end() && value.IsScalar()) {
    return SetByShorthand(found->second, value, place, blamed);
  }
  if (!value.IsMap()) {
    return absl::InvalidArgumentError(
        absl::StrCat(blamed, ": expected a mapping of keys: it is ", DescribeSection(key, Keys())));
  }
  return Load(value, key, file);
}

Schema::Entry* Schema::FindEntry(const std::string& key) const {
  for (const auto& entry : entries_) {
    if (entry->key == key) return entry.get();
  }
  return nullptr;
}

Schema::ListEntry* Schema::FindList(const std::string& key) const {
  for (const auto& list : lists_) {
    if (list->key == key) return list.get();
  }
  return nullptr;
}

bool Schema::IsSection(const std::string& key) const {
  const auto inside = [section = key + "."](const auto& known) { return known->key.rfind(section, 0) == 0; };
  return std::any_of(entries_.begin(), entries_.end(), inside) || std::any_of(lists_.begin(), lists_.end(), inside);
}

void Schema::Guard(const std::string& section, std::function<std::string()> fault) {
  guards_[prefix_ + section] = std::move(fault);
}

std::string Schema::GuardFault(const std::string& key) const {
  for (const auto& [section, fault] : guards_) {
    if (key == section || key.starts_with(section + ".")) return fault();
  }
  return "";
}

absl::Status Schema::CheckGuards() const {
  for (const auto& entry : entries_) {
    if (entry->origin == kUnset) continue;
    if (const std::string fault = GuardFault(entry->key); !fault.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(entry->origin, ": ", entry->key, ": ", fault));
    }
  }
  return absl::OkStatus();
}

absl::Status Schema::CheckBounds() const {
  for (const auto& entry : entries_) {
    if (const std::string fault = entry->fault(); !fault.empty()) return absl::InvalidArgumentError(entry->key + fault);
  }
  for (const auto& list : lists_) {
    for (size_t i = 0; i < list->size(); ++i) {
      Schema element;
      list->bind_at(i, element);
      const absl::Status status = element.CheckBounds();
      if (status.ok()) continue;
      return absl::InvalidArgumentError(absl::StrCat(list->key, "[", i, "].", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status Schema::SetEntry(Entry& entry, const YAML::Node& value, const std::string& origin,
                              const std::string& blamed) {
  if (const absl::Status status = entry.set(value); !status.ok()) return Annotate(status, blamed);
  if (const std::string fault = entry.fault(); !fault.empty()) return absl::InvalidArgumentError(blamed + fault);
  entry.origin = origin;
  return absl::OkStatus();
}

void Schema::Shorthand(const std::string& section, KeyOfWord key_of) {
  shorthands_[prefix_ + section].key_of =
      [prefix = prefix_, key_of = std::move(key_of)](const std::string& word) -> absl::StatusOr<std::string> {
    INGOT_ASSIGN_OR_RETURN(const std::string key, key_of(word));
    return prefix + key;
  };
}

absl::Status Schema::SetByShorthand(ShorthandEntry& shorthand, const YAML::Node& word, const std::string& origin,
                                    const std::string& blamed) {
  const absl::StatusOr<std::string> key = shorthand.key_of(word.Scalar());
  if (!key.ok()) return Annotate(key.status(), blamed);
  if (Entry* const last = FindEntry(shorthand.key); last != nullptr && last->origin == shorthand.origin) {
    INGOT_RETURN_IF_ERROR(SetEntry(*last, YAML::Load(shorthand.before), shorthand.origin_before, blamed));
  }
  Entry& entry = *FindEntry(*key);
  shorthand.key = *key;
  shorthand.origin = origin;
  shorthand.before = YAML::Dump(entry.get());
  shorthand.origin_before = entry.origin;
  return SetEntry(entry, word, origin, blamed);
}

absl::Status Schema::LoadList(ListEntry& list, const YAML::Node& node, const std::string& origin,
                              const std::string& blamed, const std::string& file) {
  if (!node.IsSequence()) return absl::InvalidArgumentError(absl::StrCat(blamed, ": expected a list"));
  list.clear();
  size_t index = 0;
  for (const YAML::Node& item : node) {
    const std::string name = absl::StrCat(list.key, "[", index++, "]");
    if (!item.IsMap()) {
      return absl::InvalidArgumentError(absl::StrCat(Place(file, item), ": ", name, ": expected a mapping of keys"));
    }
    Schema element;
    list.append(element);
    absl::Status status = element.Load(item, "", file);
    if (status.ok()) status = element.CheckGuards();
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(status.message(), " (in ", name, ")"));
    }
  }
  list.origin = origin;
  return absl::OkStatus();
}

absl::Status Schema::Set(const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    return absl::InvalidArgumentError(absl::StrCat("--set ", Shown(assignment), ": expected KEY=VALUE"));
  }
  const std::string key = assignment.substr(0, equals);
  const std::string origin = absl::StrCat("--set ", Shown(key));
  if (const auto word = shorthands_.find(key); word != shorthands_.end()) {
    return SetByShorthand(word->second, YAML::Node(Replaced(assignment.substr(equals + 1))), origin, origin);
  }
  Entry* const entry = FindEntry(key);
  ListEntry* const list = FindList(key);
  if (entry == nullptr && list == nullptr && IsSection(key)) {
    return absl::InvalidArgumentError(absl::StrCat(origin, ": '", key, "' is ", DescribeSection(key, Keys()),
                                                   ": set a key of it, --set ", key, ".KEY=VALUE"));
  }
  if (entry == nullptr && list == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--set: unknown key '", Shown(key), "'; the nearest known key is '", Nearest(key, false), "'"));
  }
  YAML::Node value;
  try {
    value = YAML::Load(assignment.substr(equals + 1));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(origin, ": malformed YAML: ", Shown(error.msg)));
  }
  if (value.IsNull()) value = YAML::Node("");
  ReplaceVariables(value);
  if (list != nullptr) return LoadList(*list, value, origin, origin, origin);
  return SetEntry(*entry, value, origin, origin);
}

std::string Schema::Origin(const std::string& key) const {
  if (const Entry* const entry = FindEntry(key); entry != nullptr) return entry->origin;
  if (const ListEntry* const list = FindList(key); list != nullptr) return list->origin;
  return kUnset;
}

void Schema::Renamed(const std::string& before, const std::string& now) {
  renamed_[prefix_ + before] = now.empty() ? "" : prefix_ + now;
}

std::string Schema::Nearest(const std::string& asked, bool or_section) const {
  const std::string key = asked.substr(0, kMaxShown);  // because the cost grows with its size
  if (const auto found = renamed_.find(key); found != renamed_.end() && !found->second.empty()) return found->second;
  // A key in the wrong section is a more likely mistake than a misspelled one. So the last words are also compared, if
  // most of their letters match.
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

}  // namespace ingot::base
