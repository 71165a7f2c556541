#include "execution/feed.h"

#include <optional>
#include <utility>

#include "base/mutex.h"

namespace ingot::execution {
namespace {

class FeedExchange final : public http::Exchange, public std::enable_shared_from_this<FeedExchange> {
 public:
  FeedExchange(base::Executor& threads, Opener open, http::Reply busy)
      : threads_(threads), open_(std::move(open)), busy_(std::move(busy)) {}

  void Body(std::string body, std::function<void()> wake) override {
    const absl::Status posted = threads_.TryPost([self = shared_from_this(), body = std::move(body), wake]() mutable {
      auto opened = self->open_(std::move(body), wake);
      self->Set(std::move(opened));
      wake();
    });
    if (posted.ok()) return;
    Set(std::move(busy_));
    wake();
  }

  http::Output Send() override {
    std::shared_ptr<Feed> feed;
    {
      base::MutexLock lock(mu_);
      if (reply_.has_value()) return {.reply = std::exchange(reply_, std::nullopt), .done = true};
      feed = feed_;
    }
    return feed == nullptr ? http::Output() : feed->Next();
  }

  void Closed(http::Side) override {
    std::shared_ptr<Feed> feed;
    {
      base::MutexLock lock(mu_);
      closed_ = true;
      feed = std::exchange(feed_, nullptr);
    }
    if (feed != nullptr) feed->Closed();
  }

 private:
  void Set(std::variant<http::Reply, std::shared_ptr<Feed>> opened) {
    std::shared_ptr<Feed> unwanted;
    {
      base::MutexLock lock(mu_);
      if (auto* const reply = std::get_if<http::Reply>(&opened)) {
        reply_ = std::move(*reply);
      } else if (closed_) {
        unwanted = std::get<std::shared_ptr<Feed>>(opened);
      } else {
        feed_ = std::get<std::shared_ptr<Feed>>(std::move(opened));
      }
    }
    if (unwanted != nullptr) unwanted->Closed();
  }

  base::Executor& threads_;
  const Opener open_;
  http::Reply busy_;  // of the connection's thread
  base::Mutex mu_;
  std::optional<http::Reply> reply_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Feed> feed_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

class PostedFeed final : public Feed {
 public:
  explicit PostedFeed(std::shared_ptr<sandbox::Cancellation> cancel) : cancel_(std::move(cancel)) {}

  bool is_unwanted() const { return cancel_->cancelled(); }
  void Set(http::Reply reply) {
    base::MutexLock lock(mu_);
    reply_ = std::move(reply);
  }
  http::Output Next() override {
    base::MutexLock lock(mu_);
    http::Output output;
    output.done = reply_.has_value();
    output.reply = std::exchange(reply_, std::nullopt);
    return output;
  }
  void Closed() override { cancel_->Cancel(); }

 private:
  const std::shared_ptr<sandbox::Cancellation> cancel_;
  base::Mutex mu_;
  std::optional<http::Reply> reply_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::shared_ptr<Feed> MakePostedFeed(base::Executor& threads, std::shared_ptr<sandbox::Cancellation> cancel,
                                     std::function<http::Reply()> answer, std::function<void()> wake) {
  const auto feed = std::make_shared<PostedFeed>(std::move(cancel));
  const absl::Status posted = threads.TryPost([feed, answer = std::move(answer), wake = std::move(wake)] {
    if (feed->is_unwanted()) return;
    feed->Set(answer());
    wake();
  });
  return posted.ok() ? feed : nullptr;
}

std::shared_ptr<http::Exchange> MakeFeedExchange(base::Executor& threads, Opener open, http::Reply busy) {
  return std::make_shared<FeedExchange>(threads, std::move(open), std::move(busy));
}

}  // namespace ingot::execution
