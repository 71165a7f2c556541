#include "gateway/http/http_files.h"

#include <optional>
#include <utility>

#include "base/mutex.h"
#include "gateway/api/api_error.h"

namespace ingot::gateway {
namespace {

class FilesExchange final : public http::Exchange, public std::enable_shared_from_this<FilesExchange> {
 public:
  FilesExchange(Gateway& gateway, Caller caller, std::function<http::Reply(const absl::Status&)> reject)
      : gateway_(gateway), caller_(std::move(caller)), reject_(std::move(reject)) {}
  ~FilesExchange() override { Abandon(); }

  // Runs on a worker because the gateway may query the pool and other gateways.
  void Body(std::string, std::function<void()> wake) override {
    const bool posted = gateway_.RunOnWorker([self = shared_from_this(), wake] {
      auto transfer = self->gateway_.ReadSnapshotFiles(self->caller_, wake);
      {
        base::MutexLock lock(self->mu_);
        self->transfer_ = std::move(transfer);
        if (self->closed_) self->AbandonLocked();
      }
      wake();
    });
    if (posted) return;
    {
      base::MutexLock lock(mu_);
      transfer_ = ApiError(503, "overloaded", "", "too many requests are waiting for a worker: try again later");
    }
    wake();
  }

  http::Output Send() override {
    http::Output output;
    base::MutexLock lock(mu_);
    if (!transfer_.has_value()) return output;
    if (!transfer_->ok()) {
      output.reply = reject_(transfer_->status());
      return output;
    }
    FileTransfer::News news = (**transfer_)->TakeNews();
    if (news.done && !news.status.ok() && !streams_) {
      output.reply = reject_(NoFiles(news.status));
      return output;
    }
    output.data = std::move(news.data);
    output.done = news.done;
    output.broken = !news.status.ok();
    if (!streams_ && (output.done || !output.data.empty())) {
      output.stream = http::StreamHead{.content_type = "application/x-tar", .fields = {}, .filler = {}};
      streams_ = true;
    }
    return output;
  }

  void Closed(http::Side) override {
    base::MutexLock lock(mu_);
    closed_ = true;
    AbandonLocked();
  }

 private:
  static absl::Status NoFiles(const absl::Status& why) {
    if (!absl::IsNotFound(why)) return why;
    return ApiError(410, "files_gone", "", absl::StrCat("the snapshot's files are gone: ", why.message()));
  }
  void Abandon() {
    base::MutexLock lock(mu_);
    AbandonLocked();
  }
  void AbandonLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (transfer_.has_value() && transfer_->ok()) (**transfer_)->Abandon();
  }

  Gateway& gateway_;
  const Caller caller_;
  const std::function<http::Reply(const absl::Status&)> reject_;
  base::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  bool streams_ ABSL_GUARDED_BY(mu_) = false;  // the stream's head was sent
  std::optional<absl::StatusOr<std::shared_ptr<FileTransfer>>> transfer_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::shared_ptr<http::Exchange> MakeFilesExchange(Gateway& gateway, Caller caller,
                                                  std::function<http::Reply(const absl::Status&)> reject) {
  return std::make_shared<FilesExchange>(gateway, std::move(caller), std::move(reject));
}

}  // namespace ingot::gateway
