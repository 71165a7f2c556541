// The interface through which a gateway learns from its users (`ingot serve --learn`): who opted in, and what users say
// about answers.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "text/chat/chat.h"

namespace ingot::gateway {

// The body of POST /v1/feedback.
struct GivenFeedback {
  std::string call_id;  // the call that sampled the answer: 32 hexadecimal digits
  double reward = 0;    // tree/reward_bounds.h
  std::string comment;  // empty = none
};

inline constexpr size_t kMaxFeedbackComment = 4096;  // bytes

// What a user wrote right after an answer.
struct NextMessage {
  std::string call_id;   // the call that sampled the answer
  std::string question;  // the user's last message before the answer; empty = none
  std::string answer;
  std::string message;
};

// Returns nullopt unless the conversation ends with an answer and one message from the user. `call_id`: the call that
// sampled that answer.
std::optional<NextMessage> NextMessageIn(const text::Conversation& conversation, const std::string& call_id);

// Thread safe.
class UserFeedback {
 public:
  virtual ~UserFeedback() = default;
  // Returns the name of the user with this key, or "" if nobody with this key has opted in. Does not block.
  virtual std::string UserOf(const std::string& api_key) const = 0;
  // OK means that the feedback is durable. May be repeated. Returns an ApiError if the key's user has no such answer,
  // or if the answer was already trained on with another reward. Blocks for one fsync.
  virtual absl::Status Give(const std::string& api_key, const GivenFeedback& given) = 0;
  // Called once a call that continues an answer is recorded, for answers to any user. By default, does nothing. Must not
  // block.
  virtual void OnNextMessage(NextMessage /*next*/) {}
};

// Parses {"id", "reward", "comment"?}. `id` is the id of a response in any API, such as chatcmpl-..., or its request id.
// Returns a 400 that names the field.
absl::StatusOr<GivenFeedback> ReadFeedback(const base::json::value& body);

// Episode.metadata_json for a session whose user opted in, and the name in it. Return "" for all other sessions.
std::string MetadataOfUser(const std::string& user);
std::string UserInMetadata(const std::string& metadata_json);

}  // namespace ingot::gateway
