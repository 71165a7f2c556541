// Where the variables lie that a kernel and the functions it calls name.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "standin/ptx/machine.h"
#include "standin/ptx/program.h"

namespace ingot::standin::ptx {

// What a module's functions share.
class Symbols {
 public:
  virtual ~Symbols() = default;
  virtual const Variable* FindVariable(std::string_view name) const = 0;
  virtual const VariableSyntax* FindShared(
      std::string_view name) const = 0;  // shared memory declared outside of functions
  virtual const FunctionSyntax* FindFunction(std::string_view name) const = 0;  // null if the module has no body of it
};

struct Place {
  Space space = Space::kGlobal;
  uint64_t address = 0;
  size_t bytes = 0;
  bool of_call =
      false;  // an argument or a result of a call, which lies in local memory: ld.param and st.param reach it
};

// The function that a `call` names: its first operand that is not a list, or null.
const OperandSyntax* CalleeOf(const Statement& statement);

// Reserves shared memory for `kernel` and all that it calls: first what they declare, then what they name of the module's, and last the
// dynamic variables, which all begin at the same place.
void LayOutShared(const FunctionSyntax& kernel, const Symbols& symbols, Program& program);

// The variables of one function.
class Layout {
 public:
  Layout(const FunctionSyntax& function, const Symbols& symbols, Program& program)
      : function_(function), symbols_(symbols), program_(program) {}

  // A kernel's parameters, in the block that a launch copies.
  void AddKernelParameters();
  // A function's results and parameters are what its caller declared for the call.
  void AddCallParameters(const std::vector<Place>& places);
  // Local memory, and the parameters of calls that the function makes.
  void AddLocals();

  // The variable that `name` means in `scope`, or nothing.
  std::optional<Place> Find(std::string_view name, uint32_t scope) const;

 private:
  const FunctionSyntax& function_;
  const Symbols& symbols_;
  Program& program_;
  std::map<std::pair<uint32_t, std::string_view>, Place> own_;  // by scope and name
};

}  // namespace ingot::standin::ptx
