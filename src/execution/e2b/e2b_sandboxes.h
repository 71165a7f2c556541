// Serves E2B's control API, which creates, lists, keeps alive, and kills sandboxes. Based on the Python SDK 2.63.0,
// which also determines the required response fields.
//
//   POST   /v2/sandboxes, /sandboxes                 {"templateID", "timeout", "metadata", "envVars"}
//   GET    /v2/sandboxes, /sandboxes                 lists by metadata and state, in pages
//   GET    /sandboxes/ID                             describes one; DELETE ends it
//   POST   /sandboxes/ID/timeout                     {"timeout"}: seconds from now
//   POST   /v2/sandboxes/ID/connect, /sandboxes/ID/connect     returns the tokens and extends the timeout
//
// A template is "base", "code-interpreter-v1" (both use the machine's programs), or an image (ImageOf). Requests for
// unsupported features are rejected, naming the feature: MCP servers, volumes, internet access, identities, and pauses.
// There are no snapshots, forks, or metrics.
//
// Requests to sandboxes use the same address. The SDK sends the sandbox id in the E2b-Sandbox-Id header, and its token
// in X-Access-Token or E2B-Traffic-Access-Token.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "execution/store.h"
#include "execution/target.h"
#include "http/handler.h"
#include "sandbox/process.h"

namespace ingot::execution {

// Returns the sandbox that a request is for. Returns UNAVAILABLE if it does not exist, and UNAUTHENTICATED if the token
// does not match.
absl::StatusOr<std::shared_ptr<HeldSession>> FindSandbox(SessionStore& store, const http::RequestHead& head);
// Returns the error response {"code": STATUS, "message"} for requests to a sandbox, other than Connect methods.
http::Reply E2bError(const absl::Status& status);

class E2bSandboxes {
 public:
  explicit E2bSandboxes(SessionStore& store) : store_(store) {}

  static bool Owns(const Target& target);
  // Returns whether Open handles the request.
  static bool Opens(const http::RequestHead& head, const Target& target);
  // Parses a request body. The image is not unpacked yet.
  static absl::StatusOr<OpenRequest> Parse(const std::string& body);
  // Blocks until the sandbox is open. If the request is canceled or the response is not read, the sandbox is removed.
  http::Reply Open(OpenRequest request, const sandbox::Cancellation& cancel);
  // Handles all requests except those that open or end a sandbox. Does not block.
  http::Reply Answer(const http::RequestHead& head, const Target& target, const std::string& body);
  // Returns the sandbox that the request ends; empty = none.
  static std::string Ends(const http::RequestHead& head, const Target& target);
  static http::Reply Ended();
  static http::Reply NoSandbox(const std::string& id);

 private:
  http::Reply List(const Target& target);
  http::Reply AnswerOne(const std::string& method, const std::string& id, const std::string& action,
                        const std::string& body);

  SessionStore& store_;
};

}  // namespace ingot::execution
