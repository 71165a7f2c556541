#include "engines/external/workers.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/log.h"

namespace ingot::engines {

Workers::Workers(const EngineApi& api, const std::string& key, std::string url, const std::vector<std::string>& urls)
    : fleet_(!urls.empty()), url_(url) {
  for (const std::string& worker : fleet_ ? urls : std::vector<std::string>{std::move(url)}) {
    all_.push_back(std::make_unique<Worker>(api, key));
    all_.back()->control.set_url(worker);
  }
}

bool Workers::AnyReady() const {
  return std::any_of(all_.begin(), all_.end(), [](const auto& worker) { return worker->ready.load(); });
}

bool Workers::AnyJoined() const {
  return std::any_of(all_.begin(), all_.end(), [](const auto& worker) { return worker->ready && worker->joined; });
}

std::vector<Worker*> Workers::Members() const {
  std::vector<Worker*> joined, others, ready;
  for (const auto& worker : all_) {
    if (!worker->ready) continue;
    ready.push_back(worker.get());
    if (worker->joined) joined.push_back(worker.get());
    if (!worker->left_out) others.push_back(worker.get());
  }
  if (!joined.empty()) return joined;
  return others.empty() ? ready : others;
}

bool Workers::AllTried() const {
  const std::vector<Worker*> members = Members();
  return std::all_of(members.begin(), members.end(), [](const Worker* worker) { return worker->tried.load(); });
}

void Workers::SetJoined() {
  for (Worker* worker : Members()) {
    worker->joined = true;
    worker->left_out = false;
  }
}

std::vector<FailedWorker> Workers::Failing() const {
  if (!fleet_) return {};
  std::vector<FailedWorker> failing;
  const std::vector<Worker*> members = Members();
  for (Worker* worker : members) {
    if (!worker->last_call.ok()) failing.push_back({worker, worker->last_call});
  }
  return failing.size() == members.size() ? std::vector<FailedWorker>() : failing;
}

std::string Workers::url() const { return fleet_ ? url_ : single().control.url(); }

std::string Workers::name() const {
  if (!fleet_) return single().control.name();
  return absl::StrCat("the fleet at ", url_, " (", all_.size(), " workers)");
}

void Workers::Stop() {
  for (const auto& worker : all_) worker->control.Stop();
}

void Workers::Forget() {
  for (const auto& worker : all_) worker->Forget();
}

absl::Status Workers::DropGone(Worker& worker, const absl::Status& error) {
  if (worker.control.Health().ok()) return error;
  worker.Forget();
  INGOT_LOG(warn, "rollout: {} is gone, and the fleet's other workers continue: {}", worker.control.name(),
            std::string(error.message()));
  return absl::OkStatus();
}

absl::Status Workers::ForMembers(const std::function<absl::Status(Worker& worker)>& call) {
  if (!fleet_) return call(single());
  const std::vector<Worker*> members = Members();
  if (members.empty()) return absl::UnavailableError(absl::StrCat("no worker of ", name(), " responds"));
  std::vector<std::thread> threads;
  for (Worker* worker : members) {
    threads.emplace_back([this, &call, worker] {
      worker->last_call = call(*worker);
      if (!worker->last_call.ok()) worker->last_call = DropGone(*worker, worker->last_call);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Worker* worker : members) INGOT_RETURN_IF_ERROR(worker->last_call);
  // Other workers that are ready have not been called.
  const bool any =
      std::any_of(members.begin(), members.end(), [](const Worker* worker) { return worker->ready.load(); });
  return any ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("no worker of ", name(), " responds"));
}

}  // namespace ingot::engines
