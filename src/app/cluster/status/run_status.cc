#include "app/cluster/status/run_status.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "app/cluster/role_addresses.h"
#include "app/run/persist.h"
#include "app/run/uncalled_episodes.h"
#include "base/executor.h"
#include "base/log.h"
#include "datapool/grpc_client.h"
#include "proto/gateway.grpc.pb.h"
#include "proto/grpc_status.h"
#include "proto/reward.grpc.pb.h"
#include "rollout/grpc_client.h"
#include "scheduler/grpc_client.h"

namespace ingot::app {
namespace {

// Queries the status of a service.
template <typename Service, typename Request, typename Response>
absl::StatusOr<Response> StatusOf(const std::string& address, const RpcAccess& access) {
  const auto stub = Service::NewStub(Connect(address, access));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kRoleAnswersWithin);
  Response response;
  INGOT_RETURN_IF_ERROR(v1::FromGrpc(stub->Status(&context, Request(), &response)));
  return response;
}

std::string Describe(const v1::PoolStatusResponse& s) {
  return fmt::format("{} episodes, {} calls, {} tokens stored ({} recorded), journal {}", s.episodes(), s.calls(),
                     s.segment_tokens(), s.recorded_tokens(), s.journal_end());
}

std::string Describe(const v1::SchedulerStatusResponse& s) {
  return fmt::format("step {}{}, groups {}/{} from {}, {} episodes running, {} dropped, {} failed", s.next_step(),
                     s.finished() ? " (all fed)" : "", s.stats().admitted_unreleased(), s.stats().budget(),
                     s.stats().head(), s.stats().running_episodes(), s.stats().dropped(), s.stats().failed());
}

std::string Describe(const v1::RewardsStatusResponse& s) {
  return fmt::format("{} groups scored, {} being scored", s.judged(), s.judging());
}

// Returns how many drafted ids were sampled, or "" if no drafts were verified.
std::string DescribeDrafts(const v1::EngineStatusResponse& s) {
  std::string text;
  for (const v1::DrafterStatus& drafter : s.drafters()) {
    if (drafter.failures() > 0) text += fmt::format(", the draft head failed {} times", drafter.failures());
    if (drafter.drafted() == 0) continue;
    const char* how = drafter.name() == "shadow" ? "would be accepted" : "accepted";
    text += fmt::format(", {} {}/{} drafts {}", drafter.name(), drafter.accepted(), drafter.drafted(), how);
  }
  if (text.empty() || s.sampling_passes() == 0) return text;
  return text + fmt::format(", {:.2f} tokens per pass",
                            static_cast<double>(s.sampled_tokens()) / static_cast<double>(s.sampling_passes()));
}

// Returns the engine's use of its KV store, or "" if it has none.
std::string DescribeStore(const v1::EngineStatusResponse& s) {
  if (!s.has_kv_store()) return "";
  const v1::KvStoreStatus& store = s.kv_store();
  std::string text = fmt::format(", KV store {:.1f} MB, {} tokens read, {} chunks written",
                                 static_cast<double>(store.bytes()) * 1e-6, store.fetched_tokens(), store.put_chunks());
  if (store.corrupt() > 0) text += fmt::format(", {} corrupt", store.corrupt());
  if (s.prefill_requests() > 0) text += fmt::format(", {} prompts computed for other engines", s.prefill_requests());
  return text;
}

// Returns the servers that sample for the engine, and what their last verification found, or "".
std::string DescribeServers(const v1::EngineStatusResponse& s) {
  std::string text;
  for (const v1::ServerStatus& server : s.servers()) {
    text += fmt::format(", {} at {}", server.name(), server.url());
    if (server.verified() > 0) text += fmt::format(" (log-probs verified: {:.1e} apart)", server.verify_diff_mean());
    if (server.refused() > 0) text += fmt::format(", {} loads refused", server.refused());
    if (server.restarts() > 0) text += fmt::format(", {} restarts", server.restarts());
  }
  return text;
}

std::string Describe(const v1::EngineStatusResponse& s) {
  const std::string version = s.version() < 0 ? "no version yet" : absl::StrCat("version ", s.version());
  const std::string prefill = DescribePrefill(s);
  return fmt::format("{}, {} running, {} waiting, KV {}/{} blocks, {} tokens sampled, busy {:.0f}%{}{}{}{}{}", version,
                     s.running(), s.waiting(), s.kv_blocks_used(), s.kv_blocks_total(), s.sampled_tokens(),
                     100 * s.busy_seconds() / std::max(s.alive_seconds(), 1e-9), prefill.empty() ? "" : ", ", prefill,
                     DescribeDrafts(s), DescribeStore(s), DescribeServers(s));
}

std::string Describe(const v1::GatewayStatusResponse& s) {
  int64_t forks = 0;
  for (const auto& [cause, count] : s.forks()) forks += count;
  const std::string uncalled = DescribeUncalled(s);
  return fmt::format("{} open episodes, {} calls ({} active, {} spliced, {} forks){}{}", s.open_episodes(), s.calls(),
                     s.active_calls(), s.spliced_calls(), forks, uncalled.empty() ? "" : "; ", uncalled);
}

// A role and how to query it at an address.
struct Question {
  std::string name;
  std::function<absl::StatusOr<std::string>(const std::string& address)> ask;
};

template <typename Ask>
Question MakeQuestion(std::string name, Ask ask) {
  return {std::move(name), [ask](const std::string& address) -> absl::StatusOr<std::string> {
            INGOT_ASSIGN_OR_RETURN(const auto status, ask(address));
            return Describe(status);
          }};
}

std::vector<Question> QuestionsOf(const std::vector<RolePlace>& places, const ClusterOptions& cluster,
                                  const RpcAccess& access) {
  std::vector<Question> questions;
  const auto add = [&](const std::string& name, auto ask) { questions.push_back(MakeQuestion(name, ask)); };
  const auto ask_engine = [&access](const std::string& at) {
    const auto within = static_cast<int64_t>(kRoleAnswersWithin.count());
    return rollout::NewGrpcClient(Connect(at, access), {.status_deadline_ms = within})->Status();
  };
  for (int i = 0; i < cluster.datapools; ++i) {
    add(RoleName("datapool", i), [&access](const std::string& at) {
      return datapool::NewGrpcClient(Connect(at, access), kRoleAnswersWithin)->Status();
    });
  }
  if (cluster.rewards_role) {
    add("rewards", [&access](const std::string& at) {
      return StatusOf<v1::Rewards, v1::RewardsStatusRequest, v1::RewardsStatusResponse>(at, access);
    });
  }
  add("scheduler", [&access](const std::string& at) {
    return scheduler::NewGrpcClient(Connect(at, access), kRoleAnswersWithin)->Status();
  });
  for (int i = 0; i < cluster.rollout_engines; ++i) add(RoleName("rollout", i), ask_engine);
  for (const RolePlace& place : places) {
    if (EngineNumber(place.name).value_or(0) >= cluster.rollout_engines) add(place.name, ask_engine);
  }
  for (int i = 0; i < cluster.gateways; ++i) {
    add(RoleName("gateway", i), [&access](const std::string& at) {
      return StatusOf<v1::Gateway, v1::GatewayStatusRequest, v1::GatewayStatusResponse>(at, access);
    });
  }
  return questions;
}

}  // namespace

std::vector<RoleStatus> AskRoles(const absl::StatusOr<std::vector<RolePlace>>& places, const std::string& registry,
                                 const ClusterOptions& cluster, const RpcAccess& access) {
  constexpr int kMaxAtOnce = 64;
  const std::vector<RolePlace> known = places.ok() ? *places : std::vector<RolePlace>();
  const absl::Status missing =
      places.ok() ? absl::UnavailableError(absl::StrCat("not registered in ", registry)) : places.status();
  const std::vector<Question> questions = QuestionsOf(known, cluster, access);
  std::vector<RoleStatus> roles(questions.size());
  base::Executor threads({.name = "ask", .threads = std::min(static_cast<int>(questions.size()), kMaxAtOnce)});
  for (size_t i = 0; i < questions.size(); ++i) {
    const auto is_it = [&](const RolePlace& place) { return place.name == questions[i].name; };
    const auto place = std::find_if(known.begin(), known.end(), is_it);
    if (place == known.end()) {
      roles[i] = {.name = questions[i].name, .address = "-", .state = missing};
      continue;
    }
    threads.Post([&role = roles[i], &question = questions[i], &place = *place] {
      role = {.name = place.name,
              .address = place.address,
              .state = question.ask(place.address),
              .waits = place.waits,
              .computes = {},
              .pid = place.pid};
    });
  }
  threads.Shutdown();
  return roles;
}

std::vector<RoleStatus> AskNodes(RunRegistry& registry, const std::vector<NodeGroup>& groups) {
  std::vector<RoleStatus> statuses;
  if (groups.empty()) return statuses;
  const absl::StatusOr<std::vector<NodePlace>> places = registry.Nodes();
  for (const NodeGroup& group : groups) {
    for (int i = 0; i < group.nodes; ++i) {
      const std::string name = absl::StrCat(group.name, "-", i);
      const auto is_it = [&](const NodePlace& place) { return place.name == name; };
      const auto found =
          places.ok() ? std::find_if(places->begin(), places->end(), is_it) : decltype(places->begin())();
      if (!places.ok()) {
        statuses.push_back({name, "-", places.status()});
      } else if (found == places->end()) {
        statuses.push_back({name, "-", absl::UnavailableError("no agent of this node is registered")});
      } else {
        statuses.push_back({name, found->machine, "runs " + found->roles});
      }
    }
  }
  return statuses;
}

}  // namespace ingot::app
