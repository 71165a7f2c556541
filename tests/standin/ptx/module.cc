#include "standin/ptx/decoder.h"

#include <map>
#include <mutex>

#include "standin/ptx/block.h"

namespace ingot::standin::ptx {
namespace {

std::string Quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }

class LoadedModule final : public Module, private Symbols {
 public:
  LoadedModule(std::string_view text, Memory& memory) : text_(text), memory_(memory), syntax_(Parse(text_)) {
    for (const VariableSyntax& v : syntax_.variables) AllocateVariable(v);
    for (const VariableSyntax& v : syntax_.variables) Initialize(v);
    for (const FunctionSyntax& f : syntax_.functions) {
      f.entry ? AddKernel(f) : void(functions_[f.name] = &f);
    }
  }

  const Kernel* FindKernel(std::string_view name) const override {
    const auto found = kernels_.find(name);
    return found == kernels_.end() ? nullptr : &found->second->kernel;
  }

  const Variable* FindVariable(std::string_view name) const override {
    const auto found = variables_.find(name);
    return found == variables_.end() ? nullptr : &found->second;
  }

  Outcome Run(const Kernel& kernel, const Launch& launch, std::span<const std::byte> parameters,
              const Options& options) override;

 private:
  // A kernel is decoded when it first runs: a module may hold kernels with instructions that are not built.
  struct Entry {
    const FunctionSyntax* syntax = nullptr;
    Kernel kernel;
    std::once_flag decoded;
    Program program;
  };

  const VariableSyntax* FindShared(std::string_view name) const override {
    const auto found = shared_.find(name);
    return found == shared_.end() ? nullptr : found->second;
  }

  const FunctionSyntax* FindFunction(std::string_view name) const override {
    const auto found = functions_.find(name);
    return found == functions_.end() ? nullptr : found->second;
  }

  void AllocateVariable(const VariableSyntax& v);
  void Initialize(const VariableSyntax& v);
  void AddKernel(const FunctionSyntax& f);
  Entry& FindEntry(const Kernel& kernel);

  const std::string text_;
  Memory& memory_;
  const ModuleSyntax syntax_;
  std::map<std::string_view, Variable> variables_;
  std::map<std::string_view, const VariableSyntax*> shared_;
  std::map<std::string_view, const FunctionSyntax*> functions_;
  std::map<std::string_view, std::unique_ptr<Entry>> kernels_;
};

void LoadedModule::AllocateVariable(const VariableSyntax& v) {
  if (v.space == Space::kShared) {
    shared_[v.name] = &v;
    return;
  }
  if (v.external) return;
  const uint64_t address = memory_.Allocate(v.bytes, v.alignment);
  variables_[v.name] = {std::string(v.name), address, v.bytes};
}

void LoadedModule::Initialize(const VariableSyntax& v) {
  if (v.values.empty()) return;
  const Variable& variable = variables_.at(v.name);
  const size_t size = SizeOf(v.type);
  std::byte* const to = memory_.At(variable.address, variable.bytes);
  if (to == nullptr || v.values.size() * size > v.bytes) {
    throw Error("PTX line " + std::to_string(v.line) + ": the values of " + Quoted(v.name) + " do not fit into it");
  }
  for (size_t i = 0; i < v.values.size(); ++i) {
    const OperandSyntax& value = v.values[i];
    uint64_t bits = value.bits;
    if (value.kind == OperandSyntax::Kind::kName) {
      const Variable* const other = FindVariable(value.name);
      if (other == nullptr)
        throw Error("PTX line " + std::to_string(v.line) + ": " + Quoted(value.name) + " is not a variable");
      bits = other->address + static_cast<uint64_t>(value.offset);
    }
    std::memcpy(to + i * size, &bits, size);
  }
}

size_t RegisterWords(const FunctionSyntax& f) {
  size_t words = 0;
  for (const Type type : f.registers) words += type == Type::kPred ? 0 : (SizeOf(type) + 3) / 4;
  return words;
}

void LoadedModule::AddKernel(const FunctionSyntax& f) {
  auto entry = std::make_unique<Entry>();
  entry->syntax = &f;
  Kernel& k = entry->kernel;
  k.name = f.name;
  for (const VariableSyntax& p : f.parameters) {
    const size_t at = (k.parameter_bytes + p.alignment - 1) / p.alignment * p.alignment;
    k.parameters.push_back({at, p.bytes});
    k.parameter_bytes = at + p.bytes;
  }
  for (const VariableSyntax& v : f.variables) {
    if (v.space != Space::kShared) continue;
    k.static_shared_bytes = (k.static_shared_bytes + v.alignment - 1) / v.alignment * v.alignment + v.bytes;
  }
  k.max_threads = f.max_threads;
  k.min_blocks = f.min_blocks;
  k.max_registers = f.max_registers;
  k.registers = static_cast<unsigned>(RegisterWords(f));
  kernels_[f.name] = std::move(entry);
}

LoadedModule::Entry& LoadedModule::FindEntry(const Kernel& kernel) {
  const auto found = kernels_.find(kernel.name);
  if (found == kernels_.end() || &found->second->kernel != &kernel)
    throw Error("kernel " + Quoted(kernel.name) + " is not of this module");
  Entry& entry = *found->second;
  std::call_once(entry.decoded, [&] {
    Program program;
    Decoder(*entry.syntax, *this, program).Decode();
    entry.program = std::move(program);
  });
  return entry;
}

void CheckLaunch(const Kernel& kernel, const Launch& launch, size_t parameters) {
  const Dim3 b = launch.block, g = launch.grid;
  const uint64_t threads = uint64_t{b.x} * b.y * b.z;
  if (threads == 0 || threads > 1024 || threads > kernel.max_threads) {
    throw Error("kernel " + Quoted(kernel.name) + ": a block of " + std::to_string(threads) + " threads, of at most " +
                std::to_string(std::min(1024u, kernel.max_threads)));
  }
  if (g.x == 0 || g.y == 0 || g.z == 0) throw Error("kernel " + Quoted(kernel.name) + ": the grid is empty");
  if (parameters < kernel.parameter_bytes) {
    throw Error("kernel " + Quoted(kernel.name) + ": " + std::to_string(parameters) +
                " bytes of parameters instead of " + std::to_string(kernel.parameter_bytes));
  }
}

Outcome LoadedModule::Run(const Kernel& kernel, const Launch& launch, std::span<const std::byte> parameters,
                          const Options& options) {
  CheckLaunch(kernel, launch, parameters.size());
  const Entry& entry = FindEntry(kernel);
  LaunchState state{entry.program, kernel, launch, options, memory_, parameters};
  try {
    Block block(state);
    uint32_t index = 0;
    for (unsigned z = 0; z < launch.grid.z; ++z) {
      for (unsigned y = 0; y < launch.grid.y; ++y) {
        for (unsigned x = 0; x < launch.grid.x; ++x) block.Run({x, y, z}, index++);
      }
    }
  } catch (const EndLaunch&) {
  }
  return std::move(state.outcome);
}

}  // namespace

std::unique_ptr<Module> Module::Load(std::string_view text, Memory& memory) {
#if defined(__AVX2__) && defined(__FMA__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    throw Error("this program needs a processor with AVX2 and FMA to interpret PTX");
  }
#endif
  return std::make_unique<LoadedModule>(text, memory);
}

}  // namespace ingot::standin::ptx
