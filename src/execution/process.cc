#include "execution/process.h"

#include <algorithm>
#include <utility>

namespace ingot::execution {

Subscription::News Subscription::TakeNews() {
  base::MutexLock lock(mu_);
  return std::exchange(news_left_, News());
}

void Subscription::Add(std::shared_ptr<const Chunk> chunk) {
  {
    base::MutexLock lock(mu_);
    news_left_.chunks.push_back(std::move(chunk));
  }
  news_();
}

void Subscription::End(const ProcessEnd& end) {
  {
    base::MutexLock lock(mu_);
    news_left_.end = end;
  }
  news_();
}

std::shared_ptr<Subscription> Process::Subscribe(std::function<void()> news) {
  auto subscription = std::make_shared<Subscription>(std::move(news));
  std::optional<ProcessEnd> end;
  {
    base::MutexLock lock(mu_);
    end = end_;
    if (!end.has_value()) subscribers_.push_back(subscription);
  }
  if (end.has_value()) subscription->End(*end);
  return subscription;
}

std::optional<ProcessEnd> Process::end() const {
  base::MutexLock lock(mu_);
  return end_;
}

std::vector<std::shared_ptr<Subscription>> Process::Subscribers() {
  std::vector<std::shared_ptr<Subscription>> alive;
  for (const auto& each : subscribers_) {
    if (auto subscription = each.lock()) alive.push_back(std::move(subscription));
  }
  subscribers_.assign(alive.begin(), alive.end());
  return alive;
}

void Process::Deliver(std::shared_ptr<const Chunk> chunk) {
  std::vector<std::shared_ptr<Subscription>> takers;
  {
    base::MutexLock lock(mu_);
    takers = Subscribers();
  }
  for (const auto& taker : takers) taker->Add(chunk);
}

void Process::Finish(ProcessEnd end) {
  std::vector<std::shared_ptr<Subscription>> takers;
  {
    base::MutexLock lock(mu_);
    if (end_.has_value()) return;
    end_ = end;
    takers = Subscribers();
  }
  for (const auto& taker : takers) taker->End(end);
}

}  // namespace ingot::execution
