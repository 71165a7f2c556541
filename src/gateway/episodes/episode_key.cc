#include "gateway/episodes/episode_key.h"

#include <openssl/evp.h>

#include <cstdlib>

#include "base/checksum.h"
#include "base/log.h"

namespace ingot::gateway {

namespace {

constexpr size_t kDigestBytes = 32;

// Computes SHA-256. In OpenSSL, looking up an algorithm by name takes longer than a digest, so it is done only once.
void Digest(const std::string& text, unsigned char (&digest)[kDigestBytes]) {
  static EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  if (algorithm == nullptr || EVP_Digest(text.data(), text.size(), digest, nullptr, algorithm, nullptr) != 1) {
    INGOT_LOG(critical, "this system's OpenSSL has no SHA-256");  // keys could not be distinguished without it
    std::abort();
  }
}

}  // namespace

std::string OwnerKeyOf(const std::string& idempotency_key) {
  return std::string(kKeyPrefix) + base::Hex(base::ContentKey("episode of " + idempotency_key));
}

std::string CallKeyOf(const std::string& owner_key) {
  const std::string text = "calls of " + owner_key;
  unsigned char digest[kDigestBytes];
  Digest(text, digest);
  return std::string(kKeyPrefix) + base::Hex(std::string_view(reinterpret_cast<const char*>(digest), 24));
}

KeyHashes::KeyHashes(const std::string& key)
    : as_owner(base::ContentKey(CallKeyOf(key))), as_caller(base::ContentKey(key)) {}

}  // namespace ingot::gateway
