#include "execution/store.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "execution/cancellations.h"

namespace ingot::execution {
namespace {

constexpr size_t kMaxInterpreters = 16;

// E2B clients expect their files here. A sandbox without its own root folder cannot have this folder.
constexpr char kHome[] = "/home/user";

}  // namespace

HeldSession::HeldSession(std::string id, OpenRequest request, std::shared_ptr<Session> session, Clock::time_point now)
    : id(std::move(id)),
      token(base::RandomHex(24)),
      request(std::move(request)),
      started_at(now),
      session(std::move(session)),
      used_(now) {}

std::shared_ptr<Interpreter> HeldSession::FindInterpreter(const std::string& name) {
  base::MutexLock lock(mu_);
  const auto found = interpreters_.find(name);
  if (found != interpreters_.end()) return found->second;
  if (!name.empty()) return nullptr;
  return interpreters_[""] = std::make_shared<Interpreter>(*session, "");
}

std::string HeldSession::AddInterpreter(const std::string& folder) {
  base::MutexLock lock(mu_);
  if (interpreters_.size() >= kMaxInterpreters) return "";
  const std::string name = base::RandomHex(16);
  interpreters_[name] = std::make_shared<Interpreter>(*session, folder);
  return name;
}

bool HeldSession::RemoveInterpreter(const std::string& name) {
  std::shared_ptr<Interpreter> removed;
  {
    base::MutexLock lock(mu_);
    const auto found = interpreters_.find(name);
    if (found == interpreters_.end()) return false;
    removed = std::move(found->second);
    interpreters_.erase(found);
  }
  removed->Restart();
  return true;
}

std::map<std::string, std::shared_ptr<Interpreter>> HeldSession::Interpreters() {
  base::MutexLock lock(mu_);
  return interpreters_;
}

HeldSession::Clock::time_point HeldSession::ends_at() {
  base::MutexLock lock(mu_);
  return ends_at_;
}

void HeldSession::SetEnd(Clock::time_point end) {
  base::MutexLock lock(mu_);
  ends_at_ = end;
}

void HeldSession::Use(Clock::time_point now) {
  base::MutexLock lock(mu_);
  used_ = now;
}

void SessionStore::Close() {
  for (const auto& held : List()) Remove(held->id);
  RemoveEnded();
  base::MutexLock lock(mu_);
  while (owned_ > 0) changed_.Wait(mu_);
}

HeldSession::Clock::time_point SessionStore::now() const {
  return HeldSession::Clock::time_point(std::chrono::nanoseconds(options_.clock->UnixNanos()));
}

absl::StatusOr<std::shared_ptr<HeldSession>> SessionStore::Open(OpenRequest request,
                                                                const sandbox::Cancellation& cancel) {
  RemoveEnded();
  if (request.totals.memory_bytes == 0) request.totals.memory_bytes = options_.session_bytes;
  if (request.idle.count() == 0) request.idle = options_.idle;
  if (request.lifetime.count() == 0 || request.lifetime > options_.longest) request.lifetime = options_.longest;
  const int64_t bytes = request.totals.memory_bytes;
  {
    base::MutexLock lock(mu_);
    if (sandboxes_ >= options_.sessions)
      return absl::ResourceExhaustedError(absl::StrCat(options_.sessions, " sessions are open: end one first"));
    if (options_.memory_bytes > 0 && promised_bytes_ + bytes > options_.memory_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("open sessions may use ", promised_bytes_, " of ", options_.memory_bytes,
                       " bytes of memory, but this one requests ", bytes, ": end one, or request less"));
    }
    ++sandboxes_;
    promised_bytes_ += bytes;
  }
  auto session = OpenSandbox(request, cancel);
  base::MutexLock lock(mu_);
  if (!session.ok()) {
    --sandboxes_;
    promised_bytes_ -= bytes;
    return session.status();
  }
  const auto held =
      Own(std::make_unique<HeldSession>(base::RandomHex(10), std::move(request), *std::move(session), now()));
  held->SetEnd(held->started_at + std::chrono::duration_cast<HeldSession::Clock::duration>(held->request.lifetime));
  held_[held->id] = held;
  return held;
}

// The last pointer may be dropped on the thread that serves all sockets or on one of the session's own threads.
std::shared_ptr<HeldSession> SessionStore::Own(std::unique_ptr<HeldSession> held) {
  ++owned_;
  return std::shared_ptr<HeldSession>(held.release(), [this](HeldSession* last) {
    ends_.Post([this, last] {
      delete last;
      base::MutexLock lock(mu_);
      --owned_;
      changed_.SignalAll();
    });
  });
}

absl::StatusOr<std::shared_ptr<Session>> SessionStore::OpenSandbox(const OpenRequest& request,
                                                                   const sandbox::Cancellation& cancel) {
  SessionOptions options;
  options.sandbox.image = request.unpacked.rootfs;
  options.sandbox.totals = request.totals;
  options.env = request.unpacked.env;
  for (const auto& [name, text] : request.env) options.env[name] = text;
  options.lifetime = options_.longest;
  options.timeout = options_.timeout;
  if (substrate_.probe_result().root_folder) {
    options.sandbox.binds = {{.folder = "work", .at = kHome}};
    options.folder = options.home = kHome;
  }
  INGOT_RETURN_IF_ERROR(CheckWanted(cancel));  // opening other sessions may have taken a long time
  INGOT_ASSIGN_OR_RETURN(auto session, Session::Open(substrate_, std::move(options)));
  INGOT_RETURN_IF_ERROR(CheckWanted(cancel));
  return session;
}

bool SessionStore::IsOver(const std::shared_ptr<HeldSession>& held) {
  const HeldSession::Clock::time_point moment = now();
  base::MutexLock lock(held->mu_);
  const bool is_idle =
      held->request.idle.count() > 0 && held->used_ + held->request.idle < moment && held.use_count() == 1;
  return is_idle || held->ends_at_ <= moment || held->session->has_ended();
}

std::shared_ptr<HeldSession> SessionStore::Find(const std::string& id) {
  {
    base::MutexLock lock(mu_);
    const auto found = held_.find(id);
    if (found == held_.end()) return nullptr;
    if (!IsOver(found->second)) {
      std::shared_ptr<HeldSession> held = found->second;
      base::MutexLock one(held->mu_);
      held->used_ = now();
      held->found_ = true;
      return std::shared_ptr<HeldSession>(held.get(), [this, held](HeldSession*) mutable {
        held->Use(now());
        held.reset();
      });
    }
  }
  Remove(id);
  return nullptr;
}

bool SessionStore::Remove(const std::string& id, std::function<void()> gone) {
  std::shared_ptr<HeldSession> removed;
  {
    base::MutexLock lock(mu_);
    const auto found = held_.find(id);
    if (found == held_.end()) return false;
    removed = std::move(found->second);
    held_.erase(found);
  }
  removed->session->End("the session was ended by its client, or it timed out");
  removed->session->WhenGone([this, bytes = removed->request.totals.memory_bytes, gone = std::move(gone)] {
    {
      base::MutexLock lock(mu_);
      --sandboxes_;
      promised_bytes_ -= bytes;
    }
    if (gone) gone();
  });
  return true;
}

void SessionStore::RemoveUnused(const std::string& id) {
  {
    base::MutexLock lock(mu_);
    const auto found = held_.find(id);
    if (found == held_.end()) return;
    base::MutexLock one(found->second->mu_);
    if (found->second->found_) return;
  }
  Remove(id);
}

void SessionStore::RemoveEnded() {
  std::vector<std::string> ended;
  {
    base::MutexLock lock(mu_);
    for (const auto& [id, held] : held_) {
      if (IsOver(held)) ended.push_back(id);
    }
  }
  for (const std::string& id : ended) Remove(id);
}

std::vector<std::shared_ptr<HeldSession>> SessionStore::List() {
  base::MutexLock lock(mu_);
  std::vector<std::shared_ptr<HeldSession>> list;
  for (const auto& [id, held] : held_) {
    if (!IsOver(held)) list.push_back(held);
  }
  return list;
}

}  // namespace ingot::execution
