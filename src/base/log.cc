#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.h"

namespace ingot::base {
namespace {

constexpr size_t kMaxOfAMessage = 10'000;  // bytes; a message may have several lines

// A line's text, any part of which may be untrusted.
class PrintableText final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& line, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string text = PrintableLines(CutMessage({line.payload.data(), line.payload.size()}, kMaxOfAMessage));
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<PrintableText>(); }
};

}  // namespace

void InitLogging(const std::string& role, const std::string& level, const std::string& file) {
  auto console = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  console->set_level(file.empty() ? spdlog::level::trace : spdlog::level::warn);
  std::vector<spdlog::sink_ptr> sinks{std::move(console)};
  if (!file.empty()) sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(file));
  auto logger = std::make_shared<spdlog::logger>(role, sinks.begin(), sinks.end());
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PrintableText>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%L%$ %n: %*");
  logger->set_formatter(std::move(formatter));
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace ingot::base
