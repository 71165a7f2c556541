// gpu_primitives [--small] [--dumps FOLDER]: runs single instructions on device 0 and prints a JSON line for each: whether its results are
// those that the kernels rely on and, for mma, how many equal each model of its sums (standin/ptx/matrix_sum.h). FOLDER gets the raw results,
// one file per line; the inputs follow from the fixed seed. --small takes fewer inputs. Exit code 0 = all are as expected.
#include <cuda_runtime_api.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/primitives/primitives.h"
#include "standin/ptx/half.h"
#include "standin/ptx/matrix_sum.h"

namespace ingot::kernels::primitives {
namespace {

namespace ptx = standin::ptx;

void Check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

// Device memory with a vector's contents.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& host) : count_(host.size()) {
    Check(cudaMalloc(&pointer_, Bytes()), "cudaMalloc");
    Check(cudaMemcpy(pointer_, host.data(), Bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~OnDevice() { cudaFree(pointer_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  T* get() const { return static_cast<T*>(pointer_); }
  std::vector<T> Read() const {
    std::vector<T> host(count_);
    Check(cudaMemcpy(host.data(), pointer_, Bytes(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return host;
  }

 private:
  size_t Bytes() const { return count_ * sizeof(T); }
  size_t count_;
  void* pointer_ = nullptr;
};

struct Options {
  bool small = false;
  std::string dumps;  // empty = none
};

class Results {
 public:
  explicit Results(const Options& options) : options_(options) {}

  // `more` are further members of the JSON object, each with a comma before it.
  template <typename T>
  void Add(const std::string& name, bool ok, const std::string& more, const std::vector<T>& raw) {
    failed_ += !ok;
    std::printf("{\"primitive\": \"%s\", \"ok\": %s, \"results\": %zu%s}\n", name.c_str(), ok ? "true" : "false",
                raw.size(), more.c_str());
    std::fflush(stdout);
    if (!options_.dumps.empty()) Dump(name, raw.data(), raw.size() * sizeof(T));
  }
  int failed() const { return failed_; }

 private:
  void Dump(std::string name, const void* data, size_t bytes) const {
    for (char& c : name) c = c == ' ' ? '-' : c;
    std::ofstream file(options_.dumps + "/" + name + ".bin", std::ios::binary);
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    if (!file) throw std::runtime_error("cannot write " + options_.dumps + "/" + name + ".bin");
  }

  const Options& options_;
  int failed_ = 0;
};

struct Form {
  const char* name;
  Matrix matrix;
  ptx::MatrixShape shape;
};
constexpr Form kForms[] = {
    {"mma m16n8k16 f16", Matrix::kHalf16, {ptx::MatrixType::kHalf, 16, false}},
    {"mma m16n8k8 f16", Matrix::kHalf8, {ptx::MatrixType::kHalf, 8, false}},
    {"mma m16n8k16 bf16", Matrix::kBfloat16, {ptx::MatrixType::kBfloat, 16, false}},
    {"mma m16n8k8 bf16", Matrix::kBfloat8, {ptx::MatrixType::kBfloat, 8, false}},
    {"mma m16n8k8 tf32", Matrix::kTf32x8, {ptx::MatrixType::kTf32, 8, false}},
    {"mma m16n8k4 tf32", Matrix::kTf32x4, {ptx::MatrixType::kTf32, 4, false}},
};

// A float of a random sign, of 24 exponents around 1, and with the fraction bits that every type here holds exactly in a product.
float RandomFactor(std::mt19937& random) {
  const uint32_t bits = random(), exponent = 115 + random() % 24;
  return std::bit_cast<float>((bits & 0x807f0000) | (exponent << 23));
}

struct Operands {
  float a[16][16] = {}, b[8][16] = {}, c[16][8] = {};
};

Operands RandomOperands(std::mt19937& random, int depth) {
  Operands o;
  for (auto& row : o.a) {
    for (int k = 0; k < depth; ++k) row[k] = RandomFactor(random);
  }
  for (auto& row : o.b) {
    for (int k = 0; k < depth; ++k) row[k] = RandomFactor(random);
  }
  for (auto& row : o.c) {
    for (float& x : row) x = RandomFactor(random) * 256;
  }
  return o;
}

uint32_t Bits(float x, ptx::MatrixType type) {
  if (type == ptx::MatrixType::kHalf) return ptx::Half::From(x);
  return type == ptx::MatrixType::kBfloat ? ptx::Bfloat::From(x) : std::bit_cast<uint32_t>(x);
}

// The words of the lanes, as the PTX ISA lays fragments out: register r of a has row lane / 4 (+ 8 if r is odd) and, from `pack` times
// lane % 4 on, `pack` elements of the depth, later registers 4 pack further.
void Scatter(const Operands& o, const ptx::MatrixShape& shape, uint32_t* words) {
  const int pack = shape.type == ptx::MatrixType::kTf32 ? 1 : 2, registers = shape.depth / pack / 2;
  for (int lane = 0; lane < kLanes; ++lane) {
    uint32_t* const to = words + lane * kMatrixWords;
    for (int i = 0; i < pack; ++i) {
      const int shift = 16 * i, first = lane % 4 * pack + i;
      for (int r = 0; r < registers; ++r)
        to[r] |= Bits(o.a[lane / 4 + 8 * (r % 2)][first + r / 2 * 4 * pack], shape.type) << shift;
      for (int r = 0; r < registers / 2; ++r)
        to[4 + r] |= Bits(o.b[lane / 4][first + r * 4 * pack], shape.type) << shift;
    }
    for (int i = 0; i < 4; ++i) to[6 + i] = std::bit_cast<uint32_t>(o.c[lane / 4 + 8 * (i / 2)][lane % 4 * 2 + i % 2]);
  }
}

struct Sums {
  size_t ascending = 0, tensor_core = 0;  // results that equal the model's to the bit
  double error = 0;                       // the greatest, as a share of the sum of the terms' magnitudes
};

void Compare(const Operands& o, const ptx::MatrixShape& shape, const float* results, Sums& sums) {
  float ascending[16][8], tensor_core[16][8];
  ptx::MultiplyAdd(shape, true, o.a, o.b, o.c, ascending);
  ptx::MultiplyAdd(shape, false, o.a, o.b, o.c, tensor_core);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
      const float got = results[lane * 4 + i];
      sums.ascending += got == ascending[row][column];
      sums.tensor_core += got == tensor_core[row][column];
      double exact = o.c[row][column], magnitude = std::fabs(exact);
      for (int k = 0; k < shape.depth; ++k) {
        const double term = static_cast<double>(o.a[row][k]) * o.b[column][k];
        exact += term;
        magnitude += std::fabs(term);
      }
      const double error = std::fabs(got - exact) / magnitude;
      sums.error = error <= sums.error ? sums.error : error;  // not-a-number stays
    }
  }
}

// The tensor cores cut each term off at 2^-24 of the greatest; 17 terms.
constexpr double kMatrixError = 17.0 / (1 << 24);

void CheckMatrix(const Form& form, int count, Results& results) {
  std::mt19937 random(1);
  std::vector<Operands> operands;
  std::vector<uint32_t> words(static_cast<size_t>(count) * kLanes * kMatrixWords);
  for (int i = 0; i < count; ++i) {
    operands.push_back(RandomOperands(random, form.shape.depth));
    Scatter(operands.back(), form.shape, words.data() + static_cast<size_t>(i) * kLanes * kMatrixWords);
  }
  const OnDevice<uint32_t> in(words);
  const OnDevice<float> out(std::vector<float>(static_cast<size_t>(count) * kLanes * 4));
  Check(LaunchMatrix(form.matrix, in.get(), out.get(), count), form.name);
  const std::vector<float> got = out.Read();
  Sums sums;
  for (int i = 0; i < count; ++i)
    Compare(operands[i], form.shape, got.data() + static_cast<size_t>(i) * kLanes * 4, sums);
  char more[160];
  std::snprintf(more, sizeof(more),
                ", \"equal_ascending\": %zu, \"equal_tensor_core\": %zu, \"error\": %.3g, \"allowed\": %.3g",
                sums.ascending, sums.tensor_core, sums.error, kMatrixError);
  results.Add(form.name, sums.error <= kMatrixError, more, got);
}

struct Function {
  const char* name;
  Approximate f;
  double (*exact)(double);
  bool absolute;  // the error counts from 1 on downward as such, since the function has a root
};
constexpr Function kFunctions[] = {
    {"ex2.approx", Approximate::kExp2, [](double x) { return std::exp2(x); }, false},
    {"lg2.approx", Approximate::kLog2, [](double x) { return std::log2(x); }, true},
    {"rcp.approx", Approximate::kReciprocal, [](double x) { return 1 / x; }, false},
    {"rsqrt.approx", Approximate::kReciprocalRoot, [](double x) { return 1 / std::sqrt(x); }, false},
};
constexpr double kApproximateError = 1.0 / (1 << 21);  // four units in the last place

// Every sign and exponent, with `fractions` fractions each: zeros, subnormals, infinities, and not-a-numbers included.
std::vector<float> AllExponents(int fractions) {
  std::vector<float> values;
  for (uint32_t head = 0; head < 512; ++head) {
    for (int i = 0; i < fractions; ++i) {
      values.push_back(std::bit_cast<float>(head << 23 | static_cast<uint32_t>(i) * (0x800000 / fractions)));
    }
  }
  return values;
}

// 0 where the fp32 result is no normal number: its exact form is in the dump.
double ErrorOf(const Function& function, float x, float got) {
  const double exact = function.exact(x), magnitude = std::fabs(exact);
  if (!std::isfinite(exact)) return 0;
  if (magnitude < 0x1p-126 || magnitude >= 0x1p127 || std::fpclassify(x) == FP_SUBNORMAL) return 0;
  const double error = std::fabs(got - exact);
  return function.absolute && magnitude < 1 ? error : error / magnitude;
}

void CheckFunction(const Function& function, int fractions, Results& results) {
  const std::vector<float> inputs = AllExponents(fractions);
  const OnDevice<float> in(inputs), out(inputs);
  Check(LaunchApproximate(function.f, in.get(), out.get(), static_cast<int>(inputs.size())), function.name);
  const std::vector<float> got = out.Read();
  double greatest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = ErrorOf(function, inputs[i], got[i]);
    greatest = error <= greatest ? greatest : error;  // not-a-number stays
  }
  char more[80];
  std::snprintf(more, sizeof(more), ", \"error\": %.3g, \"allowed\": %.3g", greatest, kApproximateError);
  results.Add(function.name, greatest <= kApproximateError, more, got);
}

void CheckLoadMatrix(bool transposed, Results& results) {
  std::vector<uint16_t> elements(4 * 8 * 8);
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<uint16_t>(i + 1);
  const OnDevice<uint16_t> in(elements);
  const OnDevice<uint32_t> out(std::vector<uint32_t>(kLanes * 4));
  const char* name = transposed ? "ldmatrix x4 trans" : "ldmatrix x4";
  Check(LaunchLoadMatrix(transposed, in.get(), out.get()), name);
  const std::vector<uint32_t> got = out.Read();
  bool ok = true;
  for (int lane = 0; lane < kLanes; ++lane) {  // has elements 2 (lane % 4) and the next of row lane / 4, of each matrix
    const int row = lane / 4, column = lane % 4 * 2, step = transposed ? 8 : 1;
    for (int m = 0; m < 4; ++m) {
      const int first = m * 64 + (transposed ? column * 8 + row : row * 8 + column);
      ok &= got[lane * 4 + m] == (elements[first] | static_cast<uint32_t>(elements[first + step]) << 16);
    }
  }
  results.Add(name, ok, "", got);
}

void CheckAsyncCopy(Results& results) {
  std::vector<uint8_t> bytes(kLanes * 16);
  std::vector<uint32_t> kept(kLanes);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i % 251 + 1);
  for (uint32_t lane = 0; lane < kLanes; ++lane) kept[lane] = lane % 17;
  const OnDevice<uint8_t> in(bytes), out(bytes);
  const OnDevice<uint32_t> counts(kept);
  Check(LaunchAsyncCopy(in.get(), counts.get(), out.get()), "cp.async");
  const std::vector<uint8_t> got = out.Read();
  bool ok = true;
  for (size_t i = 0; i < got.size(); ++i) ok &= got[i] == (i % 16 < kept[i / 16] ? bytes[i] : 0);
  results.Add("cp.async 16 zero fill", ok, "", got);
}

bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--small") == 0) {
      options.small = true;
    } else if (std::strcmp(argv[i], "--dumps") == 0 && i + 1 < argc) {
      options.dumps = argv[++i];
    } else {
      return false;
    }
  }
  return true;
}

int Main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, options)) {
    std::fprintf(stderr, "gpu_primitives [--small] [--dumps FOLDER]\n");
    return 2;
  }
  Results results(options);
  for (const Form& form : kForms) CheckMatrix(form, options.small ? 20 : 800, results);
  for (const Function& function : kFunctions) CheckFunction(function, options.small ? 8 : 128, results);
  CheckLoadMatrix(false, results);
  CheckLoadMatrix(true, results);
  CheckAsyncCopy(results);
  std::printf("{\"primitives_failed\": %d}\n", results.failed());
  return results.failed() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ingot::kernels::primitives

int main(int argc, char** argv) {
  try {
    return ingot::kernels::primitives::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_primitives: %s\n", error.what());
    return 1;
  }
}
