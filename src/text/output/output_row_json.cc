#include <utility>

#include "text/output/output_row.h"

namespace ingot::text {
namespace {

namespace json = base::json;

using Texts = std::vector<std::string>;

// Reads the fields of one object and records their names.
class Fields {
 public:
  Fields(const json::value& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) Fail("", "must be an object");
  }

  void Read(const char* key, std::string& out) {
    const json::value* field = TakeField(key);
    if (field == nullptr) return;
    if (!field->is_string()) return Fail(key, "must be a string");
    out = std::string(field->get_string());
  }

  void Read(const char* key, bool& out) {
    const json::value* field = TakeField(key);
    if (field == nullptr) return;
    if (!field->is_bool()) return Fail(key, "must be true or false");
    out = field->get_bool();
  }

  void Read(const char* key, Texts& out) {
    const json::value* field = TakeField(key);
    if (field == nullptr) return;
    Texts texts;
    if (field->is_array()) {
      for (const json::value& item : field->get_array()) {
        if (item.is_string()) texts.push_back(std::string(item.get_string()));
      }
    }
    if (!field->is_array() || texts.size() != field->get_array().size()) return Fail(key, "must be a list of strings");
    out = std::move(texts);
  }

  const json::value* TakeField(const char* key) {
    names_ += absl::StrCat(names_.empty() ? "" : ", ", key);
    const json::value* field = base::Find(object_, key);
    taken_ += field != nullptr;
    return field;
  }

  void Fail(std::string_view key, std::string_view what) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        absl::StrCat(place_, key.empty() ? "" : ".", base::View(key), " ", base::View(what)));
  }

  absl::Status Done() {
    if (status_.ok() && taken_ != object_.get_object().size()) {
      Fail("", absl::StrCat("has an unknown field; known: ", names_));
    }
    return status_;
  }

 private:
  const json::value& object_;
  const std::string place_;
  absl::Status status_;
  std::string names_;
  size_t taken_ = 0;
};

absl::StatusOr<SectionRow> ReadSection(const json::value& value, size_t index) {
  SectionRow row;
  Fields fields(value, absl::StrCat("sections[", index, "]"));
  fields.Read("begin", row.begin);
  fields.Read("call", row.call);
  fields.Read("between", row.between);
  fields.Read("end", row.end);
  fields.Read("before", row.before);
  fields.Read("bare", row.bare);
  INGOT_RETURN_IF_ERROR(fields.Done());
  return row;
}

absl::Status ReadChannels(const json::value& value, ChannelRow& row) {
  Fields fields(value, "channels");
  fields.Read("start", row.start);
  fields.Read("channel", row.channel);
  fields.Read("constrain", row.constrain);
  fields.Read("message", row.message);
  fields.Read("ends", row.ends);
  fields.Read("reasoning", row.reasoning);
  fields.Read("recipient_key", row.recipient_key);
  fields.Read("recipient_prefix", row.recipient_prefix);
  fields.Read("joiner", row.joiner);
  fields.Read("write_content", row.write_content);
  fields.Read("write_preamble", row.write_preamble);
  fields.Read("write_call", row.write_call);
  fields.Read("write_between", row.write_between);
  return fields.Done();
}

}  // namespace

absl::StatusOr<OutputRow> OutputRowFromJson(const json::value& value) {
  OutputRow row;
  Fields fields(value, "output format");
  fields.Read("name", row.name);
  fields.Read("aliases", row.aliases);
  fields.Read("think_begin", row.think_begin);
  fields.Read("think_end", row.think_end);
  fields.Read("dropped", row.dropped);
  fields.Read("parameter", row.parameter);
  fields.Read("name_keys", row.name_keys);
  fields.Read("argument_keys", row.argument_keys);
  fields.Read("id_keys", row.id_keys);
  fields.Read("id_prefix", row.id_prefix);
  fields.Read("id_index", row.id_index);
  const json::value* sections = fields.TakeField("sections");
  const json::value* channels = fields.TakeField("channels");
  if (sections != nullptr && !sections->is_array()) fields.Fail("sections", "must be a list");
  INGOT_RETURN_IF_ERROR(fields.Done());
  if (sections != nullptr) {
    for (const json::value& item : sections->get_array()) {
      INGOT_ASSIGN_OR_RETURN(SectionRow section, ReadSection(item, row.sections.size()));
      row.sections.push_back(std::move(section));
    }
  }
  if (channels != nullptr) INGOT_RETURN_IF_ERROR(ReadChannels(*channels, row.channels));
  return row;
}

}  // namespace ingot::text
