#include "agents/exit_output.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "base/status.h"

namespace ingot::agents {

std::string DescribeExitOutput(std::string_view what, std::string_view output) {
  constexpr size_t kShown = 400;
  std::string shown(absl::StripAsciiWhitespace(base::View(output)));
  if (shown.size() > kShown) shown.erase(0, shown.size() - kShown);
  std::replace_if(shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return shown.empty() ? "" : absl::StrCat("; ", base::View(what), " ends: ", shown);
}

std::string MissingFilesHint(std::string_view reason) {
  const auto says = [reason](std::string_view words) {
    const size_t at = reason.find(words);
    const size_t end = at + words.size();
    return at != std::string_view::npos && (end == reason.size() || !absl::ascii_isdigit(reason[end]));
  };
  if (says("sandbox.visible")) return "";  // its own message explains it
  // A shell exits with 126 if a program cannot be executed and with 127 if it is missing.
  if (!says("exited with 126") && !says("exited with 127") && !says("No such file")) return "";
  return "; sandboxes contain only programs and the work folder; to show more, set sandbox.visible: [FOLDER] "
         "(docs/guide/sandbox.md)";
}

}  // namespace ingot::agents
