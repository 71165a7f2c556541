#include "app/record/metrics_endpoint.h"

#include <netdb.h>
#include <sys/socket.h>

#include <string_view>
#include <utility>

#include "base/secret.h"

namespace ingot::app {
namespace {

constexpr char kPath[] = "/metrics", kWaitsPath[] = "/waits";

// Returns the numeric address of `host`, preferably IPv4. A name that does not resolve is returned unchanged, so that
// the server's error contains it.
std::string AddressOf(const std::string& host) {
  for (const int family : {AF_INET, AF_UNSPEC}) {
    addrinfo wanted = {}, *found = nullptr;
    wanted.ai_family = family;
    wanted.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(host.c_str(), nullptr, &wanted, &found) != 0) continue;
    char numeric[NI_MAXHOST];
    const int unknown =
        getnameinfo(found->ai_addr, found->ai_addrlen, numeric, sizeof(numeric), nullptr, 0, NI_NUMERICHOST);
    freeaddrinfo(found);
    if (unknown == 0) return numeric;
  }
  return host;
}

http::Reply PlainText(int status, std::string body) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(body)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::OnSocket(const std::string& path, Text text,
                                                                           Text waits) {
  http::Options options;
  options.unix_socket = path;
  return Start(std::move(options), "", std::move(text), std::move(waits));
}

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::AtAddress(http::Options options, std::string key,
                                                                            Text text) {
  options.allow_hosts.push_back(options.host);  // one of this machine's names may resolve to a loopback address
  options.host = AddressOf(options.host);
  return Start(std::move(options), std::move(key), std::move(text), nullptr);
}

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(http::Options options, std::string key,
                                                                        Text text, Text waits) {
  options.max_connections = 64;
  options.max_body_bytes = options.max_buffered_bytes = 4096;
  auto endpoint =
      std::unique_ptr<MetricsEndpoint>(new MetricsEndpoint(std::move(key), std::move(text), std::move(waits)));
  auto listening = http::Server::Listen(options, *endpoint);
  if (!listening.ok()) return base::Annotate(listening.status(), "metrics");
  endpoint->server_ = *std::move(listening);
  endpoint->server_->Serve();
  return endpoint;
}

http::Opening MetricsEndpoint::Head(http::RequestHead head) {
  const std::string_view path = std::string_view(head.target).substr(0, head.target.find('?'));
  if (path == kWaitsPath && waits_ && head.method == "GET") {
    return {.exchange = http::MakeExchange([this](const std::string&) { return PlainText(200, waits_()); })};
  }
  if (path != kPath) return {.rejection = PlainText(404, "not found: this server has only /metrics\n")};
  if (head.method != "GET" && head.method != "HEAD") {
    http::Reply reply = PlainText(405, "/metrics supports only GET\n");
    reply.fields.emplace_back("Allow", "GET, HEAD");
    return {.rejection = std::move(reply)};
  }
  if (!key_.empty() && !base::SameSecret(head.Key(), key_)) {
    http::Reply reply = PlainText(
        401, "/metrics needs the gateway's admin key (in the file gateway.admin_key_file) as Authorization: Bearer\n");
    reply.fields.emplace_back("WWW-Authenticate", "Bearer");
    return {.rejection = std::move(reply)};
  }
  return {.exchange = http::MakeExchange([this](const std::string&) {
            http::Reply reply = PlainText(200, text_());
            reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
            return reply;
          })};
}

}  // namespace ingot::app
