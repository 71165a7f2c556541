#include "base/checksum_secret.h"

// The secret is a member of XXH3's state, which is declared only for static linking.
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

namespace ingot::base {

std::span<const std::byte> ChecksumSecret() {
  static const std::span<const std::byte> secret = [] {
    constexpr size_t kStripeBytes = 64;  // the state's limit is the secret's size without a stripe
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    return std::as_bytes(std::span(state.extSecret, state.secretLimit + kStripeBytes));
  }();
  return secret;
}

}  // namespace ingot::base
