#include "model/torch_error.h"

#include <c10/util/Exception.h>

#include "base/device_failure.h"
#include "base/printable.h"

namespace ingot::model {
namespace {

// Values of cudaError_t (driver_types.h). They are part of CUDA's ABI.
constexpr int kMemoryAllocation = 2;
constexpr int kEccUncorrectable = 214, kNvlinkUncorrectable = 220, kContained = 226;
constexpr int kIllegalAddress = 700, kLaunchTimeout = 702, kAssert = 710;
constexpr int kFirstException = 714;  // hardware stack, illegal instruction, misaligned address, address space, pc
constexpr int kLaunchFailure = 719, kTensorMemoryLeak = 721;
constexpr int kMpsClientTerminated = 810, kExternalDevice = 911, kUnknown = 999;

bool IsHardware(int code) { return code == kEccUncorrectable || code == kNvlinkUncorrectable || code == kContained; }

// What a user can do about a device that failed with `code`.
const char* Advice(int code) {
  if (IsHardware(code)) {
    return "the GPU's hardware reported a fault: restart the process, which continues from the last checkpoint. If it "
           "recurs, look at `nvidia-smi -q -d ECC` and at the kernel log's NVRM Xid lines, and use another GPU";
  }
  return "this process cannot use the GPU any more: restart it, which continues from the last checkpoint. If it "
         "recurs, "
         "run `scripts/gpu_check.sh --sanitizer memcheck` and report its output";
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

absl::Status OutOfMemory(const std::string& what, const std::string& advice) {
  return absl::ResourceExhaustedError(absl::StrCat("out of memory; ", advice, ": ", base::Shown(what)));
}

absl::Status FromDeviceError(const c10::AcceleratorError& error, const std::string& advice) {
  const int code = error.get_error_code();
  const std::string what = FirstLine(error.what_without_backtrace());
  if (code == kMemoryAllocation) return OutOfMemory(what, advice);
  const std::string named = absl::StrCat(what, " (error ", code, ")");
  return EndsDevice(code) ? base::DeviceFailure(absl::StrCat(named, "; ", Advice(code))) : absl::InternalError(named);
}

}  // namespace

bool EndsDevice(int code) {
  return IsHardware(code) || code == kIllegalAddress || code == kLaunchTimeout || code == kAssert ||
         (code >= kFirstException && code <= kLaunchFailure) || code == kTensorMemoryLeak ||
         code == kMpsClientTerminated || code == kExternalDevice || code == kUnknown;
}

absl::Status FromTorchException(const std::exception& error, const std::string& advice) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  if (torch_error == nullptr) return absl::InternalError(error.what());
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) {
    return OutOfMemory(torch_error->what_without_backtrace(), advice);
  }
  const auto* device_error = dynamic_cast<const c10::AcceleratorError*>(&error);
  if (device_error != nullptr) return FromDeviceError(*device_error, advice);
  return absl::InternalError(torch_error->what_without_backtrace());
}

}  // namespace ingot::model
