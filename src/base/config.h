// Configuration: one YAML file bound to one schema. A Schema names every key once, with the field it sets, its default
// (the field's value when bound) and one line of documentation. Loading refuses what the schema does not know.
//
//   Schema schema;
//   schema.Field("trainer.learning_rate", &options.learning_rate, "AdamW step size; > 0");
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

  void Field(const std::string& key, bool* field, const std::string& doc);
  void Field(const std::string& key, int32_t* field, const std::string& doc);
  void Field(const std::string& key, int64_t* field, const std::string& doc);
  void Field(const std::string& key, uint64_t* field, const std::string& doc);
  void Field(const std::string& key, float* field, const std::string& doc);
  void Field(const std::string& key, double* field, const std::string& doc);
  void Field(const std::string& key, std::string* field, const std::string& doc);
  void Field(const std::string& key, std::vector<std::string>* field, const std::string& doc);
  void Field(const std::string& key, std::map<std::string, std::string>* field, const std::string& doc);

  // One of a fixed set of words; `names[i]` sets *field to static_cast<Enum>(i).
  template <typename Enum>
  void Choice(const std::string& key, Enum* field, const std::vector<std::string>& names, const std::string& doc) {
    AddChoice(
        key, names, [field] { return static_cast<size_t>(*field); },
        [field](size_t index) { *field = static_cast<Enum>(index); }, doc);
  }
  void Choice(const std::string& key, std::string* field, const std::vector<std::string>& names,
              const std::string& doc);

  // What a word in the place of a whole section means: the key of the section that it is the value of, which is bound.
  // A later word (of --set) stands in the place of an earlier one, also where it is another key's value.
  using KeyOfWord = std::function<absl::StatusOr<std::string>(const std::string& word)>;
  void Shorthand(const std::string& section, KeyOfWord key_of);

  // A list of mappings. `bind(element_schema, element)` binds one element's keys; the file's list replaces the default.
  template <typename T>
  void List(const std::string& key, std::vector<T>* field, std::function<void(Schema&, T&)> bind,
            const std::string& doc) {
    AddList(
        key, [field] { field->clear(); },
        [field, bind](Schema& schema) {
          // Elements move when the vector grows; each is loaded before the next is added.
          field->emplace_back();
          bind(schema, field->back());
        },
        [field] { return field->size(); },
        [field, bind](size_t index, Schema& schema) { bind(schema, (*field)[index]); },
        [bind](Schema& schema) {
          static T prototype;
          prototype = T();
          bind(schema, prototype);
        },
        doc);
  }

  // INVALID_ARGUMENT "FILE:LINE: key: what is wrong", with the nearest known key for an unknown one; NOT_FOUND if the
  // file cannot be read. Nothing is promised about fields after an error.
  absl::Status LoadFile(const std::string& path);
  absl::Status LoadText(const std::string& text, const std::string& file_name);
  // One override, KEY=VALUE, the value in YAML. Errors name it as "--set KEY".
  absl::Status Set(const std::string& assignment);

  // The file and line that set the key last; "default" if nothing did. For errors found later by Validate().
  std::string Origin(const std::string& key) const;

  // The effective configuration as YAML that loads back equal.
  std::string EffectiveYaml() const;

  // The keys whose values are not `other`'s, a schema of the same keys, each with both values as YAML; a list as a
  // whole.
  struct Difference {
    std::string key, value, others;
  };
  std::vector<Difference> DifferencesFrom(const Schema& other) const;

  // One line per key (all keys under `prefix`; empty: all): name, type, default, documentation. NOT_FOUND names the
  // nearest known key or section.
  absl::StatusOr<std::string> Explain(const std::string& prefix) const;

 private:
  struct Entry;
  struct ListEntry;
  struct Word {
    KeyOfWord key_of;
    std::string key, origin;            // what the last word has set, and where it stood
    std::string before, origin_before;  // what that was, as YAML
  };
  absl::Status SetByWord(Word& word, const YAML::Node& value, const std::string& origin, const std::string& blamed);
  absl::Status Load(const YAML::Node& node, const std::string& prefix, const std::string& file);
  absl::Status LoadList(ListEntry& list, const YAML::Node& node, const std::string& file);
  Entry* FindEntry(const std::string& key) const;
  // An error begins with what is `blamed`.
  static absl::Status SetEntry(Entry& entry, const YAML::Node& value, const std::string& origin,
                               const std::string& blamed);
  // In the order they were bound, lists last.
  std::vector<std::pair<std::string, YAML::Node>> Values() const;
  // Of all keys, and of the sections that hold them where one may stand.
  std::string Nearest(const std::string& key, bool or_section) const;
  void Add(std::unique_ptr<Entry> entry);
  void AddChoice(const std::string& key, const std::vector<std::string>& names, std::function<size_t()> get,
                 std::function<void(size_t)> set, const std::string& doc);
  void AddList(const std::string& key, std::function<void()> clear, std::function<void(Schema&)> append,
               std::function<size_t()> size, std::function<void(size_t, Schema&)> bind_at,
               std::function<void(Schema&)> bind_prototype, const std::string& doc);

  std::vector<std::unique_ptr<Entry>> entries_;  // in the order they were bound
  std::vector<std::unique_ptr<ListEntry>> lists_;
  std::map<std::string, Word> shorthands_;  // by section
};

// "did you mean" distance: Levenshtein.
size_t EditDistance(const std::string& a, const std::string& b);

}  // namespace ingot::base
