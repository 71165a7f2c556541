#include "gateway/episodes/snapshot_files.h"

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace ingot::gateway {
namespace {

constexpr size_t kMaxPartBytes = 1 << 20;
constexpr size_t kBufferBytes = 1 << 20;

}  // namespace

absl::Status FileTransfer::Put(const v1::SnapshotFilesPart& part, std::chrono::nanoseconds wait) {
  if (part.data().size() > kMaxPartBytes || part.offset() < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a part has at most ", kMaxPartBytes, " bytes"));
  }
  const auto deadline = clock_.Now() + wait;
  {
    base::MutexLock lock(mu_);
    while (!done_ && !abandoned_ && buffer_.size() >= kBufferBytes) {
      if (clock_.Now() >= deadline) return absl::ResourceExhaustedError("the client is not reading the files");
      clock_.WaitUntil(emptied_, mu_, deadline);
    }
    if (done_ || abandoned_) return absl::NotFoundError("the client that requested these files is gone");
    if (part.offset() > received_) return absl::InvalidArgumentError("a part before this one is missing");
    const size_t known = std::min(static_cast<size_t>(received_ - part.offset()), part.data().size());
    buffer_.append(part.data(), known);
    received_ += static_cast<int64_t>(part.data().size() - known);
    done_ = part.done() || !part.error().empty();
    // A runner without the snapshot sets `done` because a retry is pointless.
    if (!part.error().empty()) {
      status_ = part.done() ? absl::NotFoundError(part.error()) : absl::UnavailableError(part.error());
    }
    last_ = clock_.Now();
  }
  wake_();
  return absl::OkStatus();
}

FileTransfer::News FileTransfer::TakeNews() {
  base::MutexLock lock(mu_);
  News news{.data = std::exchange(buffer_, {}), .done = done_, .status = status_};
  if (!news.data.empty()) last_ = clock_.Now();
  emptied_.SignalAll();
  return news;
}

void FileTransfer::Abandon() {
  base::MutexLock lock(mu_);
  abandoned_ = true;
  emptied_.SignalAll();
}

void FileTransfer::Break(absl::Status why) {
  {
    base::MutexLock lock(mu_);
    if (done_) return;
    done_ = true;
    status_ = std::move(why);
    emptied_.SignalAll();
  }
  wake_();
}

void FileTransfer::BreakIfSilentSince(std::chrono::nanoseconds before) {
  {
    base::MutexLock lock(mu_);
    if (!buffer_.empty() || last_ > before) return;
  }
  Break(absl::DeadlineExceededError("the runner that has the snapshot stopped sending"));
}

absl::StatusOr<std::shared_ptr<FileTransfer>> FileTransfers::Open(std::function<void()> wake) {
  base::MutexLock lock(mu_);
  if (closed_) return absl::UnavailableError("the gateway is shutting down");
  std::erase_if(transfers_, [](const auto& transfer) { return transfer.second.expired(); });
  if (transfers_.size() >= kMax) {
    return absl::ResourceExhaustedError(absl::StrCat(kMax, " snapshots are being read: try again later"));
  }
  auto made = std::make_shared<FileTransfer>(clock_, base::RandomHex(16), std::move(wake));
  transfers_[made->id()] = made;
  return made;
}

std::shared_ptr<FileTransfer> FileTransfers::Find(const std::string& id) {
  base::MutexLock lock(mu_);
  const auto found = transfers_.find(id);
  return found == transfers_.end() ? nullptr : found->second.lock();
}

void FileTransfers::BreakSilent(std::chrono::nanoseconds timeout) {
  std::vector<std::shared_ptr<FileTransfer>> open;
  {
    base::MutexLock lock(mu_);
    for (const auto& [id, transfer] : transfers_) open.push_back(transfer.lock());
  }
  for (const auto& transfer : open) {
    if (transfer != nullptr) transfer->BreakIfSilentSince(clock_.Now() - timeout);
  }
}

void FileTransfers::Close() {
  std::vector<std::shared_ptr<FileTransfer>> open;
  {
    base::MutexLock lock(mu_);
    closed_ = true;
    for (const auto& [id, transfer] : transfers_) open.push_back(transfer.lock());
  }
  for (const auto& transfer : open) {
    if (transfer != nullptr) transfer->Break(absl::UnavailableError("the gateway is shutting down"));
  }
}

}  // namespace ingot::gateway
