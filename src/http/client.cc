#include "http/client.h"

#include <utility>

#include "http/curl_parts.h"

namespace ingot::http {
namespace {

constexpr int kCancelCheckMs = 100, kLongestPollMs = 1000;

}  // namespace

struct Client::Session {
  // Replaces libcurl's own loop, which checks for cancellation only once per second.
  CURLcode Run(CurlTransfer& transfer) const {
    const auto& cancelled = transfer.request().cancelled;
    CURLMcode fault = curl_multi_add_handle(multi.get(), easy.get());
    for (int running = 1; fault == CURLM_OK;) {
      fault = curl_multi_perform(multi.get(), &running);
      if (running == 0 || fault != CURLM_OK) break;
      if (cancelled && cancelled()) {
        transfer.set_cancelled();
        break;
      }
      fault = curl_multi_poll(multi.get(), nullptr, 0, cancelled ? kCancelCheckMs : kLongestPollMs, nullptr);
    }
    CURLcode code = CURLE_FAILED_INIT;
    int left = 0;
    while (const CURLMsg* const done = curl_multi_info_read(multi.get(), &left)) code = done->data.result;
    curl_multi_remove_handle(multi.get(), easy.get());
    return code;
  }

  const MultiHandle multi{curl_multi_init()};  // owns the connection
  const EasyHandle easy{curl_easy_init()};
};

Client::Client() { InitCurl(); }

Client::~Client() = default;

std::unique_ptr<Client::Session> Client::TakeSession() {
  base::MutexLock lock(mu_);
  if (idle_.empty()) return std::make_unique<Session>();
  auto session = std::move(idle_.back());
  idle_.pop_back();
  return session;
}

void Client::Return(std::unique_ptr<Session> session) {
  curl_easy_reset(session->easy.get());  // keeps the connection but drops copies of keys
  base::MutexLock lock(mu_);
  idle_.push_back(std::move(session));
}

absl::StatusOr<Answer> Client::Send(const ClientRequest& request) {
  CurlTransfer transfer(request);
  INGOT_RETURN_IF_ERROR(transfer.Check());
  std::unique_ptr<Session> session = TakeSession();
  CURL* const curl = session->easy.get();
  if (curl == nullptr || session->multi == nullptr)
    return absl::ResourceExhaustedError("libcurl cannot allocate memory");
  CURLcode code = transfer.Prepare(curl);
  if (code == CURLE_OK) code = session->Run(transfer);
  absl::StatusOr<Answer> answer = transfer.Result(curl, code);
  Return(std::move(session));
  return answer;
}

}  // namespace ingot::http
