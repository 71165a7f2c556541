// Calls of device functions. A function's code stands after each call of it (Program), so a call is a branch of those lanes that skip it.
#include "standin/ptx/block.h"
#include "standin/ptx/decoder.h"
#include "standin/ptx/lanes.h"

namespace ingot::standin::ptx {
namespace {

void Nothing(Warp&, const Instruction&, uint32_t) {}
void Branch(Warp& w, const Instruction& in, uint32_t lanes) { w.Branch(in.target, lanes); }
void Exit(Warp& w, const Instruction&, uint32_t lanes) { w.Exit(lanes); }

// Text of the device's memory up to its end, or as much as is there.
std::string ReadText(Memory& memory, uint64_t address) {
  constexpr size_t kMost = 200;
  std::string text;
  for (const std::byte* at; text.size() < kMost && (at = memory.At(address + text.size(), 1)) != nullptr;) {
    if (*at == std::byte{0}) break;
    text += static_cast<char>(*at);
  }
  return text;
}

// __assertfail(message, file, line, function, size of a character): the list has where the first three lie in local memory.
void FailAssertion(Warp& w, const Instruction& in, uint32_t lanes) {
  const int lane = __builtin_ctz(lanes);
  LaunchState& launch = w.block().launch();
  const std::byte* const own = w.local() + lane * ((launch.program.local_bytes + 15) / 16 * 16);
  uint64_t message = 0, file = 0;
  uint32_t line = 0;
  std::memcpy(&message, own + in.list[0].offset, sizeof(message));
  std::memcpy(&file, own + in.list[1].offset, sizeof(file));
  std::memcpy(&line, own + in.list[2].offset, sizeof(line));
  w.Fault("assert", lane,
          ReadText(launch.memory, file) + ":" + std::to_string(line) + ": " + ReadText(launch.memory, message));
  throw EndLaunch();
}

bool DecodeAssertion(Decoder& d, const std::vector<Place>& places, Instruction& in) {
  if (places.size() != 5) d.Fail("__assertfail has five arguments");
  std::vector<WideSlot> list;
  for (size_t i = 0; i < 3; ++i) list.push_back({{places[i].address, 0}, static_cast<uint8_t>(places[i].bytes)});
  d.KeepList(in, std::move(list));
  in.execute = FailAssertion;
  return true;
}

// The variables in the lists of a call: results, then arguments.
std::vector<Place> PlacesOf(Decoder& d, const Statement& s) {
  std::vector<Place> places;
  for (const OperandSyntax& o : s.operands) {
    if (o.kind != OperandSyntax::Kind::kVector) continue;
    for (const OperandSyntax& part : o.parts) {
      if (part.kind != OperandSyntax::Kind::kName) d.Fail("calls pass variables of .param alone");
      places.push_back(d.PlaceOf(part));
      if (!places.back().of_call) d.Fail("calls pass variables of .param alone");
    }
  }
  return places;
}

void CheckSignature(const Decoder& d, const FunctionSyntax& f, const Statement& s, const std::vector<Place>& places) {
  const bool returns = !s.operands.empty() && s.operands[0].kind == OperandSyntax::Kind::kVector;
  if (places.size() != f.parameters.size() || (returns ? s.operands[0].parts.size() : 0) != f.results) {
    d.Fail("the function has another number of parameters");
  }
  for (size_t i = 0; i < places.size(); ++i) {
    if (f.parameters[i].space != Space::kParam || f.parameters[i].bytes != places[i].bytes) {
      d.Fail("parameter " + std::to_string(i) + " of the function has another size");
    }
  }
}

// call{.uni} {(results),} function{, (arguments)}
bool DecodeCall(Decoder& d, const Statement& s, Instruction& in) {
  const OperandSyntax* const callee = CalleeOf(s);
  if (callee == nullptr || callee->kind != OperandSyntax::Kind::kName) d.Fail("indirect calls are not built");
  std::vector<Place> places = PlacesOf(d, s);
  const FunctionSyntax* const f = d.symbols().FindFunction(callee->name);
  if (f == nullptr && callee->name == "__assertfail") return DecodeAssertion(d, places, in);
  if (f == nullptr) d.Fail("the function \"" + std::string(callee->name) + "\" is not in the module, and not built");
  if (d.Calls(*f)) d.Fail("recursive calls are not built");
  CheckSignature(d, *f, s, places);
  in.execute = in.guarded ? Branch : Nothing;  // of the lanes that do not call
  in.guard_flip = ~in.guard_flip;
  d.Inline({&d, f, std::move(places)});
  return true;
}

bool DecodeReturn(Decoder& d, const Statement&, Instruction& in) {
  in.execute = d.call() == nullptr ? Exit : Branch;
  if (d.call() != nullptr) in.target = d.End();
  return true;
}

}  // namespace

std::span<const Rule> CallRules() {
  static constexpr Rule kRules[] = {{"call", DecodeCall}, {"ret", DecodeReturn}};
  return kRules;
}

}  // namespace ingot::standin::ptx
