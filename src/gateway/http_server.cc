#include "gateway/http_server.h"

#include <chrono>
#include <utility>

namespace ingot::gateway {
namespace {

constexpr auto kTick = std::chrono::seconds(1);

// With the configuration's keys for the options that an error names.
absl::Status NameKeys(const absl::Status& status) {
  if (!absl::IsFailedPrecondition(status)) return base::Annotate(status, "gateway");
  return absl::FailedPreconditionError(
      absl::StrCat("gateway: ", status.message(),
                   " (gateway.tls.certificate and gateway.tls.key, or gateway.tls.allow_plaintext: true)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const http::Options& options, Gateway& gateway) {
  auto made = std::unique_ptr<HttpServer>(new HttpServer(gateway));
  auto listening = http::Server::Listen(options, made->api_);
  if (!listening.ok()) return NameKeys(listening.status());
  made->server_ = *std::move(listening);
  if (gateway.options().public_url.empty()) gateway.SetBaseUrl(made->url());  // before a client can open an episode
  made->server_->Serve();
  made->server_->Every(kTick, [&gateway] { gateway.RunOnWorker([&gateway] { gateway.Tick(); }); });
  return made;
}

}  // namespace ingot::gateway
