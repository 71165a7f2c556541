#include "dataset/preferences.h"

#include <algorithm>
#include <array>
#include <map>

namespace ingot::dataset {
namespace {

namespace json = base::json;

absl::StatusOr<json::array> Messages(const json::value& object, const char* key) {
  const json::value* field = base::Find(object, key);
  if (field != nullptr && field->is_object()) return json::array{*field};
  if (field == nullptr || !field->is_array() || field->as_array().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("'", key, "' must be a message or a list of messages"));
  }
  return field->as_array();
}

absl::StatusOr<SftConversation> Continue(const json::value& object, const json::array& prompt, const char* key,
                                         const std::string& place) {
  if (const json::value* side = base::Find(object, key); side != nullptr && IsRecordedRow(*side)) {
    SftConversation read;
    read.place = absl::StrCat(place, ", ", key);
    auto row = RecordedRowFromJson(*side);
    if (!row.ok()) return base::Annotate(row.status(), absl::StrCat("'", key, "'"));
    read.recorded = *std::move(row);
    return read;
  }
  INGOT_ASSIGN_OR_RETURN(const json::array own, Messages(object, key));
  json::array all = prompt;
  all.insert(all.end(), own.begin(), own.end());
  json::object conversation = object.as_object();  // keeps its tools and template variables
  conversation["messages"] = std::move(all);
  auto parsed = text::ConversationFromJson(json::value(std::move(conversation)));
  const absl::Status status = parsed.ok() ? CheckWeights(*parsed) : parsed.status();
  if (!status.ok()) return base::Annotate(status, absl::StrCat("with '", key, "'"));
  SftConversation read;
  read.conversation = *std::move(parsed);
  read.place = absl::StrCat(place, ", ", key);
  return read;
}

absl::StatusOr<PreferencePair> PairFromJson(const json::value& object, const std::string& place) {
  const char* key = base::Find(object, "prompt") != nullptr ? "prompt" : "messages";
  json::array prompt;
  const json::value* chosen = base::Find(object, "chosen");
  if (chosen == nullptr || !IsRecordedRow(*chosen)) {  // recorded sides include their prompt
    INGOT_ASSIGN_OR_RETURN(prompt, Messages(object, key));
  }
  PreferencePair pair;
  pair.prompt_messages = prompt.size();
  INGOT_ASSIGN_OR_RETURN(pair.chosen, Continue(object, prompt, "chosen", place));
  INGOT_ASSIGN_OR_RETURN(pair.rejected, Continue(object, prompt, "rejected", place));
  return pair;
}

}  // namespace

absl::StatusOr<std::vector<PreferencePair>> LoadPreferences(const std::string& path, const JsonlOptions& options) {
  std::vector<PreferencePair> pairs;
  INGOT_RETURN_IF_ERROR(
      ReadJsonl(path, options, [&](int64_t number, std::string_view, const json::value& object) -> absl::Status {
        INGOT_ASSIGN_OR_RETURN(PreferencePair pair, PairFromJson(object, absl::StrCat(path, ":", number)));
        pairs.push_back(std::move(pair));
        return absl::OkStatus();
      }));
  if (pairs.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": the file has no pairs"));
  return pairs;
}

absl::StatusOr<std::vector<tree::CallPath>> MakePreferenceExamples(std::span<const PreferencePair> pairs,
                                                                   const text::ChatFormat& format,
                                                                   const SftOptions& options,
                                                                   text::ConcessionCounts* concessions) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  std::vector<tree::CallPath> examples;
  for (size_t i = 0; i < pairs.size(); ++i) {
    for (const bool chosen : {true, false}) {
      const size_t begin = examples.size();
      const int32_t episode = static_cast<int32_t>(2 * i + (chosen ? 0 : 1));
      INGOT_RETURN_IF_ERROR(AppendSftExamples(chosen ? pairs[i].chosen : pairs[i].rejected, format, options,
                                              pairs[i].prompt_messages, episode, examples, concessions));
      for (size_t e = begin; e < examples.size(); ++e) {
        examples[e].group = static_cast<int32_t>(i);
      }
    }
  }
  return examples;
}

int64_t CountAlike(std::span<const tree::CallPath> examples) {
  // The trained tokens on each side of a pair: for every call, all of its tokens and its sampled tokens.
  std::map<int32_t, std::array<std::vector<std::vector<int32_t>>, 2>> pairs;
  for (const tree::CallPath& call : examples) {
    std::vector<std::vector<int32_t>>& side = pairs[call.group][static_cast<size_t>(call.episode % 2)];
    side.push_back(call.Tokens());
    side.push_back(call.sampled);
  }
  return std::count_if(pairs.begin(), pairs.end(), [](const auto& pair) { return pair.second[0] == pair.second[1]; });
}

}  // namespace ingot::dataset
