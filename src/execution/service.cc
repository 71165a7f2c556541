#include "execution/service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/secret.h"
#include "execution/cases.h"
#include "execution/fields.h"
#include "execution/requests.h"
#include "execution/session_requests.h"

namespace ingot::execution {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

constexpr std::string_view kPrefix = "/ingot/v1/";
constexpr int64_t kLargestBody = 64 << 20;
constexpr int64_t kSmallBody = 1 << 20;  // body limit for requests that a quick thread handles
constexpr int kQuickThreads = 4;
constexpr size_t kMaxQuick = 1024;
constexpr int kBodyThreads = 2;
constexpr int kOpeningThreads = 16;  // maximum sessions opening at a time
constexpr int kPullingThreads = 16;  // maximum requests waiting for their image at a time

http::Reply Busy() { return ErrorReply(429, "too_many", "too many requests are running and waiting: try again later"); }

http::Reply NoSession() {
  return ErrorReply(404, "not_found", "there is no such session: it has ended, or it was idle for too long");
}

}  // namespace

Service::Service(std::unique_ptr<sandbox::Substrate> substrate, ServiceOptions options)
    : substrate_(std::move(substrate)),
      options_(std::move(options)),
      images_(options_.images, {.folders = options_.image_folders}),
      store_(*substrate_, options_.store),
      e2b_sandboxes_(store_),
      e2b_process_(store_),
      e2b_files_(store_),
      e2b_code_(store_),
      slots_({.name = "execution", .threads = options_.slots, .max_queued = static_cast<size_t>(options_.slots)}),
      opens_({.name = "opening", .threads = kOpeningThreads, .max_queued = kMaxQuick}),
      pulls_({.name = "pulling", .threads = kPullingThreads, .max_queued = kMaxQuick}),
      bodies_({.name = "bodies", .threads = kBodyThreads, .max_queued = kMaxQuick}),
      quick_({.name = "sessions", .threads = kQuickThreads, .max_queued = kMaxQuick}) {}

Service::~Service() {
  // Ends the programs and image tools that requests wait for, which ends the requests.
  requests_.CancelAll();
  images_.Stop();
  for (base::Executor* const threads : {&bodies_, &pulls_, &opens_}) threads->Shutdown();
  store_.Close();
  slots_.Shutdown();
  quick_.Shutdown();
}

http::Opening Service::Quick(std::function<http::Reply(std::string)> answer) {
  http::Work work{.post = [this](std::function<void()> job) { return quick_.TryPost(std::move(job)).ok(); },
                  .answer = std::move(answer),
                  .busy = Busy};
  return {.exchange = http::MakeExchange(std::move(work)), .rejection = {}, .max_body_bytes = kSmallBody};
}

http::Opening Service::Parts(Poster post, Opener open, int64_t max_body_bytes) {
  return {.exchange = MakeFeedExchange(std::move(post), std::move(open), Busy()),
          .rejection = {},
          .max_body_bytes = max_body_bytes};
}

Poster Service::On(base::Executor& threads) {
  return [&threads](base::Task task) { return threads.TryPost(std::move(task)).ok(); };
}

Poster Service::OnSession(std::function<std::shared_ptr<HeldSession>()> find) {
  return [this, find = std::move(find)](base::Task task) {
    const std::shared_ptr<HeldSession> held = find();
    if (held == nullptr) return quick_.TryPost(std::move(task)).ok();
    return held->orders.TryPost([held, task = std::move(task)]() mutable { task(); });
  };
}

http::Opening Service::Head(http::RequestHead head) {
  const Target target = ParseTarget(head.target);
  // These requests use a sandbox's own token.
  if (E2bFiles::Owns(head, target.path) || E2bProcess::Owns(target.path) || E2bCode::Owns(target.path))
    return OpenSandbox(head, target);
  if (target.path == "/health") {
    const std::string isolation(sandbox::IsolationLevelName(substrate_->probe_result().isolation));
    return {.exchange = http::MakeExchange(
                [isolation](const std::string&) { return JsonReply(200, object{{"isolation", isolation}}); })};
  }
  const bool is_e2b = E2bSandboxes::Owns(target);
  if (!options_.key.empty() && !base::SameSecret(head.Key(), options_.key)) {
    const auto why = absl::UnauthenticatedError("send the service's key as X-API-Key");
    return {.exchange = nullptr,
            .rejection = is_e2b ? E2bError(why)
                                : ErrorReply(401, "invalid_key", "send the service's key as Authorization: Bearer")};
  }
  if (is_e2b) return OpenControl(head, target);
  if (target.path.starts_with(kPrefix)) return OpenOwn(head);
  return {.exchange = nullptr,
          .rejection = ErrorReply(
              404, "not_found", "unknown path: this service has /ingot/v1/execute, /ingot/v1/sessions and E2B's API")};
}

http::Reply Service::Reject(std::string_view, const http::Rejection& why) {
  http::Reply reply = ErrorReply(why.status, why.code, why.message);
  if (why.status == 503) reply.fields.emplace_back("Retry-After", "1");
  return reply;
}

http::Opening Service::OpenSandbox(const http::RequestHead& head, const Target& target) {
  const bool is_health = target.path == "/health";  // answered even while the sandbox threads are busy
  Poster post =
      is_health ? On(quick_) : OnSession([this, head] { return FindSandbox(store_, head).value_or(nullptr); });
  const auto open = [this, head, target](const std::string& body, std::function<void()> wake) -> Answer {
    if (E2bFiles::Owns(head, target.path)) return e2b_files_.Open(head, target, body, std::move(wake));
    if (E2bProcess::Owns(target.path)) return e2b_process_.Open(head, target.path, body, std::move(wake));
    return e2b_code_.Open(head, target.path, body, std::move(wake));
  };
  return Parts(std::move(post), open, kLargestBody);
}

http::Opening Service::OpenControl(const http::RequestHead& head, const Target& target) {
  if (E2bSandboxes::Opens(head, target)) {
    const auto open = [this](const std::string& body, std::function<void()> wake) -> Answer {
      const auto request = E2bSandboxes::Parse(body);
      if (!request.ok()) return E2bError(request.status());
      const auto answer = [this, request = *request](const Image& image, const sandbox::Cancellation& cancel) {
        if (!image.ok()) return E2bError(image.status());
        OpenRequest with_image = request;
        with_image.unpacked = *image;
        return e2b_sandboxes_.Open(std::move(with_image), cancel);
      };
      return Post(On(opens_), request->image, answer, std::move(wake));
    };
    return Parts(On(quick_), open, kSmallBody);
  }
  if (const std::string id = E2bSandboxes::Ends(head, target); !id.empty()) {
    const auto end = [this, id](const std::string&, std::function<void()> wake) {
      return End(id, E2bSandboxes::Ended(), E2bSandboxes::NoSandbox(id), std::move(wake));
    };
    return Parts(On(quick_), end, kSmallBody);
  }
  return Quick([this, head, target](const std::string& body) { return e2b_sandboxes_.Answer(head, target, body); });
}

http::Opening Service::OpenOwn(const http::RequestHead& head) {
  const std::string path = ParseTarget(head.target).path.substr(kPrefix.size());
  if (path == "execute" && head.method == "POST") {
    const auto open = [this](const std::string& body, auto wake) { return Execute(body, std::move(wake)); };
    return Parts(On(bodies_), open, kLargestBody);
  }
  if (path == "sessions" && head.method == "POST") {
    const auto open = [this](const std::string& body, auto wake) { return AddSession(body, std::move(wake)); };
    return Parts(On(quick_), open, kSmallBody);
  }
  if (path == "sessions" && head.method == "GET") {
    return Quick([this](const std::string&) {
      array list;
      for (const auto& held : store_.List()) list.push_back(Describe(*held));
      return JsonReply(200, object{{"sessions", std::move(list)}});
    });
  }
  if (path.starts_with("sessions/")) return OpenSession(head, path.substr(9));
  return {.exchange = nullptr,
          .rejection = ErrorReply(404, "not_found", absl::StrCat("there is no ", head.method, " ", head.target))};
}

Answer Service::Post(Poster post, const std::string& image,
                     std::function<http::Reply(const Image&, const sandbox::Cancellation&)> answer,
                     std::function<void()> wake) {
  const auto feed = std::make_shared<PostedFeed>(requests_.New(), std::move(wake));
  const auto make = [feed, answer = std::move(answer)](const Image& unpacked) {
    if (!feed->is_unwanted()) feed->Set(answer(unpacked, feed->cancel()));
  };
  if (image.empty()) {
    if (!post([make] { make(sandbox::Image()); })) return Busy();
    return feed;
  }
  const bool posted = On(pulls_)([this, post = std::move(post), feed, make, image] {
    if (feed->is_unwanted()) return;
    const Image unpacked = images_.ResolveStrangers(image);
    if (!unpacked.ok()) return make(unpacked);
    if (!post([make, unpacked] { make(unpacked); })) feed->Set(Busy());
  });
  if (!posted) return Busy();
  return feed;
}

Answer Service::End(const std::string& id, const http::Reply& ended, const http::Reply& none,
                    std::function<void()> wake) {
  if (store_.Find(id) == nullptr) return none;  // it may have ended in the meantime
  const auto feed = std::make_shared<PostedFeed>(std::make_shared<sandbox::Cancellation>(), std::move(wake));
  if (!store_.Remove(id, [feed, ended] { feed->Set(ended); })) return none;
  return feed;
}

Answer Service::Execute(const std::string& body, std::function<void()> wake) {
  const auto request = ParseBody(body);
  if (!request.ok()) return ErrorReply(request.status());
  auto batch = ParseNewSandboxBatch(*request, substrate_->options().totals);
  if (!batch.ok()) return ErrorReply(batch.status());
  const auto shared = std::make_shared<const Batch>(*std::move(batch));
  const auto answer = [this, shared](const Image& image, const sandbox::Cancellation& cancel) {
    return image.ok() ? ReplyOf(RunInNewSandbox(*substrate_, *image, *shared, cancel)) : ErrorReply(image.status());
  };
  return Post(On(slots_), shared->image, answer, std::move(wake));
}

Answer Service::AddSession(const std::string& body, std::function<void()> wake) {
  const auto request = ParseObject(body);
  if (!request.ok()) return ErrorReply(request.status());
  const auto open = OpenRequestOf(*request, substrate_->options().totals);
  if (!open.ok()) return ErrorReply(open.status());
  const auto answer = [this, open = *open](const Image& image, const sandbox::Cancellation& cancel) {
    if (!image.ok()) return ErrorReply(image.status());
    OpenRequest with_image = open;
    with_image.unpacked = *image;
    const auto held = store_.Open(std::move(with_image), cancel);
    if (!held.ok()) return ErrorReply(held.status());
    http::Reply reply = JsonReply(200, object{{"id", (*held)->id}, {"folder", (*held)->session->folder()}});
    reply.unread = [this, id = (*held)->id] { store_.RemoveUnused(id); };
    return reply;
  };
  return Post(On(opens_), open->image, answer, std::move(wake));
}

Answer Service::OpenExecute(std::shared_ptr<HeldSession> held, const std::string& body, std::function<void()> wake) {
  const auto request = ParseBody(body);
  if (!request.ok()) return ErrorReply(request.status());
  const auto streams = FlagField(*request, "stream");
  if (!streams.ok()) return ErrorReply(streams.status());
  if (*streams) return StreamProgram(std::move(held), *request, std::move(wake));
  auto batch = ParseSessionBatch(*request);
  if (!batch.ok()) return ErrorReply(batch.status());
  const auto answer = [held, batch = std::make_shared<const Batch>(*std::move(batch))](
                          const Image&, const sandbox::Cancellation& cancel) {
    return ReplyOf(RunInSession(*held->session, *batch, cancel));
  };
  const Poster post = [&lane = held->batches](base::Task task) { return lane.TryPost(std::move(task)); };
  return Post(post, "", answer, std::move(wake));
}

http::Opening Service::OpenSession(const http::RequestHead& head, const std::string& rest) {
  const std::vector<std::string> parts = absl::StrSplit(rest, absl::MaxSplits('/', 2));
  const std::string id = parts[0], action = parts.size() > 1 ? parts[1] : "", &method = head.method;
  if (action.empty() && method == "GET") {
    return Quick([this, id](const std::string&) {
      const auto held = store_.Find(id);
      return held == nullptr ? NoSession() : JsonReply(200, Describe(*held));
    });
  }
  if (action.empty() && method == "DELETE") {
    const auto end = [this, id](const std::string&, std::function<void()> wake) {
      return End(id, JsonReply(200, object()), NoSession(), std::move(wake));
    };
    return Parts(On(quick_), end, kSmallBody);
  }
  const Poster post = OnSession([this, id] { return store_.Find(id); });
  if (action == "files" && parts.size() == 3 && (method == "GET" || method == "PUT" || method == "DELETE")) {
    const std::string path = PercentDecode(parts[2]);
    const auto open = [this, id, method, path](const std::string& body, std::function<void()> wake) -> Answer {
      auto held = store_.Find(id);
      if (held == nullptr) return NoSession();
      return AnswerFile(std::move(held), method, path, body, std::move(wake));
    };
    return Parts(post, open, kLargestBody);
  }
  if (method == "POST" && parts.size() == 2 && (action == "interrupt" || action == "restart")) {
    return Quick([this, id, action](const std::string&) {
      const auto held = store_.Find(id);
      if (held == nullptr) return NoSession();
      const auto interpreter = held->FindInterpreter("");
      action == "restart" ? interpreter->Restart() : interpreter->Interrupt();
      return JsonReply(200, object());
    });
  }
  if (method == "POST" && parts.size() == 2 && (action == "cells" || action == "execute")) {
    const bool is_cell = action == "cells";
    const auto open = [this, id, is_cell](const std::string& body, std::function<void()> wake) -> Answer {
      auto held = store_.Find(id);
      if (held == nullptr) return NoSession();
      if (is_cell) return RunCell(std::move(held), body, std::move(wake));
      return OpenExecute(std::move(held), body, std::move(wake));
    };
    return Parts(post, open, kLargestBody);
  }
  return {.exchange = nullptr,
          .rejection = ErrorReply(404, "not_found", absl::StrCat("a session has no ", method, " ", rest))};
}

}  // namespace ingot::execution
