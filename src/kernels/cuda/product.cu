#include "kernels/cuda/launch.h"
#include "kernels/cuda/product_launch.h"
#include "kernels/cuda/product_mma.cuh"
#include "kernels/cuda/product_plain.cuh"

namespace ingot::kernels::cuda {
namespace {

template <typename T>
cudaError_t LaunchTiles(void (*kernel)(ProductArgs<T>), const ProductArgs<T>& args, int rows, int cols, int threads,
                        size_t shared_bytes, cudaStream_t stream) {
  int64_t blocks = args.row_tiles(rows) * args.col_tiles(cols);
  for (const auto& layer : args.more) blocks += args.row_tiles(rows) * args.Alone(layer).col_tiles(cols);
  if (blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;
  return Launch(kernel, dim3(static_cast<unsigned>(blocks)), static_cast<unsigned>(threads), shared_bytes, stream,
                args);
}

template <const ProductTile& kTile>
cudaError_t LaunchMma(const ProductArgs<BFloat16>& args, cudaStream_t stream) {
  return LaunchTiles<BFloat16>(ProductMmaKernel<kTile.rows, kTile.cols, kTile.down, kTile.stages>, args, kTile.rows,
                               kTile.cols, kProductThreads, SharedBytes(kTile), stream);
}

template <typename T, int kRows>
cudaError_t LaunchPlain(const ProductArgs<T>& args, cudaStream_t stream) {
  return LaunchTiles<T>(ProductKernel<T, kRows>, args, kRows, kPlainCols, kPlainProductThreads, 0, stream);
}

}  // namespace

template <typename T>
cudaError_t LaunchProduct(const ProductArgs<T>& args, cudaStream_t stream) {
  if (args.rows == 0 || args.out == 0) return cudaSuccess;
  if ((args.y == nullptr) == (args.wide == nullptr)) return cudaErrorInvalidValue;
  if (args.more[0].out > 0 && args.y == nullptr) return cudaErrorInvalidValue;
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (UsesMmaProduct<T>(args.in)) {
      const bool aligned =
          Aligned(args.x) && Aligned(args.weight) && Aligned(args.more[0].weight) && Aligned(args.more[1].weight);
      if (!aligned) return cudaErrorInvalidValue;
      const int rows = TileOf(args.rows).rows;
      return rows == kFewRows.rows    ? LaunchMma<kFewRows>(args, stream)
             : rows == kSomeRows.rows ? LaunchMma<kSomeRows>(args, stream)
                                      : LaunchMma<kManyRows>(args, stream);
    }
  }
  return args.rows <= kPlainFewRows ? LaunchPlain<T, kPlainFewRows>(args, stream)
                                    : LaunchPlain<T, kPlainManyRows>(args, stream);
}

template cudaError_t LaunchProduct<BFloat16>(const ProductArgs<BFloat16>&, cudaStream_t);
template cudaError_t LaunchProduct<float>(const ProductArgs<float>&, cudaStream_t);
template cudaError_t LaunchProduct<double>(const ProductArgs<double>&, cudaStream_t);

}  // namespace ingot::kernels::cuda
