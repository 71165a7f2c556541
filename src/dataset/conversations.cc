#include "dataset/conversations.h"

namespace ingot::dataset {
namespace {

const base::json::value* WeightOf(const text::Message& message) {
  const base::json::value* weight = message.extra.if_contains("weight");
  return weight == nullptr || weight->is_null() ? nullptr : weight;
}

}  // namespace

bool IsLearnt(const text::Message& message) {
  const base::json::value* weight = WeightOf(message);
  return message.role == "assistant" && (weight == nullptr || *weight != 0);
}

absl::Status CheckWeights(const text::Conversation& conversation) {
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    const base::json::value* weight = WeightOf(conversation.messages[i]);
    if (weight == nullptr || *weight == 0 || *weight == 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("messages[", i, "]: 'weight' is ", base::PrintJson(*weight), ": it must be 0 (not trained) or 1"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SftConversation>> LoadConversations(const std::string& path, const JsonlOptions& options) {
  std::vector<SftConversation> conversations;
  INGOT_RETURN_IF_ERROR(
      ReadJsonl(path, options, [&](int64_t number, std::string_view, const base::json::value& object) -> absl::Status {
        SftConversation& read = conversations.emplace_back();
        read.place = absl::StrCat(path, ":", number);
        if (IsRecordedRow(object)) {
          INGOT_ASSIGN_OR_RETURN(read.recorded, RecordedRowFromJson(object));
          return absl::OkStatus();
        }
        INGOT_ASSIGN_OR_RETURN(read.conversation, text::ConversationFromJson(object));
        return CheckWeights(read.conversation);
      }));
  if (conversations.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": the file has no conversations"));
  return conversations;
}

}  // namespace ingot::dataset
