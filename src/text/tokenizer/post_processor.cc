#include "text/tokenizer/post_processor.h"

#include "text/tokenizer/pre_tokenizer.h"

namespace ingot::text {
namespace {

using base::Find;
namespace json = base::json;

absl::StatusOr<int32_t> ReadId(const json::value& value) {
  if (!value.is_int64() || value.get_int64() < 0 || value.get_int64() > INT32_MAX) {
    return MalformedComponent("post_processor: a special token needs ids from 0 to 2147483647");
  }
  return static_cast<int32_t>(value.get_int64());
}

}  // namespace

absl::StatusOr<PostProcessor> PostProcessor::Read(const json::value* json) {
  PostProcessor processor;
  if (!IsNullOrMissing(json)) INGOT_RETURN_IF_ERROR(processor.ReadOne(*json, 0));
  return processor;
}

absl::Status PostProcessor::ReadOne(const json::value& component, int depth) {
  const std::string type = TypeOf(component);
  if (type == "ByteLevel") return absl::OkStatus();  // changes only offsets
  if (type == "Sequence") {
    const json::value* list = Find(component, "processors");
    if (list == nullptr || !list->is_array() || depth > 8) {
      return MalformedComponent("post_processor Sequence needs a list of processors, nested at most 8 levels deep");
    }
    for (const json::value& item : list->get_array()) INGOT_RETURN_IF_ERROR(ReadOne(item, depth + 1));
    return absl::OkStatus();
  }
  if (type != "TemplateProcessing" && type != "RobertaProcessing" && type != "BertProcessing") {
    return UnsupportedComponent(absl::StrCat("post_processor ", type));
  }
  if (!parts_.empty()) return UnsupportedComponent("more than one post_processor that adds tokens");
  return type == "TemplateProcessing" ? ReadTemplate(component) : ReadPair(component, type);
}

absl::Status PostProcessor::ReadTemplate(const json::value& component) {
  const json::value* single = Find(component, "single");
  const json::value* tokens = Find(component, "special_tokens");
  if (single == nullptr || !single->is_array() || tokens == nullptr || !tokens->is_object()) {
    return MalformedComponent("post_processor TemplateProcessing needs a list 'single' and an object 'special_tokens'");
  }
  for (const json::value& piece : single->get_array()) {
    if (const json::value* sequence = Find(piece, "Sequence")) {
      const json::value* id = Find(*sequence, "id");
      if (id == nullptr || !id->is_string() || id->get_string() != "A") {
        return MalformedComponent("post_processor TemplateProcessing: 'single' has a sequence that is not A");
      }
      parts_.push_back({true, {}});
      continue;
    }
    const json::value* special = Find(piece, "SpecialToken");
    const json::value* name = special != nullptr ? Find(*special, "id") : nullptr;
    const json::value* token =
        name != nullptr && name->is_string() ? Find(*tokens, std::string_view(name->get_string())) : nullptr;
    const json::value* ids = token != nullptr ? Find(*token, "ids") : nullptr;
    if (ids == nullptr || !ids->is_array()) {
      return MalformedComponent("post_processor TemplateProcessing: 'single' names a token without ids");
    }
    Part part;
    for (const json::value& value : ids->get_array()) {
      INGOT_ASSIGN_OR_RETURN(const int32_t id, ReadId(value));
      part.ids.push_back(id);
    }
    parts_.push_back(std::move(part));
  }
  if (parts_.empty()) parts_.push_back({});  // a template that omits the text gives no ids
  return absl::OkStatus();
}

absl::Status PostProcessor::ReadPair(const json::value& component, const std::string& type) {
  for (const char* field : {"cls", "sep"}) {
    const json::value* token = Find(component, field);
    if (token == nullptr || !token->is_array() || token->get_array().size() != 2) {
      return MalformedComponent(absl::StrCat("post_processor ", type, ": ", field, " must be [text, id]"));
    }
    INGOT_ASSIGN_OR_RETURN(const int32_t id, ReadId(token->get_array()[1]));
    if (parts_.size() == 1) parts_.push_back({true, {}});
    parts_.push_back({false, {id}});
  }
  return absl::OkStatus();
}

std::vector<int32_t> PostProcessor::Apply(std::vector<int32_t> ids) const {
  if (parts_.empty()) return ids;
  std::vector<int32_t> out;
  out.reserve(ids.size() + parts_.size());
  for (const Part& part : parts_) {
    const std::vector<int32_t>& from = part.text ? ids : part.ids;
    out.insert(out.end(), from.begin(), from.end());
  }
  return out;
}

}  // namespace ingot::text
