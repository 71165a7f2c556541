#include "standin/ptx/launch.h"

namespace ingot::standin::ptx {

int64_t OutputOwners::Write(uint64_t address, size_t bytes, uint32_t block) {
  int64_t other = -1;
  for (uint64_t at = address; at < address + bytes; ++at) {
    if (at / kPageBytes != last_) {
      last_ = at / kPageBytes;
      std::unique_ptr<Page>& page = pages_[last_];
      if (page == nullptr) page = std::make_unique<Page>();
      page_ = page.get();
    }
    uint32_t& owner = (*page_)[at % kPageBytes];
    if (owner != 0 && owner != block + 1) other = owner - 1;
    owner = block + 1;
  }
  return other;
}

void LaunchState::Report(std::string_view kind, uint32_t statement, const std::string& where, const std::string& what) {
  if (!reported.emplace(kind, statement).second) return;
  const Statement& s = *program.statements.at(statement);
  outcome.reports.push_back({std::string(kind), kernel.name + ", " + where + ", line " + std::to_string(s.line) +
                                                    ", \"" + std::string(s.text.substr(0, 200)) + "\": " + what});
  if (outcome.reports.size() >= options.max_reports) throw EndLaunch();
}

}  // namespace ingot::standin::ptx
