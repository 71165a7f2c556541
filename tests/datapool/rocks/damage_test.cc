// One flipped bit in each kind of RocksDB's files, and files that are gone. The
// pool then shows all that was acknowledged, or says that it is damaged and how
// the run goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/rng.h"
#include "datapool/make_pool.h"

namespace ingot::datapool {
namespace {

namespace fs = std::filesystem;
using testing::Append;
using testing::BatchRecord;
using testing::End;
using ::testing::HasSubstr;
using testing::Open;
using testing::Prompt;
using testing::Sampled;

std::string ReadAll(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}
void WriteAll(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

// CURRENT, MANIFEST, log, sst, OPTIONS, ...
std::string KindOf(const fs::path& path) {
  const std::string name = path.filename().string();
  if (path.extension() == ".log" || path.extension() == ".sst") return path.extension().string().substr(1);
  return name.substr(0, name.find('-'));
}

// All that the pool holds, as text.
absl::StatusOr<std::string> ContentOf(Client& pool) {
  std::string text;
  for (EpisodePages pages(pool, v1::PURPOSE_TRAIN, 0, -1); !pages.done();) {
    INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
    for (const v1::Episode& episode : page.episodes()) {
      INGOT_ASSIGN_OR_RETURN(const v1::EpisodeTree tree, testing::Get(pool, episode.episode_id()));
      absl::StrAppend(&text, tree.episode().ShortDebugString(), "\n");
      for (const v1::Call& call : tree.calls()) absl::StrAppend(&text, call.ShortDebugString(), "\n");
      absl::StrAppend(&text, tree.segments_size(), "\n");
    }
  }
  INGOT_ASSIGN_OR_RETURN(v1::ReadJournalResponse journal, pool.ReadJournal({}));
  for (v1::JournalRecord& record : *journal.mutable_records()) {
    record.clear_unix_ns();
    absl::StrAppend(&text, record.ShortDebugString(), "\n");
  }
  INGOT_ASSIGN_OR_RETURN(v1::PoolStatusResponse status, pool.Status());
  status.clear_bytes_on_disk();
  return text + status.ShortDebugString();
}

// Names of the tables that the MANIFEST lists.
std::set<std::string> ListedTables(const std::string& shard) {
  std::vector<std::string> names;
  EXPECT_TRUE(rocksdb::DB::ListColumnFamilies({}, shard, &names).ok());
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) families.emplace_back(name, rocksdb::ColumnFamilyOptions());
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  EXPECT_TRUE(rocksdb::DB::OpenForReadOnly({}, shard, families, &handles, &db).ok());
  std::vector<rocksdb::LiveFileMetaData> files;
  db->GetLiveFilesMetaData(&files);
  std::set<std::string> tables;
  for (const rocksdb::LiveFileMetaData& file : files) tables.insert(file.name.substr(file.name.find_last_of('/') + 1));
  for (rocksdb::ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle);
  delete db;
  return tables;
}

class DamageTest : public ::testing::Test {
 protected:
  DamageTest() {
    spdlog::set_level(spdlog::level::off);  // each damaged pool logs lines
    // Records in tables and, behind them, in the log, as a process that died
    // leaves them.
    auto pool = OpenPool(testing::QuickOptions(dir_.path())).value();
    Write(*pool, 0, 3);
    pool.reset();
    pool = OpenPool(testing::QuickOptions(dir_.path())).value();
    Write(*pool, 3, 6);
    content_ = ContentOf(*pool).value();
    std::error_code vanished;  // RocksDB deletes files of earlier opens at its own time
    do {
      vanished.clear();
      fs::remove_all(Shard());
      fs::copy(dir_.path() + "/shard-0", Shard(), fs::copy_options::recursive, vanished);
    } while (vanished);
  }
  ~DamageTest() override { spdlog::set_level(spdlog::level::info); }
  void Write(Client& pool, int from, int to) {
    for (int i = from; i < to; ++i) {
      const std::string id = "e" + std::to_string(i);
      ASSERT_TRUE(pool.StoreEpisode(Open(id, i, 0)).ok());
      ASSERT_TRUE(pool.AppendCall(Append(id, 0, {Prompt({1, 2, i})}, {Sampled({4, 5})})).ok());
      ASSERT_TRUE(pool.StoreEnd(End(id)).ok());
      ASSERT_EQ(pool.AppendJournal(BatchRecord(i, {i})).value(), i);
    }
  }
  std::string Pool() const { return copy_.path() + "/pool"; }
  std::string Shard() const {
    fs::create_directories(Pool());
    return Pool() + "/shard-0";
  }

  // What a run sees of the pool in the copy's files.
  absl::StatusOr<std::string> Seen() {
    const absl::StatusOr<std::unique_ptr<Client>> pool = OpenPool(testing::QuickOptions(Pool()));
    if (!pool.ok()) return pool.status();
    return ContentOf(**pool);
  }
  // Opening changes files.
  void Restore() {
    fs::remove_all(Shard());
    for (const auto& [path, bytes] : files_) {
      fs::create_directories(path.parent_path());
      WriteAll(path, bytes);
    }
  }
  // Leaves out tables that RocksDB was still writing when the pool was closed: nothing is in them alone.
  void RememberFiles() {
    const std::set<std::string> tables = ListedTables(Shard());
    for (const auto& file : fs::directory_iterator(Shard())) {
      if (KindOf(file.path()) == "sst" && !tables.contains(file.path().filename())) continue;
      files_[file.path()] = ReadAll(file.path());
    }
  }

  testing::TempDir dir_, copy_;
  std::string content_;
  std::map<fs::path, std::string> files_;
};

// Bits of the headers of a log file's records: one of the checksum, all of length and type.
std::vector<int64_t> HeaderBits(const std::string& bytes) {
  constexpr size_t kBlock = 32768, kHeader = 7, kChecksum = 4;
  std::vector<int64_t> bits;
  for (size_t at = 0; at + kHeader <= bytes.size();) {
    if (kBlock - at % kBlock < kHeader) {
      at += kBlock - at % kBlock;
      continue;
    }
    bits.push_back(static_cast<int64_t>(8 * at));
    for (size_t bit = 8 * kChecksum; bit < 8 * kHeader; ++bit) bits.push_back(static_cast<int64_t>(8 * at + bit));
    at += kHeader + static_cast<unsigned char>(bytes[at + 4]) + 256 * static_cast<unsigned char>(bytes[at + 5]);
  }
  return bits;
}

// All that was acknowledged, or the damage with the file's name and the way on.
void ExpectSoundOrSaid(const absl::StatusOr<std::string>& seen, const std::string& content, const std::string& pool,
                       const fs::path& file) {
  if (seen.ok()) {
    EXPECT_EQ(*seen, content);
    return;
  }
  EXPECT_EQ(seen.status().code(), absl::StatusCode::kDataLoss) << seen.status();
  EXPECT_THAT(std::string(seen.status().message()),
              ::testing::AllOf(HasSubstr("is damaged ("), HasSubstr(file.filename().string()),
                               HasSubstr("restore " + pool + " from a backup. "),
                               HasSubstr("with an empty pool: mv " + pool + " " + pool +
                                         ".damaged, then start the run again with --resume")));
}

TEST_F(DamageTest, OneFlippedBitIsFoundAndTheWayOnIsSaid) {
  RememberFiles();
  uint64_t draws = 0;
  std::map<std::string, int> found;
  std::set<std::string> kinds;
  for (const auto& [path, bytes] : files_) {
    const std::string kind = KindOf(path);
    const auto bits = 8 * static_cast<int64_t>(bytes.size());
    std::vector<int64_t> tried;
    if (kind == "log" || kind == "MANIFEST") tried = HeaderBits(bytes);
    for (int64_t bit = 0; kind == "CURRENT" && bit < bits; ++bit) tried.push_back(bit);
    // The end of a table names its format. One is enough.
    for (int64_t bit = bits - 8 * 60; kind == "sst" && !kinds.contains(kind) && bit < bits; ++bit) tried.push_back(bit);
    for (int i = 0; i < 20 && bits > 0; ++i) {
      tried.push_back(static_cast<int64_t>(base::UniformAt(1, draws++) * static_cast<double>(bits)));
    }
    kinds.insert(kind);
    for (const int64_t bit : tried) {
      SCOPED_TRACE(path.filename().string() + ", byte " + std::to_string(bit / 8) + ", bit " + std::to_string(bit % 8));
      Restore();
      std::string flipped = bytes;
      flipped[static_cast<size_t>(bit / 8)] = static_cast<char>(flipped[static_cast<size_t>(bit / 8)] ^ (1 << bit % 8));
      WriteAll(path, flipped);
      const absl::StatusOr<std::string> seen = Seen();
      ExpectSoundOrSaid(seen, content_, Pool(), path);
      if (!seen.ok()) ++found[kind];
      if (HasFailure()) return;
    }
  }
  for (const char* kind : {"CURRENT", "MANIFEST", "log", "sst"}) EXPECT_GT(found[kind], 20) << kind;
}

TEST_F(DamageTest, AFileThatIsGoneIsFound) {
  RememberFiles();
  for (const auto& [path, bytes] : files_) {
    const std::string kind = KindOf(path);
    if (kind == "log") continue;  // RocksDB does not count its logs
    SCOPED_TRACE(path.filename().string());
    Restore();
    fs::remove(path);
    const absl::StatusOr<std::string> seen = Seen();
    ExpectSoundOrSaid(seen, content_, Pool(), path.stem());  // RocksDB asks last for a table with an older ending
    EXPECT_EQ(seen.ok(), kind != "CURRENT" && kind != "MANIFEST" && kind != "sst");
  }
}

// A record that a crash cut was never acknowledged: it is no damage, wherever
// the log ends.
TEST_F(DamageTest, ALogThatACrashCutAnywhereIsNoDamage) {
  RememberFiles();
  for (const auto& [path, bytes] : files_) {
    if (KindOf(path) != "log") continue;
    for (size_t end = 0; end < bytes.size(); end += 37) {
      SCOPED_TRACE(std::to_string(end) + " of " + std::to_string(bytes.size()));
      Restore();
      WriteAll(path, bytes.substr(0, end));
      const absl::StatusOr<std::string> seen = Seen();
      EXPECT_TRUE(seen.ok()) << seen.status();
    }
  }
}

}  // namespace
}  // namespace ingot::datapool
