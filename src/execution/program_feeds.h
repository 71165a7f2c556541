// Converts a program's or a cell's output to responses in an API's format.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "execution/feed.h"
#include "execution/store.h"

namespace ingot::execution {

// Formats a stream's parts. The functions are called in order, so they may keep state.
struct ProgramWords {
  http::StreamHead head;
  std::function<std::string(const Process&)> start;
  std::function<std::string(const Chunk&)> chunk;
  std::function<std::string(const ProcessEnd&)> end;
  bool ends_program = false;  // true = the program is killed if the client disconnects
};
std::shared_ptr<Feed> MakeProgramFeed(std::shared_ptr<HeldSession> held, Session::StartedProgram started,
                                      ProgramWords words);

struct CellWords {
  http::StreamHead head;
  std::function<std::string(const CellEvent&)> event;
};
// Runs the cell in the interpreter. If the client disconnects, the cell is canceled.
absl::StatusOr<std::shared_ptr<Feed>> MakeCellFeed(std::shared_ptr<HeldSession> held,
                                                   std::shared_ptr<Interpreter> interpreter, CellRequest request,
                                                   CellWords words, std::function<void()> wake);
// Same as MakeCellFeed, but produces one response with at most `output_bytes` of output. Interrupts cells with more
// output.
absl::StatusOr<std::shared_ptr<Feed>> MakeWholeCell(std::shared_ptr<HeldSession> held,
                                                    std::shared_ptr<Interpreter> interpreter, CellRequest request,
                                                    size_t output_bytes, std::function<void()> wake);

// Return the formats for the service's own streams (service.h).
ProgramWords OwnProgramWords();
CellWords OwnCellWords();

}  // namespace ingot::execution
