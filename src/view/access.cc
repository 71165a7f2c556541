#include "view/access.h"

#include <algorithm>

#include "base/random.h"
#include "base/secret.h"
#include "base/status.h"

namespace ingot::view {
namespace {

constexpr size_t kSecretBytes = 24;

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  return text;
}

}  // namespace

Access::Access(std::string key)
    : own_key_(base::RandomHex(kSecretBytes)),
      other_key_(std::move(key)),
      cookie_(absl::StrCat("ingot_", base::RandomHex(4))) {}

std::string Access::NewToken() {
  base::MutexLock lock(mu_);
  if (tokens_.size() >= kMaxTokens) tokens_.pop_front();
  tokens_.push_back(base::RandomHex(kSecretBytes));
  return tokens_.back();
}

bool Access::Redeem(std::string_view token) {
  base::MutexLock lock(mu_);
  const auto found = std::find_if(tokens_.begin(), tokens_.end(),
                                  [&](const std::string& known) { return base::SameSecret(known, token); });
  if (found == tokens_.end()) return false;
  tokens_.erase(found);
  return true;
}

bool Access::Allows(const http::RequestHead& head) const {
  const std::string shown = head.Key();
  if (base::SameSecret(shown, own_key_) || (!other_key_.empty() && base::SameSecret(shown, other_key_))) return true;
  std::string_view cookies = head.Find("cookie");
  while (!cookies.empty()) {
    const std::string_view pair = Trimmed(cookies.substr(0, cookies.find(';')));
    cookies.remove_prefix(std::min(cookies.find(';'), cookies.size() - 1) + 1);
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos || pair.substr(0, equals) != cookie_) continue;
    if (base::SameSecret(pair.substr(equals + 1), own_key_)) return true;
  }
  return false;
}

std::string Access::Cookie(bool secure) const {
  return absl::StrCat(cookie_, "=", own_key_, "; Path=/; HttpOnly; SameSite=Lax", secure ? "; Secure" : "");
}

}  // namespace ingot::view
