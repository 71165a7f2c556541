#include "datapool/rocks/rocks_database.h"

#include <rocksdb/sst_file_reader.h>
#include <rocksdb/utilities/write_batch_with_index.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "datapool/rocks/file_damage.h"
#include "datapool/rocks/rocks_options.h"

namespace ingot::datapool {
namespace {

constexpr const char* kFamilyNames[kFamilies] = {"default",  "episodes",      "order",   "calls",  "call_ids",
                                                 "segments", "segment_infos", "journal", "appends"};

constexpr auto kUnlockedTimeout = std::chrono::seconds(60);

// Returns the file that contains the name of the current list of tables.
std::string CurrentFile(const std::string& folder) { return folder + "/CURRENT"; }

// Returns the name of the current list of tables.
std::string TablesName(const std::string& folder) {
  std::string name;
  std::ifstream file(CurrentFile(folder));
  std::getline(file, name);
  return name;
}

rocksdb::Slice AsSlice(std::string_view text) { return {text.data(), text.size()}; }

template <typename Iterator>
absl::Status ScanWith(Iterator& it, const std::string& prefix, const std::string& from, const Database::Visit& visit,
                      const std::function<absl::Status(const rocksdb::Status&)>& translate) {
  for (it.Seek(AsSlice(from)); it.Valid() && it.key().starts_with(AsSlice(prefix)); it.Next()) {
    if (!visit({it.key().data(), it.key().size()}, {it.value().data(), it.value().size()})) break;
  }
  return translate(it.status());
}

}  // namespace

// A snapshot, which keeps the files open.
class RocksDatabase::RocksReader final : public Reader {
 public:
  explicit RocksReader(const RocksDatabase& database)
      : database_(database),
        lock_(database.Enter()),
        snapshot_(database.db_ == nullptr ? nullptr : database.db_->GetSnapshot()) {}
  ~RocksReader() override {
    if (snapshot_ != nullptr) database_.db_->ReleaseSnapshot(snapshot_);
  }

  absl::StatusOr<std::string> Get(Family family, const std::string& key) const override {
    if (snapshot_ == nullptr) return database_.error_;
    std::string value;
    const rocksdb::Status status = database_.db_->Get(AtSnapshot(), database_.families_[family], AsSlice(key), &value);
    if (status.IsNotFound()) return absl::NotFoundError("");
    INGOT_RETURN_IF_ERROR(database_.Translate(status));
    return value;
  }

  absl::Status Scan(Family family, const std::string& prefix, const std::string& from,
                    const Visit& visit) const override {
    if (snapshot_ == nullptr) return database_.error_;
    const std::unique_ptr<rocksdb::Iterator> it(database_.db_->NewIterator(AtSnapshot(), database_.families_[family]));
    return ScanWith(*it, prefix, from, visit, [this](const auto& status) { return database_.Translate(status); });
  }

  absl::StatusOr<std::string> LastKey(Family family) const override {
    if (snapshot_ == nullptr) return database_.error_;
    const std::unique_ptr<rocksdb::Iterator> it(database_.db_->NewIterator(AtSnapshot(), database_.families_[family]));
    it->SeekToLast();
    if (!it->Valid() && it->status().ok()) return absl::NotFoundError("");
    INGOT_RETURN_IF_ERROR(database_.Translate(it->status()));
    return it->key().ToString();
  }

  absl::Status Damaged(const std::string& how) const override { return database_.Damaged(how); }

  int64_t BytesOnDisk() const override {
    int64_t total = 0;
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator(database_.options_.path, error)) {
      std::error_code gone;  // RocksDB deletes files at any time
      const auto bytes = file.file_size(gone);
      if (!gone) total += static_cast<int64_t>(bytes);
    }
    return total;
  }

 private:
  rocksdb::ReadOptions AtSnapshot() const {
    rocksdb::ReadOptions options;
    options.snapshot = snapshot_;
    return options;
  }

  const RocksDatabase& database_;
  const std::shared_lock<std::shared_mutex> lock_;
  const rocksdb::Snapshot* const snapshot_;
};

class RocksDatabase::RocksBatch final : public Batch {
 public:
  explicit RocksBatch(const RocksDatabase& database)
      : database_(database), lock_(database.Enter()), batch_(rocksdb::BytewiseComparator(), 0, true) {}

  absl::StatusOr<std::string> Get(Family family, const std::string& key) override {
    if (database_.db_ == nullptr) return database_.error_;
    std::string value;
    const rocksdb::Status status = batch_.GetFromBatchAndDB(database_.db_.get(), rocksdb::ReadOptions(),
                                                            database_.families_[family], AsSlice(key), &value);
    if (status.IsNotFound()) return absl::NotFoundError("");
    INGOT_RETURN_IF_ERROR(database_.Translate(status));
    return value;
  }

  void Put(Family family, const std::string& key, const std::string& value) override {
    batch_.Put(database_.families_[family], AsSlice(key), AsSlice(value));
  }
  void Delete(Family family, const std::string& key) override {
    batch_.Delete(database_.families_[family], AsSlice(key));
  }

  absl::Status Scan(Family family, const std::string& prefix, const Visit& visit) override {
    if (database_.db_ == nullptr) return database_.error_;
    rocksdb::ColumnFamilyHandle* const handle = database_.families_[family];
    const std::unique_ptr<rocksdb::Iterator> it(
        batch_.NewIteratorWithBase(handle, database_.db_->NewIterator(rocksdb::ReadOptions(), handle)));
    return ScanWith(*it, prefix, prefix, visit, [this](const auto& status) { return database_.Translate(status); });
  }

  void SetSavePoint() override { batch_.SetSavePoint(); }
  absl::Status RollbackToSavePoint() override { return database_.Translate(batch_.RollbackToSavePoint()); }
  void ReleaseSavePoint() override { batch_.PopSavePoint(); }
  bool empty() override { return writes()->Count() == 0; }
  size_t bytes() override { return writes()->GetDataSize(); }
  rocksdb::WriteBatch* writes() { return batch_.GetWriteBatch(); }

 private:
  const RocksDatabase& database_;
  const std::shared_lock<std::shared_mutex> lock_;
  rocksdb::WriteBatchWithIndex batch_;
};

std::unique_ptr<Database::Reader> RocksDatabase::Read() const { return std::make_unique<RocksReader>(*this); }

std::unique_ptr<Database::Batch> RocksDatabase::NewBatch() { return std::make_unique<RocksBatch>(*this); }

RocksDatabase::RocksDatabase(const StoreOptions& options, const base::Clock& clock, rocksdb::Env* env)
    : options_(options), clock_(clock), env_(env) {}

RocksDatabase::~RocksDatabase() { CloseFiles(); }

absl::StatusOr<std::unique_ptr<RocksDatabase>> RocksDatabase::Open(const StoreOptions& options,
                                                                   const std::string& layout, const base::Clock& clock,
                                                                   rocksdb::Env* env) {
  std::unique_ptr<RocksDatabase> database(new RocksDatabase(options, clock, env));
  if (options.read_only) {
    INGOT_RETURN_IF_ERROR(database->OpenUnlocked());
    INGOT_RETURN_IF_ERROR(CheckSchema(*database, database->Place(), layout, options.read_only));
    return database;
  }
  std::error_code error;
  std::filesystem::create_directories(options.path, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot create the pool's folder ", options.path, ": ", error.message()));
  }
  if (absl::Status opened = database->OpenFiles(false); !opened.ok()) {
    // Opening for writing needs free space. The pool opens for reading, as after a failed write.
    if (!absl::IsResourceExhausted(opened) || !database->OpenFiles(true).ok()) return opened;
    database->Fail(opened);
  }
  INGOT_RETURN_IF_ERROR(CheckSchema(*database, database->Place(), layout, options.read_only));
  return database;
}

std::shared_lock<std::shared_mutex> RocksDatabase::Enter() const {
  base::MutexLock entry(entry_);
  return std::shared_lock<std::shared_mutex>(mu_);
}

absl::Status RocksDatabase::CheckTables(const rocksdb::Options& rocks) const {
  std::vector<std::string> present;
  if (!rocksdb::DB::ListColumnFamilies(rocks, options_.path, &present).ok()) return absl::OkStatus();  // no files yet
  const std::set<std::string> known(std::begin(kFamilyNames), std::end(kFamilyNames));
  std::erase_if(present, [&](const std::string& name) { return known.contains(name); });
  if (present.empty()) return absl::OkStatus();
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  std::string schema;
  if (rocksdb::DB::OpenForReadOnly(rocks, options_.path, {{kFamilyNames[kMeta], rocks}}, &handles, &db).ok()) {
    if (!db->Get(rocksdb::ReadOptions(), handles[0], "schema", &schema).ok()) schema.clear();
    db->DestroyColumnFamilyHandle(handles[0]);
    delete db;
  }
  if (!schema.empty() && schema != kSchema) return AnotherSchema(Place(), schema);
  return absl::FailedPreconditionError(
      absl::StrCat("the pool at ", options_.path, " contains a table '", present[0], "' that schema '", kSchema,
                   "' does not have: open it with the version of ingot that created it, or choose another path"));
}

absl::Status RocksDatabase::CheckFiles(bool thorough) const {
  namespace fs = std::filesystem;
  std::error_code error;
  const bool named = fs::exists(CurrentFile(options_.path), error);
  if (const std::string tables = TablesName(options_.path); named && !fs::exists(options_.path + "/" + tables, error)) {
    return Damaged(absl::StrCat("CURRENT refers to '", base::Printable(tables), "', which does not exist"));
  }
  for (const auto& file : fs::directory_iterator(options_.path, error)) {
    const std::string name = file.path().filename().string(), kind = file.path().extension().string();
    if (!named && (kind == ".sst" || kind == ".log")) {  // RocksDB would create a new database and delete the file
      return Damaged(absl::StrCat("CURRENT is missing, but ", name, " exists"));
    }
    std::string damage;
    if (kind == ".log" || name.starts_with("MANIFEST-")) damage = DamagedLog(file.path().string(), thorough);
    if (kind == ".sst") damage = DamagedFooter(file.path().string());
    // RocksDB itself reports listed tables without a footer. It was still writing the unlisted ones.
    if (kind == ".sst" && damage.empty() && thorough && EndsAsTable(file.path().string())) {
      rocksdb::SstFileReader table(RocksOptions(options_, env_));
      if (const rocksdb::Status opened = table.Open(file.path().string()); opened.IsCorruption()) {
        damage = opened.ToString();
      }
    }
    if (!damage.empty()) return Damaged(absl::StrCat(name, ": ", damage));
  }
  return absl::OkStatus();
}

absl::Status RocksDatabase::OpenFiles(bool read_only) {
  INGOT_RETURN_IF_ERROR(CheckFiles(/*thorough=*/false));
  const rocksdb::Options rocks = RocksOptions(options_, env_);
  INGOT_RETURN_IF_ERROR(CheckTables(rocks));
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (const char* name : kFamilyNames) descriptors.emplace_back(name, rocks);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = read_only
                                     ? rocksdb::DB::OpenForReadOnly(rocks, options_.path, descriptors, &handles, &db)
                                     : rocksdb::DB::Open(rocks, options_.path, descriptors, &handles, &db);
  if (!status.ok()) {
    if (status.IsIOError() && status.ToString().find("lock") != std::string::npos) {
      return absl::UnavailableError(absl::StrCat(
          "the pool at ", options_.path,
          " is open in another process: stop that process first, or choose another path (", status.ToString(), ")"));
    }
    // If a table is damaged, RocksDB reports only the list of tables. It never reports a log.
    if (status.IsCorruption()) INGOT_RETURN_IF_ERROR(CheckFiles(/*thorough=*/true));
    return base::Annotate(Translate(status), "opening the pool at " + options_.path);
  }
  db_.reset(db);
  read_only_ = read_only;
  std::copy(handles.begin(), handles.end(), families_.begin());
  return absl::OkStatus();
}

std::string RocksDatabase::TablesState() const {
  const std::string current = TablesName(options_.path);
  std::error_code gone;
  return absl::StrCat(current, " ", std::filesystem::file_size(options_.path + "/" + current, gone));
}

absl::Status RocksDatabase::OpenUnlocked() {
  std::error_code unreadable;
  if (!std::filesystem::exists(CurrentFile(options_.path), unreadable)) {
    if (unreadable) return absl::UnavailableError(absl::StrCat(options_.path, ": ", unreadable.message()));
    return absl::NotFoundError(absl::StrCat("there is no pool at ", options_.path));
  }
  // A writer that flushes its log may delete the log before it is read, or a table before it is opened. A busy machine
  // may open files more slowly than a busy writer changes them, so the limit is a time, not a count.
  const auto deadline = std::chrono::steady_clock::now() + kUnlockedTimeout;
  while (std::chrono::steady_clock::now() < deadline) {
    const std::string before = TablesState();
    const absl::Status opened = OpenFiles(true);
    const bool stable = TablesState() == before;
    if (stable) return opened;
    CloseFiles();
  }
  return absl::UnavailableError(
      absl::StrCat("the pool at ", options_.path, " changes too fast to be opened for reading: try again"));
}

void RocksDatabase::CloseFiles() {
  if (db_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle*& handle : families_) {
    db_->DestroyColumnFamilyHandle(handle);
    handle = nullptr;
  }
  db_.reset();
}

absl::Status RocksDatabase::CheckWritable() const {
  if (!options_.read_only) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the pool at ", options_.path, " is open read-only"));
}

absl::Status RocksDatabase::Write(Batch& batch) {
  INGOT_RETURN_IF_ERROR(CheckWritable());
  if (failed_ || read_only_) return error_;
  rocksdb::WriteOptions options;
  options.sync = options_.sync;
  const rocksdb::Status status = db_->Write(options, static_cast<RocksBatch&>(batch).writes());
  if (!status.ok()) {
    Fail(Translate(status));
    return error_;
  }
  return absl::OkStatus();
}

void RocksDatabase::Fail(const absl::Status& error) {
  error_ = error;
  failed_ = true;
  next_attempt_ = clock_.Now() + base::FromSeconds(options_.retry_after_error_s);
  INGOT_LOG(error, "{}", std::string(error_.message()));
}

absl::Status RocksDatabase::Recover() {
  if (!failed_) return absl::OkStatus();
  if (clock_.Now() < next_attempt_) return error_;
  next_attempt_ = clock_.Now() + base::FromSeconds(options_.retry_after_error_s);
  base::MutexLock entry(entry_);
  std::unique_lock<std::shared_mutex> lock(mu_);
  // Does not use DB::Resume, which may continue the log whose write failed; RocksDB then aborts the process at the next
  // write to it.
  CloseFiles();
  if (absl::Status status = OpenFiles(false); !status.ok()) {
    error_ = status;
    // The durable records remain readable.
    if (absl::Status fallback = OpenFiles(true); !fallback.ok())
      INGOT_LOG(error, "{}", std::string(fallback.message()));
    return error_;
  }
  failed_ = false;
  error_ = absl::OkStatus();
  INGOT_LOG(info, "the pool at {} accepts writes again", options_.path);
  return absl::OkStatus();
}

absl::Status RocksDatabase::Damaged(const std::string& how) const {
  namespace fs = std::filesystem;
  const fs::path shard(options_.path);
  const std::string pool =
      shard.filename().string().starts_with("shard-") ? shard.parent_path().string() : options_.path;
  return absl::DataLossError(absl::StrCat("the pool at ", options_.path, " is damaged (", how, "): restore ", pool,
                                          " from a backup", PoolRecoveryHint(pool)));
}

absl::Status RocksDatabase::Translate(const rocksdb::Status& status) const {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.ToString();
  if (status.IsNoSpace() || status.subcode() == rocksdb::Status::SubCode::kSpaceLimit) {
    return absl::ResourceExhaustedError(absl::StrCat("the disk of the pool at ", options_.path,
                                                     " is full: free some space, and the pool resumes automatically (",
                                                     text, ")"));
  }
  // RocksDB records the names of its files in other files, so a missing file was lost or renamed.
  if (status.IsCorruption() || status.IsPathNotFound()) return Damaged(text);
  if (status.IsIOError()) {
    return absl::UnavailableError(absl::StrCat("I/O of the pool at ", options_.path,
                                               " failed: check its disk and limits; it retries automatically (", text,
                                               ")"));
  }
  if (status.IsInvalidArgument() || status.IsNotSupported()) return absl::InternalError(text);
  return absl::UnavailableError(text);
}

}  // namespace ingot::datapool
