#include "execution/feed.h"

namespace ingot::execution {
namespace {

class FeedExchange final : public http::Exchange, public std::enable_shared_from_this<FeedExchange> {
 public:
  FeedExchange(Poster post, Opener open, http::Reply busy)
      : post_(std::move(post)), open_(std::move(open)), busy_(std::move(busy)) {}

  void Body(std::string body, std::function<void()> wake) override {
    const bool posted = post_([self = shared_from_this(), body = std::move(body), wake]() mutable {
      if (self->is_closed()) return;
      auto opened = self->open_(std::move(body), wake);
      self->Set(std::move(opened));
      wake();
    });
    if (posted) return;
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
    std::optional<http::Reply> reply;
    {
      base::MutexLock lock(mu_);
      closed_ = true;
      feed = std::exchange(feed_, nullptr);
      reply = std::exchange(reply_, std::nullopt);
    }
    if (feed != nullptr) feed->Closed();
    if (reply.has_value()) http::DropReply(*reply);
  }

 private:
  bool is_closed() {
    base::MutexLock lock(mu_);
    return closed_;
  }
  void Set(std::variant<http::Reply, std::shared_ptr<Feed>> opened) {
    {
      base::MutexLock lock(mu_);
      if (!closed_) {
        if (auto* const reply = std::get_if<http::Reply>(&opened)) reply_ = std::move(*reply);
        if (auto* const feed = std::get_if<std::shared_ptr<Feed>>(&opened)) feed_ = std::move(*feed);
        return;
      }
    }
    if (auto* const reply = std::get_if<http::Reply>(&opened)) http::DropReply(*reply);
    if (auto* const feed = std::get_if<std::shared_ptr<Feed>>(&opened)) (*feed)->Closed();
  }

  const Poster post_;
  const Opener open_;
  http::Reply busy_;  // used only on the connection's thread
  base::Mutex mu_;
  std::optional<http::Reply> reply_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Feed> feed_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

void PostedFeed::Set(http::Reply reply) {
  bool closed;
  {
    base::MutexLock lock(mu_);
    closed = closed_;
    if (!closed) reply_ = std::move(reply);
  }
  if (closed) return http::DropReply(reply);
  wake_();
}

http::Output PostedFeed::Next() {
  base::MutexLock lock(mu_);
  http::Output output;
  output.done = reply_.has_value();
  output.reply = std::exchange(reply_, std::nullopt);
  return output;
}

void PostedFeed::Closed() {
  std::optional<http::Reply> reply;
  {
    base::MutexLock lock(mu_);
    closed_ = true;
    reply = std::exchange(reply_, std::nullopt);
  }
  cancel_->Cancel();
  if (reply.has_value()) http::DropReply(*reply);
}

std::shared_ptr<http::Exchange> MakeFeedExchange(Poster post, Opener open, http::Reply busy) {
  return std::make_shared<FeedExchange>(std::move(post), std::move(open), std::move(busy));
}

}  // namespace ingot::execution
