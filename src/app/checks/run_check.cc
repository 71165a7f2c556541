#include "app/checks/run_check.h"

#include <utility>

#include "app/checks/custom_loss_check.h"
#include "app/checks/machine_check.h"
#include "app/checks/model_keys.h"
#include "app/checks/nodes_check.h"
#include "app/checks/supervised_examples.h"
#include "app/run/threads.h"
#include "engines/server/server_process.h"
#include "kv/file_store.h"
#include "kv/memory_store.h"
#include "rollout/engine/torch_runner.h"
#include "trainer/run_memory.h"

namespace ingot::app {
namespace {

// Returns true if the keys describe a single process, like `ingot train`.
bool IsForOneProcess(const ClusterOptions& cluster) {
  return cluster.trainer_ranks == 1 && cluster.launcher == LauncherKind::kLocal && cluster.groups.empty();
}

// Returns true if `ingot launch` starts every role on this machine.
bool RunsAllHere(const ClusterOptions& cluster) {
  return cluster.launcher == LauncherKind::kLocal && NodesOf(cluster) < 2;
}

// Returns OK if the rollout roles could start their server here. Other machines have their own programs.
absl::Status CheckExternalServer(const RunConfig& config) {
  if (!config.has_external_engine() || !config.external.url.empty()) return absl::OkStatus();
  return engines::CheckServerCommand(engines::CommandOf(config.engine, config.external));
}

// Creates the store's directory if it does not exist, as its first engine would.
absl::Status CheckKvStore(const RunConfig& config) {
  const kv::Options& store = config.rollout.kv_store;
  return store.on() && !kv::IsInMemory(store) ? kv::FileStore::Open(store).status() : absl::OkStatus();
}

// Checks what this machine needs. A launcher that submits jobs needs little, but its keys are checked.
absl::Status CheckHere(const RunConfig& config, bool train, RunCheck& check) {
  RunConfig here = config;
  if (train) here.cluster.groups.clear();
  INGOT_ASSIGN_OR_RETURN(check.notes, CheckMachine(here));
  if (train || RunsAllHere(config.cluster)) {
    INGOT_RETURN_IF_ERROR(CheckExternalServer(config));
    INGOT_RETURN_IF_ERROR(CheckKvStore(config));
  }
  if (train) {
    INGOT_ASSIGN_OR_RETURN(check.device, OpenDevice(config.device));
    return absl::OkStatus();
  }
  return RunsAllHere(config.cluster) ? CheckThreads(ThreadsOfLaunch(config)) : absl::OkStatus();
}

// Returns OK if the single process of the run fits in this machine's or its GPU's memory. Runs before the weights and
// the cache are allocated, because they may use all of it.
absl::Status CheckOneProcessFits(const RunConfig& config, RunCheck& check) {
  const ModelSetup& model = check.model;
  if (check.device.torch_name != "cpu") {
    INGOT_ASSIGN_OR_RETURN(GpuPlan plan, PlanOnDevice(config, model.shape, check.device));
    check.plans.push_back(std::move(plan));
    return absl::OkStatus();
  }
  INGOT_RETURN_IF_ERROR(trainer::CheckFits(config.trainer, model.shape, at::Device(model.device)));
  return config.tasks.empty() ? absl::OkStatus() : rollout::CheckCacheFits(model.shape, config.rollout, model.device);
}

}  // namespace

absl::StatusOr<RunCheck> CheckRun(const RunConfig& config, RequestedBy requested_by,
                                  const std::optional<GpuMachine>& gpus) {
  const bool asked = requested_by == RequestedBy::kConfigCheck;
  const bool train = requested_by == RequestedBy::kTrain || (asked && IsForOneProcess(config.cluster));
  RunCheck check;
  if (gpus.has_value()) {
    INGOT_ASSIGN_OR_RETURN(check.notes, CheckOtherMachine(config));
  } else if (requested_by != RequestedBy::kDryRun) {
    INGOT_RETURN_IF_ERROR(CheckHere(config, train, check));
  }
  INGOT_ASSIGN_OR_RETURN(check.model, SetUpModel(config.model, check.device.torch_name));
  INGOT_RETURN_IF_ERROR(CheckModelKeys(config, check.model.shape));
  if (gpus.has_value()) {
    INGOT_ASSIGN_OR_RETURN(check.plans, PlanOnGpus(config, check.model.shape, *gpus, train));
    std::string shared = train ? "" : NoteOfSharedGpus(config, *gpus);
    if (!shared.empty()) check.notes.push_back(std::move(shared));
  }
  INGOT_ASSIGN_OR_RETURN(check.start, CheckStart(config, check.model.text, check.model.shape.max_position_embeddings));
  INGOT_RETURN_IF_ERROR(ReadSupervisedExamples(config, check.model.text, check.model.shape).status());
  if (requested_by != RequestedBy::kDryRun) {
    INGOT_ASSIGN_OR_RETURN(check.loss_graph, CheckCustomLoss(config));
  }
  if (train) {
    if (!gpus.has_value()) INGOT_RETURN_IF_ERROR(CheckOneProcessFits(config, check));
    return check;
  }
  INGOT_RETURN_IF_ERROR(CheckNodes(config));
  if (!asked && config.cluster.launcher == LauncherKind::kLocal) INGOT_RETURN_IF_ERROR(CheckLaunchedHere(config));
  // A launcher checks this again after an earlier launcher of the run has ended.
  if (asked && !gpus.has_value() && RunsAllHere(config.cluster)) {
    INGOT_RETURN_IF_ERROR(CheckHeldHere(config, check.model.shape, AllRoles(config), "this machine"));
  }
  for (std::string& note : NotesOfNodes(config)) check.notes.push_back(std::move(note));
  return check;
}

}  // namespace ingot::app
