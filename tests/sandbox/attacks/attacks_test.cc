// Attacks of an agent (attack.py) on the process that owns it, on its neighbours, on the run and on the machine, in each rung
// that this machine grants: as root with a uid per room, and as a user who is not root. Each attack is contained where the
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
bool Promised(const std::string& attack, const Grant& grant) {
  static const std::set<std::string> filtered = {
      "vsock", "netlink", "keyctl", "add_key", "io_uring", "bpf", "perf_event", "new_user_namespace", "tiocsti"};
  if (filtered.contains(attack)) return grant.seccomp;
  static const std::set<std::string> privileged = {"packet", "raw_ip", "userfaultfd", "mount", "realtime"};
  if (privileged.contains(attack)) return grant.seccomp || grant.own_uid;
  if (attack == "service") return grant.own_network || grant.landlock >= 4;
  if (attack == "multipath" || attack == "fast_open" || attack == "listen") {
    return grant.own_network || grant.landlock >= 4;
  }
  if (attack == "shown_pipe") return grant.root_folder || grant.landlock > 0;
  if (attack.starts_with("shown_") || attack == "outside_socket") return grant.root_folder;
  if (attack == "left_objects") return grant.root_folder || grant.landlock > 0 || grant.own_uid;
  if (attack == "sibling_cmdline") return grant.private_proc;
  if (attack.starts_with("service_")) return grant.own_network;
  if (attack == "abstract_socket") return grant.own_network || grant.landlock >= 6;
  if (attack.starts_with("outside_") || attack == "note" || attack == "shared_memory") {
    return grant.root_folder || grant.landlock > 0;
  }
  if (attack == "inotify") return grant.own_uid;
  if (attack == "fork_bomb") return grant.own_uid || grant.user_namespace;
  if (attack == "memory_of_many") return true;
  if (attack == "memory_of_one" || attack == "cpu") return grant.groups > 0;
  // Whoever is not root cannot see the size of a file that is mapped alone.
  if (attack == "disk_mapped") return geteuid() == 0;
  if (attack.starts_with("disk_") || attack == "many_empty_files") return true;
  if (grant.landlock > 0 &&
      (attack == "tasks_read_by_root_link" || attack == "sibling_folder" || attack == "sibling_write" ||
       attack.starts_with("tasks_") || attack.starts_with("runs_"))) {
    return true;
  }
  if (attack.starts_with("sibling_") && grant.landlock > 0)
    return attack != "sibling_signal" || grant.landlock >= 6 || grant.own_uid;
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

constexpr const char* kAttacks[] = {"parent_memory",  "parent_environ", "owner_memory",      "owner_environ",
                                    "owner_signal",   "owner_maps",     "owner_descriptors", "owner_descriptor",
                                    "owner_ptrace",   "owner_readv",    "sibling_environ",   "sibling_memory",
                                    "sibling_ptrace", "sibling_signal", "sibling_folder",    "sibling_write",
                                    "tasks_read",     "tasks_uncover",  "runs_read",         "tasks_read_by_root_link",
                                    "capabilities",   "descriptors",    "daemons",           "kill_parent",
                                    "kill_all",       "runs_write",     "runs_replace",      "sibling_cmdline"};

// On a service of the recipe, which runs where rooms have a network of their own.
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
  const bool promised = Promised(name, scene.grant());
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

void AttackAll(const std::string& rung, uint32_t refused, const std::function<bool(const Grant&)>& is_wanted) {
  Scene scene(rung, refused);
  ASSERT_NE(scene.substrate(), nullptr);
  std::printf("as uid %d: %s\n", static_cast<int>(geteuid()), scene.grant().Describe().c_str());
  if (!is_wanted(scene.grant())) {
    std::printf("[  SKIPPED ] this machine does not grant it\n");
    return;
  }
  ASSERT_TRUE(scene.Begin());
  for (const std::string name : kAttacks) AttackOnce(scene, name);
  for (const std::string name : kServiceAttacks) {
    if (scene.grant().own_network) AttackOnce(scene, name);
  }
  for (const std::string name : kMachineAttacks) {
    // The weaker strengths of the rung `process` add nothing where the strongest one waits for seconds, or promises nothing.
    const bool waits = name.starts_with("disk_") || name == "many_empty_files" || name == "cpu";
    const bool is_weaker = scene.grant().rung == Rung::kProcess && refused != 0;
    if (is_weaker && (waits || !Promised(name, scene.grant()))) continue;
    // Three looks each, which are the same everywhere but for whom they are allowed to.
    const bool is_one_of_two = scene.grant().rung == Rung::kFull || scene.grant().user_namespace;
    if (!name.starts_with("disk_in_flight") || is_one_of_two) AttackOnce(scene, name);
  }
}

TEST(AttacksTest, FullAsRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  AttackAll("full", 0, [](const Grant& grant) { return grant.rung == Rung::kFull; });
}

TEST(AttacksTest, NamespacesAsRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  AttackAll("namespaces", 0, [](const Grant& grant) { return grant.rung == Rung::kNamespaces; });
}

TEST(AttacksTest, NamespacesAsAUser) {
  As(geteuid() == 0 ? kNobody : geteuid(),
     [] { AttackAll("namespaces", 0, [](const Grant& grant) { return grant.rung == Rung::kNamespaces; }); });
}

TEST(AttacksTest, LandlockAsRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  AttackAll("landlock", 0, [](const Grant& grant) { return grant.rung == Rung::kLandlock; });
}

TEST(AttacksTest, LandlockAsAUser) {
  As(geteuid() == 0 ? kNobody : geteuid(),
     [] { AttackAll("landlock", 0, [](const Grant& grant) { return grant.rung == Rung::kLandlock; }); });
}

TEST(AttacksTest, RootWithAUidPerRoomAndNamespaces) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  AttackAll("process", 0,
            [](const Grant& grant) { return grant.own_uid && grant.pid_namespace && grant.mount_namespace; });
}

TEST(AttacksTest, RootWithAUidPerRoomAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  AttackAll("process", kPidNamespace | kMountNamespace, [](const Grant& grant) { return grant.own_uid; });
}

TEST(AttacksTest, RootWithSharedUidAndNamespaces) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  AttackAll("process", kOwnUid, [](const Grant& grant) { return grant.pid_namespace && grant.mount_namespace; });
}

TEST(AttacksTest, AUserWithUserNamespaces) {
  As(geteuid() == 0 ? kNobody : geteuid(),
     [] { AttackAll("process", 0, [](const Grant& grant) { return grant.user_namespace && grant.mount_namespace; }); });
}

TEST(AttacksTest, AUserWithUserNamespacesAndTheHostsProc) {
  As(geteuid() == 0 ? kNobody : geteuid(), [] {
    AttackAll("process", kPrivateProc,
              [](const Grant& grant) { return grant.user_namespace && grant.mount_namespace; });
  });
}

TEST(AttacksTest, AUserWithoutNamespaces) {
  As(geteuid() == 0 ? kNobody : geteuid(),
     [] { AttackAll("process", kPidNamespace | kMountNamespace, [](const Grant&) { return true; }); });
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
  options.rung = GetParam().first;
  const auto substrate = LocalSubstrate::Make(options, GetParam().second);
  ASSERT_TRUE(substrate.ok()) << substrate.status();
  if ((*substrate)->grant().freezer == 0) GTEST_SKIP() << "not granted: " << (*substrate)->grant().Describe();
  auto room = (*substrate)->Prepare().value();
  std::ostringstream script;
  script << std::ifstream(INGOT_SOURCE_DIR "/tests/sandbox/attacks/attack.py").rdbuf();
  ASSERT_TRUE(room->WriteFile("attack.py", script.str()).ok());
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
                        .working_dir = room->work(),
                        .stdin_text = ""};
  Cancellation cancel;
  std::atomic<bool> has_ended = false;
  std::thread runner([&] {
    const auto outcome = room->Run(command, Limits{}, &cancel);
    has_ended = true;
    EXPECT_TRUE(!outcome.ok() || cancel.cancelled()) << outcome->err;
  });
  while (!has_ended && !room->ReadFile("begun", 1).ok()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  for (int i = 0; i < 6; ++i) {
    const auto snapshot = room->TakeSnapshot();
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

INSTANTIATE_TEST_SUITE_P(Rungs, SnapshotAttackTest,
                         testing::Values(std::pair("auto", kFreezer1Refused), std::pair("auto", kFreezer2Refused),
                                         std::pair("namespaces", 0u), std::pair("landlock", 0u),
                                         std::pair("process", 0u),
                                         std::pair("process", uint32_t{kPidNamespace | kMountNamespace})));

}  // namespace
}  // namespace ingot::sandbox
