// Loads a YAML configuration into options structs. A Schema binds each key to a field, with a bound or a list of
// choices and one line of documentation. The field's value when it is bound is the default. Loading rejects unknown
// keys and out-of-bounds values.
//
// Each options struct has a Bind function next to it that declares the keys. Bind does not write to the fields.
//
//   void Bind(base::Schema& schema, TrainerOptions& options) {
//     schema.Field("learning_rate", &options.learning_rate, "AdamW step size", base::Positive());
//   }
//
//   Schema schema;
//   schema.Section("trainer", options);
//   INGOT_RETURN_IF_ERROR(schema.LoadFile("run.yaml"));
//   INGOT_RETURN_IF_ERROR(schema.Set("trainer.learning_rate=1e-3"));
//
// Keys are dotted paths of lowercase words, which correspond to nested YAML mappings. Bound fields must outlive the
// schema. Not thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/json.h"
#include "base/status.h"

namespace YAML {
class Node;
}

namespace ingot::base {

class Schema {
 public:
  Schema();
  ~Schema();
  Schema(Schema&&) noexcept;
  Schema& operator=(Schema&&) noexcept;

  // Binds the keys of `options` in the section `name`, as declared by the Bind function.
  template <typename Options>
  void Section(const std::string& name, Options& options) {
    Section<Options>(name, options, [](Schema& schema, Options& bound) { Bind(schema, bound); });
  }

  // Same as above, but for keys in a different section than the struct's other keys. `bind` declares them.
  template <typename Options>
  void Section(const std::string& name, Options& options, void (*bind)(Schema&, Options&)) {
    const std::string outer = std::exchange(prefix_, prefix_ + name + ".");
    bind(*this, options);
    prefix_ = outer;
  }

  // In the functions below, keys are relative to the section being bound.
  void Field(const std::string& key, bool* field, const std::string& doc);
  void Field(const std::string& key, int32_t* field, const std::string& doc, Bound bound = {});
  void Field(const std::string& key, int64_t* field, const std::string& doc, Bound bound = {});
  void Field(const std::string& key, uint64_t* field, const std::string& doc, Bound bound = {});
  void Field(const std::string& key, float* field, const std::string& doc, Bound bound = {});
  void Field(const std::string& key, double* field, const std::string& doc, Bound bound = {});
  void Field(const std::string& key, std::string* field, const std::string& doc);
  // A validated string. A TextDemand returns "" if the string is valid, and otherwise what is required.
  using TextDemand = std::function<std::string(const std::string& text)>;
  void Field(const std::string& key, std::string* field, const std::string& doc, TextDemand demand);
  void Field(const std::string& key, std::vector<std::string>* field, const std::string& doc);
  void Field(const std::string& key, std::map<std::string, std::string>* field, const std::string& doc);
  // Each number must be within the bound.
  void Field(const std::string& key, std::map<std::string, double>* field, const std::string& doc, Bound bound = {});
  // A single string, or several named strings. A string sets `*one` and clears `*several`. A mapping does the reverse.
  void Field(const std::string& key, std::string* one, std::map<std::string, std::string>* several,
             const std::string& doc);
  // A string or a list of strings. The first one is stored in *first and the others in *more. If the string or list is
  // empty, *first is empty.
  void Field(const std::string& key, std::string* first, std::vector<std::string>* more, const std::string& doc);
  // A mapping of bools, numbers, and strings. Unquoted words are parsed by WordValue.
  void Field(const std::string& key, json::object* field, const std::string& doc);

  // A key whose value is one of `names`. `names[i]` sets *field to static_cast<Enum>(i).
  template <typename Enum>
  void Choice(const std::string& key, Enum* field, const std::vector<std::string>& names, const std::string& doc) {
    AddChoice(
        key, names, [field, names] { return names.at(static_cast<size_t>(*field)); },
        [field](size_t index) { *field = static_cast<Enum>(index); }, doc);
  }
  // Same as above, but for a string. CheckBounds checks that it is in `names`.
  void Choice(const std::string& key, std::string* field, const std::vector<std::string>& names,
              const std::string& doc);

  // Declares a shorthand: a section given as a single word sets one of its keys to that word. `key_of` returns the key,
  // which must be bound. A later shorthand (from --set) reverts an earlier one, even if it sets a different key.
  using KeyOfWord = std::function<absl::StatusOr<std::string>(const std::string& word)>;
  void Shorthand(const std::string& section, KeyOfWord key_of);

  // Declares keys that apply only in some configurations: all keys in `section`, or the key with that name. `fault()`
  // returns "" if they apply, or why they do not. If they do not apply, a list element that sets such a key is
  // rejected, and EffectiveYaml omits the key. Only for list elements.
  void Guard(const std::string& section, std::function<std::string()> fault);

  // Declares a key that was renamed since an earlier version. Errors suggest the new name. If `now` is empty, the key
  // was removed and is ignored.
  void Renamed(const std::string& before, const std::string& now);

  // A list of mappings. The element type's Bind declares their keys. A loaded list replaces the default.
  template <typename T>
  void List(const std::string& key, std::vector<T>* field, const std::string& doc) {
    AddList(
        key, [field] { field->clear(); },
        [field](Schema& schema) {
          // The vector moves its elements when it grows, so each one is loaded before the next is added.
          Bind(schema, field->emplace_back());
        },
        [field] { return field->size(); }, [field](size_t index, Schema& schema) { Bind(schema, (*field)[index]); },
        [](Schema& schema) {
          static T prototype;
          prototype = T();
          Bind(schema, prototype);
        },
        doc);
  }

  // Defines a variable: in values that are loaded later, by files and by Set, "${name}" is replaced by `value`.
  // "$${name}" is left unchanged. EffectiveYaml contains the replaced text.
  void Define(const std::string& name, const std::string& value) { variables_.push_back({"${" + name + "}", value}); }
  // Returns whether a value has used the variable.
  bool Used(const std::string& name) const;

  // Return INVALID_ARGUMENT "FILE:LINE: key: fault". For an unknown key, the error suggests the nearest known key.
  // Return NOT_FOUND if the file does not exist. After an error, the field values are unspecified.
  absl::Status LoadFile(const std::string& path);
  absl::Status LoadText(const std::string& text, const std::string& file_name);
  // Applies one override of the form KEY=VALUE, where VALUE is YAML. Errors refer to it as "--set KEY".
  absl::Status Set(const std::string& assignment);

  // Returns INVALID_ARGUMENT if a field is out of bounds or not one of its choices, including in list elements. The
  // error includes the key and the value. Use it for options that were set in code, because loading already checks
  // values.
  absl::Status CheckBounds() const;

  // Returns the file and line that last set the key, or "default" if nothing set it. Used in errors from a later
  // Validate().
  std::string Origin(const std::string& key) const;

  // Returns the effective configuration as YAML. Loading that YAML produces the same configuration.
  std::string EffectiveYaml() const;

  // Returns the keys whose values differ from those in `other`, which has the same keys. Values are in YAML.
  struct Difference {
    std::string key, value, others;
  };
  std::vector<Difference> DifferencesFrom(const Schema& other) const;

  // Returns the name, type, default, and documentation of every key under `prefix` (empty = all keys). Returns
  // NOT_FOUND if there is no such key. The error suggests the nearest known key or section.
  absl::StatusOr<std::string> Explain(const std::string& prefix) const;

  // Returns a JSON Schema (draft 2020-12) for the YAML file, for use in editors. Every configuration that loads is
  // valid under it. The converse does not hold because the JSON Schema does not express relationships between keys.
  std::string JsonSchema() const;
  // Returns all keys in binding order, with lists last.
  std::vector<std::string> Keys() const;

 private:
  struct Entry;
  struct ListEntry;
  struct ShorthandEntry {
    KeyOfWord key_of;
    std::string key, origin;            // the key that the last word set, and where that word came from
    std::string before, origin_before;  // the key's previous value, as YAML, and its origin
  };
  // `prefix` is the section that contains the node's keys; empty = root.
  absl::Status Load(const YAML::Node& node, const std::string& prefix, const std::string& file);
  // In the functions below, errors start with `blamed`. `origin` or `place` becomes the key's Origin.
  absl::Status LoadItem(const std::string& key, const YAML::Node& value, const std::string& place,
                        const std::string& file);
  absl::Status LoadList(ListEntry& list, const YAML::Node& node, const std::string& origin, const std::string& blamed,
                        const std::string& file);
  absl::Status SetByShorthand(ShorthandEntry& shorthand, const YAML::Node& word, const std::string& origin,
                              const std::string& blamed);
  static absl::Status SetEntry(Entry& entry, const YAML::Node& value, const std::string& origin,
                               const std::string& blamed);
  // Return nullptr if there is no such key.
  Entry* FindEntry(const std::string& key) const;
  ListEntry* FindList(const std::string& key) const;
  bool IsSection(const std::string& key) const;
  // Returns why the key does not apply here, or "" if it does.
  std::string GuardFault(const std::string& key) const;
  // Returns INVALID_ARGUMENT if a key that does not apply here was set.
  absl::Status CheckGuards() const;
  // Returns all values in binding order, with lists last.
  std::vector<std::pair<std::string, YAML::Node>> Values() const;
  // Returns a renamed key's new name, or else the closest known key (or section, if `or_section`).
  std::string Nearest(const std::string& asked, bool or_section) const;
  json::object JsonSchemaObject() const;
  static std::string ExplainList(const ListEntry& list, const std::string& prefix);
  Entry& AddField(const std::string& key, const std::string& type, const std::string& doc,
                  std::function<absl::Status(const YAML::Node&)> set, std::function<YAML::Node()> get);
  template <typename T>
  void AddNumber(const std::string& key, T* field, const std::string& doc, Bound bound);
  Entry& AddChoice(const std::string& key, const std::vector<std::string>& names, std::function<std::string()> get,
                   std::function<void(size_t)> set, const std::string& doc);
  void AddList(const std::string& key, std::function<void()> clear, std::function<void(Schema&)> append,
               std::function<size_t()> size, std::function<void(size_t, Schema&)> bind_at,
               std::function<void(Schema&)> bind_prototype, const std::string& doc);

  struct Variable {
    std::string mark, value;  // "${name}"
    bool used = false;
  };
  std::string Replaced(const std::string& text);
  // Replaces the variables in every scalar below the node. Keys are not changed.
  void ReplaceVariables(YAML::Node node);

  std::string prefix_;                           // prefix for the section being bound, including the dot
  std::vector<std::unique_ptr<Entry>> entries_;  // in binding order
  std::vector<std::unique_ptr<ListEntry>> lists_;
  std::vector<Variable> variables_;
  std::map<std::string, std::string> renamed_;                  // new names by old name
  std::map<std::string, ShorthandEntry> shorthands_;            // by section
  std::map<std::string, std::function<std::string()>> guards_;  // by section or key
};

// Runs Schema::CheckBounds on options outside a configuration. Called by Validate functions. Errors name keys relative
// to `options`.
template <typename Options>
absl::Status CheckBounds(const Options& options, void (*bind)(Schema&, Options&)) {
  Schema schema;
  bind(schema, const_cast<Options&>(options));  // Bind does not write to the fields
  return schema.CheckBounds();
}
template <typename Options>
absl::Status CheckBounds(const Options& options) {
  return CheckBounds<Options>(options, [](Schema& schema, Options& bound) { Bind(schema, bound); });
}

// Returns the value of an unquoted word: a bool, number, or string if the word is valid JSON for one, otherwise the
// word itself. Returns INVALID_ARGUMENT for other JSON types, and for other spellings of bools (True, yes, off), which
// would otherwise become strings and be treated as true.
absl::StatusOr<json::value> WordValue(const std::string& word);

// Returns the Levenshtein distance between two words.
size_t EditDistance(const std::string& a, const std::string& b);

}  // namespace ingot::base
