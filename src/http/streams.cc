#include "http/streams.h"

#include <utility>

#include "http/curl_parts.h"

namespace ingot::http {
namespace {

constexpr int kStreamPollMs = 1000;

}  // namespace

struct Streams::Multi {
  MultiHandle handle{curl_multi_init()};
};

struct Streams::Open {
  explicit Open(Request asked) : request(std::move(asked)), transfer(request.head) { request.head.body = request.body; }

  uint64_t id = 0;
  Request request;
  CurlTransfer transfer;  // refers to `request`
  EasyHandle easy{curl_easy_init()};
};

Streams::Streams(int max_connections) : multi_((InitCurl(), std::make_unique<Multi>())) {
  if (multi_->handle != nullptr) {
    curl_multi_setopt(multi_->handle.get(), CURLMOPT_MAX_TOTAL_CONNECTIONS, static_cast<long>(max_connections));
    curl_multi_setopt(multi_->handle.get(), CURLMOPT_MAXCONNECTS, static_cast<long>(max_connections));
  }
  thread_ = std::thread([this] { Run(); });
}

Streams::~Streams() {
  {
    base::MutexLock lock(mu_);
    stopping_ = true;
  }
  curl_multi_wakeup(multi_->handle.get());
  thread_.join();
}

uint64_t Streams::Start(Request request) {
  auto open = std::make_unique<Open>(std::move(request));
  uint64_t id = 0;
  {
    base::MutexLock lock(mu_);
    id = open->id = next_++;
    started_.push_back(std::move(open));
  }
  curl_multi_wakeup(multi_->handle.get());
  return id;
}

void Streams::Close(uint64_t id) {
  {
    base::MutexLock lock(mu_);
    closed_.push_back(id);
  }
  curl_multi_wakeup(multi_->handle.get());
}

void Streams::Post(std::function<void()> task) {
  {
    base::MutexLock lock(mu_);
    tasks_.push_back(std::move(task));
  }
  curl_multi_wakeup(multi_->handle.get());
}

void Streams::Run() {
  while (TakeInbox()) {
    int running = 0;
    curl_multi_perform(multi_->handle.get(), &running);
    Settle();
    curl_multi_poll(multi_->handle.get(), nullptr, 0, kStreamPollMs, nullptr);
  }
  while (!open_.empty()) End(open_.begin()->first, absl::CancelledError("the client is shutting down"));
}

bool Streams::TakeInbox() {
  std::vector<std::unique_ptr<Open>> started;
  std::vector<uint64_t> closed;
  std::vector<std::function<void()>> tasks;
  bool stopping = false;
  {
    base::MutexLock lock(mu_);
    started.swap(started_);
    closed.swap(closed_);
    tasks.swap(tasks_);
    stopping = stopping_;
  }
  for (std::unique_ptr<Open>& open : started) Begin(std::move(open));
  for (const uint64_t id : closed) End(id, absl::CancelledError("the caller closed the connection"));
  if (stopping) return false;
  for (const std::function<void()>& task : tasks) task();
  return true;
}

void Streams::Begin(std::unique_ptr<Open> open) {
  Open& begun = *open;
  open_.emplace(begun.id, std::move(open));
  if (const absl::Status valid = begun.transfer.Check(); !valid.ok()) return End(begun.id, valid);
  CURL* const easy = begun.easy.get();
  if (easy == nullptr) return End(begun.id, absl::ResourceExhaustedError("libcurl cannot allocate memory"));
  CURLcode code = begun.transfer.Prepare(easy);
  if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_PRIVATE, &begun);
  if (code == CURLE_OK && curl_multi_add_handle(multi_->handle.get(), easy) == CURLM_OK) return;
  End(begun.id, begun.transfer.Result(easy, code == CURLE_OK ? CURLE_FAILED_INIT : code));
}

void Streams::Settle() {
  int left = 0;
  while (const CURLMsg* const done = curl_multi_info_read(multi_->handle.get(), &left)) {
    if (done->msg != CURLMSG_DONE) continue;
    const CURLcode code = done->data.result;
    Open* open = nullptr;
    curl_easy_getinfo(done->easy_handle, CURLINFO_PRIVATE, &open);
    End(open->id, open->transfer.Result(open->easy.get(), code));
  }
}

void Streams::End(uint64_t id, absl::StatusOr<Answer> answer) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  const std::unique_ptr<Open> open = std::move(found->second);
  open_.erase(found);
  // Removing a handle whose response has not ended closes its connection.
  if (open->easy != nullptr) curl_multi_remove_handle(multi_->handle.get(), open->easy.get());
  if (open->request.on_end) open->request.on_end(std::move(answer));
}

}  // namespace ingot::http
