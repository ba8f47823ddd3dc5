// Softmax along the last dimension, and the negative log-likelihood of given classes.
#include <tandem/core/cuda/backend.h>
#include <tandem/core/cuda/index_check.h>
#include <tandem/core/cuda/layout.h>
#include <tandem/core/cuda/rows.h>

namespace tandem {
namespace {

gpu::NllPlaces nll_places(const Array& logp, const Array& target, const Array& loss,
                          const Array& row_weight, std::int64_t ignore_index) {
  const auto narrow = [](std::int64_t size) {
    return gpu::narrow<std::uint32_t>("cross_entropy", size, gpu::kMostElements);
  };
  return {.rows = narrow(logp.size(0)),
          .classes = gpu::Divisor(std::max(narrow(logp.size(1)), 1u)),
          .logp_row = logp.strides()[0],
          .logp_class = logp.strides()[1],
          .target = target.strides()[0],
          .weight = 0,
          .loss = loss.strides()[0],
          .row_weight = row_weight.strides()[0],
          .ignore_index = ignore_index};
}

}  // namespace

void CudaBackend::softmax(bool log, const Array& x, Array& y) {
  if (y.numel() == 0) return;
  gpu::refuse_float64("softmax", x);
  launch("softmax", [&](cudaStream_t s) {
    gpu::for_each_rows<2>({&y, &x}, [&](const gpu::RowPlaces<2>& places, const auto& offset) {
      gpu::launch_softmax(log, x.dtype(), places, x.data() + offset[1], y.fresh_data() + offset[0],
                          s);
    });
  });
}

void CudaBackend::softmax_grad(bool log, const Array& y, const Array& dy, Array& dx) {
  if (dx.numel() == 0) return;
  gpu::refuse_float64("softmax", y);
  launch("softmax_grad", [&](cudaStream_t s) {
    gpu::for_each_rows<3>({&dx, &y, &dy}, [&](const gpu::RowPlaces<3>& places, const auto& offset) {
      gpu::launch_softmax_grad(log, y.dtype(), places, y.data() + offset[1], dy.data() + offset[2],
                               dx.fresh_data() + offset[0], s);
    });
  });
}

void CudaBackend::nll(const Array& logp, const Array& target, const Array& weight,
                      std::int64_t ignore_index, Array& loss, Array& row_weight) {
  if (loss.numel() == 0) return;
  gpu::refuse_float64("cross_entropy", logp);
  const std::int64_t classes = logp.size(1);
  if (const auto bad = gpu::first_outside(*this, target, classes, ignore_index)) {
    check(false, "[cross_entropy] target ", bad->value, " of row ", bad->position,
          " is outside [0, ", classes, ")");
  }
  gpu::NllPlaces places = nll_places(logp, target, loss, row_weight, ignore_index);
  if (weight.defined()) places.weight = weight.strides()[0];
  launch("nll", [&](cudaStream_t s) {
    gpu::launch_nll(logp.dtype(), places, logp.data(), target.data<std::int64_t>(),
                    weight.defined() ? weight.data<float>() : nullptr, loss.fresh_data<float>(),
                    row_weight.fresh_data<float>(), s);
  });
}

void CudaBackend::nll_grad(const Array& target, const Array& row_weight, std::int64_t ignore_index,
                           const Array& dloss, Array& dlogp) {
  if (dlogp.numel() == 0) return;
  gpu::refuse_float64("cross_entropy", dlogp);
  gpu::NllPlaces places = nll_places(dlogp, target, dloss, row_weight, ignore_index);
  const std::int64_t most = gpu::kMostElements / dlogp.size(1);
  launch("nll_grad", [&](cudaStream_t s) {
    for (std::int64_t row = 0; row < dlogp.size(0); row += most) {
      places.rows = gpu::narrow<std::uint32_t>("nll", std::min(most, dlogp.size(0) - row));
      gpu::launch_nll_grad(
          dlogp.dtype(), places, target.data<std::int64_t>() + row * places.target,
          row_weight.data<float>() + row * places.row_weight,
          dloss.data<float>() + row * places.loss,
          dlogp.fresh_data() + row * places.logp_row * std::int64_t(size_of(dlogp.dtype())), s);
    }
  });
}

}  // namespace tandem
