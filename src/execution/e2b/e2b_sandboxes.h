// E2B's control API: sandboxes are created, listed, kept alive and killed. Written against its Python SDK 2.63.0, which
// also says what an answer must have.
//
//   POST   /v2/sandboxes, /sandboxes                 {"templateID", "timeout", "metadata", "envVars"}
//   GET    /v2/sandboxes, /sandboxes                 by metadata and state, in pages
//   GET    /sandboxes/ID                             DELETE ends it
//   POST   /sandboxes/ID/timeout                     {"timeout"}: seconds from now
//   POST   /v2/sandboxes/ID/connect, /sandboxes/ID/connect     the tokens again; extends the time
//
// A template is "base", "code-interpreter-v1" (both: the machine's programs) or an image (ImageOf). A request for
// something unsupported is rejected by name: MCP servers, volumes, the internet, identities, pauses. There are no
// snapshots, forks or metrics.
//
// Requests to a sandbox go to the same address: the SDK names the sandbox in the field E2b-Sandbox-Id, and sends its
// token in X-Access-Token or E2B-Traffic-Access-Token.
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

// The sandbox that a request names. UNAVAILABLE: no such sandbox; UNAUTHENTICATED: the token does not match.
absl::StatusOr<std::shared_ptr<HeldSession>> FindSandbox(SessionStore& store, const http::RequestHead& head);
// An error of a request to a sandbox that is not a Connect method: {"code": STATUS, "message"}.
http::Reply E2bError(const absl::Status& status);

class E2bSandboxes {
 public:
  explicit E2bSandboxes(SessionStore& store) : store_(store) {}

  static bool Owns(const Target& target);
  // The request is Open's.
  static bool Opens(const http::RequestHead& head, const Target& target);
  // The request of a body, with its image not unpacked.
  static absl::StatusOr<OpenRequest> Parse(const std::string& body);
  // Blocks while the sandbox opens. A cancelled request or an unread answer leaves no sandbox.
  http::Reply Open(OpenRequest request, const sandbox::Cancellation& cancel);
  // Answers requests other than opening and ending. Does not block.
  http::Reply Answer(const http::RequestHead& head, const Target& target, const std::string& body);
  // The sandbox that the request ends; "" = it ends none.
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
