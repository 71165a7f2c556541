#include "gateway/admin_key.h"

#include "base/secret.h"
#include "gateway/api/api_error.h"

namespace ingot::gateway {

bool AdminKey::Is(const std::string& sent) const { return !key_.empty() && base::SameSecret(sent, key_); }

absl::Status AdminKey::Check(const std::string& sent) const {
  if (key_.empty() || Is(sent)) return absl::OkStatus();
  if (!from_file_) {
    return ApiError(
        sent.empty() ? 401 : 403, "invalid_api_key", "",
        "this run starts its own agents, and only their runner opens episodes: leave agents.recipes out, or "
        "set gateway.admin_key_file and send the key in that file");
  }
  return CheckOwner(sent, "opening an episode");
}

absl::Status AdminKey::CheckOwner(const std::string& sent, std::string_view what) const {
  if (key_.empty() || !from_file_ || Is(sent)) return absl::OkStatus();
  return ApiError(sent.empty() ? 401 : 403, "invalid_api_key", "",
                  absl::StrCat(sent.empty() ? "" : "wrong key: ", base::View(what),
                               " needs the gateway's admin key, which is in the file gateway.admin_key_file"));
}

}  // namespace ingot::gateway
