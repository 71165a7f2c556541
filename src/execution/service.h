// Implements an HTTP service that runs code in sandboxes (`ingot sandbox serve`). Its own API:
//
//   POST   /ingot/v1/execute                   runs cases one after another in a new sandbox
//   POST   /ingot/v1/sessions                  {"id", "folder"}: a persistent sandbox where programs keep running
//   GET    /ingot/v1/sessions[/ID]             lists open sessions
//   POST   /ingot/v1/sessions/ID/execute       the same, in the session; "stream" streams its output
//   POST   /ingot/v1/sessions/ID/cells         {"code"}: runs Python in an interpreter that keeps its state
//   POST   /ingot/v1/sessions/ID/interrupt     stops the running cell; /restart clears the interpreter's state
//   GET    /ingot/v1/sessions/ID/files/PATH    returns a file's bytes or a folder's {"entries"}; PATH is relative to
//                                              "folder", and %2FPATH is relative to the root
//   PUT    /ingot/v1/sessions/ID/files/PATH    writes the body; DELETE removes a file, or a folder with its files
//   DELETE /ingot/v1/sessions/ID
//   GET    /health                             {"isolation"}
//
// The service also implements E2B's API (e2b/e2b_*.h): /sandboxes, /process.Process, /filesystem.Filesystem, /files,
// /execute, /contexts. Both APIs see the same sessions.
//
// An execute request has {"language": "python" | "shell", "code": TEXT} or {"command": [..]}. Optional fields are
// "files": {PATH: TEXT}, "env": {NAME: TEXT}, "cases": [{"stdin": TEXT} | TEXT], "limits" for each case: {"wall_s",
// "output_bytes", "memory_bytes", "cpu_s"}, and "total_s" for the entire request, which defaults to 600, or to wall_s
// if that is longer. By default, there is one case with empty stdin. A request with its own sandbox may also have
// "image": SOURCE (sandbox/image/image.h) and the limits "processes" and "cpus". The response is {"cases": [{"stdout",
// "stderr", "ending", "exit_code", "signal", "wall_s", "cpu_s", "max_rss_bytes"}]}. If a program fails, the response
// still has status 200. An ending is "exited", "signalled", "timeout", "output_overflow", "memory_full", "disk_full",
// "no_space", "total_timeout" (ended by total_s), or "not_run" (total_s was reached earlier). If a client disconnects,
// its request ends.
//
// A session request has {"image", "env", "limits": {"memory_bytes", "processes", "cpus", "idle_s", "lifetime_s"}}.
//
// A cell request has {"code", "env", "stream", "limits": {"wall_s", "output_bytes"}}. The response is {"stdout",
// "stderr", "results": [{"text", "html", ..}], "error": null | {"name", "value", "traceback"}, "ending": "done" |
// "timeout" | "output_overflow" | "died", "count"}.
//
// With "stream": true, the response consists of server-sent events with one JSON object each: {"stdout"}, {"stderr"},
// {"result"}, {"error"}, and finally {"end": {..}}. If a client disconnects, its program is killed or its cell is
// interrupted. Streams have no output limit.
//
// Errors are {"error": {"code", "message"}}. The status is 400 for an invalid request, including unknown keys and wrong
// types; 401 without the key; 404 if something does not exist; 429 if all slots are in use; and 503 if the sandbox
// failed. Responses are JSON, so bytes that are not UTF-8 become U+FFFD.
//
// Thread safe. Threads that requests share never wait for a client, a guest agent, or an image. Each group of threads
// waits only for the following:
//
//   slots    batches with their own sandbox: the sandbox and the cases
//   Lane     one per session: its guest agent; a second one runs its batches
//   opens    new sessions: their sandboxes
//   pulls    requests with an image: that image, before they run on another thread
//   bodies   nothing; they parse the bodies of batches, which may be large
//   quick    nothing; they handle everything else
//
// No shared thread waits for a session to end. One of the session's own threads removes its sandbox.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/executor.h"
#include "execution/cancellations.h"
#include "execution/e2b/e2b_code.h"
#include "execution/e2b/e2b_files.h"
#include "execution/e2b/e2b_process.h"
#include "execution/e2b/e2b_sandboxes.h"
#include "execution/feed.h"
#include "execution/store.h"
#include "execution/target.h"
#include "http/handler.h"
#include "sandbox/image/image.h"
#include "sandbox/substrate.h"

namespace ingot::execution {

struct ServiceOptions {
  std::string key;  // sent by clients as a bearer token or in X-API-Key; empty = no key is required
  int slots = 4;    // batches that run at the same time
  StoreOptions store;
  std::string images;                      // the image store's folder
  std::vector<std::string> image_folders;  // folders with archives that clients may name (sandbox/image/image_source.h)
};

class Service final : public http::Handler {
 public:
  Service(std::unique_ptr<sandbox::Substrate> substrate, ServiceOptions options);
  ~Service() override;

  http::Opening Head(http::RequestHead head) override;
  http::Reply Reject(std::string_view target, const http::Rejection& why) override;

  // Removes expired sessions.
  void RemoveEnded() { store_.RemoveEnded(); }

 private:
  using Image = absl::StatusOr<sandbox::Image>;

  http::Opening OpenSandbox(const http::RequestHead& head, const Target& target);
  http::Opening OpenControl(const http::RequestHead& head, const Target& target);
  http::Opening OpenOwn(const http::RequestHead& head);
  http::Opening OpenSession(const http::RequestHead& head, const std::string& rest);
  // Handles a request with a small body. `answer` must not block.
  http::Opening Quick(std::function<http::Reply(std::string body)> answer);
  http::Opening Parts(Poster post, Opener open, int64_t max_body_bytes);

  Poster On(base::Executor& threads);
  // Returns a poster for a session's threads. If there is no session, a quick thread returns the error.
  Poster OnSession(std::function<std::shared_ptr<HeldSession>()> find);

  // Produces a response by calling `answer` through `post`. The image is unpacked first; empty = no image. The request
  // is canceled if the client disconnects or the service stops.
  Answer Post(Poster post, const std::string& image,
              std::function<http::Reply(const Image& image, const sandbox::Cancellation& cancel)> answer,
              std::function<void()> wake);
  // Ends a session and responds once its sandbox is gone.
  Answer End(const std::string& id, const http::Reply& ended, const http::Reply& none, std::function<void()> wake);
  Answer Execute(const std::string& body, std::function<void()> wake);
  Answer AddSession(const std::string& body, std::function<void()> wake);
  Answer OpenExecute(std::shared_ptr<HeldSession> held, const std::string& body, std::function<void()> wake);

  const std::unique_ptr<sandbox::Substrate> substrate_;
  const ServiceOptions options_;
  sandbox::ImageStore images_;
  SessionStore store_;
  E2bSandboxes e2b_sandboxes_;
  E2bProcess e2b_process_;
  E2bFiles e2b_files_;
  E2bCode e2b_code_;
  Cancellations requests_;
  // declared last so that requests end before the other members are destroyed
  base::Executor slots_, opens_, pulls_, bodies_, quick_;
};

}  // namespace ingot::execution
