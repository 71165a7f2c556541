// Attacks of an agent (attack.py) on the process that owns it, on its neighbours, on the run and on the machine, in each isolation level
// that this machine grants: as root with a uid per sandbox, and as a user who is not root. Each attack is contained where the
// grant says so. The rest is printed as open; docs/guide/sandbox.md has the table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <set>

#include "sandbox/attacks/scene.h"

namespace ingot::sandbox {
namespace {

// Whether the grant promises to contain an attack.
bool Promised(const std::string& attack, const ProbeResult& probe_result) {
  static const std::set<std::string> filtered = {
      "vsock", "netlink", "keyctl", "add_key", "io_uring", "bpf", "perf_event", "new_user_namespace", "tiocsti"};
  if (filtered.contains(attack)) return probe_result.seccomp;
  static const std::set<std::string> privileged = {"packet", "raw_ip", "userfaultfd", "mount", "realtime"};
  if (privileged.contains(attack)) return probe_result.seccomp || probe_result.own_uid;
  if (attack == "service") return probe_result.own_network || probe_result.landlock >= 4;
  if (attack == "multipath" || attack == "fast_open" || attack == "listen") {
    return probe_result.own_network || probe_result.landlock >= 4;
  }
  if (attack == "shown_pipe") return probe_result.root_folder || probe_result.landlock > 0;
  if (attack.starts_with("shown_") || attack == "outside_socket") return probe_result.root_folder;
  if (attack == "left_objects") return probe_result.root_folder || probe_result.landlock > 0 || probe_result.own_uid;
  if (attack == "sibling_cmdline") return probe_result.private_proc;
  if (attack.starts_with("service_")) return probe_result.own_network;
  if (attack == "abstract_socket") return probe_result.own_network || probe_result.landlock >= 6;
  if (attack.starts_with("outside_") || attack == "note" || attack == "shared_memory") {
    return probe_result.root_folder || probe_result.landlock > 0;
  }
  if (attack == "inotify") return probe_result.own_uid;
  if (attack == "fork_bomb") return probe_result.own_uid || probe_result.user_namespace;
  if (attack == "memory_of_many") return true;
  if (attack == "memory_of_one" || attack == "cpu") return probe_result.groups > 0;
  // Whoever is not root cannot see the size of a file that is mapped alone.
  if (attack == "disk_mapped") return geteuid() == 0;
  if (attack.starts_with("disk_") || attack == "many_empty_files") return true;
  if (probe_result.landlock > 0 &&
      (attack == "tasks_read_by_root_link" || attack == "sibling_folder" || attack == "sibling_write" ||
       attack.starts_with("tasks_") || attack.starts_with("runs_"))) {
    return true;
  }
  if (attack.starts_with("sibling_") && probe_result.landlock > 0)
    return attack != "sibling_signal" || probe_result.landlock >= 6 || probe_result.own_uid;
  const bool apart = probe_result.own_uid || probe_result.pid_namespace;  // other processes are out of reach
  static const std::set<std::string> always = {
      "parent_memory",    "parent_environ", "owner_memory", "owner_environ", "owner_maps", "owner_descriptors",
      "owner_descriptor", "owner_ptrace",   "owner_readv",  "descriptors",   "daemons",    "capabilities"};
  if (always.contains(attack)) return true;
  if (attack.starts_with("tasks_") || attack == "runs_read") return probe_result.mount_namespace;
  if (attack.starts_with("runs_") || attack == "sibling_folder" || attack == "sibling_write") {
    return probe_result.own_uid || probe_result.mount_namespace;
  }
  if (attack == "sibling_environ" || attack == "sibling_memory")
    return probe_result.own_uid || probe_result.private_proc;
  return apart;
}

constexpr const char* kAttacks[] = {"parent_memory",  "parent_environ", "owner_memory",      "owner_environ",
                                    "owner_signal",   "owner_maps",     "owner_descriptors", "owner_descriptor",
                                    "owner_ptrace",   "owner_readv",    "sibling_environ",   "sibling_memory",
                                    "sibling_ptrace", "sibling_signal", "sibling_folder",    "sibling_write",
                                    "tasks_read",     "tasks_uncover",  "runs_read",         "tasks_read_by_root_link",
                                    "capabilities",   "descriptors",    "daemons",           "kill_parent",
                                    "kill_all",       "runs_write",     "runs_replace",      "sibling_cmdline"};

// On a service of the recipe, which runs where sandboxes have a network of their own.
constexpr const char* kServiceAttacks[] = {"service_environ",      "service_memory", "service_ptrace",
                                           "service_readv",        "service_kill",   "service_kill_all",
                                           "service_shared_memory"};

// On the machine.
constexpr const char* kMachineAttacks[] = {"service",
                                           "multipath",
                                           "fast_open",
                                           "listen",
                                           "abstract_socket",
                                           "shown_socket",
                                           "shown_datagram_socket",
                                           "shown_socket_deeper",
                                           "shown_pipe",
                                           "outside_socket",
                                           "left_objects",
                                           "vsock",
                                           "netlink",
                                           "packet",
                                           "raw_ip",
                                           "outside_read",
                                           "outside_write",
                                           "outside_by_link",
                                           "note",
                                           "fork_bomb",
                                           "memory_of_one",
                                           "memory_of_many",
                                           "disk_one_file",
                                           "disk_many_files",
                                           "disk_deep_folders",
                                           "disk_closed_folder",
                                           "disk_unlinked",
                                           "disk_tmpfile",
                                           "disk_mapped",
                                           "disk_in_flight",
                                           "disk_in_flight_nested",
                                           "many_empty_files",
                                           "shared_memory",
                                           "cpu",
                                           "inotify",
                                           "keyctl",
                                           "add_key",
                                           "io_uring",
                                           "userfaultfd",
                                           "bpf",
                                           "perf_event",
                                           "new_user_namespace",
                                           "mount",
                                           "realtime",
                                           "tiocsti"};

// Without its wall it would take more than a test may: memory of the machine, and processes of this user.
bool IsHarmful(const std::string& attack) {
  return attack == "kill_all" || attack == "fork_bomb" || attack == "shared_memory" || attack == "disk_mapped" ||
         attack.starts_with("memory_");
}

void AttackOnce(Scene& scene, const std::string& name) {
  const bool promised = Promised(name, scene.probe_result());
  if (!promised && IsHarmful(name)) {
    std::printf("  %-24s open (not tried)\n", name.c_str());
    return;
  }
  const pid_t launcher = scene.substrate()->launcher_pid();
  const auto outcome = scene.Attack(name);
  std::string harm = scene.Harm();
  if (kill(launcher, 0) != 0) harm = "the launcher is gone";
  const bool ended_well = outcome.ok() && outcome->ending == Ending::kExited && outcome->out.starts_with("contained");
  // Limits end an attack, too.
  const bool was_ended =
      outcome.ok() && (outcome->ending == Ending::kDiskFull || outcome->ending == Ending::kMemoryFull ||
                       (outcome->ending == Ending::kSignalled && name.starts_with("memory_")));
  const bool contained = (ended_well || was_ended) && harm.empty();
  const std::string seen = !outcome.ok() ? outcome.status().ToString() : outcome->out + outcome->err;
  std::printf("  %-24s %s\n", name.c_str(), contained ? "contained" : "open");
  if (promised) {
    EXPECT_TRUE(contained) << name << ": " << seen << "; " << harm;
  }
}

void AttackAll(const std::string& isolation, uint32_t rejected,
               const std::function<bool(const ProbeResult&)>& is_wanted) {
  Scene scene(isolation, rejected);
  ASSERT_NE(scene.substrate(), nullptr);
  std::printf("as uid %d: %s\n", static_cast<int>(geteuid()), scene.probe_result().Describe().c_str());
  if (!is_wanted(scene.probe_result())) {
    std::printf("[  SKIPPED ] this machine does not grant it\n");
    return;
  }
  ASSERT_TRUE(scene.Begin());
  for (const std::string name : kAttacks) AttackOnce(scene, name);
  for (const std::string name : kServiceAttacks) {
    if (scene.probe_result().own_network) AttackOnce(scene, name);
  }
  for (const std::string name : kMachineAttacks) {
    // The weaker strengths of the isolation level `process` add nothing where the strongest one waits for seconds, or promises nothing.
    const bool waits = name.starts_with("disk_") || name == "many_empty_files" || name == "cpu";
    const bool is_weaker = scene.probe_result().isolation == IsolationLevel::kProcess && rejected != 0;
    if (is_weaker && (waits || !Promised(name, scene.probe_result()))) continue;
    // Three looks each, which are the same everywhere but for whom they are allowed to.
    const bool is_one_of_two =
        scene.probe_result().isolation == IsolationLevel::kFull || scene.probe_result().user_namespace;
    if (!name.starts_with("disk_in_flight") || is_one_of_two) AttackOnce(scene, name);
  }
}

TEST(AttacksTest, FullAsRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  AttackAll("full", 0, [](const ProbeResult& probe_result) { return probe_result.isolation == IsolationLevel::kFull; });
}

TEST(AttacksTest, NamespacesAsRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  AttackAll("namespaces", 0,
            [](const ProbeResult& probe_result) { return probe_result.isolation == IsolationLevel::kNamespaces; });
}

TEST(AttacksTest, NamespacesAsAUser) {
  As(geteuid() == 0 ? kNobody : geteuid(), [] {
    AttackAll("namespaces", 0,
              [](const ProbeResult& probe_result) { return probe_result.isolation == IsolationLevel::kNamespaces; });
  });
}

TEST(AttacksTest, LandlockAsRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  AttackAll("landlock", 0,
            [](const ProbeResult& probe_result) { return probe_result.isolation == IsolationLevel::kLandlock; });
}

TEST(AttacksTest, LandlockAsAUser) {
  As(geteuid() == 0 ? kNobody : geteuid(), [] {
    AttackAll("landlock", 0,
              [](const ProbeResult& probe_result) { return probe_result.isolation == IsolationLevel::kLandlock; });
  });
}

TEST(AttacksTest, RootWithAUidPerSandboxAndNamespaces) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  AttackAll("process", 0, [](const ProbeResult& probe_result) {
    return probe_result.own_uid && probe_result.pid_namespace && probe_result.mount_namespace;
  });
}

TEST(AttacksTest, RootWithAUidPerSandboxAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  AttackAll("process", kPidNamespace | kMountNamespace,
            [](const ProbeResult& probe_result) { return probe_result.own_uid; });
}

TEST(AttacksTest, RootWithSharedUidAndNamespaces) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  AttackAll("process", kOwnUid,
            [](const ProbeResult& probe_result) { return probe_result.pid_namespace && probe_result.mount_namespace; });
}

TEST(AttacksTest, AUserWithUserNamespaces) {
  As(geteuid() == 0 ? kNobody : geteuid(), [] {
    AttackAll("process", 0, [](const ProbeResult& probe_result) {
      return probe_result.user_namespace && probe_result.mount_namespace;
    });
  });
}

TEST(AttacksTest, AUserWithUserNamespacesAndTheHostsProc) {
  As(geteuid() == 0 ? kNobody : geteuid(), [] {
    AttackAll("process", kPrivateProc, [](const ProbeResult& probe_result) {
      return probe_result.user_namespace && probe_result.mount_namespace;
    });
  });
}

TEST(AttacksTest, AUserWithoutNamespaces) {
  As(geteuid() == 0 ? kNobody : geteuid(),
     [] { AttackAll("process", kPidNamespace | kMountNamespace, [](const ProbeResult&) { return true; }); });
}

// An agent that changes its folders while they are copied leads whoever copies them, with the rights of root, to what only root
// may read. The snapshot is taken and sent as the one of an episode's owner over HTTP.
class SnapshotAttackTest : public testing::TestWithParam<std::pair<const char*, uint32_t>> {};

TEST_P(SnapshotAttackTest, AnArchiveHasNothingThatTheAgentCouldNotRead) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const TestFolder folder;
  const std::string secret = folder.path() + "/secret";
  std::filesystem::create_directory(secret);
  std::filesystem::permissions(secret, std::filesystem::perms::owner_all);
  for (int i = 0; i < 600; ++i) std::ofstream(absl::StrCat(secret, "/", i)) << "root's alone";
  SubstrateOptions options;
  options.work_root = folder.path() + "/work";
  options.isolation = GetParam().first;
  const auto substrate = LocalSubstrate::Make(options, GetParam().second);
  ASSERT_TRUE(substrate.ok()) << substrate.status();
  if ((*substrate)->probe_result().freezer == 0)
    GTEST_SKIP() << "not granted: " << (*substrate)->probe_result().Describe();
  auto sandbox = (*substrate)->Prepare().value();
  std::ostringstream script;
  script << std::ifstream(INGOT_SOURCE_DIR "/tests/sandbox/attacks/attack.py").rdbuf();
  ASSERT_TRUE(sandbox->WriteFile("attack.py", script.str()).ok());
  const Command command{.argv = {"python3", "attack.py", "swaps"},
                        .env = {{"PATH", "/usr/bin:/bin"},
                                {"OWNER", "1"},
                                {"SIBLING", "1"},
                                {"SIBLING_WORK", ""},
                                {"TASKS", ""},
                                {"RUNS", ""},
                                {"SHOWN", ""},
                                {"IPC_KEY", "0"},
                                {"OUTSIDE", secret}},
                        .working_dir = sandbox->work(),
                        .stdin_text = ""};
  Cancellation cancel;
  std::atomic<bool> has_ended = false;
  std::thread runner([&] {
    const auto outcome = sandbox->Run(command, Limits{}, &cancel);
    has_ended = true;
    EXPECT_TRUE(!outcome.ok() || cancel.cancelled()) << outcome->err;
  });
  while (!has_ended && !sandbox->ReadFile("begun", 1).ok()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  for (int i = 0; i < 6; ++i) {
    const auto snapshot = sandbox->TakeSnapshot();
    EXPECT_TRUE(snapshot.ok()) << snapshot.status();
    if (!snapshot.ok()) break;
    std::string archive;
    const absl::Status written = (*snapshot)->WriteTar([&archive](std::string_view bytes) {
      archive += bytes;
      return absl::OkStatus();
    });
    EXPECT_TRUE(written.ok()) << written;
    EXPECT_NE(archive.find("the agent's own"), std::string::npos);
    EXPECT_EQ(archive.find("root's alone"), std::string::npos) << "of the snapshot " << i;
  }
  cancel.Cancel();
  runner.join();
}

INSTANTIATE_TEST_SUITE_P(IsolationLevels, SnapshotAttackTest,
                         testing::Values(std::pair("auto", kFreezer1Rejected), std::pair("auto", kFreezer2Rejected),
                                         std::pair("namespaces", 0u), std::pair("landlock", 0u),
                                         std::pair("process", 0u),
                                         std::pair("process", uint32_t{kPidNamespace | kMountNamespace})));

}  // namespace
}  // namespace ingot::sandbox
