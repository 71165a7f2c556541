#include "execution/store.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "execution/cancellations.h"

namespace ingot::execution {
namespace {

constexpr size_t kMostInterpreters = 16;

// Where E2B's clients expect their files. Without a root folder of its own a room cannot have it.
constexpr char kHome[] = "/home/user";

}  // namespace

Held::Held(std::string id, OpenRequest request, std::shared_ptr<Session> session)
    : id(std::move(id)), token(base::RandomHex(24)), request(std::move(request)), session(std::move(session)) {}

std::shared_ptr<Interpreter> Held::FindInterpreter(const std::string& name) {
  base::MutexLock lock(mu_);
  const auto found = interpreters_.find(name);
  if (found != interpreters_.end()) return found->second;
  if (!name.empty()) return nullptr;
  return interpreters_[""] = std::make_shared<Interpreter>(*session, "");
}

std::string Held::AddInterpreter(const std::string& folder) {
  base::MutexLock lock(mu_);
  if (interpreters_.size() >= kMostInterpreters) return "";
  const std::string name = base::RandomHex(16);
  interpreters_[name] = std::make_shared<Interpreter>(*session, folder);
  return name;
}

bool Held::RemoveInterpreter(const std::string& name) {
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

std::map<std::string, std::shared_ptr<Interpreter>> Held::Interpreters() {
  base::MutexLock lock(mu_);
  return interpreters_;
}

Held::Clock::time_point Held::ends_at() {
  base::MutexLock lock(mu_);
  return ends_at_;
}

void Held::SetEnd(Clock::time_point end) {
  base::MutexLock lock(mu_);
  ends_at_ = end;
}

void Held::Use() {
  base::MutexLock lock(mu_);
  used_ = Clock::now();
}

absl::StatusOr<std::shared_ptr<Held>> SessionStore::Open(OpenRequest request, const sandbox::Cancellation& cancel) {
  RemoveEnded();
  if (request.totals.memory_bytes == 0) request.totals.memory_bytes = options_.session_bytes;
  if (request.idle.count() == 0) request.idle = options_.idle;
  if (request.lifetime.count() == 0 || request.lifetime > options_.longest) request.lifetime = options_.longest;
  const int64_t bytes = request.totals.memory_bytes;
  {
    base::MutexLock lock(mu_);
    if (std::ssize(held_) + opening_ >= options_.sessions)
      return absl::ResourceExhaustedError(absl::StrCat(options_.sessions, " sessions are open: end one first"));
    if (options_.memory_bytes > 0 && promised_bytes_ + bytes > options_.memory_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("open sessions may use ", promised_bytes_, " of ", options_.memory_bytes,
                       " bytes of memory, and this one asks for ", bytes, ": end one, or ask for less"));
    }
    ++opening_;
    promised_bytes_ += bytes;
  }
  auto session = OpenRoom(request, cancel);
  base::MutexLock lock(mu_);
  --opening_;
  if (!session.ok()) {
    promised_bytes_ -= bytes;
    return session.status();
  }
  const auto held = std::make_shared<Held>(base::RandomHex(10), std::move(request), *std::move(session));
  held->SetEnd(held->started_at + std::chrono::duration_cast<Held::Clock::duration>(held->request.lifetime));
  held->Use();
  held_[held->id] = held;
  return held;
}

absl::StatusOr<std::shared_ptr<Session>> SessionStore::OpenRoom(const OpenRequest& request,
                                                                const sandbox::Cancellation& cancel) {
  sandbox::Image image;
  if (!request.image.empty()) {
    INGOT_ASSIGN_OR_RETURN(image, images_.ResolveStrangers(request.image));
  }
  SessionOptions options;
  options.room.image = image.rootfs;
  options.room.totals = request.totals;
  options.env = image.env;
  for (const auto& [name, text] : request.env) options.env[name] = text;
  options.lifetime = options_.longest;
  if (substrate_.grant().root_folder) {
    options.room.binds = {{.folder = "work", .at = kHome}};
    options.folder = options.home = kHome;
  }
  INGOT_RETURN_IF_ERROR(CheckWanted(cancel));  // an image may take long to pull
  INGOT_ASSIGN_OR_RETURN(auto session, Session::Open(substrate_, std::move(options)));
  INGOT_RETURN_IF_ERROR(CheckWanted(cancel));
  return session;
}

std::shared_ptr<Held> SessionStore::Find(const std::string& id) {
  base::MutexLock lock(mu_);
  const auto found = held_.find(id);
  if (found == held_.end() || found->second->session->has_ended()) return nullptr;
  const std::shared_ptr<Held> held = found->second;
  held->Use();
  return std::shared_ptr<Held>(held.get(), [this, held](Held*) mutable { LetGo(std::move(held)); });
}

void SessionStore::LetGo(std::shared_ptr<Held> held) {
  held->Use();
  {
    base::MutexLock lock(mu_);
    if (held_.contains(held->id)) return held.reset();  // the store's own pointer is left
  }
  // The last pointer's end waits for the room, and here may be a thread that serves all sockets.
  ends_.Post([held = std::move(held)]() mutable { held.reset(); });
}

bool SessionStore::Remove(const std::string& id) {
  std::shared_ptr<Held> removed;
  {
    base::MutexLock lock(mu_);
    const auto found = held_.find(id);
    if (found == held_.end()) return false;
    removed = std::move(found->second);
    held_.erase(found);
    promised_bytes_ -= removed->request.totals.memory_bytes;
  }
  removed->session->End("the session was ended by its client, or its time was over");
  return true;
}

void SessionStore::RemoveEnded() {
  const Held::Clock::time_point now = Held::Clock::now();
  std::vector<std::string> ended;
  {
    base::MutexLock lock(mu_);
    for (const auto& [id, held] : held_) {
      base::MutexLock one(held->mu_);
      const bool is_idle =
          held->request.idle.count() > 0 && held->used_ + held->request.idle < now && held.use_count() == 1;
      if (is_idle || held->ends_at_ <= now || held->session->has_ended()) ended.push_back(id);
    }
  }
  for (const std::string& id : ended) Remove(id);
}

std::vector<std::shared_ptr<Held>> SessionStore::List() {
  base::MutexLock lock(mu_);
  std::vector<std::shared_ptr<Held>> list;
  for (const auto& [id, held] : held_) {
    if (!held->session->has_ended()) list.push_back(held);
  }
  return list;
}

}  // namespace ingot::execution
