// Attacks of an agent (attack.py) on the process that owns it, on its neighbours and on the run, in each strength of the
// rung `process` that this machine grants: as root with a uid per room, and as a user who is not root. Each attack is
// contained where the grant says so. The rest is printed as open; docs/sandbox.md has the table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "base/random.h"
#include "sandbox/marked_processes.h"
#include "sandbox/test_room.h"

namespace ingot::sandbox {
namespace {

constexpr uid_t kNobody = 65534;

// Whether the grant promises to contain an attack.
bool Promised(const std::string& attack, const Grant& grant) {
  const bool apart = grant.own_uid || grant.pid_namespace;  // other processes are out of reach
  static const std::set<std::string> always = {
      "parent_memory",    "parent_environ", "owner_memory", "owner_environ", "owner_maps", "owner_descriptors",
      "owner_descriptor", "owner_ptrace",   "owner_readv",  "descriptors",   "daemons",    "capabilities"};
  if (always.contains(attack)) return true;
  if (attack.starts_with("tasks_") || attack == "runs_read") return grant.mount_namespace;
  if (attack.starts_with("runs_") || attack == "sibling_folder" || attack == "sibling_write") {
    return grant.own_uid || grant.mount_namespace;
  }
  if (attack == "sibling_environ" || attack == "sibling_memory") return grant.own_uid || grant.private_proc;
  return apart;
}

// The victims: a substrate with a sibling in another room, tasks and a run.
class Scene {
 public:
  explicit Scene(uint32_t refused) {
    prctl(PR_SET_DUMPABLE, 0);  // as every process of Ingot that holds keys
    runs_ = folder_.path() + "/runs";
    std::filesystem::create_directories(runs_ + "/run");
    std::ofstream(runs_ + "/run/metrics.jsonl") << "record";
    tasks_ = folder_.path() + "/tasks.jsonl";
    std::ofstream(tasks_) << "secret answer";
    SubstrateOptions options;
    options.work_root = folder_.path() + "/work";
    options.hidden = {runs_, tasks_};
    auto made = ProcessSubstrate::Make(options, refused);
    if (!made.ok()) std::printf("%s\n", made.status().ToString().c_str());
    substrate_ = made.ok() ? *std::move(made) : nullptr;
  }
  ~Scene() {
    cancel_.Cancel();
    if (neighbour_.joinable()) neighbour_.join();
  }

  ProcessSubstrate* substrate() { return substrate_.get(); }
  const Grant& grant() const { return substrate_->grant(); }

  // Starts the sibling. False: it does not run.
  bool Begin() {
    auto room = substrate_->Prepare();
    if (!room.ok()) return false;
    sibling_ = *std::move(room);
    if (!sibling_->WriteFile("file", "sibling's file").ok()) return false;
    neighbour_ = std::thread([this] {
      Command command{.argv = {"sleep", sibling_mark_.sleep()},
                      .env = {{"PATH", "/usr/bin:/bin"}, {"KEY", "sibling's key"}},
                      .working_dir = sibling_->work(),
                      .stdin_text = ""};
      Limits limits;
      limits.wall_time = std::chrono::seconds(600);
      (void)sibling_->Run(command, limits, &cancel_);
    });
    return sibling_mark_.Await(1);
  }

  absl::StatusOr<Outcome> Attack(const std::string& name) {
    INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<Room> room, substrate_->Prepare());
    std::ostringstream script;
    script << std::ifstream(INGOT_SOURCE_DIR "/tests/sandbox/attacks/attack.py").rdbuf();
    INGOT_RETURN_IF_ERROR(room->WriteFile("attack.py", script.str()));
    Command command{.argv = {"python3", "attack.py", name},
                    .env = {{"PATH", "/usr/bin:/bin"},
                            {"OWNER", std::to_string(getpid())},
                            {"SIBLING", std::to_string(sibling_mark_.Any())},
                            {"SIBLING_WORK", sibling_->work()},
                            {"TASKS", tasks_},
                            {"RUNS", runs_},
                            {"NONCE", nonce_},
                            {"SLEEP", left_.sleep()}},
                    .working_dir = room->work(),
                    .stdin_text = ""};
    Limits limits;
    limits.wall_time = std::chrono::seconds(60);
    return room->Run(command, limits, nullptr);
  }

  // The harm that is seen from outside after an attack, and mends it for the next one; empty = none.
  std::string Harm() const {
    std::string harm;
    if (left_.Count() != 0) harm = "it left processes behind";
    if (sibling_mark_.Count() != 1) harm = "the sibling is gone";
    if (std::filesystem::exists(runs_ + "/taken")) {
      harm = "the run's folder was renamed";
      std::filesystem::rename(runs_ + "/taken", runs_ + "/run");
    }
    for (const std::string& folder : {runs_ + "/run", sibling_->work()}) {
      if (std::filesystem::remove(folder + "/planted-" + nonce_)) harm = "it wrote into " + folder;
    }
    return harm;
  }

 private:
  const TestFolder folder_;
  const MarkedProcesses sibling_mark_, left_;
  const std::string nonce_ = base::RandomHex(8);
  std::string runs_, tasks_;
  Cancellation cancel_;
  std::unique_ptr<ProcessSubstrate> substrate_;
  std::unique_ptr<Room> sibling_;
  std::thread neighbour_;
};

constexpr const char* kAttacks[] = {"parent_memory",  "parent_environ", "owner_memory",      "owner_environ",
                                    "owner_signal",   "owner_maps",     "owner_descriptors", "owner_descriptor",
                                    "owner_ptrace",   "owner_readv",    "sibling_environ",   "sibling_memory",
                                    "sibling_ptrace", "sibling_signal", "sibling_folder",    "sibling_write",
                                    "tasks_read",     "tasks_uncover",  "runs_read",         "tasks_read_by_root_link",
                                    "capabilities",   "descriptors",    "daemons",           "kill_parent",
                                    "kill_all",       "runs_write",     "runs_replace"};

void AttackAll(uint32_t refused, const std::function<bool(const Grant&)>& is_wanted) {
  Scene scene(refused);
  ASSERT_NE(scene.substrate(), nullptr);
  std::printf("as uid %d: %s\n", static_cast<int>(geteuid()), scene.grant().Describe().c_str());
  if (!is_wanted(scene.grant())) {
    std::printf("[  SKIPPED ] this machine does not grant it\n");
    return;
  }
  ASSERT_TRUE(scene.Begin());
  for (const std::string name : kAttacks) {
    const bool promised = Promised(name, scene.grant());
    if (!promised && name == "kill_all") {  // it would end more than this test
      std::printf("  %-24s open (not tried)\n", name.c_str());
      continue;
    }
    const pid_t launcher = scene.substrate()->launcher_pid();
    const auto outcome = scene.Attack(name);
    std::string harm = scene.Harm();
    if (kill(launcher, 0) != 0) harm = "the launcher is gone";
    const bool contained =
        outcome.ok() && outcome->ending == Ending::kExited && outcome->out.starts_with("contained") && harm.empty();
    const std::string seen = !outcome.ok() ? outcome.status().ToString() : outcome->out + outcome->err;
    std::printf("  %-24s %s\n", name.c_str(), contained ? "contained" : "open");
    if (promised) {
      EXPECT_TRUE(contained) << name << ": " << seen << "; " << harm;
    }
  }
}

// Runs `body` as another uid in a process of its own, and fails with it.
void As(uid_t uid, const std::function<void()>& body) {
  if (geteuid() == uid) return body();
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(uid) != 0 || setuid(uid) != 0) _exit(1);
    body();
    std::fflush(stdout);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "the failures stand above";
}

TEST(AttacksTest, RootWithAUidPerRoomAndNamespaces) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  AttackAll(0, [](const Grant& grant) { return grant.own_uid && grant.pid_namespace && grant.mount_namespace; });
}

TEST(AttacksTest, RootWithAUidPerRoomAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  AttackAll(kPidNamespace | kMountNamespace, [](const Grant& grant) { return grant.own_uid; });
}

TEST(AttacksTest, RootWithSharedUidAndNamespaces) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  AttackAll(kOwnUid, [](const Grant& grant) { return grant.pid_namespace && grant.mount_namespace; });
}

TEST(AttacksTest, AUserWithUserNamespaces) {
  As(geteuid() == 0 ? kNobody : geteuid(),
     [] { AttackAll(0, [](const Grant& grant) { return grant.user_namespace && grant.mount_namespace; }); });
}

TEST(AttacksTest, AUserWithUserNamespacesAndTheHostsProc) {
  As(geteuid() == 0 ? kNobody : geteuid(),
     [] { AttackAll(kPrivateProc, [](const Grant& grant) { return grant.user_namespace && grant.mount_namespace; }); });
}

TEST(AttacksTest, AUserWithoutNamespaces) {
  As(geteuid() == 0 ? kNobody : geteuid(),
     [] { AttackAll(kPidNamespace | kMountNamespace, [](const Grant&) { return true; }); });
}

}  // namespace
}  // namespace ingot::sandbox
