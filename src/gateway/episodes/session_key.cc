#include "gateway/episodes/session_key.h"

#include "base/checksum.h"

namespace ingot::gateway {
namespace {

// Returns a hash of the messages up to and including the first that is not an instruction.
std::string StartOf(const text::Conversation& conversation) {
  base::StreamingContentKey start;
  for (const text::Message& message : conversation.messages) {
    for (const std::string& part : {message.role, message.content}) {
      start.Update(absl::StrCat(part.size(), ":"));
      start.Update(part);
    }
    if (message.role != "system" && message.role != "developer") break;
  }
  return base::Hex(base::KeyBytes(start.Digest()));
}

}  // namespace

std::string SessionKeyOf(const std::string& api_key, const GatewayRequest& request) {
  const auto key = [&api_key](const char* kind, const std::string& name) {
    return absl::StrCat(api_key, "\n", kind, "\n", name);
  };
  if (!request.session.empty()) return key("named", request.session);
  if (!request.raw_prompts.empty()) return key("prompts", "");
  return key("start", StartOf(request.conversation));
}

}  // namespace ingot::gateway
