// Reads and rejections from records whose server may cease to lead.
#include "datapool/confirmed_read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace ingot::datapool {
namespace {

using ::testing::HasSubstr;

class FakeSource final : public ReadSource {
 public:
  FakeSource(std::string host, bool replicates) : host_(std::move(host)), replicates_(replicates) {}
  bool leads() const override { return leads_; }
  bool must_commit() const override { return replicates_; }
  std::string name() const override { return host_; }
  bool leads_ = true;

 private:
  const std::string host_;
  const bool replicates_;
};

// Its readers say the name of the present server.
class FakeDatabase final : public Database {
 public:
  class FakeReader final : public Reader {
   public:
    explicit FakeReader(std::shared_ptr<const FakeSource> source) : source_(std::move(source)) {}
    absl::StatusOr<std::string> Get(Family, const std::string&) const override {
      if (source_ == nullptr) return absl::UnavailableError("no connection");
      return source_->name();
    }
    absl::Status Scan(Family, const std::string&, const std::string&, const Visit&) const override { return {}; }
    absl::StatusOr<std::string> LastKey(Family) const override { return absl::NotFoundError(""); }
    absl::Status Damaged(const std::string& how) const override { return absl::DataLossError(how); }
    int64_t BytesOnDisk() const override { return 0; }
    std::shared_ptr<const ReadSource> source() const override { return source_; }

   private:
    const std::shared_ptr<const FakeSource> source_;
  };
  class FakeBatch final : public Batch {
   public:
    absl::StatusOr<std::string> Get(Family, const std::string&) override { return absl::NotFoundError(""); }
    void Put(Family, const std::string&, const std::string&) override {}
    void Delete(Family, const std::string&) override {}
    absl::Status Scan(Family, const std::string&, const Visit&) override { return {}; }
    void SetSavePoint() override {}
    absl::Status RollbackToSavePoint() override { return {}; }
    void ReleaseSavePoint() override {}
    bool empty() override { return true; }
    size_t bytes() override { return 0; }
  };

  std::unique_ptr<Reader> Read() const override { return std::make_unique<FakeReader>(server); }
  std::unique_ptr<Batch> NewBatch() override { return std::make_unique<FakeBatch>(); }
  absl::Status Write(Batch&) override {
    ++commits;
    return on_commit ? on_commit() : absl::OkStatus();
  }
  bool failed() const override { return false; }
  absl::Status Recover() override { return {}; }
  bool shared() const override { return is_shared; }
  absl::Status CheckWritable() const override { return writable; }

  // Another server leads from now on.
  void Move(const std::string& host, bool replicates = true) {
    if (server != nullptr) server->leads_ = false;
    server = std::make_shared<FakeSource>(host, replicates);
  }

  std::shared_ptr<FakeSource> server = std::make_shared<FakeSource>("a", true);
  std::function<absl::Status()> on_commit;
  absl::Status writable;
  bool is_shared = true;
  int commits = 0;
};

class ConfirmedReadTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::string> Read() {
    return ConfirmedRead(database_, queue_, [&](const Database::Reader& reader) {
      ++reads_;
      absl::StatusOr<std::string> said = reader.Get(kMeta, "");
      if (during_) during_();
      return said;
    });
  }
  // The status of a mutation that the rows of the present server reject.
  absl::Status Reject() {
    return queue_.Run([](Database::Batch&, v1::PoolStatusResponse&) {
      return absl::FailedPreconditionError("the episode has ended");
    });
  }

  FakeDatabase database_;
  CommitQueue queue_{database_, 10};
  std::function<void()> during_;
  int reads_ = 0;
};

TEST_F(ConfirmedReadTest, ACommitConfirmsIt) {
  EXPECT_EQ(Read().value(), "a");
  EXPECT_EQ(reads_, 1);
  EXPECT_EQ(database_.commits, 1);
}

// The commit found that another server leads: what the first one said is not believed.
TEST_F(ConfirmedReadTest, ItIsMadeAgainWhenTheWriterMoved) {
  database_.on_commit = [&] {
    if (database_.commits == 1) database_.Move("b");
    return absl::OkStatus();
  };
  EXPECT_EQ(Read().value(), "b");
  EXPECT_EQ(reads_, 2);
}

TEST_F(ConfirmedReadTest, ItIsMadeAgainWhenTheWriterMovedDuringIt) {
  during_ = [&] {
    if (reads_ == 1) database_.Move("b");
  };
  EXPECT_EQ(Read().value(), "b");
  EXPECT_EQ(reads_, 2);
}

// A server that no standby acknowledges is never believed.
TEST_F(ConfirmedReadTest, ItFailsWithTheCommit) {
  database_.on_commit = [] { return absl::UnavailableError("PostgreSQL at a: no standby"); };
  const absl::Status rejected = Read().status();
  EXPECT_TRUE(absl::IsUnavailable(rejected));
  EXPECT_THAT(std::string(rejected.message()), HasSubstr("PostgreSQL at a: no standby"));
}

TEST_F(ConfirmedReadTest, AServerWithoutStandbysIsBelievedWhileItLeads) {
  database_.Move("b", /*replicates=*/false);
  EXPECT_EQ(Read().value(), "b");
  EXPECT_EQ(database_.commits, 0);
  during_ = [&] {
    if (reads_ == 2) database_.Move("c", /*replicates=*/false);
  };
  EXPECT_EQ(Read().value(), "c");
  EXPECT_EQ(database_.commits, 1);
}

TEST_F(ConfirmedReadTest, ACommitLooksForAServerWhereNoneIsReached) {
  database_.server = nullptr;
  database_.on_commit = [&] {
    if (database_.server == nullptr) database_.Move("b");
    return absl::OkStatus();
  };
  EXPECT_EQ(Read().value(), "b");
  EXPECT_EQ(reads_, 2);
  database_.server = nullptr;
  database_.on_commit = nullptr;
  EXPECT_TRUE(absl::IsUnavailable(Read().status())) << "it ends";
}

TEST_F(ConfirmedReadTest, ItEndsWhereTheServerChangesEachTime) {
  database_.on_commit = [&] {
    database_.Move("b");
    return absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsUnavailable(Read().status()));
}

TEST_F(ConfirmedReadTest, WhatIsMissingIsMissingAtANamedServer) {
  const absl::Status missing = ConfirmedRead(
      database_, queue_, [](const Database::Reader&) { return absl::NotFoundError("group 7 is not in the pool"); });
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_EQ(std::string(missing.message()), "PostgreSQL at a: group 7 is not in the pool");
  EXPECT_EQ(database_.commits, 1) << "not before it is confirmed";
}

TEST_F(ConfirmedReadTest, OneForReadingAloneCommitsNothing) {
  database_.writable = absl::FailedPreconditionError("open for reading alone");
  EXPECT_EQ(Read().value(), "a");
  EXPECT_EQ(database_.commits, 0);
}

TEST_F(ConfirmedReadTest, ACommitConfirmsARejection) {
  EXPECT_EQ(Reject(), absl::FailedPreconditionError("the episode has ended"));
  EXPECT_EQ(database_.commits, 1);
}

// Rows of a primary that was replaced prove nothing: the caller sends the mutation again.
TEST_F(ConfirmedReadTest, ARejectionFailsWithTheCommit) {
  database_.on_commit = [] { return absl::UnavailableError("PostgreSQL at a: no standby"); };
  EXPECT_EQ(Reject(), absl::UnavailableError("PostgreSQL at a: no standby"));
  EXPECT_EQ(database_.commits, 1);
}

TEST_F(ConfirmedReadTest, ARejectionFromRecordsOfOneProcessCommitsNothing) {
  database_.is_shared = false;
  EXPECT_EQ(Reject(), absl::FailedPreconditionError("the episode has ended"));
  EXPECT_EQ(database_.commits, 0);
}

}  // namespace
}  // namespace ingot::datapool
