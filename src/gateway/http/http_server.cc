#include "gateway/http/http_server.h"

#include <chrono>
#include <utility>

#include "http/site_check.h"
#include "http/tls.h"

namespace ingot::gateway {
namespace {

constexpr auto kTick = std::chrono::seconds(1);

// Adds the relevant configuration keys to an error.
absl::Status NameKeys(const absl::Status& status) {
  if (!absl::IsFailedPrecondition(status)) return base::Annotate(status, "gateway");
  return absl::FailedPreconditionError(
      absl::StrCat("gateway: ", status.message(),
                   " (gateway.tls.certificate and gateway.tls.key, or gateway.tls.allow_plaintext: true)"));
}

// Returns the URL for other machines, because they cannot use 0.0.0.0.
std::string ReachedAt(const http::Server& server, const http::Options& options, const std::string& own_host) {
  const bool every = options.host == "0.0.0.0" || options.host == "::";
  if (!every || own_host.empty()) return server.url();
  return absl::StrCat(options.tls_certificate.empty() ? "http" : "https", "://", own_host, ":", server.port());
}

}  // namespace

absl::Status CheckListening(const http::Options& options) { return NameKeys(http::CheckHost(options)); }

absl::Status CheckTlsFiles(const http::Options& options) {
  if (options.tls_certificate.empty()) return absl::OkStatus();
  return NameKeys(http::NewTlsContext(options.tls_certificate, options.tls_key).status());
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const http::Options& options, Gateway& gateway,
                                                              const std::string& own_host) {
  auto made = std::unique_ptr<HttpServer>(new HttpServer(gateway));
  http::Options with_url = options;
  if (const std::string& url = gateway.options().public_url; !url.empty())
    with_url.allow_hosts.emplace_back(http::HostOfUrl(url));
  auto listening = http::Server::Listen(with_url, made->api_);
  if (!listening.ok()) return NameKeys(listening.status());
  made->server_ = *std::move(listening);
  made->base_url_ = gateway.options().public_url;
  if (made->base_url_.empty()) {
    made->base_url_ = ReachedAt(*made->server_, options, own_host);
    gateway.SetBaseUrl(made->base_url_);  // must be set before a client can open an episode
  }
  made->server_->Serve();
  made->server_->Every(kTick, [&gateway] { gateway.RunOnWorker([&gateway] { gateway.Tick(); }); });
  return made;
}

}  // namespace ingot::gateway
