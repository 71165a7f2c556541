#include "gateway/core.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/checksum.h"
#include "base/log.h"
#include "gateway/api_error.h"

namespace ingot::gateway {
namespace {

void FillRandom(void* out, size_t bytes) {
  char* at = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = getrandom(at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {  // without it episodes could be guessed
      INGOT_LOG(critical, "the system gives no random bytes");
      std::abort();
    }
    at += got;
    bytes -= got;
  }
}

}  // namespace

Core::Core(GatewayOptions opts, GatewayParts services)
    : options(std::move(opts)),
      parts(std::move(services)),
      writers(options.writer_threads, options.max_queued_work),
      workers(options.worker_threads, options.max_queued_work) {
  follow.engine = parts.engine.get();
  for (const ModelOptions& model : options.models) {
    Backend& backend = backends[model.name];
    backend.engine = parts.engine.get();
    if (model.weights == ModelWeights::kPinned) {
      backend.weights = v1::WEIGHTS_PINNED;
      backend.version = model.version;
    } else if (model.weights == ModelWeights::kExternal) {
      backend.weights = v1::WEIGHTS_EXTERNAL;
      backend.engine = parts.external.at(model.name).get();
    }
  }
}

const Backend& Core::BackendOf(const std::string& model) const {
  const auto found = backends.find(model);
  return found == backends.end() ? follow : found->second;
}

void Counters::CountCall(const absl::Status& status, bool was_aborted) {
  ++calls;
  if (status.ok()) {
    ++completed;
  } else if (was_aborted) {
    ++aborted;
  } else if (absl::IsResourceExhausted(status)) {
    ++refused;
  } else {
    ++failed;
  }
}

absl::Status ShuttingDown() { return ApiError(503, "shutting_down", "", "the gateway is shutting down"); }

std::string RandomHex(size_t bytes) {
  std::string raw(bytes, '\0');
  FillRandom(raw.data(), bytes);
  return base::Hex(raw);
}

uint64_t RandomSeed() {
  uint64_t seed = 0;
  FillRandom(&seed, sizeof(seed));
  return seed;
}

}  // namespace ingot::gateway
