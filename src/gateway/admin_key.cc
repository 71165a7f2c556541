#include "gateway/admin_key.h"

#include "base/secret.h"
#include "gateway/api/api_error.h"

namespace ingot::gateway {

bool AdminKey::Is(const std::string& sent) const { return !key_.empty() && base::SameSecret(sent, key_); }

absl::Status AdminKey::Check(const std::string& sent) const {
  if (key_.empty() || Is(sent)) return absl::OkStatus();
  constexpr char kWhose[] = "the gateway's admin key, which is in the file gateway.admin_key_file";
  if (!from_file_) {
    return ApiError(
        sent.empty() ? 401 : 403, "invalid_api_key", "",
        "this run starts its own agents, and only their runner opens episodes: leave agents.recipes out, or "
        "set gateway.admin_key_file and send the key in that file");
  }
  if (sent.empty()) return ApiError(401, "invalid_api_key", "", absl::StrCat("opening an episode needs ", kWhose));
  return ApiError(403, "invalid_api_key", "", absl::StrCat("wrong key: opening an episode needs ", kWhose));
}

}  // namespace ingot::gateway
