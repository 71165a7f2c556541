// Formats a Schema's values and documentation as text.
#include <sstream>
#include <utility>

#include "base/config_entry.h"
#include "base/printable.h"

namespace ingot::base {
namespace {

// Returns true if the key is `prefix` or is in the section with that name; empty = any key.
bool IsUnder(const std::string& key, const std::string& prefix) {
  return prefix.empty() || key == prefix || key.rfind(prefix + ".", 0) == 0;
}

}  // namespace

std::string FlowYaml(const YAML::Node& node) {
  YAML::Emitter out;
  out << YAML::Flow << node;
  return out.c_str();
}

std::string Schema::Entry::TypeText() const {
  const std::string text = bound.Text();
  return text.empty() ? type : absl::StrCat(type, ", ", text);
}

std::vector<std::pair<std::string, YAML::Node>> Schema::Values() const {
  std::vector<std::pair<std::string, YAML::Node>> values;
  for (const auto& entry : entries_) {
    if (GuardFault(entry->key).empty()) values.emplace_back(entry->key, entry->get());
  }
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
  for (const auto& [key, value] : other.Values()) others[key] = FlowYaml(value);
  std::vector<Difference> differences;
  for (const auto& [key, value] : Values()) {
    std::string text = FlowYaml(value);
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

std::string Schema::ExplainList(const ListEntry& list, const std::string& prefix) {
  std::string text;
  // "LIST.KEY" is accepted for "LIST[].KEY".
  if (prefix.rfind(list.key + ".", 0) == 0) return ExplainList(list, list.key + "[]" + prefix.substr(list.key.size()));
  const bool wanted = IsUnder(list.key, prefix);
  if (wanted) absl::StrAppend(&text, list.key, "  (list, default has ", list.size(), ")\n    ", list.doc, "\n");
  // Element keys start with "LIST[].", including keys of nested lists.
  const std::string inside = list.key + "[]";
  std::string element_key;
  if (prefix.rfind(inside + ".", 0) == 0) element_key = prefix.substr(inside.size() + 1);
  if (!wanted && prefix != inside && element_key.empty()) return text;
  Schema element;
  list.bind_prototype(element);
  const absl::StatusOr<std::string> lines = element.Explain(element_key);
  if (!lines.ok()) return text;
  std::stringstream stream(*lines);
  for (std::string line; std::getline(stream, line);) {
    absl::StrAppend(&text, line.rfind("    ", 0) == 0 ? "" : inside + ".", line, "\n");
  }
  return text;
}

absl::StatusOr<std::string> Schema::Explain(const std::string& prefix) const {
  std::string text;
  for (const auto& entry : entries_) {
    if (!IsUnder(entry->key, prefix)) continue;
    absl::StrAppend(&text, entry->key, "  (", entry->TypeText(), ", default ", FlowYaml(entry->default_value),
                    ")\n    ", entry->doc, "\n");
  }
  for (const auto& list : lists_) text += ExplainList(*list, prefix);
  if (text.empty()) {
    return absl::NotFoundError(
        absl::StrCat("unknown key '", Shown(prefix), "'; the nearest known key is '", Nearest(prefix, true), "'"));
  }
  return text;
}

}  // namespace ingot::base
