#include "engines/workers.h"

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
  const bool joined = AnyJoined();
  std::vector<Worker*> members;
  for (const auto& worker : all_) {
    if (worker->ready && (worker->joined || !joined)) members.push_back(worker.get());
  }
  return members;
}

bool Workers::AllTried() const {
  const std::vector<Worker*> members = Members();
  return std::all_of(members.begin(), members.end(), [](const Worker* worker) { return worker->tried.load(); });
}

void Workers::SetJoined() {
  for (Worker* worker : Members()) worker->joined = true;
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
  for (const auto& worker : all_) worker->ready = worker->joined = worker->tried = false;
}

absl::Status Workers::DropGone(Worker& worker, const absl::Status& error) {
  if (worker.control.Health().ok()) return error;
  worker.ready = worker.joined = worker.tried = false;
  INGOT_LOG(warn, "rollout: {} is gone, and the fleet's other workers continue: {}", worker.control.name(),
            std::string(error.message()));
  return absl::OkStatus();
}

absl::Status Workers::ForMembers(const std::function<absl::Status(Worker& worker)>& call) {
  if (!fleet_) return call(single());
  const std::vector<Worker*> members = Members();
  if (members.empty()) return absl::UnavailableError(absl::StrCat("no worker of ", name(), " responds"));
  std::vector<absl::Status> ends(members.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < members.size(); ++i) {
    threads.emplace_back([this, &call, &end = ends[i], &worker = *members[i]] {
      end = call(worker);
      if (!end.ok()) end = DropGone(worker, end);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& end : ends) INGOT_RETURN_IF_ERROR(end);
  return AnyReady() ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("no worker of ", name(), " responds"));
}

}  // namespace ingot::engines
