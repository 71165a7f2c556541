#include "gateway/episode_key.h"

#include <openssl/sha.h>

#include "base/checksum.h"

namespace ingot::gateway {

std::string CallKeyOf(const std::string& owner_key) {
  const std::string text = "calls of " + owner_key;
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return "ingot-" + base::Hex(std::string_view(reinterpret_cast<const char*>(digest), 24));
}

KeyHashes::KeyHashes(const std::string& key)
    : as_owner(base::ContentKey(CallKeyOf(key))), as_caller(base::ContentKey(key)) {}

}  // namespace ingot::gateway
