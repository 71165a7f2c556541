#include "dataset/conversations.h"

namespace ingot::dataset {

absl::StatusOr<std::vector<text::Conversation>> LoadConversations(const std::string& path,
                                                                  const JsonlOptions& options) {
  std::vector<text::Conversation> conversations;
  INGOT_RETURN_IF_ERROR(
      ReadJsonl(path, options, [&](int64_t, std::string_view, const base::json::value& object) -> absl::Status {
        INGOT_ASSIGN_OR_RETURN(text::Conversation conversation, text::ConversationFromJson(object));
        conversations.push_back(std::move(conversation));
        return absl::OkStatus();
      }));
  if (conversations.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": there is no conversation in it"));
  return conversations;
}

}  // namespace ingot::dataset
