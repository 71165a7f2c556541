// A gateway on fakes, served on a socket on 127.0.0.1.
#pragma once

#include <memory>
#include <string>

#include "gateway/fakes.h"
#include "gateway/http/http_server.h"
#include "http/wire.h"

namespace ingot::gateway {

using http::Read;
using http::Request;
using http::Response;
using http::Wire;

// The body of a call that says hi; a stream ends with its usage.
inline std::string Hello(bool stream = false) {
  base::json::object body = Body({Msg("user", "hi")});
  if (stream) {
    body["stream"] = true;
    body["stream_options"] = base::json::object{{"include_usage", true}};
  }
  return base::PrintJson(body);
}

struct Site : World {
  explicit Site(ScriptedEngine::Author author) : World(std::move(author)) { http.port = 0; }
  ~Site() {
    engine->Release();
    server_.reset();
  }
  HttpServer& server() {
    if (server_ == nullptr) server_ = HttpServer::Start(http, gateway()).value();
    return *server_;
  }
  Response Ask(const std::string& method, const std::string& target, const std::string& body,
               const std::string& key = "") {
    Wire wire(server().port());
    wire.Send(Request(method, target, body, key));
    return Read(wire);
  }
  http::Options http;

 private:
  std::unique_ptr<HttpServer> server_;
};

}  // namespace ingot::gateway
