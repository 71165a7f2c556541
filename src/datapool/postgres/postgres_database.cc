#include "datapool/postgres/postgres_database.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "base/checksum.h"
#include "base/config.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/random.h"
#include "datapool/postgres/postgres_commits.h"
#include "datapool/postgres/postgres_connection.h"
#include "datapool/postgres/postgres_records.h"
#include "datapool/postgres/postgres_servers.h"

namespace ingot::datapool {
namespace {

constexpr size_t kIdleReaders = 8;          // maximum number of idle reader connections
constexpr char kConnected[] = "connected";  // the `meta` key that a new connection writes

// The settings that CheckDurable examines.
constexpr char kDurability[] =
    "select current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'), "
    "current_setting('synchronous_standby_names'), pg_is_in_recovery()";

// Returns FAILED_PRECONDITION if a server with these settings could lose an acknowledged commit.
absl::Status CheckDurable(const PostgresConnection& connection, const PostgresRows& rows, bool allow_single) {
  const auto reject = [&](const std::string& setting, int column, const std::string& wanted) {
    return absl::FailedPreconditionError(absl::StrCat("PostgreSQL at ", connection.host(), " has ", setting, " = '",
                                                      std::string(rows.Value(0, column)),
                                                      "': acknowledged records could be lost. Set ", wanted));
  };
  if (rows.Value(0, 4) != "f") {
    return absl::UnavailableError(absl::StrCat("PostgreSQL at ", connection.host(), " is a standby: it is read-only"));
  }
  if (rows.Value(0, 0) != "on") return reject("fsync", 0, "fsync = on");
  if (rows.Value(0, 1) != "on") return reject("full_page_writes", 1, "full_page_writes = on");
  if (rows.Value(0, 2) != "on" && rows.Value(0, 2) != "remote_apply") {
    return reject("synchronous_commit", 2, "synchronous_commit = on");
  }
  if (rows.Value(0, 3).empty() && !allow_single) {
    return reject("synchronous_standby_names", 3,
                  "a synchronous standby, or datapool.postgres.allow_single: true if one disk is enough");
  }
  connection.lead()->replicates = !rows.Value(0, 3).empty();
  return absl::OkStatus();
}

class PostgresDatabase final : public Database {
 public:
  PostgresDatabase(const PostgresOptions& options, int shard, const std::string& layout, const base::Clock& clock)
      : options_(options),
        servers_(*options_.servers),
        clock_(clock),
        layout_(layout),
        schema_(absl::StrCat("ingot_", options.name, "_", shard)),
        sql_(schema_),
        commits_{sql_.table, absl::StrCat("commits ", base::RandomHex(8)), options.run_id, 0, ""},
        lock_(static_cast<int64_t>(base::Checksum64(schema_))) {}
  ~PostgresDatabase() override { servers_.Forget(commits_.key); }

  absl::Status Open() {
    INGOT_ASSIGN_OR_RETURN(writer_, ConnectWriter());
    if (options_.read_only) {
      INGOT_ASSIGN_OR_RETURN(const bool made, HasTables());
      if (!made) return absl::NotFoundError(absl::StrCat("there is no pool in ", sql_.table));
      return CheckStored();
    }
    INGOT_RETURN_IF_ERROR(MakeTables());
    INGOT_RETURN_IF_ERROR(CheckRun());
    INGOT_RETURN_IF_ERROR(CheckSchema(*this, Place(), layout_, false));
    opened_ = true;
    // Written under the lock, so the last commit of a dead process is either present now or will never be.
    const std::unique_ptr<Batch> batch = NewBatch();
    batch->Put(kMeta, kConnected, "");
    return Write(*batch);
  }

  // Checks whether Open can succeed. Changes nothing.
  absl::Status Check() {
    INGOT_ASSIGN_OR_RETURN(writer_, ConnectWriter());
    INGOT_ASSIGN_OR_RETURN(const bool made, HasTables());
    if (made) return CheckStored();
    INGOT_ASSIGN_OR_RETURN(const PostgresRows rows,
                           writer_->Execute("select has_database_privilege(current_database(), 'CREATE'), "
                                            "current_user, current_database()"));
    if (rows.Value(0, 0) == "t") return absl::OkStatus();
    const std::string user(rows.Value(0, 1)), database(rows.Value(0, 2));
    return absl::FailedPreconditionError(absl::StrCat("the user '", user,
                                                      "' is not allowed to create a schema in the database '", database,
                                                      "': grant create on database ", database, " to ", user));
  }

  std::unique_ptr<Reader> Read() const override {
    return std::make_unique<PostgresReader>(sql_, BeginReading(),
                                            [this](std::unique_ptr<PostgresConnection> connection) {
                                              base::MutexLock lock(mu_);
                                              if (idle_.size() < kIdleReaders) idle_.push_back(std::move(connection));
                                            });
  }

  std::unique_ptr<Batch> NewBatch() override {
    absl::Status ready = absl::UnavailableError("PostgreSQL: not connected");
    if (writer_ != nullptr) {
      ready = WhileRunning(Begin());
    }
    return std::make_unique<PostgresBatch>(sql_, writer_.get(), std::move(ready));
  }

  absl::Status Write(Batch& batch) override {
    const int64_t commit = ++last_commit_;
    batch.Put(kMeta, commits_.key, std::to_string(commit));
    absl::Status written = static_cast<PostgresBatch&>(batch).Commit();
    if (written.ok()) written = servers_.Acknowledge(*writer_->lead(), commits_, commit);
    if (!written.ok()) INGOT_LOG(error, "{}", std::string(written.message()));
    return written;
  }

  bool failed() const override { return writer_ == nullptr || writer_->broken(); }
  bool shared() const override { return true; }

  absl::Status CheckWritable() const override {
    if (!options_.read_only) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(Place(), " is open read-only"));
  }

  absl::Status Recover() override {
    if (clock_.Now() < next_attempt_) return error_;
    next_attempt_ = clock_.Now() + base::FromSeconds(options_.retry_after_error_s);
    writer_.reset();
    absl::StatusOr<std::unique_ptr<PostgresConnection>> connection = ConnectWriter();
    error_ = WhileRunning(connection.status());
    if (connection.ok()) {
      writer_ = *std::move(connection);
      INGOT_LOG(info, "the pool in {} accepts writes again, on {}", sql_.table, writer_->lead()->name());
    }
    return error_;
  }

 private:
  std::string Place() const { return absl::StrCat("the pool in ", sql_.table); }

  // Returns a connection to the current leader.
  absl::StatusOr<std::unique_ptr<PostgresConnection>> ConnectWriter() const {
    INGOT_ASSIGN_OR_RETURN(std::unique_ptr<PostgresConnection> connection, servers_.ConnectLeader());
    INGOT_ASSIGN_OR_RETURN(const PostgresRows settings, connection->Execute(kDurability));
    INGOT_RETURN_IF_ERROR(CheckDurable(*connection, settings, options_.allow_single));
    if (opened_) INGOT_RETURN_IF_ERROR(AwaitStandbys(*connection));
    return connection;
  }

  // Returns a connection to the writer's server. A read-only pool has no writer, so it connects to the leader.
  absl::StatusOr<std::unique_ptr<PostgresConnection>> ConnectReader() const {
    absl::StatusOr<std::unique_ptr<PostgresConnection>> same = servers_.ConnectSame();
    if (same.ok() || !options_.read_only) return same;
    return servers_.ConnectLeader();
  }

  // Returns once the standbys have all commits that the server shows.
  absl::Status AwaitStandbys(PostgresConnection& connection) const {
    INGOT_RETURN_IF_ERROR(connection.Execute("begin").status());
    INGOT_RETURN_IF_ERROR(PutRecords(connection, sql_, {static_cast<int16_t>(kMeta)}, {kConnected}, {""}));
    return connection.Commit();
  }

  // Begins a batch's transaction under the shard's lock. Fails if a failover manager has removed the standbys during
  // the run, or if another run took over the pool.
  absl::Status Begin() {
    INGOT_ASSIGN_OR_RETURN(
        const PostgresRows settings,
        writer_->Execute(absl::StrCat(
            "begin; select pg_advisory_xact_lock(", lock_, "); ", kDurability,
            opened_ ? ", (select convert_from(value, 'UTF8') from " + sql_.table + " where family = 0 and key = 'run')"
                    : "")));
    absl::Status fit = CheckDurable(*writer_, settings, options_.allow_single);
    if (opened_ && settings.Value(0, 5) != options_.run_id) {
      fit = absl::FailedPreconditionError(absl::StrCat(Place(), " was taken by another run"));
    }
    if (!fit.ok()) (void)writer_->Execute("rollback");
    return fit;
  }

  // Once a run has started, it waits for its pool. To a caller, FAILED_PRECONDITION would mean that its mutation was
  // rejected.
  absl::Status WhileRunning(absl::Status status) const {
    if (!opened_ || !absl::IsFailedPrecondition(status)) return status;
    return absl::UnavailableError(status.message());
  }

  absl::StatusOr<bool> HasTables() {
    INGOT_ASSIGN_OR_RETURN(const PostgresRows rows, writer_->Execute("select to_regclass('" + sql_.table + "')"));
    return !rows.Value(0, 0).empty();
  }

  // Returns FAILED_PRECONDITION if the tables contain another run's pool, or another schema or layout.
  absl::Status CheckStored() {
    const absl::Status owned = CheckOwner();
    if (absl::IsNotFound(owned)) {  // the first Open stopped before it recorded an owner
      return options_.read_only ? absl::NotFoundError(absl::StrCat(Place(), " is empty")) : absl::OkStatus();
    }
    if (absl::IsFailedPrecondition(owned) && options_.replace) return absl::OkStatus();
    INGOT_RETURN_IF_ERROR(owned);
    return CheckSchema(*this, Place(), layout_, /*read_only=*/true);
  }

  // An idle connection may have been closed with its server, so a new connection is tried last.
  absl::StatusOr<std::unique_ptr<PostgresConnection>> BeginReading() const {
    while (true) {
      std::unique_ptr<PostgresConnection> connection = TakeIdle();
      const bool fresh = connection == nullptr;
      if (fresh) {
        INGOT_ASSIGN_OR_RETURN(connection, ConnectReader());
      }
      const absl::Status begun = connection->Execute("begin isolation level repeatable read read only").status();
      if (begun.ok()) return connection;
      if (fresh) return begun;
    }
  }

  // Returns nullptr if no connection is idle. Drops connections to a server that no longer leads.
  std::unique_ptr<PostgresConnection> TakeIdle() const {
    base::MutexLock lock(mu_);
    std::erase_if(idle_, [](const auto& connection) { return connection->broken(); });
    if (idle_.empty()) return nullptr;
    std::unique_ptr<PostgresConnection> connection = std::move(idle_.back());
    idle_.pop_back();
    return connection;
  }

  // The lock serializes concurrent first openings. Values are protobuf messages, so PostgreSQL's compression is
  // disabled.
  absl::Status MakeTables() {
    const std::string schema = PostgresConnection::Quoted(schema_);
    const absl::Status made =
        writer_
            ->Execute(absl::StrCat("begin; select pg_advisory_xact_lock(", lock_, "); create schema if not exists ",
                                   schema, "; create table if not exists ", sql_.table,
                                   " (family smallint, key bytea, value bytea not null, primary key (family, key)); "
                                   "alter table ",
                                   sql_.table, " alter column value set storage external"))
            .status();
    INGOT_RETURN_IF_ERROR(made);
    return writer_->Commit();
  }

  // Returns NOT_FOUND without a message if the pool has no owner, and FAILED_PRECONDITION if another run owns it.
  absl::Status CheckOwner() {
    INGOT_ASSIGN_OR_RETURN(const std::string owner, Read()->Get(kMeta, "run"));
    if (owner == options_.run_id) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("the pool '", options_.name,
                     "' belongs to another run, or RUN/pool/run_id was lost: choose another datapool.postgres.name. A "
                     "new run with run.if_exists: replace deletes the pool"));
  }

  // Checks that the pool belongs to this run, or assigns it to this run.
  absl::Status CheckRun() {
    const absl::Status owned = CheckOwner();
    if (owned.ok()) return absl::OkStatus();
    if (absl::IsFailedPrecondition(owned) && options_.replace) {
      INGOT_LOG(warn, "deleting the pool '{}' of another run (run.if_exists: replace)", options_.name);
      INGOT_RETURN_IF_ERROR(
          writer_->Execute("drop schema " + PostgresConnection::Quoted(schema_) + " cascade").status());
      INGOT_RETURN_IF_ERROR(MakeTables());
    } else if (!absl::IsNotFound(owned)) {
      return owned;
    }
    const std::unique_ptr<Batch> batch = NewBatch();
    batch->Put(kMeta, "run", options_.run_id);
    batch->Put(kMeta, "schema", kSchema);
    batch->Put(kMeta, "layout", layout_);
    return Write(*batch);
  }

  const PostgresOptions options_;  // includes its servers
  PostgresServers& servers_;
  const base::Clock& clock_;
  const std::string layout_;
  const std::string schema_;
  const PostgresStatements sql_;
  const PostgresCommits commits_;  // this process's commits, without an acknowledged number, which servers_ has
  const int64_t lock_;             // the advisory lock of the shard's writers
  bool opened_ = false;            // the tables exist and belong to this run; constant after Open
  // Used only by the thread that currently runs the commit queue.
  std::unique_ptr<PostgresConnection> writer_;
  int64_t last_commit_ = 0;  // number of the last commit sent
  std::chrono::nanoseconds next_attempt_{0};
  absl::Status error_;
  mutable base::Mutex mu_;
  mutable std::vector<std::unique_ptr<PostgresConnection>> idle_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

void Bind(base::Schema& schema, PostgresOptions& o) {
  schema.Field(
      "url", &o.url,
      "libpq connection string, such as 'host=a,b,c dbname=ingot user=ingot'; passwords are read from PGPASSFILE");
  schema.Field("name", &o.name,
               "the pool's name in the database, whose schemas are named ingot_NAME_SHARD; default: the run's name");
  schema.Field("allow_single", &o.allow_single,
               "accept a server without a synchronous standby; the run is lost if that server's disk fails");
  schema.Field("answer_timeout_s", &o.answer_timeout_s,
               "seconds to wait for a statement or commit before another server is tried", base::LeftOpen(0, 3600));
}

absl::Status PostgresOptions::Validate() const {
  if (url.empty()) return absl::InvalidArgumentError("url is empty: set it to a PostgreSQL connection string");
  if (name.empty() || name.size() > 48) {
    return absl::InvalidArgumentError(
        "name must have 1 to 48 characters, because PostgreSQL truncates longer schema names");
  }
  if (const auto wrong = std::find_if_not(
          name.begin(), name.end(), [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.'; });
      wrong != name.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("name is '", name, "': use only letters, digits, '_', '-', and '.'"));
  }
  return base::CheckBounds(*this);
}

absl::StatusOr<std::shared_ptr<PostgresServers>> PostgresServersOf(const PostgresOptions& options, bool check,
                                                                   const base::Clock& clock) {
  if (options.servers != nullptr) return options.servers;
  PostgresServers::Options servers;
  servers.url = options.url;
  servers.answer_timeout =
      std::chrono::duration_cast<std::chrono::milliseconds>(base::FromSeconds(options.answer_timeout_s));
  servers.folder = options.folder;
  servers.read_only = options.read_only || check;
  servers.watch = !servers.read_only;
  return PostgresServers::Make(std::move(servers), clock);
}

absl::Status CheckPostgres(const PostgresOptions& options, int shard, const std::string& layout) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  PostgresOptions with_servers = options;
  INGOT_ASSIGN_OR_RETURN(with_servers.servers, PostgresServersOf(options, /*check=*/true, base::Clock::Real()));
  PostgresDatabase database(with_servers, shard, layout, base::Clock::Real());
  return base::Annotate(database.Check(), "the pool in PostgreSQL");
}

absl::StatusOr<std::unique_ptr<Database>> OpenPostgresDatabase(const PostgresOptions& options, int shard,
                                                               const std::string& layout, const base::Clock& clock) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  PostgresOptions with_servers = options;
  INGOT_ASSIGN_OR_RETURN(with_servers.servers, PostgresServersOf(options, /*check=*/false, clock));
  auto database = std::make_unique<PostgresDatabase>(with_servers, shard, layout, clock);
  INGOT_RETURN_IF_ERROR(base::Annotate(database->Open(), "opening the pool in PostgreSQL"));
  return std::unique_ptr<Database>(std::move(database));
}

}  // namespace ingot::datapool
