#include "gateway/episodes/snapshot_files.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

namespace ingot::gateway::snapshot_files_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

v1::SnapshotFilesPart Part(int64_t offset, const std::string& data, bool done = false) {
  v1::SnapshotFilesPart part;
  part.set_offset(offset);
  part.set_data(data);
  part.set_done(done);
  return part;
}

class SnapshotFilesTest : public testing::Test {
 protected:
  SnapshotFilesTest() : transfer_(*transfers_.Open([this] { ++woken_; })) {}

  int woken_ = 0;
  base::ManualClock clock_;
  FileTransfers transfers_{clock_};
  std::shared_ptr<FileTransfer> transfer_;
};

TEST_F(SnapshotFilesTest, CarriesPartsOnceAndInTheirOrder) {
  EXPECT_TRUE(transfer_->Put(Part(0, "abc"), seconds(0)).ok());
  EXPECT_EQ(woken_, 1);
  EXPECT_TRUE(transfer_->Put(Part(0, "abc"), seconds(0)).ok()) << "sent again";
  EXPECT_TRUE(transfer_->Put(Part(1, "bcd"), seconds(0)).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(transfer_->Put(Part(5, "f"), seconds(0)))) << "'e' is missing";
  EXPECT_TRUE(absl::IsInvalidArgument(transfer_->Put(Part(0, std::string((1 << 20) + 1, 'x')), seconds(0))));
  FileTransfer::News news = transfer_->TakeNews();
  EXPECT_EQ(news.data, "abcd");
  EXPECT_FALSE(news.done);
  EXPECT_TRUE(transfer_->Put(Part(4, "e", true), seconds(0)).ok());
  news = transfer_->TakeNews();
  EXPECT_EQ(news.data, "e");
  EXPECT_TRUE(news.done && news.status.ok());
}

TEST_F(SnapshotFilesTest, ARunnerWaitsForAReaderAndForNobody) {
  const std::string full(1 << 20, 'x');
  EXPECT_TRUE(transfer_->Put(Part(0, full), seconds(0)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(transfer_->Put(Part(1 << 20, "y"), seconds(0))));
  EXPECT_EQ(transfer_->TakeNews().data, full);
  EXPECT_TRUE(transfer_->Put(Part(1 << 20, "y"), seconds(0)).ok());
  EXPECT_EQ(transfer_->TakeNews().data, "y");
  EXPECT_TRUE(transfer_->Put(Part((1 << 20) + 1, full), seconds(0)).ok());
  std::thread leaves([&] {
    std::this_thread::sleep_for(milliseconds(5));
    transfer_->Abandon();
  });
  EXPECT_TRUE(absl::IsNotFound(transfer_->Put(Part((2 << 20) + 1, "z"), seconds(60))));
  leaves.join();
}

TEST_F(SnapshotFilesTest, ASilentRunnerBreaksTheArchiveOff) {
  EXPECT_TRUE(transfer_->Put(Part(0, "abc"), seconds(0)).ok());
  clock_.Advance(seconds(31));
  transfers_.BreakSilent(seconds(30));
  EXPECT_FALSE(transfer_->TakeNews().done) << "the client was slow, not the runner";
  transfers_.BreakSilent(seconds(30));
  EXPECT_FALSE(transfer_->TakeNews().done);
  clock_.Advance(seconds(31));
  transfers_.BreakSilent(seconds(30));
  const FileTransfer::News news = transfer_->TakeNews();
  EXPECT_TRUE(news.done);
  EXPECT_TRUE(absl::IsDeadlineExceeded(news.status)) << news.status;
}

TEST_F(SnapshotFilesTest, OnlyASnapshotThatTheRunnerLacksIsGone) {
  v1::SnapshotFilesPart part;
  part.set_error("a disk fails");
  EXPECT_TRUE(transfer_->Put(part, seconds(0)).ok());
  FileTransfer::News news = transfer_->TakeNews();
  EXPECT_TRUE(news.done);
  EXPECT_TRUE(absl::IsUnavailable(news.status)) << news.status;
  const auto other = *transfers_.Open([] {});
  part.set_done(true);
  EXPECT_TRUE(other->Put(part, seconds(0)).ok());
  news = other->TakeNews();
  EXPECT_TRUE(news.done);
  EXPECT_TRUE(absl::IsNotFound(news.status)) << news.status;
}

TEST_F(SnapshotFilesTest, TransfersAreBoundedAndEndWithTheirReader) {
  std::vector<std::shared_ptr<FileTransfer>> others;
  while (others.size() + 1 < FileTransfers::kMax) others.push_back(*transfers_.Open([] {}));
  EXPECT_TRUE(absl::IsResourceExhausted(transfers_.Open([] {}).status()));
  const std::string id = others.back()->id();
  EXPECT_EQ(transfers_.Find(id), others.back());
  others.pop_back();
  EXPECT_EQ(transfers_.Find(id), nullptr);
  EXPECT_TRUE(transfers_.Open([] {}).ok());
  transfers_.Close();
  EXPECT_TRUE(absl::IsUnavailable(transfer_->TakeNews().status));
  EXPECT_TRUE(absl::IsUnavailable(transfers_.Open([] {}).status()));
}

}  // namespace
}  // namespace ingot::gateway::snapshot_files_test
