// Tests of the store on a disk that is full, failing or damaged.
#include <gmock/gmock.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <fstream>
#include <future>
#include <thread>

#include "base/retry.h"
#include "datapool/make_pool.h"
#include "datapool/rocks/rocks_database.h"

namespace ingot::datapool {
namespace {

using testing::Append;
using testing::BatchRecord;
using testing::Get;
using ::testing::HasSubstr;
using testing::Open;
using testing::Prompt;
using testing::Sampled;

// The fault of all writes.
enum class Fault { kNone, kFull, kBroken, kTorn, kSyncFails };

class FaultyFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FaultyFile(std::unique_ptr<rocksdb::FSWritableFile> file, const std::atomic<Fault>& fault)
      : FSWritableFileOwnerWrapper(std::move(file)), fault_(fault) {}
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* context) override {
    if (fault_ == Fault::kFull) return rocksdb::IOStatus::NoSpace("no space left on device");
    if (fault_ == Fault::kBroken) return rocksdb::IOStatus::IOError("input/output error");
    if (fault_ == Fault::kTorn) {  // half of the data reaches the disk
      FSWritableFileOwnerWrapper::Append({data.data(), data.size() / 2}, options, context);
      FSWritableFileOwnerWrapper::Flush(options, context);
      return rocksdb::IOStatus::NoSpace("no space left on device");
    }
    return FSWritableFileOwnerWrapper::Append(data, options, context);
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo&, rocksdb::IODebugContext* context) override {
    return Append(data, options, context);
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* context) override {
    if (fault_ == Fault::kSyncFails) return rocksdb::IOStatus::IOError("sync failed");
    return FSWritableFileOwnerWrapper::Sync(options, context);
  }

 private:
  const std::atomic<Fault>& fault_;
};

class FaultyDisk final : public rocksdb::FileSystemWrapper {
 public:
  FaultyDisk() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "FaultyDisk"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* context) override {
    if (fault == Fault::kFull) return rocksdb::IOStatus::NoSpace("no space left on device");
    if (fault == Fault::kBroken) return rocksdb::IOStatus::IOError("input/output error");
    rocksdb::IOStatus status = FileSystemWrapper::NewWritableFile(name, options, file, context);
    if (status.ok()) *file = std::make_unique<FaultyFile>(std::move(*file), fault);
    return status;
  }
  // RocksDB's log goes to the same disk. The default logger would bypass this wrapper.
  rocksdb::IOStatus NewLogger(const std::string& name, const rocksdb::IOOptions&,
                              std::shared_ptr<rocksdb::Logger>* logger, rocksdb::IODebugContext*) override {
    const rocksdb::Status made = rocksdb::NewEnvLogger(name, env, logger);
    return made.ok() ? rocksdb::IOStatus::OK() : rocksdb::IOStatus::IOError(made.ToString());
  }
  rocksdb::IOStatus GetFreeSpace(const std::string& path, const rocksdb::IOOptions& options, uint64_t* bytes,
                                 rocksdb::IODebugContext* context) override {
    own_recoveries += context == nullptr ? 1 : 0;  // the thread of RocksDB's recovery asks without a context
    return FileSystemWrapper::GetFreeSpace(path, options, bytes, context);
  }
  std::atomic<Fault> fault{Fault::kNone};
  std::atomic<int> own_recoveries{0};  // RocksDB's, beside Database::Recover
  rocksdb::Env* env = nullptr;         // made of this disk
};

class StoreFaultsTest : public ::testing::Test {
 protected:
  StoreFaultsTest() : disk_(std::make_shared<FaultyDisk>()), env_(rocksdb::NewCompositeEnv(disk_)) {
    disk_->env = env_.get();
    options_ = testing::QuickOptions(dir_.path());
    options_.sync = true;
    options_.retry_after_error_s = 1;
    Reopen();
  }
  ~StoreFaultsTest() override {
    store_.reset();
    EXPECT_EQ(disk_->own_recoveries, 0) << "closing the files beside such a recovery may never end";
  }
  void Reopen() {
    store_.reset();
    store_ = Store::Open(options_, 0, clock_, env_.get()).value();
  }

  testing::TempDir dir_;
  base::ManualClock clock_;
  std::shared_ptr<FaultyDisk> disk_;
  std::unique_ptr<rocksdb::Env> env_;
  StoreOptions options_;
  std::unique_ptr<Store> store_;
};

class StoreFaultKindsTest : public StoreFaultsTest, public ::testing::WithParamInterface<Fault> {};

TEST_P(StoreFaultKindsTest, RejectsWritesStaysReadableAndRecoversWithTheDisk) {
  const bool full = GetParam() == Fault::kFull || GetParam() == Fault::kTorn;
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 0, 0)).ok());
  ASSERT_TRUE(store_->AppendCall(Append("e", 0, {Prompt({1})}, {Sampled({2})})).ok());
  ASSERT_EQ(store_->AppendJournal(BatchRecord(0, {0})).value(), 0);
  for (int round = 0; round < 3; ++round) {
    const auto call = Append("e", 1 + round, {Prompt({1}), Prompt({50 + round})}, {});
    disk_->fault = GetParam();
    const absl::Status rejected = store_->AppendCall(call);
    EXPECT_EQ(rejected.code(), full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable)
        << rejected;
    EXPECT_THAT(std::string(rejected.message()), HasSubstr(dir_.path()));
    EXPECT_THAT(std::string(rejected.message()), HasSubstr("automatically"));
    EXPECT_FALSE(store_->AppendJournal(BatchRecord(1 + round, {0})).ok());
    EXPECT_EQ(Get(*store_, "e")->calls_size(), 1 + round);
    clock_.Advance(std::chrono::seconds(2));  // the next mutation tries to recover, in vain
    EXPECT_FALSE(store_->AppendCall(call).ok());
    // After a failed fsync the reopened files may hold the record.
    const int seen = Get(*store_, "e")->calls_size();
    EXPECT_TRUE(seen == 1 + round || (GetParam() == Fault::kSyncFails && seen == 2 + round)) << seen;

    disk_->fault = Fault::kNone;
    EXPECT_FALSE(store_->AppendCall(call).ok());  // too soon after the last attempt
    clock_.Advance(std::chrono::seconds(2));
    const absl::Status accepted = store_->AppendCall(call);
    ASSERT_TRUE(accepted.ok()) << accepted;
    ASSERT_EQ(store_->AppendJournal(BatchRecord(1 + round, {0})).value(), 1 + round);
    EXPECT_EQ(Get(*store_, "e")->calls_size(), 2 + round);
    if (round == 1) Reopen();
  }
  Reopen();
  EXPECT_EQ(Get(*store_, "e")->calls_size(), 4);
  EXPECT_EQ(Get(*store_, "e")->segments_size(), 2 + 3);
  EXPECT_EQ(store_->Status()->journal_end(), 4);
  EXPECT_EQ(store_->Status()->calls(), 4);
}

std::string NameOf(const ::testing::TestParamInfo<Fault>& info) {
  static constexpr const char* kNames[] = {"None", "Full", "Broken", "Torn", "SyncFails"};
  return kNames[static_cast<int>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Faults, StoreFaultKindsTest,
                         ::testing::Values(Fault::kFull, Fault::kBroken, Fault::kTorn, Fault::kSyncFails), NameOf);

TEST_F(StoreFaultsTest, ATornWriteIsForgottenOnReopening) {
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 0, 0)).ok());
  disk_->fault = Fault::kTorn;
  EXPECT_FALSE(store_->StoreEpisode(Open("torn", 0, 1)).ok());
  disk_->fault = Fault::kNone;
  Reopen();
  EXPECT_TRUE(Get(*store_, "e").ok());
  EXPECT_EQ(Get(*store_, "torn").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(store_->StoreEpisode(Open("torn", 0, 1)).ok());
}

TEST_F(StoreFaultsTest, APoolOnAFullDiskOpensForReading) {
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 0, 0)).ok());
  disk_->fault = Fault::kFull;
  EXPECT_EQ(Store::Open(options_, 0, clock_, env_.get()).status().code(), absl::StatusCode::kUnavailable)
      << "another has it open";
  disk_->fault = Fault::kNone;
  store_.reset();
  disk_->fault = Fault::kFull;
  auto opened = Store::Open(options_, 0, clock_, env_.get());
  ASSERT_TRUE(opened.ok()) << opened.status();
  store_ = *std::move(opened);
  EXPECT_EQ(Get(*store_, "e")->episode().task().task_id(), "task-0");
  const absl::Status rejected = store_->StoreEpisode(Open("f", 1, 0));
  EXPECT_EQ(rejected.code(), absl::StatusCode::kResourceExhausted) << rejected;
  EXPECT_THAT(std::string(rejected.message()), HasSubstr("automatically"));
  disk_->fault = Fault::kNone;
  clock_.Advance(std::chrono::seconds(2));
  EXPECT_TRUE(store_->StoreEpisode(Open("f", 1, 0)).ok());
  // A full disk without a pool gives nothing to read.
  StoreOptions empty = options_;
  empty.path += "/empty";
  disk_->fault = Fault::kFull;
  const absl::Status none = Store::Open(empty, 0, clock_, env_.get()).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kResourceExhausted) << none;
}

// Two readers, at least one of them always inside: each leaves when the other has come, or after 200 ms.
TEST_F(StoreFaultsTest, AStreamOfReadersDoesNotPreventRecovery) {
  store_.reset();
  auto database = RocksDatabase::Open(options_, "shard 0 of 1", clock_, env_.get()).value();
  {
    auto batch = database->NewBatch();
    batch->Put(kMeta, "key", "value");
    disk_->fault = Fault::kFull;
    EXPECT_FALSE(database->Write(*batch).ok());
    disk_->fault = Fault::kNone;
  }
  clock_.Advance(std::chrono::seconds(2));
  std::atomic<int> newest{-1}, reads{0};
  std::atomic<bool> end{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&, i] {
      while (!end) {
        const std::unique_ptr<Database::Reader> reader = database->Read();
        newest = i;
        ++reads;
        const auto start = std::chrono::steady_clock::now();
        while (newest == i && !end && std::chrono::steady_clock::now() - start < std::chrono::milliseconds(200)) {
          std::this_thread::yield();
        }
      }
    });
  }
  while (reads < 100) std::this_thread::yield();
  auto recovery = std::async(std::launch::async, [&] { return database->Recover(); });
  EXPECT_EQ(recovery.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  end = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(recovery.get().ok());
}

// A record whose write failed is still in the files. Sent again it is recognised, and no other record takes its index.
TEST_F(StoreFaultsTest, AJournalRecordThatSurvivedItsFailedWriteIsRecognised) {
  v1::AppendJournalRequest first = BatchRecord(0, {0}), other = BatchRecord(0, {1});
  first.set_expected_index(0);
  other.set_expected_index(0);
  disk_->fault = Fault::kSyncFails;
  EXPECT_FALSE(store_->AppendJournal(first).ok());
  EXPECT_TRUE(
      store_->ReadJournal(v1::ReadJournalRequest())->records().empty());  // invisible until the files are reopened
  disk_->fault = Fault::kNone;
  clock_.Advance(std::chrono::seconds(2));
  EXPECT_EQ(store_->AppendJournal(other).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(store_->AppendJournal(first).value(), 0);
  EXPECT_EQ(store_->Status()->journal_end(), 1);
}

TEST_F(StoreFaultsTest, ADamagedTableFileIsDataLoss) {
  // Enough records for table files whose middle can be damaged.
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 0, 0)).ok());
  std::vector<int32_t> ids(100000);
  for (int i = 0; i < 12; ++i) {
    for (size_t j = 0; j < ids.size(); ++j) ids[j] = static_cast<int32_t>(i + j * 7919 % 100003);
    ASSERT_TRUE(store_->AppendCall(Append("e", i, {Prompt(ids)}, {})).ok());
  }
  Reopen();
  store_.reset();
  int damaged = 0;
  for (const auto& file : std::filesystem::directory_iterator(dir_.path())) {
    if (file.path().extension() != ".sst" || file.file_size() < 100000) continue;
    std::fstream stream(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(file.file_size() / 2));
    stream.write("damage damage damage", 20);
    ++damaged;
  }
  ASSERT_GT(damaged, 0);
  const auto opened = Store::Open(options_, 0, clock_, env_.get());
  const absl::Status status = opened.ok() ? Get(**opened, "e").status() : opened.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("damaged"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("restore"));
}

TEST_F(StoreFaultsTest, ADamagedLogRecordIsDataLoss) {
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(store_->StoreEpisode(Open("e" + std::to_string(i), i, 0)).ok());
  // The files of a process that died: the records are in the log alone.
  testing::TempDir copy;
  std::filesystem::copy(dir_.path(), copy.path(),
                        std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  for (const auto& file : std::filesystem::directory_iterator(copy.path())) {
    if (file.path().extension() != ".log" || file.file_size() < 1000) continue;
    std::fstream stream(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(600);
    stream.write("\xff\xff\xff\xff", 4);
  }
  StoreOptions options = options_;
  options.path = copy.path();
  const auto opened = Store::Open(options, 0, clock_);
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kDataLoss) << opened.status();
}

TEST_F(StoreFaultsTest, AnErrorNamesAFolderThatCannotBeMade) {
  StoreOptions options = options_;
  options.path = "/proc/nowhere/pool";
  const auto status = Store::Open(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/proc/nowhere/pool"));
}

}  // namespace
}  // namespace ingot::datapool
