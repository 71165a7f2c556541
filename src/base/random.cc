#include "base/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>

#include "base/checksum.h"
#include "base/log.h"

namespace ingot::base {
namespace {

void FillRandom(void* out, size_t bytes) {
  char* at = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = getrandom(at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {  // with predictable keys, anyone could access episodes
      INGOT_LOG(critical, "cannot get random bytes from the system");
      std::abort();
    }
    at += got;
    bytes -= got;
  }
}

}  // namespace

std::string RandomHex(size_t bytes) {
  std::string raw(bytes, '\0');
  FillRandom(raw.data(), bytes);
  return Hex(raw);
}

uint64_t RandomSeed() {
  uint64_t seed = 0;
  FillRandom(&seed, sizeof(seed));
  return seed;
}

}  // namespace ingot::base
