// A service that executes code in sandboxes, over HTTP (`ingot sandbox serve`). Its own API:
//
//   POST   /ingot/v1/execute                   a sandbox for the request; its cases run one after another
//   POST   /ingot/v1/sessions                  {"id", "folder"}: a sandbox that stays, with programs that keep running
//   GET    /ingot/v1/sessions[/ID]             what is open
//   POST   /ingot/v1/sessions/ID/execute       the same request there; with "stream", streams a program's output
//   POST   /ingot/v1/sessions/ID/cells         {"code"}: Python in an interpreter that keeps its state
//   POST   /ingot/v1/sessions/ID/interrupt     stops the running cell; /restart forgets the interpreter's state
//   GET    /ingot/v1/sessions/ID/files/PATH    the bytes of a file, or {"entries"} of a folder; PATH begins in
//                                              "folder", %2FPATH at the root
//   PUT    /ingot/v1/sessions/ID/files/PATH    writes the body; DELETE removes a file, or a folder with its files
//   DELETE /ingot/v1/sessions/ID
//   GET    /health                             {"isolation"}
//
// It also serves E2B's API (e2b/e2b_*.h): /sandboxes, /process.Process, /filesystem.Filesystem, /files, /execute,
// /contexts. Both see the same sessions.
//
// A request to execute: {"language": "python" | "shell", "code": TEXT} or {"command": [..]}, and, if wanted, "files":
// {PATH: TEXT}, "env": {NAME: TEXT}, "cases": [{"stdin": TEXT} | TEXT], "limits": {"wall_s", "output_bytes",
// "memory_bytes", "cpu_s"} of each case, and "total_s" of the whole request, otherwise 600 or a longer wall_s. Without
// cases there is one case without stdin. A request with its own sandbox may also have "image": SOURCE
// (sandbox/image/image.h), and "limits" {"processes", "cpus"}. The answer: {"cases": [{"stdout", "stderr", "ending",
// "exit_code", "signal", "wall_s", "cpu_s", "max_rss_bytes"}]}; a program's own failure is an answer with status 200.
// An ending is "exited", "signalled", "timeout", "output_overflow", "memory_full", "disk_full", "no_space",
// "total_timeout" (total_s ended the case) or "not_run" (total_s was over before). A client that goes away ends its
// request.
//
// A request for a session: {"image", "env", "limits": {"memory_bytes", "processes", "cpus", "idle_s", "lifetime_s"}}.
//
// A cell: {"code", "env", "stream", "limits": {"wall_s", "output_bytes"}}. The answer: {"stdout", "stderr", "results":
// [{"text", "html", ..}], "error": null | {"name", "value", "traceback"}, "ending": "done" | "timeout" |
// "output_overflow" | "died", "count"}.
//
// "stream": true answers with server-sent events, one JSON object each: {"stdout"}, {"stderr"}, {"result"}, {"error"},
// and last {"end": {..}}. A client that goes away ends its program, and interrupts its cell. A stream has no output
// limit.
//
// Errors are {"error": {"code", "message"}}: 400 for a bad request, also for unknown keys and wrong types; 401 without
// the key; 404; 429 while all slots are taken; 503 if the sandbox failed. Answers are JSON, so bytes that are not UTF-8
// become U+FFFD.
//
// Thread safe. No thread that requests share waits for a client, a guest agent or an image. Who waits for what:
//
//   slots    batches with their own sandbox, for the sandbox and the cases
//   Lane     of each session: for its guest agent; a second one for its batches
//   opens    sessions, for their sandboxes
//   pulls    both kinds of openings that name an image, for that image, before they get a thread above
//   bodies   nothing; they parse bodies of batches, which may be large
//   quick    nothing; everything else
//
// No thread waits for a session's end: one of the session's own threads removes its sandbox.
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
  std::string key;  // clients send it as a bearer token, or as X-API-Key; empty = no key is needed
  int slots = 4;    // batches that run at a time
  StoreOptions store;
  std::string images;                      // the folder of images
  std::vector<std::string> image_folders;  // with archives that clients may name (sandbox/image/image_source.h)
};

class Service final : public http::Handler {
 public:
  Service(std::unique_ptr<sandbox::Substrate> substrate, ServiceOptions options);
  ~Service() override;

  http::Opening Head(http::RequestHead head) override;
  http::Reply Reject(std::string_view target, const http::Rejection& why) override;

  // Removes sessions whose end has come.
  void RemoveEnded() { store_.RemoveEnded(); }

 private:
  using Image = absl::StatusOr<sandbox::Image>;

  http::Opening OpenSandbox(const http::RequestHead& head, const Target& target);
  http::Opening OpenControl(const http::RequestHead& head, const Target& target);
  http::Opening OpenOwn(const http::RequestHead& head);
  http::Opening OpenSession(const http::RequestHead& head, const std::string& rest);
  // An answer that does not wait, to a small body.
  http::Opening Quick(std::function<http::Reply(std::string body)> answer);
  http::Opening Parts(Poster post, Opener open, int64_t max_body_bytes);

  Poster On(base::Executor& threads);
  // The threads of a session. Without a session, the quick threads answer that there is none.
  Poster OnSession(std::function<std::shared_ptr<HeldSession>()> find);

  // An answer that `answer` makes on a thread of `post`, with the image unpacked; "" = none. The client's departure and
  // the service's end cancel it.
  Answer Post(Poster post, const std::string& image,
              std::function<http::Reply(const Image& image, const sandbox::Cancellation& cancel)> answer,
              std::function<void()> wake);
  // Ends a session, and answers once its sandbox is gone.
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
  base::Executor slots_, opens_, pulls_, bodies_, quick_;  // last: requests end before the rest goes
};

}  // namespace ingot::execution
