#include "view/page.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "view/bundle.h"
#include "view/query.h"

namespace ingot::view {
namespace {

constexpr int kNice = 10;
constexpr char kEndPath[] = "/api/end_uncalled";

// Headers for every response. The page runs only its own script, and other pages must not frame it.
http::Fields Guarded() {
  return {{"Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
           "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cache-Control", "no-store"}};
}

http::Reply PlainText(int status, std::string body) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .fields = Guarded(), .body = std::move(body)};
}

int HttpStatusOf(const absl::Status& status) {
  if (absl::IsNotFound(status)) return 404;
  if (absl::IsInvalidArgument(status)) return 400;
  // Not 401, which would mean that the page itself needs a key.
  if (absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status)) return 403;
  if (absl::IsFailedPrecondition(status)) return 409;
  return 503;
}

http::Reply ReplyOf(absl::StatusOr<std::string> answer) {
  if (answer.ok()) return {.content_type = "application/json", .fields = Guarded(), .body = *std::move(answer)};
  const base::json::object error{{"error", std::string(answer.status().message())}};
  return {.status = HttpStatusOf(answer.status()), .fields = Guarded(), .body = base::PrintJson(error)};
}

http::Reply FileReply(std::string_view path) {
  const std::span<const BundleFile> files = Bundle();
  const auto found =
      std::find_if(files.begin(), files.end(), [&](const BundleFile& file) { return file.path == path; });
  if (found != files.end()) {
    return {.status = 200,
            .content_type = std::string(found->content_type),
            .fields = Guarded(),
            .body = std::string(found->bytes)};
  }
  if (path == "/" && files.empty()) {
    return PlainText(200,
                     "This ingot was built without npm and has no page. Install nodejs and npm and build again. The "
                     "paths under /api, such as /api/run, still work.\n");
  }
  return PlainText(404, "page not found\n");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Page>> Page::Start(http::Options options, std::string key, RunSource source) {
  return Start(std::move(options), std::move(key), std::make_unique<RunView>(std::move(source)));
}

absl::StatusOr<std::unique_ptr<Page>> Page::Start(http::Options options, std::string key,
                                                  std::unique_ptr<Answers> answers) {
  options.max_connections = 128;
  options.max_body_bytes = options.max_buffered_bytes = 4096;
  options.io_threads = 1;
  options.shutdown_grace_s = 0.5;
  auto page = std::unique_ptr<Page>(new Page(!options.tls_certificate.empty(), std::move(key), std::move(answers)));
  INGOT_ASSIGN_OR_RETURN(page->server_, http::Server::Listen(options, *page));
  page->server_->Serve();
  return page;
}

std::string Page::NewLink() { return absl::StrCat(server_->url(), "/?token=", access_.NewToken()); }

http::Work Page::OnThread(std::function<absl::StatusOr<std::string>()> answer) {
  return {.post =
              [this](std::function<void()> job) {
                return thread_
                    .TryPost([job = std::move(job)] {
                      thread_local const int lowered =
                          setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
                      static_cast<void>(lowered);
                      job();
                    })
                    .ok();
              },
          .answer = [answer = std::move(answer)](const std::string&) { return ReplyOf(answer()); },
          .busy = [] { return PlainText(503, "too many requests are waiting; try again\n"); },
          .skip_if_gone = true};
}

http::Opening Page::Head(http::RequestHead head) {
  const std::string target(std::string_view(head.target).substr(0, head.target.find('#')));
  const std::string path = target.substr(0, target.find('?'));
  const bool reads = head.method == "GET" || head.method == "HEAD";
  if (reads && path == "/" && access_.Redeem(Query::Of(target).Text("token"))) {
    http::Reply reply = PlainText(303, "");
    reply.fields.emplace_back("Location", "/");
    reply.fields.emplace_back("Set-Cookie", access_.Cookie(secure_));
    return {.rejection = std::move(reply)};
  }
  if (!access_.Allows(head)) {
    http::Reply reply = PlainText(401,
                                  "This page needs a key. Open the link that the run printed. Each link works only "
                                  "once; `ingot view RUN` prints a new link.\n");
    reply.fields.emplace_back("WWW-Authenticate", "Bearer");
    return {.rejection = std::move(reply)};
  }
  if (head.method == "POST" && path == kEndPath) {
    return {.exchange = http::MakeExchange(
                OnThread([this, target, key = head.Key()] { return answers_->EndUncalled(target, key); }))};
  }
  if (!reads) {
    http::Reply reply = PlainText(405, "this page accepts only GET and HEAD\n");
    reply.fields.emplace_back("Allow", "GET, HEAD");
    return {.rejection = std::move(reply)};
  }
  if (path.starts_with("/api/"))
    return {.exchange = http::MakeExchange(OnThread([this, target] { return answers_->Answer(target); }))};
  return {.exchange = http::MakeExchange([path](const std::string&) { return FileReply(path); })};
}

}  // namespace ingot::view
