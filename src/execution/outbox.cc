#include "execution/outbox.h"

#include <sys/eventfd.h>

namespace ingot::execution {
namespace {

constexpr size_t kMaxOutgoing = 16 << 20;

}  // namespace

absl::Status Outbox::Add(FrameKind kind, uint32_t id, uint32_t number, std::string_view payload) {
  if (payload.size() > kMaxPayload) {
    return absl::InvalidArgumentError(
        absl::StrCat("a request has ", payload.size(), " bytes: at most ", kMaxPayload, " are allowed"));
  }
  const FrameHeader header{static_cast<uint32_t>(payload.size()), kind, id, number};
  {
    base::MutexLock lock(mu_);
    if (kind != FrameKind::kCredit && bytes_.size() > kMaxOutgoing)
      return absl::ResourceExhaustedError("too many requests are waiting in the session: try again later");
    bytes_.append(reinterpret_cast<const char*>(&header), sizeof(header));
    bytes_ += payload;
  }
  Wake();
  return absl::OkStatus();
}

bool Outbox::Flush(const std::function<ssize_t(std::string_view)>& write) {
  base::MutexLock lock(mu_);
  const ssize_t wrote = bytes_.empty() ? 0 : write(bytes_);
  if (wrote > 0) bytes_.erase(0, static_cast<size_t>(wrote));
  return wrote >= 0;
}

bool Outbox::is_empty() const {
  base::MutexLock lock(mu_);
  return bytes_.empty();
}

void Outbox::Wake() const { eventfd_write(wake_.get(), 1); }

}  // namespace ingot::execution
