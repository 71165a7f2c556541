#include "agents/mcp/mcp_bridge.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/random.h"
#include "http/client.h"
#include "http/server.h"
#include "http/site_check.h"

namespace ingot::agents {
namespace {

constexpr size_t kMaxWaiting = 256 * 1024;       // limit on unread stream bytes per request
constexpr size_t kMaxAnswer = size_t{64} << 20;  // limit in bytes on a response that is not a stream
constexpr std::chrono::milliseconds kConnect{10'000};
constexpr std::array kPassedOn = {"Accept", "Content-Type", "Mcp-Session-Id", "Mcp-Protocol-Version", "Last-Event-ID"};

http::Reply Problem(int status, const std::string& why) {
  const base::json::object body = {
      {"jsonrpc", "2.0"}, {"id", nullptr}, {"error", base::json::object{{"code", -32000}, {"message", why}}}};
  return {.status = status, .content_type = "application/json", .fields = {}, .body = base::PrintJson(body)};
}

// A sandbox's connection to one server.
struct Target {
  std::string url;
  std::map<std::string, std::string> headers;
  std::atomic<bool> closed{false};
  std::atomic<int> requests{0};
};

// A request forwarded to the server on its own thread. The thread and the connection share it.
class RepeatedExchange final : public http::Exchange, public std::enable_shared_from_this<RepeatedExchange> {
 public:
  RepeatedExchange(std::shared_ptr<Target> target, http::ClientRequest request,
                   std::function<bool(std::function<void()>)> post)
      : target_(std::move(target)), request_(std::move(request)), post_(std::move(post)) {}

  void Body(std::string body, std::function<void()> wake) override {
    body_ = std::move(body);
    wake_ = std::move(wake);
    if (post_([self = shared_from_this()] { self->Run(); })) return;
    {
      base::MutexLock lock(mu_);
      reply_ = Problem(503, "too many concurrent requests: try again later");
    }
    wake_();
  }

  http::Output Send() override {
    base::MutexLock lock(mu_);
    http::Output out;
    if (reply_.has_value()) {
      out.reply = std::exchange(reply_, std::nullopt);
      return out;
    }
    out.stream = std::exchange(stream_, std::nullopt);
    out.data = std::exchange(waiting_, {});
    out.done = is_stream_ && ended_;
    out.broken = out.done && cut_;
    read_.Signal();
    return out;
  }

  void Closed(http::Side) override {
    base::MutexLock lock(mu_);
    gone_ = true;
    read_.Signal();
  }

 private:
  bool IsOver() {
    base::MutexLock lock(mu_);
    return gone_ || target_->closed.load();
  }

  void Run() {
    request_.body = body_;
    request_.connect_timeout = kConnect;
    request_.uses_proxies = true;
    request_.on_head = [this](http::Answer head) { Begin(std::move(head)); };
    request_.on_bytes = [this](std::string_view bytes) { return Add(bytes); };
    request_.cancelled = [this] { return IsOver(); };
    const absl::Status sent = http::Client().Send(request_).status();
    if (!sent.ok() && !absl::IsCancelled(sent)) {
      INGOT_LOG(warn, "the MCP server at {} cannot be reached: {}", http::HostOfUrl(request_.url),
                std::string(sent.message()));
    }
    {
      base::MutexLock lock(mu_);
      ended_ = true;
      cut_ = !sent.ok();
      if (!is_stream_ && !reply_.has_value()) {
        // The sandbox sees the reply, so it must not contain the URL, which may contain a key.
        reply_ = sent.ok() ? Whole() : Problem(502, absl::StrCat("the MCP server cannot be reached: ", sent.message()));
      }
    }
    wake_();
  }

  void Begin(http::Answer head) {
    {
      base::MutexLock lock(mu_);
      head_ = std::move(head);
      const std::string& type = head_.headers["content-type"];
      is_stream_ = head_.status == 200 && type.starts_with("text/event-stream");
      if (!is_stream_) return;
      stream_ = http::StreamHead{.content_type = type, .fields = Session(), .filler = ":\n\n"};
    }
    wake_();
  }

  bool Add(std::string_view bytes) {
    {
      base::MutexLock lock(mu_);
      while (is_stream_ && !gone_ && waiting_.size() > kMaxWaiting) read_.Wait(mu_);
      if (gone_ || (!is_stream_ && waiting_.size() + bytes.size() > kMaxAnswer)) return false;
      waiting_ += bytes;
      if (!is_stream_) return true;
    }
    wake_();
    return true;
  }

  http::Fields Session() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto session = head_.headers.find("mcp-session-id");
    return session == head_.headers.end() ? http::Fields{} : http::Fields{{"Mcp-Session-Id", session->second}};
  }

  http::Reply Whole() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return {.status = head_.status,
            .content_type = head_.headers["content-type"],
            .fields = Session(),
            .body = std::exchange(waiting_, {})};
  }

  const std::shared_ptr<Target> target_;
  http::ClientRequest request_;
  std::string body_;
  const std::function<bool(std::function<void()>)> post_;
  std::function<void()> wake_;
  base::Mutex mu_;
  base::CondVar read_;  // signaled when the connection takes bytes or is closed
  http::Answer head_ ABSL_GUARDED_BY(mu_);
  std::optional<http::Reply> reply_ ABSL_GUARDED_BY(mu_);
  std::optional<http::StreamHead> stream_ ABSL_GUARDED_BY(mu_);
  std::string waiting_ ABSL_GUARDED_BY(mu_);
  bool is_stream_ ABSL_GUARDED_BY(mu_) = false, ended_ ABSL_GUARDED_BY(mu_) = false;
  bool cut_ ABSL_GUARDED_BY(mu_) = false, gone_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

class McpBridge::Impl final : public http::Handler {
 public:
  absl::Status Listen() {
    http::Options options;
    options.port = 0;
    INGOT_ASSIGN_OR_RETURN(server_, http::Server::Listen(options, *this));
    server_->Serve();
    return absl::OkStatus();
  }

  ~Impl() override {
    {
      base::MutexLock lock(mu_);
      for (const auto& [token, target] : targets_) target->closed = true;
    }
    if (server_ != nullptr) server_->Stop();
    base::MutexLock lock(mu_);
    while (threads_ > 0) ended_.Wait(mu_);
  }

  http::Opening Head(http::RequestHead head) override {
    std::shared_ptr<Target> target;
    {
      base::MutexLock lock(mu_);
      const std::string path = head.target.substr(0, head.target.find('?'));
      const auto found = path.empty() ? targets_.end() : targets_.find(path.substr(1));
      if (found != targets_.end()) target = found->second;
    }
    if (target == nullptr) return {.exchange = nullptr, .rejection = Problem(404, "no MCP server has this address")};
    if (head.method != "GET" && head.method != "POST" && head.method != "DELETE") {
      return {.exchange = nullptr, .rejection = Problem(405, "MCP knows GET, POST and DELETE")};
    }
    http::ClientRequest request{.url = target->url, .method = head.method};
    for (const char* const name : kPassedOn) {
      if (const std::string_view text = head.Find(name); !text.empty()) request.headers[name] = std::string(text);
    }
    for (const auto& [name, text] : target->headers) request.headers[name] = text;
    return {.exchange = std::make_shared<RepeatedExchange>(
                target, std::move(request),
                [this, target](std::function<void()> work) { return Post(target, std::move(work)); })};
  }

  absl::StatusOr<Way> Open(sandbox::Sandbox& sandbox, const std::string& url,
                           const std::map<std::string, std::string>& headers) {
    INGOT_ASSIGN_OR_RETURN(sandbox::Fd listener, sandbox.NewSocket());
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        listen(listener.get(), SOMAXCONN) != 0 ||
        getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      return sandbox::ErrnoStatus(errno, "cannot listen inside the sandbox");
    }
    INGOT_ASSIGN_OR_RETURN(std::shared_ptr<void> accepts, server_->AcceptOn(listener.Release()));
    const auto target = std::make_shared<Target>();
    target->url = url;
    target->headers = headers;
    const std::string token = base::RandomHex(16);
    base::MutexLock lock(mu_);
    targets_[token] = target;
    return Way{.url = absl::StrCat("http://127.0.0.1:", ntohs(address.sin_port), "/", token),
               .open = std::shared_ptr<void>(nullptr, [this, token, target, accepts](void*) {
                 target->closed = true;
                 base::MutexLock lock_of_close(mu_);
                 targets_.erase(token);
               })};
  }

 private:
  // Runs the work on a thread. Returns false if too many requests to this target are running.
  bool Post(const std::shared_ptr<Target>& target, std::function<void()> work) {
    if (target->requests.fetch_add(1) >= kMaxRequests) {
      target->requests.fetch_sub(1);
      return false;
    }
    {
      base::MutexLock lock(mu_);
      ++threads_;
    }
    std::thread([this, target, work = std::move(work)]() mutable {
      work();
      work = nullptr;
      target->requests.fetch_sub(1);
      base::MutexLock lock(mu_);
      --threads_;
      ended_.SignalAll();
    }).detach();
    return true;
  }

  base::Mutex mu_;
  base::CondVar ended_;
  int threads_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, std::shared_ptr<Target>> targets_ ABSL_GUARDED_BY(mu_);  // by token
  std::unique_ptr<http::Server> server_;
};

McpBridge::McpBridge(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
McpBridge::~McpBridge() = default;

absl::StatusOr<std::unique_ptr<McpBridge>> McpBridge::Make() {
  auto impl = std::make_unique<Impl>();
  INGOT_RETURN_IF_ERROR(base::Annotate(impl->Listen(), "the MCP bridge"));
  return std::unique_ptr<McpBridge>(new McpBridge(std::move(impl)));
}

absl::StatusOr<McpBridge::Way> McpBridge::Open(sandbox::Sandbox& sandbox, const std::string& url,
                                               const std::map<std::string, std::string>& headers) {
  return impl_->Open(sandbox, url, headers);
}

}  // namespace ingot::agents
