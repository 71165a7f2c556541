#include "gateway/user_feedback.h"

#include <algorithm>
#include <string_view>

#include "base/printable.h"
#include "gateway/api/api_error.h"
#include "gateway/api/fields.h"
#include "tree/reward_bounds.h"

namespace ingot::gateway {
namespace {

constexpr size_t kCallIdDigits = 32;
constexpr char kUser[] = "user";

absl::Status CheckNames(const base::json::value& body) {
  if (!body.is_object()) return BadRequest("", "the body must be an object with 'id' and 'reward'");
  for (const auto& field : body.get_object()) {
    const std::string_view name(field.key().data(), field.key().size());
    if (name == "id" || name == "reward" || name == "comment") continue;
    const std::string shown = base::Printable(name, {.max_bytes = 80});
    return BadRequest(shown, absl::StrCat("unknown field '", shown, "'; known: id, reward, comment"));
  }
  return absl::OkStatus();
}

// Returns the call's id without the API's prefix; empty = this is no response's id.
std::string CallIdIn(const std::string& id) {
  const size_t prefix = id.find_last_of("-_");
  const std::string digits = prefix == std::string::npos ? id : id.substr(prefix + 1);
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return digits.size() == kCallIdDigits && std::all_of(digits.begin(), digits.end(), is_digit) ? digits : "";
}

}  // namespace

absl::StatusOr<GivenFeedback> ReadFeedback(const base::json::value& body) {
  INGOT_RETURN_IF_ERROR(CheckNames(body));
  GivenFeedback given;
  std::string id;
  Fields fields(body);
  fields.Read("id", id);
  fields.Read("comment", given.comment);
  INGOT_RETURN_IF_ERROR(fields.status());
  given.call_id = CallIdIn(id);
  if (given.call_id.empty()) {
    return BadRequest("id", "'id' must be the id of a response, such as the chatcmpl-... of a chat completion");
  }
  const base::json::value* const reward = fields.Get("reward");
  if (reward == nullptr || !reward->is_number()) return BadRequest("reward", "'reward' must be a number");
  given.reward = reward->to_number<double>();
  if (const std::string fault = tree::RewardFault(given.reward); !fault.empty()) {
    return BadRequest("reward", absl::StrCat("'reward' ", fault));
  }
  if (given.comment.size() > kMaxFeedbackComment) {
    return BadRequest("comment", absl::StrCat("'comment' has ", given.comment.size(), " bytes; at most ",
                                              kMaxFeedbackComment, " are stored: shorten it"));
  }
  return given;
}

std::optional<NextMessage> NextMessageIn(const text::Conversation& conversation, const std::string& call_id) {
  const auto& messages = conversation.messages;
  if (messages.size() < 2 || messages.back().role != kUser) return std::nullopt;
  const text::Message& answer = messages[messages.size() - 2];
  if (answer.role != "assistant") return std::nullopt;
  NextMessage next{.call_id = call_id, .question = "", .answer = answer.content, .message = messages.back().content};
  const auto question =
      std::find_if(messages.rbegin() + 2, messages.rend(), [](const text::Message& one) { return one.role == kUser; });
  if (question != messages.rend()) next.question = question->content;
  return next;
}

std::string MetadataOfUser(const std::string& user) {
  return user.empty() ? "" : base::PrintJson(base::json::object{{kUser, user}});
}

std::string UserInMetadata(const std::string& metadata_json) {
  if (metadata_json.empty()) return "";
  const absl::StatusOr<base::json::value> metadata = base::ParseJson(metadata_json);
  const base::json::value* const user = metadata.ok() ? base::Find(*metadata, kUser) : nullptr;
  return user != nullptr && user->is_string() ? std::string(user->get_string()) : "";
}

}  // namespace ingot::gateway
