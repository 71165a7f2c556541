#include "sandbox/seccomp_filter.h"

#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "sandbox/seccomp_rules.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {
namespace {

scmp_arg_cmp ConditionOf(const ArgumentTest& test) {
  switch (test.kind) {
    case ArgumentTest::Kind::kEquals:
      return {test.index, SCMP_CMP_EQ, test.value, 0};
    case ArgumentTest::Kind::kMaskedEquals:
      return {test.index, SCMP_CMP_MASKED_EQ, test.mask, test.value};
    case ArgumentTest::Kind::kIsAbove:
      return {test.index, SCMP_CMP_GT, test.value, 0};
  }
  return {};
}

// Returns 0 or errno.
int AddRule(scmp_filter_ctx context, const FilterRule& rule) {
  const uint32_t action = SCMP_ACT_ERRNO(static_cast<uint32_t>(rule.error));
  if (rule.call.empty()) return -seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, action);
  const int call = seccomp_syscall_resolve_name(rule.call.c_str());
  if (call == __NR_SCMP_ERROR) return 0;  // newer than the library, or for another architecture
  std::vector<scmp_arg_cmp> conditions;
  for (const ArgumentTest& test : rule.arguments) conditions.push_back(ConditionOf(test));
  return -seccomp_rule_add_array(context, action, call, static_cast<unsigned>(conditions.size()), conditions.data());
}

}  // namespace

absl::StatusOr<std::string> MakeProgram(const std::vector<FilterRule>& rules) {
  const std::unique_ptr<void, void (*)(scmp_filter_ctx)> context(seccomp_init(SCMP_ACT_ALLOW), seccomp_release);
  if (context == nullptr) return absl::ResourceExhaustedError("cannot allocate memory for a seccomp program");
  seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ALLOW);
  // a binary tree, so that each call executes few instructions
  seccomp_attr_set(context.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  for (const FilterRule& rule : rules) {
    if (const int error = AddRule(context.get(), rule); error != 0) {
      return ErrnoStatus(error, absl::StrCat("cannot build the sandboxes' seccomp program (rule '", rule.name, "')"));
    }
  }
  const Fd file(memfd_create("ingot-filter", MFD_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, "cannot create a file in memory");
  if (const int error = seccomp_export_bpf(context.get(), file.get()); error != 0) {
    return ErrnoStatus(-error, "cannot write the sandboxes' seccomp program");
  }
  std::string program(static_cast<size_t>(lseek(file.get(), 0, SEEK_END)), '\0');
  if (pread(file.get(), program.data(), program.size(), 0) != static_cast<ssize_t>(program.size())) {
    return ErrnoStatus(errno, "cannot read the sandboxes' seccomp program");
  }
  return program;
}

absl::StatusOr<std::string> MakeFilter(const FilterOptions& options) { return MakeProgram(RulesOf(options)); }

}  // namespace ingot::sandbox
