// HTTP requests to answers, without sockets: routes, SSE framing, and the life of episodes as JSON.
//
//   POST /v1{path of any dialect}   GET /v1/models   GET /v1/models/{id}   HEAD /       the same under /s/{episode}
//   POST /ingot/v1/episodes         POST /ingot/v1/episodes/{id}/reward    POST /ingot/v1/episodes/{id}/end
//   GET /ingot/v1/status            GET /healthz     GET /metrics
//
// Clients join their base URL and a path, and differ in which of the two has the /v1: it may be left out, or stand
// twice.
//
// Thread safe; never blocks: what does runs on the gateway's workers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gateway/gateway.h"
#include "gateway/http_route.h"

namespace ingot::gateway {

struct HttpRequest {
  std::string method;
  std::string target;         // path, with or without a query
  std::string authorization;  // the header's value; "Bearer KEY"
  std::string api_key;        // the header x-api-key's value
  Headers headers;            // all others
  std::string body;
};

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

// The reply that tells of an error, with headers that say whether to try again: Retry-After, and x-should-retry, which
// vendors' own clients heed.
HttpReply ErrorReply(const Dialect& dialect, const absl::Status& status, double retry_after_s);
// For what is refused before it is read: in the dialect of `target`, if it is one's.
HttpReply ErrorReply(std::string_view target, const Headers& headers, const absl::Status& status, double retry_after_s);

// Of a request that no model answers.
std::string NewRequestId();

// One request being answered. Thread safe.
class Exchange {
 public:
  virtual ~Exchange() = default;
  struct Progress {
    std::optional<HttpReply> reply;  // the whole answer, and the end of it
    bool stream_begins = false;      // or: 200, text/event-stream, what follows comes as `data`
    std::string data;
    bool done = false;
  };
  // What can be sent since the last call; asking again says that it was sent. Never blocks.
  virtual Progress Take() = 0;
  // The client is gone. Nothing needs to be taken any more.
  virtual void Abandon(absl::Status why) = 0;
  // What the client is told that its request is called: of a model's answer, the id of its first call.
  const std::string& id() const { return id_; }

 protected:
  explicit Exchange(std::string id) : id_(std::move(id)) {}

 private:
  const std::string id_;
};

class HttpApi {
 public:
  // `metrics`: text of /metrics; null: the gateway's own.
  HttpApi(Gateway& gateway, std::function<std::string()> metrics) : gateway_(gateway), metrics_(std::move(metrics)) {}

  // `wake` is called from any thread whenever Take may have something new, possibly before Start returns; it must not
  // block.
  std::shared_ptr<Exchange> Start(HttpRequest request, std::function<void()> wake);

 private:
  HttpReply Quick(const HttpRequest& request, const HttpRoute& route);
  std::shared_ptr<Exchange> Blocking(HttpRequest request, const std::function<void()>& wake,
                                     std::function<HttpReply(const HttpRequest&)> answer);
  std::shared_ptr<Exchange> StartBlocking(HttpRequest request, const HttpRoute& route,
                                          const std::function<void()>& wake);
  HttpReply Open(const HttpRequest& request);
  HttpReply Reward(const HttpRequest& request, const std::string& episode);
  HttpReply End(const HttpRequest& request, const std::string& episode);
  HttpReply StatusReply() const;
  HttpReply ModelReply(const HttpRoute& route) const;
  HttpReply Error(const absl::Status& status) const;

  Gateway& gateway_;
  const std::function<std::string()> metrics_;
};

}  // namespace ingot::gateway
