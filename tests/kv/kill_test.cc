// Writers that are killed at any time: no reader gets wrong bytes, nothing is left in tmp/ and trash/, and the store
// stays below its limit.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "kv/file_store.h"
#include "store_rig.h"

namespace ingot::kv {
namespace {

constexpr int kKills = 200;

// Writes chunks until it is killed.
[[noreturn]] void WriteForever(const std::string& path, int64_t max_bytes, int32_t first_id) {
  const auto store = FileStore::Open({.path = path, .max_bytes = max_bytes, .retire_after_s = 1});
  if (!store.ok()) _exit(3);
  for (int32_t i = 0;; ++i) {
    const Root root = SmallRoot(static_cast<uint64_t>(i % 3));
    const Chunk chunk = SmallChain(root, 1, first_id + 100 * (i % 40))[0];
    (*store)->Put(root, chunk, Planes(root, chunk).write()).IgnoreError();
  }
}

TEST(KillTest, KilledWritersLeaveNothingWrong) {
  const TempFolder folder;
  const int64_t chunk_bytes = LayoutOf(SmallChain(SmallRoot(), 1)[0], SmallRoot().plane_bytes).file_bytes;
  const int64_t most = 30 * chunk_bytes;
  int64_t read = 0, largest = 0;
  // A writer that is killed early leaves no chunk.
  std::filesystem::create_directories(folder.path() + "/roots");
  for (int kill_number = 0; kill_number < kKills; ++kill_number) {
    const pid_t child = fork();
    if (child == 0) WriteForever(folder.path(), most, 4000 * (kill_number % 2));
    ASSERT_GT(child, 0);
    std::this_thread::sleep_for(std::chrono::microseconds(3000 + base::DeriveSeed(1, kill_number) % 12'000));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself";
    largest = std::max(largest, ChunkBytesIn(folder.path() + "/roots"));
  }
  const auto store = FileStore::Open({.path = folder.path(), .max_bytes = most}).value();
  for (int32_t id = 0; id < 8000; id += 100) {
    for (uint64_t policy = 0; policy < 3; ++policy) {
      const Root root = SmallRoot(policy);
      const Chunk chunk = SmallChain(root, 1, id)[0];
      Planes planes(root);
      const absl::Status status = store->Get(root, chunk, planes.read());
      EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
      if (!status.ok()) continue;
      ++read;
      EXPECT_EQ(planes, Planes(root, chunk));
    }
  }
  EXPECT_GT(read, 10);
  EXPECT_LE(largest, most);
  EXPECT_TRUE(store->Maintain().ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() + "/tmp"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() + "/trash"));
  EXPECT_EQ(store->stats().corrupt, 0);
}

}  // namespace
}  // namespace ingot::kv
