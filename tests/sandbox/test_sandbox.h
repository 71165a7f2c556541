// Commands in sandboxes, for tests of other things than the wall: agents have the test's uid, so that they reach its
// folders.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sandbox/local_substrate.h"

namespace ingot::sandbox {

// A folder of a test that goes with it. Every uid may pass and write it, as /tmp.
class TestFolder {
 public:
  TestFolder() {
    char name[] = "/tmp/ingot-test-XXXXXX";
    path_ = mkdtemp(name);
    std::filesystem::permissions(path_, std::filesystem::perms::all | std::filesystem::perms::sticky_bit);
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline constexpr uid_t kNobody = 65534;

// Runs `body` as another uid in a separate process, and fails with it.
inline void As(uid_t uid, const std::function<void()>& body) {
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

// The users of a test that is about root and about others.
inline std::vector<uid_t> Users() {
  return geteuid() == 0 ? std::vector<uid_t>{0, kNobody} : std::vector<uid_t>{geteuid()};
}

inline std::unique_ptr<LocalSubstrate> SharedUidSubstrate(const std::string& work_root) {
  SubstrateOptions options;
  options.work_root = work_root;
  options.agent_uid = "shared";
  auto substrate = LocalSubstrate::Make(options);
  EXPECT_TRUE(substrate.ok()) << substrate.status();
  return substrate.ok() ? *std::move(substrate) : nullptr;
}

// Unpacks the snapshot's archive below `folder` with the machine's tar.
inline void Unpack(const Snapshot& snapshot, const std::string& folder) {
  std::filesystem::create_directories(folder);
  FILE* const tar = popen(("tar -xf - --same-permissions --no-same-owner -C " + folder).c_str(), "w");
  ASSERT_NE(tar, nullptr);
  const absl::Status written = snapshot.WriteTar([tar](std::string_view bytes) {
    return fwrite(bytes.data(), 1, bytes.size(), tar) == bytes.size() ? absl::OkStatus() : absl::InternalError("tar");
  });
  EXPECT_TRUE(written.ok()) << written;
  EXPECT_EQ(pclose(tar), 0) << "tar refused the archive";
}

inline absl::StatusOr<Outcome> RunInSandbox(const Command& command, const Limits& limits = {}) {
  const TestFolder folder;
  const std::unique_ptr<LocalSubstrate> substrate = SharedUidSubstrate(folder.path());
  if (substrate == nullptr) return absl::InternalError("no substrate");
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<Sandbox> sandbox, substrate->Prepare());
  return sandbox->Run(command, limits, nullptr);
}

}  // namespace ingot::sandbox
