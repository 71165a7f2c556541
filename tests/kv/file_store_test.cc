// The store in a directory: what it returns, what it never returns, and what it removes.
#include "kv/file_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "store_rig.h"

namespace ingot::kv {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

class FileStoreTest : public testing::Test {
 protected:
  std::unique_ptr<FileStore> Open(Options options = {}) {
    options.path = folder_.path();
    return FileStore::Open(options, clock_).value();
  }
  absl::Status Put(FileStore& store, const Chunk& chunk) {
    return store.Put(root_, chunk, Planes(root_, chunk).write());
  }
  // Reads a chunk, and checks that its bytes are right after OK.
  absl::Status Get(FileStore& store, const Chunk& chunk) {
    Planes planes(root_);
    const absl::Status status = store.Get(root_, chunk, planes.read());
    EXPECT_TRUE(!status.ok() || planes == Planes(root_, chunk)) << "wrong bytes";
    return status;
  }
  std::string FileOf(const Chunk& chunk) const {
    const auto files = FilesIn(folder_.path(), base::Hex(base::KeyBytes(chunk.key)) + ".kv");
    return files.empty() ? "" : files[0];
  }

  const Root root_ = SmallRoot();
  const std::vector<Chunk> chain_ = SmallChain(root_, 4);
  const int64_t chunk_bytes_ = LayoutOf(chain_[0], root_.plane_bytes).file_bytes;
  TempFolder folder_;
  base::ManualClock clock_;
};

TEST_F(FileStoreTest, AnotherProcessReadsWhatWasWritten) {
  const auto writer = Open(), reader = Open();
  EXPECT_EQ(reader->Longest(root_, chain_), 0);
  EXPECT_TRUE(absl::IsNotFound(Get(*reader, chain_[0])));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Put(*writer, chain_[i]).ok());
  EXPECT_EQ(reader->Longest(root_, chain_), 3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Get(*reader, chain_[i]).ok()) << i;
  EXPECT_TRUE(absl::IsNotFound(Get(*reader, chain_[3])));
  EXPECT_EQ(writer->stats().put_chunks, 3);
  EXPECT_EQ(writer->stats().bytes, 3 * chunk_bytes_);
  EXPECT_TRUE(FilesIn(folder_.path() + "/tmp").empty());
}

TEST_F(FileStoreTest, AnotherRootReadsNothing) {
  const auto store = Open();
  ASSERT_TRUE(Put(*store, chain_[0]).ok());
  const Root other = SmallRoot(8);
  EXPECT_EQ(store->Longest(other, SmallChain(other, 4)), 0);
  Planes planes(other);
  EXPECT_TRUE(absl::IsNotFound(store->Get(other, SmallChain(other, 1)[0], planes.read())));
}

TEST_F(FileStoreTest, AFolderForAnotherRootIsNotUsed) {
  ASSERT_TRUE(Put(*Open(), chain_[0]).ok());
  const std::string json = FilesIn(folder_.path(), "root.json").at(0);
  ASSERT_TRUE(base::ReplaceFile(json, SmallRoot(8).Text()).ok());
  const auto store = Open();
  EXPECT_EQ(store->Longest(root_, chain_), 0);
  EXPECT_FALSE(Get(*store, chain_[0]).ok());
}

TEST_F(FileStoreTest, AWriterReplacesATornRoot) {
  ASSERT_TRUE(Put(*Open(), chain_[0]).ok());
  fs::resize_file(FilesIn(folder_.path(), "root.json").at(0), 0);
  const auto store = Open();
  EXPECT_EQ(store->Longest(root_, chain_), 0);
  ASSERT_TRUE(Put(*store, chain_[0]).ok());
  EXPECT_TRUE(Get(*store, chain_[0]).ok());
}

TEST_F(FileStoreTest, TwoWritersOfAChunkLeaveOne) {
  const auto a = Open(), b = Open();
  std::vector<std::thread> writers;
  for (FileStore* store : {a.get(), b.get()}) {
    writers.emplace_back([&, store] {
      for (const Chunk& chunk : SmallChain(root_, 50)) EXPECT_TRUE(Put(*store, chunk).ok());
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(FilesIn(folder_.path(), ".kv").size(), 50u);
  EXPECT_TRUE(FilesIn(folder_.path() + "/tmp").empty());
}

// Files that are not the chunk: a miss, moved away, and counted.
TEST_F(FileStoreTest, WhatIsNotTheChunkIsAMissAndMovedAway) {
  const auto corruptions = std::vector<std::function<void(const std::string&)>>{
      [](const std::string& path) { fs::resize_file(path, 5000); },
      [](const std::string& path) { fs::resize_file(path, 0); },
      [](const std::string& path) { std::ofstream(path, std::ios::app) << "x"; },
      [](const std::string& path) { fs::resize_file(path, uintmax_t{1} << 40); },  // more than there is memory for
      [](const std::string& path) { fs::remove(path), fs::create_symlink("/dev/zero", path); },
      [](const std::string& path) { fs::remove(path), mkfifo(path.c_str(), 0644); },
      [](const std::string& path) { fs::remove(path), fs::create_directory(path); },
      [&](const std::string& path) { fs::copy_file(FileOf(chain_[1]), path, fs::copy_options::overwrite_existing); },
  };
  const auto store = Open();
  ASSERT_TRUE(Put(*store, chain_[1]).ok());
  int64_t corrupt = 0;
  for (const auto& corrupted : corruptions) {
    ASSERT_TRUE(Put(*store, chain_[0]).ok());
    corrupted(FileOf(chain_[0]));
    EXPECT_TRUE(absl::IsDataLoss(Get(*store, chain_[0]))) << corrupt;
    EXPECT_EQ(store->stats().corrupt, ++corrupt);
    EXPECT_TRUE(absl::IsNotFound(Get(*store, chain_[0]))) << "it is gone";
  }
}

// Every byte of a chunk's file, and cuts at random places.
TEST_F(FileStoreTest, NoMutatedFileGivesWrongBytes) {
  const auto store = Open();
  ASSERT_TRUE(Put(*store, chain_[0]).ok());
  const std::string path = FileOf(chain_[0]), whole = base::ReadFile(path).value();
  int64_t read = 0, rejected = 0;
  for (uint64_t trial = 0; trial < 10'000; ++trial) {
    std::string bytes = whole;
    auto draw = [trial, n = uint64_t{0}](size_t below) mutable { return base::DeriveSeed(trial, n++) % below; };
    // Half of the mutations are among the first bytes, where the header is.
    const size_t at = trial % 2 == 0 ? draw(bytes.size()) : draw(260);
    switch (draw(4)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << draw(8)));
        break;
      case 1:
        for (size_t i = at; i < std::min(at + 8, bytes.size()); ++i) bytes[i] = static_cast<char>(draw(256));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(at, 1 + draw(8), '\1');
        bytes.resize(whole.size());
        break;
    }
    {
      std::ofstream(path, std::ios::trunc | std::ios::binary).write(bytes.data(), std::ssize(bytes));
    }
    const absl::Status status = Get(*store, chain_[0]);  // compares the bytes if it is OK
    ++(status.ok() ? read : rejected);
    ASSERT_TRUE(status.ok() || absl::IsDataLoss(status)) << status;
    ASSERT_FALSE(HasFailure()) << "trial " << trial;
  }
  EXPECT_GT(rejected, 3000);
  EXPECT_GT(read, 1000) << "bytes between planes do not matter";
}

TEST_F(FileStoreTest, TheStoreStaysBelowItsLimit) {
  const int64_t most = 10 * chunk_bytes_;
  const auto a = Open({.max_bytes = most}), b = Open({.max_bytes = most});
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(Put(i % 2 == 0 ? *a : *b, SmallChain(root_, 1, 100 * i)[0]).ok());
    EXPECT_LE(ChunkBytesIn(folder_.path()), most);
  }
  EXPECT_GE(ChunkBytesIn(folder_.path()), most / 2);
  EXPECT_GT(a->stats().evicted_bytes + b->stats().evicted_bytes, 80 * chunk_bytes_);
  EXPECT_TRUE(Get(*a, SmallChain(root_, 1, 9900)[0]).ok()) << "the newest are kept";
}

TEST_F(FileStoreTest, AChunkLargerThanTheStoreIsRefused) {
  const auto store = Open({.max_bytes = chunk_bytes_ - 1});
  EXPECT_TRUE(absl::IsResourceExhausted(Put(*store, chain_[0])));
  EXPECT_TRUE(FilesIn(folder_.path() + "/tmp").empty());
}

TEST_F(FileStoreTest, ALostOrWrongUsageFileIsCountedAnew) {
  const int64_t most = 4 * chunk_bytes_;
  ASSERT_TRUE(Put(*Open({.max_bytes = most}), chain_[0]).ok());
  for (const char* text : {"", "0123456789abcdef", "short"}) {
    ASSERT_TRUE(base::ReplaceFile(folder_.path() + "/usage", text).ok());
    EXPECT_EQ(Open({.max_bytes = most})->stats().bytes, chunk_bytes_);
  }
}

TEST_F(FileStoreTest, ARootThatNobodyHoldsIsRemoved) {
  const auto store = Open({.retire_after_s = 1}), other = Open({.retire_after_s = 1});
  const Root next = SmallRoot(8);
  const std::vector<Chunk> next_chain = SmallChain(next, 2);
  store->Hold({root_.Key()});
  other->Hold({next.Key()});
  ASSERT_TRUE(Put(*store, chain_[0]).ok());
  ASSERT_TRUE(other->Put(next, next_chain[0], Planes(next, next_chain[0]).write()).ok());
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    ASSERT_TRUE(other->Maintain().ok());
    ASSERT_TRUE(store->Maintain().ok());
  }
  EXPECT_EQ(store->Longest(root_, chain_), 1) << "held";
  store->Hold({next.Key()});
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    ASSERT_TRUE(store->Maintain().ok());
  }
  EXPECT_EQ(store->Longest(root_, chain_), 0);
  EXPECT_EQ(store->Longest(next, next_chain), 1);
  EXPECT_EQ(store->stats().retired_bytes, chunk_bytes_);
  EXPECT_TRUE(fs::is_empty(folder_.path() + "/trash"));
  ASSERT_TRUE(Put(*store, chain_[0]).ok()) << "it may come back";
  EXPECT_TRUE(Get(*store, chain_[0]).ok());
}

TEST_F(FileStoreTest, TwoThatRemoveARootAtOnceCountItOnce) {
  const auto a = Open({.retire_after_s = 600}), b = Open({.retire_after_s = 600});
  for (const Chunk& chunk : SmallChain(root_, 20)) ASSERT_TRUE(Put(*a, chunk).ok());
  for (const fs::directory_entry& root : fs::directory_iterator(folder_.path() + "/roots")) {
    for (const fs::path& path : {root.path(), root.path() / "held"}) {
      if (fs::exists(path)) fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(1));
    }
  }
  std::vector<std::thread> sweepers;
  for (FileStore* store : {a.get(), b.get()}) {
    sweepers.emplace_back([store] { EXPECT_TRUE(store->Maintain().ok()); });
  }
  for (std::thread& sweeper : sweepers) sweeper.join();
  EXPECT_EQ(a->stats().retired_bytes + b->stats().retired_bytes, 20 * chunk_bytes_);
  EXPECT_EQ(a->Longest(root_, chain_), 0);
  EXPECT_TRUE(fs::is_empty(folder_.path() + "/trash"));
  EXPECT_EQ(Open()->stats().bytes, 0);
}

// Ages are differences between times of the file system, so machines whose clocks differ can share a store.
TEST_F(FileStoreTest, AnEnginesOwnClockRemovesNothing) {
  const auto store = Open({.retire_after_s = 60});
  ASSERT_TRUE(Put(*store, chain_[0]).ok());
  clock_.Advance(std::chrono::hours(24));
  ASSERT_TRUE(store->Maintain().ok());
  EXPECT_EQ(store->Longest(root_, chain_), 1);
}

TEST_F(FileStoreTest, AFailingStoreIsOffForAWhile) {
  const auto store = Open();
  const std::string tmp = folder_.path() + "/tmp";
  fs::remove_all(tmp);
  EXPECT_TRUE(absl::IsUnavailable(Put(*store, chain_[0])));
  fs::create_directory(tmp);
  EXPECT_TRUE(absl::IsUnavailable(Put(*store, chain_[0]))) << "off";
  EXPECT_EQ(store->Longest(root_, chain_), 0);
  EXPECT_EQ(store->stats().failed_puts, 2);
  clock_.Advance(seconds(1));
  EXPECT_TRUE(Put(*store, chain_[0]).ok());
  fs::remove_all(tmp);
  EXPECT_TRUE(absl::IsUnavailable(Put(*store, chain_[1])));
}

TEST_F(FileStoreTest, EveryErrorInARowDoublesTheTimeOffUpTo16Seconds) {
  const auto store = Open();
  const std::string tmp = folder_.path() + "/tmp";
  fs::remove_all(tmp);
  for (const int off : {1, 2, 4, 8, 16, 16}) {
    EXPECT_TRUE(absl::IsUnavailable(Put(*store, chain_[0])));
    const int64_t failed = store->stats().failed_puts;
    fs::create_directory(tmp);
    clock_.Advance(seconds(off) - std::chrono::milliseconds(1));
    EXPECT_TRUE(absl::IsUnavailable(Put(*store, chain_[0]))) << "off for " << off << " s";
    EXPECT_TRUE(absl::IsUnavailable(Get(*store, chain_[0])));
    EXPECT_EQ(store->stats().failed_puts, failed + 1);
    fs::remove_all(tmp);
    clock_.Advance(std::chrono::milliseconds(1));
  }
  fs::create_directory(tmp);
  EXPECT_TRUE(Put(*store, chain_[0]).ok());
}

// A process that died while it removed a root, on another machine, too.
TEST_F(FileStoreTest, ARemovalThatDidNotEndIsContinued) {
  ASSERT_TRUE(Put(*Open(), chain_[0]).ok());
  const std::string trash = folder_.path() + "/trash/elsewhere.1.1";
  fs::create_directories(trash + "/ab");
  ASSERT_TRUE(base::ReplaceFile(trash + "/ab/chunk.kv", "x").ok());
  const auto store = Open();
  ASSERT_TRUE(store->Maintain().ok());
  EXPECT_TRUE(fs::is_empty(folder_.path() + "/trash"));
  EXPECT_TRUE(Get(*store, chain_[0]).ok());
}

TEST_F(FileStoreTest, AFolderThatCannotBeUsedIsAnErrorWithItsPath) {
  const std::string file = folder_.path() + "/file";
  ASSERT_TRUE(base::ReplaceFile(file, "x").ok());
  const absl::Status status = FileStore::Open({.path = file + "/below"}).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(file));
}

// A limit on the size of files stands in for a full disk: the write fails in the middle of a chunk.
TEST_F(FileStoreTest, AFullDiskLeavesNothingBehind) {
  const auto store = Open();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit full = before;
  full.rlim_cur = 4200;  // the header and part of the first plane
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  const absl::Status status = Put(*store, chain_[0]);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(folder_.path()));
  EXPECT_TRUE(fs::is_empty(folder_.path() + "/tmp"));
  EXPECT_EQ(store->stats().failed_puts, 1);
  clock_.Advance(seconds(1));
  EXPECT_TRUE(absl::IsNotFound(Get(*store, chain_[0])));
  EXPECT_TRUE(Put(*store, chain_[0]).ok()) << "there is space again";
  EXPECT_TRUE(Get(*store, chain_[0]).ok());
}

// In a process that is not root, which may write everywhere.
TEST_F(FileStoreTest, AReadOnlyFolderIsAnErrorWithItsPath) {
  fs::permissions(folder_.path(),
                  fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
    const absl::Status status = FileStore::Open({.path = folder_.path()}).status();
    const bool named = std::string(status.message()).find(folder_.path()) != std::string::npos;
    _exit(absl::IsUnavailable(status) && named ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  fs::permissions(folder_.path(), fs::perms::owner_all);
}

TEST_F(FileStoreTest, PlanesOfOtherSizesAreRefused) {
  const auto store = Open();
  Root other = root_;
  other.plane_bytes = {96, 96, 44};
  EXPECT_TRUE(absl::IsInvalidArgument(store->Put(root_, chain_[0], Planes(other).write())));
}

}  // namespace
}  // namespace ingot::kv
