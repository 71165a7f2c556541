#include "http/handler.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/mutex.h"

namespace ingot::http {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool EqualsWithoutCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return Lower(x) == Lower(y); });
}

class ImmediateExchange final : public Exchange {
 public:
  explicit ImmediateExchange(std::function<Reply(const std::string&)> answer) : answer_(std::move(answer)) {}
  void Body(std::string body, std::function<void()> wake) override {
    reply_ = answer_(body);
    wake();
  }
  Output Send() override {
    Output output;
    output.done = reply_.has_value();
    output.reply = std::exchange(reply_, std::nullopt);
    return output;
  }
  void Closed(Side) override {}

 private:
  const std::function<Reply(const std::string&)> answer_;
  std::optional<Reply> reply_;
};

class WorkedExchange final : public Exchange, public std::enable_shared_from_this<WorkedExchange> {
 public:
  explicit WorkedExchange(Work work) : work_(std::move(work)) {}

  void Body(std::string body, std::function<void()> wake) override {
    const bool posted = work_.post([self = shared_from_this(), body = std::move(body), wake]() mutable {
      if (self->IsUnwanted()) return;
      self->Set(self->work_.answer(std::move(body)));
      wake();
    });
    if (posted) return;
    Set(work_.busy());
    wake();
  }
  Output Send() override {
    base::MutexLock lock(mu_);
    Output output;
    output.done = reply_.has_value();
    output.reply = std::exchange(reply_, std::nullopt);
    return output;
  }
  void Closed(Side) override {
    base::MutexLock lock(mu_);
    closed_ = true;
  }

 private:
  bool IsUnwanted() {
    base::MutexLock lock(mu_);
    return closed_ && work_.skip_if_gone;
  }
  void Set(Reply reply) {
    base::MutexLock lock(mu_);
    reply_ = std::move(reply);
  }

  const Work work_;
  base::Mutex mu_;
  std::optional<Reply> reply_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

std::string_view RequestHead::Find(std::string_view name) const {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const auto& field) { return EqualsWithoutCase(field.first, name); });
  return found == fields.end() ? std::string_view() : std::string_view(found->second);
}

std::string RequestHead::Key() const {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view authorization = Find("authorization");
  if (!EqualsWithoutCase(authorization.substr(0, kScheme.size()), kScheme)) {
    const std::string_view key = Find("x-api-key");
    return std::string(key.empty() ? Find("x-goog-api-key") : key);
  }
  const size_t begin = authorization.find_first_not_of(' ', kScheme.size());
  if (begin == std::string_view::npos) return "";
  return std::string(authorization.substr(begin, authorization.find_last_not_of(' ') - begin + 1));
}

Reply Handler::Reject(std::string_view, const Rejection& why) {
  Reply reply{.status = why.status, .content_type = "text/plain; charset=utf-8", .body = why.message + "\n"};
  if (why.status == 503) reply.fields.emplace_back("Retry-After", "1");
  return reply;
}

std::shared_ptr<Exchange> MakeExchange(std::function<Reply(const std::string&)> answer) {
  return std::make_shared<ImmediateExchange>(std::move(answer));
}

std::shared_ptr<Exchange> MakeExchange(Work work) { return std::make_shared<WorkedExchange>(std::move(work)); }

}  // namespace ingot::http
