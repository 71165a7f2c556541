// The schema of a YAML configuration. A Schema binds every key to a field, with its bound or its choices and one line of
// documentation; the field's value at that time is the default. Loading rejects unknown keys and values out of bounds.
//
// A struct of options declares its keys once, in a function next to it. Bind writes no field.
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
// Keys are dotted paths of lower-case words; the YAML nests them. Bound fields must outlive the schema. Not thread
// safe.
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

  // Binds the keys of `options` in the section `name`, as its Bind declares them.
  template <typename Options>
  void Section(const std::string& name, Options& options) {
    Section<Options>(name, options, [](Schema& schema, Options& bound) { Bind(schema, bound); });
  }

  // Keys that are in another section than the struct's other keys: `bind` declares them.
  template <typename Options>
  void Section(const std::string& name, Options& options, void (*bind)(Schema&, Options&)) {
    const std::string outer = std::exchange(prefix_, prefix_ + name + ".");
    bind(*this, options);
    prefix_ = outer;
  }

  // In the functions below a key is relative to the section that is being bound.
  void Field(const std::string& key, bool* field, const std::string& doc);
  void Field(const std::string& key, int32_t* field, const std::string& doc, Bound bound = {});
  void Field(const std::string& key, int64_t* field, const std::string& doc, Bound bound = {});
  void Field(const std::string& key, uint64_t* field, const std::string& doc, Bound bound = {});
  void Field(const std::string& key, float* field, const std::string& doc, Bound bound = {});
  void Field(const std::string& key, double* field, const std::string& doc, Bound bound = {});
  void Field(const std::string& key, std::string* field, const std::string& doc);
  // A text with a check: `demand` is empty for a text that can be the value, otherwise it says what it must be instead.
  using TextDemand = std::function<std::string(const std::string& text)>;
  void Field(const std::string& key, std::string* field, const std::string& doc, TextDemand demand);
  void Field(const std::string& key, std::vector<std::string>* field, const std::string& doc);
  void Field(const std::string& key, std::map<std::string, std::string>* field, const std::string& doc);
  // Each of the numbers is held to the bound.
  void Field(const std::string& key, std::map<std::string, double>* field, const std::string& doc, Bound bound = {});
  // One string, or several by name: a word sets `*one` and clears `*several`; a mapping does the reverse.
  void Field(const std::string& key, std::string* one, std::map<std::string, std::string>* several,
             const std::string& doc);
  // One text or a list of texts: the first goes to *first, the others to *more. An empty text or list leaves *first
  // empty.
  void Field(const std::string& key, std::string* first, std::vector<std::string>* more, const std::string& doc);
  // A mapping of bools, numbers and texts. WordValue reads a word without quotes.
  void Field(const std::string& key, json::object* field, const std::string& doc);

  // A key whose value is one of `names`; `names[i]` sets *field to static_cast<Enum>(i).
  template <typename Enum>
  void Choice(const std::string& key, Enum* field, const std::vector<std::string>& names, const std::string& doc) {
    AddChoice(
        key, names, [field, names] { return names.at(static_cast<size_t>(*field)); },
        [field](size_t index) { *field = static_cast<Enum>(index); }, doc);
  }
  // The same for a text, which CheckBounds holds against `names`.
  void Choice(const std::string& key, std::string* field, const std::vector<std::string>& names,
              const std::string& doc);

  // Shorthand: a section given as one word sets one key of the section to that word. `key_of` names the key, which must
  // be bound. A later shorthand (from --set) undoes an earlier one, even if it sets another key.
  using KeyOfWord = std::function<absl::StatusOr<std::string>(const std::string& word)>;
  void Shorthand(const std::string& section, KeyOfWord key_of);

  // Keys that have a meaning only in some configurations: the keys of `section`, or the key of that name. `fault()` is
  // empty while they have a meaning; otherwise it says why they do not. Then an error rejects a list's element that
  // sets such a key, and EffectiveYaml leaves the key out. Only for elements of lists.
  void Guard(const std::string& section, std::function<std::string()> fault);

  // A key of an earlier version that has another name now, which errors name; empty: it was removed, and loads.
  void Renamed(const std::string& before, const std::string& now);

  // A list of mappings, whose keys the element's Bind declares. A loaded list replaces the default.
  template <typename T>
  void List(const std::string& key, std::vector<T>* field, const std::string& doc) {
    AddList(
        key, [field] { field->clear(); },
        [field](Schema& schema) {
          // The vector moves its elements when it grows. Each is loaded before the next is added.
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

  // INVALID_ARGUMENT "FILE:LINE: key: fault" suggests the nearest known key for an unknown key. NOT_FOUND: the file
  // does not exist. After an error the fields may hold any values.
  absl::Status LoadFile(const std::string& path);
  absl::Status LoadText(const std::string& text, const std::string& file_name);
  // One override, KEY=VALUE, with the value in YAML. Errors name it "--set KEY".
  absl::Status Set(const std::string& assignment);

  // INVALID_ARGUMENT: a field is out of bounds or none of its choices, also in an element of a list; the error names the
  // key and the value. For options that code has set; loading checks what it sets.
  absl::Status CheckBounds() const;

  // The file and line that set the key last, for the errors of a later Validate(); "default" = nothing set it.
  std::string Origin(const std::string& key) const;

  // The effective configuration as YAML. Loading it gives the same configuration.
  std::string EffectiveYaml() const;

  // The keys whose values differ from `other`, a schema of the same keys. Both values are YAML; a list is one value.
  struct Difference {
    std::string key, value, others;
  };
  std::vector<Difference> DifferencesFrom(const Schema& other) const;

  // Name, type, default and documentation of every key under `prefix` (empty = every key). NOT_FOUND names the nearest
  // known key or section.
  absl::StatusOr<std::string> Explain(const std::string& prefix) const;

  // The keys as a JSON Schema (draft 2020-12) of the YAML file, printed, for editors. A configuration that loads is valid
  // under it; the reverse does not hold, since it does not know relations between keys.
  std::string JsonSchema() const;
  // Every key, in the order of binding, lists last.
  std::vector<std::string> Keys() const;

 private:
  struct Entry;
  struct ListEntry;
  struct ShorthandEntry {
    KeyOfWord key_of;
    std::string key, origin;            // the key that the last word set, and where that word is
    std::string before, origin_before;  // the key's value before, as YAML, and its origin
  };
  // `prefix`: the section of the node's keys; empty = the root.
  absl::Status Load(const YAML::Node& node, const std::string& prefix, const std::string& file);
  // In the functions below errors begin with `blamed`, and `origin` or `place` becomes the key's Origin.
  absl::Status LoadItem(const std::string& key, const YAML::Node& value, const std::string& place,
                        const std::string& file);
  absl::Status LoadList(ListEntry& list, const YAML::Node& node, const std::string& origin, const std::string& blamed,
                        const std::string& file);
  absl::Status SetByShorthand(ShorthandEntry& shorthand, const YAML::Node& word, const std::string& origin,
                              const std::string& blamed);
  static absl::Status SetEntry(Entry& entry, const YAML::Node& value, const std::string& origin,
                               const std::string& blamed);
  // nullptr: no such key.
  Entry* FindEntry(const std::string& key) const;
  ListEntry* FindList(const std::string& key) const;
  bool IsSection(const std::string& key) const;
  // Why the key has no meaning here; empty = it has a meaning.
  std::string GuardFault(const std::string& key) const;
  // INVALID_ARGUMENT: a key was set that has no meaning here.
  absl::Status CheckGuards() const;
  // In the order of binding, lists last.
  std::vector<std::pair<std::string, YAML::Node>> Values() const;
  // The new name of a renamed key, else the closest known key, or section if `or_section`.
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

  std::string prefix_;                           // of the section that is being bound, with its dot
  std::vector<std::unique_ptr<Entry>> entries_;  // in the order of binding
  std::vector<std::unique_ptr<ListEntry>> lists_;
  std::map<std::string, std::string> renamed_;                  // by the name before
  std::map<std::string, ShorthandEntry> shorthands_;            // by section
  std::map<std::string, std::function<std::string()>> guards_;  // by section or key
};

// Schema::CheckBounds of options outside a configuration, for their Validate. Errors name keys relative to `options`.
template <typename Options>
absl::Status CheckBounds(const Options& options, void (*bind)(Schema&, Options&)) {
  Schema schema;
  bind(schema, const_cast<Options&>(options));  // writes no field
  return schema.CheckBounds();
}
template <typename Options>
absl::Status CheckBounds(const Options& options) {
  return CheckBounds<Options>(options, [](Schema& schema, Options& bound) { Bind(schema, bound); });
}

// The value of a word without quotes: a bool, a number or a text if the word is such JSON, otherwise the word itself.
// INVALID_ARGUMENT: the word is JSON of another kind, or another spelling of a bool (True, yes, off), which would be a
// text and so count as true.
absl::StatusOr<json::value> WordValue(const std::string& word);

// The Levenshtein distance of two words.
size_t EditDistance(const std::string& a, const std::string& b);

}  // namespace ingot::base
