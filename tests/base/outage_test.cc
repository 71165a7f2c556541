#include "base/outage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

namespace ingot::base {
namespace {

// The lines that were logged meanwhile.
class Logged {
 public:
  Logged() : before_(spdlog::default_logger()) {
    auto logger = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_));
    logger->set_pattern("%l: %v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~Logged() { spdlog::set_default_logger(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  const std::shared_ptr<spdlog::logger> before_;
};

TEST(Outage, ReportsItsBeginningAReminderEachMinuteAndItsEnd) {
  ManualClock clock;
  Logged logged;
  Outage outage("the watch", clock);
  outage.Over();
  EXPECT_EQ(logged.text(), "");
  for (int tenth = 0; tenth < 700; ++tenth) {  // a try every 100 ms for 70 s
    outage.Failed(absl::UnavailableError(tenth == 0 ? "refused" : "no answer"));
    clock.Advance(std::chrono::milliseconds(100));
  }
  outage.Note(absl::OkStatus());
  outage.Over();
  EXPECT_EQ(logged.text(),
            "warning: the watch waits: refused\nwarning: the watch has waited for 60 s: no answer\n"
            "info: the watch resumed after 70 s\n");
}

}  // namespace
}  // namespace ingot::base
