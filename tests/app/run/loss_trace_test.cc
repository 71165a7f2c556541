#include "app/run/loss_trace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace ingot::app {
namespace {

namespace fs = std::filesystem;
using std::chrono_literals::operator""ms;

TEST(LossTrace, EndsAnInterpreterThatDoesNotAnswerInTime) {
  std::string folder = (fs::temp_directory_path() / "ingot-trace-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string interpreter = folder + "/python";
  std::ofstream(interpreter) << "#!/bin/sh\nexec sleep 60\n";
  fs::permissions(interpreter, fs::perms::owner_all);
  trainer::CustomLossOptions custom;
  custom.function = "losses.py:loss";
  const auto start = std::chrono::steady_clock::now();
  const auto graph = TraceLoss(custom, interpreter, 200ms);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kDeadlineExceeded) << graph.status();
  EXPECT_TRUE(std::string(graph.status().message()).starts_with("trainer.custom.function losses.py:loss: "))
      << graph.status();
  fs::remove_all(folder);
}

}  // namespace
}  // namespace ingot::app
