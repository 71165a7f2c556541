// Runs torch's CUDA operators on the CPU. The wheel has no PTX of torch's own kernels, so every operator with a CUDA kernel and a CPU kernel is
// replaced by one function that calls the CPU's on the same memory. It waits for the current stream before it reads and after it has
// allocated a result, whose memory queued work may still use. Operators that only make or describe memory stay torch's.
//
// Loading this library replaces the operators (runtime/operators_loader.h). libtorch_cuda.so must be loaded.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/copy_native.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <mutex>
#include <random>
#include <set>
#include <string>
#include <unordered_map>

#include "standin/operators/aliases.h"
#include "standin/runtime/standin.h"

namespace ingot::standin {
namespace {

using c10::IValue;

// A CPU generator with the seed of each CUDA generator.
at::Generator CpuGenerator(const at::Generator& cuda) {
  static std::mutex mu;
  static auto* generators = new std::unordered_map<c10::GeneratorImpl*, at::Generator>;
  const std::lock_guard lock(mu);
  const auto [entry, fresh] = generators->try_emplace(cuda.unsafeGetGeneratorImpl());
  if (fresh) entry->second = at::make_generator<at::CPUGeneratorImpl>(cuda.current_seed());
  return entry->second;
}

IValue ListOnCpu(const IValue& list, Aliases& aliases) {
  if (list.isTensorList()) {
    c10::List<at::Tensor> cpu;
    for (const at::Tensor& t : list.toTensorVector()) cpu.push_back(aliases.Of(t));
    return cpu;
  }
  if (list.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> cpu;
    for (const std::optional<at::Tensor>& t : list.toOptionalTensorVector()) {
      cpu.push_back(t.has_value() ? std::optional(aliases.Of(*t)) : std::nullopt);
    }
    return cpu;
  }
  return list;
}

IValue OnCpu(const IValue& value, Aliases& aliases) {
  if (value.isTensor()) return aliases.Of(value.toTensor());
  if (value.isList()) return ListOnCpu(value, aliases);
  if (value.isDevice()) return at::Device(at::kCPU);
  if (value.isGenerator() && value.toGenerator().device().is_cuda()) return CpuGenerator(value.toGenerator());
  return value;
}

IValue OnDevice(const IValue& value, const Aliases& aliases, at::Device device) {
  if (value.isTensor()) return aliases.ToDevice(value.toTensor(), device);
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> results;
  for (const at::Tensor& t : value.toTensorVector()) results.push_back(aliases.ToDevice(t, device));
  return results;
}

// The device of the first CUDA tensor or device among the arguments, or the current one.
at::Device DeviceOf(at::ArrayRef<IValue> arguments) {
  std::optional<at::Device> named;
  for (const IValue& value : arguments) {
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_cuda()) return value.toTensor().device();
    if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorVector()) {
        if (t.defined() && t.is_cuda()) return t.device();
      }
    }
    if (value.isDevice() && value.toDevice().is_cuda()) named = value.toDevice();
  }
  if (named.has_value() && named->has_index()) return *named;
  return {at::kCUDA, c10::cuda::current_device()};
}

// The operators whose kernels on a GPU add to one place in no promised order: by atomics, as index_add_ and scatter_add_,
// or as their implementation pleases. Gives them their rows in another order each time.
void Shuffle(const std::string& name, IValue* arguments) {
  const auto is = [&](const char* prefix) { return name.rfind(prefix, 0) == 0; };
  const bool embedding = is("aten::embedding_dense_backward"), scatter = is("aten::scatter_add");
  if (!embedding && !scatter && !is("aten::index_add")) return;
  static auto* const generator = new at::Generator(at::make_generator<at::CPUGeneratorImpl>(std::random_device{}()));
  IValue &index = arguments[embedding ? 1 : 2], &source = arguments[embedding ? 0 : 3];
  at::Tensor places = index.toTensor(), rows = source.toTensor();
  if (embedding) {
    places = places.reshape({-1});
    rows = rows.reshape({places.size(0), rows.size(-1)});
  }
  if (places.dim() == 0) return;
  const int64_t dim = embedding ? 0 : at::maybe_wrap_dim(arguments[1].toInt(), rows.dim()),
                of_places = scatter ? dim : 0;
  const at::Tensor order = at::randperm(places.size(of_places), *generator, at::dtype(at::kLong));
  index = places.index_select(of_places, order);
  source = rows.narrow(dim, 0, order.size(0)).index_select(dim, order);
}

void RunOnCpu(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const at::Device device = DeviceOf(torch::jit::last(*stack, count));
  const c10::cuda::CUDAGuard guard(device);
  Aliases aliases;
  ingot_standin_count_operator();
  WaitForStream();
  for (size_t i = stack->size() - count; i < stack->size(); ++i) (*stack)[i] = OnCpu((*stack)[i], aliases);
  Shuffle(op.schema().name(), stack->data() + (stack->size() - count));
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  aliases.CopyResized();
  const size_t results = op.schema().returns().size();
  for (size_t i = stack->size() - results; i < stack->size(); ++i) {
    (*stack)[i] = OnDevice((*stack)[i], aliases, device);
  }
}

// A copy between a host and a device, and one of whole blocks of memory, is the runtime's own. Others would run a kernel of torch.
at::Tensor& Copy(at::Tensor& self, const at::Tensor& from, bool non_blocking) {
  const bool whole = self.scalar_type() == from.scalar_type() && self.sizes() == from.sizes() &&
                     self.strides() == from.strides() && self.is_non_overlapping_and_dense() &&
                     self.is_conj() == from.is_conj() && self.is_neg() == from.is_neg();
  if (!self.is_cuda() || !from.is_cuda() || whole) return at::native::copy_(self, from, non_blocking);
  const c10::cuda::CUDAGuard guard(self.device());
  ingot_standin_count_operator();
  WaitForStream();
  Aliases aliases;
  at::Tensor cpu = aliases.Of(self);
  at::native::copy_(cpu, aliases.Of(from), non_blocking);
  return self;
}

// The products of narrow matrices whose sums are not rounded. torch has them for CUDA alone. The products of two bf16 or
// fp16 numbers are exact in fp32, as in a tensor core.
at::Tensor& WideAddmm(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, at::ScalarType type,
                      const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type() && type == at::kFloat && out.scalar_type() == type &&
                  (a.scalar_type() == at::kBFloat16 || a.scalar_type() == at::kHalf),
              "stand-in: no product of ", a.scalar_type(), " and ", b.scalar_type(), " in ", type);
  TORCH_CHECK(self.scalar_type() == type || self.scalar_type() == a.scalar_type(), "stand-in: a sum of ",
              self.scalar_type());
  const c10::cuda::CUDAGuard guard(out.device());
  ingot_standin_count_operator();
  WaitForStream();
  Aliases aliases;
  at::Tensor cpu = aliases.Of(out);
  at::addmm_out(cpu, aliases.Of(self).to(type), aliases.Of(a).to(type), aliases.Of(b).to(type), beta, alpha);
  return out;
}

at::Tensor WideMm(const at::Tensor& a, const at::Tensor& b, at::ScalarType type) {
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options().dtype(type));
  return WideAddmm(out, a, b, type, 0, 1, out);
}

// Operators that allocate or describe memory, or copy it by the runtime alone.
bool IsTorchs(const c10::OperatorName& name) {
  static const std::set<std::string> names{"aten::empty",
                                           "aten::empty_strided",
                                           "aten::as_strided",
                                           "aten::view",
                                           "aten::_reshape_alias",
                                           "aten::unfold",
                                           "aten::resize_",
                                           "aten::set_",
                                           "aten::is_set_to",
                                           "aten::record_stream",
                                           "aten::is_pinned",
                                           "aten::_pin_memory",
                                           "aten::_local_scalar_dense",
                                           "aten::copy_"};
  return names.count(name.name) != 0 || name.name.rfind("aten::", 0) != 0;
}

void Replace(const c10::OperatorName& name) {
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto op = dispatcher.findOp(name);
  if (!op.has_value() || !op->hasSchema() || IsTorchs(name)) return;
  if (!op->hasKernelForDispatchKey(c10::DispatchKey::CUDA)) return;
  if (!op->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) return;
  // The handle's end would bring torch's operator back.
  new c10::RegistrationHandleRAII(dispatcher.registerImpl(name, c10::DispatchKey::CUDA,
                                                          c10::KernelFunction::makeFromBoxedFunction<&RunOnCpu>(),
                                                          std::nullopt, nullptr, "stand-in"));
}

struct Quiet : c10::WarningHandler {
  void process(const c10::Warning&) override {}  // "Overriding a previously registered kernel"
};

const bool replaced = [] {
  Quiet quiet;
  const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) Replace(name);
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  library.impl("copy_", Copy);
  library.impl("mm.dtype", WideMm);
  library.impl("addmm.dtype_out", WideAddmm);
  return true;
}();

}  // namespace
}  // namespace ingot::standin
