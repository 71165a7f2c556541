#include "registry/registration.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "events.h"
#include "registry/local_registry.h"

namespace ingot::registry {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Two processes, each with a clock of its own; the first one's stands still when it is paused.
class RegistrationTest : public ::testing::Test {
 protected:
  RegistrationTest() {
    std::string pattern = std::filesystem::temp_directory_path().string() + "/ingot-registration-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    first_ = *OpenLocalRegistry({.folder = folder_ + "/registry"}, clock_);
    second_ = *OpenLocalRegistry({.folder = folder_ + "/registry"}, others_);
  }
  ~RegistrationTest() override {
    first_.reset();
    second_.reset();
    std::filesystem::remove_all(folder_);
  }
  RegistrationOptions As(const std::string& value) {
    RegistrationOptions options;
    options.key = "role";
    options.value = value;
    options.ttl = seconds(6);
    options.on_taken = [this](const Entry& holder) {
      EXPECT_EQ(holder.value, "second");
      ++taken_;
    };
    return options;
  }
  std::string Holder() {
    const auto entry = *second_->Get("role");
    return entry.has_value() ? entry->value : "nobody";
  }

  std::string folder_;
  base::ManualClock clock_, others_;
  std::unique_ptr<Registry> first_, second_;
  std::atomic<int> taken_ = 0;
};

TEST_F(RegistrationTest, ALeaderTakesAnotherOnesPlaceUnderALargerToken) {
  RegistrationOptions options = As("first");
  options.leads = true;
  const auto first = Registration::Start(*first_, options, clock_);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->token(), (*second_->Get("role"))->create_revision);
  options.value = "second";
  const auto second = Registration::Start(*second_, options, others_);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(Holder(), "second");
  EXPECT_GT((*second)->token(), (*first)->token());
  EXPECT_EQ((*second)->token(), (*second_->Get("role"))->create_revision);
}

TEST_F(RegistrationTest, LivesAsLongAsItsProcess) {
  auto registration = Registration::Start(*first_, As("first"), clock_);
  ASSERT_TRUE(registration.ok()) << registration.status();
  EXPECT_EQ(Holder(), "first");
  registration->reset();
  EXPECT_EQ(Holder(), "nobody");
  EXPECT_EQ(taken_, 0);
}

TEST_F(RegistrationTest, ANewProcessTakesTheEntryOver) {
  const auto first = *Registration::Start(*first_, As("first"), clock_);
  const auto second = *Registration::Start(*second_, As("second"), others_);
  EXPECT_EQ(Holder(), "second");
}

TEST_F(RegistrationTest, IsMadeAnewWhenItsLeaseWasLost) {
  const auto registration = *Registration::Start(*first_, As("first"), clock_);
  others_.Advance(seconds(7));
  EXPECT_EQ(Holder(), "nobody");
  clock_.AwaitWaiters(1);
  clock_.Advance(seconds(7));
  while (Holder() != "first") std::this_thread::yield();
  EXPECT_EQ(taken_, 0);
}

TEST_F(RegistrationTest, IsOverWhenAnotherProcessHasTheEntryByThen) {
  const auto first = *Registration::Start(*first_, As("first"), clock_);
  others_.Advance(seconds(7));
  const auto second = *Registration::Start(*second_, As("second"), others_);
  clock_.AwaitWaiters(1);
  clock_.Advance(seconds(7));
  while (taken_ == 0) std::this_thread::yield();
  EXPECT_EQ(Holder(), "second");
}

TEST_F(RegistrationTest, WithATimeoutItWaitsForTheHoldersEndAndNamesIt) {
  auto first = *Registration::Start(*first_, As("first"), clock_);
  RegistrationOptions patient = As("second");
  patient.ttl = seconds(36'000);  // this thread moves the clock faster than a busy machine runs the other one
  patient.timeout = milliseconds(0);
  const absl::Status rejected = Registration::Start(*second_, patient, others_).status();
  EXPECT_TRUE(absl::IsAlreadyExists(rejected)) << rejected;
  EXPECT_NE(rejected.message().find("another process's: first"), std::string::npos) << rejected;
  patient.describe = [](const Entry& holder) { return "the process " + holder.value; };
  const absl::Status described = Registration::Start(*second_, patient, others_).status();
  EXPECT_NE(described.message().find("another process's: the process first"), std::string::npos) << described;
  EXPECT_EQ(Holder(), "first");

  patient.timeout = seconds(3600);
  std::unique_ptr<Registration> second;
  std::thread waiting([&] { second = *Registration::Start(*second_, patient, others_); });
  others_.AwaitWaiters(1);
  first.reset();
  while (Holder() != "second") {
    others_.AwaitWaiters(1);
    others_.Advance(milliseconds(200));
  }
  waiting.join();
  EXPECT_NE(second, nullptr);
}

TEST_F(RegistrationTest, ReportsAnotherValueUnderTheSameLease) {
  auto registration = Registration::Start(*first_, As("first"), clock_);
  ASSERT_TRUE(registration.ok()) << registration.status();
  const Entry before = **second_->Get("role");
  (*registration)->Update("first, later");
  while (Holder() == "first") std::this_thread::yield();
  const Entry after = **second_->Get("role");
  EXPECT_EQ(after.value, "first, later");
  EXPECT_EQ(after.lease, before.lease);
  EXPECT_EQ(after.create_revision, before.create_revision) << "a fencing token that others hold stays";
  registration->reset();
  EXPECT_EQ(Holder(), "nobody");
  EXPECT_EQ(taken_, 0);
}

}  // namespace
}  // namespace ingot::registry
